"""Audits of one run: each canary is in or out by a coin of its own, and the attacker guesses as many coins as it likes.

Two lower bounds on epsilon from the number of right guesses. `classical` (Steinke, Nasr and Jagielski 2023) holds for every
mechanism. `f_dp` (Mahloujifar, Melis and Chaudhuri 2024, arXiv 2410.22235, algorithm 3) tests a whole trade-off curve: that of a
Gaussian mechanism by default, which holds for Gaussian noise alone, or `approximate`, of (epsilon, delta), for any mechanism. It
is the better one where the curve is known, and the default of `lower_bound`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from ...protocol.privacy.gaussian import gaussian_epsilon
from .bound import Floats, LowerBound, check_level

Curve = Literal["gaussian", "approximate"]
Method = Literal["f-DP", "classical"]
_MOST = 1e3
_DIGITS = 1e-9


@dataclass(frozen=True, slots=True)
class Guesses:
    """canaries: each in or out by an independent fair coin. made: coins that were guessed, a number fixed before the run.

    right: of them. Raises ValueError for numbers that do not fit.
    """

    canaries: int
    made: int
    right: int

    def __post_init__(self) -> None:
        if not 0 <= self.right <= self.made <= self.canaries or self.made < 1:
            raise ValueError(f"{self.right} right of {self.made} guesses about {self.canaries} canaries cannot be")

    @classmethod
    def by_scores(cls, scores: Floats, included: NDArray[np.bool_], made: int) -> "Guesses":
        """The highest scores are guessed to be in and the lowest out, half of the guesses each; of the rest no guess is made.

        scores: float (canaries,), higher for canaries that are more likely in. included: bool (canaries,), the coins.
        """
        if scores.shape != included.shape or scores.ndim != 1 or not np.isfinite(scores).all() or not 1 <= made <= len(scores):
            raise ValueError("a finite score and a coin for each canary, and at most as many guesses")
        order = np.argsort(scores, kind="stable")
        out, within = order[: made // 2], order[len(order) - (made - made // 2) :]
        return cls(len(scores), made, int(np.count_nonzero(included[within]) + np.count_nonzero(~included[out])))


def lower_bound(
    guesses: Guesses, delta: float, confidence: float, method: Method = "f-DP", curve: Curve = "gaussian"
) -> LowerBound:
    """On epsilon at this delta, which is above 0 for Gaussian mechanisms. curve: as in the module, for f-DP alone."""
    error = check_level(delta, confidence)
    if method == "classical":
        return LowerBound(classical(guesses, delta, error), confidence, guesses.canaries, "one run")
    return LowerBound(f_dp(guesses, delta, error, curve), confidence, guesses.canaries, f"one run, f-DP ({curve})")


# --- (epsilon, delta) ----------------------------------------------------------------------------------------------------------


def p_value(guesses: Guesses, epsilon: float, delta: float) -> float:
    """Bound on the chance of so many right guesses about an (epsilon, delta)-differentially private mechanism.

    beta + 2 m delta max_i (P[Bin >= v - i] - beta) / i, where Bin counts r flips of a coin that is right e^eps times as often as
    wrong and beta = P[Bin >= v] (Steinke et al. 2023).
    """
    right = 1 / (1 + math.exp(-epsilon))
    beta = float(binom.sf(guesses.right - 1, guesses.made, right))
    if delta == 0 or guesses.right == 0:
        return min(1.0, beta)
    less = np.arange(1, guesses.right + 1)
    steepest = float(((binom.sf(guesses.right - less - 1, guesses.made, right) - beta) / less).max())
    return min(1.0, beta + 2 * guesses.canaries * delta * max(0.0, steepest))


def classical(guesses: Guesses, delta: float, error: float) -> float:
    """The largest epsilon whose p-value is at most `error`, or 0."""
    return _largest(lambda epsilon: p_value(guesses, epsilon, delta) <= error)


# --- f-DP ----------------------------------------------------------------------------------------------------------------------


def f_dp(guesses: Guesses, delta: float, error: float, curve: Curve = "gaussian") -> float:
    """The largest epsilon at delta of a curve under which so many right guesses have at most the chance `error`, or 0.

    Raises ValueError for a Gaussian curve at a delta of 0.
    """
    if curve == "approximate":

        def refuted(epsilon: float) -> bool:
            return _impossible(guesses, error, lambda power: _approximate(power, epsilon, delta))

        return _largest(refuted)
    if delta == 0:
        raise ValueError("a Gaussian mechanism has an epsilon only at a delta above 0")
    return gaussian_epsilon(_largest(lambda mu: _impossible(guesses, error, lambda power: float(ndtr(ndtri(power) - mu)))), delta)


def _impossible(guesses: Guesses, error: float, least_false: Callable[[float], float]) -> bool:
    """Whether right guesses of this number have a chance of at most `error` under the curve (algorithm 3).

    least_false: of a test's true-positive rate, the least false-positive rate that the curve allows. With P[k] the chance of k
    right guesses, right = sum_{k >= i} k P[k] / m and wrong = sum_{k >= i} (r - k) P[k] / m; the curve bounds wrong from below by
    right of one k more, which moves mass downwards. If P[k >= v] were `error`, all masses together would be too many.
    """
    m, r, v = guesses.canaries, guesses.made, guesses.right
    right, wrong = error * v / m, error * (r - v) / m
    for i in range(v - 1, -1, -1):
        more = max(wrong, least_false(right))
        if more == wrong:  # nothing changes any more
            break
        right = min(1.0, right + i / (r - i) * (more - wrong))
        wrong = more
    return right + wrong > r / m


def _approximate(power: float, epsilon: float, delta: float) -> float:
    return max(0.0, (power - delta) * math.exp(-epsilon), 1 - delta - (1 - power) * math.exp(epsilon))


def _largest(refuted: Callable[[float], bool]) -> float:
    """The largest number that is refuted, where all below it are; 0 if none is."""
    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while refuted(high) and high < _MOST:
        low, high = high, 2 * high
    while high - low > _DIGITS * max(1.0, high):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
