"""Variants of collusive attacks: members that are not alike, and signs that are not one-sided."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..fl.field_ranges import need_least
from ..protocol.view.answers import Vector
from .attack import CollusiveAttack, looks_back
from .functions import together
from .geometry import mean_of
from .knowledge import Colluding, Level


@dataclass(frozen=True, slots=True)
class Jittered:
    """A collusive attack whose members each add noise of their own, of norm `spread` times their vector's: no two are alike.

    Members that all send one vector are at distance 0 from each other, which rules that look at distances or cosines notice
    or are fooled by for the wrong reason.
    """

    attack: CollusiveAttack
    spread: float
    identical: ClassVar[bool] = False

    def __post_init__(self) -> None:
        need_least(self, 0, "spread")

    @property
    def needs(self) -> Level:
        return self.attack.needs

    @property
    def looks_back(self) -> bool:
        return looks_back(self.attack)

    def learn(self, coalition: Colluding, /) -> Mapping[str, Vector]:
        return learned(self.attack, coalition)

    def __call__(self, coalition: Colluding, /) -> Mapping[int, Vector]:
        found: dict[int, Vector] = {}
        for member, vector in together(self.attack, coalition, self.attack(coalition)).items():
            noise = coalition.own[member].rng.standard_normal(len(vector), dtype=np.float32)
            noise *= np.float32(self.spread * float(np.linalg.norm(vector)) / float(np.linalg.norm(noise)))
            found[member] = vector + noise
        return found


@dataclass(frozen=True, slots=True)
class SignBalanced:
    """A collusive attack whose distance from the mean is turned round in a random half of the coordinates.

    u' = mu + s (u - mu) with s = -1 at floor(d / 2) coordinates drawn uniformly, for all members alike, and 1 elsewhere: every
    coordinate stays as far from the mean as it was, and the shares of signs that SignGuard looks at stay usual.
    """

    attack: CollusiveAttack

    @property
    def needs(self) -> Level:
        return self.attack.needs

    @property
    def looks_back(self) -> bool:
        return looks_back(self.attack)

    @property
    def identical(self) -> bool:
        return self.attack.identical

    def learn(self, coalition: Colluding, /) -> Mapping[str, Vector]:
        return learned(self.attack, coalition)

    def __call__(self, coalition: Colluding, /) -> Mapping[int, Vector]:
        mean = mean_of(coalition.seen)
        turned = coalition.own[min(coalition.own)].rng.permutation(len(mean))[: len(mean) // 2]
        found: dict[int, Vector] = {}
        for member, vector in together(self.attack, coalition, self.attack(coalition)).items():
            found[member] = vector.copy()
            found[member][turned] = 2 * mean[turned] - vector[turned]
        return found


def learned(attack: CollusiveAttack, coalition: Colluding) -> Mapping[str, Vector]:
    """What the attack wants to remember; what was remembered, if it does not learn."""
    learn = getattr(attack, "learn", None)
    return coalition.memory if learn is None else learn(coalition)
