"""FedClust: clients are grouped once, by the last layers of what they first train (Islam et al. 2024). Known second-hand.

Every client trains from w^0 and shows the weights v_i of its classifier alone. The proximity M_ij = |v_i - v_j| goes into
agglomerative clustering, cut at lambda; from then on each cluster averages. A newcomer trains from w^0, shows its v and joins the
nearest cluster. The server needs distances alone, so that it is told inner products, and of newcomers to those it has.

The paper was not at hand, nor any code of its authors: a summary of it was. It leaves open, and this is what happens:
- Linkage is complete unless asked for otherwise; the distance of a newcomer to a cluster is the mean of those to its
  members that were grouped first.
- Clusters begin at w^0: of the first training nothing but the last layer leaves a client. It is a round of the run.
- lambda is in the units of weights, and so depends on the learning rate, the epochs and the layer.
- Where a protection publishes no sum of so few clients as a cluster has, each of them trains alone, from w^0. Where newcomers are
  placed they wait for some instead, at w^0.
- Who does not answer in that round is a cluster of its own, or, where newcomers are placed, one of them.
- Under a permutation that serves the whole run (`Permuted(keys="run")`) the coordinates that are not 0 show which are the last
  layer's; with `keys="session"`, or a rotation, they do not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

import numpy as np

from ...protocol.view.answers import Assignment, Model, Remembered, Work
from ...protocol.view.asks import Histories, MovesModels, Similarities, Sums, Trains
from ...protocol.view.functionality import Functionality
from ..clustering.kmeans import grouped
from ..clustering.linkage import Linkage, check_linkage, cut, euclidean
from .algorithm import Cluster, Flat, Measured, Start
from .fedavg import Averaging

ALL, NEW = "all", "newcomers"
"""What work from w^0 is named by: the first, and that of newcomers."""


class FedClustView(Trains, Sums, Similarities, Histories, MovesModels, Protocol):
    """What FedClust asks for."""


@dataclass(frozen=True, slots=True)
class State(Flat):
    """start: everybody, and w^0. heads: of those that were grouped, where newcomers are placed by them. waiting: newcomers.

    grouped: whether clusters were looked for.
    """

    round: int
    start: Cluster
    clusters: Mapping[str, Cluster]
    heads: Remembered | None = None
    waiting: tuple[int, ...] = ()
    grouped: bool = False
    measured: Mapping[str, Measured] = field(default_factory=dict, compare=False)

    @property
    def models(self) -> Sequence[Model]:
        return [self.start.model, *(cluster.model for cluster in self.clusters.values())]

    @property
    def remembered(self) -> Sequence[Remembered]:
        return [] if self.heads is None else [self.heads]


@dataclass(frozen=True, slots=True, kw_only=True)
class FedClust(Averaging):
    """threshold: lambda. linkage: of clusters that are merged. newcomers: whether clients may come later. The others as in
    `Averaging`.
    """

    threshold: float
    linkage: Linkage = "complete"
    newcomers: bool = False
    works: ClassVar[frozenset[Work]] = frozenset({"update", "head"})

    def __post_init__(self) -> None:
        Averaging.__post_init__(self)
        check_linkage(self.linkage)
        if not 0 <= self.threshold < np.inf:
            raise ValueError(f"threshold is 0 or more and finite, not {self.threshold}")

    @property
    def alone_if_few(self) -> bool:
        """Whether clients of a cluster that is too small for a sum train alone: newcomers may still make it larger."""
        return not self.newcomers

    @property
    def needs(self) -> frozenset[Functionality]:
        placed = {Functionality.GRAM_ORIGIN, Functionality.GRAM_HISTORY} if self.newcomers else {Functionality.GRAM}
        return frozenset({Functionality.SUMS} | placed)

    def init(self, start: Start, /) -> State:
        everyone = Cluster(start.clients, start.model, seed=start.seed)
        return State(0, everyone, {ALL: everyone})

    def join(self, state: State, newcomers: Sequence[int], /) -> State:
        """New clients wait for a cluster; before there are any they are grouped with all."""
        if state.grouped and not self.newcomers:
            raise ValueError("a client can only join after clustering if heads are kept to place it by; set newcomers=True")
        start = replace(state.start, members=tuple(sorted({*state.start.members, *newcomers})))
        if not state.grouped:
            return replace(state, start=start, clusters={ALL: start})
        return replace(state, start=start, waiting=tuple(sorted({*state.waiting, *newcomers})))

    def round(self, state: State, view: FedClustView, rng: np.random.Generator, /) -> State:
        """The clustering, or a round inside the clusters."""
        if not state.grouped:
            return self._clustered(state, view)
        joining = self._placed(state, view) if state.waiting else {}
        clusters = {
            name: replace(c, members=tuple(sorted({*c.members, *(i for i, group in joining.items() if group == name)})))
            for name, c in self.averaged(state.round, state.clusters, view, rng, parts=not self.newcomers).items()
        }
        waiting = tuple(i for i in state.waiting if i not in joining)
        return replace(state, round=state.round + 1, clusters=clusters, waiting=waiting, measured={})

    def _clustered(self, state: State, view: FedClustView) -> State:
        """One shot; once more in the next round if nobody answered."""
        everyone = state.start
        updates = view.train(state.round, {ALL: Assignment(everyone.model, everyone.members, everyone.members)}, "head").get(ALL)
        gram = None if updates is None else view.gram(updates, origin=self.newcomers)
        following = replace(state, round=state.round + 1)
        if updates is None or gram is None or not gram.clients:
            return following
        far = euclidean(gram.matrix)  # M
        found = list(grouped(cut(far, self.linkage, at=self.threshold), gram.clients).values())
        silent = tuple(i for i in everyone.members if i not in gram.clients)
        alone = [] if self.newcomers else [(i,) for i in silent]
        clusters = {
            f"cluster {k}": Cluster(members, everyone.model, following.round, everyone.seed)
            for k, members in enumerate((*found, *alone), 1)
        }
        heads = view.accumulate(updates, dict.fromkeys(gram.clients, 1.0)) if self.newcomers else None
        seen = {ALL: Measured(None, None, gram.clients, communities=tuple(found), distances=far, joins=self.threshold)}
        waiting = silent if self.newcomers else ()
        return replace(following, clusters=clusters, heads=heads, waiting=waiting, grouped=True, measured=seen)

    def _placed(self, state: State, view: FedClustView) -> dict[int, str]:
        """Of every newcomer that answers the cluster that it joins."""
        work = {NEW: Assignment(state.start.model, state.waiting, state.start.members)}
        updates = view.train(state.round, work, "head").get(NEW)
        if updates is None or state.heads is None:
            return {}
        answered = view.gram(updates, origin=True).clients
        far = euclidean(view.gram_with(replace(updates, clients=answered), state.heads))[: len(answered), len(answered) :]
        known = state.heads.clients
        members = {n: [k for k, i in enumerate(known) if i in c.members] for n, c in state.clusters.items()}
        mean = {name: far[:, at].mean(axis=1) for name, at in members.items() if at}
        return {i: min(mean, key=lambda name: float(mean[name][k])) for k, i in enumerate(answered)}
