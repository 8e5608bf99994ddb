"""CFL-GP: clusters by profiles of the clients' gradients at the clusters' models (Kim, Kim, de Veciana, ICML 2024).

In every p-th of the first rounds all clients tell their gradient at one of the K models, each model in its turn; column i of the
profile matrix Gp, in that model's block, becomes (1 - beta) Gp + beta g_i. The leading K singular vectors U_K of Gp give the
features U_K^T Gp, k-means of those the clusters, renumbered as most clients had them before. Every round each cluster averages.
Inner products of the profiles suffice: each block's columns are kept as sums of updates, and blocks' inner products add up.

Where paper and authors' code differ or are silent, this is what happens:
- All models take turns at being asked about, and all clients answer about that one; the code stays with the first model, and has
  each client answer about its own cluster's. g_i is the gradient over all of a client's data, the code's of one batch.
- beta = 1 / (visits + 1), so that a block is the mean over its visits; the code's 1 / (floor((t + 1) / (K p)) + 1) is the same
  for p > 1 and a known K. Who does not answer has its column shrunk by 1 - beta, as by a gradient of 0.
- All models begin at w^0. A cluster's model is moved by the uniform mean of its members' local training; the code's other choice,
  a step along the mean of their gradients, is left out. (The code pairs that one with profiles of gradients, and the mean of
  models with profiles of what models moved by.) A cluster without members stays;
  so does the model of one that is too small for a sum, until clients are grouped anew.
- Of K! permutations the best is found by a Hungarian matching.
- With K unknown everybody trains one model for `warm_up` rounds and is asked about it in each (the code in every p-th, and it
  groups at the next of them); then the dimension is that of the largest gap of singular values, at least 3, and K the number of
  clusters up to `most` with the best silhouette.
- Newcomers and partial participation in profiles are not defined: all clients are asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from ...protocol.view.answers import Assignment, Model, Remembered
from ...protocol.view.asks import Histories, MovesModels, Similarities, Sums, Trains
from ...protocol.view.functionality import Functionality
from ..clustering.kmeans import Values, grouped
from ..clustering.profiles import clustered, matched, number_of_clusters
from ..clustering.separation import cosine_similarity
from .algorithm import Cluster, Flat, Measured, Start, check_counts
from .fedavg import Averaging

ALL = "all"
"""The cluster that everybody's gradients are asked for by."""


class CflGpView(Trains, Sums, Similarities, Histories, MovesModels, Protocol):
    """What CFL-GP asks for."""


@dataclass(frozen=True, slots=True)
class State(Flat):
    """everyone: all clients. every: the K models with their members, of which there may be none; one before K is known.

    blocks: by model, the columns of Gp that are about it. visits: how often each model was asked about. known: since which round
    K is known; -1 before.
    """

    round: int
    everyone: Cluster
    every: Mapping[str, Cluster]
    blocks: Mapping[str, Remembered] = field(default_factory=dict)
    visits: Mapping[str, int] = field(default_factory=dict)
    known: int = -1
    measured: Mapping[str, Measured] = field(default_factory=dict, compare=False)

    @property
    def clusters(self) -> Mapping[str, Cluster]:
        """The models that have members."""
        return {name: c for name, c in self.every.items() if c.members}

    @property
    def models(self) -> Sequence[Model]:
        return [cluster.model for cluster in self.every.values()]

    @property
    def remembered(self) -> Sequence[Remembered]:
        return list(self.blocks.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class CFLGP(Averaging):
    """models: K, or None where it is to be found, among 2 to `most` after `warm_up` rounds. period: p. limit: first rounds, after
    those of warming up, in which clusters are looked for. The others as in `Averaging`: means are uniform.
    """

    models: int | None
    period: int = 2
    limit: int = 10
    most: int = 8
    warm_up: int = 3
    by_samples: bool = False

    def __post_init__(self) -> None:
        Averaging.__post_init__(self)
        check_counts(period=self.period, limit=self.limit, most=self.most, warm_up=self.warm_up)
        check_counts(models=1 if self.models is None else self.models)
        if self.most < 2:
            raise ValueError(f"most is a number of clusters of at least 2, not {self.most}")

    @property
    def needs(self) -> frozenset[Functionality]:
        return frozenset({Functionality.SUMS, Functionality.GRAM_ORIGIN, Functionality.GRAM_HISTORY})

    @property
    def full_gradients(self) -> bool:
        """Clients are asked for gradients over all of their records."""
        return True

    def init(self, start: Start, /) -> State:
        if len(start.clients) < (self.models or 2):
            raise ValueError(f"{len(start.clients)} clients do not make {self.models or 2} clusters")
        everyone = Cluster(start.clients, start.model, seed=start.seed)
        first = State(0, everyone, {_name(0): everyone})
        return first if self.models is None else _with(first, self.models, 0)

    def round(self, state: State, view: CflGpView, rng: np.random.Generator, /) -> State:
        """A look at the profiles, if it is time, and a round of averaging inside the clusters."""
        state = replace(state, measured={})
        if state.known < 0:
            state, inner = self._asked(state, view, _name(0))
            if state.round + 1 >= self.warm_up and inner is not None:
                state = _regrouped(_with(state, number_of_clusters(inner, self.most, rng), state.round + 1), inner, rng)
        elif (since := state.round - state.known) < self.limit and since % self.period == 0:
            state, inner = self._asked(state, view, _name(since // self.period % len(state.every)))
            if inner is not None:
                state = _regrouped(state, inner, rng)
        every = {**state.every, **self.averaged(state.round, state.clusters, view, rng)}
        return replace(state, round=state.round + 1, every=every)

    def _asked(self, state: State, view: CflGpView, name: str) -> tuple[State, Values | None]:
        """Gp <- (1 - beta) Gp + beta g_i in this model's block; with Gp^T Gp, float64 (m, m), unless nobody answered.

        A client without a profile has a profile of 0.
        """
        everyone = state.everyone.members
        work = {ALL: Assignment(state.every[name].model, everyone, everyone)}
        updates = view.train(state.round, work, "gradient").get(ALL)
        gram = None if updates is None else view.gram(updates, origin=True)
        if updates is None or gram is None or not gram.clients:
            return state, None
        visits = state.visits.get(name, 0)
        beta = 1 / (visits + 1)
        shares = dict.fromkeys(gram.clients, beta)
        block = view.accumulate(updates, shares, state.blocks.get(name), decay=1 - beta)
        blocks = {**state.blocks, name: block}
        inner = np.zeros((len(everyone), len(everyone)))
        for block in blocks.values():
            at = [everyone.index(i) for i in block.clients]
            inner[np.ix_(at, at)] += view.gram_with(replace(updates, clients=()), block)
        seen = {ALL: Measured(None, None, everyone, cosine_similarity(inner))}
        return replace(state, blocks=blocks, visits={**state.visits, name: visits + 1}, measured=seen), inner


def _with(state: State, count: int, known: int) -> State:
    """The state with so many models, all of them the first, which has everybody."""
    everyone = replace(state.everyone, model=state.every[_name(0)].model)
    every = {_name(k): everyone if k == 0 else replace(everyone, members=()) for k in range(count)}
    return replace(state, every=every, known=known)


def _regrouped(state: State, inner: Values, rng: np.random.Generator) -> State:
    """The state with the clusters of these profiles."""
    clients, count = state.everyone.members, len(state.every)
    before = [next(k for k, c in enumerate(state.every.values()) if i in c.members) for i in clients]
    labels = matched(clustered(inner, count, rng), before, count)
    found = grouped(labels, clients)
    every = {
        name: c if c.members == (members := found.get(k, ())) else replace(c, members=members, born=state.round)
        for k, (name, c) in enumerate(state.every.items())
    }
    seen = {name: replace(m, communities=tuple(found.values())) for name, m in state.measured.items()}
    return replace(state, every=every, measured=seen)


def _name(model: int) -> str:
    return f"model {model + 1}"
