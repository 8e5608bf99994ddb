"""Random projections R^d -> R^k that keep inner products in expectation, and the two-stage secret sketch built of them.

Each is named by a 32-byte key, applies to float vectors (d,) or rows (n, d), and returns float64 (k,) or (n, k). For any x and
z, <Px, Pz> has mean <x, z>; its standard deviation is at most `error` = sqrt(2 / k) times |x| |z| for all of them but `Sparse`,
and each docstring gives the variance exactly or says how close it is. Work is done in blocks, so that memory stays small.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from .prg import derive_key, random_permutation, random_signs, random_uint64

Rows = NDArray[np.floating[Any]]
Sketch = NDArray[np.float64]

INNER = 8192
"""Coordinates between the two stages of `TwoStage`."""
ROWS = 1024
"""Length of a two-stage sketch."""
_BLOCK = 1 << 17  # entries drawn at once: 1 MiB of float64


class Projection(Protocol):
    """A linear map from R^d to R^k. error: sqrt(2 / k), or the bound that the class states."""

    @property
    def d(self) -> int: ...

    @property
    def k(self) -> int: ...

    @property
    def error(self) -> float: ...

    def apply(self, rows: Rows, /) -> Sketch:
        """float (d,) to float64 (k,), or float (n, d) to float64 (n, k). Raises ValueError for another length."""
        ...


def _check_sizes(key: bytes, d: int, k: int) -> None:
    derive_key(key, "projection", b"")  # refuses a short key
    if d < 1 or k < 1:
        raise ValueError(f"a projection needs d and k of at least 1, not {d} and {k}")


def _matrix(rows: Rows, d: int) -> Rows:
    """The rows as a matrix (n, d)."""
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
        _check_sizes(key, d, k)
        return cls(key, d, k)

    @property
    def error(self) -> float:
        return math.sqrt(2 / self.k)

    def blocks(self) -> Iterator[tuple[slice, slice, Sketch]]:
        """The entries, times sqrt(k): (rows, columns, float64 block), at most 2^17 entries at a time."""
        width = min(self.d, INNER)
        height = min(self.k, max(1, _BLOCK // width))
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
        matrix = _matrix(rows, self.d).astype(np.float64)
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
        return (_matrix(rows, self.d).astype(np.float64) @ self.matrix.T).reshape(*rows.shape[:-1], self.k)


@dataclass(frozen=True, slots=True, eq=False)
class Sparse:
    """Entries sqrt(s / k) times -1, 0, 1 with probabilities 1/2s, 1 - 1/s, 1/2s (Achlioptas 2003 at s = 3; Li et al. 2006).

    Var <Px, Pz> = (|x|^2 |z|^2 + <x, z>^2 + (s - 3) sum_j x_j^2 z_j^2) / k, so `error` is sqrt(max(2, s - 1) / k): reached
    when x has one coordinate only. Not rotation invariant: the images tell more than the Gram matrix.
    matrix: scipy CSR, float64, shape (k, d), held: about k d / s entries of 12 bytes.
    """

    matrix: Any = field(repr=False)
    s: float

    @classmethod
    def draw(cls, key: bytes, d: int, k: int, /, s: float) -> Self:
        """s: at least 1; Li et al. propose sqrt(d), at which drawing takes k sqrt(d) steps instead of k d."""
        _check_sizes(key, d, k)
        if s < 1:
            raise ValueError(f"s must be at least 1, not {s}")
        places = _places(derive_key(key, "sparse places", b""), d * k, 1 / s)
        values = math.sqrt(s / k) * random_signs(derive_key(key, "sparse signs", b""), len(places)).astype(np.float64)
        starts = np.searchsorted(places, np.arange(k + 1) * d)
        from scipy.sparse import csr_array

        return cls(csr_array((values, places % d, starts), shape=(k, d)), s)

    @property
    def d(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def k(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def error(self) -> float:
        return math.sqrt(max(2.0, self.s - 1) / self.k)

    def apply(self, rows: Rows, /) -> Sketch:
        return np.asarray((self.matrix @ _matrix(rows, self.d).T).T, dtype=np.float64).reshape(*rows.shape[:-1], self.k)


def _places(key: bytes, length: int, probability: float) -> NDArray[np.int64]:
    """The places in range(length) that are each taken with this probability, ascending, by geometric gaps."""
    if probability == 1:
        return np.arange(length)
    places, last, chunk = [np.empty(0, dtype=np.int64)], -1, 0
    while last < length:
        wanted = int((length - last) * probability) + 64
        words = random_uint64(derive_key(key, "gaps", chunk.to_bytes(8, "big")), min(wanted, 1 << 20))
        uniform = ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
        gaps = np.minimum(np.floor(np.log(uniform) / math.log1p(-probability)), length).astype(np.int64) + 1
        places.append(last + np.cumsum(gaps))
        last, chunk = int(places[-1][-1]), chunk + 1
    found = np.concatenate(places)
    return found[found < length]


@dataclass(frozen=True, slots=True, eq=False)
class Orthonormal(Dense):
    """sqrt(d / k) times k orthonormal rows, uniform among all such (QR of a Gaussian matrix), for k <= d.

    Var <Px, Pz> = (d - k) (d |x|^2 |z|^2 + (d - 2) <x, z>^2) / (k (d - 1) (d + 2)), below Gaussian's. Its spectral norm is
    exactly sqrt(d / k), where a Gaussian's is near 1 + sqrt(d / k): the least noise for one record's sensitivity.
    """

    @classmethod
    def draw(cls, key: bytes, d: int, k: int, /) -> Self:
        _check_sizes(key, d, k)
        if k > d:
            raise ValueError(f"there are no {k} orthonormal vectors in {d} dimensions; take k <= d")
        columns, triangle = np.linalg.qr(standard_normal(derive_key(key, "orthonormal projection", b""), d * k).reshape(d, k))
        columns *= np.sign(np.diag(triangle))  # uniform, whatever signs the factorisation prefers (Mezzadri 2007)
        return cls(np.ascontiguousarray(columns.T) * math.sqrt(d / k))


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
        _check_sizes(key, d, k)
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
        matrix = _matrix(rows, self.d)
        result = np.zeros((len(matrix), self.k))
        bits = self.width.bit_length() - 1
        left, right = _walsh_matrix(bits - bits // 2), _walsh_matrix(bits // 2)
        step = self.width * max(1, _BLOCK // self.width)  # coordinates transformed at once
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


def error_of(d: int, k: int) -> float:
    """Standard deviation of an inner product of two-stage sketches relative to the norms, at most: of both stages together."""
    secret, public = math.sqrt(2 / k), math.sqrt(2 / INNER) if d > INNER else 0.0
    return math.sqrt(secret**2 * (1 + public**2) + public**2)


@dataclass(frozen=True, slots=True, eq=False)
class TwoStage:
    """The secret sketch of updates: a public `Hadamard` to `INNER` coordinates, then a secret `Gaussian` to k.

    Formal guarantee, against a server that does not hold the secret seed: with the updates as columns of X and the public
    projection P, the k coordinates of the sketches are independent N(0, (PX)^T (PX) / k). So what the server sees depends on
    the Gram matrix of the projected updates alone, up to the keystream and float64 rounding. Holders of the seed see k linear
    measurements of each update, and can hide any change of an update in the kernel.
    The seed serves one comparison: all updates sketched under it can be compared with each other.
    `public` is None where d is at most `INNER`: the Gaussian stage then projects the updates themselves.
    """

    public: Hadamard | None
    secret: Gaussian | Dense

    @classmethod
    def draw(cls, public_key: bytes, secret_seed: bytes, d: int, k: int = ROWS, /) -> Self:
        """Raises ValueError where k exceeds half of the coordinates that it measures: a colluder would learn most of them."""
        inner = min(d, INNER)
        if 2 * k > inner:
            raise ValueError(f"{k} measurements of {inner} coordinates leave too little hidden; take k at most {inner // 2}")
        secret = Gaussian.draw(derive_key(secret_seed, "secret sketch", b""), inner, k)
        return cls(None if d <= INNER else Hadamard.draw(public_key, d, inner), secret)

    @property
    def d(self) -> int:
        return self.secret.d if self.public is None else self.public.d

    @property
    def k(self) -> int:
        return self.secret.k

    @property
    def error(self) -> float:
        """Standard deviation of an inner product relative to the norms, at most: from both stages and their product."""
        return error_of(self.d, self.k)

    def apply(self, rows: Rows, /) -> Sketch:
        return self.secret.apply(rows if self.public is None else self.public.apply(rows))

    def held(self) -> Self:
        """The same sketch with the secret matrix in memory (64 MiB): for simulations, where all clients share one process."""
        return self if isinstance(self.secret, Dense) else replace(self, secret=self.secret.held())
