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
from ..view import LocalWork
from .terms import Ring

Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Total:
    """mean: float32 (d,), sum_i a_i x_i / sum_i a_i. weight: sum_i a_i. relative: bound on the weight's relative error.

    error: bound on the l2 norm of the mean's error from fixed point, for the right weight. noise: standard deviation of what
    was added to each coordinate of the mean on purpose.
    """

    mean: Vector
    weight: float
    relative: float
    error: float
    noise: float = 0.0


@dataclass(frozen=True, slots=True)
class InputTerms:
    """Public. largest: the largest |weight| that the server gives. max_samples: most samples of a client; 0 if not counted."""

    ring_bits: int
    clip: float
    clients: int
    largest: float
    max_samples: int

    @property
    def fixed(self) -> FixedPoint:
        """Raises ValueError if not even 2 bits fit."""
        return FixedPoint.finest(self.ring_bits, self.clip, self.clients, 1)

    def length(self, d: int) -> int:
        """Ring elements of an input: the vector, the secret share if there is one, and the count of clients."""
        return d + (2 if self.max_samples else 1)

    def unfit(self, work: LocalWork) -> str | None:
        """Why this work cannot be put in, or None."""
        if (reason := beyond(work.vector, self.clip)) is not None:
            return reason
        if self.max_samples and work.samples > self.max_samples:
            return f"{work.samples} samples are more than the {self.max_samples} of protection.max_samples"
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
        return self.fixed.encode(scaled, 1, Nearest()).ring

    def decode(self, total: Ring, weights: NDArray[np.float64]) -> Total | None:
        """The mean in the total of the clients with these weights. None if the weights add up to nothing.

        Raises ValueError for a total that their inputs cannot have.
        """
        read = self.fixed.decode(total)
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
        return Total((vector * (len(weights) / shares)).astype(np.float32), weight, relative, error)


def beyond(vector: Vector, clip: float) -> str | None:
    """Why a vector is not within the clip, or None."""
    largest = max(abs(float(vector.max())), abs(float(vector.min()))) if len(vector) else 0.0
    return None if largest <= clip else f"an update reaches {largest:.3g}, above the {clip:g} of protection.clip"
