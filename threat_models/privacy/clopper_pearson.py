"""The lower bound on epsilon that holds for every mechanism (Jagielski, Ullman and Oprea 2020; Nasr et al. 2021).

An (epsilon, delta)-differentially private mechanism that an attack calls "with" with probability t on one data set does so with
probability f >= e^-epsilon (t - delta) on its neighbour, and the other way round for "without". Clopper-Pearson intervals of t
and f, each at half of the error, bound epsilon from below. It can show no more than the logarithm of the number of trials.
"""

import math

import numpy as np

from .bound import Floats, LowerBound, Split, check_level, lower, upper

CHOOSING = 0.5


def lower_bound(
    scores_with: Floats, scores_without: Floats, delta: float, confidence: float, choosing: float = CHOOSING
) -> LowerBound:
    """From scores of independent trials, float (trials,), higher where the unit is more likely to be in.

    choosing: share of the trials, the first ones, that choose the threshold and which neighbour is t; the bound is taken on the
    others. Raises ValueError for scores that are not finite, or too few.
    """
    half = check_level(delta, confidence) / 2
    split = Split.of(scores_with, scores_without, choosing)
    sizes = (len(split.bounding[0]), len(split.bounding[1]))

    def of_with(t: Floats, f: Floats) -> Floats:
        return _epsilon(lower(np.round(t * sizes[0]), sizes[0], half), upper(np.round(f * sizes[1]), sizes[1], half), delta)

    def of_without(t: Floats, f: Floats) -> Floats:
        misses, rejects = np.round((1 - t) * sizes[0]), np.round((1 - f) * sizes[1])
        return _epsilon(lower(rejects, sizes[1], half), upper(misses, sizes[0], half), delta)

    ways = []
    for way in (of_with, of_without):
        at = split.best_threshold(way)
        first = [np.array([np.mean(side > at)]) for side in split.choosing]
        ways.append((float(way(first[0], first[1])[0]), at, way))
    _, at, way = max(ways, key=lambda each: each[0])
    above = split.above(at)
    found = float(way(np.array([above[0] / sizes[0]]), np.array([above[1] / sizes[1]]))[0])
    return LowerBound(max(0.0, found), confidence, split.trials, "Clopper-Pearson")


def _epsilon(t: Floats, f: Floats, delta: float) -> Floats:
    """The least epsilon with t <= e^epsilon f + delta; -inf where any will do. f is above 0."""
    with np.errstate(divide="ignore"):
        return np.where(t > delta, np.log(np.maximum(t - delta, 0)) - np.log(f), -math.inf)
