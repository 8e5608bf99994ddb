"""What is kept of a run beside what the server may ask: its record, and what only whoever plays the run may do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from ..core.errors import Fault
from .account import Asked, Opened, Sketched
from .answers import BelowFloor, Cost, Model, Remembered, Snapshot, Traffic, Vector
from .disclosure import Disclosure

if TYPE_CHECKING:
    from ..privacy.ledger import Ledger, Unit


class Recorded(Protocol):
    """What is on record of a run (`parts.record.Record`). No algorithm reads it."""

    @property
    def log(self) -> Sequence[Disclosure]:
        """Every answer so far, in order."""
        ...

    @property
    def sketched(self) -> Sequence[Sketched]:
        """Every set of updates that the server has sketches or all inner products of, in order. Not kept by snapshots."""
        ...

    @property
    def opened(self) -> Sequence[Opened]:
        """Every sum that was published, in order. Not kept by snapshots."""
        ...

    @property
    def asked(self) -> Sequence[Asked]:
        """Whom the server asked for work, in order. Not kept by snapshots."""
        ...

    @property
    def sees_updates(self) -> bool:
        """Whether the server holds clients' updates as they are."""
        ...

    @property
    def holds_transformed(self) -> bool:
        """Whether the server holds each update transformed by a secret of the clients."""
        ...

    @property
    def with_a_client(self) -> str:
        """What server and one client together learn beyond what the server does, in words; empty for nothing."""
        ...

    @property
    def faults(self) -> Sequence[Fault]:
        """Messages that some party refused, and vectors that were rejected, in order."""
        ...

    @property
    def below_floor(self) -> Sequence[BelowFloor]:
        """Every sum that was asked for and not answered because it rested on too few clients."""
        ...

    @property
    def traffic(self) -> Traffic: ...

    @property
    def costs(self) -> Mapping[int, Cost]:
        """What each party has spent since the view was opened, keys and seeds included, by party id. Not kept by snapshots."""
        ...

    @property
    def ledgers(self) -> Mapping[tuple[int, Unit], Ledger]:
        """What each client's unit has spent of its privacy budget; empty where no answer has noise."""
        ...


class Plays(Protocol):
    """What only whoever plays a run may do (`parts.run.Harness`). No party of the protocol calls this."""

    def observe(self, model: Model, /) -> Vector:
        """The model itself, float32 (d,), for whoever measures a simulation. No party of the protocol calls this."""
        ...

    def retire(self, models: Iterable[Model], remembered: Iterable[Remembered], /) -> None:
        """Forget everything but these handles."""
        ...

    def save(self) -> Snapshot:
        """All that the view holds between rounds, server and clients together, to resume a simulation."""
        ...

    def restore(self, snapshot: Snapshot, remembered: Iterable[Remembered], /) -> None:
        """Continue from a snapshot; `remembered` are the handles that the algorithm still holds."""
        ...
