"""Sums without what the observer's own clients put in: the mean of the others, and of a single other its update."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from .reading import Instance
from .view import CorruptView, Matrix, PublishedSum


def mean_of_others(view: CorruptView, s: PublishedSum) -> Matrix | None:
    """Of those in a sum that are not the observer's, float64 (d,), where it knows the mean of all: that, where all are others.

    None where it does not know what its own put in, or how they and all weigh there, and where nobody else is in it.
    """
    mean = np.asarray(s.mean, np.float64)
    inside = [i for i, a in s.row.items() if a and i in view.observer.clients]
    if not inside:
        return mean
    parts = {i: view.held[i].updates.get((s.round, s.kind)) for i in inside if i in view.held}
    own = {i: np.asarray(x, np.float64) for i, x in parts.items() if x is not None and len(x) == len(mean)}
    weights, total = _weights(view, s)
    if own.keys() != {*inside} or (left := total - sum(weights[i] for i in inside)) <= 0:
        return None
    return (total * mean - sum((weights[i] * x for i, x in own.items()), np.zeros(len(mean)))) / left


def _weights(view: CorruptView, s: PublishedSum) -> tuple[Mapping[int, float], float]:
    """Of the observer's own clients as they weigh in the sum, and of all together, which is 0 if it is not known."""
    if not s.times_samples:
        return s.row, sum(s.row.values())
    if s.counts:
        weights = {i: a * s.counts[i] for i, a in s.row.items()}
        return weights, sum(weights.values())
    return {i: s.row[i] * len(held.examples) for i, held in view.held.items() if i in s.row}, s.weight


def left_alone(view: CorruptView) -> Iterator[tuple[Instance, Matrix]]:
    """What a sum without noise leaves of the one client in it that is not the observer's: its update, float64 (d,)."""
    if getattr(view.public.protection, "noise", None) is not None:
        return
    for s in view.sums:
        others = [i for i, a in s.row.items() if a and i not in view.observer.clients]
        inside = [i for i, a in s.row.items() if a and i in view.held]
        if len(others) != 1 or not inside or s.mean is None:
            continue
        if s.times_samples and not s.counts and not s.weight:
            s = replace(s, weight=_guessed(view, s, others[0], inside))
        if (left := mean_of_others(view, s)) is not None:
            yield (s.round, s.kind, others[0]), left


def _guessed(view: CorruptView, s: PublishedSum, other: int, inside: list[int]) -> float:
    """What all weigh in a sum, if the other has as many samples as the observer's own in the mean."""
    counts = {i: float(len(view.held[i].examples)) for i in inside}
    return sum(s.row[i] * n for i, n in counts.items()) + s.row[other] * float(np.mean([*counts.values()]))
