"""The door through which an adversary enters a simulation: it stands between the protocol and the clients' computers.

Nothing here knows an attack. An adversary fits by structure: whatever turns the clients' computers into others.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import nn

from ...protocol.pairs.question import Embedders
from ...protocol.view.answers import Vector, Work
from ...protocol.view.work import Judgement, LocalJob, LocalOffer, LocalWork, Unwilling
from ..data.population import Client, Examples
from .training import Training


class HonestClients(Protocol):
    """The clients' computers as they are. Yields (client, result) for every job as results come."""

    def __call__(
        self, jobs: Sequence[LocalJob], instead: Mapping[int, Examples], /
    ) -> Iterator[tuple[int, LocalWork | Unwilling]]:
        """instead: examples that a client trains on in place of its own. The reported number of samples stays its own."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Computers:
    """What an adversary finds. module: the architecture, not to be changed. seed: the run's. judge: clients' honest choices.

    in_slots: what is in a slot, where clients work for slots (`slots.InSlots.kind`).
    """

    clients: Mapping[int, Client]
    classes: int
    module: nn.Module
    training: Training
    seed: int
    honest: HonestClients
    judge: Judgement
    in_slots: Work = "update"


class Corrupted(Protocol):
    """The clients' computers with some of them in other hands; `Workers` for the protocol."""

    @property
    def members(self) -> frozenset[int]:
        """Every client that is corrupt in some round."""
        ...

    def __call__(self, jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork | Unwilling]]: ...

    def judge(self, offer: LocalOffer, /) -> int | None:
        """What a client says when it is offered models: `Judgement` for the protocol."""
        ...

    def save(self) -> Mapping[str, Vector]:
        """What the adversary remembers between rounds, by name: float32. With it a resumed run goes on as an undisturbed one."""
        ...

    def restore(self, memory: Mapping[str, Vector], /) -> None: ...


class Posing(Protocol):
    """Of `Corrupted`, one that has a say in what its members send when clients are compared by embeddings."""

    def embedders(self, honest: Embedders, /) -> Embedders:
        """The clients' computers for embeddings, some of them in other hands."""
        ...


def embedders_of(corrupted: Corrupted, honest: Embedders) -> Embedders:
    """As the adversary leaves them: honest where it does not pose."""
    posing: Posing | Any = corrupted
    return posing.embedders(honest) if hasattr(posing, "embedders") else honest


class Corruption(Protocol):
    """Who is corrupt and what they do: a frozen dataclass that a scenario names."""

    def corrupt(self, computers: Computers, /) -> Corrupted: ...
