"""What the parts of one view share, and what only whoever plays a run may do with them.

A view is its parts: each answers one kind of question, holds what belongs to it, and keeps that over a pause. Its constructor
puts them together and says, line by line, which part answers what.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import astuple, dataclass, field
from typing import Protocol, TypeVar

from ...crypto.entropy import KeptEntropy
from ..core.session import SERVER
from ..drivers.in_process import InProcess, Learn
from ..view.answers import Model, Remembered, Snapshot, Traffic, Vector
from ..view.functionality import Functionality
from ..view.protection import Setup
from ..wire.codec import Kinds
from ..wire.messages import HEAD_BYTES
from ..wire.recipes import MESSAGES as RECIPES
from ..wire.scores import MESSAGES as SCORES
from .clients import Clients
from .gate import Gate
from .record import Record

Ids = tuple[int, ...]
P = TypeVar("P")


def anything(*_: Functionality) -> None:
    """Of a run that gives whatever its view answers."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run in progress. network: carries every message. clients: the other side. gate: what may be published. record: what
    was. allow: raises Refused for an answer that none of these names allows in this run. learn: what is done with a vector that
    a client was sent, whenever it arrives; None where clients are sent none.
    """

    setup: Setup
    network: InProcess
    clients: Clients
    gate: Gate
    record: Record
    allow: Callable[..., None] = field(default=anything, repr=False)
    learn: Learn | None = field(default=None, repr=False)

    def timed(self, *parties: int) -> AbstractContextManager[None]:
        """Count the CPU seconds of what runs inside as these parties'; the server's if none are named."""
        return self.network.timed(*(parties or (SERVER,)))


def network_of(setup: Setup, *kinds: Kinds, most: int = 0, before: InProcess | None = None) -> InProcess:
    """The network of a run. kinds: of messages, beside those of work. most: bytes of one, beside its head. before: of an exchange
    that is over.
    """
    known = {kind: message for of in (RECIPES, SCORES, *kinds) for kind, message in of.items()}
    computers, judge = setup.workers, setup.judge
    network = InProcess(setup.tap, kinds=known, max_bytes=most + HEAD_BYTES, computers=computers, judge=judge)
    if before is not None:
        network.messages, network.bytes_up, network.bytes_down = before.messages, before.bytes_up, before.bytes_down
        network.add_costs(before)
        network.faults += before.faults
    return network


class Part(Protocol):
    """What a part of a view holds between rounds."""

    def retire(self, models: set[str], remembered: Mapping[str, Remembered], /) -> None:
        """The round is over: forget everything but models of these names, and what these handles are on."""
        ...

    def save(self) -> Snapshot:
        """What it holds, and nothing of other parts."""
        ...

    def restore(self, snapshot: Snapshot, remembered: Sequence[Remembered], /) -> None:
        """Continue from the snapshot of all parts; `remembered` are the handles that the algorithm still holds."""
        ...


class Harness:
    """Looks at models, forgets what is not needed, and keeps a run to resume it. No party of the protocol does this."""

    def __init__(self, run: Run, observe: Callable[[Model], Vector], parts: Iterable[Part]) -> None:
        self.run = run
        self._observe = observe
        self._parts = (run.clients, *parts)

    def observe(self, model: Model, /) -> Vector:
        """The model itself, float32 (d,), for whoever measures a simulation."""
        return self._observe(model)

    def part(self, kind: type[P], /) -> P:
        """The view's part of this kind, to look at what its party holds. Raises LookupError if it has none."""
        for part in self._parts:
            if isinstance(part, kind):
                return part
        raise LookupError(f"this view has no {kind.__name__}")

    def retire(self, models: Iterable[Model], remembered: Iterable[Remembered], /) -> None:
        """Forget everything but these handles."""
        names, kept = {model.name for model in models}, {handle.name: handle for handle in remembered}
        for part in self._parts:
            part.retire(names, kept)
        self.run.gate.forget()

    def save(self) -> Snapshot:
        """All that the view holds between rounds, server and clients together."""
        entropy = self.run.setup.entropy
        secrets = dict(entropy.kept) if isinstance(entropy, KeptEntropy) else {}
        found = Snapshot({}, {}, {}, self.run.record.traffic, secrets=secrets)
        for part in self._parts:
            found |= part.save()
        return found

    def restore(self, snapshot: Snapshot, remembered: Iterable[Remembered], /) -> None:
        """Continue from a snapshot; `remembered` are the handles that the algorithm still holds."""
        handles, network = list(remembered), self.run.network
        self.run.gate.forget()
        for part in self._parts:
            part.restore(snapshot, handles)
        network.messages, network.bytes_up, network.bytes_down = astuple(snapshot.traffic)


def nothing() -> Snapshot:
    """Of a part that holds nothing between rounds."""
    return Snapshot({}, {}, {}, Traffic())
