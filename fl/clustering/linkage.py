"""Agglomerative clustering of clients by the distances of all pairs: merge the two nearest clusters until they are far apart."""

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from .kmeans import Labels, numbered

Linkage = Literal["single", "complete", "average", "weighted"]
"""What the distance of two clusters is: of the nearest two, of the farthest, the mean of all pairs, or, weighted, the plain mean
of what either of two merged clusters had (WPGMA)."""


def cut(distances: NDArray[np.float64], by: Linkage, *, at: float | None = None, count: int | None = None) -> Labels:
    """Labels of the clusters that are left when no two are within `at`, or when `count` are left, int64 (m,), numbered.

    distances: float64 (m, m), symmetric, of 0 or more. Raises ValueError for NaN, and unless one of at and count is given.
    """
    from scipy.cluster.hierarchy import cut_tree, fcluster, linkage  # here, as most runs do without
    from scipy.spatial.distance import squareform

    if (at is None) == (count is None):
        raise ValueError("a tree is cut at a distance or into a number of clusters")
    if not np.isfinite(distances).all():
        raise ValueError("distances that are not finite")
    if len(distances) == 1:
        return np.zeros(1, np.int64)
    near = np.maximum((distances + distances.T) / 2, 0.0)
    np.fill_diagonal(near, 0.0)
    tree = linkage(squareform(near, checks=False), method=by)
    return numbered(fcluster(tree, at, "distance") if at is not None else cut_tree(tree, n_clusters=count).ravel())


def euclidean(gram: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distances |x_i - x_j| from inner products, about whatever point: float64 (m, m)."""
    square = np.diagonal(gram)
    found: NDArray[np.float64] = np.sqrt(np.maximum(square[:, None] + square[None, :] - gram - gram.T, 0.0))
    return found


def check_linkage(linkage: str) -> None:
    """Raise ValueError for a kind of linkage that there is not."""
    if linkage not in get_args(Linkage):
        raise ValueError(f"linkage is {' or '.join(map(repr, get_args(Linkage)))}, not {linkage!r}")
