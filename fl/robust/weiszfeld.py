"""The geometric median, RFA and centred clipping, iterated on weights: every iterate is a combination of the updates."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..field_ranges import need_above, need_whole
from .averages import clip_factors
from .rule import Matrix, Sight, check_count, check_positive, squared_distances, uniform_on

STEPS = 10_000
"""Steps of the geometric median at most. Only a median that all but lies on an input needs more than about a hundred: of 2,000
draws with lengths over twelve decades a few needed more than a thousand, none all of these.
"""
ROUNDING = 8 * np.finfo(np.float64).eps
"""A squared distance below this share of the squares that it is a difference of is 0."""


def distances_from(gram: Matrix, weights: Matrix) -> Matrix:
    """|x_i - sum_j w_j x_j| for every row i, from the Gram matrix."""
    inner = gram @ weights
    square: Matrix = np.maximum(np.diagonal(gram) - 2 * inner + float(weights @ inner), 0.0)
    return np.sqrt(square)


@dataclass(frozen=True, slots=True)
class GeometricMedian:
    """argmin_z sum_i |z - x_i|: Weiszfeld's algorithm from the best of the inputs (Vardi and Zhang 2000; Beck and Sabach 2015).

    It ends where the sum of the unit vectors from z to the n updates is no longer than tolerance times n; updates in z itself,
    which pull with a force of at most 1 each, may balance the rest. Of several minimisers between inputs it takes the middle.

    Formal guarantee: where n - f of n updates, f < n / 2, lie within r of some point c, the result lies within
    r (n - f) / sqrt(n (n - 2 f)) of c, wherever the other f are (Minsker 2015, lemma 2.1; f + tolerance n for f where the
    iteration ended). With sums in place of the largest: within 2 / (n - 2 f) times the sum of the n - f distances to c.
    """

    tolerance: float = 1e-7
    sees: ClassVar[Sight] = Sight.GRAM
    shift_invariant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        need_above(self, 0, "tolerance")

    def weights(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        n = len(gram)
        check_count(self, n, 1)
        w = _best_inputs(gram)
        length, cosine = _about(gram, int(np.argmax(w)))
        for _ in range(STEPS):
            z = w * length  # by unit vectors from the origin towards the updates: one that is far weighs no more
            towards = cosine @ z
            square = length**2 - 2 * length * towards + float(z @ towards)
            here = square <= ROUNDING * (length**2 + float(z @ towards))
            beta = np.where(here, 0.0, 1 / np.sqrt(np.where(here, 1.0, square)))
            pull = beta * length - beta.sum() * z
            force = float(np.sqrt(max(pull @ cosine @ pull, 0.0)))
            if force <= np.count_nonzero(here) + self.tolerance * n:
                break
            stay = np.count_nonzero(here) / force
            w = (1 - stay) * beta / beta.sum() + stay * w
        return w


def _best_inputs(gram: Matrix) -> Matrix:
    """The weights of the mean of those updates whose sum of distances to all is least: no worse a point than any update.

    From there Weiszfeld's steps, each of which goes down, meet no update that is not the median.
    """
    distances = np.sqrt(squared_distances(gram))
    ordinary = int(np.argmin(np.median(distances, axis=1)))  # in a cluster of the majority, however long the others are
    # sum_j |x_i - x_j| - |x_c - x_j|, of which the square of a long x_j, in which all else would be lost, cancels first
    squares = np.diagonal(gram) - 2 * gram.T
    more = squares - squares[:, [ordinary]]
    both = distances + distances[ordinary][:, None]
    sums = np.divide(more, both, out=np.zeros_like(gram), where=both > 0).sum(axis=0)
    slack = ROUNDING * len(gram) * float(np.median(distances[ordinary]))
    return uniform_on(np.flatnonzero(sums <= sums.min() + slack), len(gram))


def _about(gram: Matrix, origin: int) -> tuple[Matrix, Matrix]:
    """Lengths of the updates as seen from one of them, and the cosines between them there; 0 for those in its place."""
    length = np.sqrt(squared_distances(gram)[origin])
    row = gram[origin]
    one = np.where(length > 0, length, np.inf)
    cosine = (gram - row[:, None] - row[None, :] + row[origin]) / one[:, None] / one[None, :]
    np.fill_diagonal(cosine, length > 0)
    return length, (cosine + cosine.T) / 2


@dataclass(frozen=True, slots=True)
class RFA:
    """T smoothed Weiszfeld steps from the mean, towards the geometric median (Pillutla et al. 2022, algorithm 2).

    T: steps; the paper's experiments take 3, ByzFL as many from zero. nu: distances are taken as at least this; in the units of
    the updates. As few steps from the mean go as far as one long update pulls them: the breakdown point is 0, unlike that of
    `GeometricMedian`.
    """

    T: int = 3
    nu: float = 1e-6
    sees: ClassVar[Sight] = Sight.GRAM
    shift_invariant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        need_whole(self, 1, "T")
        need_above(self, 0, "nu")

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
        check_positive(self, "tau")
        check_positive(self, "L")

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
