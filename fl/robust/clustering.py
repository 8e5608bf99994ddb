"""Rules that cluster by cosine and keep the larger group: FLAME, ClippedClustering and clustered federated learning."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ..clustering.bipartition import Bipartition, complete_linkage_bipartition
from ..clustering.separation import accepts, cosine_similarity, norm_of_combination, norms
from ..field_ranges import need_least
from .averages import clip_factors
from .rule import Matrix, Sight, check_count, check_positive, uniform_on


class Cut(Protocol):
    """How a similarity matrix, rows in the order of the ids, is cut in two."""

    def __call__(self, similarity: NDArray[np.float64], clients: Sequence[int], /) -> Bipartition: ...


@dataclass(frozen=True, slots=True)
class FLAME:
    """HDBSCAN on cosine distances admits the one cluster of a majority; its updates are clipped to the median norm of all;
    noise of standard deviation noise * median norm is added (Nguyen et al. 2022, algorithm 1, lines 6 to 17).

    noise: the paper's lambda; 0 adds none. HDBSCAN as everybody sets it (single cluster allowed, min_samples 1) often admits
    little more than half even if nobody lies.
    """

    noise: float = 0.0
    sees: ClassVar[Sight] = Sight.GRAM
    shift_invariant: ClassVar[bool] = False

    def __post_init__(self) -> None:
        need_least(self, 0, "noise")

    def weights(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        n = len(gram)
        check_count(self, n, 3)
        from sklearn.cluster import HDBSCAN  # here, as most runs do without

        density = HDBSCAN(metric="precomputed", min_cluster_size=n // 2 + 1, min_samples=1, allow_single_cluster=True, copy=True)
        label = density.fit(1 - cosine_similarity(gram)).labels_
        admitted = np.flatnonzero(label >= 0)  # a majority is at most one cluster
        norm = norms(gram)
        return uniform_on(admitted, n) * clip_factors(norm, float(np.median(norm)))

    def noise_std(self, gram: Matrix, /) -> float:
        return self.noise * float(np.median(norms(gram)))


@dataclass(frozen=True, slots=True)
class ClippedClustering:
    """Updates are clipped to the median of all norms seen so far, cut in two by average linkage on cosine distance, and the
    larger group is averaged (Li et al. 2023). Of two equal groups, the one with the lowest position.

    history: norms of earlier rounds; `after` gives the rule of the next round.
    """

    history: tuple[float, ...] = ()
    sees: ClassVar[Sight] = Sight.GRAM
    shift_invariant: ClassVar[bool] = False

    def weights(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        from scipy.cluster.hierarchy import fcluster, linkage  # here, as most runs do without
        from scipy.spatial.distance import squareform

        n = len(gram)
        check_count(self, n, 2)
        norm = norms(gram)
        bound = float(np.median([*self.history, *norm]))
        distance = 1 - cosine_similarity(gram)
        np.fill_diagonal(distance, 0.0)
        label = fcluster(linkage(squareform(distance, checks=False), method="average"), 2, criterion="maxclust")
        first = label == label[0]
        larger = first if 2 * first.sum() >= n else ~first
        return uniform_on(np.flatnonzero(larger), n) * clip_factors(norm, bound)

    def after(self, gram: Matrix) -> "ClippedClustering":
        """The rule once this round's norms are history."""
        return replace(self, history=(*self.history, *(float(v) for v in norms(gram))))


@dataclass(frozen=True, slots=True)
class CFLDefence:
    """Recursive bipartition by cosine; the mean of the largest group that is left (Sattler et al. 2020, ICASSP).

    A group is cut while the norm of its mean is below eps1, its longest update above eps2, and the cut is certain for
    approximation noise up to gamma_max. cut: complete linkage, as in the authors' code, or optimal_bipartition.
    """

    eps1: float
    eps2: float
    gamma_max: float = 0.0
    cut: Cut = complete_linkage_bipartition
    sees: ClassVar[Sight] = Sight.GRAM
    shift_invariant: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_positive(self, "eps1")
        if not self.eps2 >= 0 or not 0 <= self.gamma_max < 1:
            raise ValueError(f"eps2 is not negative and gamma_max in [0, 1), not {self.eps2} and {self.gamma_max}")

    def weights(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        n = len(gram)
        check_count(self, n, 1)
        similarity, norm = cosine_similarity(gram), norms(gram)
        groups: list[tuple[int, ...]] = []
        pending: list[tuple[int, ...]] = [tuple(range(n))]
        while pending:
            group = pending.pop()
            parts = self._split(gram, similarity, norm, group)
            if parts is None:
                groups.append(group)
            else:
                pending += [parts.left, parts.right]
        largest = min(groups, key=lambda group: (-len(group), group))
        return uniform_on(list(largest), n)

    def _split(self, gram: Matrix, similarity: Matrix, norm: Matrix, group: tuple[int, ...]) -> Bipartition | None:
        if len(group) < 2 or norm_of_combination(gram, uniform_on(list(group), len(gram))) >= self.eps1:
            return None
        if norm[list(group)].max() <= self.eps2:
            return None
        found = self.cut(similarity[np.ix_(group, group)], group)
        return found if accepts(found.cross, self.gamma_max) else None
