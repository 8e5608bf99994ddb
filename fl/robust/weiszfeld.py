"""The geometric median and centred clipping, iterated on weights: every iterate is a combination of the updates."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .averages import clip_factors
from .rule import Matrix, Sight, check_count, check_positive


def distances_from(gram: Matrix, weights: Matrix) -> Matrix:
    """|x_i - sum_j w_j x_j| for every row i, from the Gram matrix."""
    inner = gram @ weights
    square: Matrix = np.maximum(np.diagonal(gram) - 2 * inner + float(weights @ inner), 0.0)
    return np.sqrt(square)


@dataclass(frozen=True, slots=True)
class GeometricMedian:
    """argmin_z sum_i |z - x_i| by T steps of the smoothed Weiszfeld algorithm from the mean (Pillutla et al. 2022, RFA).

    T: steps; the paper's experiments take 3, ByzFL as many from zero. nu: distances are taken as at least this; in the units of
    the updates.
    """

    T: int = 3
    nu: float = 1e-6
    sees: ClassVar[Sight] = Sight.GRAM
    shift_invariant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive("T", self.T)
        check_positive("nu", self.nu)

    def weights(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        n = len(gram)
        check_count(self, n, 1)
        z = np.full(n, 1 / n)
        for _ in range(self.T):
            beta = 1 / np.maximum(distances_from(gram, z), self.nu)
            z = beta / beta.sum()
        return z


@dataclass(frozen=True, slots=True)
class CenteredClipping:
    """v <- v + mean_i (x_i - v) min(1, tau / |x_i - v|), L times (Karimireddy et al. 2021, eq. 7).

    v starts from the result of the round before, which is the extra row of `weights_with`; `weights` starts from zero.
    `RobustFedAvg` carries that result, see `algorithms.rule_history`.
    """

    tau: float
    L: int = 1
    sees: ClassVar[Sight] = Sight.GRAM
    shift_invariant: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_positive("tau", self.tau)
        check_positive("L", self.L)

    def weights(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        n = len(gram)
        return self.weights_with(np.pad(gram, (0, 1)), rng)[:n]

    def weights_with(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        n = len(gram) - 1
        check_count(self, n, 1)
        v = np.zeros(n + 1)
        v[n] = 1.0
        for _ in range(self.L):
            step = clip_factors(distances_from(gram, v)[:n], self.tau) / n
            v *= 1 - step.sum()
            v[:n] += step
        return v
