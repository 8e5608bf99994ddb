"""Lower and upper bounds of the earth mover's distance that cost less than solving it.

Every bound holds for every pair of samples; `Pair.slack` says by how much rounding may break it. Cosine costs are
|x - y|^2 / 2 of points of length 1, so what is known of squared Euclidean transport applies to them.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .distances import Cosine, Cost, Euclidean, Points, Sample, lengths, points_of_both
from .matching import Costs32, dual_bound, matched, potentials, rounded

ROUNDING = 2.0**-23
"""Twice the unit roundoff of float32, in which costs are held for bounds."""


CLOSE = 1e-3
"""As in `distances`, for float32."""
LEAST = 1e-30
"""Smallest cost that float32 and squares hold without loss; part of the slack."""
MOST = 1e30
"""Largest length that float32 holds with room for sums."""


@dataclass(frozen=True, slots=True)
class Interval:
    """lower <= distance <= upper."""

    lower: float = 0.0
    upper: float = math.inf

    def __and__(self, other: "Interval") -> "Interval":
        return Interval(max(self.lower, other.lower), min(self.upper, other.upper))


@dataclass(eq=False)
class Pair:
    """Two samples and what bounds of them share: points, moments and costs, each computed when it is first asked for."""

    ground: Cosine | Euclidean
    source: Points = field(repr=False)
    target: Points = field(repr=False)

    @classmethod
    def of(cls, ground: Cosine | Euclidean, source: Sample, target: Sample) -> "Pair":
        """Raises ValueError unless both samples are finite and of one width."""
        pair = cls(ground, *points_of_both(ground, source, target))
        if not pair.largest < MOST:
            raise ValueError(f"embeddings are farther than {MOST:.0e} apart; scale them, or train with a smaller step")
        return pair

    @property
    def squared(self) -> bool:
        """Whether the cost is |x - y|^2 / 2, and not |x - y|."""
        return isinstance(self.ground, Cosine)

    @cached_property
    def means(self) -> tuple[Points, Points]:
        return self.source.mean(axis=0), self.target.mean(axis=0)

    @cached_property
    def largest(self) -> float:
        """No cost is above this."""
        if self.squared:
            return 2.0
        middle = (self.means[0] + self.means[1]) / 2
        x, y = (float(((points - middle) ** 2).sum(axis=1).max()) for points in (self.source, self.target))
        return math.sqrt(x) + math.sqrt(y)

    @cached_property
    def slack(self) -> float:
        """Largest rounding error of any bound here, against the exact distance as the solver returns it.

        Costs up to `largest` are held in float32, and potentials of at most 27 times that enter sums of three, which makes fewer
        than 64 roundings of `largest`. An inner product of unit vectors adds at most D + 2 roundings, a length by `lengths` at
        most (D + 8) / (2 sqrt(CLOSE)) of `largest`. The solver's own error, about 1e-12 of it, is far below.
        """
        d = self.source.shape[1]
        products = d + 2 if self.squared else (d + 8) / (2 * math.sqrt(CLOSE)) * self.largest
        return ROUNDING * (64 * self.largest + products) + LEAST

    @cached_property
    def costs(self) -> Costs32:
        """Costs for bounds: float32, shape (n, m)."""
        if not self.squared:
            middle, unit = (self.means[0] + self.means[1]) / 2, max(self.largest, LEAST)
            x, y = (((points - middle) / unit).astype(np.float32) for points in (self.source, self.target))
            return np.asarray(lengths(x, y, CLOSE) * np.float32(unit))
        product = self.source.astype(np.float32) @ self.target.astype(np.float32).T
        return np.asarray(np.subtract(np.float32(1), product, out=product))

    @property
    def exact_costs(self) -> Cost:
        """Costs for the solver: float64, shape (n, m), the very values that `ExactEmd` solves for."""
        return self.ground.cost(self.source, self.target)


class Stage(Protocol):
    """Bounds of a pair's distance. threshold: what will be compared, so that a stage may stop when it has passed it."""

    def __call__(self, pair: Pair, threshold: float, /) -> Interval: ...


@dataclass(frozen=True, slots=True)
class Moments:
    """From means and mean squared norms alone, O((n + m) D).

    Lower: the difference of means, |E x - E y|, or half its square (Jensen). Upper: moving everything everywhere, where
    E |x - y| <= sqrt(E |x - y|^2).
    """

    def __call__(self, pair: Pair, threshold: float) -> Interval:
        x, y = pair.means
        apart = float(((x - y) ** 2).sum())
        if pair.squared:
            return Interval(apart / 2, 1 - float(x @ y))
        spread = sum(
            float(((points - mean) ** 2).sum()) / len(points)
            for points, mean in zip((pair.source, pair.target), pair.means, strict=True)
        )
        return Interval(math.sqrt(apart), min(pair.largest, math.sqrt(apart + spread)))


@dataclass(frozen=True, slots=True)
class Projections:
    """From one-dimensional transports along every coordinate axis, O((n + m) D log(n + m)).

    For orthogonal axes E |x - y|^2 = sum_k E (x_k - y_k)^2 >= sum_k W_2(x_k, y_k)^2, and by Jensen's inequality for the norm
    E |x - y| >= sqrt(sum_k W_1(x_k, y_k)^2). Upper, for samples of one size: embeddings matched in their order along the axis
    of the largest variance.
    """

    def __call__(self, pair: Pair, threshold: float) -> Interval:
        if pair.squared:
            lower = float(along_axes(pair.source, pair.target, 2).sum()) / 2
        else:
            lower = float(np.sqrt((along_axes(pair.source, pair.target, 1) ** 2).sum()))
        if lower > threshold + pair.slack or len(pair.source) != len(pair.target):
            return Interval(lower)
        axis = int(np.argmax(pair.source.var(axis=0) + pair.target.var(axis=0)))
        order, other = (np.argsort(points[:, axis], kind="stable") for points in (pair.source, pair.target))
        squares = ((pair.source[order] - pair.target[other]) ** 2).sum(axis=1)
        return Interval(lower, float((squares / 2 if pair.squared else np.sqrt(squares)).mean()))


@dataclass(frozen=True, slots=True)
class Gelbrich:
    """From means and covariances (Gelbrich 1990), for cosine costs; says nothing of Euclidean ones. O((n + m) D^2 + D^3).

    W_2^2 >= |E x - E y|^2 + tr A + tr B - 2 tr (A^(1/2) B A^(1/2))^(1/2), where the last trace is the nuclear norm of R S^T for
    A = R^T R and B = S^T S. The triangles R and S come from QR, so no small eigenvalue is lost to a square.
    """

    def __call__(self, pair: Pair, threshold: float) -> Interval:
        if not pair.squared:
            return Interval()
        x, y = pair.means
        centred = [(pair.source - x) / math.sqrt(len(pair.source)), (pair.target - y) / math.sqrt(len(pair.target))]
        first, second = (np.asarray(np.linalg.qr(points, mode="r")) for points in centred)
        overlap = float(np.linalg.svd(first @ second.T, False, False).sum())
        traces = sum(float((points**2).sum()) for points in centred)
        return Interval(max(0.0, (float(((x - y) ** 2).sum()) + traces - 2 * overlap) / 2))


@dataclass(frozen=True, slots=True)
class Relaxed:
    """Every embedding moves to its nearest, in either direction (Kusner et al. 2015, relaxed word mover's distance). O(n m D)."""

    def __call__(self, pair: Pair, threshold: float) -> Interval:
        lower = float(pair.costs.min(axis=0).mean(dtype=np.float64))
        if lower <= threshold + pair.slack:
            lower = max(lower, float(pair.costs.min(axis=1).mean(dtype=np.float64)))
        return Interval(max(0.0, lower))


@dataclass(frozen=True, slots=True)
class Couplings:
    """From a few Sinkhorn iterations: dual-feasible potentials below, a feasible coupling above. O(iterations n m).

    Lower: the potentials after a c-transform (feasible for any potentials). Upper: samples of one size are matched, each
    embedding to its best by reduced cost while it is free, the others by an assignment solver; samples of different sizes
    have their plan rounded (Altschuler et al. 2017, algorithm 2). share: regularisation over the threshold.
    """

    iterations: int
    share: float

    def __post_init__(self) -> None:
        if self.iterations < 1 or not 0 < self.share <= 0.5:
            raise ValueError(f"couplings need iterations and a share in (0, 0.5], not {self.iterations} and {self.share}")

    def __call__(self, pair: Pair, threshold: float) -> Interval:
        regularisation = self.share * threshold
        if not regularisation > max(pair.largest * ROUNDING, LEAST):
            return Interval()
        scaling = potentials(pair.costs, regularisation, self.iterations)
        lower, reduced = dual_bound(pair.costs, scaling)
        if lower > threshold + pair.slack:
            return Interval(lower)
        if len(pair.source) == len(pair.target):
            return Interval(lower, matched(pair.costs, reduced))
        return Interval(lower, rounded(pair.costs, reduced, regularisation))


def along_axes(source: Points, target: Points, power: int) -> NDArray[np.float64]:
    """W_p^p of every coordinate, float64 (D,): sorted values in step; quantiles cut at all multiples of 1/n and 1/m."""
    x, y = np.sort(source, axis=0), np.sort(target, axis=0)
    n, m = len(x), len(y)
    if n == m:
        return np.asarray((np.abs(x - y) ** power).mean(axis=0))
    cuts: NDArray[Any] = np.union1d(np.arange(n + 1) * m, np.arange(m + 1) * n)  # in units of 1 / (n m)
    starts = cuts[:-1]
    return np.asarray(np.diff(cuts) @ (np.abs(x[starts // m] - y[starts // n]) ** power) / (n * m))
