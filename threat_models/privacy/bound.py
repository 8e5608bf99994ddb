"""A lower bound on epsilon, and counts of trials from which all auditors take theirs."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

MOST_THRESHOLDS = 512
"""Thresholds that are tried in the trials that choose one: quantiles of their scores, where they have more."""


@dataclass(frozen=True, slots=True)
class LowerBound:
    """Formal guarantee: with probability `confidence` or more a mechanism that is (epsilon', delta)-differentially private gets
    no epsilon above epsilon'; for what else has to hold, see the auditor that `method` names.

    trials: on each side, those that chose the threshold included; of an audit in one run, its canaries.
    """

    epsilon: float
    confidence: float
    trials: int
    method: str

    def refutes(self, claimed: float) -> bool:
        """Whether the claimed epsilon is too small. If not, it is not proven: a better attack may find more."""
        return self.epsilon > claimed


@dataclass(frozen=True, slots=True)
class Split:
    """Scores of independent trials with and without the unit: the first ones to choose by, the others to bound by.

    Which trials come first follows from nothing but their order, so what was chosen is independent of what is bounded, and the
    chosen threshold's counts are binomial: no union over thresholds is needed.
    """

    choosing: tuple[Floats, Floats]
    bounding: tuple[Floats, Floats]

    @classmethod
    def of(cls, scores_with: Floats, scores_without: Floats, share: float) -> "Split":
        """share: of the trials that choose. Raises ValueError for scores that are not finite, too few, or no vectors."""
        sides = [np.asarray(scores, np.float64) for scores in (scores_with, scores_without)]
        if any(side.ndim != 1 or not np.isfinite(side).all() for side in sides):
            raise ValueError("scores are vectors of finite numbers, one for each trial")
        if not 0 < share < 1:
            raise ValueError(f"the share of trials that choose is between 0 and 1, not {share}")
        cuts = [round(share * len(side)) for side in sides]
        if any(not 0 < cut < len(side) for cut, side in zip(cuts, sides, strict=True)):
            raise ValueError(f"{min(map(len, sides))} trials are too few to choose a threshold by some and bound by others")
        first, second = ((side[:cut], side[cut:]) for cut, side in zip(cuts, sides, strict=True))
        return cls((first[0], second[0]), (first[1], second[1]))

    @property
    def trials(self) -> int:
        """On the side that has fewer."""
        return min(len(a) + len(b) for a, b in zip(self.choosing, self.bounding, strict=True))

    def best_threshold(self, value: Callable[[Floats, Floats], Floats]) -> float:
        """The threshold at which `value` of the shares of scores above it, with and without the unit, is largest."""
        both = np.unique(np.concatenate(self.choosing))
        if len(both) > MOST_THRESHOLDS:
            both = both[np.unique(np.linspace(0, len(both) - 1, MOST_THRESHOLDS).astype(np.int64))]
        between = np.concatenate([(both[1:] + both[:-1]) / 2, both[-1:]]) if len(both) > 1 else both
        shares = [1 - np.searchsorted(np.sort(side), between, side="right") / len(side) for side in self.choosing]
        return float(between[int(np.argmax(value(shares[0], shares[1])))])

    def above(self, threshold: float) -> tuple[int, int]:
        """How many scores that bound are above the threshold, with and without the unit."""
        counts = [int(np.count_nonzero(side > threshold)) for side in self.bounding]
        return counts[0], counts[1]


def upper(successes: Floats, trials: int, error: float) -> Floats:
    """No probability above this one gives so few successes but with probability `error` (Clopper and Pearson 1934)."""
    found = betaincinv(np.minimum(successes, trials - 1) + 1, np.maximum(trials - successes, 1), 1 - error)
    return np.asarray(np.where(successes >= trials, 1.0, found))


def lower(successes: Floats, trials: int, error: float) -> Floats:
    """No probability below this one gives so many successes but with probability `error`."""
    return np.asarray(1 - upper(trials - np.asarray(successes, np.float64), trials, error))


def check_level(delta: float, confidence: float) -> float:
    """1 - confidence. Raises ValueError for a delta or a confidence that is none."""
    if not 0 <= delta < 1 or not 0 < confidence < 1:
        raise ValueError(f"delta is from 0 to below 1 and confidence between 0 and 1, not {delta} and {confidence}")
    return 1 - confidence
