"""FedAvg (McMahan et al. 2017) and its relatives that need nothing but sums: FedProx, Oracle and LOCAL."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np

from ...protocol.view.answers import Assignment, Model
from ...protocol.view.asks import MovesModels, Sums, Trains
from ...protocol.view.functionality import Functionality
from ..clients.training import Training
from ..field_ranges import need_least
from .algorithm import Cluster, Flat, Start, advanced, left_alone, mean_of, resting, trained_alone
from .cohorts import Sampling, check_participation, check_sampling, invited


class FedAvgView(Trains, Sums, MovesModels, Protocol):
    """What averaging asks for."""


@dataclass(frozen=True, slots=True)
class State(Flat):
    """A fixed set of clusters and their current models."""

    round: int
    clusters: Mapping[str, Cluster]

    @property
    def models(self) -> Sequence[Model]:
        return [cluster.model for cluster in self.clusters.values()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Averaging:
    """How clusters average. by_samples: weights n_i, as printed; else uniform. participation: share that takes part in a round.

    sampling: which share, fixed cohorts in turn or, as printed, a new random sample each round. complete: a round's mean is
    published only if everybody who was invited is in it, so that dropouts tell nobody apart; the model stays otherwise.
    """

    span: ClassVar[int] = 1

    participation: float = 1.0
    by_samples: bool = True
    sampling: Sampling = "cohorts"
    complete: bool = False

    def __post_init__(self) -> None:
        check_participation(self.participation)
        check_sampling(self.sampling)

    def local(self, training: Training, /) -> Training:
        return training

    def averaged(
        self, round: int, clusters: Mapping[str, Cluster], view: FedAvgView, rng: np.random.Generator, parts: bool = False
    ) -> dict[str, Cluster]:
        """The clusters with the models that a round of federated averaging inside each of them ends with.

        Updates are added as they arrive, none is kept. parts: clusters below the floor are `left_alone`.
        """
        work = {}
        for name, c in sorted(clusters.items()):
            if c.alone:
                continue
            who = invited(c, round, self.participation, self.sampling, rng, max(c.least, view.least))
            work[name] = Assignment(c.model, who, c.members)
        weights = {name: replace(mean_of(a.participants, self.by_samples), complete=self.complete) for name, a in work.items()}
        means = view.train_and_sum(round, work, weights) if work else {}
        moved = {name: advanced(view, cluster, means.get(name)) for name, cluster in clusters.items()}
        idle = resting(clusters, round, self.participation)
        return trained_alone(view, round, left_alone(moved, means) if parts else moved, idle)


@dataclass(frozen=True, slots=True, kw_only=True)
class FedAvg(Averaging):
    """One model for all."""

    @property
    def needs(self) -> frozenset[Functionality]:
        return frozenset({Functionality.SUMS})

    def init(self, start: Start, /) -> State:
        return State(0, {"0": Cluster(start.clients, start.model, seed=start.seed)})

    def round(self, state: State, view: FedAvgView, rng: np.random.Generator, /) -> State:
        """One round of federated averaging inside every cluster."""
        return State(state.round + 1, self.averaged(state.round, state.clusters, view, rng))


@dataclass(frozen=True, slots=True, kw_only=True)
class FedProx(FedAvg):
    """FedAvg with the local objective f_i(w) + mu/2 ||w - w_t||^2 (Li et al. 2020). mu = 0 is FedAvg bit for bit."""

    mu: float

    def __post_init__(self) -> None:
        FedAvg.__post_init__(self)
        need_least(self, 0, "mu")

    def local(self, training: Training, /) -> Training:
        return replace(training, prox=self.mu)


@dataclass(frozen=True, slots=True, kw_only=True)
class Oracle(FedAvg):
    """FedAvg inside every planted group: the upper bound that a clustering method is measured against."""

    def init(self, start: Start, /) -> State:
        if not start.groups:
            raise ValueError("Oracle needs to know groups, and nobody planted any among these clients; use another algorithm")
        groups = sorted({start.groups[i] for i in start.clients})
        members = {g: tuple(sorted(i for i in start.clients if start.groups[i] == g)) for g in groups}
        return State(0, {f"group {g}": Cluster(members[g], start.model, seed=start.seed) for g in groups})


@dataclass(frozen=True, slots=True)
class Local:
    """LOCAL: every client trains alone and tells nobody anything."""

    @property
    def needs(self) -> frozenset[Functionality]:
        return frozenset()

    def local(self, training: Training, /) -> Training:
        return training

    def init(self, start: Start, /) -> State:
        return State(0, {f"client {i}": Cluster((i,), start.model) for i in start.clients})

    def round(self, state: State, view: FedAvgView, rng: np.random.Generator, /) -> State:
        trained = view.train_alone(state.round, {c.members[0]: c.model for c in state.clusters.values()})
        return State(state.round + 1, {name: Cluster(c.members, trained[c.members[0]]) for name, c in state.clusters.items()})
