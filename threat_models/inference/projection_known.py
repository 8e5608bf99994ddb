"""Embeddings from a projected cloud Y = Z R whose projection R the adversary knows, or learns from rows that it knows.

Adversary: server and one client of the pair (EMD-CFL, section 3: both clients of a pair hold R), or server and any one client
where all share one projection. Side information: how the embedding model embeds public examples (its mean and covariance).

All arrays are float (rows, coordinates): embeddings have d coordinates, what is released has p, R is (d, p).
"""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.floating[Any]]
Matrix = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """What public embeddings say of embeddings: their mean, float64 (d,), and covariance, float64 (d, d)."""

    mean: Matrix = field(repr=False)
    covariance: Matrix = field(repr=False)

    @classmethod
    def of(cls, public: Rows, /) -> Self:
        """Of public embeddings, two rows at least; the covariance is shrunk by 1e-6 of its mean variance."""
        found = np.atleast_2d(np.cov(public.astype(np.float64), rowvar=False))
        return cls(public.mean(axis=0, dtype=np.float64), found + 1e-6 * np.trace(found) / len(found) * np.eye(len(found)))


def least_squares(released: Rows, projection: Matrix) -> Matrix:
    """The shortest rows Z with Z R = Y: float64 (rows, d). Where R has fewer columns than rows, what it drops stays 0."""
    found: Matrix = released.astype(np.float64) @ np.linalg.pinv(projection)
    return found


def non_negative(released: Rows, projection: Matrix) -> Matrix:
    """Rows Z >= 0 of least |Z R - Y| (Lawson and Hanson 1974): float64 (rows, d).

    Embeddings behind a ReLU are not negative and have zeros; with enough of them the solution is the only one, hence exact.
    Coordinates of which the projection is not known, whose row is 0, stay 0.
    """
    from scipy.optimize import nnls

    lengths = np.linalg.norm(projection, axis=1)
    known = lengths > 1e-6 * lengths.max()
    matrix = np.ascontiguousarray(projection[known].T)
    found = np.zeros((len(released), len(projection)))
    for row, y in zip(found, released.astype(np.float64), strict=True):
        row[known] = nnls(matrix, y, maxiter=30 * len(projection))[0]
    return found


def linear(released: Rows, projection: Matrix, known: Moments, noise: float = 0.0) -> Matrix:
    """The best linear estimate of embeddings with these moments (LMMSE): float64 (rows, d).

    noise: standard deviation of what was added to every released coordinate, where something was.
    """
    seen = projection.T @ known.covariance @ projection
    seen += (noise**2 + 1e-9 * np.trace(seen) / len(seen)) * np.eye(len(seen))
    gain = np.linalg.solve(seen, projection.T @ known.covariance)
    found: Matrix = known.mean + (released.astype(np.float64) - known.mean @ projection) @ gain
    return found


def projection_from(released: Rows, places: Labels, embeddings: Rows) -> Matrix:
    """The projection on the span of known rows, float64 (d, p), 0 off it: all of it, exactly, from d independent ones.

    Adversary: the server alone, of which some of the client's own records are known. places: their rows in the cloud, int64
    (k,); embeddings: float (k, d). Liu, Giannella and Kargupta 2006.
    """
    found: Matrix = np.linalg.pinv(embeddings.astype(np.float64)) @ released[places].astype(np.float64)
    return found


def from_known_rows(released: Rows, places: Labels, embeddings: Rows, known: Moments) -> Matrix:
    """Embeddings of all rows from those of some, as in `projection_from` (Giannella et al. 2013): float64 (rows, d).

    With fewer known rows than coordinates R is known on their span alone; of the rest of an embedding, z', what is released is
    like noise of variance |z'|^2 / p, as E R R^T = I.
    """
    mine = embeddings.astype(np.float64)
    projection = projection_from(released, places, mine)
    outside = np.eye(mine.shape[1]) - np.linalg.pinv(mine) @ mine
    second = known.covariance + np.outer(known.mean, known.mean)
    left = max(float(np.einsum("ij,jk,ik->", outside, second, outside)), 0.0)
    return linear(released, projection, known, float(np.sqrt(left / released.shape[1])))


def nearest(embeddings: Rows, centres: Rows) -> Labels:
    """The label of every row, int64 (rows,): of the class whose public centre, row of (classes, d), is nearest."""
    found = embeddings.astype(np.float64)
    squares = np.sum(centres.astype(np.float64) ** 2, axis=1)
    return np.asarray(np.argmin(squares - 2 * found @ centres.T.astype(np.float64), axis=1), dtype=np.int64)


def decoded(embeddings: Rows, public_embeddings: Rows, public_inputs: Rows, ridge: float = 1e-3) -> Matrix:
    """Inputs, float64 (rows, inputs), by the linear map that fits public examples best (ridge regression)."""
    z, x = public_embeddings.astype(np.float64), public_inputs.astype(np.float64)
    middle, average = z.mean(axis=0), x.mean(axis=0)
    square = (z - middle).T @ (z - middle)
    square += ridge * np.trace(square) / len(square) * np.eye(len(square))
    found: Matrix = average + (embeddings - middle) @ np.linalg.solve(square, (z - middle).T @ (x - average))
    return found
