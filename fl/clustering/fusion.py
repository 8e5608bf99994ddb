"""Fusion penalties on the difference of two models, and what they part (FPFC: Yu, Liu, Sun, Wang, AAAI 2023).

The penalty g is of the norm of theta, so argmin_theta g(|theta|) + rho/2 |delta - theta|^2 is c delta with a factor c from 0 to 1
that depends on D = |delta| alone: `shrink`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
LEAST = 1e-150
"""Norms below this are taken for it: so that nothing is divided by 0."""


class Penalty(Protocol):
    """g(t, lambda), which promotes differences of 0."""

    def __call__(self, t: Values, /) -> Values:
        """g of norms t >= 0: float64, of any shape."""
        ...

    def shrink(self, distances: Values, rho: float, /) -> Values:
        """c with prox(delta) = c delta, of D = |delta| >= 0: float64 from 0 to 1, of the same shape."""
        ...

    def check(self, rho: float, /) -> None:
        """Raises ValueError for a rho with which the prox has no closed form."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Scad:
    """SCAD (Fan and Li 2001), smoothed to a parabola up to xi: P~_a(t, lambda) of the paper.

    lam: lambda, 0 for no penalty at all. a: beyond a lambda differences cost no more and are left as they are. xi: from 0, which
    is SCAD itself, to below lambda.
    """

    lam: float
    a: float = 3.7
    xi: float = 1e-3

    def __post_init__(self) -> None:
        if not (0 <= self.lam < inf and 0 <= self.xi < inf and 1 < self.a < inf):
            raise ValueError(f"lam and xi are 0 or more and a is above 1, all finite, not {self.lam}, {self.xi} and {self.a}")
        if self.lam > 0 and not self.xi < self.lam:
            raise ValueError(f"xi is below lam, not {self.xi} and {self.lam}")

    def __call__(self, t: Values, /) -> Values:
        lam, a, xi = self.lam, self.a, self.xi
        if lam == 0:
            return np.zeros_like(t)
        middle = (a * lam * t - 0.5 * (t**2 + lam**2)) / (a - 1)
        smooth = lam * t**2 / (2 * xi) + xi * lam / 2 if xi > 0 else np.zeros_like(t)
        found: Values = np.select([t <= xi, t <= lam, t <= a * lam], [smooth, lam * t, middle], lam**2 * (a + 1) / 2)
        return found

    def check(self, rho: float, /) -> None:
        """a > 1 + 1/rho: else lambda + lambda/rho is not below a lambda, and the third branch of `shrink` no minimum."""
        if self.lam > 0 and not self.a > 1 + 1 / rho:
            raise ValueError(f"a = {self.a} is above 1 + 1/rho = {1 + 1 / rho}, or the penalty's prox is not unique")

    def shrink(self, distances: Values, rho: float, /) -> Values:
        """The closed form of Algorithm 1, line 5. On a boundary both of its branches give the same; D = 0 is in the first."""
        lam, a, xi = self.lam, self.a, self.xi
        if lam == 0:
            return np.ones_like(distances)
        d = np.maximum(distances, LEAST)
        conditions = [d <= xi + lam / rho, d <= lam + lam / rho, d <= a * lam]
        third = (1 - a * lam / ((a - 1) * rho * d)) / (1 - 1 / ((a - 1) * rho))  # not below 0 where a > 1 + 1/rho
        smooth = np.full_like(d, xi * rho / (lam + xi * rho))
        found: Values = np.clip(np.select(conditions, [smooth, 1 - lam / (rho * d), third], 1.0), 0.0, 1.0)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class L1:
    """g(t) = lambda t, of FPFC-l1. Convex: it shrinks every difference, and so biases every model. lam: lambda, 0 or more."""

    lam: float

    def __post_init__(self) -> None:
        if not 0 <= self.lam < inf:
            raise ValueError(f"lam is finite and 0 or more, not {self.lam}")

    def __call__(self, t: Values, /) -> Values:
        found: Values = self.lam * t
        return found

    def check(self, rho: float, /) -> None:
        """Any rho will do."""

    def shrink(self, distances: Values, rho: float, /) -> Values:
        """max(0, 1 - lambda / (rho D)); at D = 0, where any factor will do, as near to it."""
        found: Values = np.maximum(0.0, 1 - self.lam / (rho * np.maximum(distances, LEAST)))
        return found


def components(distances: Values, clients: Sequence[int], nu: float) -> tuple[tuple[int, ...], ...]:
    """The clients that chains of distances of at most nu join, each set ascending, by their lowest ids. distances: (m, m)."""
    import networkx as nx

    graph = nx.from_numpy_array(distances <= nu)
    return tuple(sorted(tuple(sorted(clients[k] for k in joined)) for joined in nx.connected_components(graph)))
