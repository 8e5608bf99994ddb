"""Cutting a cluster in two so that the most similar pair across the cut is as dissimilar as possible.

Sattler, Mueller, Samek 2020, "Clustered Federated Learning", Eq. 25 and Algorithm 1. That algorithm merges pairs from the
most similar one downwards until two components are left: Kruskal's maximum spanning tree without its last edge, which is
single linkage cut at two clusters. `optimal_bipartition` builds the same tree with Prim's rule in O(m^2) instead of the
paper's O(m^3). `complete_linkage_bipartition` is what the authors published as code; it minimises something else.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SYMMETRY_TOLERANCE = 1e-6
"""Largest |alpha_ij - alpha_ji| taken for rounding; such a matrix is replaced by the mean of itself and its transpose."""


@dataclass(frozen=True, slots=True)
class Bipartition:
    """Two non-empty sides of a cluster, as client ids.

    left, right: ids in ascending order; left holds the smallest id of all.
    cross: similarity of the most similar pair with one end on each side (alpha_cross^max, Eq. 18).
    """

    left: tuple[int, ...]
    right: tuple[int, ...]
    cross: float


def optimal_bipartition(similarity: NDArray[np.floating], clients: Sequence[int]) -> Bipartition:
    """The bipartition whose maximum cross similarity is least (Eq. 25), exactly as Algorithm 1 finds it.

    similarity: float, shape (m, m), symmetric and finite; row r belongs to clients[r]; the diagonal is not read.
    clients: m distinct ids in any order; m >= 2.

    Pairs are ranked by (similarity descending, smaller id, larger id). This order is total, so the answer depends on the ids
    alone, not on the order in which they are listed. Two clients give two singletons. O(m^2) time and memory.
    Raises ValueError for fewer than two clients, repeated ids, a wrong shape, NaN or infinity, and asymmetry.

    >>> alpha = np.array([[1.0, 0.9, -0.8], [0.9, 1.0, -0.7], [-0.8, -0.7, 1.0]])
    >>> optimal_bipartition(alpha, [4, 7, 9])
    Bipartition(left=(4, 7), right=(9,), cross=-0.7)
    """
    alpha, ids = _ordered_by_id(similarity, clients)
    lower, upper = _maximum_spanning_tree(alpha)
    weights = alpha[lower, upper]
    last = np.lexsort((upper, lower, -weights))[-1]  # the pair that Algorithm 1 would have merged next
    side = _side_of_cut(lower, upper, int(last))
    return _named(ids, side, float(weights[last]))


def complete_linkage_bipartition(similarity: NDArray[np.floating], clients: Sequence[int]) -> Bipartition:
    """The two clusters of complete linkage on 1 - similarity, which is what the authors' published code computes.

    Takes and refuses the same arguments as `optimal_bipartition`. `cross` is the maximum over the pairs across this cut, so
    it is never below that of the optimal bipartition. Ties follow scipy, with clients in the order of their ids.
    """
    from scipy.cluster.hierarchy import linkage, to_tree  # here, as most runs do without
    from scipy.spatial.distance import squareform

    alpha, ids = _ordered_by_id(similarity, clients)
    distance = alpha.max() - alpha
    np.fill_diagonal(distance, 0.0)
    root = to_tree(linkage(squareform(distance, checks=False), method="complete"))
    side = np.zeros(len(ids), dtype=bool)
    side[root.left.pre_order()] = True
    return _named(ids, side, float(alpha[np.ix_(side, ~side)].max()))


def _ordered_by_id(similarity: NDArray[np.floating], clients: Sequence[int]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The checked matrix in float64 and the ids, both in ascending order of ids."""
    ids = np.asarray(clients, dtype=np.int64)
    alpha = np.asarray(similarity, dtype=np.float64)
    if len(ids) < 2:
        raise ValueError(f"a bipartition needs at least two clients, got {len(ids)}")
    if alpha.shape != (len(ids), len(ids)):
        raise ValueError(f"similarity must have shape ({len(ids)}, {len(ids)}), one row per client, got {alpha.shape}")
    order = np.argsort(ids)
    ids = ids[order]
    if np.any(ids[1:] == ids[:-1]):
        raise ValueError("client ids repeat; list every client once")
    if not np.isfinite(alpha).all():
        raise ValueError("similarity holds NaN or infinity; leave out the clients whose updates are not finite")
    if not np.array_equal(alpha, alpha.T):
        worst = float(np.abs(alpha - alpha.T).max())
        if worst > SYMMETRY_TOLERANCE:
            raise ValueError(f"similarity is not symmetric (largest difference {worst:.3g})")
        alpha = (alpha + alpha.T) / 2
    if np.any(order[1:] < order[:-1]):
        alpha = alpha[np.ix_(order, order)]
    return alpha, ids


def _maximum_spanning_tree(alpha: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ends (smaller, larger) of the m - 1 tree edges, in the order in which Prim's rule adds their new vertex.

    The total order on pairs makes the tree unique, hence the one of Algorithm 1, ties included.
    """
    m = len(alpha)
    # Four columns describe the vertices outside of the tree: the vertex and its best edge into the tree.
    outside = np.arange(1, m)
    weight = alpha[0, 1:].copy()
    lower = np.zeros(m - 1, dtype=np.int64)
    upper = outside.copy()
    tree_lower = np.empty(m - 1, dtype=np.int64)
    tree_upper = np.empty(m - 1, dtype=np.int64)
    for step in range(m - 1):
        best = np.flatnonzero(weight == weight.max())
        pick = best[0] if len(best) == 1 else best[np.argmin(lower[best] * m + upper[best])]
        vertex = outside[pick]
        tree_lower[step], tree_upper[step] = lower[pick], upper[pick]
        for column in (outside, weight, lower, upper):
            column[pick] = column[-1]
        outside, weight, lower, upper = outside[:-1], weight[:-1], lower[:-1], upper[:-1]

        offered = alpha[vertex, outside]
        new_lower, new_upper = np.minimum(vertex, outside), np.maximum(vertex, outside)
        earlier = new_lower * m + new_upper < lower * m + upper
        better = (offered > weight) | ((offered == weight) & earlier)
        np.copyto(weight, offered, where=better)
        np.copyto(lower, new_lower, where=better)
        np.copyto(upper, new_upper, where=better)
    return tree_lower, tree_upper


def _side_of_cut(lower: NDArray[np.int64], upper: NDArray[np.int64], cut: int) -> NDArray[np.bool_]:
    """True for the vertices that stay connected with vertex 0 when tree edge `cut` is deleted; edges in Prim's order."""
    side = np.zeros(len(lower) + 1, dtype=bool)
    reached = np.zeros(len(lower) + 1, dtype=bool)
    side[0] = reached[0] = True
    for edge, (i, j) in enumerate(zip(lower, upper, strict=True)):
        known, new = (i, j) if reached[i] else (j, i)
        side[new] = side[known] and edge != cut
        reached[new] = True
    # Only the subtree behind the cut is False: every vertex inherits the side of the vertex that it was attached to.
    return side


def _named(ids: NDArray[np.int64], side: NDArray[np.bool_], cross: float) -> Bipartition:
    """The bipartition with ids for positions; ids ascend, so side[0] tells which part is the left one."""
    left = side == side[0]
    return Bipartition(tuple(ids[left].tolist()), tuple(ids[~left].tolist()), cross)
