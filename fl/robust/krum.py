"""Krum and Multi-Krum (Blanchard et al. 2017), and the picks of Bulyan's first stage.

The score of an update is the sum of its squared distances to its n - f - 2 nearest others, as the paper prints it. ByzFL takes
n - f - 1 of them; where the two disagree the paper is followed here.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .rule import Matrix, Sight, check_count, check_f, squared_distances, uniform_on


def krum_scores(distances: Matrix, f: int) -> Matrix:
    """The score of every row from squared distances (n, n): the sum over its n - f - 2 nearest others, and at least one."""
    n = len(distances)
    others = distances.copy()
    np.fill_diagonal(others, np.inf)
    others.sort(axis=1)
    return np.asarray(others[:, : min(n - 1, max(1, n - f - 2))].sum(axis=1))


@dataclass(frozen=True, slots=True)
class Krum:
    """The update with the least score; 2 f + 2 < n.

    Its weights are one-hot: a sum over one client, which every protection with a floor above 1 refuses.
    """

    f: int
    sees: ClassVar[Sight] = Sight.GRAM
    shift_invariant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_f(self)

    def weights(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        n = len(gram)
        check_count(self, n, 2 * self.f + 3)
        return uniform_on([int(np.argmin(krum_scores(squared_distances(gram), self.f)))], n)


@dataclass(frozen=True, slots=True)
class MultiKrum:
    """The mean of the m updates with the least scores; 2 f + 2 < n. m: None for n - f."""

    f: int
    m: int | None = None
    sees: ClassVar[Sight] = Sight.GRAM
    shift_invariant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_f(self)
        if self.m is not None and self.m < 1:
            raise ValueError(f"m counts the updates that are averaged and is at least 1, not {self.m}")

    def weights(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        n = len(gram)
        least = 2 * self.f + 3
        check_count(self, n, max(least, self.m or 0), "m" if (self.m or 0) > least else "f")
        order = np.argsort(krum_scores(squared_distances(gram), self.f), kind="stable")
        return uniform_on(order[: self.m if self.m is not None else n - self.f], n)


@dataclass(frozen=True, slots=True)
class KrumPicks:
    """A step that keeps theta = n - 2 f updates: Krum's choice, then Krum's choice of the rest, and so on; n >= 4 f + 3.

    El Mhamdi et al. 2018, algorithm 1, first stage. The picks are rows of the mixing matrix in the order in which they fell.
    The last Krums run on few updates and have fewer than one neighbour by the formula; they take one.
    """

    f: int
    sees: ClassVar[Sight] = Sight.GRAM
    shift_invariant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_f(self)

    def mixing(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        n = len(gram)
        check_count(self, n, 4 * self.f + 3)
        distances = squared_distances(gram)
        left = np.arange(n)
        picks = np.zeros((n - 2 * self.f, n))
        for k in range(len(picks)):
            scores = krum_scores(distances[np.ix_(left, left)], self.f) if len(left) > 1 else np.zeros(1)
            pick = int(np.argmin(scores))
            picks[k, left[pick]] = 1.0
            left = np.delete(left, pick)
        return picks
