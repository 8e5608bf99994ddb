"""What is encrypted for sums into K slots, in one input: a ciphertext of counts, then each slot's row in ciphertexts of its own.

Spec: specs/slots.md. So a slot can be handed out for opening, or kept back, by itself. What is encrypted is brought to a size at
which whole numbers come back exactly, and vectors with a small error that is stated.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...crypto.ckks import MOST_DIGITS
from ...crypto.ckks_ciphertexts import EncryptedVector
from ...crypto.ckks_secret import SecretContext
from ..view.work import LocalWork
from .scaling import MOST_VALUE, RELATIVE_ERROR, RIDING, SCALE, SLOTS, VALUE_ERROR, Values

PROTOCOL = "encrypted sum/slots"


@dataclass(frozen=True, slots=True)
class Counted:
    """What a member knows once it has opened the counts of a session: whose inputs they are of, and how many chose each slot."""

    alive: tuple[int, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EncryptedSlots:
    """K slots of d coordinates. most: the largest share of a client in a slot. floor: fewest clients of a slot that is opened."""

    count: int
    d: int
    most: int
    floor: int

    @property
    def row(self) -> int:
        """Values of one slot, padded: whole ciphertexts of a vector, a weight and a count."""
        return -(-(self.d + 2) // SLOTS) * SLOTS

    @property
    def length(self) -> int:
        """Values of a client's input: a ciphertext of counts, then K rows."""
        return SLOTS + self.count * self.row

    def values(self, work: LocalWork) -> Values:
        """Float64 (length,): the counts, and a one that rides along; per chosen slot w x / most, w MOST_VALUE / most and 1."""
        counts, rows = np.zeros(SLOTS), np.zeros((self.count, self.row))
        counts[: self.count] = [SCALE if share else 0.0 for share in work.shares]
        counts[self.count] = RIDING
        for k in (k for k, share in enumerate(work.shares) if share):
            part = work.shares[k] / self.most
            rows[k, : self.d + 2] = [*(part * work.vector[k].astype(np.float64)), part * MOST_VALUE, 1.0]
        return np.concatenate([counts, SCALE * rows.ravel()])

    def part(self, total: EncryptedVector, chosen: tuple[int, ...] | None) -> bytes:
        """The ciphertexts of these slots' rows in a total, one after the other; of the counts for None."""
        each = self.row // SLOTS
        places = [0] if chosen is None else [1 + k * each + c for k in chosen for c in range(each)]
        return EncryptedVector(total.parameters, len(places) * SLOTS, tuple(total.chunks[p] for p in places)).to_bytes()

    def chosen(self, counts: Sequence[float]) -> tuple[int, ...]:
        """The slots that are opened: those that enough clients chose."""
        return tuple(k for k, count in enumerate(counts) if count >= self.floor)

    # --- at a member ------------------------------------------------------------------------------------------------------

    def counts(self, key: SecretContext, ciphertexts: bytes, alive: tuple[int, ...]) -> Counted:
        """How many chose each slot. Raises ValueError for what cannot be the counts of these clients."""
        values = key.decrypt(key.read(ciphertexts, SLOTS)).rounded(MOST_DIGITS)
        self._check_finite(values)
        if round(float(values[self.count]) / RIDING) != len(alive):
            raise ValueError(f"counts of other clients than the {len(alive)} that are said to be in them")
        counts = np.round(values[: self.count] / SCALE)
        if (counts < 0).any() or (counts > len(alive)).any():
            raise ValueError(f"{len(alive)} clients cannot have counted themselves so: one of them did not follow")
        return Counted(alive, tuple(int(count) for count in counts))

    def means(self, key: SecretContext, ciphertexts: bytes, counts: Mapping[int, int]) -> tuple[list[float], Values]:
        """The weights of the open slots, and the means, float64 (K, d), zeros for the others. counts: of the open slots.

        Raises ValueError for what cannot be the sums of so many clients.
        """
        values = key.decrypt(key.read(ciphertexts, len(counts) * self.row)).rounded(MOST_DIGITS)
        self._check_finite(values)
        rows = values.reshape(len(counts), self.row)[:, : self.d + 2] / SCALE
        weights, means = [], np.zeros((self.count, self.d))
        for (k, count), row in zip(counts.items(), rows, strict=True):
            weight = float(np.round(row[-2] * (self.most / MOST_VALUE)))
            if round(float(row[-1])) != count:
                raise ValueError(f"a sum of {round(float(row[-1]))} clients in slot {k}, which {count} chose")
            if not count <= weight <= count * self.most:
                raise ValueError(f"slot {k} has a weight that its clients cannot have given it")
            means[k] = row[:-2] * (self.most / weight)
            weights.append(weight)
        return weights, means

    def _check_finite(self, values: Values) -> None:
        if not np.isfinite(values).all():
            raise ValueError("a sum that is not finite")

    def error(self, clients: int, weight: float) -> float:
        """Bound on the l2 norm of a mean's error, from encryption, for vectors that can be encrypted."""
        return math.sqrt(self.d) * clients * (VALUE_ERROR / SCALE + RELATIVE_ERROR * MOST_VALUE) * self.most / weight
