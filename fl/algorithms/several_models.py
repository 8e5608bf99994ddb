"""K models that clients weigh for themselves: the state of IFCA, FedEM, FedSoft, FedRC and FedCE, and the round of all of them.

Clients are given all K models and put what they make of them into slots (`clients.slots.InSlots`). The server moves each model by
the weighted mean of its slot, and is told of no client what it put where, but under `Plain` and `Permuted`, where it sees
uploads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np

from ...protocol.view.answers import Assignment, BelowFloor, Model, Sum
from ...protocol.view.asks import MovesModels, Slots
from ...protocol.view.functionality import Functionality
from ..clients.training import Training
from .algorithm import Cluster, Flat, Start, advanced, check_counts
from .cohorts import Sampling, check_participation, check_sampling, invited


class SlotsView(Slots, MovesModels, Protocol):
    """What these algorithms ask for."""


@dataclass(frozen=True, slots=True)
class State(Flat):
    """everyone: all clients. clusters: the K models, without members: clients choose among them, and the server is not told."""

    round: int
    everyone: Cluster
    clusters: Mapping[str, Cluster]

    @property
    def open_to(self) -> tuple[int, ...]:
        """The clients that weigh the clusters' models for themselves."""
        return self.everyone.members

    @property
    def models(self) -> Sequence[Model]:
        return [cluster.model for cluster in self.clusters.values()]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeveralModels:
    """models: K. participation, sampling: who takes part in a round; by default fixed cohorts, the papers' are random."""

    span: ClassVar[int] = 1

    models: int
    participation: float = 1.0
    sampling: Sampling = "cohorts"

    def __post_init__(self) -> None:
        check_counts(models=self.models)
        check_participation(self.participation)
        check_sampling(self.sampling)

    @property
    def needs(self) -> frozenset[Functionality]:
        return frozenset({Functionality.SLOTS})

    @property
    def starts(self) -> int:
        """How many models the run begins with."""
        return self.models

    def local(self, training: Training, /) -> Training:
        return training

    def init(self, start: Start, /) -> State:
        """Raises ValueError unless the run begins with as many models."""
        handles = (start.model, *start.others)
        if len(handles) != self.models:
            raise ValueError(f"{type(self).__name__} begins with {self.models} models, not {len(handles)}")
        clusters = {f"model {k}": Cluster((), model) for k, model in enumerate(handles, 1)}
        return State(0, Cluster(start.clients, start.model, seed=start.seed), clusters)

    def asked(
        self, state: State, view: Slots, rng: np.random.Generator, most: int = 1
    ) -> tuple[tuple[int, ...], Sequence[Sum | BelowFloor]]:
        """Who takes part in this round, and the answer of each slot. most: the largest share of a client in a slot."""
        active = invited(state.everyone, state.round, self.participation, self.sampling, rng, view.least)
        first, *others = (cluster.model for cluster in state.clusters.values())
        work = Assignment(first, active, state.everyone.members, tuple(others))
        return active, view.slots(state.round, "models", work, most)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeighedModels(SeveralModels):
    """K models that clients weigh by numbers of samples. most: up to which they count for more than others; 1: all alike."""

    models: int = 3
    most: int = 1000

    def __post_init__(self) -> None:
        SeveralModels.__post_init__(self)
        check_counts(most=self.most)

    def round(self, state: State, view: SlotsView, rng: np.random.Generator, /) -> State:
        """Every model moves by the mean of its slot, and stays where nothing of it was published."""
        _, slots = self.asked(state, view, rng, self.most)
        moved = zip(state.clusters.items(), slots, strict=True)
        clusters = {name: advanced(view, cluster, slot) for (name, cluster), slot in moved}
        return replace(state, round=state.round + 1, clusters=clusters)
