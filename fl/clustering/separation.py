"""When cosine similarities of updates tell clusters apart: the Separation Theorem and its quantities.

Sattler, Mueller, Samek 2020, "Clustered Federated Learning", section II and appendix A; equation numbers are theirs. All that
the server needs follows from the Gram matrix G_ij = <delta_i, delta_j>: cosines, norms, and norms of weighted means. All
arrays are numpy float64. Positions stand for clients here; only `correct` speaks of ids.

Two remarks on the paper.
- Lemma 4 holds, but its proof leans on Eq. 96 (projecting to a plane shrinks no angle), which is not true in general. A proof
  without it: if every cut had a cross angle below pi/(k - 1), a spanning tree of the k directions would be shorter than pi;
  walked there and back it is a closed curve shorter than 2 pi on the sphere. Such a curve lies in an open half-space, so no
  positive combination of the directions is zero.
- Remark 2 says "if and only if". A positive gap makes the bipartition correct (Corollary 1), the converse fails: a correct cut
  may have a negative gap, because single linkage follows chains and because the gap takes the loosest of all k groups.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .bipartition import Bipartition, optimal_bipartition


def norms(gram: NDArray[np.floating]) -> NDArray[np.float64]:
    """Norms of the updates, shape (m,), from their Gram matrix, shape (m, m). A diagonal that noise made negative counts as 0."""
    return np.sqrt(np.maximum(np.diagonal(_square(gram)), 0.0))


def cosine_similarity(gram: NDArray[np.floating]) -> NDArray[np.float64]:
    """Cosines alpha_ij = G_ij / (|delta_i| |delta_j|) (Eq. 13), shape (m, m), in [-1, 1], exactly symmetric, diagonal 1.

    gram: float, shape (m, m), symmetric up to rounding. An update of norm 0 has no direction: its similarity is 0 to all
    others and 1 to itself. Raises ValueError for a shape that is not square, NaN or infinity.
    """
    product = _square(gram)
    square = np.maximum(np.diagonal(product), 0.0)
    scale = np.sqrt(np.outer(square, square))  # and not the product of two roots: equal updates then have cosine 1 exactly
    cosine: NDArray[np.float64] = np.divide((product + product.T) / 2, scale, out=np.zeros_like(product), where=scale > 0)
    np.clip(cosine, -1.0, 1.0, out=cosine)
    np.fill_diagonal(cosine, 1.0)
    return cosine


def norm_of_combination(gram: NDArray[np.floating], weights: ArrayLike) -> float:
    """|sum_i a_i delta_i| = sqrt(a^T G a); the left side of Eq. 32 for a_i = |D_i| / |D_c|. Rounding below 0 gives 0."""
    product, a = _square(gram), np.asarray(weights, dtype=np.float64)
    if a.shape != (len(product),):
        raise ValueError(f"weights must have shape ({len(product)},), one per client, got {a.shape}")
    return float(np.sqrt(max(0.0, float(a @ product @ a))))


def gamma(true_gradient: ArrayLike, gradient: ArrayLike) -> float:
    """Relative approximation noise |grad R - grad r| / |grad R| of one client (Eq. 16). Raises ValueError if grad R = 0."""
    risk, empirical = np.asarray(true_gradient, dtype=np.float64), np.asarray(gradient, dtype=np.float64)
    if risk.shape != empirical.shape:
        raise ValueError(f"the gradients have different shapes, {risk.shape} and {empirical.shape}")
    size = float(np.linalg.norm(risk))
    if size == 0:
        raise ValueError("gamma needs a true gradient that is not zero; at a common minimum there is nothing to separate")
    return float(np.linalg.norm(risk - empirical)) / size


def H(gamma_i: ArrayLike, gamma_j: ArrayLike) -> NDArray[np.float64]:
    """H_ij = -gamma_i gamma_j + sqrt(1 - gamma_i^2) sqrt(1 - gamma_j^2) = cos(asin gamma_i + asin gamma_j) (Eq. 20).

    Broadcasts. Noise must lie in [0, 1): the theorem assumes Eq. 15, and for gamma >= 1 a client may point anywhere.
    """
    a, b = _noise(gamma_i), _noise(gamma_j)
    return np.asarray(-a * b + np.sqrt(1 - a**2) * np.sqrt(1 - b**2))


def intra_bound(gammas: ArrayLike, groups: Sequence[int]) -> float:
    """Least similarity that Theorem 1 allows for two clients of the same group: min H_ij over such pairs (Eq. 21).

    gammas: noise of every client, shape (m,); groups: the group of every client. 1 when no group has two members, as
    alpha_ii = 1 then is all that the minimum runs over.
    """
    noise, same = _noise(gammas), _same_group(groups)
    if noise.shape != (len(groups),):
        raise ValueError(f"gammas must have shape ({len(groups)},), one per client, got {noise.shape}")
    return float(np.where(same, H(noise[:, None], noise[None, :]), 1.0).min())


def cross_bound(h: float, k: int) -> float:
    """Most similarity that Theorem 1 allows across the best cut of k groups, for a pair with H_ij = h (Eq. 19).

    cos(pi/(k-1) - acos h) where h >= cos(pi/(k-1)), else 1. Two groups: exactly -h (Remark 1, Eq. 22). It falls as h grows,
    so the least h of all pairs gives the bound for a whole population.
    """
    if k < 2:
        raise ValueError(f"a cut needs at least two groups, got k = {k}")
    if not -1 <= h <= 1:
        raise ValueError(f"h must lie in [-1, 1], got {h}")
    if k == 2:
        return -h  # cos(pi) = -1 and sin(pi) = 0 without their rounding
    angle = np.pi / (k - 1)
    if h < np.cos(angle):
        return 1.0
    return float(min(1.0, np.cos(angle) * h + np.sin(angle) * np.sqrt(1 - h**2)))


def gamma_limit(k: int) -> float:
    """Noise below which Theorem 1 and Corollary 1 guarantee a correct cut of k groups: sin(pi / (4 (k - 1))).

    With equal noise asin(gamma) = t, Eq. 21 is cos 2t and Eq. 19 is cos(pi/(k-1) - 2t); the first is larger iff 4t < pi/(k-1).
    """
    if k < 2:
        raise ValueError(f"a cut needs at least two groups, got k = {k}")
    return float(np.sin(np.pi / (4 * (k - 1))))


def accepts(cross: float, gamma_max: float) -> bool:
    """Whether a cut with cross similarity alpha_cross^max is certainly correct for noise up to gamma_max (Eq. 39).

    gamma_max < sqrt((1 - cross) / 2), strictly: for any k. Identical updates (cross = 1) are never cut, not even at 0.
    """
    if np.isnan(cross) or not gamma_max >= 0:
        raise ValueError(f"cross must be a number and gamma_max at least 0, got {cross} and {gamma_max}")
    return bool(gamma_max < np.sqrt(max(0.0, 1 - cross) / 2))


def separation_gap(similarity: NDArray[np.floating], groups: Sequence[int]) -> float:
    """g(alpha) = alpha_intra^min - alpha_cross^max (Definition 2, Eq. 28), the latter over the optimal bipartition.

    similarity: shape (m, m); groups: the planted group of every row. Positive implies that the bipartition is correct.
    """
    cross = optimal_bipartition(similarity, range(len(groups))).cross
    intra = np.where(_same_group(groups), similarity, 1.0).min()
    return float(intra) - cross


def correct(bipartition: Bipartition, groups: Mapping[int, int]) -> bool:
    """Whether no group has members on both sides (Definition 1). groups: planted group of every client id."""
    return {groups[i] for i in bipartition.left}.isdisjoint({groups[j] for j in bipartition.right})


def _square(gram: NDArray[np.floating]) -> NDArray[np.float64]:
    product = np.asarray(gram, dtype=np.float64)
    if product.ndim != 2 or product.shape[0] != product.shape[1]:
        raise ValueError(f"a Gram matrix must be square, got shape {product.shape}")
    if not np.isfinite(product).all():
        raise ValueError("the Gram matrix holds NaN or infinity; leave out the clients whose updates are not finite")
    return product


def _noise(value: ArrayLike) -> NDArray[np.float64]:
    noise = np.asarray(value, dtype=np.float64)
    if not bool(((noise >= 0) & (noise < 1)).all()):
        raise ValueError("gamma must lie in [0, 1); Theorem 1 says nothing about noisier gradients")
    return noise


def _same_group(groups: Sequence[int]) -> NDArray[np.bool_]:
    """True for pairs of different positions with the same group, shape (m, m)."""
    label = np.asarray(groups)
    return np.asarray((label[:, None] == label[None, :]) & ~np.eye(len(label), dtype=bool))
