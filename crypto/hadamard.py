"""The subsampled randomised Hadamard transform: a public random projection of long vectors, in time near their length."""

import math
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from .dense_projection import BLOCK, Rows, Sketch, as_matrix, check_sizes
from .prg import derive_key, random_permutation, random_signs, random_uint64


@dataclass(frozen=True, slots=True, eq=False)
class Hadamard:
    """Sign flips, Walsh-Hadamard and sampling (SRHT: Ailon and Chazelle 2009, Tropp 2011), block by block.

    The vector is cut into blocks of `width`, the power of two from k on. With the Hadamard matrices H of all blocks together,
    H_outer (x) H_width, the k sampled rows are (outer_q, column_q): distinct columns and a free outer index for each, so
    y_q = sqrt(1 / k) sum_a H_outer[outer_q, a] (H_width D_a x_a)[column_q] with entries +-1. Few blocks are in memory at once.
    Var <Px, Pz> is about (|x|^2 |z|^2 + <x, z>^2) / k or less; inner products inside one block are kept
    exactly when k is a power of two. Rounding: float32 sums, about 1e-6 |x|. Public: it hides nothing.
    signs: float32, shape (d,). columns, outer: int64, shape (k,).
    """

    signs: NDArray[np.float32] = field(repr=False)
    columns: NDArray[np.int64] = field(repr=False)
    outer: NDArray[np.int64] = field(repr=False)

    @classmethod
    def draw(cls, key: bytes, d: int, k: int, /) -> Self:
        check_sizes(key, d, k)
        width = 1 << (k - 1).bit_length()
        blocks = -(-d // width)
        columns = np.sort(random_permutation(derive_key(key, "hadamard columns", b""), width)[:k])
        words = random_uint64(derive_key(key, "hadamard outer", b""), k)
        outer = (words & np.uint64((1 << (blocks - 1).bit_length()) - 1)).astype(np.int64)
        return cls(random_signs(derive_key(key, "hadamard signs", b""), d), columns, outer)

    @property
    def d(self) -> int:
        return len(self.signs)

    @property
    def k(self) -> int:
        return len(self.columns)

    @property
    def width(self) -> int:
        return 1 << (self.k - 1).bit_length()

    @property
    def error(self) -> float:
        return math.sqrt(2 / self.k)

    def apply(self, rows: Rows, /) -> Sketch:
        matrix = as_matrix(rows, self.d)
        result = np.zeros((len(matrix), self.k))
        bits = self.width.bit_length() - 1
        left, right = _walsh_matrix(bits - bits // 2), _walsh_matrix(bits // 2)
        step = self.width * max(1, BLOCK // self.width)  # coordinates transformed at once
        for start in range(0, self.d, step):
            part = slice(start, min(start + step, self.d))
            count = -(-(part.stop - start) // self.width)
            first = start // self.width
            flips = _parity_signs(np.arange(first, first + count), self.outer)
            padded = np.zeros(count * self.width, dtype=np.float32)
            for row, total in zip(matrix, result, strict=True):
                np.multiply(row[part], self.signs[part], out=padded[: part.stop - start], casting="same_kind")
                mixed = (left @ padded.reshape(count, len(left), len(right)) @ right).reshape(count, self.width)
                total += np.einsum("aq,aq->q", flips, mixed if self.k == self.width else mixed[:, self.columns])
        return (result / math.sqrt(self.k)).reshape(*rows.shape[:-1], self.k)


def _walsh_matrix(bits: int) -> NDArray[np.float32]:
    """The Walsh-Hadamard matrix of 2^bits, entries +-1: float32, symmetric."""
    at = np.arange(1 << bits)
    return _parity_signs(at, at)


def _parity_signs(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.float32]:
    """(-1)^popcount(left_i & right_j): float32, shape (len(left), len(right))."""
    parity = np.bitwise_count(left[:, None] & right[None, :]) & np.uint8(1)
    signs: NDArray[np.float32] = np.float32(1) - np.float32(2) * parity.astype(np.float32)
    return signs
