"""PACFL: clients are grouped once, before training, by the angles between subspaces of their data (Vahidian et al., AAAI 2023).

Each client takes for each of its labels the first p left singular vectors of its examples; the server finds the angle A_ij of
every two clients, merges the nearest clusters while they are within beta, and then each cluster averages. A newcomer joins the
cluster that it is nearest to on the mean, if that is within beta, and is one of its own otherwise.

Bases look like means of classes. The paper's clients send them as they are (`PRINTED`). Here the default is one release a
client under a rotation that all clients share and the server lacks, which moves no angle: the server is told all inner products
between vectors of all bases, and which labels a client has, and who joins it with one client sees the bases.

Where paper and authors' code differ or are silent, this is what happens:
- "aligned" is the angles between vectors of the same label and rank, as a mean over those that both clients have, so that beta is
  in degrees whatever there are; of lines, as a singular vector has no sign. "smallest", the paper's first measure, is the
  smallest principal angle of the spans of all labels: it is 0 for all pairs once two bases together have more vectors than an
  image has pixels (10 labels of 3 on 8 x 8), and small long before. The code takes the least entry of arccos U_i^T U_j, with
  signs, which is neither.
- Linkage "weighted" is what the code calls average. Examples are as training sees them.
- A client of whom nothing was compared waits like a newcomer, and is asked again; of two others it is 90 degrees. A single
  client of a run is a cluster of its own.
- A newcomer that joins as above moves nobody else; the code clusters everybody anew.
- Clusters begin at w^0 and train from the round on in which they are found. Where a protection publishes no sum of so few
  clients as a cluster has, each of them trains alone; once newcomers make it large enough, it begins again at w^0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import ClassVar, Literal, Protocol

import numpy as np
from torch import nn

from ...protocol.pairs.choices import PerClient, PerPair
from ...protocol.pairs.question import PairQuestion
from ...protocol.view.answers import Assignment, Model
from ...protocol.view.asks import ComparesPairs, MovesModels, Sums, Trains
from ...protocol.view.functionality import Functionality
from ..clients.bases import Bases
from ..clustering.kmeans import grouped
from ..clustering.linkage import Linkage, check_linkage, cut
from ..clustering.subspaces import RIGHT, Angles, Pair, Unmeasured, aligned_angle, smallest_angle
from ..data.population import Population
from .algorithm import Cluster, Flat, Measured, Start, check_counts
from .fedavg import Averaging

ALL = "all"
"""The cluster that everybody is compared in."""
ROTATED = PerClient(projection="orthonormal", ratio=1.0)
PRINTED = PerPair(projection="none", embedding="public")
"""What clients release: as they are, to the server, as printed."""
SHOWN = "for each label the directions in which each client's records vary most, and so which labels it has"
DECIDED = "the angles between them"
"""What the server is told, and computes, in words."""


class PacflView(Trains, Sums, ComparesPairs, MovesModels, Protocol):
    """What PACFL asks for."""


@dataclass(frozen=True, slots=True)
class State(Flat):
    """start: everybody, and w^0. angles: of pairs, (smaller id, larger id), in degrees. waiting: clients without a cluster."""

    round: int
    start: Cluster
    clusters: Mapping[str, Cluster]
    angles: Mapping[Pair, float] = field(default_factory=dict)
    waiting: tuple[int, ...] = ()
    measured: Mapping[str, Measured] = field(default_factory=dict, compare=False)

    @property
    def models(self) -> Sequence[Model]:
        return [self.start.model, *(cluster.model for cluster in self.clusters.values())]


@dataclass(frozen=True, slots=True, kw_only=True)
class PACFL(Averaging):
    """beta: in degrees. vectors: p. measure: of two bases, as above. choice: what clients release. The rest as in `Averaging`."""

    shown: ClassVar[str] = SHOWN
    decided: ClassVar[str] = DECIDED
    alone_if_few: ClassVar[bool] = True

    beta: float
    vectors: int = 3
    measure: Literal["smallest", "aligned"] = "aligned"
    linkage: Linkage = "weighted"
    choice: PerClient | PerPair = ROTATED

    def __post_init__(self) -> None:
        Averaging.__post_init__(self)
        check_counts(vectors=self.vectors)
        check_linkage(self.linkage)
        if not 0 <= self.beta <= RIGHT:
            raise ValueError(f"beta is an angle of 0 to 90 degrees, not {self.beta}")
        if self.measure not in ("smallest", "aligned"):
            raise ValueError(f'measure is "smallest" or "aligned", not {self.measure!r}')
        whole = self.choice.projection == "none" or (self.choice.projection, self.choice.ratio) == ("orthonormal", 1.0)
        if not whole or self.choice.noise is not None or getattr(self.choice, "embedding", "public") != "public":
            raise ValueError("angles are of bases as they are or under a whole rotation: no noise, no model, no other projection")

    @property
    def needs(self) -> frozenset[Functionality]:
        return frozenset({Functionality.SUMS, Functionality.PAIRS})

    def embedders(self, population: Population, _: nn.Module, /) -> Bases:
        """What clients are compared by."""
        return Bases(population, self.vectors)

    def init(self, start: Start, /) -> State:
        everyone = Cluster(start.clients, start.model, seed=start.seed)
        return State(0, everyone, {}, waiting=start.clients)

    def join(self, state: State, newcomers: Sequence[int], /) -> State:
        """New clients wait until they are compared."""
        start = replace(state.start, members=tuple(sorted({*state.start.members, *newcomers})))
        return replace(state, start=start, waiting=tuple(sorted({*state.waiting, *newcomers})))

    def round(self, state: State, view: PacflView, rng: np.random.Generator, /) -> State:
        """The comparison of whoever waits, and a round of averaging inside the clusters."""
        state = replace(state, measured={})
        if state.waiting:
            state = self._compared(state, view)
        clusters = self.averaged(state.round, state.clusters, view, rng, parts=True) if state.clusters else {}
        return replace(state, round=state.round + 1, clusters=clusters)

    def _compared(self, state: State, view: PacflView) -> State:
        """The state with the angles of those who wait, to each other and to all."""
        everyone = state.start
        waiting = {*state.waiting}
        pairs = tuple(p for p in combinations(everyone.members, 2) if p not in state.angles and not waiting.isdisjoint(p))
        judge = Angles(smallest_angle if self.measure == "smallest" else aligned_angle)
        work = {ALL: Assignment(everyone.model, everyone.members, everyone.members)}
        view.pairs(state.round, work, {}, PairQuestion(pairs, self.choice, Unmeasured(), judge, self.shown, self.decided))
        state = replace(state, angles={**state.angles, **judge.found})
        single = len(everyone.members) == 1  # nobody is there to be compared with
        known = tuple(i for i in everyone.members if single or any(i in pair for pair in state.angles))
        new = tuple(i for i in state.waiting if i in known)
        state = replace(state, waiting=tuple(i for i in state.waiting if i not in known))
        return self._joined(state, new) if state.clusters else self._first(state, known)

    def _first(self, state: State, known: tuple[int, ...]) -> State:
        """Agglomerative clusters of all that were compared."""
        if not known:
            return state
        far = np.array([[0.0 if i == j else _angle(state, i, j) for j in known] for i in known])
        found = list(grouped(cut(far, self.linkage, at=self.beta), known).values())
        seen = Measured(None, None, known, communities=tuple(found), distances=far, joins=self.beta)
        return replace(_with(state, found), measured={ALL: seen})

    def _joined(self, state: State, new: tuple[int, ...]) -> State:
        """Each newcomer in the nearest cluster, or in one of its own."""
        for i in new:
            groups = {c.alone.members if c.alone else c.members: name for name, c in state.clusters.items()}
            mean = {members: float(np.mean([_angle(state, i, j) for j in members])) for members in groups}
            nearest = min(mean, key=lambda members: mean[members])
            state = _grown(state, groups[nearest], i) if mean[nearest] <= self.beta else _with(state, [(i,)])
        return state


def _grown(state: State, name: str, client: int) -> State:
    """The client in this cluster. One whose members train alone is one cluster again, at w^0, as soon as it is large enough."""
    cluster, few = state.clusters[name], state.clusters[name].alone
    if few is None:
        grown = replace(cluster, members=tuple(sorted({*cluster.members, client})))
        return replace(state, clusters={**state.clusters, name: grown})
    together = tuple(sorted({*few.members, client}))
    others = {name: c for name, c in state.clusters.items() if c.alone != few}
    if len(together) >= few.floor:
        return _with(replace(state, clusters=others), [together])
    alone = {c.members[0]: c for c in state.clusters.values() if c.alone == few}
    alone[client] = replace(state.start, members=(client,), born=state.round)
    few = replace(few, members=together)
    return replace(state, clusters=others | {f"client {i}": replace(c, alone=few) for i, c in alone.items()})


def _angle(state: State, i: int, j: int) -> float:
    return state.angles.get((min(i, j), max(i, j)), RIGHT)


def _with(state: State, found: Sequence[tuple[int, ...]]) -> State:
    """The state with these clusters beside those that it has, at w^0."""
    count = max((int(name.rpartition(" ")[2]) for name in state.clusters if name.startswith("cluster ")), default=0)
    added = {
        f"cluster {count + k}": Cluster(members, state.start.model, state.round, state.start.seed)
        for k, members in enumerate(found, 1)
    }
    return replace(state, clusters={**state.clusters, **added})
