"""Collusive attacks from the mean and the deviation of the updates seen (attacks of group 5.3).

mu and sd are of the honest updates where the adversary is omniscient, of the members' own ones at Level.COLLUDING. n counts the
session's clients, f the members among them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import ClassVar

import numpy as np

from ..fl.field_ranges import need_above, need_least, need_numbers
from ..protocol.view.answers import Vector
from .geometry import Geometry, Perturbation, geometry, mean_of
from .knowledge import Colluding, Level, forged


@dataclass(frozen=True, slots=True)
class ALIE:
    """u = mu - z sd, "a little is enough" (Baruch et al. 2019, algorithm 3). z: None for the paper's; negative turns the sign."""

    z: float | None = None
    needs: ClassVar[Level] = Level.COLLUDING
    identical: ClassVar[bool] = True

    def __post_init__(self) -> None:
        need_numbers(self, "z")

    def __call__(self, coalition: Colluding, /) -> Mapping[int, Vector]:
        z = largest_hidden_z(len(coalition.roster), coalition.faulty) if self.z is None else self.z
        found = geometry(coalition.seen, "deviation").point(z)
        return forged(coalition, [found.copy() for _ in coalition.own])


def largest_hidden_z(n: int, f: int) -> float:
    """z = Phi^-1((n - f - s) / (n - f)) with s = floor(n / 2 + 1) - f, the honest updates that must be won for a majority.

    Where members are a majority themselves, or alone, the quantile is kept half an update away from 0 and 1.
    """
    honest = max(n - f, 1)
    supporters = n // 2 + 1 - f
    share = (honest - supporters) / honest
    return NormalDist().inv_cdf(min(max(share, 0.5 / honest), 1 - 0.5 / honest))


@dataclass(frozen=True, slots=True)
class IPM:
    """u = -eps mu, inner product manipulation (Xie et al. 2020). eps: .1 against Krum; above (n - f) / f it turns the mean."""

    eps: float
    needs: ClassVar[Level] = Level.COLLUDING
    identical: ClassVar[bool] = True

    def __post_init__(self) -> None:
        need_numbers(self, "eps")

    def __call__(self, coalition: Colluding, /) -> Mapping[int, Vector]:
        found = mean_of(coalition.seen)
        return forged(coalition, [np.float32(-self.eps) * found for _ in coalition.own])


@dataclass(frozen=True, slots=True)
class MinMax:
    """u = mu + g p with the largest g at which u is no farther from any update than any two updates are from each other.

    Shejwalkar and Houmansadr 2021, eq. 11. The bound is a quadratic in g for every update: g is its least positive root.
    """

    perturbation: Perturbation = "deviation"
    needs: ClassVar[Level] = Level.COLLUDING
    identical: ClassVar[bool] = True

    def __call__(self, coalition: Colluding, /) -> Mapping[int, Vector]:
        shape = geometry(coalition.seen, self.perturbation)
        found = shape.point(min_max_factor(shape))
        return forged(coalition, [found.copy() for _ in coalition.own])


@dataclass(frozen=True, slots=True)
class MinSum:
    """The same with sum_i |u - x_i|^2 <= max_i sum_j |x_i - x_j|^2 (Shejwalkar and Houmansadr 2021, eq. 12)."""

    perturbation: Perturbation = "deviation"
    needs: ClassVar[Level] = Level.COLLUDING
    identical: ClassVar[bool] = True

    def __call__(self, coalition: Colluding, /) -> Mapping[int, Vector]:
        shape = geometry(coalition.seen, self.perturbation)
        found = shape.point(min_sum_factor(shape))
        return forged(coalition, [found.copy() for _ in coalition.own])


def min_max_factor(shape: Geometry) -> float:
    """The largest g with max_i |mu + g p - x_i|^2 <= max_ij |x_i - x_j|^2; 0 where p is 0.

    |mu + g p - x_i|^2 = g^2 |p|^2 - 2 g <x_i - mu, p> + |x_i - mu|^2, and at g = 0 the bound holds for all i.
    """
    square = shape.length**2
    if square == 0:
        return 0.0
    slack = np.maximum(shape.distances().max() - shape.to_mean, 0.0)
    return float(np.min((shape.slope + np.sqrt(shape.slope**2 + square * slack)) / square))


def min_sum_factor(shape: Geometry) -> float:
    """The largest g with sum_i |mu + g p - x_i|^2 <= max_i sum_j |x_i - x_j|^2; 0 where p is 0. The slopes sum to 0."""
    if shape.length == 0:
        return 0.0
    slack = max(float(shape.distances().sum(axis=1).max() - shape.to_mean.sum()), 0.0)
    return sqrt(slack / shape.count) / shape.length


@dataclass(frozen=True, slots=True)
class FangKrum:
    """u_1 = -L sign(mu) with L halved until Krum, built for f, picks it among n; the others stand `spread` |u_1| from it.

    Fang et al. 2020, section 4.2, with the start of L from their theorem 1; the update 0, which is the global model, is their
    reference. Halving ends at L = 1e-5 in any case. Krum counts n - f - 2 neighbours.
    """

    spread: float = 1e-3
    needs: ClassVar[Level] = Level.COLLUDING
    identical: ClassVar[bool] = False

    def __post_init__(self) -> None:
        need_least(self, 0, "spread")

    def __call__(self, coalition: Colluding, /) -> Mapping[int, Vector]:
        shape = geometry(coalition.seen, "sign")
        first = -np.sign(shape.mean) * np.float32(fang_krum_factor(shape, coalition.faulty, self.spread))
        radius = np.float32(self.spread * float(np.linalg.norm(first)))
        vectors: list[Vector] = []
        for number, member in enumerate(sorted(coalition.own)):
            noise = coalition.own[member].rng.standard_normal(len(first), dtype=np.float32)
            noise *= radius / np.float32(np.linalg.norm(noise))
            vectors.append(first + noise if number else first)
        return forged(coalition, vectors)


def fang_krum_factor(shape: Geometry, faulty: int, spread: float) -> float:
    """L of FangKrum, in Gram space."""
    m, d = shape.count, max(shape.length**2, 1.0)
    n = m + faulty
    along = shape.slope + shape.basis[-1, -2]
    square = shape.to_mean + 2 * shape.basis[: shape.count, -1] + shape.basis[-1, -1]
    between = np.zeros((n, n))
    between[:m, :m] = shape.distances()
    nearest = max(1, n - faulty - 2)
    among = np.sort(between[:m, :m], axis=1)[:, 1 : nearest + 1].sum(axis=1)
    factor = sqrt(among.min() / (max(1, n - 2 * faulty - 1) * d)) + sqrt(max(float(square.max()), 0.0) / d)
    while factor > 1e-5:
        between[m:, :m] = np.maximum(square - 2 * factor * along + factor**2 * d, 0.0)
        between[:m, m:] = between[m:, :m].T
        radius = (spread * factor) ** 2 * d
        between[m:, m:] = 2 * radius
        between[m, m:] = between[m:, m] = radius
        np.fill_diagonal(between, 0.0)
        scores = np.sort(between, axis=1)[:, 1 : nearest + 1].sum(axis=1)
        if int(np.argmin(scores)) == m:
            break
        factor /= 2
    return factor


@dataclass(frozen=True, slots=True)
class FangTrim:
    """Against trimmed mean and median: each coordinate beyond all updates seen, on the side away from their mean's sign.

    mu_j > 0: uniform between the least value and b times it (a b-th of it if it is positive); else beyond the greatest value.
    Independent for every member (Fang et al. 2020, section 4.3; b = 2).
    """

    b: float = 2.0
    needs: ClassVar[Level] = Level.COLLUDING
    identical: ClassVar[bool] = False

    def __post_init__(self) -> None:
        need_above(self, 1, "b")

    def __call__(self, coalition: Colluding, /) -> Mapping[int, Vector]:
        seen = coalition.seen
        least, most, total = seen[0].copy(), seen[0].copy(), seen[0].astype(np.float64)
        for update in seen[1:]:
            np.minimum(least, update, out=least)
            np.maximum(most, update, out=most)
            total += update
        rising = total > 0
        edge = np.where(rising, least, most)
        outward = (edge < 0) == rising  # whether b times the edge is beyond it, on the side wanted
        end = np.where(outward, np.float32(self.b) * edge, edge / np.float32(self.b))
        vectors: list[Vector] = []
        for _, own in sorted(coalition.own.items()):
            u = own.rng.random(len(edge), dtype=np.float32)
            vectors.append((edge + u * (end - edge)).astype(np.float32))
        return forged(coalition, vectors)
