"""A lower bound on epsilon for Gaussian mechanisms alone, by way of mu-GDP (Nasr et al. 2023, section 4).

A mu-GDP mechanism (Dong, Roth and Su 2022) that an attack calls "with" with probability t on one data set and f on its neighbour
has mu >= Phi^-1(t) - Phi^-1(f), whichever of the two is called "with". Any threshold tells mu, best one between the two medians,
so far fewer trials are needed than by `clopper_pearson`. But epsilon at delta follows from mu only where the mechanism is mu-GDP
as a whole: where its noise is Gaussian, as a sum of discrete Gaussians on a fine grid is up to 1e-12 and less. For any other
noise take `clopper_pearson`.
"""

import numpy as np
from scipy.special import ndtri

from ...protocol.privacy.gaussian import gaussian_epsilon
from .bound import Floats, LowerBound, Split, check_level, lower, upper

CHOOSING = 0.2


def mu_lower_bound(scores_with: Floats, scores_without: Floats, confidence: float, choosing: float = CHOOSING) -> float:
    """Of a mu-GDP mechanism, from scores as in `lower_bound`: 0 or more."""
    half = check_level(0.0, confidence) / 2
    split = Split.of(scores_with, scores_without, choosing)
    sizes = (len(split.bounding[0]), len(split.bounding[1]))

    def mu(t: Floats, f: Floats) -> Floats:
        of_t, of_f = lower(np.round(t * sizes[0]), sizes[0], half), upper(np.round(f * sizes[1]), sizes[1], half)
        return np.asarray(np.where((of_t > 0) & (of_f < 1), ndtri(of_t) - ndtri(of_f), -np.inf))

    above = split.above(float(np.mean([np.median(side) for side in split.choosing])))
    found = float(mu(np.array([above[0] / sizes[0]]), np.array([above[1] / sizes[1]]))[0])
    return max(0.0, found)


def lower_bound(
    scores_with: Floats, scores_without: Floats, delta: float, confidence: float, choosing: float = CHOOSING
) -> LowerBound:
    """From scores of independent trials of a Gaussian mechanism, float (trials,), higher where the unit is more likely to be in.

    choosing: share of the trials, the first ones, that choose the threshold. Raises ValueError as `clopper_pearson` does, and for
    a delta of 0, at which no Gaussian has an epsilon.
    """
    check_level(delta, confidence)
    if delta == 0:
        raise ValueError("a Gaussian mechanism has an epsilon only at a delta above 0")
    mu = mu_lower_bound(scores_with, scores_without, confidence, choosing)
    trials = min(len(scores_with), len(scores_without))
    return LowerBound(gaussian_epsilon(mu, delta), confidence, trials, "GDP")
