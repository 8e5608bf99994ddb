"""Rules that take every coordinate alone: median, trimmed mean, Meamed, Phocas, Bulyan and robust learning rate.

They work on a transposed copy of a block, (coordinates, n), in which the n values of a coordinate lie together and are sorted.
Their results depend on the values of a coordinate alone, not on whose they are; where values tie, the tie is shared, so that a
permutation of the clients or a sign flip of a coordinate changes nothing.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..field_ranges import need_least
from .krum import KrumPicks
from .rule import Block, Sight, check_count, check_f


def ascending(block: Block) -> Block:
    """The values of every coordinate in ascending order: float32 (k, n) from (n, k), a copy."""
    values = np.array(block.T, order="C")
    values.sort(axis=1)
    return values


def median_of(values: Block) -> Block:
    """The median of ascending rows, (k,); of an even number the mean of the two in the middle."""
    n = values.shape[1]
    return np.asarray(values[:, (n - 1) // 2] / 2 + values[:, n // 2] / 2)


def mean_near(values: Block, centre: Block, count: int) -> Block:
    """The mean of the `count` values of each ascending row that lie nearest to its centre, (k,).

    Values that are equally far share the places that are left for them.
    """
    distance = np.abs(values - centre[:, None])
    last = np.maximum(distance[:, : values.shape[1] - count + 1], distance[:, count - 1 :]).min(axis=1)[:, None]
    near, tied = distance < last, distance == last
    places = (count - near.sum(axis=1)) / tied.sum(axis=1)
    total = np.where(near, values, 0).sum(axis=1, dtype=np.float64) + places * np.where(tied, values, 0).sum(
        axis=1, dtype=np.float64
    )
    return np.asarray(total / count, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Median:
    """The coordinate-wise median (Yin et al. 2018, definition 1)."""

    sees: ClassVar[Sight] = Sight.COORDINATES

    def combine(self, block: Block, /) -> Block:
        check_count(self, len(block), 1)
        return median_of(ascending(block))


@dataclass(frozen=True, slots=True)
class TrimmedMean:
    """The mean of each coordinate without its b largest and b smallest values (Yin et al. 2018, definition 2); 2 b < n."""

    b: int
    sees: ClassVar[Sight] = Sight.COORDINATES

    def __post_init__(self) -> None:
        check_f(self, "b")

    def combine(self, block: Block, /) -> Block:
        n = len(block)
        check_count(self, n, 2 * self.b + 1, "b")
        return np.asarray(ascending(block)[:, self.b : n - self.b].mean(axis=1))


@dataclass(frozen=True, slots=True)
class Meamed:
    """The mean of the n - f values nearest to the median of each coordinate (Xie et al. 2018); 2 f < n."""

    f: int
    sees: ClassVar[Sight] = Sight.COORDINATES

    def __post_init__(self) -> None:
        check_f(self)

    def combine(self, block: Block, /) -> Block:
        n = len(block)
        check_count(self, n, 2 * self.f + 1)
        values = ascending(block)
        return mean_near(values, median_of(values), n - self.f)


@dataclass(frozen=True, slots=True)
class Phocas:
    """The mean of the n - f values nearest to the trimmed mean of each coordinate (Xie et al. 2018); 2 f < n."""

    f: int
    sees: ClassVar[Sight] = Sight.COORDINATES

    def __post_init__(self) -> None:
        check_f(self)

    def combine(self, block: Block, /) -> Block:
        n = len(block)
        check_count(self, n, 2 * self.f + 1)
        values = ascending(block)
        return mean_near(values, values[:, self.f : n - self.f].mean(axis=1), n - self.f)


@dataclass(frozen=True, slots=True)
class MeanAroundMedian:
    """The mean of the n - 2 f values nearest to the median of each coordinate: Bulyan's second stage."""

    f: int
    sees: ClassVar[Sight] = Sight.COORDINATES

    def __post_init__(self) -> None:
        check_f(self)

    def combine(self, block: Block, /) -> Block:
        n = len(block)
        check_count(self, n, 2 * self.f + 1)
        values = ascending(block)
        return mean_near(values, median_of(values), n - 2 * self.f)


@dataclass(frozen=True, slots=True)
class Bulyan:
    """theta = n - 2 f picks of Krum, then per coordinate the mean of the theta - 2 f nearest to the median of the picks.

    El Mhamdi et al. 2018, algorithm 1; n >= 4 f + 3. For f below 3 the last picks look at one neighbour, so that the closest pair
    ties: the lower position is picked.
    """

    f: int
    sees: ClassVar[Sight] = Sight.COORDINATES

    def __post_init__(self) -> None:
        check_f(self)

    @property
    def steps(self) -> tuple[KrumPicks]:
        return (KrumPicks(self.f),)

    @property
    def rule(self) -> MeanAroundMedian:
        return MeanAroundMedian(self.f)


@dataclass(frozen=True, slots=True)
class RobustLearningRate:
    """The mean, with its sign turned in coordinates where |sum_i sign x_i| < theta (Ozdayi et al. 2021, eq. 4)."""

    theta: float
    sees: ClassVar[Sight] = Sight.COORDINATES

    def __post_init__(self) -> None:
        need_least(self, 0, "theta")

    def combine(self, block: Block, /) -> Block:
        check_count(self, len(block), 1)
        mean = block.mean(axis=0)
        agree = np.abs(np.sign(block).sum(axis=0)) >= self.theta
        return np.asarray(np.where(agree, mean, -mean))
