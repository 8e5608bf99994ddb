"""The updates of a round as rows that are read in blocks of coordinates: their Gram matrix and their weighted sum.

Nothing here holds a second copy of the updates: a block is (rows, BLOCK) at most.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from os import cpu_count
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from .rule import Block, Matrix

Vector = NDArray[np.float32]
Updates = NDArray[np.float32] | Sequence[Vector]
Part = TypeVar("Part")
Result = TypeVar("Result")

MULTIPLIED = 1 << 19
"""Values of a block that is multiplied, rows times coordinates: a core's cache, whatever the number of rows."""
SORTED = 1 << 18
"""Values of a block that is sorted, in a copy."""
MAX_BLOCK = 16_384
"""Coordinates of a block at most: bounds the rounding of a float32 inner product."""
STRIPES = 4
"""Parts in which work is dealt out. A constant, so that the bits of a result do not depend on the number of cores."""
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

    def blocks(self, values: int = MULTIPLIED) -> list[tuple[int, int]]:
        """Start and stop of every block of about so many values."""
        size = int(np.clip(values // max(1, len(self.kept)), 64, MAX_BLOCK))
        return [(s, min(s + size, self.length)) for s in range(0, self.length, size)]


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[object]:
    """Linear algebra in the calling thread alone, while it lasts.

    Threads inside a product of a small block wait for each other at every block, which costs many times the work as soon as
    another program wants a core.
    """
    limit: AbstractContextManager[object] = _libraries().limit(limits=1, user_api="blas")
    return limit


def in_stripes(parts: Sequence[Part], work: Callable[[Sequence[Part]], Result]) -> list[Result]:
    """work of every STRIPES-th part, in threads that multiply alone: at most STRIPES results, in order."""
    stripes = [parts[k::STRIPES] for k in range(min(STRIPES, len(parts)))]
    with one_thread():
        if len(stripes) == 1:
            return [work(stripes[0])]
        with ThreadPoolExecutor(min(STRIPES, cpu_count() or 1)) as pool:
            return list(pool.map(work, stripes))


def squared_norms(updates: Updates) -> Matrix:
    """|x_i|^2, float64 (n,), as float32 adds it up: not finite where an update is not, or is too large to compare."""
    result = np.empty(len(updates))

    def work(positions: Sequence[int]) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            for i in positions:
                result[i] = np.dot(updates[i], updates[i])  # unlike @, it lets other threads run meanwhile

    in_stripes(range(len(updates)), work)
    return result


def gram_of(rows: Rows, centre: bool) -> Matrix:
    """The Gram matrix, float64 (n, n): float32 products of blocks, added up in float64.

    centre: of the rows about the mean of those of ordinary length. That changes no distance, and distances between updates
    that share a large part then do not cancel.
    """
    n = len(rows)
    share = np.zeros(n, dtype=np.float32)
    if centre:
        square = row_squares(rows)
        ordinary = square <= FAR**2 * np.median(square)
        share[ordinary] = 1 / np.count_nonzero(ordinary)

    def work(parts: Sequence[tuple[int, int]]) -> Matrix:
        total = np.zeros((n, n))
        for start, stop in parts:
            block = rows.block(start, stop)
            if centre:
                block = block - share @ block
            total += block @ block.T
        return total

    total = sum(in_stripes(rows.blocks(), work), start=np.zeros((n, n)))
    return (total + total.T) / 2


def row_squares(rows: Rows) -> Matrix:
    """|x_i|^2 of every row, float64 (n,), in float32 blocks added up in float64."""

    def work(parts: Sequence[tuple[int, int]]) -> Matrix:
        total = np.zeros(len(rows))
        for start, stop in parts:
            block = rows.block(start, stop)
            total += np.einsum("ij,ij->i", block, block)
        return total

    return sum(in_stripes(rows.blocks(), work), start=np.zeros(len(rows)))


def combination(rows: Rows, weights: Matrix) -> Vector:
    """sum_i w_i x_i: float32 (d,)."""
    w = weights.astype(np.float32)
    return coordinatewise(rows, lambda block: w @ block, MULTIPLIED)


def coordinatewise(rows: Rows, combine: Callable[[Block], Block], values: int = SORTED) -> Vector:
    """combine of every block of about so many values, float32 (n, k) to (k,): float32 (d,)."""
    result = np.empty(rows.length, dtype=np.float32)

    def work(parts: Sequence[tuple[int, int]]) -> None:
        for start, stop in parts:
            result[start:stop] = combine(rows.block(start, stop))

    in_stripes(rows.blocks(values), work)
    return result
