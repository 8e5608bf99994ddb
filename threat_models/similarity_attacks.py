"""Faker: uploads that score as an honest update does and lie as far from it as they can (attacks of group 5.9).

A score by norm, distance or cosine to one vector r is a function of |u| and <u, r>. All vectors that share both with an update x
score alike, and the farthest of them from x is its mirror image about r: 2 <x, r> / |r|^2 r - x. In many dimensions, where x is
nearly orthogonal to what it is compared with, that is nearly -x.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..fl.field_ranges import need_numbers
from ..protocol.view.answers import Vector
from .geometry import mean_of
from .knowledge import Colluding, Level, Own, forged


def mirrored(update: Vector, reference: Vector) -> Vector:
    """The farthest vector from the update with its norm and its inner product with the reference: float32 (d,).

    Against a reference of 0, which compares nothing, the negative update.
    """
    square = float(reference @ reference)
    along = 2 * float(update @ reference) / square if square > 0 else 0.0
    return np.float32(along) * reference - update


@dataclass(frozen=True, slots=True)
class Faker:
    """u = scale times the mirror image of the own update about the mean direction of the updates seen.

    After Wang, Hu and Zou 2023, who scale parameters one by one by optimisation; where the score is known the farthest upload is
    this closed form. Its mean cosine to the updates seen is exactly the own update's; so are, at scale 1, its norm and its
    distance to their mean direction, at any length.
    """

    scale: float = 1.0
    needs: ClassVar[Level] = Level.COLLUDING
    identical: ClassVar[bool] = False

    def __post_init__(self) -> None:
        need_numbers(self, "scale")

    def __call__(self, coalition: Colluding, /) -> Mapping[int, Vector]:
        lengths = [float(np.linalg.norm(v)) for v in coalition.seen]
        directions = [v / np.float32(n) for v, n in zip(coalition.seen, lengths, strict=True) if n > 0]
        own = [o.update for _, o in sorted(coalition.own.items())]
        reference = mean_of(directions) if directions else np.zeros_like(own[0])
        return forged(coalition, [np.float32(self.scale) * mirrored(update, reference) for update in own])


@dataclass(frozen=True, slots=True)
class LoneFaker:
    """Faker of one client with its own knowledge: the mirror image about what the global model last changed by.

    Without an earlier model the upload is honest, since nothing is known of what it will be compared with.
    """

    scale: float = 1.0
    needs: ClassVar[Level] = Level.OWN
    looks_back: ClassVar[bool] = True

    def __post_init__(self) -> None:
        need_numbers(self, "scale")

    def __call__(self, own: Own, /) -> Vector:
        if own.previous is None:
            return own.update
        return np.float32(self.scale) * mirrored(own.update, own.start - own.previous)
