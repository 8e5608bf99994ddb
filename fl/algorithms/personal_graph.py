"""What pFedGraph and FedSaC share: every client has a model of its own, a mean weighted by a graph (Ye et al., ICML 2023).

Client i goes on from sum_j x_ij w_j, and trains on its loss less mu times the cosine of its model to a mean of others. What
clients have moved from the common w^0 is compared; each client is told its own mean. The weights x_i are each algorithm's.

Where papers and authors' codes differ or are silent, this is what happens:
- The objective is pFedGraph's paper's; both codes add the cosine where the paper subtracts it.
- The mean that a client's model is to be similar to is the one that it is given, and starts from. The paper's, of models divided
  by their norms, would be a second sum for each client in each round; the code's pull grows with
  that mean's length. Newcomers after the first round are pulled to w^0.
- p_j is uniform over those that answered: sample counts would have to be told. Whoever is absent keeps its model.
- Cosines above `snap`, where there is one, count as 1. A client that has not moved has cosine 0 to all others.
- Whose mean a protection does not tell, because it rests on too few others, goes on from what it trained. With the papers'
  weights and a floor of 3 those are most: of 16 clients in two groups of swapped labels 1 to 4 were told one at lambda = .8,
  15 or 16 at 3 (one seed, three rounds). So does a client whose weights are on itself alone. So does who does not say that it
  holds its mean.
- Newcomers start from w^0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ...protocol.view.answers import Assignment, Gram, Model, Updates, Weights
from ...protocol.view.asks import MovesModels, PersonalSums, Similarities, Trains
from ..clients.cosine_pull import CosinePull
from ..clients.training import Training
from ..clustering.separation import cosine_similarity, norms
from ..clustering.simplex import weights_by_similarity
from .algorithm import Cluster, Flat, Measured, Start, moved
from .cohorts import Sampling, check_participation, check_sampling, invited

Values = NDArray[np.float64]
ALL = "all"
"""The cluster that all clients' work is named by."""


class PersonalGraphView(Trains, Similarities, PersonalSums, MovesModels, Protocol):
    """What both ask for."""


@dataclass(frozen=True, slots=True)
class State(Flat):
    """everyone: all clients, and w^0. clusters: each client with its model."""

    round: int
    everyone: Cluster
    clusters: Mapping[str, Cluster]
    measured: Mapping[str, Measured] = field(default_factory=dict, compare=False)

    @property
    def models(self) -> Sequence[Model]:
        return [self.everyone.model, *(cluster.model for cluster in self.clusters.values())]

    def over(self) -> "State":
        """After a round in which too few answered."""
        return replace(self, round=self.round + 1, measured={})


@dataclass(frozen=True, slots=True)
class Trained:
    """A round after local training. work: what was asked for, and updates: what came of it. gram: their inner products.

    cosines: of what clients have moved from w^0, by the rows of `gram`.
    """

    work: Mapping[str, Assignment]
    updates: Updates
    gram: Gram
    cosines: Values = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonalGraph:
    """mu: of the cosine in the local objective. snap: see above. participation, sampling: who takes part in a round."""

    starts_apart: ClassVar[bool] = True
    span: ClassVar[int] = 1

    mu: float = 0.01
    snap: float | None = None
    participation: float = 1.0
    sampling: Sampling = "cohorts"

    def __post_init__(self) -> None:
        check_participation(self.participation)
        check_sampling(self.sampling)
        CosinePull(self.mu)
        if self.snap is not None and not -1 <= self.snap <= 1:
            raise ValueError(f"snap is a cosine, not {self.snap}")

    @property
    def executes(self) -> CosinePull:
        """How clients train."""
        return CosinePull(self.mu)

    def local(self, training: Training, /) -> Training:
        return training

    def init(self, start: Start, /) -> State:
        everyone = Cluster(start.clients, start.model, seed=start.seed)
        return State(0, everyone, {_name(i): Cluster((i,), start.model) for i in start.clients})

    def join(self, state: State, newcomers: Sequence[int], /) -> State:
        """New clients enter with w^0."""
        everyone = replace(state.everyone, members=tuple(sorted({*state.everyone.members, *newcomers})))
        added = {_name(i): Cluster((i,), everyone.model, state.round) for i in newcomers}
        return replace(state, everyone=everyone, clusters={**state.clusters, **added})

    def trained(self, state: State, view: PersonalGraphView, rng: np.random.Generator) -> Trained | None:
        """Local training from each client's model, and who is similar to whom; None if too few answered."""
        everyone = state.everyone
        active = invited(everyone, state.round, self.participation, self.sampling, rng, max(2, view.least))
        own = {i: state.clusters[_name(i)].model for i in active}
        work = {ALL: Assignment(everyone.model, active, everyone.members, own=own)}
        updates = view.train(state.round, work).get(ALL)
        if updates is None:
            return None
        gram = view.gram(updates, origin=True)
        return Trained(work, updates, gram, cosine_similarity(gram.matrix))

    def snapped(self, cosines: Values) -> Values:
        """Cosines above `snap` as 1."""
        return cosines if self.snap is None else np.where(cosines > self.snap, 1.0, cosines)

    def mixed(self, state: State, view: PersonalGraphView, done: Trained, weights: Values) -> State:
        """The state after the round: each client with w^0 + sum_j x_ij (w_j - w^0), or, where it is not told that, with what it
        trained. weights: x, by the rows of `done.gram`."""
        clients = done.gram.clients
        rows = {
            i: Weights({j: float(x) for j, x in zip(clients, row, strict=True) if x > 0})
            for i, row in zip(clients, weights, strict=True)
        }
        start, trained = state.everyone.model, view.own_models(done.updates)
        sums = view.personal_sums(done.updates, rows)
        told = {i: moved(view, start, mean) for i, mean in sums.items()}
        models = {**trained, **{i: model for i, model in told.items() if model is not None}}
        clusters = {**state.clusters, **{_name(i): Cluster((i,), model) for i, model in models.items()}}
        largest = float(norms(done.gram.matrix).max()) if clients else None
        return replace(state.over(), clusters=clusters, measured={ALL: Measured(None, largest, clients, done.cosines)})


def rows_by_similarity(similarity: Values, lam: float) -> Values:
    """x, row by row: argmin over the simplex of lam |x|^2 - (similarity_i + 2 lam p)^T x, p uniform: float64 (n, n)."""
    return np.array([weights_by_similarity(row, np.full(len(row), 1 / len(row)), lam) for row in similarity])


def _name(client: int) -> str:
    return f"client {client}"
