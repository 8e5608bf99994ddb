"""Clustered Federated Learning (Sattler, Mueller, Samek, TNNLS 2020), Algorithms 1 to 5.

Every cluster runs federated learning; once it is close to a stationary point of its objective while some member is far from
its own, the server splits it in two by the cosine similarity of the members' updates. Line numbers are Algorithm 5's.

As printed, the server asks for all inner products in every round, and looks at most of them for the largest norm alone. Here it
asks for as little as the decision needs (`similarities="when ripe"`): the published sum comes with the mean squared norm, and
only where these leave a split possible (`split_gate`) is a Gram matrix asked for, of deviations from the mean, which tells
nothing about the sum. A cut that another look could change is looked at again in the next round, and made if that shows the
same cut, or if the mean of all looks leaves no doubt. Where a view cannot tell a sum's mean squared norm or norm, they are taken
from a Gram matrix about the origin, asked for before the sum in every round; the decisions are the same.
`similarities="every round"` is the algorithm as printed.

Where the paper is silent, this is what happens:
- Partial participation: a round invites ceil(participation * |c|) members, of fixed cohorts in turn unless sampling="random",
  which the paper's word "subset" also covers; absent ones contribute nothing. Sides of a split keep the cohorts of the
  cluster, each its part (`cohorts.divided`), so that sums before and after tell less of a client. When the sample passes the
  split test, the next round invites every member and the test and the bipartition are made on that round.
  A fixed cohort that mixes groups unevenly does so in all its rounds, and its mean stays long where that of all members gets
  short. So, when ripe, Eq. 32 is not asked of a cohort but of rounds of all members, as many as the mean needs to get short
  that the last cohort drew to itself; after `pause` + 1 that fail, cohorts go on for a `pause`. Where cohorts are whole in
  the cluster, such rounds tell no more of a client than one does.
- A member that does not answer in the round of a split is placed later like a new client (Algorithm 4) if updates are
  cached; without the cache the split waits for a round in which all answer.
- A zero update has similarity 0 to all others. A cluster of one is never split, one of two splits into its members.
- A cut of which a side has fewer members than sums need (`Sums.least`) is turned down, as one that gamma_max does: that side
  would never be trained again. A round invites as many at least. Where sums have no floor, nothing is different.
- The published mean of a splitting round still goes to the whole cluster (lines 12 and 17: D_c is computed for c).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ...protocol.view.answers import Assignment, Gram, Model, Remembered, Updates
from ...protocol.view.asks import MovesModels, Recalls, Similarities, Sums, Trains
from ...protocol.view.functionality import Functionality
from ..clients.training import Training
from ..clustering.bipartition import Bipartition, optimal_bipartition
from ..clustering.separation import accepts, cosine_similarity
from ..clustering.split_gate import Looks, Thresholds, mean_of_members, recent, same_cut, together, worth_asking
from ..field_ranges import need_least, need_whole
from .algorithm import Cluster, Measured, Start, advanced
from .cohorts import Sampling, check_participation, check_sampling, cohorts, divided, invited
from .newcomers import descended, placements
from .parameter_tree import ROOT, Node, names_of_children
from .sight import Compared, Similarity, SimilaritySchedule, size


class CflView(Trains, Sums, Similarities, Recalls, MovesModels, Protocol):
    """What CFL asks for."""


@dataclass(frozen=True, slots=True)
class Absolute:
    """eps1 and eps2 as printed, in the units of the updates: they depend on d, the learning rate and the local epochs."""

    eps1: float
    eps2: float

    def __post_init__(self) -> None:
        need_least(self, 0, "eps1", "eps2", endless=True)

    def stationary(self, mean: float, size: float, /) -> bool:
        return mean < self.eps1

    def incongruent(self, size: float, first: float, /) -> bool:
        return size > self.eps2


@dataclass(frozen=True, slots=True)
class ScaleFree:
    """The same tests as ratios, portable between models: eps1 bounds |mean| / size of the round, eps2 the round's size as a
    share of the run's first. The size is max |update| as printed, or the root mean square of the norms (`CFL.similarities`).

    Clients that have overfitted send nearly orthogonal updates, whose mean has a ratio near 1 / sqrt(|c|) without any
    disagreement. An eps1 below that, or gamma_max above 0.71 (a cross similarity below 0), keeps such clusters whole.
    """

    eps1: float
    eps2: float

    def __post_init__(self) -> None:
        need_least(self, 0, "eps1", "eps2", endless=True)

    def stationary(self, mean: float, size: float, /) -> bool:
        return mean < self.eps1 * size

    def incongruent(self, size: float, first: float, /) -> bool:
        return size > self.eps2 * first


class Linkage(Protocol):
    """How a similarity matrix, rows in the order of the clients, is cut in two."""

    def __call__(self, similarity: NDArray[np.float64], clients: Sequence[int], /) -> Bipartition: ...


@dataclass(frozen=True, slots=True)
class State:
    """clusters: the leaves. tree: the inner nodes. waiting: clients to be placed, with the node they stand at.
    candidates: clusters whose next round invites everybody. first: the first round's size of updates (ScaleFree's unit).
    unsure: what left a cut in doubt, by cluster. resting: until which round a cluster is not asked for similarities again.
    gathered: until which round all members of a cluster are invited though they fail the split test.
    measured: the last round's norms and similarities per cluster, for the record; not needed to go on.
    """

    round: int
    clusters: Mapping[str, Cluster]
    tree: Mapping[str, Node]
    waiting: Mapping[int, str]
    candidates: tuple[str, ...]
    first: float | None
    unsure: Mapping[str, Looks] = field(default_factory=dict)
    resting: Mapping[str, int] = field(default_factory=dict)
    gathered: Mapping[str, int] = field(default_factory=dict)
    measured: Mapping[str, Measured] = field(default_factory=dict, compare=False)

    @property
    def models(self) -> Sequence[Model]:
        return [*(c.model for c in self.clusters.values()), *(n.model for n in self.tree.values())]

    @property
    def remembered(self) -> Sequence[Remembered]:
        return [node.edge for node in self.tree.values() if node.edge is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CFL:
    """Recursive bipartition by cosine similarity.

    thresholds: Absolute(eps1, eps2) or ScaleFree(eps1, eps2). gamma_max: bound on the approximation noise (Eq. 39).
    linkage: optimal_bipartition (Algorithm 1), or complete_linkage_bipartition as in the authors' code.
    similarities: "when ripe", of deviations from the mean, once sums leave a split possible: the thresholds bound the norm of the
    mean and the root mean square of norms. Or "every round" about the origin, as printed: they bound the largest norm.
    similarity: of weight updates (Eq. 44 and 51) or of full gradients (Eq. 50), which cost one more session in every round, or
    when ripe. In every round the thresholds bound norms of the same vectors, and without gradients there is no split test; when
    ripe they bound those of the updates, whose sums are published anyway.
    by_samples: means by n_i (Algorithm 2), or uniform (Algorithm 5). patience: rounds that a cluster trains before it may be
    split. pause: rounds without similarities after a cut that was turned down, when ripe; and with cohorts, rounds of all members
    after the first that failed the test, and rounds without them afterwards. remember: cache pre-split updates in the parameter
    tree, which Algorithm 4 needs; newcomers are compared about the mean of a split, or as printed.
    """

    span: ClassVar[int] = 1

    thresholds: Thresholds
    gamma_max: float = 0.0
    linkage: Linkage = optimal_bipartition
    similarities: Compared = "when ripe"
    similarity: Similarity = "update"
    by_samples: bool = False
    participation: float = 1.0
    sampling: Sampling = "cohorts"
    patience: int = 0
    pause: int = 4
    remember: bool = True

    def __post_init__(self) -> None:
        need_whole(self, 0, "patience", "pause")
        check_participation(self.participation)
        check_sampling(self.sampling)
        if not 0 <= self.gamma_max < 1:
            raise ValueError(f"gamma_max is in [0, 1), not {self.gamma_max}")
        if self.similarity not in ("update", "gradient"):
            raise ValueError(f'similarity is "update" or "gradient", not {self.similarity!r}')
        if self.similarities not in ("when ripe", "every round"):
            raise ValueError(f'similarities are asked for "when ripe" or in "every round", not {self.similarities!r}')

    @property
    def needs(self) -> frozenset[Functionality]:
        if self.similarities == "every round":
            compared, remembered = Functionality.GRAM_ORIGIN, Functionality.GRAM_REMEMBER
        else:
            compared, remembered = Functionality.GRAM, Functionality.GRAM_EDGE
        return frozenset({Functionality.SUMS, compared} | ({remembered} if self.remember else set()))

    @property
    def full_gradients(self) -> bool:
        """Whether clients are asked for gradients over all of their records."""
        return self.similarity == "gradient"

    @property
    def needs_under_noise(self) -> frozenset[Functionality]:
        """Sums with noise tell no energy, so the norms come from a Gram matrix about the origin.

        One about the mean tells how far updates are apart and not how long their mean is, which the split test asks as well; and
        with some tens of clients the noisy mean does not tell it: its noise, in all coordinates together, is longer than it.
        """
        return self.needs | {Functionality.GRAM_ORIGIN}

    @property
    def _cohorts(self) -> bool:
        """Whether samples are fixed cohorts: one that mixes groups unevenly does so for good, and its mean never gets small."""
        return self.participation < 1 and self.sampling == "cohorts" and self.similarities == "when ripe"

    @property
    def _sight(self) -> SimilaritySchedule:
        return SimilaritySchedule(self.similarities, self.similarity, self.by_samples)

    def local(self, training: Training, /) -> Training:
        return training

    def init(self, start: Start, /) -> State:
        return State(0, {ROOT: Cluster(start.clients, start.model, seed=start.seed)}, {}, {}, (), None)

    def join(self, state: State, newcomers: Sequence[int], /) -> State:
        """New clients enter: at the root of the tree, to be placed by Algorithm 4, or in the one cluster there still is."""
        if ROOT in state.clusters:
            root = state.clusters[ROOT]
            return replace(state, clusters={ROOT: replace(root, members=tuple(sorted({*root.members, *newcomers})))})
        if not self.remember:
            raise ValueError("a client can only join after a split if the tree caches updates; set remember=True")
        return replace(state, waiting={**state.waiting, **dict.fromkeys(newcomers, ROOT)})

    def round(self, state: State, view: CflView, rng: np.random.Generator, /) -> State:
        """One communication round of Algorithm 5 in every cluster, and one step of Algorithm 4 for whoever waits."""
        sight = self._sight
        least = max(2, view.least)
        work = {name: self._invited(state, name, rng, least) for name in sorted(state.clusters)}
        updates = view.train(state.round, {**work, **placements(state.tree, state.waiting)})  # lines 6-9
        gradients = view.train(state.round, work, "gradient") if sight.printed and self.similarity == "gradient" else {}
        clusters, waiting = descended(state.tree, state.clusters, state.waiting, view, updates)
        tree, first = dict(state.tree), state.first
        candidates, unsure, resting, gathered = list[str](), dict(state.unsure), dict(state.resting), dict(state.gathered)
        measured: dict[str, Measured] = {}
        for name in sorted(work.keys() & updates.keys()):
            cluster, answered = clusters[name], updates[name]
            gram = sight.before_sum(view, answered, gradients.get(name))
            mean = view.sums(answered, {name: sight.weights(answered.clients)})[name]  # line 12
            clusters[name] = moved = advanced(view, cluster, mean)
            seen = sight.norms(answered, mean, gram)
            if seen is None:
                continue
            measured[name] = seen
            first = size(seen) if first is None else first
            fixed = self._cohorts and len(work[name].participants) < len(cluster.members)
            ripe = state.round >= resting.get(name, 0) and self._ripe(state.round, cluster, seen, first, fixed)
            if not ripe and not (name in unsure and name in state.candidates):  # line 13
                if self._cohorts and name in state.candidates:
                    if state.round < gathered.setdefault(name, state.round + self.pause):
                        candidates.append(name)
                    else:
                        resting[name] = state.round + 1 + self.pause
                continue
            if not set(seen.clients) >= set(cluster.members) and not (self.remember and name in state.candidates):
                candidates.append(name)
                continue
            if gram is None and not sight.printed and len(cluster.members) < 2 * view.least:
                resting[name] = state.round + 1 + self.pause
                measured[name] = replace(seen, turned_down=_too_few(len(cluster.members), view.least))
                continue
            gram = sight.similarities_of(view, state.round, work[name], answered, gram)
            if gram is None:
                resting[name] = state.round + 1 + self.pause
                continue
            if not self.remember and not set(gram.clients) >= set(cluster.members):
                candidates.append(name)
                continue
            before, alone = recent(unsure.pop(name, None), state.round, self.pause), self._cut(seen, gram)
            gram, count = together(before, gram)
            measured[name] = seen = sight.shown(seen, gram)
            cut = self._cut(seen, gram)  # lines 14-15
            again = before is not None and same_cut(before.cut, alone) and same_cut(alone, cut)
            doubt = not again and sight.doubtful(cut, seen, gram, self.gamma_max)
            if doubt:
                unsure[name] = Looks(state.round, count, alone, gram)
            if doubt and before is None and accepts(cut.cross, self.gamma_max):
                candidates.append(name)
                continue
            if doubt or not accepts(cut.cross, self.gamma_max):  # lines 16-17
                resting[name] = state.round + 1 + (0 if sight.printed else self.pause)
                continue
            if min(len(cut.left), len(cut.right)) < view.least:
                resting[name] = state.round + 1 + (0 if sight.printed else self.pause)
                measured[name] = replace(seen, turned_down=_too_small(cut, view.least))
                continue
            measured[name] = replace(seen, split=cut)
            sides, children = (cut.left, cut.right), names_of_children(name)
            edge = self._edge(view, answered, seen.clients)
            tree[name] = Node(cluster.members, cluster.model, cluster.born, state.round, children, sides, edge)
            del clusters[name]
            for child, members, within in zip(children, sides, self._within(cluster, sides, least), strict=True):
                clusters[child] = Cluster(members, moved.model, state.round + 1, cluster.seed, within=within)
            waiting |= dict.fromkeys(sorted(set(cluster.members) - set(seen.clients)), name)
        resting = {name: until for name, until in resting.items() if name in clusters and until > state.round + 1}
        gathered = {name: until for name, until in gathered.items() if name in candidates}
        return State(state.round + 1, clusters, tree, waiting, tuple(candidates), first, unsure, resting, gathered, measured)

    def _invited(self, state: State, name: str, rng: np.random.Generator, least: int) -> Assignment:
        cluster = state.clusters[name]
        everybody = name in state.candidates
        if everybody:
            return Assignment(cluster.model, cluster.members, cluster.members)
        chosen = invited(cluster, state.round, self.participation, self.sampling, rng, least)
        return Assignment(cluster.model, chosen, cluster.members)

    def _within(self, cluster: Cluster, sides: Sequence[Sequence[int]], least: int) -> Sequence[tuple[tuple[int, ...], ...]]:
        """The cohorts in which the sides of a split go on training."""
        if self.participation == 1 or self.sampling == "random":
            return [() for _ in sides]
        return divided(cohorts(cluster, self.participation, least), sides, least)

    def _ripe(self, round: int, cluster: Cluster, seen: Measured, first: float, fixed: bool) -> bool:
        """Whether the split test is passed (Eq. 32 and 33) by a cluster that can be split at all; of a fixed cohort, whether
        it could be by the mean of all members, which such a cohort tells nothing about."""
        if len(seen.clients) < 2 or round - cluster.born < self.patience:
            return False
        mean, single = seen.mean or 0.0, size(seen)
        if self.similarities == "every round":
            return self.thresholds.stationary(mean, single) and self.thresholds.incongruent(single, first)
        of_all = 0.0 if fixed else mean_of_members(mean, single**2, len(seen.clients), len(cluster.members))
        return worth_asking(self.thresholds, of_all, single, first)

    def _cut(self, seen: Measured, gram: Gram) -> Bipartition:
        """The cut by these similarities, with its cross similarity as gamma_max bounds it."""
        return self._sight.of_cut(self.linkage(cosine_similarity(gram.matrix), gram.clients), seen, gram)

    def _edge(self, view: CflView, updates: Updates, clients: Sequence[int]) -> Remembered | None:
        """What later clients are placed by: updates about the mean of the split, or, as printed, by themselves."""
        if not self.remember:
            return None
        return view.remember(updates, clients) if self.similarities == "every round" else view.edge(updates, clients)


def _too_few(members: int, least: int) -> str:
    """Why a cluster is not compared, of which every cut would be turned down."""
    return f"{members} clients were not compared: no cut leaves both sides the {least} that sums need"


def _too_small(cut: Bipartition, least: int) -> str:
    """Why a cut is turned down of which a side would have no sum."""
    return f"a cut into {len(cut.left)} and {len(cut.right)} clients was turned down: sums need {least}"
