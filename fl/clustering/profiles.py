"""Clusters of clients by profiles of their gradients, from inner products (CFL-GP: Kim, Kim, de Veciana, ICML 2024)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .kmeans import Labels, Values, coordinates, kmeans

LEAST_DIMENSION = 3
"""Of the leading subspace, where the number of clusters is looked for."""


def clustered(gram: Values, count: int, rng: np.random.Generator) -> Labels:
    """k-means of U_K^T Gp, the profiles in the subspace of their leading singular vectors, int64 (m,). gram: Gp^T Gp."""
    return kmeans(coordinates(gram, count), count, rng)


def number_of_clusters(gram: Values, most: int, rng: np.random.Generator) -> int:
    """Of 2 to `most` clusters the number with the best silhouette, in the subspace before the largest gap of singular values."""
    if len(gram) < 3:
        return len(gram)
    points = coordinates(gram)
    singular = np.linalg.norm(points, axis=0)
    dimension = max(LEAST_DIMENSION, int(np.argmax(singular[:-1] - singular[1:])) + 1)
    tried = range(2, min(most, len(gram) - 1) + 1)
    scores = [silhouette(points[:, :dimension], kmeans(points[:, :dimension], count, rng)) for count in tried]
    return tried[int(np.argmax(scores))]


def silhouette(points: Values, labels: Labels) -> float:
    """The mean of (b - a) / max(a, b), a the mean distance to the others of one's cluster, b the least to those of another
    (Rousseeuw 1987). 0 for a client that is alone in its cluster; -1 if all are in one.
    """
    return silhouette_of(np.sqrt(np.square(points[:, None, :] - points[None, :, :]).sum(axis=2)), labels)


def silhouette_of(apart: Values, labels: Labels) -> float:
    """`silhouette` by distances, shape (n, n), of 0 on the diagonal."""
    names = np.unique(labels)
    if len(names) < 2:
        return -1.0
    sizes = np.array([(labels == k).sum() for k in names])
    total = np.stack([apart[:, labels == k].sum(axis=1) for k in names], axis=1)
    own = labels[:, None] == names[None, :]
    inside = total[own] / np.maximum(sizes[np.argmax(own, axis=1)] - 1, 1)
    outside = np.where(own, np.inf, total / sizes).min(axis=1)
    larger = np.maximum(inside, outside)
    found = np.divide(outside - inside, larger, out=np.zeros(len(labels)), where=larger > 0)
    return float(np.where(sizes[np.argmax(own, axis=1)] > 1, found, 0.0).mean())


def matched(labels: Labels, before: Sequence[int] | NDArray[np.int64], count: int) -> Labels:
    """The same groups with the numbers, of 0 to count - 1, under which most clients keep theirs (a Hungarian matching)."""
    from scipy.optimize import linear_sum_assignment  # here, as most runs do without

    agree = np.zeros((count, count))
    for new, old in zip(labels, before, strict=True):
        agree[new, old] += 1
    rows, columns = linear_sum_assignment(agree, maximize=True)
    found: Labels = np.asarray(columns, np.int64)[np.argsort(rows)][labels]
    return found
