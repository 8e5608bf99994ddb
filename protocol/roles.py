"""How a role speaks to its driver: `step(state, event) -> (state, effects)`, pure and without I/O.

A role is a frozen dataclass per phase. The driver feeds it events and obeys the effects in order, so what must survive a
crash (Persist) is stored before it is sent (Send). An illegal event raises ProtocolError and the old state stays good.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from .choosing.messages import Offer
from .messages import Envelope, Task


@dataclass(frozen=True, slots=True)
class Received:
    """Event: a decoded message arrived."""

    envelope: Envelope


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
    """Effect at a client: try the offered models on its own data, then feed the role `Judged`."""

    offer: Offer


@dataclass(frozen=True, slots=True)
class Learned:
    """Effect at a client: a published vector arrived. name: the sum's name; session: the digest it belongs to."""

    name: str
    session: bytes
    vector: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Awaiting:
    """Effect at the server: another stage is open, and a Deadline is due when its time is up. stage: its name."""

    stage: str


Event = Received | Worked | Computed | Judged | Deadline
Effect = Send | Persist | Perform | Compute | Judge | Learned | Awaiting
Step = Callable[[Any, Event], tuple[Any, tuple[Effect, ...]]]


class Role(Protocol):
    """What a driver plays: a party, or a whole client."""

    @property
    def id(self) -> int: ...

    def handle(self, event: Event) -> tuple[Effect, ...]:
        """Advance by one event and return the effects. Raises ProtocolError."""
        ...


class Party:
    """A role in progress: the one mutable cell around a pure step. A failed step leaves the state as it was."""

    def __init__(self, id: int, state: Any, step: Step) -> None:
        self.id = id
        self.state = state
        self._step = step

    def handle(self, event: Event) -> tuple[Effect, ...]:
        """Advance by one event and return the effects. Raises ProtocolError."""
        self.state, effects = self._step(self.state, event)
        return effects
