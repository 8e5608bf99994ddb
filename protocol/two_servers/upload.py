"""Uploads to two servers: each client shares its update between them, and they agree on whose update, of one model, both hold.

Spec: specs/two_servers.md, steps 1 to 5. Client phases: Idle -> Working -> Idle. The server's: Collecting -> Agreeing ->
Collected. The second server's side is in second.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...crypto.additive import share
from ...crypto.entropy import Entropy
from ...crypto.pedersen import BLINDING_BYTES, COMMITMENT_BYTES, pedersen
from ..core.errors import ProtocolError
from ..core.session import SECOND_SERVER, SERVER, Session
from ..drivers.roles import Awaiting, Deadline, Effect, Event, Perform, Persist, Received, Send, Worked
from ..view.answers import COMPUTED
from ..wire.codec import Envelope
from ..wire.messages import Task
from ..work.uploads import Policy, invite
from .messages import Agreed, ExplicitShare, Held, KeyShare, Withheld
from .one_model import started_from
from .slot_messages import SlotKey, SlotsAgreed, SlotShare
from .slot_terms import SLOTS, SharedSlots
from .terms import PROTOCOL, Terms, TooLarge

Words = NDArray[np.uint64]
KINDS = COMPUTED
"""Kinds of work whose results are shared."""


def to_words(words: Words) -> bytes:
    """Ring elements as little-endian bytes, row by row."""
    return words.astype("<u8", copy=False).tobytes()


def from_words(data: bytes) -> Words:
    """Little-endian bytes as ring elements; a view of the bytes where the machine is little-endian."""
    return np.frombuffer(data, dtype="<u8").astype(np.uint64, copy=False)


@dataclass(frozen=True, slots=True)
class Idle:
    """A client between sessions. next_round: the earliest round it still takes part in, per kind of work, as persisted.

    entropy: where the keys of its shares come from; each is of one session.
    """

    me: int
    run: bytes
    terms: Terms
    policy: Policy
    entropy: Entropy = field(repr=False)
    next_round: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Working:
    """A client that has taken a task and owes the servers its shares. model: what its work starts from, as `started_from` gives
    it. slots: what they are about, if it is slots.
    """

    idle: Idle
    session: Session
    model: bytes
    slots: SharedSlots | None


def client_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The client's role. Raises ProtocolError blaming the server for a task against its policy or out of order."""
    match state, event:
        case Idle(run=run, next_round=spent), Received(Envelope(message=Task() as task, sender=sender)) if is_old(
            task, sender, run, spent
        ):
            return state, ()
        case Idle(), Received(Envelope(message=Task() as task) as envelope):
            session = admitted(envelope, task, state.run, state.policy, state.next_round)
            if state.me not in session.roster:
                raise ProtocolError("a task for others", envelope.sender)
            model = started_from(task, state.terms.length)
            idle = replace(state, next_round={**state.next_round, task.work: task.round + 1})
            stored = Persist(f"next round {task.work}", (task.round + 1).to_bytes(4, "big"))
            return Working(idle, session, model, slots_of(task, state.terms)), (stored, Perform(task))
        case Working(), Worked(vector=vector, samples=samples):
            return state.idle, _shares(state, vector, samples)
        case Working(), Deadline():
            return state.idle, ()
        case Idle(), Deadline():
            return state, ()
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def is_old(task: Task, sender: int, run: bytes, next_round: Mapping[str, int]) -> bool:
    """Whether a task is of a round before the latest that was taken or closed: late, or sent again, and no fault."""
    return sender == SERVER and task.run == run and task.round + 1 < next_round.get(task.work, 0)


def admitted(envelope: Envelope, task: Task, run: bytes, policy: Policy, next_round: Mapping[str, int]) -> Session:
    """The session that a task opens. Raises ProtocolError blaming its sender."""
    try:
        session = task.session
    except ValueError as error:
        raise ProtocolError(f"a task without a valid session: {error}", envelope.sender) from None
    problems = {
        "a task that is not the server's": envelope.sender != SERVER,
        "a task under another session's digest": session.digest != envelope.session,
        "a task of another run": task.run != run,
        "a task of another protocol": task.protocol != f"{PROTOCOL}/{task.work}",
        "a task of an unknown kind of work": task.work not in (*KINDS, SLOTS),
        "a task for a round already answered": task.round < next_round.get(task.work, 0),
        f"a cohort under the policy's {policy.min_cohort}": len(task.roster) < policy.min_cohort,
        f"a threshold under the policy's {policy.min_threshold}": task.threshold < policy.min_threshold,
    }
    for reason, found in problems.items():
        if found:
            raise ProtocolError(reason, envelope.sender)
    return session


def slots_of(task: Task, terms: Terms) -> SharedSlots | None:
    """What a task is about if it is about slots, as many as it names models, else None. terms: of the run's updates."""
    if task.work != SLOTS:
        return None
    try:
        return SharedSlots(len(task.models), terms.length, task.most, terms.max_norm, terms.rules.least)
    except ValueError as error:
        raise ProtocolError(f"slots that cannot be: {error}", SERVER) from None


def _shares(state: Working, vector: NDArray[np.float32], samples: int) -> tuple[Effect, ...]:
    """Both shares of the update, or word to the server that there are none."""
    idle, digest = state.idle, state.session.digest
    slots = state.slots
    terms, binding = (slots.terms, slots.binding(state.session)) if slots else (idle.terms, idle.terms.binding(state.session))
    try:
        encoded = terms.encode(vector)
    except TooLarge:
        return (Send(Envelope(digest, idle.me, SERVER, Withheld(binding))),)
    key = idle.entropy.secret(f"two servers {idle.me} {binding.hex()}", 32)
    explicit, _ = share(encoded, terms.radius, key)
    if slots:
        blinding = idle.entropy.secret(f"two servers {idle.me} slots {binding.hex()}", BLINDING_BYTES)
        counts = slots.committed(explicit.values[: slots.count].tolist(), blinding)
        commitment = pedersen(counts, int.from_bytes(blinding, "big")).to_bytes(COMMITMENT_BYTES, "big")
        slot_key = SlotKey(binding, key, commitment, state.model)
        return (
            Send(Envelope(digest, idle.me, SECOND_SERVER, slot_key)),
            Send(Envelope(digest, idle.me, SERVER, SlotShare(binding, to_words(explicit.values), blinding))),
        )
    return (
        Send(Envelope(digest, idle.me, SECOND_SERVER, KeyShare(binding, key, state.model))),
        Send(Envelope(digest, idle.me, SERVER, ExplicitShare(binding, to_words(explicit.values), samples))),
    )


@dataclass(frozen=True, slots=True)
class Collecting:
    """The server while shares arrive: 8 d bytes and the number of samples of each client; of slots, blindings beside."""

    session: Session
    terms: Terms
    received: Mapping[int, tuple[Words, int]] = field(default_factory=dict, repr=False)
    withheld: tuple[int, ...] = ()
    slots: SharedSlots | None = None
    blindings: Mapping[int, bytes] = field(default_factory=dict, repr=False)

    @property
    def binding(self) -> bytes:
        return (self.slots or self.terms).binding(self.session)


@dataclass(frozen=True, slots=True)
class Agreeing:
    """The server after the deadline of the shares. agreed: the survivors, once the second server has said whose keys it holds."""

    session: Session
    terms: Terms
    received: Mapping[int, tuple[Words, int]] = field(repr=False)
    withheld: tuple[int, ...]
    agreed: tuple[int, ...] | None = None
    slots: bool = False
    blindings: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    commitments: Mapping[int, int] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Collected:
    """The end: the survivors' shares and sample counts, ascending. withheld: clients whose update was out of bounds.

    alone: the second server did not answer, so there are no survivors. heard: whose share arrived, survivors or not. without: who
    would be a survivor and committed to other counts of slots than it shared.
    """

    session: Session
    received: Mapping[int, tuple[Words, int]] = field(repr=False)
    withheld: tuple[int, ...]
    alone: bool = False
    heard: tuple[int, ...] = ()
    blindings: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    commitments: Mapping[int, int] = field(default_factory=dict, repr=False)
    without: tuple[int, ...] = ()


def opening(session: Session, work: str, models: tuple[str, ...], vector: bytes, *, most: int = 0) -> tuple[Effect, ...]:
    """The server's first move: the session to the second server, then a task for every client on the roster."""
    task = Task(*session.fields, work, models, b"", most=most)
    return Send(Envelope(session.digest, SERVER, SECOND_SERVER, task)), *invite(session, work, models, vector, most=most)


def server_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The server's role in an upload. Raises ProtocolError blaming the sender of what is misplaced, repeated or malformed."""
    match state, event:
        case Collecting(slots=None), Received(Envelope(message=ExplicitShare() as upload, sender=client)):
            return _received(state, client, upload, upload.samples), ()
        case Collecting(slots=SharedSlots()), Received(Envelope(message=SlotShare() as upload, sender=client)):
            blindings = {**state.blindings, client: upload.blinding}
            return replace(_received(state, client, upload, 1), blindings=blindings), ()
        case Collecting(), Received(Envelope(message=Withheld(binding=binding), sender=client)):
            _expect(state, client, binding)
            return replace(state, withheld=(*state.withheld, client)), ()
        case Collecting(), Deadline():
            held = Send(Envelope(state.session.digest, SERVER, SECOND_SERVER, Held(tuple(sorted(state.received)))))
            agreeing = Agreeing(state.session, state.terms, state.received, state.withheld, blindings=state.blindings)
            return replace(agreeing, slots=state.slots is not None), (Awaiting("agree", (SECOND_SERVER,)), held)
        case Agreeing(agreed=None), Received(Envelope(message=Agreed() | SlotsAgreed() as agreed, sender=sender)):
            if sender != SECOND_SERVER or not set(agreed.clients) <= set(state.received):
                raise ProtocolError("survivors that are not the second server's, or whose shares are not here", sender)
            if isinstance(agreed, SlotsAgreed) != state.slots:
                raise ProtocolError("survivors with commitments where none belong, or without them", sender)
            commitments = _commitments(agreed) if isinstance(agreed, SlotsAgreed) else {}
            return replace(state, agreed=agreed.clients, commitments=commitments), ()
        case Agreeing(), Deadline():
            survivors = {i: state.received[i] for i in state.agreed or ()}
            heard, openings = tuple(sorted(state.received)), (state.blindings, state.commitments)
            return Collected(state.session, survivors, state.withheld, state.agreed is None, heard, *openings), ()
        case ((Agreeing() | Collected()), Received(Envelope(message=ExplicitShare() | SlotShare() | Withheld(), sender=client))):
            raise ProtocolError("a share after the deadline", client)
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def _commitments(agreed: SlotsAgreed) -> dict[int, int]:
    parts = (agreed.commitments[at : at + COMMITMENT_BYTES] for at in range(0, len(agreed.commitments), COMMITMENT_BYTES))
    return {i: int.from_bytes(part, "big") for i, part in zip(agreed.clients, parts, strict=True)}


def _received(state: Collecting, client: int, upload: ExplicitShare | SlotShare, samples: int) -> Collecting:
    _expect(state, client, upload.binding)
    if len(upload.vector) != 8 * state.terms.length:
        raise ProtocolError(f"a share of {len(upload.vector)} bytes where {8 * state.terms.length} belong", client)
    return replace(state, received={**state.received, client: (from_words(upload.vector), samples)})


def _expect(state: Collecting, client: int, binding: bytes) -> None:
    if client not in state.session.roster:
        raise ProtocolError("a share from outside the roster", client)
    if client in state.received or client in state.withheld:
        raise ProtocolError("a second share in one session", client)
    if binding != state.binding:
        raise ProtocolError("a share of another session or of other terms", client)
