"""FLDetector (Zhang et al. 2022): clients whose updates do not follow from their last ones and the models since are removed.

The paper's server keeps every update. This one asks for inner products of updates over rounds, which views give that compare
updates of several rounds (gram(history)), and for sums: `robust.prediction` says why these are enough. Everybody takes part in
every round, since a prediction is of the round before. It looks for clients that contradict themselves: a poison that is the same
in every round, added to an honest update, is none, and stays. Where honest updates are noisy, by minibatches say, attackers that
send smooth ones contradict themselves less than the loyal, who are then removed: so it was on digits, in every attack played
(`examples/results/attacks_and_defences.md`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from ...protocol.view.answers import Assignment, Model, Remembered, Sum, Updates, Weights
from ...protocol.view.asks import Histories, MovesModels, Sums, Trains
from ...protocol.view.functionality import Functionality
from ..clients.training import Training
from ..robust.prediction import errors, suspects
from ..robust.rule import Matrix
from .algorithm import Cluster, Flat, Measured, Start, advanced, check_counts
from .robust_sum import Outcome

ALL = "0"
REMOVED = "an update that does not follow from its client's last one"


class FLDetectorView(Trains, Sums, Histories, MovesModels, Protocol):
    """What FLDetector asks for."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What predictions are made from. last: every client's last update. means: those published, oldest first; gram: their inner
    products. along: of each client's last update, its inner products with them. seen: shares of the error, round by round.
    """

    last: Remembered | None = None
    means: tuple[Remembered, ...] = ()
    gram: tuple[tuple[float, ...], ...] = ()
    along: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    seen: tuple[Mapping[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class State(Flat):
    """One model for all. removed: who is not asked any more. scores, outcome, measured: of the last round, for the record."""

    round: int
    clusters: Mapping[str, Cluster]
    initial: Model
    past: Kept = field(default_factory=Kept)
    removed: tuple[int, ...] = ()
    scores: Mapping[int, float] = field(default_factory=dict, compare=False)
    outcome: Outcome | None = field(default=None, compare=False)
    measured: Mapping[str, Measured] = field(default_factory=dict, compare=False)

    @property
    def models(self) -> Sequence[Model]:
        return [self.initial, *(cluster.model for cluster in self.clusters.values())]

    @property
    def remembered(self) -> Sequence[Remembered]:
        return [*self.past.means, *([] if self.past.last is None else [self.past.last])]


@dataclass(frozen=True, slots=True, kw_only=True)
class FLDetector:
    """The mean of those who have not been removed.

    window: N, pairs of steps and changes behind a prediction, and rounds over which a client's share of the error is averaged; 10
    in the paper. So nobody is removed before round 2 N + 1 since the last removal. restart: from the first model, without those
    who were removed, as in the paper; else the model stays. Nobody is removed where too few would be left for a sum.
    """

    window: int = 10
    restart: bool = True

    def __post_init__(self) -> None:
        check_counts(window=self.window)

    @property
    def needs(self) -> frozenset[Functionality]:
        return frozenset({Functionality.SUMS, Functionality.GRAM_HISTORY})

    def local(self, training: Training, /) -> Training:
        return training

    def init(self, start: Start, /) -> State:
        return State(0, {ALL: Cluster(start.clients, start.model, seed=start.seed)}, start.model)

    def round(self, state: State, view: FLDetectorView, rng: np.random.Generator, /) -> State:
        """Everybody trains who has not been removed; errors of predictions are told; the mean moves the model."""
        cluster = state.clusters[ALL]
        there = tuple(i for i in cluster.members if i not in set(state.removed))
        updates = view.train(state.round, {ALL: Assignment(cluster.model, there, cluster.members)}).get(ALL)
        following = replace(state, round=state.round + 1, scores={}, measured={})
        if updates is None:
            return replace(following, past=Kept(), outcome=Outcome({}, "no client's update could be used"))
        past = self._looked(state.past, view, updates)
        answer = view.sums(updates, {ALL: Weights(dict.fromkeys(updates.clients, 1.0))})[ALL]
        if not isinstance(answer, Sum):
            return replace(following, past=Kept(), outcome=Outcome({}, answer.words))
        weights = {**dict.fromkeys(updates.clients, 1 / len(updates.clients)), **dict.fromkeys(state.removed, 0.0)}
        moved = replace(
            following,
            clusters={ALL: advanced(view, cluster, answer)},
            past=self._kept(past, view, updates, answer),
            outcome=Outcome(weights),
        )
        return self._judged(moved, max(2, view.least), rng)

    def _looked(self, past: Kept, view: FLDetectorView, updates: Updates) -> Kept:
        """The past with these updates in the place of the last ones, and their errors where enough is known to predict them."""
        n = len(updates.clients)
        along = np.zeros((n, len(past.means)))
        for k, mean in enumerate(past.means):
            along[:, k] = view.gram_with(updates, mean)[:n, n]
        seen = past.seen
        if past.last is not None and len(past.means) == self.window + 1:
            both = [i for i in updates.clients if i in past.along]
            pairs = view.gram_with(replace(updates, clients=tuple(both)), replace(past.last, clients=tuple(both)))
            before = np.array([past.along[i] for i in both]).reshape(len(both), len(past.means))
            rows = [updates.clients.index(i) for i in both]
            seen = (*seen, _shares(both, errors(pairs, along[rows], before, np.array(past.gram))))[-self.window :]
        last = view.accumulate(updates, dict.fromkeys(updates.clients, 1.0))
        return replace(past, last=last, along=dict(zip(updates.clients, map(tuple, along.tolist()), strict=True)), seen=seen)

    def _kept(self, past: Kept, view: FLDetectorView, updates: Updates, answer: Sum) -> Kept:
        """The past with the mean that was published, and without the one that is too old."""
        n, q, share = len(updates.clients), len(past.means), 1 / len(answer.clients)
        mean = view.accumulate(updates, dict.fromkeys(answer.clients, share), together=True)
        column = view.gram_with(updates, mean)[:, n]
        with_others = [share * sum(past.along[i][k] for i in answer.clients) for k in range(q)]
        gram = np.zeros((q + 1, q + 1))
        gram[:q, :q] = np.array(past.gram).reshape(q, q)
        gram[-1, :-1] = gram[:-1, -1] = with_others
        gram[-1, -1] = column[n]
        kept = slice(-(self.window + 1), None)
        along = {i: (*past.along[i], float(column[k]))[kept] for k, i in enumerate(updates.clients)}
        return replace(past, means=(*past.means, mean)[kept], gram=_rows(gram[kept, kept]), along=along)

    def _judged(self, state: State, least: int, rng: np.random.Generator) -> State:
        """The state without those whose shares of the error are the higher of two groups, if there are two."""
        if len(state.past.seen) < self.window:
            return state
        clients = sorted(set.intersection(*(set(of) for of in state.past.seen)))
        scores = np.array([np.mean([of[i] for of in state.past.seen]) for i in clients])
        found = [i for i, out in zip(clients, suspects(scores, rng), strict=True) if out]
        judged = replace(state, scores=dict(zip(clients, scores.tolist(), strict=True)))
        cluster = state.clusters[ALL]
        if not found or len(cluster.members) - len(state.removed) - len(found) < least:
            return judged
        model = state.initial if self.restart else cluster.model
        measured = Measured(None, None, tuple(clients), left_out=dict.fromkeys(found, REMOVED))
        return replace(
            judged,
            clusters={ALL: replace(cluster, model=model)},
            past=Kept(),
            removed=tuple(sorted({*state.removed, *found})),
            measured={ALL: measured},
        )


def _shares(clients: Sequence[int], error: Matrix) -> dict[int, float]:
    """Each client's share of the round's error; alike where there is none."""
    total = float(error.sum())
    shares = error / total if total > 0 else np.full(len(error), 1 / max(1, len(error)))
    return dict(zip(clients, shares.tolist(), strict=True))


def _rows(matrix: Matrix) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in matrix.tolist())
