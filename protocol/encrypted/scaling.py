"""What numbers are encrypted: weighted vectors with their weight and a count of one, and sketches whose length is a logarithm.

Spec: specs/encrypted.md, section Numbers. CKKS adds an error of about 2e-8 to every value, whatever its size, so values are
brought to a size at which that is little: sums by a public factor, sketches by their own norm, which rides along as the length.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...crypto.ckks import ERROR

Vector = NDArray[np.float32]
Values = NDArray[np.float64]

SCALE = 2.0**10
"""Factor of a weighted vector."""
RIDING = 2.0**14
"""Factor of the two values that ride behind it: its weight, and 1."""
MOST_SAMPLES = 2**20
MOST_VALUE = 2.0**10
"""Magnitude of a coordinate. SCALE * MOST_VALUE * MOST_SAMPLES = 2^40 is what can be encrypted."""
VALUE_ERROR = ERROR
"""Bound on the error of an encrypted value, its rounding included."""
RELATIVE_ERROR = 1e-12
"""Bound on the further error of an encrypted value, relative to the largest in its ciphertext."""
WEIGHT_DIGITS = 6
"""Decimals of a total weight, in units of the largest weight, that the server is told."""
SLOTS = 4096

MIDDLE = 100.0
PER_LOG = 5.0
"""A sketch of an update x is sent with the length MIDDLE + PER_LOG ln |x|, at which inner products are exact to 3e-6."""
LEAST_NORM, MOST_NORM = 1e-7, 1e7
"""Norms of updates that can be sketched; so lengths are 19 to 181."""
ZERO = -(2**31)
"""The logarithm of a norm of 0."""
SCORE_ERROR = 3e-6
"""Bound on the error of a cosine, and of a logarithm of a norm, before they are rounded."""


def unsummable(vector: Vector, samples: int) -> str | None:
    """Why this cannot be part of an encrypted sum, or None."""
    if not np.isfinite(vector).all() or float(np.abs(vector).max(initial=0)) > MOST_VALUE:
        return f"the vector is not finite, or a coordinate is above {MOST_VALUE:g}"
    if samples > MOST_SAMPLES:
        return f"a weight of more than {MOST_SAMPLES} samples cannot be encrypted"
    return None


def unsketchable(vector: Vector) -> str | None:
    """Why the sketch of this cannot be encrypted, or None."""
    norm = float(np.linalg.norm(vector.astype(np.float64)))
    if norm == 0 or LEAST_NORM <= norm <= MOST_NORM:
        return None
    return f"the norm is not 0, and not from {LEAST_NORM:g} to {MOST_NORM:g}"


# --- sums -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Weighting:
    """The public weights a_i of a sum; its weights are w_i = a_i / max |a|, times the number of samples where asked.

    of: non-zero and finite, for every client of the roster.
    """

    of: Mapping[int, float]
    times_samples: bool

    def __post_init__(self) -> None:
        if not self.of or not all(math.isfinite(a) and a != 0 for a in self.of.values()):
            raise ValueError("the weights of a sum are finite, and not 0")

    @property
    def unit(self) -> float:
        """max |a|."""
        return max(abs(a) for a in self.of.values())

    @property
    def digits(self) -> int:
        """Decimals of a total that counts samples, in units of max |a|: none where all |a| are equal, as it is whole then."""
        return 0 if len({abs(a) for a in self.of.values()}) == 1 else WEIGHT_DIGITS

    @property
    def weight_error(self) -> float:
        """Bound on the error of a total weight, from rounding it."""
        return 0.5 * 10.0**-self.digits * self.unit if self.times_samples and self.digits else 0.0

    def summand(self, client: int, vector: Vector, samples: int) -> Values:
        """float64, shape (d + 2,): SCALE w x, RIDING w, RIDING. Raises ValueError for what cannot be encrypted."""
        if (reason := unsummable(vector, samples if self.times_samples else 1)) is not None:
            raise ValueError(reason)
        w = self.of[client] / self.unit * (samples if self.times_samples else 1)
        return np.concatenate([SCALE * w * vector.astype(np.float64), [RIDING * w, RIDING]])

    def may_be(self, clients: tuple[int, ...], told: float) -> bool:
        """Whether the total weight of these clients can be what somebody tells; where weights are public it is known."""
        return told != 0 and (self.times_samples or told == self._exact(clients))

    def total(self, clients: tuple[int, ...], opened: float) -> float:
        """The total weight of these clients, given what rode along, in units of max |a|.

        Public weights give it exactly, and what rode along must agree; where samples count, it is rounded to `digits`.
        Raises ValueError.
        """
        if self.times_samples:
            return round(opened, self.digits) * self.unit
        exact = self._exact(clients)
        if not abs(opened - exact / self.unit) < 1e-6 * len(clients):
            raise ValueError("a sum of other weights than were asked for")
        return exact

    def _exact(self, clients: tuple[int, ...]) -> float:
        return math.fsum(self.of[i] for i in clients)


@dataclass(frozen=True, slots=True)
class OpenedMean:
    """An opened sum. mean: float32 (d,). weight: the total weight."""

    mean: Vector = field(repr=False)
    weight: float


def opened(values: Values, weighting: Weighting, alive: tuple[int, ...]) -> OpenedMean:
    """The mean in a decrypted sum, float64 (d + 2,), of these clients.

    Raises ValueError if not as many clients are in the sum, or of another weight, or if the weight is 0.
    """
    if not np.isfinite(values).all():
        raise ValueError("a sum that is not finite")
    count = round(float(values[-1]) / RIDING)
    if count != len(alive):
        raise ValueError(f"a sum of other clients than the {len(alive)} that are said to be in it")
    weight = weighting.total(alive, float(values[-2]) / RIDING)
    if weight == 0:
        raise ValueError("a sum whose total weight is 0")
    with np.errstate(over="ignore"):
        mean = (values[:-2] / (SCALE * (weight / weighting.unit))).astype(np.float32)
    if not np.isfinite(mean).all():
        raise ValueError("a mean that is not finite")
    return OpenedMean(mean, weight)


def sum_tolerance(d: int) -> float:
    """Bound on |error of the sum| / sum_i |w_i| |x_i|, from the arithmetic of the encryption in float64."""
    return RELATIVE_ERROR * math.sqrt(min(d + 2, SLOTS) * math.ceil((d + 2) / SLOTS))


def mean_error(d: int, clients: int, weights: float, weight: float) -> float:
    """Bound on the l2 norm of a further error of the mean, from encryption. weights: sum |w_i|; weight: |sum w_i|; not 0."""
    riding = RELATIVE_ERROR * RIDING / SCALE * weights / weight
    return math.sqrt(d) * (clients * VALUE_ERROR / SCALE / weight + riding)


# --- scores ---------------------------------------------------------------------------------------------------------------


def carrying(sketch: Values, norm: float) -> Values:
    """The sketch of an update of this norm, brought to the length MIDDLE + PER_LOG ln norm; zeros where either is 0."""
    length = float(np.linalg.norm(sketch))
    if norm == 0 or length == 0:
        return np.zeros_like(sketch)
    return sketch * ((MIDDLE + PER_LOG * math.log(norm)) / length)


def rounded_norms(squares: Values, digits: int) -> NDArray[np.int32]:
    """int32: ln |x| in units of 10^-digits from squared lengths; ZERO for an update of 0, and for lengths that cannot be."""
    least = MIDDLE + PER_LOG * math.log(LEAST_NORM)
    lengths = np.sqrt(np.maximum(squares, 0))
    logarithms = (np.clip(lengths, 1, 2 * MIDDLE) - MIDDLE) / PER_LOG
    return np.where(lengths > least / 2, np.round(logarithms * 10**digits), ZERO).astype(np.int32)


def rounded_cosines(products: Values, left: Values, right: Values, digits: int) -> NDArray[np.int32]:
    """int32: cosines in units of 10^-digits, from products and squared lengths of one shape; 0 where an update is 0."""
    least = (MIDDLE + PER_LOG * math.log(LEAST_NORM)) / 2
    lengths = np.sqrt(np.maximum(left, 0)) * np.sqrt(np.maximum(right, 0))
    known = (left > least**2) & (right > least**2)
    cosines: Values = np.divide(products, lengths, out=np.zeros_like(products), where=known)
    units: Values = np.round(np.clip(cosines, -1, 1) * 10**digits)
    return units.astype(np.int32)


def test_vector(length: int) -> Values:
    """What a server encrypts to learn of keys for products whether they multiply: the sketch, all of one number, of norm 1."""
    return carrying(np.ones(length), 1.0)


def is_test_product(square: float) -> bool:
    """Whether this can be the inner product of a test vector with itself. Whoever made the keys does not see how it is encrypted,
    so that what serves here serves for others as well, up to little more than what is lost in rounding.
    """
    return abs(square / MIDDLE**2 - 1) < SCORE_ERROR * 10


def norms_of(logarithms: NDArray[np.int32], digits: int) -> Values:
    """Norms from rounded logarithms."""
    exact = logarithms.astype(np.float64) / 10**digits
    return np.where(logarithms == ZERO, 0.0, np.exp(np.minimum(exact, math.log(MOST_NORM) + 1)))


def score_tolerance(digits: int) -> float:
    """Bound on |error of an entry of G| / (norm_i norm_j) from rounding and encryption, beside that of the sketch."""
    half = 0.5 * 10.0**-digits + SCORE_ERROR
    return (1 + half) * math.exp(2 * half) - 1
