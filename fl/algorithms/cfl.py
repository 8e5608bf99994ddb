"""Clustered Federated Learning (Sattler, Mueller, Samek, TNNLS 2020), Algorithms 1 to 5.

Every cluster runs federated learning; once it is close to a stationary point of its objective while some member is far from
its own, the server splits it in two by the cosine similarity of the members' updates. Line numbers are Algorithm 5's.

Where the paper is silent, this is what happens:
- Partial participation: a round samples ceil(participation * |c|) members, absent ones contribute nothing. When the sample
  passes the split test, the next round invites every member and the test and the bipartition are made on that round.
- A member that does not answer in the round of a split is placed later like a new client (Algorithm 4) if updates are
  cached; without the cache the split waits for a round in which all answer.
- A zero update has similarity 0 to all others. A cluster of one is never split, one of two splits into its members.
- The published mean of a splitting round still goes to the whole cluster (lines 12 and 17: D_c is computed for c).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ...protocol.answers import Assignment, Functionality, Gram, Model, Remembered, Sum, Updates
from ...protocol.view import ServerView
from ..bipartition import Bipartition, optimal_bipartition
from ..separation import accepts, cosine_similarity, norm_of_combination, norms
from ..training import Training
from .algorithm import Cluster, Measured, Start, advanced, check_participation, mean_of, sample
from .parameter_tree import ROOT, Node, closer_child, names_of_children


class Thresholds(Protocol):
    """When to split: close to a stationary point of the objective (Eq. 32), far from one's own (Eq. 33)."""

    def stationary(self, mean: float, largest: float, /) -> bool: ...

    def incongruent(self, largest: float, first: float, /) -> bool: ...


@dataclass(frozen=True, slots=True)
class Absolute:
    """eps1 and eps2 as printed, in the units of the updates: they depend on d, the learning rate and the local epochs."""

    eps1: float
    eps2: float

    def stationary(self, mean: float, largest: float, /) -> bool:
        return mean < self.eps1

    def incongruent(self, largest: float, first: float, /) -> bool:
        return largest > self.eps2


@dataclass(frozen=True, slots=True)
class ScaleFree:
    """The same tests as ratios, portable between models: eps1 bounds |mean| / max |update| of the round,
    eps2 the round's max |update| as a share of the run's first.

    Clients that have overfitted send nearly orthogonal updates, whose mean has a ratio near 1 / sqrt(|c|) without any
    disagreement. An eps1 below that, or gamma_max above 0.71 (a cross similarity below 0), keeps such clusters whole.
    """

    eps1: float
    eps2: float

    def stationary(self, mean: float, largest: float, /) -> bool:
        return mean < self.eps1 * largest

    def incongruent(self, largest: float, first: float, /) -> bool:
        return largest > self.eps2 * first


class Linkage(Protocol):
    """How a similarity matrix, rows in the order of the clients, is cut in two."""

    def __call__(self, similarity: NDArray[np.float64], clients: Sequence[int], /) -> Bipartition: ...


@dataclass(frozen=True, slots=True)
class State:
    """clusters: the leaves. tree: the inner nodes. waiting: clients to be placed, with the node they stand at.
    candidates: clusters whose next round invites everybody. first: the first round's largest norm (ScaleFree's unit).
    measured: the last round's norms and similarities per cluster, for the record; not needed to go on.
    """

    round: int
    clusters: Mapping[str, Cluster]
    tree: Mapping[str, Node]
    waiting: Mapping[int, str]
    candidates: tuple[str, ...]
    first: float | None
    measured: Mapping[str, Measured] = field(default_factory=dict, compare=False)

    @property
    def models(self) -> Sequence[Model]:
        return [*(c.model for c in self.clusters.values()), *(n.model for n in self.tree.values())]

    @property
    def remembered(self) -> Sequence[Remembered]:
        return [edge for node in self.tree.values() for edge in node.edges]


@dataclass(frozen=True, slots=True, kw_only=True)
class CFL:
    """Recursive bipartition by cosine similarity.

    thresholds: Absolute(eps1, eps2) or ScaleFree(eps1, eps2). gamma_max: bound on the approximation noise (Eq. 39).
    linkage: optimal_bipartition (Algorithm 1), or complete_linkage_bipartition as in the authors' code.
    similarity: of weight updates (Eq. 44 and 51) or of full gradients (Eq. 50), which cost one more session a round. The
    thresholds bound norms of the same vectors; without gradients from anybody, a round has no split test.
    by_samples: means by n_i (Algorithm 2), or uniform (Algorithm 5). patience: rounds that a cluster trains before it may be
    split. remember: cache pre-split updates in the parameter tree, which Algorithm 4 needs.
    """

    thresholds: Thresholds
    gamma_max: float = 0.0
    linkage: Linkage = optimal_bipartition
    similarity: Literal["update", "gradient"] = "update"
    by_samples: bool = False
    participation: float = 1.0
    patience: int = 0
    remember: bool = True

    def __post_init__(self) -> None:
        check_participation(self.participation)
        if not 0 <= self.gamma_max < 1:
            raise ValueError(f"gamma_max is in [0, 1), not {self.gamma_max}")
        if self.similarity not in ("update", "gradient"):
            raise ValueError(f'similarity is "update" or "gradient", not {self.similarity!r}')

    @property
    def needs(self) -> frozenset[Functionality]:
        remember = {Functionality.GRAM_REMEMBER} if self.remember else set()
        return frozenset({Functionality.SUMS, Functionality.GRAM} | remember)

    def local(self, training: Training, /) -> Training:
        return training

    def init(self, start: Start, /) -> State:
        return State(0, {ROOT: Cluster(start.clients, start.model)}, {}, {}, (), None)

    def join(self, state: State, newcomers: Sequence[int], /) -> State:
        """New clients enter: at the root of the tree, to be placed by Algorithm 4, or in the one cluster there still is."""
        if ROOT in state.clusters:
            root = state.clusters[ROOT]
            return replace(state, clusters={ROOT: replace(root, members=tuple(sorted({*root.members, *newcomers})))})
        if not self.remember:
            raise ValueError("a client can only join after a split if the tree caches updates; set remember=True")
        return replace(state, waiting={**state.waiting, **dict.fromkeys(newcomers, ROOT)})

    def round(self, state: State, view: ServerView, rng: np.random.Generator, /) -> State:
        """One communication round of Algorithm 5 in every cluster, and one step of Algorithm 4 for whoever waits."""
        work = {name: self._invited(state, name, rng) for name in sorted(state.clusters)}
        updates = view.train(state.round, {**work, **_placements(state)})  # lines 6-9
        gradients = view.train(state.round, work, "gradient") if self.similarity == "gradient" else {}
        state = _descend(state, view, updates)
        clusters, tree = dict(state.clusters), dict(state.tree)
        waiting, candidates = dict(state.waiting), []
        measured: dict[str, Measured] = {}
        for name in sorted(work.keys() & updates.keys()):
            cluster, answered = clusters[name], updates[name]
            judged = self._judged(view, answered, gradients.get(name))  # first: who is rejected by it is not in the mean
            mean = view.sums(answered, {name: mean_of(answered.clients, self.by_samples)})[name]  # line 12
            clusters[name] = moved = advanced(view, cluster, mean)
            if judged is None:
                continue
            measured[name] = seen = self._measure(judged, mean)
            first = state.first if state.first is not None else max(m.largest for m in measured.values())
            state = replace(state, first=first)
            if not self._ripe(cluster, seen, state):  # line 13
                continue
            present = set(seen.clients)
            if not present >= set(cluster.members) and not (self.remember and name in state.candidates):
                candidates.append(name)
                continue
            cut = self.linkage(seen.similarity, seen.clients)  # lines 14-15
            measured[name] = replace(seen, split=cut)
            if not accepts(cut.cross, self.gamma_max):  # lines 16-17
                measured[name] = seen
                continue
            children = names_of_children(name)
            del clusters[name]
            for child, members in zip(children, (cut.left, cut.right), strict=True):
                clusters[child] = Cluster(members, moved.model, state.round + 1)
            edges = tuple(view.remember(answered, part) for part in (cut.left, cut.right)) if self.remember else ()
            tree[name] = Node(cluster.members, cluster.model, cluster.born, state.round, children, edges)
            waiting |= dict.fromkeys(sorted(set(cluster.members) - present), name)
        return State(state.round + 1, clusters, tree, waiting, tuple(candidates), state.first, measured)

    def _invited(self, state: State, name: str, rng: np.random.Generator) -> Assignment:
        cluster = state.clusters[name]
        everybody = name in state.candidates
        chosen = cluster.members if everybody else sample(cluster.members, self.participation, rng, least=2)
        return Assignment(cluster.model, chosen, cluster.members)

    def _judged(self, view: ServerView, answered: Updates, gradients: Updates | None) -> Gram | None:
        """What the split test looks at: the updates, or the gradients of those who sent both; None if there are none."""
        if self.similarity == "update":
            seen = view.gram(answered, origin=True)
        elif gradients is not None:
            seen = _restricted(view.gram(gradients, origin=True), answered.clients)
        else:
            return None
        return seen if seen.clients else None

    def _measure(self, judged: Gram, mean: object) -> Measured:
        uniform = np.full(len(judged.clients), 1 / len(judged.clients))
        by_samples = self.by_samples and self.similarity == "update"  # of gradients no mean by n_i is ever published
        known = mean.norm if by_samples and isinstance(mean, Sum) else None
        of_mean = known if known is not None else norm_of_combination(judged.matrix, uniform)
        return Measured(of_mean, float(norms(judged.matrix).max()), judged.clients, cosine_similarity(judged.matrix))

    def _ripe(self, cluster: Cluster, seen: Measured, state: State) -> bool:
        """Whether the split test is passed (Eq. 32 and 33) by a cluster that can be split at all."""
        if len(seen.clients) < 2 or state.round - cluster.born < self.patience or state.first is None:
            return False
        return self.thresholds.stationary(seen.mean, seen.largest) and self.thresholds.incongruent(seen.largest, state.first)


def _restricted(gram: Gram, clients: Sequence[int]) -> Gram:
    """The part of a Gram matrix about these clients: who sent a gradient but no update cannot be split by it."""
    kept = [k for k, i in enumerate(gram.clients) if i in set(clients)]
    return Gram(tuple(gram.clients[k] for k in kept), gram.matrix[np.ix_(kept, kept)], gram.tolerance)


def _placements(state: State) -> dict[str, Assignment]:
    """Sessions in which waiting clients train from the node that they stand at (Algorithm 4, line 5)."""
    standing: dict[str, list[int]] = {}
    for client, node in sorted(state.waiting.items()):
        standing.setdefault(node, []).append(client)
    return {f"{node}?": Assignment(state.tree[node].model, tuple(c), tuple(c)) for node, c in standing.items()}


def _descend(state: State, view: ServerView, updates: Mapping[str, Updates]) -> State:
    """Algorithm 4, lines 6-12, for every waiting client that answered: one level down, into a cluster if it is a leaf."""
    clusters, waiting = dict(state.clusters), dict(state.waiting)
    for name, node in state.tree.items():
        answered = updates.get(f"{name}?")
        if answered is None:
            continue
        cosines = [view.cosines(answered, edge) for edge in node.edges]
        for row, client in enumerate(answered.clients):
            if any(np.isnan(c[row]).any() for c in cosines):
                continue  # it trained, but did not answer what it was compared by; it waits where it stands
            child = closer_child(node, [c[row] for c in cosines])
            if child in clusters:
                del waiting[client]
                clusters[child] = replace(clusters[child], members=tuple(sorted({*clusters[child].members, client})))
            else:
                waiting[client] = child
    return replace(state, clusters=clusters, waiting=waiting)
