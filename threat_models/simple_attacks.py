"""Attacks that need no help: a member changes its own upload (attacks of group 5.1), and the omniscient sign flip.

Updates are local model minus start, so that the server adds them; every definition here is odd in the update and reads the
same with the opposite sign (FLIC's).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..fl.field_ranges import need_least, need_numbers
from ..protocol.view.answers import Vector
from .geometry import mean_of
from .knowledge import Colluding, Level, Own, forged


@dataclass(frozen=True, slots=True)
class MinusGradient:
    """u = -strength * own update (FLIC, Espinoza Castellon et al. 2022, section IV-A; Li et al. 2019)."""

    strength: float = 1.0
    needs: ClassVar[Level] = Level.OWN

    def __post_init__(self) -> None:
        need_numbers(self, "strength")

    def __call__(self, own: Own, /) -> Vector:
        return np.float32(-self.strength) * own.update


@dataclass(frozen=True, slots=True)
class Null:
    """u = 0: a free rider that works for nobody."""

    needs: ClassVar[Level] = Level.OWN

    def __call__(self, own: Own, /) -> Vector:
        return np.zeros_like(own.update)


@dataclass(frozen=True, slots=True)
class Stale:
    """u = the change of the global model since members last opened it: a free rider that looks busy. Zero at first."""

    needs: ClassVar[Level] = Level.OWN
    looks_back: ClassVar[bool] = True

    def __call__(self, own: Own, /) -> Vector:
        return np.zeros_like(own.update) if own.previous is None else own.start - own.previous


@dataclass(frozen=True, slots=True)
class RandomVector:
    """u ~ N(0, s^2 I), independent for every member and round. s: None for |own update| / sqrt(d), which matches the norm."""

    s: float | None = None
    needs: ClassVar[Level] = Level.OWN

    def __post_init__(self) -> None:
        need_least(self, 0, "s")

    def __call__(self, own: Own, /) -> Vector:
        d = len(own.update)
        s = float(np.linalg.norm(own.update)) / np.sqrt(d) if self.s is None else self.s
        return own.rng.standard_normal(d, dtype=np.float32) * np.float32(s)


@dataclass(frozen=True, slots=True)
class GaussianNoise:
    """u = own update + N(0, s^2 I)."""

    s: float
    needs: ClassVar[Level] = Level.OWN

    def __post_init__(self) -> None:
        need_least(self, 0, "s")

    def __call__(self, own: Own, /) -> Vector:
        return own.update + own.rng.standard_normal(len(own.update), dtype=np.float32) * np.float32(self.s)


@dataclass(frozen=True, slots=True)
class Overwritten:
    """The own update with the coordinates start, start + every, ... set to one value: NaN, Inf or 1e30, against availability.

    every: 0 for the one coordinate `start` alone, 1 (with start 0) for all.
    """

    value: float = float("nan")
    start: int = 0
    every: int = 1
    needs: ClassVar[Level] = Level.OWN

    def __call__(self, own: Own, /) -> Vector:
        vector = own.update.copy()
        vector[self.start : self.start + 1 if self.every == 0 else None : max(self.every, 1)] = self.value
        return vector


@dataclass(frozen=True, slots=True)
class Scaled:
    """u = factor * own update; on backdoored data and with factor 1 / lambda_k, model replacement (Bagdasaryan et al. 2020)."""

    factor: float
    needs: ClassVar[Level] = Level.OWN

    def __post_init__(self) -> None:
        need_numbers(self, "factor")

    def __call__(self, own: Own, /) -> Vector:
        return np.float32(self.factor) * own.update


@dataclass(frozen=True, slots=True)
class NormBounded:
    """u = own update times `factor`, then cut to the norm `bound`, to pass a known guard (Bagdasaryan et al. 2020)."""

    factor: float
    bound: float
    needs: ClassVar[Level] = Level.OWN

    def __post_init__(self) -> None:
        need_numbers(self, "factor")
        need_least(self, 0, "bound", endless=True)

    def __call__(self, own: Own, /) -> Vector:
        norm = self.factor * float(np.linalg.norm(own.update))
        return np.float32(self.factor * (min(1.0, self.bound / norm) if norm > 0 else 1.0)) * own.update


@dataclass(frozen=True, slots=True)
class Honest:
    """u = own update: what a two-faced member shows, or what comes of poisoned data alone."""

    needs: ClassVar[Level] = Level.OWN

    def __call__(self, own: Own, /) -> Vector:
        return own.update


@dataclass(frozen=True, slots=True)
class SignFlip:
    """u = -mean of the updates seen, the same from all members (ByzFL's sign flip; inner product manipulation with eps 1)."""

    needs: ClassVar[Level] = Level.COLLUDING
    identical: ClassVar[bool] = True

    def __call__(self, coalition: Colluding, /) -> Mapping[int, Vector]:
        found = mean_of(coalition.seen)
        return forged(coalition, [np.negative(found) for _ in coalition.own])
