"""EMD-CFL (Zhang, Williams, Toni 2025, "EMD-CFL: Clustered federated learning by the earth mover's distance"), Algorithm 1.

The server groups clients by how far apart their data are in embedding space: W1 of two clients' embeddings under the first one's
embedding model, less tau, the same distance within the first one's own data. Each pair is compared once. Line numbers are
Algorithm 1's.

Where paper and authors' code differ, this is what happens:
- The other's *training* data are embedded (as printed); `choice.target = "validation"` is the code's.
- Each pair is decided once, in the first round in which both take part and answer (line 11); the code compares again in every
  round, and also clients that take no part, by the last model that they had.
- A pair that is not decided yet, as its clients have not met or an answer was lost on the way, is asked again when they meet, as
  often as the choice and the clients' ledgers allow. It is not taken for refused: clusters are those that most of the decided
  pairs agree with (`majorities`); `neighbourhoods` is line 20 as printed, which parts clients that have not met.
- The diagonal of M is 1 from the start (line 3); the code may lose it.
- A mean is over the clients that share a neighbourhood, S_k (line 21); `over="neighbourhood"` is the code's mean over the
  neighbourhood itself, in which clients may be in several clusters' means.
- tau and W share projection and subsample; `choice.reference = "plain"` is the paper's tau, of embeddings as they are.

Where the paper is silent:
- A client that never took part is a cluster of its own at the initial model. All such clients train in one session.
- Clients of one cluster that trained from different models are averaged as models, weighted by their samples. Of clients that
  trained from one model, fewer than the protection's floor are left out of the mean. A cluster without any published mean keeps
  the model that most of its members had; once all pairs are decided, clients of one that is smaller than the floor train alone.

`PRINTED` and `AS_PUBLISHED` are the two forms, as far as they go here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import ceil
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ...protocol.pairs import choices
from ...protocol.pairs.choices import ORTHONORMAL, Choice, Distances, MeanSketch, PerPair
from ...protocol.pairs.question import PairQuestion
from ...protocol.view.answers import Assignment, BelowFloor, Model, Sum, Updates, Weights
from ...protocol.view.asks import ComparesPairs, MovesModels, Sums, Trains
from ...protocol.view.functionality import Functionality
from ..clients.training import Training
from ..emd.clusters import JOINED, Edges, adjacency, majorities, neighbourhoods
from ..emd.distances import COSINE, Distance, ExactEmd
from ..emd.embedding import LAST_LINEAR, Embedding
from ..emd.judging import Gap, Judging, Pair, Replicates, Share, Tau, Tolerance, in_euclidean_units, tau_of
from ..emd.pairs import Cores
from ..emd.subsample import Size
from .algorithm import Cluster, Flat, Start, advanced, left_alone, moved, trained_alone
from .cohorts import Sampling, check_participation, check_sampling, cohorts, sample

if TYPE_CHECKING:
    from torch import nn

__all__ = [
    "AS_PUBLISHED",
    "EMDCFL",
    "EXACT",
    "LIMIT",
    "PRINTED",
    "Gap",
    "Grouping",
    "PublicEmbedding",
    "Replicates",
    "Share",
    "State",
    "Tau",
    "Tolerance",
]

EXACT = ExactEmd(COSINE)
LIMIT = Size(512)
NOISE = Replicates()


class EmdView(Trains, Sums, ComparesPairs, MovesModels, Protocol):
    """What EMD-CFL asks for."""


class Grouping(Protocol):
    """Clusters of a matrix of edges: `majorities`, `neighbourhoods` (as printed) or `components`."""

    def __call__(self, edges: Edges, clients: Sequence[int], /) -> tuple[tuple[int, ...], ...]: ...


@dataclass(frozen=True, slots=True)
class State(Flat):
    """clusters: by their least member. accepts: who accepts whom, of the pairs that are decided. lost: pairs that never will be.
    Others may still be.

    distances: W - tau where it was computed; a fixed eps is decided without. references: the last tau of each client. eps: the
    tolerance, once known. start: the initial model. seed: what cohorts are drawn by.
    """

    round: int
    clusters: Mapping[str, Cluster]
    accepts: Mapping[Pair, bool]
    lost: tuple[Pair, ...]
    distances: Mapping[Pair, float]
    references: Mapping[int, float]
    eps: float | None
    start: Model
    seed: int = 0

    @property
    def models(self) -> Sequence[Model]:
        return [self.start, *(cluster.model for cluster in self.clusters.values())]

    @property
    def clients(self) -> tuple[int, ...]:
        return tuple(sorted(i for cluster in self.clusters.values() for i in cluster.members))

    def matrix(self) -> NDArray[np.float64]:
        """W - tau: float64 (clients, clients), rows in the order of `clients`, NaN where it is not known."""
        place = {client: at for at, client in enumerate(self.clients)}
        found = np.full((len(place), len(place)), np.nan)
        for (client, other), value in self.distances.items():
            found[place[client], place[other]] = value
        np.fill_diagonal(found, 0.0)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class EMDCFL:
    """One-shot clustering by the earth mover's distance of embeddings.

    eps: the paper's tolerance as a number (its 0.025 goes with its model and data), or how it is calibrated: by the noise of the
    references (`Replicates`), a share of them (`Share`), or the widest gap of the distances (`Gap`). choice: what clients release
    to be compared, `protocol.pairs.choices`. distance: W1 with the cosine cost of the authors' code. grouping: see above. size:
    of the subsamples. embedding: where the model is cut. over: see above. by_samples: weights n_i, as printed.
    public: builds the public embedding, for choices that have one, from the shape of inputs; None for the initial model's.
    measured: solves every distance exactly and keeps it, as for `emd.figure`, although eps is a number and bounds would decide.
    """

    alone_if_few: ClassVar[bool] = True

    eps: Tolerance = NOISE
    choice: Choice = ORTHONORMAL
    distance: Distance = EXACT
    grouping: Grouping = majorities
    participation: float = 1.0
    sampling: Sampling = "cohorts"
    by_samples: bool = True
    size: Size = LIMIT
    embedding: Embedding = LAST_LINEAR
    over: Literal["members", "neighbourhood"] = "members"
    public: "PublicEmbedding | None" = None
    measured: bool = False
    cores: Cores = field(default=Cores(), compare=False)

    def __post_init__(self) -> None:
        check_participation(self.participation)
        check_sampling(self.sampling)
        if self.over not in ("members", "neighbourhood"):
            raise ValueError(f'over is "members" or "neighbourhood", not {self.over!r}')
        self.size.by_position(getattr(self.choice, "noise", None) is not None)  # refused here rather than when data are there
        if self.over == "neighbourhood" and self.grouping is not neighbourhoods:
            raise ValueError("means over a neighbourhood go with clusters of equal ones; set grouping=neighbourhoods")
        if isinstance(self.eps, float | int) and not np.isfinite(self.eps):
            raise ValueError(f"eps is a finite number, not {self.eps}")
        if isinstance(self.choice, MeanSketch):
            if not in_euclidean_units(self.distance):
                raise ValueError("mean sketches are compared by Euclidean distance; set distance=MeanDistance(Euclidean())")
        elif getattr(self.choice, "noise", None) is not None:
            tau_of(self.distance).moved(1)
        if isinstance(self.eps, Replicates) and not isinstance(self.choice, PerPair | Distances):
            raise ValueError("noise is seen in references that clients measure for each other client: take PerPair or Distances")

    @property
    def needs(self) -> frozenset[Functionality]:
        return frozenset({Functionality.SUMS, Functionality.PAIRS})

    def local(self, training: Training, /) -> Training:
        return training

    def init(self, start: Start, /) -> State:
        """Lines 1-3: everybody at the initial model, joined with nobody."""
        eps = float(self.eps) if isinstance(self.eps, float | int) else None
        alone = {_name((i,)): Cluster((i,), start.model) for i in start.clients}
        return State(0, alone, {}, (), {}, {}, eps, start.model, start.seed)

    def join(self, state: State, newcomers: Sequence[int], /) -> State:
        """New clients enter as everybody did: at the initial model, joined with nobody until they are compared.

        So do those that train alone, which may find their like among them.
        """
        new = (*newcomers, *(c.members[0] for c in state.clusters.values() if c.alone))
        found = {name: c for name, c in state.clusters.items() if not c.alone}
        return replace(state, clusters=found | {_name((i,)): Cluster((i,), state.start, state.round) for i in new})

    def round(self, state: State, view: EmdView, rng: np.random.Generator, /) -> State:
        """One pass of the loop of line 4."""
        chosen = set(self._chosen(state, rng, max(2, view.least)))  # line 5
        resting = {c.members[0] for c in state.clusters.values() if c.alone} - chosen
        sessions = _sessions(state, chosen)
        work = {name: Assignment(s.model, tuple(i for i in s.members if i in chosen), s.members) for name, s in sessions.items()}
        known = {*state.lost, *(pair for pair in state.accepts if pair[0] < pair[1])}
        if all(pair in known for pair in combinations(sorted(chosen), 2)) and self._settled(state, work):
            following = self._frozen_round(state, view, work)
            return replace(following, clusters=trained_alone(view, state.round, following.clusters, resting))
        updates = view.train(state.round, work)  # lines 6-9
        present = sorted(i for handle in updates.values() for i in handle.clients)
        pairs = tuple(pair for pair in combinations(present, 2) if pair not in known)  # line 11
        if pairs:
            judging = Judging(self.distance, self.eps, self.cores, state.eps, self.measured)
            question = PairQuestion(pairs, self.choice, tau_of(self.distance, self.eps), judging)
            found = view.pairs(state.round, work, updates, question)  # lines 12-17
            state = replace(
                state,
                accepts={**state.accepts, **found.accepts},
                lost=(*state.lost, *found.lost),
                distances={**state.distances, **judging.distances},
                references={**state.references, **judging.references},
                eps=judging.eps,
            )
        clusters = self._aggregated(state, view, work, updates)  # lines 20-21
        return replace(state, round=state.round + 1, clusters=trained_alone(view, state.round, clusters, resting))

    def _chosen(self, state: State, rng: np.random.Generator, least: int = 2) -> tuple[int, ...]:
        """Who takes part: a random sample, or two of fixed cohorts of half its size.

        Every two cohorts meet, in turn, until all pairs are decided; then the same always come together.
        """
        clients = state.clients
        if self.sampling == "random":
            return sample(clients, self.participation, rng, least)
        halves = cohorts(Cluster(clients, state.start, 0, state.seed), self.participation / 2, ceil(least / 2))
        if len(halves) < 3:
            return clients
        decided = {*state.lost, *state.accepts}
        meetings = list(combinations(halves, 2))
        waiting = [two for two in meetings if any(pair not in decided for pair in combinations(sorted(two[0] + two[1]), 2))]
        last = len(halves) - len(halves) % 2 - 2
        together = [halves[k : k + 2] if k < last else halves[k:] for k in range(0, last + 1, 2)]
        parts = waiting[state.round % len(waiting)] if waiting else together[state.round % len(together)]
        return tuple(sorted(i for part in parts for i in part))

    def _settled(self, state: State, work: Mapping[str, Assignment]) -> bool:
        """Whether every session is one cluster, so that its sum is the cluster's."""
        return self.over == "members" and all(name in state.clusters for name in work)

    def _frozen_round(self, state: State, view: EmdView, work: Mapping[str, Assignment]) -> State:
        """A round without anything to compare: federated averaging in every cluster, no update is kept."""
        weights = {name: Weights(dict.fromkeys(a.participants, 1.0), self.by_samples) for name, a in work.items()}
        means = view.train_and_sum(state.round, work, weights)
        clusters = dict(state.clusters)
        for name, mean in means.items():
            clusters[name] = advanced(view, clusters[name], mean)
        return replace(state, round=state.round + 1, clusters=_apart(state, clusters, means))

    def _aggregated(
        self, state: State, view: EmdView, work: Mapping[str, Assignment], updates: Mapping[str, Updates]
    ) -> dict[str, Cluster]:
        clients = state.clients
        edges = adjacency(state.accepts, clients)
        groups = self.grouping(edges, clients)  # line 20
        row = {client: at for at, client in enumerate(clients)}
        before = {i: cluster for cluster in state.clusters.values() for i in cluster.members}
        asked: dict[str, dict[str, Weights]] = {name: {} for name in updates}
        for members in groups:
            over = members if self.over == "members" else tuple(i for i in clients if edges[row[members[0]], row[i]] == JOINED)
            for name, handle in updates.items():
                part = [i for i in handle.clients if i in over]
                if part:
                    asked[name][_name(members)] = Weights(dict.fromkeys(part, 1.0), self.by_samples, tuple(members))
        sums = {name: view.sums(updates[name], weights) for name, weights in asked.items() if weights}
        clusters, few = dict[str, Cluster](), dict[str, object]()
        for members in groups:
            if all(before[i].alone for i in members):
                clusters |= {name: c for name, c in state.clusters.items() if c.alone and c.members[0] in members}
                continue
            name = _name(members)
            parts: dict[Model, float] = {}
            for session, answers in sums.items():
                answer = few[name] = answers.get(name)
                model = moved(view, work[session].model, answer)
                if isinstance(answer, Sum) and model is not None:
                    parts[model] = parts.get(model, 0.0) + answer.weight
            same = [c for c in state.clusters.values() if c.members == members]
            born = same[0].born if same else state.round + 1
            clusters[name] = Cluster(members, _model(view, parts, [before[i].model for i in members]), born)
        return _apart(state, clusters, few)


PRINTED = EMDCFL(eps=0.025, choice=choices.PRINTED, grouping=neighbourhoods, size=Size(512, 0.1))
"""The paper as printed: training data as targets, tau of embeddings without projection, "the lesser of 10% and 512" examples,
identical neighbourhoods. Not printed, and ours: subsamples are stratified, of one size for all, and one a client."""

AS_PUBLISHED = EMDCFL(eps=0.025, choice=choices.AS_PUBLISHED, grouping=neighbourhoods, over="neighbourhood")
"""The authors' code with the paper's tolerance (its configuration has 0.1): validation data as targets, tau under a projection of
its own, up to 512 examples, means over neighbourhoods. What is left of it: it draws a fresh random subsample for every distance,
of as many examples as each set has; embeds in training mode; rounds W - tau to four digits; compares all pairs of clients that
ever took part again in every round, with stale models; and can lose a client's edge to itself."""


class PublicEmbedding(Protocol):
    """Builds a network, inputs of this shape to embeddings, that everybody knows before the run."""

    def __call__(self, shape: tuple[int, ...], /) -> "nn.Module": ...


def _apart(state: State, clusters: dict[str, Cluster], answers: Mapping[str, object]) -> dict[str, Cluster]:
    """The clusters, those below the floor left alone, if every two clients were compared, or never will be."""
    if not any(isinstance(answer, BelowFloor) for answer in answers.values()):
        return clusters
    lost = {*state.lost}
    decided = all(pair in state.accepts or pair in lost for pair in combinations(state.clients, 2))
    return left_alone(clusters, answers) if decided else clusters


def _name(members: Sequence[int]) -> str:
    return f"{min(members):04d}"


def _sessions(state: State, chosen: set[int]) -> dict[str, Cluster]:
    """Who trains together: clusters with a participant; those that are still at the initial model all in one session."""
    clusters = {name: c for name, c in sorted(state.clusters.items()) if not c.alone}
    new = [c for c in clusters.values() if c.model == state.start]
    found = {name: c for name, c in clusters.items() if c.model != state.start and chosen & set(c.members)}
    members = tuple(sorted(i for c in new for i in c.members))
    if chosen & set(members):
        found["start"] = Cluster(members, state.start)
    return found


def _model(view: EmdView, parts: Mapping[Model, float], before: Sequence[Model]) -> Model:
    """Line 21: the mean of what was published, or else the model that most members had (of several, the first)."""
    if not parts:
        return max(dict.fromkeys(before), key=before.count)
    return next(iter(parts)) if len(parts) == 1 else view.merge(parts)
