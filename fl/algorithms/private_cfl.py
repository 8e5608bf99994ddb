"""CFL by one release a client, with noise of a stated epsilon: noisy mean gradients of a public model's last layer.

After clustered federated learning (Sattler, Mueller, Samek 2020): recursive bipartition by cosine similarity of gradients,
Algorithms 1 and 5. The paper compares every client's update of all weights in every round; each such release would be charged
to the same records again. Where this departs from it:

- One release a client, before training: the mean of its records' gradients by the last layer of a public model, each clipped to
  norm C, plus a discrete Gaussian. Replacing one record moves the mean by 2 C / N at most, N the public number of records. So
  clusters are found once, from what a public model shows. Incongruence that only training brings to light stays hidden: there
  is no test of stationarity (Eq. 32, 33), and no later split.
- Similarities are about the clients' mean, as all gradients have the public model's own error in common.
- Instead of a bound on the noise of gradients, gamma_max (Eq. 39), a cut needs an eigenvalue that noise does not explain, and
  cosines leave out the directions that it does (`clustering.noise_edge`).
- Clusters begin at the run's initial model and average from the round on in which they are found, as in `FedAvg`.
- Who does not answer in that round, or would be past its budget, is a cluster of its own. Clients cannot join later.

Formal guarantee: of `noise`, (epsilon, delta) for one record of a client, replaced by any other, against whoever sees its
sketch: the server sees all sketches, and clusters are computed from them. Each client keeps its ledger and refuses what would
take it past its budget. Not covered: that it takes part and answers, N, and training, whose releases have no noise of this claim.
A client that lies about its sketch can join any cluster, or part others; nothing binds it to its data.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import ClassVar, Protocol

import numpy as np
from torch import nn

from ...protocol.pairs.choices import MeanSketch
from ...protocol.pairs.noise import SLACK, Noise, one_release
from ...protocol.pairs.question import Direction, MeasuredDirection, PairQuestion
from ...protocol.view.answers import Assignment, Model
from ...protocol.view.asks import ComparesPairs, MovesModels, Sums, Trains
from ...protocol.view.functionality import Functionality
from ..clients.head_gradients import HeadGradients
from ..clustering.noise_edge import EdgeTest, NullSpread, Values, bipartitions, leaves
from ..clustering.subspaces import Pair, Unmeasured
from ..data.population import Population
from ..models.papers import ModelFactory, initial
from ..models.thumbnails import FrequencyRegression
from .algorithm import Cluster, Flat, Measured, Start, check_counts
from .fedavg import Averaging

ALL = "all"
"""The cluster that everybody is compared in."""
SHOWN, DECIDED = "gradients by the last layer of a public model", "which groups differ by more than noise explains"
"""What the server is told the mean of, and computes, in words."""
SHOWN_BY = FrequencyRegression()
"""The public model by default: softmax regression on the low frequencies of 14 x 14 cells, without anything learned."""


class PrivateCflView(Trains, Sums, ComparesPairs, MovesModels, Protocol):
    """What CFL under noise asks for."""


@dataclass(frozen=True, slots=True)
class State(Flat):
    """start: everybody, and the initial model. clusters: none before clients were compared."""

    round: int
    start: Cluster
    clusters: Mapping[str, Cluster]
    measured: Mapping[str, Measured] = field(default_factory=dict, compare=False)

    @property
    def models(self) -> Sequence[Model]:
        return [self.start.model, *(cluster.model for cluster in self.clusters.values())]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateCFL(Averaging):
    """noise: of the one release; its clip is C, its multiplier the deviation over 2 C / records. `head_noise` makes one.

    records: N, how many of its records each client takes, drawn by position; all have as many. public: builds the public model
    from the shape of inputs and the number of labels. seed: of its weights, where it draws any. widest: largest share that one
    direction has of the sampling variance of a clipped gradient; .2 holds for ten labels of which none is more than twice as
    frequent as it would be among equals. error: chance of a cut too many, for each cluster of clients of one distribution.
    The others as in `Averaging`.
    """

    shown: ClassVar[str] = SHOWN
    decided: ClassVar[str] = DECIDED
    alone_if_few: ClassVar[bool] = True

    noise: Noise
    records: int
    public: ModelFactory = SHOWN_BY
    seed: int = 0
    widest: float = 0.2
    error: float = 0.01

    def __post_init__(self) -> None:
        Averaging.__post_init__(self)
        check_counts(records=self.records)
        if self.noise.unit != "record" or self.noise.nonnegative:
            raise ValueError('gradients have both signs, and the claim is for a record: take unit="record", nonnegative=False')
        if not 0 < self.widest <= 1 or not 0 < self.error < 1:
            raise ValueError(f"widest is in (0, 1] and error in (0, 1), not {self.widest} and {self.error}")

    @property
    def choice(self) -> MeanSketch:
        """What clients release: a mean of vectors that are a public function of one record each, under a rotation."""
        return MeanSketch(noise=self.noise, ratio=1.0)

    @property
    def needs(self) -> frozenset[Functionality]:
        return frozenset({Functionality.SUMS, Functionality.PAIRS})

    @property
    def null(self) -> NullSpread:
        """What sketches of clients of one distribution differ by: the noise, and sampling N gradients of norm C at most."""
        clip = self.noise.clip
        draws = max(400, int(np.ceil(4 / self.error)))
        deviation = self.noise.multiplier * 2 * clip * SLACK / self.records
        spread = clip**2 / self.records
        return NullSpread(deviation=deviation, spread=spread, widest=self.widest * spread, error=self.error, draws=draws)

    def embedders(self, population: Population, _: nn.Module, /) -> HeadGradients:
        """What clients are compared by."""
        model = initial(self.public, population.shape, population.classes, self.seed)
        return HeadGradients(population.clients, model, self.records, lambda client: _seed(self.seed, client))

    def init(self, start: Start, /) -> State:
        return State(0, Cluster(start.clients, start.model, seed=start.seed), {})

    def join(self, state: State, newcomers: Sequence[int], /) -> State:
        """New clients are compared with all, as long as nobody was."""
        if state.clusters:
            raise ValueError("clients are compared once, by one release each; who joins later has nothing to be placed by")
        members = tuple(sorted({*state.start.members, *newcomers}))
        return State(state.round, Cluster(members, state.start.model, seed=state.start.seed), {})

    def round(self, state: State, view: PrivateCflView, rng: np.random.Generator, /) -> State:
        """The comparison, once more in the next round if nobody answered; and a round of averaging inside the clusters."""
        clusters, measured = state.clusters, dict[str, Measured]()
        if not clusters:
            clusters, measured = self._compared(state, view, rng)
        moved = self.averaged(state.round, clusters, view, rng, parts=True) if clusters else {}
        return State(state.round + 1, state.start, moved, measured)

    def _compared(
        self, state: State, view: PrivateCflView, rng: np.random.Generator
    ) -> tuple[dict[str, Cluster], dict[str, Measured]]:
        everyone, null = state.start, self.null
        pairs = tuple(combinations(everyone.members, 2))
        judge = SketchJudge(lambda vectors, clients: bipartitions(vectors, clients, null, rng))
        work = {ALL: Assignment(everyone.model, everyone.members, everyone.members)}
        view.pairs(state.round, work, {}, PairQuestion(pairs, self.choice, Unmeasured(), judge, self.shown, self.decided))
        if not judge.looks and len(everyone.members) > 1:
            return {}, {}
        found = leaves(judge.looks, everyone.members)
        clusters = {
            f"cluster {k}": Cluster(members, everyone.model, state.round, everyone.seed) for k, members in enumerate(found, 1)
        }
        return clusters, {ALL: _measured(judge.looks[0], found)} if judge.looks else {}


@dataclass(slots=True)
class SketchJudge:
    """A judge of pairs: collects the sketches of all directions, and accepts who is in one's own cluster.

    looks: at everybody who answered, and at every part. Empty if nobody did.
    """

    by: Callable[[Values, Sequence[int]], tuple[EdgeTest, ...]]
    looks: tuple[EdgeTest, ...] = ()

    def __call__(self, directions: Iterable[Direction | MeasuredDirection], /) -> Mapping[Pair, bool]:
        seen, vectors = list[Pair](), dict[int, Values]()
        for d in directions:
            seen.append((d.client, d.other))
            if isinstance(d, Direction):
                vectors[d.client], vectors[d.other] = d.source[0].astype(np.float64), d.target[0].astype(np.float64)
        if not vectors:
            return {}
        clients = sorted(vectors)
        self.looks = self.by(np.stack([vectors[i] for i in clients]), clients)
        cluster = {i: members for members in leaves(self.looks, clients) for i in members}
        return {(i, j): cluster[i] is cluster[j] for i, j in seen}


def head_noise(
    epsilon: float,
    delta: float,
    *,
    shape: tuple[int, ...],
    classes: int,
    public: ModelFactory = SHOWN_BY,
    clip: float = 0.5,
    budget: float | None = None,
    acknowledge: tuple[str, ...] = (),
) -> Noise:
    """The noise by which the one release of `PrivateCFL` costs epsilon, on inputs of this shape.

    budget: of all that a client's ledger counts, None for epsilon alone. acknowledge: as in `Noise`, ("sums",) where training
    has no noise.
    """
    head = initial(public, shape, classes, 0).get_submodule("head")
    coordinates = sum(parameter.numel() for parameter in head.parameters())
    return one_release(epsilon, delta, clip=clip, coordinates=coordinates, budget=budget, acknowledge=acknowledge)


def _measured(first: EdgeTest, found: tuple[tuple[int, ...], ...]) -> Measured:
    """The look at everybody, for the record."""
    kept = tuple(members for members in found if set(members) <= set(first.clients))
    return Measured(None, None, first.clients, similarity=first.cosines, communities=kept, centred=True)


def _seed(seed: int, client: int) -> int:
    return int(np.random.SeedSequence([seed, client]).generate_state(1)[0])
