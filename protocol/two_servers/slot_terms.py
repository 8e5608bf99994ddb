"""What is shared for sums into K slots, as integers modulo 2^64: K counts, then K rows of a weighted vector and its weight.

Spec: specs/slots.md. A client has a count of one and a row in every slot that it chose, and zeros elsewhere.
"""

import hashlib
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import cbor2
import numpy as np
from numpy.typing import NDArray

from ..core.errors import OF_NO_UPDATE, OF_NO_WEIGHT
from ..core.session import Session
from ..view.work import LocalWork
from .terms import Integers, ShareTerms, Words

SLOTS = "slots"
"""The kind of work."""


@dataclass(frozen=True, slots=True)
class SharedSlots:
    """K slots of d coordinates. most: the largest share of a client in a slot. max_norm: of each vector that is put in one.

    floor: fewest clients of a slot that is opened. Raises ValueError, which says what to change, where no fixed point holds the
    weights exactly.
    """

    count: int
    d: int
    most: int
    max_norm: float
    floor: int

    def __post_init__(self) -> None:
        if self.terms.bits < self._headroom:
            raise ValueError(f"{self.count} slots with shares up to {self.most} leave no room for a fixed point; ask for fewer")

    @property
    def _headroom(self) -> int:
        """Binary logarithm of how much larger K counts and weighted rows may be than one vector."""
        return math.ceil(math.log2(math.sqrt(3 * self.count) * self.most))

    @property
    def terms(self) -> ShareTerms:
        """Of all that one client shares: K (d + 2) coordinates, never projected."""
        length = self.count * (self.d + 2)
        return ShareTerms(length, max(length + length % 2, 2), math.ldexp(self.max_norm, self._headroom), self.floor)

    @property
    def one(self) -> int:
        """What a count of one, and a weight of one, is as an integer."""
        return 1 << self.terms.bits - self._headroom

    @property
    def error(self) -> float:
        """Bound on the norm of the error of a mean: every addend's rounding, whose weight is at least 1."""
        return self.terms.step * math.sqrt(self.d) / 2 * (1 + 2.0**-40)

    def binding(self, session: Session) -> bytes:
        """32 bytes that name the session and these slots; shares of other ones do not fit."""
        norm = struct.pack(">d", self.max_norm)
        fields = cbor2.dumps([self.count, self.d, self.most, norm, self.floor], canonical=True)
        return hashlib.sha256(b"cloister/v1/two servers slots" + session.digest + hashlib.sha256(fields).digest()).digest()

    def committed(self, shares: Sequence[int], blinding: bytes) -> list[int]:
        """What a client commits to: its shares of the counts, each with 64 bits above it that are hashed from the blinding.

        A sum of the shares alone, without wrap, would show the second server how many of them wrapped around, and so, with
        probability `one` / 2^64 for each client and slot, a choice.
        """
        above = hashlib.shake_256(b"cloister/v1/two servers slot words" + blinding).digest(8 * self.count)
        return [s + (int.from_bytes(above[8 * k : 8 * k + 8], "big") << 64) for k, s in enumerate(shares)]

    def beyond(self, work: LocalWork) -> str | None:
        """Why this work does not fit into shares, or None."""
        norms = np.linalg.norm(work.vector.astype(np.float64), axis=1)
        return None if float(norms.max()) <= self.max_norm else f"the norm of a vector exceeds max_norm={self.max_norm}"

    def shared(self, work: LocalWork) -> NDArray[np.float64]:
        """What a client shares, float64 (K (d + 2),): K times 0 or max_norm, then per slot w x and w times max_norm."""
        counts = np.array([self.max_norm if share else 0.0 for share in work.shares])
        rows = np.zeros((self.count, self.d + 1))
        for k in (k for k, share in enumerate(work.shares) if share):
            rows[k] = [*(work.shares[k] * work.vector[k].astype(np.float64)), work.shares[k] * self.max_norm]
        return np.concatenate([counts, rows.ravel()])

    def counts(self, total: Integers, clients: int) -> tuple[int, ...] | None:
        """How many chose each slot, from the counts' total, int64 (K,); None for what no sum of counts can be."""
        if (total % self.one).any() or (total < 0).any() or (total > clients * self.one).any():
            return None
        return tuple((total // self.one).tolist())

    def opened(self, counts: tuple[int, ...] | None) -> tuple[int, ...]:
        """The slots that are opened: those that enough clients chose; none where the counts cannot be."""
        return tuple(k for k, count in enumerate(counts or ()) if count >= max(self.floor, 2))

    def rows(self, total: Words, opened: tuple[int, ...]) -> Words:
        """The rows of these slots, shape (len(opened), d + 1), in a vector or a total of vectors."""
        return total[self.count :].reshape(self.count, self.d + 1)[list(opened)]

    def slot(self, row: Integers, k: int, chose: int) -> tuple[NDArray[np.float64], int]:
        """The weighted sum, float64 (d,), of slot k, which so many chose, and its weight. Raises ValueError if it cannot be."""
        weight = int(row[-1]) // self.one
        if int(row[-1]) % self.one or not chose <= weight <= chose * self.most:
            raise ValueError(f"slot {k} has a weight that no {chose} {OF_NO_WEIGHT}")
        vector = self.terms.decode(row[:-1], 1.0)
        if float(np.linalg.norm(vector)) > (weight * self.max_norm + chose * self.error) * (1 + 1e-9):
            raise ValueError(f"the sum of slot {k} {OF_NO_UPDATE}")
        return vector, weight
