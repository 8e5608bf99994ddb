"""FreqFed: updates are compared by their low frequencies, where a trained model has most of its energy."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..clustering.separation import cosine_similarity
from .rows import Rows
from .rule import Matrix, Sight, check_count, check_types, uniform_on


@dataclass(frozen=True, slots=True)
class FreqFed:
    """The mean of the largest cluster of updates, by HDBSCAN on the cosine distances of their low frequencies (Fereidooni et al.
    2024). Of clusters of one size, the one with the lowest position; without a cluster it trusts nobody.

    share: of the frequencies, the lowest, that are compared. A rule sees no layers: the update is one signal, its transform an
    orthonormal DCT-II, where the paper transforms the matrix of every layer. HDBSCAN's parameters (clusters of two or more, one
    cluster allowed) are ours. It holds a second copy of the updates.
    """

    share: float = 0.5
    sees: ClassVar[Sight] = Sight.UPDATES

    def __post_init__(self) -> None:
        check_types(self)
        if not 0 < self.share <= 1:
            raise ValueError(f"share is above 0 and at most 1, not {self.share}")

    def weigh(self, rows: Rows, rng: np.random.Generator, /) -> Matrix:
        from scipy.fft import dct  # here, as most runs do without
        from sklearn.cluster import HDBSCAN

        n = len(rows)
        check_count(self, n, 3)
        low = dct(rows.block(0, rows.length), norm="ortho", axis=1)[:, : max(1, round(self.share * rows.length))]
        distance = np.clip(1 - cosine_similarity(np.asarray(low @ low.T, dtype=np.float64)), 0.0, 2.0)
        clusters = HDBSCAN(metric="precomputed", min_cluster_size=2, min_samples=1, allow_single_cluster=True, copy=True)
        label = clusters.fit(distance).labels_
        found = [np.flatnonzero(label == c) for c in range(int(label.max()) + 1)]
        return uniform_on(min(found, key=lambda of: (-len(of), of[0])) if found else [], n)
