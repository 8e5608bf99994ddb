"""Sparse random projections, which keep inner products in expectation and tell more than the Gram matrix."""

import math
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .dense_projection import Rows, Sketch, as_matrix, check_sizes
from .prg import derive_key, random_signs, random_uint64


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
        check_sizes(key, d, k)
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
        return np.asarray((self.matrix @ as_matrix(rows, self.d).T).T, dtype=np.float64).reshape(*rows.shape[:-1], self.k)


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
