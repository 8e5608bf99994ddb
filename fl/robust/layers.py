"""LASA: every layer by itself, by its norm and its signs, after the smallest values have been put aside."""

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import nn

from ..models.vector import trainable
from .averages import clip_factors
from .rule import Block, Matrix, Sight, check_count, check_positive, check_types


def sizes_of(module: nn.Module) -> tuple[int, ...]:
    """How many numbers each tensor of a model has, in the order of an update."""
    return tuple(parameter.numel() for parameter in trainable(module).values())


@dataclass(frozen=True, slots=True)
class LASA:
    """Layer-adaptive sparsified aggregation (Xu et al. 2025): of every layer the mean of those updates that look benign in it.

    Updates are clipped to the median norm, and of each the share `sparsity` of its smallest values becomes 0. In a layer an
    update's norm, and its direction purity (1 + (p - q) / (p + q)) / 2 with p positive and q negative values, are held against
    the medians of all, in standard deviations: below `norms` and below `signs` it is benign. Where nobody is, all are.

    layers: how many numbers each has, in the order of an update; `sizes_of(module)` tells, a tensor for a layer as in the code of
    the authors (github.com/JiiahaoXU/LASA), whose defaults these are. Not as there: biases are among the values that may become
    0, since a rule sees no shapes; and where all have one norm, or one purity, that says nothing, and the other decides.
    """

    layers: tuple[int, ...]
    sparsity: float = 0.3
    norms: float = 2.0
    signs: float = 1.0
    sees: ClassVar[Sight] = Sight.UPDATES

    def __post_init__(self) -> None:
        check_types(self)
        if not self.layers or any(size < 1 for size in self.layers):
            raise ValueError(f"layers are numbers of at least 1, one for each, not {self.layers}; sizes_of(module) tells them")
        if not 0 <= self.sparsity < 1:
            raise ValueError(f"sparsity is a share from 0 to below 1, not {self.sparsity}")
        check_positive(self, "norms")
        check_positive(self, "signs")

    def combine_all(self, updates: Block, /) -> Block:
        """The result, float32 (d,), of updates float32 (n, d). Raises ValueError where the layers are of another model."""
        n, d = updates.shape
        check_count(self, n, 1)
        if sum(self.layers) != d:
            raise ValueError(f"the layers of LASA have {sum(self.layers)} numbers together, and an update has {d}")
        lengths = np.sqrt(np.einsum("ij,ij->i", updates, updates, dtype=np.float64))
        factors = clip_factors(lengths, float(np.median(lengths)))
        rows = updates * factors[:, None].astype(np.float32)
        for row in rows:
            row[np.abs(row) <= _threshold(row, self.sparsity)] = 0.0
        result = np.empty(d, dtype=np.float32)
        for start, stop in pairwise(accumulate(self.layers, initial=0)):
            layer = rows[:, start:stop]
            result[start:stop] = layer[self.benign(layer)].mean(axis=0, dtype=np.float64)
        return result

    def benign(self, layer: Block) -> NDArray[np.bool_]:
        """Who looks benign in a layer, float32 (n, size), that is sparse already: bool (n,), never nobody."""
        positive, negative = (layer > 0).sum(axis=1), (layer < 0).sum(axis=1)
        signed = positive + negative
        purity = 0.5 * (1 + np.divide(positive - negative, signed, out=np.zeros(len(layer)), where=signed > 0))
        norm = np.sqrt(np.einsum("ij,ij->i", layer, layer, dtype=np.float64))
        found = (_deviations(norm) < self.norms) & (_deviations(purity) < self.signs)
        return found if found.any() else np.ones(len(layer), dtype=bool)


def _threshold(row: NDArray[np.float32], sparsity: float) -> float:
    """The largest of the absolute values that are put aside; below all of them where none is."""
    count = int(sparsity * len(row))
    return float(np.partition(np.abs(row), count - 1)[count - 1]) if count else -1.0


def _deviations(values: Matrix) -> Matrix:
    """How far each is from the median, in standard deviations; 0 where all are the same."""
    spread = float(values.std())
    found: Matrix = np.abs(values - np.median(values)) / spread if spread > 0 else np.zeros(len(values))
    return found
