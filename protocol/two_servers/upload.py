"""Uploads to two servers: each client shares its update between them, and they agree on whose update both hold.

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
from ..errors import ProtocolError
from ..messages import Envelope, Task
from ..roles import Awaiting, Deadline, Effect, Event, Perform, Persist, Received, Send, Worked
from ..session import SECOND_SERVER, SERVER, Session
from ..uploads import Policy, invite
from .messages import Agreed, ExplicitShare, Held, KeyShare, Withheld
from .terms import PROTOCOL, Terms, TooLarge

Words = NDArray[np.uint64]
KINDS = ("update", "gradient")
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

    entropy: where the keys of its shares come from; each is of one session. others: the terms of further kinds of work.
    """

    me: int
    run: bytes
    terms: Terms
    policy: Policy
    entropy: Entropy = field(repr=False)
    next_round: Mapping[str, int] = field(default_factory=dict)
    others: Mapping[str, Terms] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Working:
    """A client that has taken a task and owes the servers its shares."""

    idle: Idle
    session: Session


def client_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The client's role. Raises ProtocolError blaming the server for a task against its policy or out of order."""
    match state, event:
        case Idle(), Received(Envelope(message=Task() as task) as envelope):
            session = admitted(envelope, task, state.run, state.policy, state.next_round, state.others)
            if state.me not in session.roster:
                raise ProtocolError("a task for others", envelope.sender)
            idle = replace(state, next_round={**state.next_round, task.work: task.round + 1})
            stored = Persist(f"next round {task.work}", (task.round + 1).to_bytes(4, "big"))
            return Working(idle, session), (stored, Perform(task))
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


def admitted(
    envelope: Envelope, task: Task, run: bytes, policy: Policy, next_round: Mapping[str, int], others: Mapping[str, Terms]
) -> Session:
    """The session that a task opens. others: kinds of work beside `KINDS`. Raises ProtocolError blaming its sender."""
    try:
        session = Session(task.protocol, task.run, task.round, task.cluster, task.roster, task.threshold)
    except ValueError as error:
        raise ProtocolError(f"a task without a valid session: {error}", envelope.sender) from None
    problems = {
        "a task that is not the server's": envelope.sender != SERVER,
        "a task under another session's digest": session.digest != envelope.session,
        "a task of another run": task.run != run,
        "a task of another protocol": task.protocol != f"{PROTOCOL}/{task.work}",
        "a task of an unknown kind of work": task.work not in KINDS and task.work not in others,
        "a task for a round already answered": task.round < next_round.get(task.work, 0),
        f"a cohort under the policy's {policy.min_cohort}": len(task.roster) < policy.min_cohort,
        f"a threshold under the policy's {policy.min_threshold}": task.threshold < policy.min_threshold,
    }
    for reason, found in problems.items():
        if found:
            raise ProtocolError(reason, envelope.sender)
    return session


def terms_of(session: Session, terms: Terms, others: Mapping[str, Terms]) -> Terms:
    """The terms of a session: those of its kind of work, if it has its own."""
    return others.get(session.protocol.removeprefix(f"{PROTOCOL}/"), terms)


def _shares(state: Working, vector: NDArray[np.float32], samples: int) -> tuple[Effect, ...]:
    """Both shares of the update, or word to the server that there are none."""
    idle, digest = state.idle, state.session.digest
    terms = terms_of(state.session, idle.terms, idle.others)
    binding = terms.binding(state.session)
    try:
        encoded = terms.encode(vector)
    except TooLarge:
        return (Send(Envelope(digest, idle.me, SERVER, Withheld(binding))),)
    key = idle.entropy.secret(f"two servers {idle.me} {binding.hex()}", 32)
    explicit, _ = share(encoded, terms.radius, key)
    return (
        Send(Envelope(digest, idle.me, SECOND_SERVER, KeyShare(binding, key))),
        Send(Envelope(digest, idle.me, SERVER, ExplicitShare(binding, to_words(explicit.values), samples))),
    )


@dataclass(frozen=True, slots=True)
class Collecting:
    """The server while shares arrive: 8 d bytes and the number of samples of each client."""

    session: Session
    terms: Terms
    received: Mapping[int, tuple[Words, int]] = field(default_factory=dict, repr=False)
    withheld: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Agreeing:
    """The server after the deadline of the shares. agreed: the survivors, once the second server has said whose keys it holds."""

    session: Session
    terms: Terms
    received: Mapping[int, tuple[Words, int]] = field(repr=False)
    withheld: tuple[int, ...]
    agreed: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Collected:
    """The end: the survivors' shares and sample counts, ascending. withheld: clients whose update was out of bounds.

    alone: the second server did not answer, so there are no survivors. heard: whose share arrived, survivors or not.
    """

    session: Session
    received: Mapping[int, tuple[Words, int]] = field(repr=False)
    withheld: tuple[int, ...]
    alone: bool = False
    heard: tuple[int, ...] = ()


def opening(session: Session, work: str, model: str, vector: bytes) -> tuple[Effect, ...]:
    """The server's first move: the session to the second server, then a task for every client on the roster."""
    task = Task(
        session.protocol, session.run, session.round, session.cluster, session.roster, session.threshold, work, model, b""
    )
    return Send(Envelope(session.digest, SERVER, SECOND_SERVER, task)), *invite(session, work, model, vector)


def server_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The server's role in an upload. Raises ProtocolError blaming the sender of what is misplaced, repeated or malformed."""
    match state, event:
        case Collecting(), Received(Envelope(message=ExplicitShare() as upload, sender=client)):
            _expect(state, client, upload.binding)
            if len(upload.vector) != 8 * state.terms.length:
                raise ProtocolError(f"a share of {len(upload.vector)} bytes where {8 * state.terms.length} belong", client)
            return replace(state, received={**state.received, client: (from_words(upload.vector), upload.samples)}), ()
        case Collecting(), Received(Envelope(message=Withheld(binding=binding), sender=client)):
            _expect(state, client, binding)
            return replace(state, withheld=(*state.withheld, client)), ()
        case Collecting(), Deadline():
            held = Send(Envelope(state.session.digest, SERVER, SECOND_SERVER, Held(tuple(sorted(state.received)))))
            return Agreeing(state.session, state.terms, state.received, state.withheld), (Awaiting("agree"), held)
        case Agreeing(agreed=None), Received(Envelope(message=Agreed(clients=clients), sender=sender)):
            if sender != SECOND_SERVER or not set(clients) <= set(state.received):
                raise ProtocolError("survivors that are not the second server's, or whose shares are not here", sender)
            return replace(state, agreed=clients), ()
        case Agreeing(), Deadline():
            survivors = {i: state.received[i] for i in state.agreed or ()}
            heard = tuple(sorted(state.received))
            return Collected(state.session, survivors, state.withheld, state.agreed is None, heard), ()
        case ((Agreeing() | Collected()), Received(Envelope(message=ExplicitShare() | Withheld(), sender=client))):
            raise ProtocolError("a share after the deadline", client)
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def _expect(state: Collecting, client: int, binding: bytes) -> None:
    if client not in state.session.roster:
        raise ProtocolError("a share from outside the roster", client)
    if client in state.received or client in state.withheld:
        raise ProtocolError("a second share in one session", client)
    if binding != state.terms.binding(state.session):
        raise ProtocolError("a share of another session or of other terms", client)
