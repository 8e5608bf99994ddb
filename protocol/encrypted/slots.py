"""What is encrypted for sums into K slots: counts of ones, then rows of weighted vectors; and what is read in their totals.

Spec: specs/encrypted.md for the sums themselves, of which these are two, one after the other. What is encrypted is brought to
a size at which whole numbers come back exactly, and vectors with a small error that is stated.
"""

import math
from dataclasses import dataclass

import numpy as np

from ..view import LocalWork
from .scaling import MOST_VALUE, RELATIVE_ERROR, SCALE, VALUE_ERROR, Values

COUNTS, SUMS = "encrypted sum/slot counts", "encrypted sum/slots"
"""The protocols of the two sessions."""


@dataclass(frozen=True, slots=True)
class EncryptedSlots:
    """K slots of d coordinates. most: the largest share of a client in a slot. floor: fewest clients of a sum that is used."""

    count: int
    d: int
    most: int
    floor: int

    def length(self, protocol: str) -> int:
        """Coordinates of a client's vector in a session of this protocol."""
        return self.count if protocol == COUNTS else self.count * (self.d + 2)

    def reported(self, protocol: str) -> int:
        """Numbers that members tell the server: the counts; with the sums, how many are in each slot now, then the weights."""
        return self.count if protocol == COUNTS else 2 * self.count

    def ones(self, work: LocalWork) -> Values:
        """1 in the slots that were chosen, float64 (K,)."""
        return np.array([1.0 if share else 0.0 for share in work.shares])

    def rows(self, work: LocalWork, opened: frozenset[int]) -> Values:
        """Float64 (K (d + 2),): per slot w x / most, w MOST_VALUE / most and 1; zeros where it is not both chosen and open."""
        found = np.zeros((self.count, self.d + 2))
        for k in (k for k, share in enumerate(work.shares) if share and k in opened):
            part = work.shares[k] / self.most
            found[k] = [*(part * work.vector[k].astype(np.float64)), part * MOST_VALUE, 1.0]
        return found.ravel()

    def read(self, protocol: str, values: Values, clients: int) -> tuple[list[float], Values]:
        """What a member reports, and the means that it learns, float64 (K, d), zeros where fewer than `floor` are in a slot.

        values: decrypted, without what rides along, of the sum of this many clients. Raises ValueError for what cannot be.
        """
        if protocol == COUNTS:
            counts = np.round(values / SCALE)
            self._check(counts, clients)
            return counts.tolist(), np.zeros((0, self.d))
        rows = values.reshape(self.count, self.d + 2) / SCALE
        counts, weights = np.round(rows[:, -1]), np.round(rows[:, -2] * (self.most / MOST_VALUE))
        self._check(counts, clients)
        if (weights < counts).any() or (weights > counts * self.most).any():
            raise ValueError("a slot has a weight that its clients cannot have given it")
        used = counts >= self.floor
        means = np.divide(self.most * rows[:, :-2], weights[:, None], out=np.zeros((self.count, self.d)), where=used[:, None])
        return [*counts.tolist(), *weights.tolist()], means

    def _check(self, counts: Values, clients: int) -> None:
        if (counts < 0).any() or (counts > clients).any():
            raise ValueError(f"{clients} clients cannot have counted themselves so: one of them did not follow")

    def error(self, clients: int, weight: float) -> float:
        """Bound on the l2 norm of a mean's error, from encryption, for vectors that can be encrypted."""
        return math.sqrt(self.d) * clients * (VALUE_ERROR / SCALE + RELATIVE_ERROR * MOST_VALUE) * self.most / weight
