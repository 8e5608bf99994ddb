"""Floats to integers modulo 2^32 or 2^64 and back, such that a weighted sum over clients provably does not wrap around.

A coordinate x in [-clip, clip] becomes a level in 0 .. 2^bits - 2 of a grid that contains 0 and both ends. A client sends
its levels times its integer weight, then the weight itself: the sum over clients holds its own denominator. Levels and
weights are at most 2^bits - 1 and max_weight, so `clients * (2^bits - 1) * max_weight < 2^ring_bits` rules a wrap out, and
`FixedPoint` refuses public parameters for which it does not hold.
"""

import math
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from .prg import KEY_BYTES

Ring = NDArray[np.unsignedinteger]
Floats = NDArray[np.float32] | NDArray[np.float64]

_BLOCK = 32 * 1024
_ZEROS = bytes(4 * _BLOCK)


@dataclass(frozen=True, slots=True)
class Nearest:
    """Round to the nearest level: the least error, and biased."""


@dataclass(frozen=True, slots=True)
class Stochastic:
    """Round up or down at random, unbiased (to 2^-22 of a step). key: 32 bytes, used for this one vector."""

    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Conditional:
    """Stochastic rounding drawn again until the l2 norm stays in bounds (Kairouz, Liu, Steinke 2021, Algorithm 1).

    key: 32 bytes, used for this one vector. l2: bound on the vector's norm before rounding. beta: chance, at most, that a
    draw is discarded; the bias and the norm after rounding follow from it.
    """

    key: bytes = field(repr=False)
    l2: float
    beta: float

    def __post_init__(self) -> None:
        if not 0 < self.beta < 1 or not 0 < self.l2 < math.inf:
            raise ValueError(f"conditional rounding needs 0 < beta < 1 and a finite l2 > 0, not {self.beta} and {self.l2}")


Rounding = Nearest | Stochastic | Conditional


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """ring: uint32 or uint64, shape (d + 1,), fresh: weighted levels, then the weight. clipped: coordinates cut off.

    largest: the largest absolute coordinate before clipping.
    """

    ring: Ring = field(repr=False)
    clipped: int
    largest: float = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class WeightedMean:
    """mean: float32, shape (d,), sum_i w_i x_i / sum_i w_i. weight: sum_i w_i, exact."""

    mean: NDArray[np.float32]
    weight: int


def _check_ring(ring_bits: object) -> None:
    if ring_bits not in (32, 64):
        raise ValueError(f"ring_bits is 32 or 64, not {ring_bits!r}")


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """The public parameters of one sum. Raises ValueError, which says what to change, unless no sum can wrap around.

    ring_bits: 32 or 64. bits: 2 .. 31 per level. clip: largest absolute coordinate. clients: most addends of a sum.
    max_weight: largest integer weight of a client.
    """

    ring_bits: int
    bits: int
    clip: float
    clients: int
    max_weight: int

    def __post_init__(self) -> None:
        _check_ring(self.ring_bits)
        if not 2 <= self.bits <= 31:
            raise ValueError(f"bits is 2 to 31, not {self.bits}")
        if not 2**-100 <= self.clip <= 2**100:
            raise ValueError(f"clip is positive and within 2^-100 and 2^100, so that float32 holds its steps, not {self.clip}")
        if self.clients < 1 or self.max_weight < 1:
            raise ValueError("clients and max_weight are at least 1")
        if self.clients * (2**self.bits - 1) * self.max_weight >= 2**self.ring_bits:
            raise ValueError(self._way_out())

    def _way_out(self) -> str:
        top, most = 2**self.bits - 1, 2**self.ring_bits - 1
        bits = (most // (self.clients * self.max_weight) + 1).bit_length() - 1
        ways = [f"bits={bits}"] if bits >= 2 else []
        ways += [f"max_weight={weight}"] if (weight := most // (self.clients * top)) else []
        ways += [f"clients={clients}"] if (clients := most // (self.max_weight * top)) else []
        ways += ["ring_bits=64"] if self.ring_bits == 32 and self.clients * top * self.max_weight < 2**64 else []
        return (
            f"{self.clients} clients of {self.bits} bits and weight {self.max_weight} could wrap around modulo "
            f"2^{self.ring_bits}; change one: {', '.join(ways) or 'none alone suffices, lower several'}"
        )

    @classmethod
    def finest(cls, ring_bits: int, clip: float, clients: int, max_weight: int) -> Self:
        """The parameters with the most bits that cannot wrap around. Raises ValueError if not even 2 bits fit."""
        _check_ring(ring_bits)
        bits = ((2**ring_bits - 1) // max(clients * max_weight, 1) + 1).bit_length() - 1
        return cls(ring_bits, min(max(bits, 2), 31), clip, clients, max_weight)

    @property
    def half(self) -> int:
        """Levels on either side of 0, which is the level `half`."""
        return (1 << self.bits - 1) - 1

    @property
    def step(self) -> float:
        """Distance of two levels."""
        return self.clip / self.half

    @property
    def dtype(self) -> type[np.uint32] | type[np.uint64]:
        return np.uint32 if self.ring_bits == 32 else np.uint64

    def error(self, rounding: Rounding) -> float:
        """Bound on |decoded mean - true mean| in each coordinate, for vectors within clip; float32 of the result included."""
        share = 0.5 if isinstance(rounding, Nearest) else 1.0
        return self.step * (share + 2**-20) + self.clip * 2**-23

    def l2_after(self, rounding: Conditional, length: int) -> float:
        """Bound on the l2 norm of a conditionally rounded vector (Kairouz, Liu, Steinke 2021, Algorithm 1)."""
        c, root = rounding.l2 / self.step, math.sqrt(length)
        likely = c**2 + length / 4 + math.sqrt(2 * math.log(1 / rounding.beta)) * (c + root / 2)
        return self.step * math.sqrt(min(likely, (c + root) ** 2))

    def encode(self, vector: Floats, weight: int, rounding: Rounding) -> Encoded:
        """One client's addend. vector: float32 or float64, shape (d,). weight: 0 .. max_weight.

        Raises ValueError for NaN or infinity, for a weight out of range, and for a norm over the rounding's l2.
        """
        if not 0 <= weight <= self.max_weight:
            raise ValueError(f"weight {weight} is not within 0 and max_weight={self.max_weight}")
        if vector.ndim != 1 or vector.dtype not in (np.float32, np.float64):
            raise ValueError("a vector of float32 or float64 is encoded")
        largest = max(abs(float(vector.max())), abs(float(vector.min()))) if len(vector) else 0.0
        if not math.isfinite(largest):
            raise ValueError("the vector has NaN or infinite coordinates; reject the update")
        clipped = int(np.count_nonzero(np.abs(vector) > self.clip)) if largest > self.clip else 0
        ring: Ring = np.empty(len(vector) + 1, self.dtype)
        self._levels(vector, clipped > 0, rounding, ring[:-1])
        ring[:-1] *= self.dtype(weight)
        ring[-1] = weight
        return Encoded(ring, clipped, largest)

    def _levels(self, vector: Floats, clip: bool, rounding: Rounding, out: Ring) -> None:
        """Write the levels to `out`; a block at a time, so that the passes over it stay in cache."""
        if isinstance(rounding, Nearest):
            self._draw(vector, clip, None, out)
            return
        dice = _Dice(rounding.key)
        before, after = self._draw(vector, clip, dice, out)
        if isinstance(rounding, Conditional):
            bound = self.l2_after(rounding, len(vector)) / self.step
            if math.sqrt(before) * self.step > rounding.l2 * (1 + 1e-9):
                raise ValueError(f"the vector's norm exceeds the rounding's l2={rounding.l2}; clip it first")
            while math.sqrt(after) > bound:
                _, after = self._draw(vector, clip, dice, out)

    def _draw(self, vector: Floats, clip: bool, dice: "_Dice | None", out: Ring) -> tuple[float, float]:
        """One rounding into `out`. Returns the squared norms before and after it in steps (0 and 0 without dice)."""
        half, before, after = self.half, 0.0, 0.0
        scale = math.nextafter(half / self.clip, 0)  # |x| <= clip then implies |scale * x| <= half in floats too
        signed = out.view(np.int32 if self.ring_bits == 32 else np.int64)  # levels are below 2^31; this cast is the fast one
        scratch = np.empty(_BLOCK)
        for start in range(0, len(vector), _BLOCK):
            x = vector[start : start + _BLOCK]
            y = scratch[: len(x)]
            np.multiply(x, scale, out=y, dtype=np.float64)
            if clip:
                np.clip(y, -half, half, out=y)
            if dice is None:
                np.rint(y, out=y)
            else:
                before += float(y @ y)
                y += dice.uniform(len(y))
                np.floor(y, out=y)
                np.minimum(y, half, out=y)  # y + 1 - 2^-32 is y + 1 in floats when y is large
                after += float(y @ y)
            y += half
            np.copyto(signed[start : start + _BLOCK], y, casting="unsafe")
        return before, after

    def decode(self, total: Ring) -> WeightedMean:
        """The weighted mean in a sum of at most `clients` encodings. total: of this ring, shape (d + 1,).

        Raises ValueError for a total that no such sum can be, which a client with a made-up vector causes.
        """
        if total.dtype != self.dtype or total.ndim != 1 or len(total) < 1:
            raise ValueError(f"a total is a vector of {self.dtype.__name__} with the weight in its last element")
        weight = int(total[-1])
        if not 0 < weight <= self.clients * self.max_weight:
            raise ValueError(f"the sum of weights is {weight}, not within 1 and {self.clients * self.max_weight}")
        mean = np.empty(len(total) - 1, np.float32)
        offset, most, scale = self.dtype(self.half * weight), self.half * weight, self.step / weight
        for start in range(0, len(mean), _BLOCK):
            block = total[start : min(start + _BLOCK, len(mean))]
            centred = (block - offset).view(np.int32 if self.ring_bits == 32 else np.int64)
            if int(centred.max()) > most or int(centred.min()) < -most:
                raise ValueError("the sum is out of range: a client's vector was not a proper encoding")
            np.multiply(centred, scale, out=mean[start : start + _BLOCK], casting="unsafe", dtype=np.float64)
        return WeightedMean(mean, weight)


class _Dice:
    """Uniform numbers in [0, 1), multiples of 2^-32, from a key's AES-256-CTR keystream; a block at a time."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(key)}")
        self._stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
        self._buffer = bytearray(4 * _BLOCK + 16)
        self._uniform = np.empty(_BLOCK)

    def uniform(self, count: int) -> NDArray[np.float64]:
        """float64, shape (count,), count <= 32768. Valid until the next call."""
        self._stream.update_into(memoryview(_ZEROS)[: 4 * count], self._buffer)
        words, out = np.frombuffer(self._buffer, "<i4", count), self._uniform[:count]
        np.multiply(words, 2.0**-32, out=out)
        out += 0.5
        return out
