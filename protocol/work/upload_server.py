"""The server of the upload protocol: it hears who has work, keeps vectors, or adds them as they come and forgets them.

Spec: specs/uploads.md. Phases: Hearing -> HoldersKnown, CollectingUploads -> UploadsCollected, or AddingUploads -> UploadsSummed,
by the deadline.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import ProtocolError
from ..core.session import SERVER, Session
from ..drivers.roles import Deadline, Effect, Event, Received, Send
from ..wire.codec import Envelope
from ..wire.messages import Mean, Ready, Task, Upload
from .uploads import Vector, from_bytes, to_bytes, usable


@dataclass(frozen=True, slots=True)
class CollectingUploads:
    """The server while uploads arrive and are kept. length: coordinates of a right upload."""

    session: Session
    length: int
    received: Mapping[int, tuple[Vector, int]] = field(default_factory=dict, repr=False)
    rejected: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class UploadsCollected:
    """The server after the deadline: the survivors' uploads and sample counts."""

    session: Session
    received: Mapping[int, tuple[Vector, int]] = field(repr=False)
    rejected: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Hearing:
    """The server while clients that keep their work to themselves say that they have it."""

    session: Session
    clients: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class HoldersKnown:
    """The server after the deadline: who holds work, ascending."""

    session: Session
    clients: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AddingUploads:
    """The server while uploads are added, with weight of[i] (times samples), and forgotten. total: float64 (length,)."""

    session: Session
    length: int
    of: Mapping[int, float]
    times_samples: bool
    total: NDArray[np.float64] = field(repr=False)
    row: Mapping[int, float] = field(default_factory=dict)
    rejected: tuple[int, ...] = ()

    @property
    def clients(self) -> tuple[int, ...]:
        return tuple(sorted(self.row))


@dataclass(frozen=True, slots=True)
class UploadsSummed:
    """The server after the deadline of a sum. row: the weights of those that were heard, zeros too, ascending."""

    session: Session
    total: NDArray[np.float64] = field(repr=False)
    row: Mapping[int, float]
    rejected: tuple[int, ...]

    @property
    def weight(self) -> float:
        return sum(self.row.values())

    @property
    def clients(self) -> tuple[int, ...]:
        return tuple(self.row)


def invite(
    session: Session, work: str, models: tuple[str, ...], vector: bytes, *, later: bool = False, most: int = 0
) -> tuple[Effect, ...]:
    """The server's first move: a task for every client on the session's roster."""
    task = Task(*session.fields, work, models, vector, "", int(later), most)
    return tuple(Send(Envelope(session.digest, SERVER, client, task)) for client in session.roster)


def publish(session: Session, name: str, mean: Vector, members: tuple[int, ...]) -> tuple[Effect, ...]:
    """The server's last move where clients own the model: the mean to every member of the cluster."""
    message = Mean(name, to_bytes(mean))
    return tuple(Send(Envelope(session.digest, SERVER, client, message)) for client in members)


def server_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The server's role. Raises ProtocolError blaming the client for an upload that is misplaced, repeated or malformed.

    A vector whose squared norm is not finite in float32 is rejected and its client recorded: it counts as dropped.
    """
    match state, event:
        case ((CollectingUploads() | AddingUploads()), Received(Envelope(message=Upload() as upload, sender=client))):
            vector = _accepted(state, client, upload)
            if not usable(vector):
                return replace(state, rejected=(*state.rejected, client)), ()
            if isinstance(state, CollectingUploads):
                return replace(state, received={**state.received, client: (vector, upload.samples)}), ()
            a = state.of.get(client, 0.0) * (upload.samples if state.times_samples else 1)
            total = state.total + a * vector.astype(np.float64)
            return replace(state, total=total, row={**state.row, client: a}), ()
        case CollectingUploads(), Deadline():
            return UploadsCollected(state.session, dict(sorted(state.received.items())), state.rejected), ()
        case AddingUploads(), Deadline():
            return UploadsSummed(state.session, state.total, dict(sorted(state.row.items())), state.rejected), ()
        case Hearing(), Received(Envelope(message=Ready(), sender=client)):
            if client not in state.session.roster or client in state.clients:
                raise ProtocolError("work from outside the roster, or a second time", client)
            return replace(state, clients=(*state.clients, client)), ()
        case Hearing(), Deadline():
            return HoldersKnown(state.session, tuple(sorted(state.clients))), ()
        case (
            (UploadsCollected() | UploadsSummed() | HoldersKnown()),
            Received(Envelope(message=(Upload() | Ready()), sender=client)),
        ):
            raise ProtocolError("an upload after the deadline", client)
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def _accepted(state: CollectingUploads | AddingUploads, client: int, upload: Upload) -> Vector:
    heard = state.received if isinstance(state, CollectingUploads) else state.row
    if client not in state.session.roster:
        raise ProtocolError("an upload from outside the roster", client)
    if client in heard or client in state.rejected:
        raise ProtocolError("a second upload in one session", client)
    if len(upload.vector) != 4 * state.length:
        raise ProtocolError(f"an upload of {len(upload.vector)} bytes where {4 * state.length} belong", client)
    return from_bytes(upload.vector)
