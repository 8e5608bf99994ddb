"""Rules that look along the direction in which the updates spread most: CAF and divide-and-conquer (DnC)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..field_ranges import need_above
from .rows import Rows, gram_of
from .rule import Matrix, Sight, centred, check_count, check_f, check_positive, uniform_on


@dataclass(frozen=True, slots=True)
class CAF:
    """Covariance-bound-agnostic filter (Allouah et al. 2025): weights shrink along the direction of most variance.

    From c = 1: the weighted mean and the top eigenpair of the weighted covariance; c_i (1 - t_i / max t) with t_i the squared
    component of x_i - mean along it; until sum c <= n - 2 f. The mean with the least eigenvalue is the result; 2 f < n. The
    eigenpair is exact, so the rule is deterministic.
    """

    f: int
    sees: ClassVar[Sight] = Sight.GRAM
    shift_invariant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_f(self)

    def weights(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        n = len(gram)
        check_count(self, n, 2 * self.f + 1)
        c = np.ones(n)
        best, kept = np.inf, c / n
        while True:
            mean = c / c.sum()
            about_mean = centred(gram, mean)
            root = np.sqrt(mean)
            values, vectors = np.linalg.eigh(root[:, None] * about_mean * root[None, :])
            if values[-1] < best:
                best, kept = float(values[-1]), mean
            t = np.square(about_mean @ (root * vectors[:, -1]))
            largest = t[c > 0].max()
            if self.f == 0 or largest <= 0:
                return kept
            c = c * np.maximum(1 - t / largest, 0.0)
            if c.sum() <= n - 2 * self.f:
                return kept


@dataclass(frozen=True, slots=True)
class DnC:
    """Divide and conquer (Shejwalkar and Houmansadr 2021, algorithm 2): no outliers along top singular vectors.

    iterations: random subsets of b coordinates. c: round(c f) updates are dropped by each; those that none dropped are
    averaged. All weights are 0 where no update is left. Coordinates in an unknown order with unknown signs serve as well.
    """

    f: int
    b: int
    iterations: int = 1
    c: float = 1.0
    sees: ClassVar[Sight] = Sight.COORDINATES

    def __post_init__(self) -> None:
        check_f(self)
        check_positive(self, "b")
        check_positive(self, "iterations")
        need_above(self, 0, "c")

    def weigh(self, rows: Rows, rng: np.random.Generator, /) -> Matrix:
        n = len(rows)
        dropped = round(self.c * self.f)
        check_count(self, n, max(2 * self.f, dropped) + 1)
        good = np.ones(n, dtype=bool)
        for _ in range(self.iterations):
            columns = np.sort(rng.choice(rows.length, size=min(self.b, rows.length), replace=False))
            gram = gram_of(rows.columns(columns), centre=True)
            top = np.linalg.eigh(centred(gram, np.full(n, 1 / n))).eigenvectors[:, -1]
            order = np.argsort(np.square(top), kind="stable")  # |<x_i - mean, v>|^2 = lambda u_i^2
            good[order[n - dropped :]] = False
        return uniform_on(np.flatnonzero(good), n)
