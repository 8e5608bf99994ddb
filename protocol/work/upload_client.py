"""The client of the upload protocol: it sends the server one vector per session, clear or under a shared secret transform.

Spec: specs/uploads.md. Phases: IdleUploader -> OwingUpload -> IdleUploader, by its upload or the deadline. Clients and server are
honest about their work; what is checked is what the other side could get wrong or abuse.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import numpy as np

from ...crypto.orthonormal import Transform
from ..core.errors import ProtocolError
from ..core.session import SERVER, Session
from ..drivers.roles import Deadline, Effect, Event, Learned, Perform, Persist, Received, Send, Worked
from ..view.answers import OFFSET_SKETCHES, SKETCHES, Work
from ..wire.codec import Envelope
from ..wire.messages import Mean, OffsetSketched, Ready, Task, Upload
from .uploads import PROTOCOL, Policy, to_bytes

SharedTransform = Callable[[bytes], Transform]
"""The transform of a session, by the session's digest. Clients hold it; the server does not."""
OTHER_WAY = {f"{of} sketch": f"{of} offset sketch" for of in SKETCHES.values()}
OTHER_WAY |= {offset: origin for origin, offset in OTHER_WAY.items()}
"""Sketches of one work about the origin and behind an offset: both together would tell the offset."""


@dataclass(frozen=True, slots=True)
class IdleUploader:
    """A client between sessions. next_round: the earliest round it still answers, per kind of work; never answers twice.

    transform: of what it uploads, by session digest; None for a client that keeps its work to itself and says `Ready`.
    """

    me: int
    run: bytes
    policy: Policy
    transform: Callable[[bytes], Transform] | None = field(repr=False)
    next_round: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OwingUpload:
    """A client that has taken a task and owes the server its result."""

    idle: IdleUploader
    session: Session


def client_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The client's role. Raises ProtocolError blaming the server for a task against its policy or out of order."""
    match state, event:
        case ((IdleUploader() | OwingUpload()), Received(Envelope(message=Task() as task, sender=sender))) if _old(
            state, task, sender
        ):
            return state, ()
        case IdleUploader(), Received(Envelope(message=Task() as task) as envelope):
            session = _checked(state, envelope, task)
            idle = replace(state, next_round={**state.next_round, task.work: task.round + 1})
            stored = Persist(f"next round {task.work}", (task.round + 1).to_bytes(4, "big"))
            return OwingUpload(idle, session), (stored, Perform(task))
        case OwingUpload(), Worked():
            return state.idle, (Send(Envelope(state.session.digest, state.idle.me, SERVER, _answer(state, event))),)
        case OwingUpload(), Deadline():
            return state.idle, ()
        case IdleUploader(), Deadline():
            return state, ()
        case ((IdleUploader() | OwingUpload()), Received(Envelope(message=Mean() as mean, sender=sender) as envelope)):
            if sender != SERVER:
                raise ProtocolError("only the server publishes means", sender)
            transform = (state if isinstance(state, IdleUploader) else state.idle).transform
            if transform is None:
                raise ProtocolError("a mean where the server keeps the model", sender)
            length = transform(envelope.session).length
            if len(mean.vector) != 4 * length:
                raise ProtocolError(f"a mean of {len(mean.vector)} bytes where {4 * length} belong", sender)
            return state, (Learned(mean.name, envelope.session, mean.vector),)
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def _old(state: IdleUploader | OwingUpload, task: Task, sender: int) -> bool:
    """Whether a task is of a round before the latest that the client took part in: late, or sent again, and no fault."""
    idle = state if isinstance(state, IdleUploader) else state.idle
    return sender == SERVER and task.run == idle.run and task.round + 1 < idle.next_round.get(task.work, 0)


def _answer(state: OwingUpload, work: Worked) -> Upload | OffsetSketched | Ready:
    kind = state.session.protocol.removeprefix(f"{PROTOCOL}/")
    if kind in OFFSET_SKETCHES:
        return OffsetSketched(work.vector.astype("<u8", copy=False).tobytes())
    if kind in SKETCHES:
        return Upload(to_bytes(work.vector), 1)
    if state.idle.transform is None:
        return Ready()
    if work.vector.ndim == 2:  # for slots: of each the vector, then the share, which no transform touches
        transform = state.idle.transform(state.session.digest)
        rows = [np.append(transform.apply(row[:-1]), row[-1:]) for row in work.vector]
        return Upload(to_bytes(np.concatenate(rows)), work.samples)
    return Upload(to_bytes(state.idle.transform(state.session.digest).apply(work.vector)), work.samples)


def _checked(state: IdleUploader, envelope: Envelope, task: Task) -> Session:
    try:
        session = task.session
    except ValueError as error:
        raise ProtocolError(f"a task without a valid session: {error}", envelope.sender) from None
    sketch = task.work in SKETCHES or task.work in OFFSET_SKETCHES
    problems = {
        "a task that is not the server's": envelope.sender != SERVER,
        "a task under another session's digest": session.digest != envelope.session,
        "a task of another run": task.run != state.run,
        "a task of another protocol": task.protocol != f"{PROTOCOL}/{task.work}",
        "a task of an unknown kind of work": task.work not in get_args(Work),
        "a sketch of work that is uploaded": sketch and state.transform is not None,
        "a sketch of work that was sketched the other way": task.round < state.next_round.get(OTHER_WAY.get(task.work, ""), 0),
        "a task for others": state.me not in task.roster,
        "a task for a round already answered": task.round < state.next_round.get(task.work, 0),
        f"a cohort under the policy's {state.policy.min_cohort}": len(task.roster) < state.policy.min_cohort,
        f"a threshold under the policy's {state.policy.min_threshold}": task.threshold < state.policy.min_threshold,
    }
    for reason, found in problems.items():
        if found:
            raise ProtocolError(reason, envelope.sender)
    return session
