"""How a role speaks to its driver: `step(state, event) -> (state, effects)`, pure and without I/O.

A role is a frozen dataclass per phase. The driver feeds it events and obeys the effects in order, so what must survive a
crash (Persist) is stored before it is sent (Send). An illegal event raises ProtocolError and the old state stays good.
A message that was taken is taken once: its duplicates, which networks and retrying drivers make, do nothing (`Party`).
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..wire.codec import Buffer, Envelope, encode
from ..wire.messages import Task

SESSIONS = 512
"""Of so many sessions a party knows what it took; of more it forgets the oldest."""
FRAMES = 256
"""Of so many messages of one sender in one session; of more likewise, so that no sender crowds out another's."""


ENDS = 1 << 16
"""Bytes at either end of a long message that tell it from others."""


def mark_of(data: Buffer) -> bytes:
    """32 bytes by which a duplicate of an encoded message is known: SHA-256 of it, of a long one of its length and its ends.

    So the vector in the middle of a long one is not read once more. Another one with the same ends passes for a duplicate, and
    is ignored like one.
    """
    if len(data) <= 2 * ENDS:
        return hashlib.sha256(data).digest()
    return hashlib.sha256(b"".join((len(data).to_bytes(8, "big"), data[:ENDS], data[-ENDS:]))).digest()


@dataclass(frozen=True, slots=True)
class Received:
    """Event: a decoded message arrived. known: the mark of its bytes, if whoever decoded it had them still."""

    envelope: Envelope
    known: bytes = field(default=b"", repr=False, compare=False)

    @property
    def mark(self) -> bytes:
        """What a duplicate has in common with it."""
        return self.known or mark_of(encode(self.envelope))


@dataclass(frozen=True, slots=True)
class Worked:
    """Event at a client: its local work is done. vector: float32 (d,); samples: examples behind it."""

    vector: Any = field(repr=False)
    samples: int


@dataclass(frozen=True, slots=True)
class Computed:
    """Event at a participant: what its computer made of the job that it asked for."""

    work: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class Judged:
    """Event at a client: of the models that it was offered, the one at `index` serves it best."""

    index: int


@dataclass(frozen=True, slots=True)
class Deadline:
    """Event: whatever has not arrived counts as dropped."""


@dataclass(frozen=True, slots=True)
class Send:
    """Effect: put this message on its link."""

    envelope: Envelope


@dataclass(frozen=True, slots=True)
class Persist:
    """Effect: store this before anything after it happens; a restarted role is handed it back."""

    key: str
    value: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Perform:
    """Effect at a client: do this task's local work, then feed the role `Worked`."""

    task: Task


@dataclass(frozen=True, slots=True)
class Compute:
    """Effect of a participant: its computer does this job, and it is fed `Computed`."""

    job: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class Judge:
    """Effect at a client: try the offered models on its own data, then feed it `Judged`.

    offer: at a role as it came, of a whole client as its computer takes it.
    """

    offer: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class Learned:
    """Effect at a client: a published vector arrived. name: the sum's name; session: the digest it belongs to."""

    name: str
    session: bytes
    vector: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Posted:
    """Effect of a client in another process: put these bytes, which it encoded, on its link. kind: the message's name."""

    receiver: int
    kind: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Effect of a client in another process, or of a second server: it took no notice of what came, or of a part of it. blame:
    whose fault it is, in its eyes.
    """

    blame: int
    reason: str


@dataclass(frozen=True, slots=True)
class Awaiting:
    """Effect at the server: another stage is open, and a Deadline is due when its time is up, or when all that it waits for have
    answered. stage: its name. of: whom it waits for, ascending.
    """

    stage: str
    of: tuple[int, ...] = ()


Event = Received | Worked | Computed | Judged | Deadline
Effect = Send | Persist | Perform | Compute | Judge | Learned | Posted | Refusal | Awaiting
Step = Callable[[Any, Event], tuple[Any, tuple[Effect, ...]]]


class Role(Protocol):
    """What a driver plays: a party, or a whole client."""

    @property
    def id(self) -> int: ...

    def handle(self, event: Event) -> tuple[Effect, ...]:
        """Advance by one event and return the effects. Raises ProtocolError."""
        ...


class FarRole(Role, Protocol):
    """A role in another process: it is handed bytes, and decodes them itself."""

    def take(self, sender: int, data: bytes) -> tuple[Effect, ...]:
        """Advance by what arrived, and return the effects that are the driver's business."""
        ...


class Party:
    """A role in progress: the one mutable cell around a pure step. A failed step leaves the state as it was.

    A duplicate (`mark_of`) of a message that the role has taken has no effect, changes nothing and is nobody's fault, in
    whatever phase the role is. Another message of the same kind is for the role to judge, and so is one that it refused before.
    taken: what it took in an earlier life, as (session, sender, mark).
    """

    def __init__(self, id: int, state: Any, step: Step, taken: Iterable[tuple[bytes, int, bytes]] = ()) -> None:
        self.id = id
        self.state = state
        self._step = step
        self._taken: dict[bytes, dict[int, dict[bytes, None]]] = {}
        for session, sender, mark in taken:
            self._remember(session, sender, mark)

    def handle(self, event: Event) -> tuple[Effect, ...]:
        """Advance by one event and return the effects. Raises ProtocolError."""
        if not isinstance(event, Received):
            self.state, effects = self._step(self.state, event)
            return effects
        session, sender, mark = event.envelope.session, event.envelope.sender, event.mark
        if self.took(event):
            return ()
        self.state, effects = self._step(self.state, event)
        self._remember(session, sender, mark)
        return effects

    def took(self, event: Received) -> bool:
        """Whether this is a duplicate: who checks a message before it is handed here lets such a one pass."""
        return event.mark in self._taken.get(event.envelope.session, {}).get(event.envelope.sender, {})

    def _remember(self, session: bytes, sender: int, mark: bytes) -> None:
        of_sender = self._taken.setdefault(session, {}).setdefault(sender, {})
        of_sender[mark] = None
        drop_oldest(of_sender, FRAMES)
        drop_oldest(self._taken, SESSIONS)

    def restart(self, state: Any) -> None:
        """Go on from an earlier state, which was kept: what was taken since is not known any more, and may come again."""
        self.state = state
        self._taken.clear()


def drop_oldest(of: dict[Any, Any], most: int) -> None:
    """Leave the `most` entries that were made last."""
    while len(of) > most:
        del of[next(iter(of))]
