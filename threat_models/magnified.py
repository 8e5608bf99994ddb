"""Another attack's upload at a length that nobody would have: against rules that a single far update carries away, and against
those that shorten updates to what is usual.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..protocol.view.answers import Vector
from .attack import LoneAttack, looks_back
from .knowledge import Level, Own


@dataclass(frozen=True, slots=True)
class Magnified:
    """What another attack of a member alone sends, times `factor`: a mean follows, and a median that stops before its end."""

    attack: LoneAttack
    factor: float = 1e6
    needs: ClassVar[Level] = Level.OWN

    @property
    def looks_back(self) -> bool:
        return looks_back(self.attack)

    def __call__(self, own: Own, /) -> Vector:
        return np.float32(self.factor) * self.attack(own)


@dataclass(frozen=True, slots=True)
class Diminished(Magnified):
    """The same with next to nothing: where members are most of those drawn, a median of their lengths shortens all others to
    nothing, too, and nothing is learned.
    """

    factor: float = 1e-6
