"""What a client of the encrypted sum and scores opens: sums of enough clients, slots that enough chose, rounded scores.

Spec: specs/encrypted.md. The other steps: client.py.
"""

import struct
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...crypto.ckks import MOST_DIGITS
from ...crypto.ckks_ciphertexts import InvalidCiphertext
from ..core.errors import NO_COUNTS, NO_SLOTS, NO_SUM, ProtocolError
from ..core.session import SERVER, Session
from ..drivers.roles import Effect, Learned, Send
from ..wire.codec import Envelope
from .client_phases import SCORES, SUM, IdleEncryptor, joined, once_of, weighting_of
from .keys import opened_secret
from .messages import MOST_SLOTS, EncryptedSum, OpenSlots, RoundedScores, ScoreRequest, SumOpened
from .scaling import is_test_product, opened, rounded_cosines, rounded_norms
from .slots import PROTOCOL as SLOTS


def open_sum(state: IdleEncryptor, digest: bytes, total: EncryptedSum) -> tuple[IdleEncryptor, tuple[Effect, ...]]:
    """Open the sum of enough clients: how many and of what weight is in the sum itself, as those said who encrypted it.

    A server that computes on ciphertexts against the protocol can fake both (specs/encrypted.md, "Server active").
    """
    idle, session, spent = joined(state, digest, total, SUM, member=False)
    weighting = weighting_of(state.policy, total)
    if total.length != state.length_of(session):
        raise ProtocolError(f"a sum of {total.length} coordinates where {state.length_of(session)} belong", SERVER)
    _check_alive(session, total.alive)
    key = opened_secret(state.seed, state.key("sums", session), total.holder, total.public, total.sealed)
    try:
        values = key.decrypt(key.read(total.ciphertexts, total.length + 2)).rounded(MOST_DIGITS)
        found = opened(values, weighting, total.alive)
    except ValueError as error:
        raise ProtocolError(f"{NO_SUM}{error}", SERVER) from None
    learned = Learned(digest.hex(), digest, found.mean.astype("<f4", copy=False).tobytes())
    return idle, (spent, learned, _told(state, digest, [found.weight]))


def _told(state: IdleEncryptor, digest: bytes, numbers: Sequence[float]) -> Send:
    return Send(Envelope(digest, state.me, SERVER, SumOpened(struct.pack(f">{len(numbers)}d", *numbers))))


def _check_alive(session: Session, alive: tuple[int, ...]) -> None:
    if not set(alive) <= set(session.roster) or len(alive) < session.threshold:
        raise ProtocolError("survivors that are not on the roster, or too few", SERVER)


def open_counts(state: IdleEncryptor, digest: bytes, total: EncryptedSum) -> tuple[IdleEncryptor, tuple[Effect, ...]]:
    """Open how many chose each slot, remember it, and tell the server.

    How many slots there are is known to who gave an input to this session.
    """
    idle, session, spent = joined(state, digest, total, SUM, member=False)
    slots = state.slots_of(total.length, 1)  # no share is in counts
    if total.length > MOST_SLOTS:
        raise ProtocolError(f"counts of {total.length} slots where {MOST_SLOTS} are the most", SERVER)
    gave = ("EncryptedSumRequest", once_of(session)) in state.spent
    if gave and state.slots is not None and total.length != state.slots.count:
        raise ProtocolError(f"counts of {total.length} slots where {state.slots.count} belong", SERVER)
    _check_alive(session, total.alive)
    key = opened_secret(state.seed, state.key("sums", session), total.holder, total.public, total.sealed)
    try:
        found = slots.counts(key, total.ciphertexts, total.alive)
    except ValueError as error:
        raise ProtocolError(f"{NO_COUNTS}{error}", SERVER) from None
    earlier = state.counted if session.round <= state.round else {}
    return replace(idle, counted={**earlier, digest: found}), (spent, _told(state, digest, found.counts))


def open_slots(state: IdleEncryptor, digest: bytes, sums: OpenSlots) -> tuple[IdleEncryptor, tuple[Effect, ...]]:
    """Open the sums of slots that enough clients chose, by this member's own count of the same clients, and of no others."""
    idle, session, spent = joined(state, digest, sums, SUM, member=False)
    counted = state.counted.get(digest)
    if session.protocol != SLOTS or counted is None:
        raise ProtocolError("sums of slots whose counts were not opened here", SERVER)
    if sums.alive != counted.alive:
        raise ProtocolError("sums of slots of other clients than were counted", SERVER)
    slots = state.slots_of(len(counted.counts), sums.most)
    if not set(sums.slots) <= set(slots.chosen(counted.counts)):
        raise ProtocolError(f"a slot that fewer than {slots.floor} clients chose, or that is not there", SERVER)
    key = opened_secret(state.seed, state.key("sums", session), sums.holder, sums.public, sums.sealed)
    try:
        weights, means = slots.means(key, sums.ciphertexts, {k: counted.counts[k] for k in sums.slots})
    except ValueError as error:
        raise ProtocolError(f"{NO_SLOTS}{error}", SERVER) from None
    learned = [Learned(f"{digest.hex()}/{k}", digest, means[k].astype("<f4").tobytes()) for k in sums.slots]
    left = {other: found for other, found in state.counted.items() if other != digest}
    told = [*weights, sum(weights)]  # never equal to the counts, which it told before: an equal message would be a duplicate
    return replace(idle, counted=left), (spent, *learned, _told(state, digest, told))


def open_scores(state: IdleEncryptor, digest: bytes, request: ScoreRequest) -> tuple[IdleEncryptor, tuple[Effect, ...]]:
    """Open inner products and round them: what goes back is whole numbers of 10^-digits."""
    idle, session, spent = joined(state, digest, request, SCORES)
    if request.digits > state.policy.digits:
        raise ProtocolError(f"{request.digits} digits of a score where the policy gives {state.policy.digits}", SERVER)
    if request.columns and state.policy.keys != "run":
        raise ProtocolError("sketches of different rounds have different keys", SERVER)
    if request.rows > len(session.roster):
        raise ProtocolError("more sketches than clients", SERVER)
    key = opened_secret(state.seed, state.key("products", session), request.holder, request.public, request.sealed)
    try:
        values = np.array([key.decrypt(key.read_product(p)).rounded(MOST_DIGITS)[0] for p in request.products])
    except InvalidCiphertext as error:
        raise ProtocolError(f"an encrypted product that cannot be used: {error}", SERVER) from None
    if not np.isfinite(values).all():
        raise ProtocolError("a product that is not finite", SERVER)
    values, test = values[:-1], float(values[-1])
    if not is_test_product(test):
        raise ProtocolError("a key that cannot be used: its keys for products do not multiply", request.holder)
    return idle, (
        spent,
        Send(Envelope(digest, state.me, SERVER, scores_of(values, request.rows, request.columns, request.digits))),
    )


def scores_of(values: NDArray[np.float64], rows: int, columns: int, digits: int) -> RoundedScores:
    """Rounded norms and cosines from opened products in the order of `ScoreRequest`."""
    if columns:
        own, other, pairs = values[:rows], values[rows : rows + columns], values[rows + columns :].reshape(rows, columns)
        grid = np.ones((rows, columns))
        cosines = rounded_cosines(pairs, own[:, None] * grid, other[None, :] * grid, digits)
        return RoundedScores(b"", cosines.astype("<i4").tobytes())
    at = np.triu_indices(rows)
    square = np.zeros((rows, rows))
    square[at] = values
    own, upper = np.diag(square), np.triu_indices(rows, 1)
    cosines = rounded_cosines(square[upper], own[upper[0]], own[upper[1]], digits)
    return RoundedScores(rounded_norms(own, digits).astype("<i4").tobytes(), cosines.astype("<i4").tobytes())
