"""Sketches behind a secret offset: what can be computed of them is computed of differences.

Holders of one key send y_i = S x_i + r modulo 2^64, in fixed point: S a `TwoStage` sketch, r uniform over the ring, both drawn
from the key. Whoever lacks the key sees the differences y_i - y_j = S (x_i - x_j), and r hides everything else perfectly.

Formal guarantee, against whoever lacks the key, keystream taken as uniform: the first sketch is uniform and independent of all
vectors; and with the vectors as columns of X, X D their differences from the first, the k coordinates of the others less it
are independent N(0, (P X D)^T (P X D) / k), beside rounding to the step. So they tell, noisily, the Gram matrix of the projected
vectors' deviations from their mean, and nothing else. No vector, nor a sum of them, is paired with a sketch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from .dense_projection import Rows
from .prg import derive_key, random_uint64
from .projection import TwoStage

Words = NDArray[np.uint64]
LARGEST = 1 << 61
"""A coordinate of S x is at most so many steps, so that differences of two do not wrap around."""
MARGIN = 16.0
"""How many radii a coordinate of a sketch may have: it is near N(0, |x|^2 / k)."""


def step_of(radius: float) -> float:
    """The fixed point's step for vectors of norm up to `radius`."""
    return MARGIN * radius / LARGEST


@dataclass(frozen=True, slots=True, eq=False)
class OffsetSketch:
    """What the holders of a key apply. sketch: S. step: of the fixed point, public. offset: r, uint64 (k,)."""

    sketch: TwoStage = field(repr=False)
    key: bytes = field(repr=False)
    step: float
    offset: Words = field(default_factory=lambda: np.zeros(0, np.uint64), repr=False)

    @classmethod
    def draw(cls, public: bytes, key: bytes, d: int, k: int, radius: float) -> Self:
        """The sketch of a 32-byte key, of float vectors (d,) of norm up to `radius`. public: names the public projection."""
        return cls(TwoStage.draw(public, key, d, k).held(), key, step_of(radius)).part(bytes(4))

    def part(self, context: bytes) -> Self:
        """The same sketch behind another offset: for vectors that are compared about a mean of their own."""
        words = random_uint64(derive_key(self.key, "sketch offset", context), self.k)
        return replace(self, offset=words)

    @property
    def k(self) -> int:
        return self.sketch.k

    def apply(self, vector: Rows) -> Words:
        """uint64 (k,), of float (d,). Raises ValueError for a vector whose sketch is out of range."""
        steps = np.rint(self.sketch.apply(vector) / self.step)
        if not bool((np.abs(steps) <= LARGEST).all()):
            raise ValueError("the sketch is out of range: the update is far longer than its bound")
        return steps.astype(np.int64).view(np.uint64) + self.offset


def differences(rows: Sequence[Words], step: float) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """S (x_i - x_j) for one j, float64 (n, k), and which rows are in range of it, bool (n,); the others' are 0.

    j is a row that most others are in range of: two honest ones always are. The first of equals.
    """
    words = np.stack(rows) if rows else np.zeros((0, 0), np.uint64)
    best, fits = np.zeros(words.shape, np.int64), np.zeros(len(words), np.bool_)
    for row in words:
        apart = (words - row).view(np.int64)
        near = np.asarray(((apart <= 2 * LARGEST) & (apart >= -2 * LARGEST)).all(axis=1))
        if near.sum() > fits.sum():
            best, fits = apart, near
        if 2 * fits.sum() > len(words):
            break
    return np.where(fits[:, None], best, 0) * step, fits
