"""The public parameters of the two-server protocol, and the proof that nothing wraps around modulo 2^64.

Spec: specs/two_servers.md, "Terms". Every party computes them from the same four numbers; nothing of them is negotiated.
"""

import hashlib
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import isqrt

import cbor2
import numpy as np
from numpy.typing import NDArray

from ...crypto.ring_projection import REPEATS, RingProjection, growth, relative_deviation
from ..core.session import Session
from ..parts.gate import Rules
from ..wire.fields import MAX_VECTOR_BYTES

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]

PROTOCOL = "two servers"
DEVIATIONS = 6
"""The stated tolerance of a projected inner product, in its standard deviations."""
COARSEST = 2.0**-8
"""Fixed point that may lose more than this share of max_norm is refused."""
_MOST_BITS = 31
_TOP = 2**63 - 1


class TooLarge(ValueError):
    """The update is not finite, or its norm exceeds the terms' max_norm."""


@dataclass(frozen=True, slots=True)
class ShareTerms:
    """length: coordinates d of an update. width: k, to which Gram questions project (no projection where d <= k).

    max_norm: largest norm of an update. floor, corrupt: as in `Rules`, of sums. Raises ValueError, which says what to
    change, if no fixed point that is proved not to wrap is fine enough.
    """

    length: int
    width: int
    max_norm: float
    floor: int
    corrupt: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.length <= MAX_VECTOR_BYTES // 8:
            raise ValueError(f"length is 1 to {MAX_VECTOR_BYTES // 8}, not {self.length}")
        if self.width < REPEATS or self.width % REPEATS:
            raise ValueError(f"width is even and at least {REPEATS}, not {self.width}")
        if not 2**-100 <= self.max_norm <= 2**100:
            raise ValueError(f"max_norm is within 2^-100 and 2^100, not {self.max_norm}")
        if self.floor < 2:
            raise ValueError("the floor is at least 2: a sum of one client is its update")
        _ = self.rules
        if not self.bits or self.rounding > self.max_norm * COARSEST:
            raise ValueError(f"a width of {self.width} leaves {self.bits} bits to {self.length} coordinates; choose a larger one")

    @property
    def rules(self) -> Rules:
        """What sums may show."""
        return Rules(self.floor, self.corrupt)

    @property
    def projected(self) -> bool:
        """Whether Gram questions are answered on projections; otherwise they are exact for the fixed-point updates."""
        return self.length > self.width

    @property
    def columns(self) -> int:
        """Ring elements of a row in a Gram question."""
        return min(self.length, self.width)

    @property
    def growth(self) -> int:
        """Bound on what a Gram question's projection does to squared norms."""
        return growth(self.length, self.width) if self.projected else 1

    @property
    def gram_unit(self) -> float:
        """What one unit of a Gram matrix stands for."""
        return self.step**2 / (REPEATS if self.projected else 1)

    @property
    def bits(self) -> int:
        """The most bits b, up to 31, with which growth * radius^2 < 2^63; 0 if none."""
        fitting = (b for b in range(_MOST_BITS, 0, -1) if self.growth * self._radius(b) ** 2 <= _TOP)
        return next(fitting, 0)

    def _radius(self, bits: int) -> int:
        """Bound on the norm of an encoded update in steps.

        2^b for the norm itself; sqrt(d)/2 for rounding to the nearest; d 2^(b-52) + 1 for the float64 arithmetic, whose
        sum of d squares is off by a factor of at most 1 + d 2^-52.
        """
        return (1 << bits) + (isqrt(self.length - 1) + 2) // 2 + (self.length << bits >> 52) + 1

    @property
    def radius(self) -> int:
        return self._radius(self.bits)

    @property
    def largest(self) -> int:
        """Bound on every entry of a Gram matrix of honest rows, below 2^63."""
        most: int = self.growth * self.radius**2
        return most

    @property
    def step(self) -> float:
        """What one unit of the fixed point stands for."""
        return math.ldexp(self.max_norm, -self.bits)

    @property
    def rounding(self) -> float:
        """Bound on the norm of an update's rounding error."""
        return self.step * (math.sqrt(self.length) / 2 + 2.0**-20)

    @property
    def most_weight(self) -> int:
        """Bound on sum_i |q_i| of a weight row: times the radius it stays below 2^63."""
        return _TOP // self.radius

    @property
    def most_products(self) -> int:
        """How many inner products under fresh projections one update may enter: a quarter of its coordinates.

        Each is a known quadratic form of the updates, so as many as there are coordinates could determine them. Without a
        projection every question has the same answer, and there is no limit (0).
        """
        return max(self.length // 4, 1) if self.projected else 0

    @property
    def deviation(self) -> float:
        """The stated error of a projected inner product over the product of the norms: 6 standard deviations at most."""
        return DEVIATIONS * relative_deviation(self.width) if self.projected else 0.0

    def binding(self, session: Session) -> bytes:
        """32 bytes that name the session and these terms; shares of other terms do not fit."""
        norm = struct.pack(">d", self.max_norm)
        rules = [self.floor, self.corrupt] if self.corrupt else [self.floor]
        fields = cbor2.dumps([self.length, self.width, norm, *rules], canonical=True)
        return hashlib.sha256(b"cloister/v1/two servers" + session.digest + hashlib.sha256(fields).digest()).digest()

    def encode(self, update: NDArray[np.float32]) -> Integers:
        """The update in steps, rounded to the nearest: int64 (d,), of norm at most `radius`. Raises TooLarge."""
        if update.shape != (self.length,):
            raise ValueError(f"an update has {self.length} coordinates, not shape {update.shape}")
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = update.astype(np.float64)
            if not scaled @ scaled <= self.max_norm**2:
                raise TooLarge(f"the update is not finite, or its norm exceeds max_norm={self.max_norm}")
        scaled *= 1 / self.step
        np.rint(scaled, out=scaled)
        return scaled.astype(np.int64)

    def decode(self, total: Integers, unit: float) -> NDArray[np.float64]:
        """The weighted sum that a total of encodings under a weight row of this unit stands for: float64 (d,)."""
        return total.astype(np.float64) * (self.step * unit)

    def weigh(self, weights: Mapping[int, float]) -> tuple[dict[int, int], float]:
        """Weights as whole multiples of a unit, which is a power of two: a non-zero weight never becomes zero.

        |a_i - unit q_i| is at most the unit, at most 2 sum |a| / (most_weight - 2 clients - 16), and 0 where the weights are such
        multiples. Raises ValueError for weights that do not add up to a positive finite number.
        """
        some = {i: a for i, a in weights.items() if a != 0}
        room = self.most_weight - 2 * len(some) - 16  # for rounding, of weights and of this division
        total = math.fsum(abs(a) for a in some.values()) if some else 0.0
        if not 0 < total < math.inf or room < len(some):
            raise ValueError("weights of a sum add up to a positive finite number, over not too many clients")
        unit = math.ldexp(1.0, math.frexp(max(total / room, 2.0**-1000))[1])
        return {i: round(a / unit) or (1 if a > 0 else -1) for i, a in some.items()}, unit

    def sum_error(self, weights: Mapping[int, float], whole: Mapping[int, int], unit: float) -> float:
        """Bound on the norm of a sum's error: the updates' rounding, the weights', and float64's."""
        rounding = sum(abs(a) for a in weights.values()) * self.rounding
        weighing = sum(abs(weights[i] - q * unit) for i, q in whole.items()) * self.radius * self.step
        return rounding + weighing + sum(abs(q) for q in whole.values()) * unit * self.radius * self.step * 2.0**-50

    def gram_tolerance(self, diagonal: NDArray[np.float64]) -> float:
        """Bound on |error of entry i, j| / (norm_i norm_j), given the measured squared norms, in the updates' own units.

        It holds for every entry whose projected squared norms and inner product are within the stated deviation. An update
        that was measured as 0 may have been lost whole: then the bound is at least 1.
        """
        t, lost = self.deviation, bool((diagonal <= 0).any())
        least = math.sqrt(float(diagonal[diagonal > 0].min()) / (1 + t)) - self.rounding if (diagonal > 0).any() else math.inf
        r = self.rounding / least if least > 0 else math.inf
        return max(t + (1 + t) * (2 * r + r * r) + 2.0**-50, 1.0 + 2.0**-40 if lost else 0.0)

    def project(self, key: bytes) -> RingProjection | None:
        """The projection of a question, None where there is none."""
        return RingProjection.draw(key, self.length, self.width) if self.projected else None
