"""The updates of a round as rows that are read in blocks of coordinates: their Gram matrix and their weighted sum.

Nothing here holds a second copy of the updates: a block is (rows, BLOCK) at most.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import cpu_count

import numpy as np
from numpy.typing import NDArray

from .rule import Block, Matrix

Vector = NDArray[np.float32]
Updates = NDArray[np.float32] | Sequence[Vector]

VALUES = 1 << 21
"""Values of a block: rows times coordinates, so that its working memory is a few megabytes whatever the number of rows."""
SORTED = 1 << 18
"""Values of a block that is sorted, smaller so that it stays in a core's cache."""
MAX_BLOCK = 16_384
"""Coordinates of a block at most: bounds the rounding of a float32 inner product."""
THREADS = min(4, cpu_count() or 1)
FAR = 16.0
"""Updates this many times longer than the median one do not count in the mean about which the others are centred."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Some of the updates, or mixtures of them. Nothing that a block gives may be written to.

    updates: float32 (n, d), or n vectors float32 (d,). kept: positions of the rows in use. mixing: (m, len(kept)), or None
    for the rows as they are.
    """

    updates: Updates
    kept: NDArray[np.intp]
    mixing: Matrix | None = None

    def __len__(self) -> int:
        return len(self.kept if self.mixing is None else self.mixing)

    @property
    def length(self) -> int:
        """Coordinates of an update, d."""
        return len(self.updates[0])

    def block(self, start: int, stop: int) -> Block:
        """Coordinates start .. stop - 1 of all rows: float32 (rows, stop - start)."""
        if isinstance(self.updates, np.ndarray):
            block = self.updates[:, start:stop]
            block = block if len(self.kept) == len(block) else block[self.kept]
        else:
            block = np.stack([self.updates[i][start:stop] for i in self.kept])
        return block if self.mixing is None else self.mixing.astype(np.float32) @ block

    def columns(self, index: NDArray[np.intp]) -> "Rows":
        """The rows cut down to these coordinates, as a copy."""
        chosen = np.stack([self.updates[i][index] for i in self.kept])
        return Rows(chosen if self.mixing is None else self.mixing.astype(np.float32) @ chosen, np.arange(len(self)))

    def blocks(self, values: int = VALUES) -> Iterator[tuple[int, int]]:
        """Start and stop of every block of about so many values."""
        size = int(np.clip(values // max(1, len(self.kept)), 64, MAX_BLOCK))
        return ((s, min(s + size, self.length)) for s in range(0, self.length, size))


def squared_norms(updates: Updates) -> Matrix:
    """|x_i|^2, float64 (n,), as float32 adds it up: not finite where an update is not, or is too large to compare."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array([np.float64(x @ x) for x in updates])


def gram_of(rows: Rows, centre: bool) -> Matrix:
    """The Gram matrix, float64 (n, n): float32 products of blocks, added up in float64.

    centre: of the rows about the mean of those of ordinary length. That changes no distance, and distances between updates
    that share a large part then do not cancel.
    """
    n = len(rows)
    share = np.zeros(n, dtype=np.float32)
    if centre:
        square = np.zeros(n)
        for start, stop in rows.blocks():
            block = rows.block(start, stop)
            square += np.vecdot(block, block)
        ordinary = square <= FAR**2 * np.median(square)
        share[ordinary] = 1 / np.count_nonzero(ordinary)
    total = np.zeros((n, n))
    for start, stop in rows.blocks():
        block = rows.block(start, stop)
        if centre:
            block = block - share @ block
        total += block @ block.T
    return (total + total.T) / 2


def combination(rows: Rows, weights: Matrix) -> Vector:
    """sum_i w_i x_i: float32 (d,)."""
    result = np.empty(rows.length, dtype=np.float32)
    w = weights.astype(np.float32)
    for start, stop in rows.blocks():
        result[start:stop] = w @ rows.block(start, stop)
    return result


def coordinatewise(rows: Rows, combine: Callable[[Block], Block]) -> Vector:
    """combine of every block of coordinates, float32 (n, k) to (k,), in a few threads: float32 (d,)."""
    result = np.empty(rows.length, dtype=np.float32)

    def work(part: tuple[int, int]) -> None:
        start, stop = part
        result[start:stop] = combine(rows.block(start, stop))

    parts = list(rows.blocks(SORTED))
    if len(parts) == 1:
        work(parts[0])
        return result
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in pool.map(work, parts):
            pass
    return result
