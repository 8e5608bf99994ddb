"""Noise on what a client releases to be compared, and what it costs.

Formal guarantee: an answer made with `Noise` is differentially private for one record (or one attribute of one) of the client as
`releases` says, whoever knows the projection R, given the embedding model. If that model was trained on the same records
without noise, the records are in it, and nothing here protects them: `caveat` says so. Noise is an integer discrete Gaussian
on a grid, so no rounding of floating point undoes it. Where none is asked for, no accountant is loaded.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...crypto.samplers import discrete_gaussian
from ..view.noise_free import check_names

if TYPE_CHECKING:
    from ..privacy.ledger import Ledger, Release

Matrix = NDArray[np.float64]

STEPS = 1 << 16
"""Standard deviation of the noise in units of its grid: rounding to it costs a sensitivity of sqrt(p) / STEPS deviations."""
SLACK = 1 + 1e-6
"""Room for rounding in float64 in norms of projections and in clipping."""
OF = "what it released to be compared"
"""What an epsilon of such noise is of, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """What is added to a cloud and to a reference distance. multiplier: standard deviation over sensitivity; likewise of tau.

    clip: embeddings are scaled down to this norm, before they are projected. unit: "record": one row may become any other within
    the clip; "attribute": one coordinate of one row, each clipped to [-clip, clip], may (Kenthapadi et al. 2013: the sensitivity
    is the largest row norm of R: far less noise, for far less of a claim). nonnegative: embeddings are clipped at 0 from below,
    as behind a ReLU they are anyway: two of them are at most sqrt(2) clip apart, attributes clip.
    budget, delta: every client refuses releases that together exceed epsilon = budget at delta.
    trained_privately: whether the embedding model was itself released with differential privacy for the same unit (a claim of
    whoever builds the run: it is not checked, and its epsilon is not in this ledger).
    acknowledge: answers without noise about the same records that are given all the same (`NOISE_FREE` in view/functionality.py;
    "sums" where a run trains on them): nothing bounds what they tell, and their names stand beside every epsilon of this noise.
    """

    clip: float
    multiplier: float
    reference_multiplier: float
    budget: float
    delta: float
    unit: Literal["record", "attribute"] = "record"
    nonnegative: bool = False
    trained_privately: bool = False
    acknowledge: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        positive = (self.clip, self.multiplier, self.reference_multiplier, self.budget)
        if not all(0 < value < math.inf for value in positive) or not 0 < self.delta < 1:
            raise ValueError("clip, multipliers and budget are finite and above 0, delta between 0 and 1")
        check_names(self.acknowledge)

    def clipped(self, rows: NDArray[Any]) -> Matrix:
        """The rows within the clip, float64 (n, d); 0 in place of what is not finite."""
        found: Matrix = np.where(np.isfinite(rows), rows, 0).astype(np.float64)
        if self.nonnegative:
            found = np.maximum(found, 0)
        if self.unit == "attribute":
            return np.asarray(np.clip(found, -self.clip, self.clip))
        norms = np.linalg.norm(found, axis=1, keepdims=True)
        return np.asarray(found * (self.clip / np.maximum(norms, self.clip)))

    def sensitivity(self, projection: Matrix) -> float:
        """l2, of a cloud Z R under replacement of one unit, exactly: largest singular value, or row norm, of R (d, p)."""
        if self.unit == "attribute":
            apart, norm = self.clip * (1 if self.nonnegative else 2), float(np.linalg.norm(projection, axis=1).max())
        else:
            apart = self.clip * (math.sqrt(2) if self.nonnegative else 2)
            norm = float(np.linalg.norm(projection, 2))
        return apart * norm * SLACK

    def mean_sensitivity(self, projection: Matrix, rows: int) -> float:
        """l2, of the mean of a cloud of so many rows."""
        return self.sensitivity(projection) / rows


def noised(values: Matrix, deviation: float, key: bytes) -> Matrix:
    """The values on a grid of deviation / STEPS, plus a discrete Gaussian of this standard deviation on each."""
    grid = deviation / STEPS
    integers = np.rint(values / grid).astype(np.int64).ravel() + discrete_gaussian(key, values.size, Fraction(STEPS) ** 2)
    return np.asarray(integers.reshape(values.shape) * grid, dtype=np.float64)


def release(noise: Noise, multiplier: float, sensitivity: float, changed: int, covers: str) -> "Release":
    """The ledger's entry for values with noise of standard deviation multiplier * sensitivity.

    changed: coordinates that replacing one unit can change; each may be rounded the other way.
    """
    from ..privacy.gaussian import SummedDiscreteGaussians
    from ..privacy.ledger import Release

    l2 = STEPS / multiplier + math.sqrt(changed)
    event = SummedDiscreteGaussians(STEPS**2, 1, changed, l2)
    exact = sensitivity * (1 + multiplier * math.sqrt(changed) / STEPS)
    words = f"discrete Gaussian, standard deviation {multiplier * sensitivity:.6g}"
    if noise.unit == "attribute":
        words += ", for one attribute of one record only (Kenthapadi et al. 2013)"
    return Release(event, exact, "replace", noise.unit, words, covers)


def multiplier_of(epsilon: float, delta: float, changed: int) -> float:
    """The least multiplier at which one release whose `changed` coordinates a unit can change spends at most epsilon at delta.

    Raises ValueError where rounding to the grid alone would cost more.
    """
    from ..privacy.gaussian import SummedDiscreteGaussians, gaussian_mu

    mu, xi = SummedDiscreteGaussians(STEPS**2, 1, changed, 1.0).gaussian  # of a sensitivity of one step; mu grows with it
    steps = gaussian_mu((epsilon - xi) * (1 - 1e-8), delta * math.exp(-xi / 2)) / mu - math.sqrt(changed)
    if not steps > 0:
        raise ValueError(f"no noise on {changed} coordinates makes epsilon {epsilon}; their rounding spends more")
    return STEPS / steps


def one_release(
    epsilon: float,
    delta: float,
    *,
    clip: float,
    coordinates: int,
    nonnegative: bool = False,
    budget: float | None = None,
    acknowledge: tuple[str, ...] = (),
) -> Noise:
    """The least noise at which one released vector of so many coordinates costs a client epsilon at delta, for one record.

    budget: of all that its ledger counts; None for epsilon, so that a client refuses anything more. The others as in `Noise`.
    """
    multiplier = multiplier_of(epsilon, delta, coordinates)
    return Noise(
        clip=clip,
        multiplier=multiplier,
        reference_multiplier=multiplier,
        budget=epsilon if budget is None else budget,
        delta=delta,
        nonnegative=nonnegative,
        acknowledge=acknowledge,
    )


def opened(noise: Noise, client: int) -> "Ledger":
    """A client's ledger before its first release."""
    from ..privacy.ledger import Ledger

    return Ledger(client, noise.unit, "replace", noise.budget, noise.delta, OF, noise.acknowledge)


def caveat(noise: Noise, public: bool) -> tuple[str, ...]:
    """What the ledger does not cover, in words."""
    if public:
        return ("that it takes part, the size of its sample, its edges and cluster",)
    model = "the embedding model: released with differential privacy, as is claimed, by a ledger of its own"
    if not noise.trained_privately:
        model = (
            "the embedding model, which was trained on the same records without noise: they are not protected from who sees it"
        )
    return ("that it takes part, the size of its sample, its edges and cluster", model)
