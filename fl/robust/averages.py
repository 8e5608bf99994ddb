"""The mean, which stands against nothing, and the mean of norm-bounded updates with weak differential privacy."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..clustering.separation import norms
from ..field_ranges import need_least
from .rule import Matrix, Sight, check_count, check_positive


@dataclass(frozen=True, slots=True)
class Mean:
    """The uniform mean. One faulty update moves it anywhere."""

    sees: ClassVar[Sight] = Sight.SUM
    shift_invariant: ClassVar[bool] = True

    def weights(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        check_count(self, len(gram), 1)
        return np.full(len(gram), 1 / len(gram))


@dataclass(frozen=True, slots=True)
class NormBound:
    """The mean of x_i min(1, b / |x_i|), plus N(0, s^2) on every coordinate (Sun et al. 2019, "Can you really backdoor FL").

    With s = 0 it is norm bounding alone. The paper's s is small and claims no epsilon: "weak" differential privacy.
    """

    b: float
    s: float = 0.0
    sees: ClassVar[Sight] = Sight.NORMS
    shift_invariant: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_positive(self, "b")
        need_least(self, 0, "s")

    def weights(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        check_count(self, len(gram), 1)
        return clip_factors(norms(gram), self.b) / len(gram)

    def noise_std(self, gram: Matrix, /) -> float:
        return self.s


def clip_factors(norm: Matrix, bound: float) -> Matrix:
    """min(1, bound / norm), 1 where the norm is 0."""
    factors: Matrix = np.divide(bound, norm, out=np.ones_like(norm), where=norm > bound)
    return factors
