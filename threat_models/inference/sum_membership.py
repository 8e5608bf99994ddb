"""Whether a known update is in a plain sum of several: a sum hides who, not what (Ngo et al. 2024's setting).

The adversary sees a sum that was published exactly, knows how many updates are in it, and has a candidate, an update that it
knows or can make itself (of a client whose data it has). It plays updates of its own on public data for what the others look
like. Secure aggregation does not stand against this: it shows the sum.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]
COMPONENTS = 60


@dataclass(frozen=True, slots=True, eq=False)
class Crowd:
    """What one update looks like to the adversary: normal, with a variance along each main direction and one for all that is
    left.

    centre: float64 (d,), the mean update. basis: float64 (components, d), orthonormal. variance: float64 (components,), of one
    update along each. rest: variance a direction of what is left; dimensions: how many directions that much variance fills.
    """

    centre: Rows = field(repr=False)
    basis: Rows = field(repr=False)
    variance: Rows = field(repr=False)
    rest: float
    dimensions: float

    @classmethod
    def of(cls, shadow: NDArray[np.float32], components: int = COMPONENTS) -> "Crowd":
        """shadow: float32 (k, d), k of 8 or more, of clients like those of the sum, in no order.

        The first half gives the directions, the second the variances, along them and of the rest: e the rest of an update,
        E|e|^2 = tr S and, for two, E<e, e'>^2 = tr S^2, so `rest` = tr S^2 / tr S fills (tr S)^2 / tr S^2 directions. Raises
        ValueError for too few, or for updates that are all the same.
        """
        rows = np.asarray(shadow, np.float64)
        if len(rows) < 8:
            raise ValueError("a crowd is known from eight shadow updates at least")
        centre = rows.mean(axis=0)
        first, second = rows[: len(rows) // 2] - centre, rows[len(rows) // 2 :] - centre
        values, vectors = np.linalg.eigh(first @ first.T)
        kept = np.argsort(values)[::-1][: min(components, len(first) - 1)]
        kept = kept[values[kept] > 1e-9 * values.max()]
        if not len(kept) or not values.max() > 0:
            raise ValueError("the shadow updates are all the same")
        basis = (vectors[:, kept] / np.sqrt(values[kept])).T @ first
        along = second @ basis.T
        left = second - along @ basis
        products = np.square(left @ left.T)
        energy, count = float(np.square(left).sum(axis=1).mean()), len(left)
        squares = float(products.sum() - np.trace(products)) / (count * (count - 1))
        variance = np.square(along).mean(axis=0)
        return cls(centre, basis, np.maximum(variance, 1e-6 * variance.max()), squares / energy, energy * energy / squares)

    def ratio(self, total: NDArray[np.float32] | Rows, candidate: NDArray[np.float32] | Rows, count: int) -> float:
        """log p(total | candidate is one of the count) - log p(total | it is none): a Gaussian likelihood ratio.

        total: float (d,), the sum of `count` updates, 2 or more. The others are taken as independent draws of the crowd.
        """
        if count < 2:
            raise ValueError("a sum of one update is that update")
        seen = np.asarray(total, np.float64) - count * self.centre
        inside = self._log(seen - (np.asarray(candidate, np.float64) - self.centre), count - 1)
        return inside - self._log(seen, count)

    def _log(self, value: Rows, count: int) -> float:
        along = self.basis @ value
        left, spread = float(value @ value - along @ along), count * self.variance
        of_rest = left / (count * self.rest) + self.dimensions * np.log(count * self.rest)
        return float(-0.5 * ((np.square(along) / spread + np.log(spread)).sum() + of_rest))
