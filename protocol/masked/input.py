"""What a client puts into a masked sum, and what the server reads from the total: weighted vectors in fixed point.

Weights are real numbers that the server knows, times the client's number of samples where asked, which it does not. A client
scales its vector by its share r of the largest possible weight, so all bits of the ring serve the vector, and sends r along
as one more coordinate where it is secret.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...crypto.fixed_point import FixedPoint, Nearest
from ..core.errors import OF_CLIP
from ..view.work import LocalWork
from .terms import Ring

Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Total:
    """mean: float32 (d,), sum_i a_i x_i / sum_i a_i. weight: sum_i a_i. relative: bound on the weight's relative error.

    error: bound on the l2 norm of the mean's error from fixed point, for the right weight. noise: standard deviation of what
    was added to each coordinate of the mean on purpose. energy: mean squared norm with the sum's weights, where it was asked for.
    """

    mean: Vector
    weight: float
    relative: float
    error: float
    noise: float = 0.0
    energy: float | None = None


LIMBS, LIMB_BITS = 4, 16
"""A squared norm is added up exactly, in so many digits, each a ring element of its own."""


_ONE = 1 << (LIMBS * LIMB_BITS - 1)


@dataclass(frozen=True, slots=True)
class InputTerms:
    """Public. largest: the largest |weight| that the server gives. max_samples: most samples of a client; 0 if not counted.

    energy: whether squared norms are added up too, as fractions of clip^2 d. What their digits add up to tells their sum, and by
    carries at most log2(clients) bits beside, of each digit.
    """

    ring_bits: int
    clip: float
    clients: int
    largest: float
    max_samples: int
    energy: bool = False

    def __post_init__(self) -> None:
        if self.energy and self.clients << LIMB_BITS > 1 << self.ring_bits:
            raise ValueError(f"the squared norms of {self.clients} clients are not added up in {self.ring_bits} bits")

    @property
    def fixed(self) -> FixedPoint:
        """Raises ValueError if not even 2 bits fit."""
        return FixedPoint.finest(self.ring_bits, self.clip, self.clients, 1)

    def length(self, d: int) -> int:
        """Ring elements of an input: the vector, the secret share if there is one, the count of clients, digits of the energy."""
        return d + (2 if self.max_samples else 1) + (LIMBS if self.energy else 0)

    def unfit(self, work: LocalWork) -> str | None:
        """Why this work cannot be put in, or None."""
        if (reason := beyond(work.vector, self.clip)) is not None:
            return reason
        if self.max_samples and work.samples > self.max_samples:
            return f"more samples than the {self.max_samples} of protection.max_samples"
        return None

    def encode(self, work: LocalWork, weight: float) -> Ring:
        """One client's input. Raises ValueError for what `unfit` names."""
        if (reason := self.unfit(work)) is not None:
            raise ValueError(reason)
        share = weight / self.largest
        if self.max_samples:
            share *= work.samples / self.max_samples
        scaled = np.empty(len(work.vector) + (1 if self.max_samples else 0))
        np.multiply(work.vector, share, out=scaled[: len(work.vector)])
        if self.max_samples:
            scaled[-1] = share * self.clip
        ring = self.fixed.encode(scaled, 1, Nearest()).ring
        if not self.energy:
            return ring
        square = float(np.square(work.vector, dtype=np.float64).sum())
        parts = round(abs(share) * square / self._most_energy(len(work.vector)) * _ONE)
        digits = [(parts >> LIMB_BITS * k) % (1 << LIMB_BITS) for k in range(LIMBS)]
        return np.concatenate([ring, np.array(digits, ring.dtype)])

    def _most_energy(self, d: int) -> float:
        return self.clip**2 * d

    def decode(self, total: Ring, weights: NDArray[np.float64]) -> Total | None:
        """The mean in the total of the clients with these weights. None if the weights add up to nothing.

        Raises ValueError for a total that their inputs cannot have.
        """
        digits = total[len(total) - LIMBS :] if self.energy else None
        read = self.fixed.decode(total if digits is None else total[: len(total) - LIMBS])
        if read.weight != len(weights):
            raise ValueError(f"the total is of {read.weight} clients, not {len(weights)}")
        shares = float(weights.sum()) / self.largest
        vector, slack = read.mean.astype(np.float64), self.fixed.error(Nearest()) * len(weights)
        if self.max_samples:
            shares = float(vector[-1]) * len(weights) / self.clip
            vector = vector[:-1]
        if abs(shares) <= slack / self.clip:
            return None
        weight = shares * self.largest * (self.max_samples or 1)
        if self.max_samples and np.ptp(np.abs(weights)) == 0:
            weight = self.largest * round(weight / self.largest)  # a whole number of samples
        relative = slack / self.clip / abs(shares) if self.max_samples else 0.0
        error = math.sqrt(len(vector)) * slack / abs(shares)
        energy = None
        if digits is not None and int(digits.max()) < len(weights) << LIMB_BITS:  # else somebody's are not digits
            parts = sum(int(digit) << LIMB_BITS * k for k, digit in enumerate(digits))
            energy = parts / _ONE * self._most_energy(len(vector)) / abs(shares)
        return Total((vector * (len(weights) / shares)).astype(np.float32), weight, relative, error, energy=energy)


def beyond(vector: Vector, clip: float) -> str | None:
    """Why a vector is not within the clip, or None. How far it is beyond is for nobody else to know."""
    largest = max(abs(float(vector.max())), abs(float(vector.min()))) if len(vector) else 0.0
    return None if largest <= clip else f"an update reaches more than the {clip:g} {OF_CLIP}"
