"""Whether a record is in a projected cloud: by its distances to records that are known to be, and by the cloud's column space.

Arrays are float (rows, coordinates), one embedding a row, of d coordinates; what is released has p.
"""

import numpy as np

from .projection_known import Labels, Matrix, Rows

TINY = 1e-9
"""Added to distances before their logarithm is taken."""


def by_distances(released: Rows, places: Labels, insiders: Rows, candidates: Rows) -> Matrix:
    """A score for each candidate, float64 (candidates,), larger for members.

    Adversary: the server alone, of which k of the client's records are known: their rows in the cloud, int64 (k,), and their
    embeddings, (k, d). A projection keeps distances about, so a member's distances to the insiders, and its norm, are those of
    some row, with a relative error of each of about sqrt(1 / (2 p)) or less; the score is minus the least mean square of
    differences of their logarithms.
    """
    y, z = _with_origin(released[places]), _with_origin(insiders)
    rest = np.setdiff1d(np.arange(len(released)), places)
    seen = np.log(_distances(released[rest].astype(np.float64), y) + TINY)
    wanted = np.log(_distances(candidates.astype(np.float64), z) + TINY)
    apart = (wanted[:, None, :] - seen[None, :, :]) ** 2
    return np.asarray(-apart.mean(axis=2).min(axis=1))


def off_span(released: Rows, embeddings: Rows) -> float:
    """The share of the released cloud, by norm, that lies off the column space of these embeddings.

    Adversary: of differential privacy, who knows a record set to the last record and asks whether it is the one; anybody who is
    shown the released cloud. Y = Z R has columns in the space of those of Z, whatever R is: with more rows than coordinates the
    share is 0, up to rounding, for the true set, and above for one with another record in a record's place, unless a coordinate
    is lit by that record alone. So a secret projection without noise is (epsilon, delta)-DP for no epsilon.
    Raises ValueError where the embeddings span everything, and nothing can be told.
    """
    y, z = released.astype(np.float64), embeddings.astype(np.float64)
    left, sizes, _ = np.linalg.svd(z, full_matrices=False)
    kept = left[:, sizes > 1e-6 * sizes[0]]
    if kept.shape[1] >= len(z):
        raise ValueError(f"{len(z)} embeddings of rank {kept.shape[1]} span every column; more rows than coordinates are needed")
    return float(np.linalg.norm(y - kept @ (kept.T @ y)) / np.linalg.norm(y))


def _with_origin(rows: Rows) -> Matrix:
    return np.concatenate([rows.astype(np.float64), np.zeros((1, rows.shape[1]))])


def _distances(a: Matrix, b: Matrix) -> Matrix:
    squares = np.sum(a**2, axis=1)[:, None] + np.sum(b**2, axis=1) - 2 * a @ b.T
    return np.asarray(np.sqrt(np.maximum(squares, 0)))
