"""The updates that an attack sees, in the few inner products that attacks along a line need: one blocked pass, no second copy.

Most collusive attacks send a point of a line through the mean: u(t) = mu + t p with p a perturbation made of the mean mu and the
standard deviation sd of every coordinate. Distances of u(t) to the updates, and what a Gram rule makes of it, are then functions
of t and of inner products taken once, so that a search over t costs no further pass over the coordinates.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..protocol.parts.gram import BLOCK
from ..protocol.view.answers import Vector

Matrix = NDArray[np.float64]
Perturbation = Literal["mean", "sign", "deviation"]

PERTURBATIONS: dict[Perturbation, Callable[[Vector, Vector], Vector]] = {
    "mean": lambda mean, deviation: np.negative(mean),
    "sign": lambda mean, deviation: np.negative(np.sign(mean)),
    "deviation": lambda mean, deviation: np.negative(deviation),
}
"""p = -mu, -sign(mu) or -sd (Shejwalkar and Houmansadr 2021, section IV-B; their first is -mu / |mu|)."""


@dataclass(frozen=True, slots=True, eq=False)
class Geometry:
    """Updates x_1 .. x_m about their mean, and the perturbation p.

    mean, deviation: float32 (d,), the deviation without Bessel's correction. basis: float64 (m + 2, m + 2), inner products of
    x_1 - mu, ..., x_m - mu, p and mu, in this order; (m + 3, m + 3) where there is an extra vector, which stands before p.
    """

    mean: Vector = field(repr=False)
    deviation: Vector = field(repr=False)
    perturbation: Perturbation
    basis: Matrix = field(repr=False)
    count: int

    @property
    def to_mean(self) -> Matrix:
        """|x_i - mu|^2: float64 (m,)."""
        return np.diagonal(self.basis)[: self.count].copy()

    @property
    def slope(self) -> Matrix:
        """<x_i - mu, p>: float64 (m,)."""
        return self.basis[: self.count, -2].copy()

    @property
    def length(self) -> float:
        """|p|."""
        return float(np.sqrt(self.basis[-2, -2]))

    def distances(self) -> Matrix:
        """|x_i - x_j|^2: float64 (m, m)."""
        centred = self.basis[: self.count, : self.count]
        square = np.diagonal(centred)
        return np.maximum(square[:, None] + square[None, :] - 2 * centred, 0.0)

    def point(self, t: float) -> Vector:
        """u(t) = mu + t p: float32 (d,), a new array."""
        step = PERTURBATIONS[self.perturbation](self.mean, self.deviation)
        step *= np.float32(t)
        step += self.mean
        return step


def geometry(updates: Sequence[Vector], perturbation: Perturbation, extra: Vector | None = None) -> Geometry:
    """One pass over the updates, float32 (d,) each, in blocks of coordinates: float32 products, accumulated in float64.

    extra: one more vector, float32 (d,), that is not an update.
    """
    m, d = len(updates), len(updates[0])
    mean, deviation = np.empty(d, np.float32), np.empty(d, np.float32)
    size = m + 2 + (extra is not None)
    basis = np.zeros((size, size))
    share = np.full(m, 1 / m, np.float32)
    for start in range(0, d, BLOCK):
        rows = np.empty((size, min(BLOCK, d - start)), np.float32)
        part = slice(start, start + rows.shape[1])
        for row, update in zip(rows, updates, strict=False):
            row[:] = update[part]
        mean[part] = share @ rows[:m]
        rows[:m] -= mean[part]
        deviation[part] = np.sqrt(np.einsum("ij,ij->j", rows[:m], rows[:m]) / m)
        if extra is not None:
            rows[m] = extra[part]
        rows[-2] = PERTURBATIONS[perturbation](mean[part], deviation[part])
        rows[-1] = mean[part]
        basis += rows @ rows.T
    return Geometry(mean, deviation, perturbation, (basis + basis.T) / 2, m)


def mean_of(updates: Sequence[Vector]) -> Vector:
    """The mean of the updates, added in float64: float32 (d,)."""
    total = np.zeros(len(updates[0]))
    for update in updates:
        total += update
    mean: Vector = (total / len(updates)).astype(np.float32)
    return mean


def unit(vector: Vector) -> Vector:
    """The vector at norm 1; 0 stays 0."""
    norm = float(np.linalg.norm(vector))
    return vector / np.float32(norm) if norm > 0 else vector.copy()


def without(vector: Vector, direction: Vector) -> Vector:
    """The vector less its component along a unit direction."""
    return vector - np.float32(vector @ direction) * direction
