"""Public projections over the ring of integers modulo 2^64: exact and linear, so that additive shares are projected one by one.

Twice over, a keyed permutation deals the coordinates of x, padded with zeros, into m = width / 2 blocks of fold = ceil(d / m),
and each block is added up under random signs: y_j = sum over i in block j of s_i x_i modulo 2^64. Projecting is two gathers and
two sums per vector. (Sparse projections: Charikar, Chen, Farach-Colton 2002; Kane, Nelson 2014, whose blocks are as here.)

Formal guarantee, for integer x and x' fixed before the key is drawn, keystream taken as uniform:
- |y|^2 <= 2 fold |x|^2, always (Cauchy and Schwarz, block by block), so inner products of projections of vectors of norm at
  most r stay within 2 fold r^2: no wrap-around while that is below 2^63.
- E <y, y'> / 2 = <x, x'>: under the signs only the terms i = i' survive.
- Var <y, y'> / 2 <= (|x|^2 |x'|^2 + <x, x'>^2) / width <= (2 / width) |x|^2 |x'|^2. For one of the two: given the blocks, the
  variance is the sum over pairs i < i' in one block of (x_i x'_i' + x_i' x'_i)^2, and the mean does not depend on the blocks;
  two coordinates share a block with probability (fold - 1) / (fold m - 1) < 1 / m; over all pairs the squares add up to
  |x|^2 |x'|^2 + <x, x'>^2 - 2 sum_i x_i^2 x'_i^2. The mean of two independent ones has half the variance.
So the standard deviation of an inner product is at most sqrt(2 / width) of the product of the norms, for every pair of vectors.
It is a second moment: where no few coordinates dominate, the error is close to a Gaussian; where two coordinates carry a
vector, they cancel with chance 1 / (2 m) in one of the two, and in both with 1 / (2 m)^2.
"""

import math
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from .prg import derive_key, random_permutation, random_signs

Words = NDArray[np.uint64]

REPEATS = 2
"""Permutations in a projection; inner products of projections are this many times those of the vectors, on average."""
_STRIP = 65_536


@dataclass(frozen=True, slots=True, eq=False)
class RingProjection:
    """A drawn projection. order: int64, shape (2, fold, width / 2), the coordinate at each place, 0 at a place of padding.

    signs: uint64, of the same shape: 1, 2^64 - 1, or 0 at a place of padding. Block j of each half is its column j.
    """

    length: int
    order: NDArray[np.int64] = field(repr=False)
    signs: Words = field(repr=False)

    @classmethod
    def draw(cls, key: bytes, length: int, width: int) -> Self:
        """The projection of a 32-byte key. Raises ValueError unless width is even and within 2 and length."""
        if width % REPEATS or not REPEATS <= width <= length:
            raise ValueError(f"{length} coordinates are projected to an even number within 2 and {length}, not {width}")
        places = fold_of(length, width) * (width // REPEATS)
        drawn = [_draw(derive_key(key, "ring projection", bytes([repeat])), length, places) for repeat in range(REPEATS)]
        shape = (REPEATS, -1, width // REPEATS)
        return cls(length, np.stack([o for o, _ in drawn]).reshape(shape), np.stack([s for _, s in drawn]).reshape(shape))

    def apply(self, values: Words) -> Words:
        """uint64, shape (width,), of a vector or of a share of one: uint64, shape (length,). Extra memory: one strip."""
        if values.dtype != np.uint64 or values.shape != (self.length,):
            raise ValueError(f"a vector of {self.length} uint64 is projected, not {values.shape} of {values.dtype}")
        _, fold, blocks = self.order.shape
        total = np.zeros((REPEATS, blocks), np.uint64)
        rows = max(_STRIP // blocks, 1)
        for half, order, signs in zip(total, self.order, self.signs, strict=True):
            for start in range(0, fold, rows):
                strip = values[order[start : start + rows]]
                strip *= signs[start : start + rows]
                half += strip.sum(axis=0, dtype=np.uint64)
        return total.reshape(-1)


def _draw(key: bytes, length: int, places: int) -> tuple[NDArray[np.int64], Words]:
    order = random_permutation(derive_key(key, "ring projection order", b""), places)
    signs = random_signs(derive_key(key, "ring projection signs", b""), places).astype(np.int64)
    padding = order >= length
    order[padding] = 0
    signs[padding] = 0
    return order, signs.view(np.uint64)


def fold_of(length: int, width: int) -> int:
    """Coordinates in a block."""
    return -(-length // (width // REPEATS))


def growth(length: int, width: int) -> int:
    """Bound on |y|^2 / |x|^2."""
    return REPEATS * fold_of(length, width)


def relative_deviation(width: int) -> float:
    """Bound on the standard deviation of <y, y'> / (2 |x| |x'|)."""
    return math.sqrt(2 / width)
