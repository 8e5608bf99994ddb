"""Clients told apart by who took part in which published sum: a claim about the sums themselves, which no single sum shows."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..inference.disaggregation import Published, disaggregated
from ..inference.sum_lattice import isolating
from .experiment import Anchor, Budget, Evidence, Finding
from .own_part import mean_of_others
from .truth import Truth
from .unread import unread
from .view import CorruptView, PublishedSum

Matrix = NDArray[np.float64]
Vectors = Mapping[tuple[int, int], Matrix]
"""Updates by round and client."""


@dataclass(frozen=True, slots=True)
class Disaggregation:
    """The squared cosine between how a client truly deviates from its cluster and how the observer says that it does.

    A client's cluster are those of the last published sum that it is in. Its deviation is the mean, over the rounds in which
    both took part, of its update less that of its cluster, each in units of the round's mean: what the cluster has in common is
    no part of it. Where everybody takes part in all sums of its cluster no combination of sums tells its members apart: they are
    in all the same sums since they are together, the estimate is the same for all, and every value is 0. Sums of one round of
    which a combination rests on one client give its update. Where the observer has a client's updates themselves it takes
    the deviation from them. members, others: cosines with one's own deviation, and with those of others in the cluster.
    """

    name: str = "disaggregation"
    unit: str = "squared cosine with what sets a client apart from its cluster, over the run"
    side: str = "none; who is in which sum is public"
    source: str = "gradient disaggregation (Lam et al. 2021)"
    anchor: Anchor = "chance"

    def applies(self, evidence: Evidence, /) -> str:
        if reason := unread(evidence):
            return reason
        return "" if evidence.sums.sums else "no sum of several clients was published"

    def __call__(self, evidence: Evidence, truth: Truth, budget: Budget, rng: np.random.Generator, /) -> Finding:
        view, public = evidence.view, rows_of(evidence.sums.sums)
        clusters = clusters_of(public)
        scales = {(s.round, i): float(np.linalg.norm(s.mean)) for s in public for i in s.row if s.mean is not None}
        truly = apart(
            {(t, i): x.astype(np.float64) for (t, kind, i), x in truth.updates.items() if kind == "update"}, clusters, scales
        )
        guessed = deviations(evidence, clusters, scales)
        victims = tuple(i for i in sorted(truly) if i not in view.observer.clients and np.any(truly[i]))
        own, others = list[float](), list[float]()
        for i in victims:
            guess = guessed.get(i)
            own.append(_cosine(guess, truly[i]))
            others += [_cosine(guess, truly[j]) for j in clusters[i] if j != i and j in truly]
        return Finding(victims, np.square(np.maximum(own, 0.0)), np.array(own), np.array(others))


def rows_of(sums: Sequence[PublishedSum]) -> list[PublishedSum]:
    """Sums of updates whose weights are all known but for sample counts, and above 0."""
    return [s for s in sums if s.kind == "update" and s.row and min(s.row.values()) > 0]


def clusters_of(sums: Sequence[PublishedSum]) -> dict[int, tuple[int, ...]]:
    """Whom each client is with at the end: those whose last sum is one of the same cluster."""
    last = {i: s.cluster for s in sorted(sums, key=lambda s: s.round) for i in s.row}
    together = defaultdict[str, list[int]](list)
    for i in sorted(last):
        together[last[i]].append(i)
    return {i: tuple(together[cluster]) for i, cluster in last.items()}


def apart(updates: Vectors, clusters: Mapping[int, Sequence[int]], scales: Mapping[tuple[int, int], float]) -> dict[int, Matrix]:
    """Of each client, the mean over its rounds of update less the mean of its cluster's that round, over the round's scale."""
    rounds, found = defaultdict[int, dict[int, Matrix]](dict), defaultdict[int, list[Matrix]](list)
    for (t, i), x in updates.items():
        rounds[t][i] = x
    for t, of in rounds.items():
        means = dict[tuple[int, ...], Matrix]()
        for i, x in of.items():
            near = tuple(j for j in clusters.get(i, ()) if j in of)
            if len(near) > 1 and scales.get((t, i), 0.0) > 0:
                if near not in means:
                    means[near] = np.mean([of[j] for j in near], axis=0)
                found[i].append((x - means[near]) / scales[t, i])
    return {i: np.mean(many, axis=0) for i, many in found.items()}


def deviations(
    evidence: Evidence, clusters: Mapping[int, Sequence[int]], scales: Mapping[tuple[int, int], float]
) -> dict[int, Matrix]:
    """What the observer makes of each client's deviation from its cluster: float64 (d,) by client."""
    view = evidence.view
    known = {(t, i): e.vector for (t, kind, i), e in evidence.estimated(view).items() if kind == "update" and e.how in EXACT}
    exact = dict[int, Matrix]()
    if known:
        victims = {i for _, i in known}
        own = {
            (t, i): x.astype(np.float64) for i, h in view.held.items() for (t, kind), x in h.updates.items() if kind == "update"
        }
        exact = {i: x for i, x in apart(known | own, clusters, scales).items() if i in victims}
    sums = [s for s in rows_of(view.sums) if s.mean is not None]
    if not sums or exact.keys() >= clusters.keys() - view.observer.clients:
        return exact
    published = [p for s in sums if (p := _published(view, s)) is not None]
    habits = disaggregated(published) if published else {}
    found = dict[int, Matrix]()
    for i in habits:
        near = [habits[j] for j in clusters[i] if j in habits]
        found[i] = habits[i] - np.mean(near, axis=0)
    return found | _of_isolated(view, sums, scales) | exact


EXACT = ("update", "opened", "transform", "left alone")


def _published(view: CorruptView, s: PublishedSum) -> Published | None:
    """The sum's mean over the honest, as far as corrupt clients can take out what they put in."""
    honest = {i: a for i, a in s.row.items() if i not in view.held}
    others = mean_of_others(view, s)
    row, mean = (s.row, s.mean) if others is None else (honest, others.astype(np.float32))
    return Published(s.round, row, mean, s.cluster) if honest and mean is not None else None


def _of_isolated(view: CorruptView, sums: Sequence[PublishedSum], scales: Mapping[tuple[int, int], float]) -> dict[int, Matrix]:
    """Deviations from the round's own sum of clients that a combination of one round's sums rests on alone."""
    rounds, found = defaultdict[int, list[PublishedSum]](list), defaultdict[int, list[Matrix]](list)
    for s in sums:
        if not s.times_samples:
            rounds[s.round].append(s)
    for t, of in rounds.items():
        if sum(len(s.row) for s in of) == len({i for s in of for i in s.row}) and min(len(s.row) for s in of) > 1:
            continue  # no client is in two of them
        for one in isolating([s.row for s in of], 2):
            (client,) = one.clients
            summed = [
                float(f) * sum(s.row.values()) * np.asarray(s.mean, np.float64) for f, s in zip(one.factors, of, strict=True)
            ]
            widest = max((s for s in of if client in s.row), key=lambda s: len(s.row))
            x = np.sum(summed, axis=0) / float(one.weights[client])
            if scales.get((t, client), 0.0) > 0:
                found[client].append((x - np.asarray(widest.mean, np.float64)) / scales[t, client])
    return {i: np.mean(many, axis=0) for i, many in found.items()}


def _cosine(guess: Matrix | None, true: Matrix) -> float:
    if guess is None or len(guess) != len(true):
        return 0.0
    lengths = float(np.linalg.norm(guess) * np.linalg.norm(true))
    return float(guess @ true) / lengths if lengths > 1e-12 * float(true @ true) else 0.0
