"""IFCA: K models, and every client works on the one that serves it best (Ghosh, Chung, Yin, Ramchandran, NeurIPS 2020).

Line numbers are Algorithm 1's. The server sends all K models to the round's clients; each estimates its cluster as the model of
the least loss on its training data and works on that one alone.

Where paper and authors' code differ or are silent, this is what happens:
- The choice is of the empirical loss on training data (line 6), ties go to the first model. It is put into slots, so that a
  protection that hides updates hides it too: the server learns sums and how many chose each model.
- Models average: theta_k is the uniform mean of what its choosers ended with (line 14), and stays where nobody chose it or where
  the sum is below the floor. Gradients average: gamma over the number of *all* invited clients times the sum of the choosers'
  gradients (line 12).
- The K models start at K draws of the scenario's model, one seed each. Equal draws (`SoftmaxRegression()`, which is zero) stay
  equal for ever. No draw is taken back: the code for CIFAR-10 draws anew until every model attracts enough clients.
- Whom a client is with is what it chooses at the end, by the same rule; no party of the protocol knows all choices.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from ...protocol.view.answers import Assignment, BelowFloor, Functionality, Model, Remembered, Sum
from ...protocol.view.asks import MovesModels, Slots
from ..clients.slots import InSlots, least
from ..clients.training import Training
from .algorithm import (
    Cluster,
    Measured,
    Sampling,
    Start,
    advanced,
    check_counts,
    check_participation,
    check_sampling,
    invited,
)
from .parameter_tree import Node


class IfcaView(Slots, MovesModels, Protocol):
    """What IFCA asks for."""


@dataclass(frozen=True, slots=True)
class State:
    """everyone: all clients. clusters: the K models, without members: clients choose among them, and the server is not told."""

    round: int
    everyone: Cluster
    clusters: Mapping[str, Cluster]

    @property
    def open_to(self) -> tuple[int, ...]:
        """The clients that choose among the clusters' models for themselves."""
        return self.everyone.members

    @property
    def tree(self) -> Mapping[str, Node]:
        return {}

    @property
    def measured(self) -> Mapping[str, Measured]:
        return {}

    @property
    def models(self) -> Sequence[Model]:
        return [cluster.model for cluster in self.clusters.values()]

    @property
    def remembered(self) -> Sequence[Remembered]:
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class IFCA:
    """models: K. average: "models" after local training, or "gradients" at theta_k, with steps of gamma.

    participation, sampling: who takes part in a round; by default fixed cohorts, the paper's is random.
    """

    models: int
    average: Literal["models", "gradients"] = "models"
    gamma: float = 0.1
    participation: float = 1.0
    sampling: Sampling = "cohorts"

    def __post_init__(self) -> None:
        check_counts(models=self.models)
        check_participation(self.participation)
        check_sampling(self.sampling)
        if self.average not in ("models", "gradients"):
            raise ValueError(f'average is of "models" or "gradients", not {self.average!r}')
        if not 0 < self.gamma < np.inf:
            raise ValueError(f"gamma is above 0 and finite, not {self.gamma}")

    @property
    def needs(self) -> frozenset[Functionality]:
        return frozenset({Functionality.SLOTS})

    @property
    def starts(self) -> int:
        """How many models the run begins with."""
        return self.models

    @property
    def in_slots(self) -> InSlots:
        """What a client does (lines 5-10)."""
        return InSlots(least, "update" if self.average == "models" else "gradient")

    def local(self, training: Training, /) -> Training:
        return training

    def init(self, start: Start, /) -> State:
        models = (start.model, *start.others)
        if len(models) != self.models:
            raise ValueError(f"IFCA begins with {self.models} models, not {len(models)}")
        clusters = {f"model {k}": Cluster((), model) for k, model in enumerate(models, 1)}
        return State(0, Cluster(start.clients, start.model, seed=start.seed), clusters)

    def round(self, state: State, view: IfcaView, rng: np.random.Generator, /) -> State:
        """Lines 3 to 15."""
        active = invited(state.everyone, state.round, self.participation, self.sampling, rng)  # line 3
        first, *others = (cluster.model for cluster in state.clusters.values())
        work = Assignment(first, active, state.everyone.members, tuple(others))
        slots = view.slots(state.round, "models", work)  # lines 4-10
        moved = {
            name: self._moved(view, cluster, slot, len(active))
            for (name, cluster), slot in zip(state.clusters.items(), slots, strict=True)
        }
        return replace(state, round=state.round + 1, clusters=moved)

    def _moved(self, view: IfcaView, cluster: Cluster, slot: Sum | BelowFloor, active: int) -> Cluster:
        """Line 12 or line 14."""
        if self.average == "models" or not isinstance(slot, Sum):
            return advanced(view, cluster, slot)
        return replace(cluster, model=view.advance(cluster.model, slot, step=-self.gamma * slot.weight / active))
