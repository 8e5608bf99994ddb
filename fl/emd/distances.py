"""Distances between two samples of embeddings: the earth mover's distance, exact or by Sinkhorn, and distances of means.

A sample is a float32 or float64 matrix (n, D), one embedding a row; every row has weight 1/n, and the two samples may differ
in n. All distances are computed in float64. EMD-CFL (Zhang et al. 2025) uses the exact distance with cosine ground cost
(section 3), Sinkhorn's with regularisation 0.1 in appendix E.2.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Sample = NDArray[np.floating[Any]]
Points = NDArray[np.float64]
Cost = NDArray[np.float64]
Real = TypeVar("Real", np.float32, np.float64)

PIVOTS = 10_000_000
"""Largest number of pivots of the network simplex; a sample of 512 needs about ten thousand."""
UNDERFLOW = 100.0
"""Largest cost over regularisation above which Sinkhorn's iterations are done on logarithms."""
TINY = 1e-200
"""Squared lengths below this, or above its inverse, are computed again from scaled rows."""
CLOSE = 1e-4
"""Squared distances below this share of the largest squared lengths are computed again from the differences."""
_BLOCK = 1 << 20  # differences held at once: 8 MiB


class Ground(Protocol):
    """The cost of moving one embedding to another."""

    def points(self, sample: Sample, /) -> Points:
        """The sample as the points that costs are computed from. Raises ValueError unless it is a finite matrix with rows."""
        ...

    def cost(self, source: Points, target: Points, /) -> Cost:
        """Costs of all pairs of points: float64, shape (n, m), none negative."""
        ...


class Distance(Protocol):
    """A number for two samples, 0 or more. Raises ValueError for a sample or a cost that is not finite."""

    def __call__(self, source: Sample, target: Sample, /) -> float: ...


@dataclass(frozen=True, slots=True)
class Cosine:
    """1 - cos(x, y), in [0, 2]. A zero embedding is at 0 from another zero embedding and at 1 from everything else.

    That is, it counts as a direction of its own, orthogonal to all others: points have one coordinate more than embeddings,
    which is 1 for zero embeddings and 0 for the rest. Points have length 1, so the cost is |x - y|^2 / 2.
    """

    def points(self, sample: Sample) -> Points:
        rows = checked(sample)
        squares = np.einsum("ij,ij->i", rows, rows)
        if squares.min() < TINY or squares.max() > 1 / TINY:
            rows /= _or_one(np.abs(rows).max(axis=1))[:, None]  # so that no square is lost
            squares = np.einsum("ij,ij->i", rows, rows)
        points = np.zeros((rows.shape[0], rows.shape[1] + 1))
        np.divide(rows, _or_one(np.sqrt(squares))[:, None], out=points[:, :-1])
        points[:, -1] = squares == 0
        return points

    def cost(self, source: Points, target: Points) -> Cost:
        product = source @ target.T
        return np.clip(np.subtract(1.0, product, out=product), 0.0, 2.0, out=product)


@dataclass(frozen=True, slots=True)
class Euclidean:
    """|x - y|, with a relative error below (D + 8) 1e-12; 0 for equal embeddings."""

    def points(self, sample: Sample) -> Points:
        return checked(sample)

    def cost(self, source: Points, target: Points) -> Cost:
        middle = (source.mean(axis=0) + target.mean(axis=0)) / 2
        return lengths(source - middle, target - middle, CLOSE)


COSINE = Cosine()


@dataclass(frozen=True, slots=True)
class ExactEmd:
    """The earth mover's distance: the cheapest way to turn one sample into the other (POT's network simplex)."""

    ground: Ground = COSINE

    def __call__(self, source: Sample, target: Sample) -> float:
        return transport(cost_matrix(self.ground, source, target))


@dataclass(frozen=True, slots=True)
class Sinkhorn:
    """The cost of the entropic plan (Cuturi 2013), without its entropy: at least about the exact distance.

    regularisation: weight of the entropy, in units of the cost. iterations: at most; marginals are then off by up to 1e-9 or,
    where the iterations did not suffice, by more, and the value may fall below the exact one.
    """

    regularisation: float
    ground: Ground = COSINE
    iterations: int = 1000

    def __post_init__(self) -> None:
        if not self.regularisation > 0 or self.iterations < 1:
            raise ValueError(
                f"Sinkhorn needs a regularisation above 0 and iterations, not {self.regularisation}, {self.iterations}"
            )

    def __call__(self, source: Sample, target: Sample) -> float:
        import ot  # here, so that whoever transports nothing does not wait for it

        cost = cost_matrix(self.ground, source, target)
        method = "sinkhorn_log" if cost.max() > UNDERFLOW * self.regularisation else "sinkhorn"
        weights = [np.full(count, 1 / count) for count in cost.shape]
        plan = ot.sinkhorn(
            *weights, cost, self.regularisation, method=method, numItermax=self.iterations, stopThr=1e-9, warn=False
        )
        return float(np.vdot(plan, cost))


@dataclass(frozen=True, slots=True)
class MeanDistance:
    """The ground cost between the two means: no transport is solved. A cheap alternative in the manner of appendix E.7."""

    ground: Ground = field(default=COSINE)

    def __call__(self, source: Sample, target: Sample) -> float:
        means = [checked(sample).mean(axis=0, keepdims=True) for sample in (source, target)]
        return float(cost_matrix(self.ground, *means)[0, 0])


def transport(cost: Cost) -> float:
    """The least mean cost of moving one sample to the other, weights 1/n and 1/m. cost: shape (n, m), none negative.

    Raises ValueError for a cost that is not finite: the solver would take it for 0, "identical". The solver's tolerance is
    absolute (costs of 1e-20 it does not tell apart), so it is given costs scaled by a power of two to a largest in [1/2, 1).
    """
    import ot

    if cost.size == 0 or not np.isfinite(cost).all():
        raise ValueError(f"costs of shape {cost.shape} must be finite and at least one; check the embeddings")
    exponent = int(np.frexp(cost.max())[1])
    weights = [np.full(count, 1 / count) for count in cost.shape]
    value, log = ot.emd2(*weights, np.ldexp(cost, -exponent), numItermax=PIVOTS, log=True, center_dual=False)
    if log["warning"] is not None:
        raise ValueError(f"the transport solver stopped early: {log['warning']}; check the embeddings")
    return max(0.0, float(np.ldexp(value, exponent)))


def cost_matrix(ground: Ground, source: Sample, target: Sample) -> Cost:
    """Ground costs of two samples, float64 (n, m). Raises ValueError unless both are finite and of one width."""
    x, y = points_of_both(ground, source, target)
    cost = ground.cost(x, y)
    if not np.isfinite(cost).all():
        raise ValueError("the cost of moving one embedding to another is not finite; check the embeddings")
    return cost


def points_of_both(ground: Ground, source: Sample, target: Sample) -> tuple[Points, Points]:
    """The points of two samples of one width. Raises ValueError otherwise."""
    if source.ndim != 2 or target.ndim != 2 or source.shape[1] != target.shape[1]:
        raise ValueError(f"samples must be matrices of one width, not of shapes {source.shape} and {target.shape}")
    return ground.points(source), ground.points(target)


def checked(sample: Sample) -> Points:
    """A float64 copy of the sample. Raises ValueError unless it is a finite matrix with at least one row and column."""
    if sample.ndim != 2 or 0 in sample.shape:
        raise ValueError(f"a sample must have embeddings as rows, not shape {sample.shape}")
    rows = np.array(sample, dtype=np.float64, order="C")
    if not np.isfinite(rows).all():
        raise ValueError("an embedding is not finite; leave it out or train with a smaller step")
    return rows


def lengths(x: NDArray[Real], y: NDArray[Real], close: float) -> NDArray[Real]:
    """|x_i - y_j| of rows, shape (n, m), by inner products, and by differences below sqrt(close) times the largest length.

    Relative error at most (D + 8) / (2 close) roundings; absolute error at most (D + 8) / (2 sqrt(close)) roundings of
    sqrt(max |x|^2 + max |y|^2). Rows should be centred.
    """
    own, other = np.einsum("ij,ij->i", x, x), np.einsum("ij,ij->i", y, y)
    squared = x @ y.T
    squared *= -2.0
    squared += own[:, None]
    squared += other
    rows, columns = np.nonzero(squared < close * (own.max() + other.max()))
    size = max(1, _BLOCK // x.shape[1])
    for at in range(0, len(rows), size):
        row, column = rows[at : at + size], columns[at : at + size]
        difference = x[row] - y[column]
        squared[row, column] = np.einsum("ij,ij->i", difference, difference)
    return np.asarray(np.sqrt(squared, out=squared))


def _or_one(lengths: Points) -> Points:
    """The lengths, 1 in place of 0."""
    return np.where(lengths == 0, 1.0, lengths)
