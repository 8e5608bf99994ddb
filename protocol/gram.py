"""Gram matrices of many long vectors: float32 products in blocks of coordinates, accumulated in float64."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
BLOCK = 16_384
"""Coordinates multiplied at once; bounds both the extra memory (clients x BLOCK) and the float32 rounding."""


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
    """G[i, j] = <rows_i, rows_j>: float64, symmetric, shape (len(rows), len(rows))."""
    gram = inner_products(rows, rows)
    return (gram + gram.T) / 2


def cosine_block(rows: Sequence[Vector], columns: Sequence[Vector]) -> NDArray[np.float64]:
    """Cosine of every row to every column: float64 in [-1, 1], 0 where a norm is 0."""
    inner = inner_products(rows, columns)
    scale = np.sqrt(np.outer([_square(v) for v in rows], [_square(v) for v in columns]))
    cosines: NDArray[np.float64] = np.clip(np.divide(inner, scale, out=np.zeros_like(inner), where=scale > 0), -1.0, 1.0)
    return cosines


def _square(vector: Vector) -> float:
    return float(inner_products([vector], [vector])[0, 0])
