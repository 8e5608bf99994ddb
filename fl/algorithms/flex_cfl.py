"""FlexCFL: groups by the directions of first updates, then averaging inside them (Duan et al., TPDS 2022; FedGroup).

Cold start: a sample of min(20 K, m) clients trains from w^0. K directions are the leading singular vectors of their updates,
each client's features its cosines to those (EDC), and k-means makes K groups, which begin with the mean of their members' models.
Of the updates the server is told inner products alone: a singular value decomposition follows from those.
Newcomers, who were not in the cold start, train from the same w^0 and join the group whose mean first update is nearest in
direction, (1 - cos) / 2. Then each group averages; and where eta_g > 0 the groups' models attract each other,
w_g <- (w_g + sum_l eta_g w_l / |w_l|) / (1 + sum_l eta_g / |w_l|) over all other groups l.

Where paper and authors' code differ or are silent, this is what happens:
- Pre-training is one round of the scenario's local training, as every other method has; the code's is 50 minibatches. It is a
  round of the run.
- Newcomers are compared with the cold start's means, not with later ones. Whoever does not answer is asked again.
- A group whose mean is not published, because too few are in it, begins at w^0, and each of its clients trains alone once
  nobody waits for a group; those models neither attract nor are attracted, and newcomers join others. A zero update has
  cosine 0 to everything.
- The mean over groups, which the code evaluates, is not made; data that drift, which regroup clients ("migration"), there are
  none; and the code's test of them passes counts as samples, so that it does not see swapped labels.
- Norms of models are known where the server owns them: elsewhere eta_g is 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ...protocol.view.answers import Assignment, Gram, Model, Remembered, Weights
from ...protocol.view.asks import MovesModels, Recalls, Revises, Similarities, Sums, Trains
from ...protocol.view.functionality import Functionality
from ..clustering.directions import cosines_to_means, decomposed_cosines, differences_of_cosines, normalised_mean
from ..clustering.kmeans import grouped, kmeans
from ..clustering.linkage import cut
from ..clustering.separation import cosine_similarity, norms
from .algorithm import Cluster, Flat, Measured, Start, advanced, check_counts
from .cohorts import sample
from .fedavg import Averaging

ALL, NEW = "all", "newcomers"
"""What work from w^0 is named by: that of the cold start, and that of newcomers."""
PER_GROUP = 20
"""Clients of the cold start for each group."""


class FlexView(Trains, Sums, Similarities, Recalls, MovesModels, Revises, Protocol):
    """What FlexCFL asks for."""


@dataclass(frozen=True, slots=True, eq=False)
class Directions:
    """The cold start. handle: on its updates, if newcomers are compared with them. inner: their inner products, float64 (n, n).

    groups: the members of each group, by its name.
    """

    handle: Remembered | None
    inner: NDArray[np.float64] = field(repr=False)
    groups: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class State(Flat):
    """start: everybody, and w^0. waiting: clients without a group. found: None until there are groups."""

    round: int
    start: Cluster
    clusters: Mapping[str, Cluster]
    waiting: tuple[int, ...] = ()
    found: Directions | None = None
    measured: Mapping[str, Measured] = field(default_factory=dict, compare=False)

    @property
    def models(self) -> Sequence[Model]:
        return [self.start.model, *(cluster.model for cluster in self.clusters.values())]

    @property
    def remembered(self) -> Sequence[Remembered]:
        return [] if self.found is None or self.found.handle is None else [self.found.handle]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlexCFL(Averaging):
    """groups: K. eta_g: how much the groups' models attract each other. measure: "EDC" with k-means, or "MADC", the mean
    difference of cosines to all others, with complete linkage. newcomers: join the "nearest" group, for which first updates are
    remembered, or a "random" one (the paper's RAC). The others as in `Averaging`.
    """

    alone_if_few: ClassVar[bool] = True

    groups: int
    eta_g: float = 0.0
    measure: Literal["EDC", "MADC"] = "EDC"
    newcomers: Literal["nearest", "random"] = "nearest"

    def __post_init__(self) -> None:
        Averaging.__post_init__(self)
        check_counts(groups=self.groups)
        if not 0 <= self.eta_g < np.inf:
            raise ValueError(f"eta_g is 0 or more and finite, not {self.eta_g}")
        if self.measure not in ("EDC", "MADC"):
            raise ValueError(f'measure is "EDC" or "MADC", not {self.measure!r}')
        if self.newcomers not in ("nearest", "random"):
            raise ValueError(f'newcomers join the "nearest" or a "random" group, not {self.newcomers!r}')

    @property
    def needs(self) -> frozenset[Functionality]:
        needed = {Functionality.SUMS, Functionality.GRAM_ORIGIN}
        needed |= {Functionality.GRAM_REMEMBER} if self.newcomers == "nearest" else set()
        return frozenset(needed | ({Functionality.REVISION} if self.eta_g > 0 else set()))

    def init(self, start: Start, /) -> State:
        if len(start.clients) < self.groups:
            raise ValueError(f"{len(start.clients)} clients do not make {self.groups} groups")
        everyone = Cluster(start.clients, start.model, seed=start.seed)
        return State(0, everyone, {ALL: everyone})

    def join(self, state: State, newcomers: Sequence[int], /) -> State:
        """New clients wait for a group; before there are any they are in the cold start."""
        members = tuple(sorted({*state.start.members, *newcomers}))
        start = replace(state.start, members=members)
        if state.found is None:
            return replace(state, start=start, clusters={ALL: start})
        return replace(state, start=start, waiting=tuple(sorted({*state.waiting, *newcomers})))

    def round(self, state: State, view: FlexView, rng: np.random.Generator, /) -> State:
        """The cold start, or a round inside the groups."""
        if state.found is None:
            return self._cold_start(state, view, rng)
        joining = self._placed(state, view, rng) if state.waiting else {}
        clusters = self._attracted(view, self.averaged(state.round, state.clusters, view, rng, parts=not state.waiting))
        clusters = {
            name: replace(c, members=tuple(sorted({*c.members, *(i for i, group in joining.items() if group == name)})))
            for name, c in clusters.items()
        }
        waiting = tuple(i for i in state.waiting if i not in joining)
        return replace(state, round=state.round + 1, clusters=clusters, waiting=waiting, measured={})

    def _cold_start(self, state: State, view: FlexView, rng: np.random.Generator) -> State:
        """Algorithm "group cold start"; once more in the next round if fewer than K answered."""
        everyone = state.start
        chosen = sample(everyone.members, min(1.0, PER_GROUP * self.groups / len(everyone.members)), rng, self.groups)
        updates = view.train(state.round, {ALL: Assignment(everyone.model, chosen, everyone.members)}).get(ALL)
        gram = None if updates is None else view.gram(updates, origin=True)
        if updates is None or gram is None or len(gram.clients) < self.groups:
            return replace(state, round=state.round + 1)
        labels = self._labels(gram, rng)
        groups = {f"group {k + 1}": members for k, members in grouped(labels, gram.clients).items()}
        weights = {name: Weights(dict.fromkeys(members, 1.0), members=members) for name, members in groups.items()}
        means = view.sums(updates, weights)
        clusters = {
            name: advanced(view, Cluster(members, everyone.model, state.round + 1, everyone.seed), means[name])
            for name, members in groups.items()
        }
        handle = view.remember(updates, gram.clients) if self.newcomers == "nearest" else None
        found = Directions(handle, gram.matrix, groups)
        seen = Measured(None, float(norms(gram.matrix).max()), gram.clients, cosine_similarity(gram.matrix))
        seen = replace(seen, communities=tuple(groups.values()))
        waiting = tuple(sorted(set(everyone.members) - set(gram.clients)))
        return State(state.round + 1, everyone, clusters, waiting, found, {ALL: seen})

    def _labels(self, gram: Gram, rng: np.random.Generator) -> NDArray[np.int64]:
        if self.measure == "MADC":
            return cut(differences_of_cosines(gram.matrix), "complete", count=self.groups)
        return kmeans(decomposed_cosines(gram.matrix, self.groups), self.groups, rng, steps=20)

    def _placed(self, state: State, view: FlexView, rng: np.random.Generator) -> dict[int, str]:
        """Client cold start: of every newcomer that answers the group that it joins."""
        found, there = state.found, [name for name, c in state.clusters.items() if not c.alone]
        if not there:
            return {}
        if found is None or found.handle is None:
            return dict(zip(state.waiting, rng.choice(there, len(state.waiting)).tolist(), strict=True))
        work = {NEW: Assignment(state.start.model, state.waiting, state.start.members)}  # from the original w^0
        updates = view.train(state.round, work).get(NEW)
        if updates is None:
            return {}
        cosines = view.cosines(updates, found.handle)
        row = {client: k for k, client in enumerate(found.handle.clients)}
        groups = [[row[i] for i in found.groups[name]] for name in there]
        near = cosines_to_means(cosines, norms(found.inner), found.inner, groups)  # least (1 - cos) / 2
        compared = [k for k, row_of in enumerate(cosines) if not np.isnan(row_of).any()]
        return {updates.clients[k]: there[int(np.argmax(near[k]))] for k in compared}

    def _attracted(self, view: FlexView, clusters: dict[str, Cluster]) -> dict[str, Cluster]:
        """Inter-group aggregation."""
        if self.eta_g == 0:
            return clusters
        shared = {name: cluster for name, cluster in clusters.items() if not cluster.alone}
        lengths = {name: view.norm(cluster.model) for name, cluster in shared.items()}
        moved = {**clusters}
        for name, cluster in shared.items():
            parts: dict[Model, float] = {}
            for other, weight in normalised_mean(lengths, name, self.eta_g).items():
                model = clusters[other].model
                parts[model] = parts.get(model, 0.0) + weight
            moved[name] = replace(cluster, model=view.merge(parts))
        return moved
