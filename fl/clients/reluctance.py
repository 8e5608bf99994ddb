"""A client's choice among models that leaves the first one only for what is better beyond chance."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .slots import Values


def reluctant(losses: Sequence[Values], margin: float) -> int:
    """The model of the least mean loss among the first and those that are better than it beyond chance.

    losses: of each model, float64 (n,), on the same examples. margin: standard errors of the mean difference from the first's,
    pair by pair, by which another's mean loss has to be lower; 0 for the least mean. A loss that is no number is infinite; of two
    such the first stays.
    """
    found: NDArray[np.float64] = np.array([np.nan_to_num(each, nan=np.inf) for each in losses])
    means = found.mean(axis=1)
    if not np.isfinite(means[0]):
        return int(np.argmin(means))
    better = [0]
    for k in np.flatnonzero(np.isfinite(means)):
        gain = found[0] - found[k]
        if gain.mean() > (margin * _error(gain) if margin else 0.0):
            better.append(int(k))
    return min(better, key=lambda k: means[k])


def _error(gain: NDArray[np.float64]) -> float:
    """The standard error of a mean; infinite of one number."""
    return float(gain.std(ddof=1)) / float(np.sqrt(len(gain))) if len(gain) > 1 else float("inf")
