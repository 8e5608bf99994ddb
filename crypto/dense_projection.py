"""Random projections R^d -> R^k with dense matrices, which keep inner products in expectation: Gaussian and orthonormal.

Each is named by a 32-byte key, applies to float vectors (d,) or rows (n, d), and returns float64 (k,) or (n, k); vectors of
another length are a ValueError. For any x and z, <Px, Pz> has mean <x, z>; its standard deviation is at most `error` times
|x| |z|: sqrt(2 / k), or what the class states. Each docstring gives the variance exactly or says how close it is. So it is with
those of `sparse_projection` and `hadamard`, too. Work is done in blocks, so that memory stays small.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .prg import derive_key, random_uint64

Rows = NDArray[np.floating[Any]]
Sketch = NDArray[np.float64]

BLOCK = 1 << 17
"""Entries drawn, or coordinates transformed, at once: 1 MiB of float64."""
WIDTH = 8192
"""Columns of a block of Gaussian entries, at most; which entries a key stands for hangs on it."""


def check_sizes(key: bytes, d: int, k: int) -> None:
    """Raises ValueError for a key that is too short, and for sizes below 1."""
    derive_key(key, "projection", b"")  # refuses a short key
    if d < 1 or k < 1:
        raise ValueError(f"a projection needs d and k of at least 1, not {d} and {k}")


def as_matrix(rows: Rows, d: int) -> Rows:
    """The rows as a matrix (n, d). Raises ValueError for another length."""
    if rows.ndim not in (1, 2) or rows.shape[-1] != d:
        raise ValueError(f"expected vectors of {d} coordinates, got shape {rows.shape}")
    return rows.reshape(-1, d)


def standard_normal(key: bytes, count: int) -> Sketch:
    """float64, shape (count,): independent N(0, 1) from the keystream, 64 bits each, by the inverse distribution function.

    The uniform number is a multiple of 2^-52 plus 2^-53, so no value exceeds 8.3: a discretised Gaussian in float64,
    good for projections and not for noise that an epsilon rests on (`samplers` is).
    """
    uniform = (random_uint64(key, count) >> np.uint64(12)).astype(np.float64)
    uniform += 0.5
    uniform *= 2.0**-52
    from scipy.special import ndtri

    return np.asarray(ndtri(uniform, out=uniform))


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Independent N(0, 1/k) entries, regenerated from the key block by block and never held whole.

    Var <Px, Pz> = (|x|^2 |z|^2 + <x, z>^2) / k. Each coordinate of the images of x_1 .. x_n is N(0, G / k) with the Gram
    matrix G, independent of the others: the images depend on the inputs through G alone. Time: k d / 4e7 seconds.
    """

    key: bytes = field(repr=False)
    d: int
    k: int

    @classmethod
    def draw(cls, key: bytes, d: int, k: int, /) -> Self:
        check_sizes(key, d, k)
        return cls(key, d, k)

    @property
    def error(self) -> float:
        return math.sqrt(2 / self.k)

    def blocks(self) -> Iterator[tuple[slice, slice, Sketch]]:
        """The entries, times sqrt(k): (rows, columns, float64 block), at most 2^17 entries at a time."""
        width = min(self.d, WIDTH)
        height = min(self.k, max(1, BLOCK // width))
        for top in range(0, self.k, height):
            for left in range(0, self.d, width):
                rows, columns = slice(top, min(top + height, self.k)), slice(left, min(left + width, self.d))
                shape = (rows.stop - top, columns.stop - left)
                at = top.to_bytes(8, "big") + left.to_bytes(8, "big")
                yield (
                    rows,
                    columns,
                    standard_normal(derive_key(self.key, "gaussian projection", at), math.prod(shape)).reshape(shape),
                )

    def apply(self, rows: Rows, /) -> Sketch:
        matrix = as_matrix(rows, self.d).astype(np.float64)
        result = np.zeros((len(matrix), self.k))
        for at, columns, block in self.blocks():
            result[:, at] += matrix[:, columns] @ block.T
        return (result / math.sqrt(self.k)).reshape(*rows.shape[:-1], self.k)

    def held(self) -> "Dense":
        """The same projection with its matrix in memory (8 k d bytes), for a process that applies it for many clients."""
        matrix = np.empty((self.k, self.d))
        for at, columns, block in self.blocks():
            matrix[at, columns] = block
        return Dense(matrix / math.sqrt(self.k))


@dataclass(frozen=True, slots=True, eq=False)
class Dense:
    """A projection held as its matrix: float64, shape (k, d)."""

    matrix: Sketch = field(repr=False)

    @property
    def d(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def k(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def error(self) -> float:
        return math.sqrt(2 / self.k)

    def apply(self, rows: Rows, /) -> Sketch:
        return (as_matrix(rows, self.d).astype(np.float64) @ self.matrix.T).reshape(*rows.shape[:-1], self.k)


@dataclass(frozen=True, slots=True, eq=False)
class Orthonormal(Dense):
    """sqrt(d / k) times k orthonormal rows, uniform among all such (QR of a Gaussian matrix), for k <= d.

    Var <Px, Pz> = (d - k) (d |x|^2 |z|^2 + (d - 2) <x, z>^2) / (k (d - 1) (d + 2)), below Gaussian's. Its spectral norm is
    exactly sqrt(d / k), where a Gaussian's is near 1 + sqrt(d / k): the least noise for one record's sensitivity.
    """

    @classmethod
    def draw(cls, key: bytes, d: int, k: int, /) -> Self:
        check_sizes(key, d, k)
        if k > d:
            raise ValueError(f"there are no {k} orthonormal vectors in {d} dimensions; take k <= d")
        columns, triangle = np.linalg.qr(standard_normal(derive_key(key, "orthonormal projection", b""), d * k).reshape(d, k))
        columns *= np.sign(np.diag(triangle))  # uniform, whatever signs the factorisation prefers (Mezzadri 2007)
        return cls(np.ascontiguousarray(columns.T) * math.sqrt(d / k))
