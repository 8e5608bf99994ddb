"""SignGuard: a filter on norms, a clustering of sign statistics, and clipping to the median norm."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .averages import clip_factors
from .rows import Rows, row_squares
from .rule import Matrix, Sight, check_count, check_types, uniform_on


@dataclass(frozen=True, slots=True)
class SignGuard:
    """Updates with a norm in [L, R] times the median and in the largest MeanShift cluster of sign shares (Xu et al. 2022).

    The shares of positive, zero and negative values are counted on a random run of a share `part` of the coordinates. The
    updates that pass both filters are clipped to the median norm and averaged.
    """

    L: float = 0.1
    R: float = 3.0
    part: float = 0.1
    sees: ClassVar[Sight] = Sight.UPDATES

    def __post_init__(self) -> None:
        check_types(self)
        if not 0 <= self.L < self.R:
            raise ValueError(f"L and R bound norms from below and above, not {self.L} and {self.R}")
        if not 0 < self.part <= 1:
            raise ValueError(f"part is a share above 0 and at most 1, not {self.part}")

    def weigh(self, rows: Rows, rng: np.random.Generator, /) -> Matrix:
        n, d = len(rows), rows.length
        check_count(self, n, 1)
        norm = np.sqrt(row_squares(rows))
        median = float(np.median(norm))
        ordinary = (norm >= self.L * median) & (norm <= self.R * median)

        size = max(1, round(self.part * d))
        offset = int(rng.integers(0, d - size + 1))
        shares = np.zeros((n, 3))
        for start, stop in rows.blocks():
            block = rows.block(start, stop)[:, max(0, offset - start) : max(0, offset + size - start)]
            shares += np.stack([(block > 0).sum(axis=1), (block == 0).sum(axis=1), (block < 0).sum(axis=1)], axis=1) / size
        from sklearn.cluster import MeanShift, estimate_bandwidth  # here, as most runs do without

        bandwidth = float(estimate_bandwidth(shares, quantile=0.5)) if n > 1 else 0.0
        label = MeanShift(bandwidth=bandwidth).fit(shares).labels_ if bandwidth > 0 else np.zeros(n, dtype=int)
        sizes = np.bincount(label)
        largest = label == min(np.flatnonzero(sizes == sizes.max()), key=lambda c: int(np.argmax(label == c)))
        return uniform_on(np.flatnonzero(ordinary & largest), n) * clip_factors(norm, median)
