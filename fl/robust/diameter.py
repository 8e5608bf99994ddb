"""Subsets of n - f updates that lie close together: least diameter (MDA) and least top eigenvalue (SMEA)."""

from dataclasses import dataclass, field
from itertools import combinations
from math import comb
from typing import ClassVar

import numpy as np

from .rule import Matrix, Sight, centred, check_count, check_f, check_positive, squared_distances, uniform_on


@dataclass(slots=True)
class _Search:
    """A bounded search tree for vertex covers. far[i]: bit set of the rows too far from row i. left: nodes still allowed."""

    far: list[int]
    left: int = field(default=0)

    def coverable(self, alive: int, k: int) -> bool:
        """Whether dropping at most k of the alive rows leaves no two that are too far apart.

        Takes the neighbour of a row with one conflict, then branches on the row with the most: it goes, or all its
        conflicts go. Rows with at least three make it 1.47^k at most; where all have two there are only cycles left, of
        which any row may go.
        """
        self.left -= 1
        if self.left < 0:
            raise _OutOfWork
        while True:
            most, conflicts, row = 0, 0, -1
            single = 0
            rest = alive
            while rest:
                low = rest & -rest
                rest ^= low
                i = low.bit_length() - 1
                degree = (self.far[i] & alive).bit_count()
                conflicts += degree
                if degree == 1:
                    single = self.far[i] & alive
                if degree > most:
                    most, row = degree, i
            if most == 0:
                return True
            if conflicts > 2 * k * most:
                return False
            if single:
                alive ^= single
                k -= 1
            elif most == 2:
                alive ^= 1 << row
                k -= 1
            else:
                break
        if self.coverable(alive ^ (1 << row), k - 1):
            return True
        gone = self.far[row] & alive
        return gone.bit_count() <= k and self.coverable(alive & ~gone & ~(1 << row), k - gone.bit_count())


class _OutOfWork(Exception):
    pass


def least_diameter(distances: Matrix, size: int, work: int) -> list[int]:
    """The positions of `size` rows whose largest pairwise distance is least; of several such sets the lexicographically first.

    distances: (n, n), symmetric. Exact: a set of that diameter is what a vertex cover of the pairs further apart leaves.
    work: nodes that all searches together may visit. Raises ValueError when they do not suffice.
    """
    n = len(distances)
    budget = work
    levels = np.unique(distances[np.triu_indices(n, 1)]) if n > 1 else np.zeros(1)

    def search(level: float) -> _Search:
        far = [int.from_bytes(np.packbits(row, bitorder="little").tobytes(), "little") for row in distances > level]
        return _Search(far, budget)

    try:
        low, high = 0, len(levels) - 1
        while low < high:  # the least level at which size rows are pairwise close
            middle = (low + high) // 2
            attempt = search(float(levels[middle]))
            close = attempt.coverable((1 << n) - 1, n - size)
            budget = attempt.left
            low, high = (low, middle) if close else (middle + 1, high)
        final = search(float(levels[low]))
        kept: list[int] = []
        alive, k = (1 << n) - 1, n - size
        for i in range(n):
            if len(kept) == size or not alive >> i & 1:
                continue
            gone = final.far[i] & alive
            if gone.bit_count() <= k and final.coverable(alive & ~gone & ~(1 << i), k - gone.bit_count()):
                kept.append(i)
                alive &= ~gone & ~(1 << i)
                k -= gone.bit_count()
            else:
                alive ^= 1 << i
                k -= 1
        return kept
    except _OutOfWork:
        raise ValueError(f"the {size} closest of {n} updates were not found in {work} steps; raise work or lower f") from None


@dataclass(frozen=True, slots=True)
class MDA:
    """The mean of the n - f updates of least diameter (El Mhamdi et al. 2021); 2 f < n. Exact.

    Often several sets share the least diameter; the one with the lowest positions is taken. work: steps of the search.
    """

    f: int
    work: int = 200_000
    sees: ClassVar[Sight] = Sight.GRAM
    shift_invariant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_f(self)
        check_positive(self, "work")

    def weights(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        n = len(gram)
        check_count(self, n, 2 * self.f + 1)
        return uniform_on(least_diameter(squared_distances(gram), n - self.f, self.work), n)


@dataclass(frozen=True, slots=True)
class SMEA:
    """The mean of the n - f updates whose covariance has the least top eigenvalue (Allouah et al. 2023); 2 f < n.

    Looks at every subset. work: subsets that it may look at; ValueError beyond.
    """

    f: int
    work: int = 20_000
    sees: ClassVar[Sight] = Sight.GRAM
    shift_invariant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_f(self)
        check_positive(self, "work")

    def weights(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        n = len(gram)
        check_count(self, n, 2 * self.f + 1)
        size = n - self.f
        if comb(n, size) > self.work:
            raise ValueError(f"{self} would look at {comb(n, size)} subsets of {n} updates; raise work or lower f")
        uniform = np.full(size, 1 / size)
        best, kept = np.inf, list(range(size))
        for chosen in combinations(range(n), size):
            part = centred(gram[np.ix_(chosen, chosen)], uniform)
            top = float(np.linalg.eigvalsh(part)[-1])
            if top < best:
                best, kept = top, list(chosen)
        return uniform_on(kept, n)
