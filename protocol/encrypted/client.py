"""The client of the encrypted sum and scores: it encrypts, it makes keys, and it opens what it is asked to open.

Spec: specs/encrypted.md. Phases: Idle -> Summing -> Idle and Idle -> Sketching -> Idle, by its input or the deadline; keys, sums
and scores are opened in Idle. Each kind of answer is stored as spent, per session, before it is given, so a client that
restarts answers nothing twice. The encryption library draws its own randomness: a step is a function of its arguments up to that.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...crypto.ckks import MOST_DIGITS, EncryptingContext, InvalidCiphertext, SecretContext
from ...crypto.projection import TwoStage
from ..errors import ProtocolError
from ..messages import Envelope, Task
from ..roles import Deadline, Effect, Event, Learned, Perform, Persist, Received, Send, Worked
from ..session import SERVER, Session
from .keys import PROTOCOL as KEY
from .keys import KeyName, Purpose, checked_public, offer, opened_secret
from .messages import (
    EncryptedInput,
    EncryptedSum,
    EncryptedSumRequest,
    KeyRequest,
    OpenSlots,
    RoundedScores,
    ScoreRequest,
    SketchRequest,
    SumOpened,
)
from .scaling import Weighting, carrying, opened, rounded_cosines, rounded_norms
from .slots import PROTOCOL as SLOTS
from .slots import Counted, EncryptedSlots

SUM, SKETCH, SCORES = "encrypted sum", "encrypted sketch", "encrypted scores"
MOST_SPENT = 4096
"""Answers of one client in one round."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What a client insists on. min_cohort, min_threshold: of sums. keys: "run" where sketches of different rounds may meet.

    digits: the most decimals of a score that it hands out.
    """

    min_cohort: int = 3
    min_threshold: int = 3
    keys: Literal["run", "session"] = "session"
    digits: int = 4


@dataclass(frozen=True, slots=True)
class Idle:
    """A client between sessions. seed: what the clients share and the server lacks (group_seed.py).

    sketch: the secret sketch by session digest, drawn from the seed. length: coordinates of an update.
    round: the latest that it took part in; spent: what it answered there, (kind of answer, session digest).
    slots: what was agreed on for sums into slots, if anything. counted: sessions of them whose counts it opened, not the sums.
    """

    me: int
    run: bytes
    policy: Policy
    seed: bytes = field(repr=False)
    sketch: Callable[[bytes], TwoStage] = field(repr=False)
    length: int
    round: int = 0
    spent: frozenset[tuple[str, bytes]] = frozenset()
    slots: EncryptedSlots | None = None
    counted: Mapping[bytes, Counted] = field(default_factory=dict)

    def length_of(self, session: Session) -> int:
        """Coordinates of a client's input. Raises ProtocolError for a sum that nobody agreed on."""
        if session.protocol == SLOTS and self.slots is not None:
            return self.slots.length
        if session.protocol != SUM:
            raise ProtocolError("a sum of an unknown kind", SERVER)
        return self.length

    def key(self, purpose: Purpose, session: Session) -> KeyName:
        """The key that belongs to this session: its own, or the run's."""
        if purpose == "products" and self.policy.keys == "run":
            return KeyName(self.run, purpose, 0, "all")
        return KeyName(self.run, purpose, session.round, session.cluster)


@dataclass(frozen=True, slots=True)
class Summing:
    """A client that owes its weighted vector, encrypted under `key`."""

    idle: Idle
    session: Session
    key: EncryptingContext
    weighting: Weighting


@dataclass(frozen=True, slots=True)
class Sketching:
    """A client that owes its sketch, encrypted under `key`."""

    idle: Idle
    session: Session
    key: EncryptingContext


def client_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The client's role. Raises ProtocolError for what is against its policy, out of order, or not what it should be.

    Raises ValueError for work that cannot be encrypted: `unsummable` and `unsketchable` tell beforehand.
    """
    match state, event:
        case _, Received(Envelope(sender=sender)) if sender != SERVER:
            raise ProtocolError("a message that is not the server's", sender)
        case Idle(), Received(Envelope(message=KeyRequest() as request, session=digest)):
            return _make_key(state, digest, request)
        case Idle(), Received(Envelope(message=EncryptedSumRequest() as request, session=digest)):
            return _begin_sum(state, digest, request)
        case Idle(), Received(Envelope(message=SketchRequest() as request, session=digest)):
            return _begin_sketch(state, digest, request)
        case Idle(), Received(Envelope(message=EncryptedSum() as total, session=digest)):
            return _open_counts(state, digest, total) if total.protocol == SLOTS else _open_sum(state, digest, total)
        case Idle(), Received(Envelope(message=OpenSlots() as sums, session=digest)):
            return _open_slots(state, digest, sums)
        case Idle(), Received(Envelope(message=ScoreRequest() as request, session=digest)):
            return _open_scores(state, digest, request)
        case Summing(), Worked(vector=vector, samples=samples):
            slots = state.session.protocol == SLOTS  # they come as they are encrypted
            summand = vector if slots else state.weighting.summand(state.idle.me, vector, samples)
            return state.idle, (_send(state, EncryptedInput(state.key.encrypt(summand).to_bytes())),)
        case Sketching(), Worked(vector=vector):
            sketch = state.key.encrypt(sketch_of(state.idle, state.session.digest, vector))
            return state.idle, (_send(state, EncryptedInput(sketch.to_bytes())),)
        case ((Summing() | Sketching()), Deadline()):
            return state.idle, ()
        case Idle(), Deadline():
            return state, ()
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def sketch_of(idle: Idle, session: bytes, vector: NDArray[np.float32]) -> NDArray[np.float64]:
    """What a client encrypts in the session with this digest: float64, shape (k,)."""
    return carrying(idle.sketch(session).apply(vector), float(np.linalg.norm(vector.astype(np.float64))))


def _send(state: Summing | Sketching, message: EncryptedInput) -> Send:
    return Send(Envelope(state.session.digest, state.idle.me, SERVER, message))


Invitation = KeyRequest | EncryptedSumRequest | SketchRequest | EncryptedSum | OpenSlots | ScoreRequest


def _joined(
    state: Idle, digest: bytes, asked: Invitation, protocol: str, *, member: bool = True
) -> tuple[Idle, Session, Persist]:
    """The session of a message, checked and spent for this kind of answer. member: whether only its roster may answer."""
    try:
        session = Session(asked.protocol, asked.run, asked.round, asked.cluster, asked.roster, asked.threshold)
    except ValueError as error:
        raise ProtocolError(f"a message without a valid session: {error}", SERVER) from None
    kind = type(asked).__name__
    cohorts = protocol == SUM
    problems = {
        "a message under another session's digest": session.digest != digest,
        "a session of another run": session.run != state.run,
        "a session of another protocol": session.protocol.partition("/")[0] != protocol,
        "a session of others": member and state.me not in session.roster,
        "a session of an earlier round": session.round < state.round and not _of_run(state, session),
        "a session already answered": (kind, digest) in state.spent,
        "more sessions than one round has": len(state.spent) >= MOST_SPENT and session.round == state.round,
        f"a cohort under the policy's {state.policy.min_cohort}": cohorts and len(session.roster) < state.policy.min_cohort,
        f"a threshold under the policy's {state.policy.min_threshold}": cohorts
        and session.threshold < state.policy.min_threshold,
    }
    for reason, found in problems.items():
        if found:
            raise ProtocolError(reason, SERVER)
    spent = state.spent if session.round <= state.round else frozenset()
    idle = replace(state, round=max(state.round, session.round), spent=spent | {(kind, digest)})
    return idle, session, Persist(f"spent {kind} {digest.hex()}", session.round.to_bytes(4, "big"))


def _of_run(state: Idle, session: Session) -> bool:
    """Whether this is the session of the run's key, which may be asked for in any round."""
    return state.policy.keys == "run" and (session.protocol, session.round, session.cluster) == (f"{KEY}/products", 0, "all")


def _task(session: Session) -> Task:
    head = (session.protocol, session.run, session.round, session.cluster, session.roster, session.threshold)
    return Task(*head, session.protocol, session.cluster, b"")


def _make_key(state: Idle, digest: bytes, request: KeyRequest) -> tuple[Idle, tuple[Effect, ...]]:
    purpose: Purpose = "products" if request.protocol == f"{KEY}/products" else "sums"
    idle, session, spent = _joined(state, digest, request, KEY)
    if session.protocol != f"{KEY}/{purpose}":
        raise ProtocolError("a key for an unknown purpose", SERVER)
    name = KeyName(session.run, purpose, session.round, session.cluster)
    offered = offer(state.seed, name, state.me, SecretContext.generate(name.parameters))
    return idle, (spent, Send(Envelope(digest, state.me, SERVER, offered)))


def _weighting(asked: EncryptedSumRequest | EncryptedSum) -> Weighting:
    numbers = struct.unpack(f">{len(asked.roster)}d", asked.weights)
    try:
        return Weighting(dict(zip(asked.roster, numbers, strict=True)), bool(asked.times_samples))
    except ValueError as error:
        raise ProtocolError(f"a sum that cannot be: {error}", SERVER) from None


def _begin_sum(state: Idle, digest: bytes, request: EncryptedSumRequest) -> tuple[Summing, tuple[Effect, ...]]:
    idle, session, spent = _joined(state, digest, request, SUM)
    if request.length != state.length_of(session):
        raise ProtocolError(f"a sum of {request.length} coordinates where {state.length_of(session)} belong", SERVER)
    weighting = _weighting(request)
    key = checked_public(state.seed, state.key("sums", session), request.holder, request.encrypting, request.tag)
    return Summing(idle, session, key, weighting), (spent, Perform(_task(session)))


def _begin_sketch(state: Idle, digest: bytes, request: SketchRequest) -> tuple[Sketching, tuple[Effect, ...]]:
    idle, session, spent = _joined(state, digest, request, SKETCH)
    if request.length != state.sketch(digest).k:
        raise ProtocolError(f"a sketch of {request.length} coordinates is not the one agreed on", SERVER)
    key = checked_public(state.seed, state.key("products", session), request.holder, request.encrypting, request.tag)
    return Sketching(idle, session, key), (spent, Perform(_task(session)))


def _open_sum(state: Idle, digest: bytes, total: EncryptedSum) -> tuple[Idle, tuple[Effect, ...]]:
    """Open the sum of enough clients: how many and of what weight is in the sum itself, as those said who encrypted it.

    A server that computes on ciphertexts against the protocol can fake both (specs/encrypted.md, "Server active").
    """
    idle, session, spent = _joined(state, digest, total, SUM, member=False)
    weighting = _weighting(total)
    if total.length != state.length_of(session):
        raise ProtocolError(f"a sum of {total.length} coordinates where {state.length_of(session)} belong", SERVER)
    _check_alive(session, total.alive)
    key = opened_secret(state.seed, state.key("sums", session), total.holder, total.public, total.sealed)
    try:
        values = key.decrypt(key.read(total.ciphertexts, total.length + 2)).rounded(MOST_DIGITS)
        found = opened(values, weighting, total.alive)
    except ValueError as error:
        raise ProtocolError(f"an encrypted sum that cannot be used: {error}", SERVER) from None
    learned = Learned(session.cluster, digest, found.mean.astype("<f4", copy=False).tobytes())
    return idle, (spent, learned, _told(state, digest, [found.weight]))


def _told(state: Idle, digest: bytes, numbers: Sequence[float]) -> Send:
    return Send(Envelope(digest, state.me, SERVER, SumOpened(struct.pack(f">{len(numbers)}d", *numbers))))


def _check_alive(session: Session, alive: tuple[int, ...]) -> None:
    if not set(alive) <= set(session.roster) or len(alive) < session.threshold:
        raise ProtocolError("survivors that are not on the roster, or too few", SERVER)


def _slots(state: Idle) -> EncryptedSlots:
    if state.slots is None:
        raise ProtocolError("slots that nobody agreed on", SERVER)
    return state.slots


def _open_counts(state: Idle, digest: bytes, total: EncryptedSum) -> tuple[Idle, tuple[Effect, ...]]:
    """Open how many chose each slot, remember it, and tell the server."""
    idle, session, spent = _joined(state, digest, total, SUM, member=False)
    slots = _slots(state)
    if total.length != slots.count:
        raise ProtocolError(f"counts of {total.length} slots where {slots.count} belong", SERVER)
    _check_alive(session, total.alive)
    key = opened_secret(state.seed, state.key("sums", session), total.holder, total.public, total.sealed)
    try:
        found = slots.counts(key, total.ciphertexts, total.alive)
    except ValueError as error:
        raise ProtocolError(f"encrypted counts that cannot be used: {error}", SERVER) from None
    earlier = state.counted if session.round <= state.round else {}
    return replace(idle, counted={**earlier, digest: found}), (spent, _told(state, digest, found.counts))


def _open_slots(state: Idle, digest: bytes, sums: OpenSlots) -> tuple[Idle, tuple[Effect, ...]]:
    """Open the sums of slots that enough clients chose, by this member's own count of the same clients, and of no others."""
    idle, session, spent = _joined(state, digest, sums, SUM, member=False)
    slots, counted = _slots(state), state.counted.get(digest)
    if session.protocol != SLOTS or counted is None:
        raise ProtocolError("sums of slots whose counts were not opened here", SERVER)
    if sums.alive != counted.alive:
        raise ProtocolError("sums of slots of other clients than were counted", SERVER)
    if not set(sums.slots) <= set(slots.chosen(counted.counts)):
        raise ProtocolError(f"a slot that fewer than {slots.floor} clients chose, or that is not there", SERVER)
    key = opened_secret(state.seed, state.key("sums", session), sums.holder, sums.public, sums.sealed)
    try:
        weights, means = slots.means(key, sums.ciphertexts, {k: counted.counts[k] for k in sums.slots})
    except ValueError as error:
        raise ProtocolError(f"encrypted sums of slots that cannot be used: {error}", SERVER) from None
    learned = Learned(session.cluster, digest, means.astype("<f4").tobytes())
    left = {other: found for other, found in state.counted.items() if other != digest}
    return replace(idle, counted=left), (spent, learned, _told(state, digest, weights))


def _open_scores(state: Idle, digest: bytes, request: ScoreRequest) -> tuple[Idle, tuple[Effect, ...]]:
    """Open inner products and round them: what goes back is whole numbers of 10^-digits."""
    idle, session, spent = _joined(state, digest, request, SCORES)
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
