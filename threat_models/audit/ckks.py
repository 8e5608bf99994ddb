"""The secret key of `Encrypted`, from the decryptions that an observer is told, and what it opens (`inference.ckks_key`)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...crypto.ckks import PRODUCTS, SUMS, EncryptingContext, PublicContext
from ...protocol.encrypted.keys import KeyName, Purpose, hash_of, opened_secret
from ...protocol.encrypted.messages import (
    EncryptedInput,
    EncryptedSum,
    EncryptedSumRequest,
    KeyRequest,
    OfferedKey,
    RoundedScores,
    ScoreRequest,
    SketchRequest,
)
from ...protocol.encrypted.protection import Encrypted
from ...protocol.encrypted.scaling import MIDDLE, PER_LOG
from ...protocol.view.account import kind_of
from ..inference.ckks_key import opened, opened_by_client, recovered_key
from ..inference.ckks_ring import Ciphertext, Integers, randomness_of
from .experiment import Anchor, Budget, Evidence, Finding
from .labels import honest
from .reading import Instance, messages, sessions
from .truth import Truth
from .view import CorruptView

Values = NDArray[np.float64]
Reader = Callable[[bytes, int], Values]
"""What somebody who has a key makes of ciphertexts of so many values: those of the first ciphertext, float64."""
SHOWN = 4
"""Numbers of 60 bits by which the randomness of an encryption is known again."""
ALIKE = 0.999
"""Least cosine to the true update, or ratio of lengths, of what counts as opened."""


@dataclass(frozen=True, slots=True)
class CkksKeyRecovery:
    """1 for a client whose ciphertext the observer opens, else 0.

    A corrupt client has the key, which all clients share. Without one it is sought in what a key's holder said of inner products,
    rounded, together with their ciphertexts; of a sum the server is told one number, where the attack needs whole decryptions.
    Everything is two decryptions in full precision of ciphertexts that the server made itself. Before all, it is looked for in
    every public key that the observer was sent: whoever has it there opens what is encrypted under it. Found out is also a seed,
    under which keys are sealed, that no client drew or that is sent, and randomness of an encryption that served before.
    """

    name: str = "ckks key"
    unit: str = "1 if a client's ciphertext is opened"
    side: str = "nothing"
    source: str = "Li and Micciancio 2021"
    anchor: Anchor = "sums alone"

    def applies(self, evidence: Evidence, /) -> str:
        return "" if isinstance(evidence.view.public.protection, Encrypted) else "nothing is encrypted under a key of all clients"

    def __call__(self, evidence: Evidence, truth: Truth, budget: Budget, rng: np.random.Generator, /) -> Finding:
        view, victims = evidence.view, honest(evidence.view)
        if where := shown_key(view) or next(iter(truth.foreign), "") or drawn_again(view):
            return Finding(victims, np.ones(len(victims)), noticed=where)
        if evidence.pooled is not None:
            view = evidence.pooled
            found = summed(view, by_decryptions(view, rng), truth)
        elif any(held.seed for held in view.held.values()):
            found = summed(view, by_holding(view), truth)
        else:
            found = sketched(view, truth)
        return Finding(victims, np.array([float(found.get(i, False)) for i in victims]))


# --- keys -----------------------------------------------------------------------------------------------------------------------


def shown_key(view: CorruptView) -> str:
    """Where a key that should be public holds the secret one, in words; empty if nowhere. Each is loaded as it came."""
    import tenseal  # here, so that who needs none of it does not load it

    seen = set[bytes]()
    for frame, envelope in messages(view, OfferedKey, EncryptedSumRequest, SketchRequest):
        for name in ("encrypting", "evaluating"):
            data = bytes(getattr(envelope.message, name, b""))
            if not data or (hashed := hash_of(data)) in seen:
                continue
            seen.add(hashed)
            try:
                context = tenseal.context_from(data, n_threads=1)
            except (ValueError, RuntimeError):
                continue
            if context.has_secret_key() or context.is_private():
                return f"the secret key is in the public one ({name}) of a message {frame.kind} from {frame.sender}"
    return ""


def drawn_again(view: CorruptView) -> str:
    """Whose input has randomness that another had, or none, in words; empty if nobody's. Its first ciphertext is looked at.

    What two such ciphertexts differ by is what their plaintexts do.
    """
    asked = {e.session: e.message for _, e in messages(view, EncryptedSumRequest)}
    publics, seen = dict[bytes, PublicContext](), dict[tuple[int, ...], tuple[int, int]]()
    for frame, envelope in messages(view, EncryptedInput):
        if (request := asked.get(envelope.session)) is None:
            continue
        if envelope.session not in publics:
            publics[envelope.session] = PublicContext.from_bytes(request.encrypting, SUMS)
        vector = publics[envelope.session].read(envelope.message.ciphertexts, request.length + 2)
        drawn, one = randomness_of(vector.chunks[0], SHOWN), (frame.sender, hash(frame.data))
        if not any(drawn) or seen.setdefault(drawn, one) != one:  # what comes twice is one
            whose = f"client {frame.sender}'s input of round {request.round}"
            return f"{whose} is encrypted with randomness that serves twice, or none"
    return ""


def by_holding(view: CorruptView) -> Reader | None:
    """Of the first sum: the key that is sealed for every client, as a corrupt one opens it."""
    seed = next((held.seed for held in view.held.values() if held.seed), b"")
    for _, envelope in messages(view, EncryptedSum):
        total = envelope.message
        name = KeyName(total.run, "sums", total.round, total.cluster)
        key = opened_secret(seed, name, total.holder, total.public, total.sealed)
        return lambda ciphertexts, length: opened_by_client(key, ciphertexts, length)
    return None


def by_decryptions(view: CorruptView, rng: np.random.Generator) -> Reader | None:
    """The same key, recovered by `key_from_decryptions`."""
    key = key_from_decryptions(view, "sums", rng)
    request = next((envelope.message for _, envelope in messages(view, EncryptedSumRequest)), None)
    if key is None or request is None:
        return None
    public = PublicContext.from_bytes(request.encrypting, SUMS)
    return lambda ciphertexts, length: opened(Ciphertext.of(public.read(ciphertexts, length).chunks[0]), key)[:length]


def key_from_decryptions(view: CorruptView, purpose: Purpose, rng: np.random.Generator) -> Integers | None:
    """The first key for this purpose: the server encrypts random numbers twice, and a client, which is in the view, says in full
    precision what they decrypt to."""
    seed = next((held.seed for held in view.held.values() if held.seed), b"")
    asked = {envelope.session: envelope.message for _, envelope in messages(view, KeyRequest)}
    for frame, envelope in messages(view, OfferedKey):
        request, offered = asked[envelope.session], envelope.message
        if not request.protocol.endswith(f"/{purpose}"):
            continue
        name = KeyName(request.run, purpose, request.round, request.cluster)
        holder = opened_secret(seed, name, frame.sender, hash_of(offered.encrypting), offered.sealed)
        public = EncryptingContext.from_bytes(offered.encrypting, name.parameters)
        made = [public.encrypt(rng.uniform(-1, 1, name.parameters.slots)) for _ in range(2)]
        said = [holder.decrypt(one)._values for one in made]  # what no role of the protocol says
        return recovered_key([Ciphertext.of(one.chunks[0]) for one in made], said)
    return None


def told(view: CorruptView) -> Iterator[tuple[bytes, PublicContext, list[Ciphertext], list[float]]]:
    """The hash of a public key, the key, two inner products under it as ciphertexts, and what was said of them, rounded."""
    asked = {e.session: e.message for _, e in messages(view, ScoreRequest) if not e.message.columns}
    context = {hash_of(e.message.encrypting): e.message.evaluating for _, e in messages(view, OfferedKey)}
    for _, envelope in messages(view, RoundedScores):
        request = asked.get(envelope.session)
        if request is None or not context.get(request.public) or len(request.products) < 2:
            continue
        public = PublicContext.from_bytes(context[request.public], PRODUCTS)
        unit, (rows, columns) = 10.0**-request.digits, np.triu_indices(request.rows)
        lengths = MIDDLE + PER_LOG * unit * np.frombuffer(envelope.message.norms, "<i4")
        cosines = np.eye(request.rows)
        cosines[np.triu_indices(request.rows, 1)] = np.frombuffer(envelope.message.cosines, "<i4") * unit
        values = (cosines * np.outer(lengths, lengths))[rows, columns]
        products = [Ciphertext.of(public.read_product(data).chunks[0]) for data in request.products[:2]]
        yield request.public, public, products, values[:2].tolist()


def by_scores(products: list[Ciphertext], values: list[float]) -> Integers | None:
    """The key, if what was said of an inner product is what fills all slots of its ciphertext, or the first alone."""
    slots = len(products[0].c0) // 2
    for around in (np.ones(slots), np.eye(1, slots)[0]):
        if (key := recovered_key(products, [value * around for value in values])) is not None:
            return key
    return None


# --- what they open -------------------------------------------------------------------------------------------------------------


def summed(view: CorruptView, reader: Reader | None, truth: Truth) -> dict[int, bool]:
    """Whose input of the first sum is opened: whether what is read is the client's update but for a factor."""
    tasks, found = sessions(view), dict[int, bool]()
    asked = {e.session: e.message for _, e in messages(view, EncryptedSumRequest)}
    first = next(iter(asked), b"")
    for frame, envelope in messages(view, EncryptedInput):
        if envelope.session != first or reader is None or (task := tasks.get(asked[first].work)) is None:
            continue
        key: Instance = (task.round, kind_of(task.work), frame.sender)
        values = reader(envelope.message.ciphertexts, asked[first].length + 2)
        exact = truth.updates[key].astype(np.float64)[: len(values)]
        guess = values[: len(exact)]
        found[frame.sender] = float(guess @ exact) >= ALIKE * float(np.linalg.norm(guess) * np.linalg.norm(exact))
    return found


def sketched(view: CorruptView, truth: Truth) -> dict[int, bool]:
    """Whose sketch is opened by a key that follows from scores: whether its length is what that of the update makes it."""
    tasks, found = sessions(view), dict[int, bool]()
    for hashed, public, products, values in told(view):
        if (key := by_scores(products, values)) is None:
            continue
        asked = {e.session: e.message for _, e in messages(view, SketchRequest) if hash_of(e.message.encrypting) == hashed}
        for frame, envelope in messages(view, EncryptedInput):
            request = asked.get(envelope.session)
            if request is None or frame.sender in found or (task := tasks.get(request.work)) is None:
                continue
            read = opened(Ciphertext.of(public.read(envelope.message.ciphertexts, request.length).chunks[0]), key)
            exact = MIDDLE + PER_LOG * np.log(np.linalg.norm(truth.updates[task.round, kind_of(task.work), frame.sender]))
            found[frame.sender] = bool(abs(np.linalg.norm(read[: request.length]) / exact - 1) <= 1 - ALIKE)
    return found
