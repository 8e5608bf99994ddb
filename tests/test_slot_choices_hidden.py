"""The server of slots learns no choice: two patterns of choices with equal sums in every slot give it equal views.

Clients put the same vector into a slot, whoever chooses it, so that who does changes no sum, count or weight. What the server
sees of several rounds is frames and answers. Kinds, parties, sizes, answers and disclosures must be the same; the words that
clients send must not let a classifier tell the patterns apart (AUC .5), and must where masks or shares are taken away, or where
clients encrypt what is empty only once. Nor must sizes, which vary as ciphertexts are compressed.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cloister.crypto.ckks
import cloister.protocol.masked.client
from cloister.crypto.ckks import SUMS
from cloister.crypto.ckks_ciphertexts import EncryptedVector, read_vector
from cloister.crypto.ckks_contexts import new_context
from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.core.link import Frame
from cloister.protocol.encrypted.messages import EncryptedInput
from cloister.protocol.messages import decode
from cloister.protocol.view.answers import Assignment, Model, Sum
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalJob, LocalWork

from .distinguisher import distinguish, of_words

D, K, ROUNDS, MOST = 400, 2, 2, 4
CLIENTS = tuple(range(6))
SLOTS = [np.random.default_rng(k).uniform(-3, 3, D).astype(np.float32) for k in range(K)]
HARD = {i: (1, 0) if i < 3 else (0, 1) for i in CLIENTS}, {i: (1, 0) if i % 2 else (0, 1) for i in CLIENTS}
SOFT = {i: (4, 1) if i < 3 else (1, 4) for i in CLIENTS}, {i: (4, 1) if i % 2 else (1, 4) for i in CLIENTS}
PATTERNS = {"hard": HARD, "soft": SOFT}
Shares = dict[int, tuple[int, ...]]


class Seen:
    """A run of several rounds. frames: all that was sent. answers: models and weights of the slots, round by round."""

    def __init__(self, protection: Any, shares: Shares, seed: int) -> None:
        self.frames: list[Frame] = []
        self.answers: list[Any] = []

        def workers(jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
            for job in jobs:
                rows = np.stack([vector * np.float32(share > 0) for vector, share in zip(SLOTS, shares[job.client], strict=True)])
                yield job.client, LocalWork(rows, 10, shares[job.client])

        def tap(frame: Frame, /) -> list[Frame]:
            self.frames.append(frame)
            return [frame]

        setup = Setup(bytes(16), np.zeros(D, np.float32), CLIENTS, workers, SimulatedEntropy(seed), tap)
        view = protection.open(setup)
        for t in range(ROUNDS):
            slots = view.slots(t, "models", Assignment(Model("init"), CLIENTS, CLIENTS, (Model("init"),)), MOST)
            there = [slot for slot in slots if isinstance(slot, Sum)]
            self.answers += [
                (slot.weight, slot.clients, view.harness.observe(view.advance(Model("init"), slot))) for slot in there
            ]
            view.harness.retire([Model("init")], [])
        self.told = [e.as_dict() for e in view.record.log]

    def words(self, kind: str, bits: int) -> NDArray[Any]:
        """The words that clients sent in frames of this kind that are long enough, side by side: one row for each coordinate.

        Columns: client by client, round by round, both slots; then the differences between rounds, and between slots.
        """
        sent: dict[int, list[NDArray[Any]]] = {i: [] for i in CLIENTS}
        for frame in (f for f in self.frames if f.kind == kind and len(f.data) > D * K * bits // 8):
            words = np.frombuffer(decode(frame.data, frame.sender, len(frame.data)).message.vector, f"<u{bits // 8}")  # type: ignore[attr-defined]
            sent[frame.sender].append(words[-K * (D + 1) :].reshape(K, D + 1)[:, :D])
        assert {len(of) for of in sent.values()} == {ROUNDS}
        columns = [row for of in sent.values() for rows in of for row in rows]
        columns += [of[0][k] - of[1][k] for of in sent.values() for k in range(K)]
        columns += [rows[0] - rows[1] for of in sent.values() for rows in of]
        return np.stack(columns, axis=1)

    def ciphertexts(self) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
        """What clients encrypted: a row for each of the first D coefficients of either polynomial of a ciphertext; and the sizes
        in bytes, float64 (clients * ROUNDS, 1 + K).

        Columns: 32 of the 60 bits of the first prime, clients by rounds by ciphertexts (counts, then a slot each); then the
        differences between rounds, between a client's slots, and between clients that follow each other.
        """
        reading = new_context(SUMS)  # its key opens none of them
        sent: dict[int, list[EncryptedVector]] = {i: [] for i in CLIENTS}
        for frame in (f for f in self.frames if f.kind == "EncryptedInput"):
            message = decode(frame.data, frame.sender, len(frame.data)).message
            assert isinstance(message, EncryptedInput)
            sent[frame.sender].append(read_vector(reading, SUMS, message.ciphertexts, (1 + K) * SUMS.slots, level=0))
        assert {len(of) for of in sent.values()} == {ROUNDS}
        rows = []
        for polynomial in range(2):
            at = [2 * SUMS.degree * polynomial + j for j in range(D)]
            found = np.array([[[[c.ciphertext()[0][j] for j in at] for c in v.chunks] for v in of] for of in sent.values()])
            words = (found.astype(np.uint64) >> np.uint64(28)).astype(np.uint32)  # (clients, rounds, ciphertexts, D)
            parts = [words, words[:, 0] - words[:, 1], words[:, :, 1] - words[:, :, 2], words[1:] - words[:-1]]
            rows.append(np.concatenate([part.reshape(-1, D) for part in parts]).T)
        sizes = [[len(c.serialize()) for c in v.chunks] for of in sent.values() for v in of]
        return np.concatenate(rows), np.array(sizes, dtype=np.float64)


def words_of(protection: Any, shares: Shares, kind: str, bits: int, seeds: range) -> NDArray[Any]:
    return of_words(np.concatenate([Seen(protection, shares, seed).words(kind, bits) for seed in seeds]), bits)


def encrypted_words(shares: Shares, runs: range) -> tuple[NDArray[Any], NDArray[Any]]:
    """Of some runs under `Encrypted`: features of coefficients, and sizes of inputs."""
    found = [Seen(Encrypted(floor=2), shares, seed).ciphertexts() for seed in runs]
    return of_words(np.concatenate([words for words, _ in found]), 32), np.concatenate([sizes for _, sizes in found])


HIDING = [Masked(floor=2, slot_spare=0), TwoServer(floor=2), Encrypted(floor=2)]


@pytest.mark.parametrize("pattern", ["soft", pytest.param("hard", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "protection", [*HIDING[:2], pytest.param(HIDING[2], marks=pytest.mark.slow)], ids=lambda p: type(p).__name__
)
def test_frames_answers_and_disclosures_are_the_same(protection: Any, pattern: str) -> None:
    exact = not isinstance(protection, Encrypted)
    one, other = (Seen(protection, shares, 5) for shares in PATTERNS[pattern])
    assert one.told == other.told
    shapes = [[(f.kind, f.sender, f.receiver, len(f.data) if exact else 0) for f in seen.frames] for seen in (one, other)]
    assert shapes[0] == shapes[1]
    assert len(one.answers) == ROUNDS * K
    for (weight, clients, mean), (weight_too, clients_too, mean_too) in zip(one.answers, other.answers, strict=True):
        assert (weight, clients) == (weight_too, clients_too)
        assert np.array_equal(mean, mean_too) if exact else np.allclose(mean, mean_too, atol=1e-5)


@pytest.mark.parametrize("pattern", ["hard", pytest.param("soft", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("protection", "kind", "bits"),
    [(HIDING[0], "MaskedInput", 32), pytest.param(HIDING[1], "SlotShare", 64, marks=pytest.mark.slow)],
    ids=["Masked", "TwoServer"],
)
def test_no_classifier_tells_two_patterns_of_choices_apart(protection: Any, kind: str, bits: int, pattern: str) -> None:
    one, other = (
        words_of(protection, shares, kind, bits, range(100 * k, 100 * k + 2)) for k, shares in enumerate(PATTERNS[pattern])
    )
    verdict = distinguish(one, other, classifiers=("logistic", "trees"))
    assert verdict.blind, str(verdict)


@pytest.mark.long
def test_without_masks_or_where_choices_are_uploaded_they_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same classifiers, the same features."""
    masked = cloister.protocol.masked.client.masked  # counts keep their masks, or there is no second session
    monkeypatch.setattr(
        cloister.protocol.masked.client, "masked", lambda vector, keys: vector.copy() if len(vector) > K else masked(vector, keys)
    )
    bare = [words_of(HIDING[0], shares, "MaskedInput", 32, range(2)) for shares in SOFT]
    assert distinguish(*bare, classifiers=("trees",)).told_apart
    for shown in (Plain(), Permuted(floor=1)):
        one, other = (Seen(shown, shares, 5) for shares in HARD)
        sent = [{f.sender: f.data for f in seen.frames if f.kind == "Upload"} for seen in (one, other)]
        assert sent[0] != sent[1]
        assert any("which slots it chose" in entry["words"] for entry in one.told)


@pytest.mark.slow
@pytest.mark.parametrize("pattern", list(PATTERNS))
def test_no_classifier_tells_two_patterns_of_choices_apart_by_ciphertexts(pattern: str) -> None:
    runs = [encrypted_words(shares, range(100 * k, 100 * k + 2)) for k, shares in enumerate(PATTERNS[pattern])]
    verdict = distinguish(runs[0][0], runs[1][0], classifiers=("logistic", "trees"))
    assert verdict.blind, str(verdict)
    first = np.concatenate([np.tile(np.repeat([s[0] > s[1] for s in of.values()], ROUNDS), 2) for of in PATTERNS[pattern]])
    sizes = np.concatenate([of for _, of in runs])  # by what each client chose: both patterns have as many clients of either slot
    verdict = distinguish(sizes[first], sizes[~first], classifiers=("logistic",))
    assert verdict.blind, str(verdict)
    sizes[first, 2] -= 5000  # of 235,000 bytes, if what is empty were sent shorter
    assert distinguish(sizes[first], sizes[~first], classifiers=("logistic",)).told_apart


@pytest.mark.slow
def test_where_what_is_empty_is_encrypted_once_ciphertexts_tell_the_patterns_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same features: clients who send one ciphertext for all slots that they did not choose show which."""
    encrypted, empty = cloister.crypto.ckks.encrypted, dict[bytes, Any]()

    def thrifty(context: Any, parameters: Any, values: Any) -> EncryptedVector:
        key = context.serialize(True, False, False, False)
        done, rows = encrypted(context, parameters, values), np.asarray(values).reshape(-1, SUMS.slots)
        chunks = (c if row.any() else empty.setdefault(key, c) for c, row in zip(done.chunks, rows, strict=True))
        return EncryptedVector(parameters, done.length, tuple(chunks))

    monkeypatch.setattr(cloister.crypto.ckks, "encrypted", thrifty)
    (one, _), (other, _) = (encrypted_words(shares, range(1)) for shares in HARD)
    assert distinguish(one, other, classifiers=("trees",)).told_apart
