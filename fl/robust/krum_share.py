"""Nearest-neighbour mixing and Multi-Krum for a share of whoever is there, where rules for a number of updates do not fit."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .krum import MultiKrum
from .mixing import NNM, Mixed
from .rule import Matrix, Sight, check_count, check_types


@dataclass(frozen=True, slots=True)
class KrumOfShare:
    """`Mixed((NNM(f),), MultiKrum(f))` with f = share x n of n updates, rounded down; of three and fewer, or f = 0, their mean.

    For groups whose sizes are not known beforehand: as the inner rule of `HardenedFLIC` it keeps backdoors of up to a quarter of
    the clients out of a community's model where data are alike. On skewed data it takes unusual honest updates for faulty ones,
    costs up to five points of accuracy, and lets through what looks like somebody's own data (robustness_search.md).
    """

    share: float = 0.25
    sees: ClassVar[Sight] = Sight.GRAM
    shift_invariant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_types(self)
        if not 0 <= self.share < 0.5:
            raise ValueError(f"share is of the updates, at least 0 and below 0.5, not {self.share}: Krum stands no half")

    def weights(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        n = len(gram)
        check_count(self, n, 1)
        f = min(int(self.share * n + 1e-9), max(0, (n - 3) // 2))
        return Mixed((NNM(f),), MultiKrum(f)).weights(gram, rng) if f else np.full(n, 1 / n)
