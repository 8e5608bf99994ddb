"""Gram matrices of many long vectors: float32 products in blocks of coordinates, accumulated in float64.

Vectors that share a large part are multiplied without it, which is added again in float64. So their distances, differences of
much larger inner products, keep the accuracy of what the vectors differ by.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
BLOCK = 16_384
"""Coordinates multiplied at once; bounds both the extra memory (clients x BLOCK) and the float32 rounding."""
NEAR = 0.2
"""A row is near to another within this share of its length."""
SAMPLE = 1024
"""Coordinates, evenly apart, by which it is told whether rows share a large part."""


def inner_products(left: Sequence[Vector], right: Sequence[Vector]) -> NDArray[np.float64]:
    """<left_i, right_j>: float64, shape (len(left), len(right)), for float32 vectors of one length."""
    total = np.zeros((len(left), len(right)))
    if not left or not right:
        return total
    for start in range(0, len(left[0]), BLOCK):
        a = np.stack([v[start : start + BLOCK] for v in left])
        b = a if left is right else np.stack([v[start : start + BLOCK] for v in right])
        total += a @ b.T
    return total


def rounding(d: int) -> float:
    """Bound on |error| / (norm_i norm_j) of an inner product of d coordinates (Higham 2002, Eq. 3.5, per block of float32).

    Holds where no product of two coordinates underflows.
    """
    terms = min(d, BLOCK) * 2.0**-24
    return terms / (1 - terms)


def gram_matrix(rows: Sequence[Vector]) -> NDArray[np.float64]:
    """G[i, j] = <rows_i, rows_j>: float64, symmetric, shape (len(rows), len(rows)), each within `rounding` of |rows_i| |rows_j|.

    Where most rows are near to one another, for their length, |x_i - x_j|^2 from G is as accurate as from their differences.
    """
    middle = _middle(rows)
    gram = inner_products(rows, rows) if middle is None else _about(rows, rows[middle])
    return (gram + gram.T) / 2


def about(middle: Sequence[Vector], rows: Sequence[Vector]) -> list[Vector]:
    """The rows less the mean of those in `middle`, each rounded to float32 once."""
    centre = np.zeros(len(middle[0]))
    for row in middle:
        centre += row / len(middle)
    return [(row - centre).astype(np.float32) for row in rows]


def cosines_about(gram: NDArray[np.float64], new: int) -> NDArray[np.float64]:
    """Cosines of the first `new` rows of a Gram matrix to the others, about the mean of those others: float64, 0 for norm 0."""
    weights = np.zeros(len(gram))
    weights[new:] = 1 / max(len(gram) - new, 1)
    less = np.eye(len(gram)) - weights
    whole = less @ gram @ less.T
    norms = np.sqrt(np.maximum(np.diagonal(whole), 0.0))
    scale = np.outer(norms[:new], norms[new:])
    found = np.divide(whole[:new, new:], scale, out=np.zeros_like(scale), where=scale > 0)
    block: NDArray[np.float64] = np.clip(found, -1.0, 1.0)
    return block


def centred(gram: NDArray[np.float64], parts: Sequence[Sequence[int]] | None = None) -> NDArray[np.float64]:
    """The Gram matrix of the rows' deviations from their mean, from that of the rows: float64, symmetric.

    parts: positions of rows that have a mean of their own each, every position in one; all rows are one part without them.
    """
    less = np.eye(len(gram))
    for part in [range(len(gram))] if parts is None else parts:
        less[np.ix_(part, part)] -= 1 / max(len(part), 1)
    whole: NDArray[np.float64] = less @ gram @ less
    return (whole + whole.T) / 2


def _middle(rows: Sequence[Vector]) -> int | None:
    """The position of a row that most others are near to, by a sample of the coordinates; None if there is none.

    The row whose median distance to the others is least: no minority of rows, however long, decides it.
    """
    if len(rows) < 3:
        return None
    few = np.stack([v[:: -(-len(v) // SAMPLE)] for v in rows]).astype(np.float64)
    gram = few @ few.T
    square = np.diagonal(gram)
    distances = square[:, None] + square[None, :] - 2 * gram
    middle = int(np.argmin(np.median(distances, axis=1)))
    near = distances[:, middle] <= NEAR**2 * square
    return middle if 2 * np.count_nonzero(near) > len(rows) else None


def _about(rows: Sequence[Vector], middle: Vector) -> NDArray[np.float64]:
    """The Gram matrix with every part of a row that is near to the middle's, for its length, taken less that.

    With x_i = c_i + z_i m in a block, z_i 0 or 1, a_i = <c_i, m>: <x_i, x_j> = <c_i, c_j> + z_j a_i + z_i a_j + z_i z_j |m|^2.
    In a distance between two rows with z = 1 all but the first term cancels, whatever its error. Where z_i = 1, |c_i| is at most
    NEAR |x_i|, so that the terms are together within `rounding` of |x_i| |x_j|; other rows are multiplied as they are.
    """
    total = np.zeros((len(rows), len(rows)))
    starts = range(0, len(middle), BLOCK)
    a, z = np.zeros((len(rows), len(starts))), np.zeros((len(rows), len(starts)))
    for k, start in enumerate(starts):
        m = middle[start : start + BLOCK]
        less = np.stack([v[start : start + BLOCK] for v in rows])
        square = np.einsum("ij,ij->i", less, less)
        with np.errstate(over="ignore"):
            less -= m
            near = np.einsum("ij,ij->i", less, less) <= np.float32(NEAR**2) * square
        for i in map(int, np.flatnonzero(~near)):
            less[i] = rows[i][start : start + BLOCK]
        total += less @ less.T
        a[:, k], z[:, k] = less @ m, near
    wide = np.array([np.square(middle[s : s + BLOCK], dtype=np.float64).sum() for s in starts])
    whole: NDArray[np.float64] = total + a @ z.T + z @ a.T + (z * wide) @ z.T
    return whole


def cosine_block(rows: Sequence[Vector], columns: Sequence[Vector]) -> NDArray[np.float64]:
    """Cosine of every row to every column: float64 in [-1, 1], 0 where a norm is 0."""
    inner = inner_products(rows, columns)
    scale = np.sqrt(np.outer([_square(v) for v in rows], [_square(v) for v in columns]))
    cosines: NDArray[np.float64] = np.clip(np.divide(inner, scale, out=np.zeros_like(inner), where=scale > 0), -1.0, 1.0)
    return cosines


def _square(vector: Vector) -> float:
    return float(inner_products([vector], [vector])[0, 0])
