"""Bases and null spaces, with ranks decided on rows of unit norm."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

EXACT = 1e-8
"""Singular values below this share of the largest are 0, for weights of sums."""
MEASURED = 1e-6
"""The same for vectors that were measured in float32."""


def unit_rows(rows: NDArray[Any]) -> Matrix:
    """The rows that are not 0, each of norm 1: float64. Their scales may be as wild as floats are."""
    found = rows[np.abs(rows).max(axis=1, initial=0.0) > 0].astype(np.float64)
    found /= np.abs(found).max(axis=1, keepdims=True, initial=0.0)
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True))


def row_basis(rows: NDArray[Any], tolerance: float) -> Matrix:
    """Orthonormal rows that span what the rows span, each row taken at unit norm: float64 (rank, length)."""
    scaled = unit_rows(rows)
    if not scaled.size:
        return np.zeros((0, rows.shape[1]))
    _, values, basis = np.linalg.svd(scaled, full_matrices=False)
    return np.asarray(basis[values > tolerance * values[0]])


def null_space(rows: Matrix, tolerance: float = EXACT) -> Matrix:
    """Orthonormal columns z with rows @ z = 0: float64 (length, length - rank). The rows are of norms at most about 1."""
    if not rows.size:
        return np.eye(rows.shape[1])
    square = np.linalg.qr(rows, mode="r") if len(rows) > rows.shape[1] else rows
    _, values, basis = np.linalg.svd(square, full_matrices=True)
    rank = int((values > tolerance).sum())
    return np.asarray(basis[rank:].T)
