"""Whether a record is in a projected cloud: by its distances to records that are known to be, and by the cloud's column space.

Arrays are float (rows, coordinates), one embedding a row, of d coordinates; what is released has p.
"""

import numpy as np

from .projection_known import Labels, Matrix, Rows


def by_distances(released: Rows, places: Labels, insiders: Rows, candidates: Rows) -> Matrix:
    """A score for each candidate, float64 (candidates,), larger for members.

    Adversary: the server alone, of which k of the client's records are known: their rows in the cloud, int64 (k,), and their
    embeddings, (k, d). A projection keeps distances about, so a member's distances to the insiders are those of some row, with a
    relative error of each of about sqrt(1 / (2 p)); the score is minus the least mean square of relative differences.
    """
    y, z = released.astype(np.float64), insiders.astype(np.float64)
    rest = np.setdiff1d(np.arange(len(y)), places)
    seen = _distances(y[rest], y[places])
    wanted = _distances(candidates.astype(np.float64), z)
    typical = np.maximum(np.median(seen, axis=0), 1e-12)
    apart = ((wanted[:, None, :] - seen[None, :, :]) / typical) ** 2
    return np.asarray(-apart.mean(axis=2).min(axis=1))


def off_span(released: Rows, embeddings: Rows) -> float:
    """The share of the released cloud, by norm, that lies off the column space of these embeddings.

    Adversary: of differential privacy, who knows a record set to the last record and asks whether it is the one; anybody who is
    shown the released cloud. Y = Z R has columns in that of Z, whatever R is: with more rows than coordinates the share is 0, up
    to rounding, for the true set, and above for any other. So a secret projection without noise is (epsilon, delta)-DP for no
    epsilon. Raises ValueError where the embeddings span everything, and nothing can be told.
    """
    y, z = released.astype(np.float64), embeddings.astype(np.float64)
    left, sizes, _ = np.linalg.svd(z, full_matrices=False)
    kept = left[:, sizes > 1e-6 * sizes[0]]
    if kept.shape[1] >= len(z):
        raise ValueError(f"{len(z)} embeddings of rank {kept.shape[1]} span every column; more rows than coordinates are needed")
    return float(np.linalg.norm(y - kept @ (kept.T @ y)) / np.linalg.norm(y))


def _distances(a: Matrix, b: Matrix) -> Matrix:
    squares = np.sum(a**2, axis=1)[:, None] + np.sum(b**2, axis=1) - 2 * a @ b.T
    return np.asarray(np.sqrt(np.maximum(squares, 0)))
