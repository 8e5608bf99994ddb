"""An attack on defences that part who has much in common where nobody else has: members have in common what differs, too.

What it costs the hardened FLIC, which parts those who all push one way (`dividing.OneWay`), is in
examples/results/robustness_search.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..fl.field_ranges import need_numbers
from ..protocol.view.answers import Vector
from .dividing import FEWEST, check_shares
from .geometry import mean_of, unit, without
from .knowledge import Colluding, Level, forged

SIZE = 3
"""Members who push one way where they do so in turn, about."""
ROUNDED = 1e-3
"""Norm below which what is left of a unit vector is what was lost by rounding."""


@dataclass(frozen=True, slots=True)
class Together:
    """Members push one way, against what their own updates have in common, and each against what its own has beside it.

    All of it without what the updates seen share, plus a little of that. Each upload is `scale` times the median length of those
    seen. cosine: with their mean direction, as in `Unshared`. share: the cosine with the way that all push. What is left is no
    noise, as in `OneWay`, but harm, too, and members differ by it as loyal clients do, so that what they have in common stands
    out less. in_turn: about three push one way, dealt anew every round, so that no two have much in common over all rounds.
    """

    cosine: float = 0.2
    share: float = 0.65
    scale: float = 2.8
    in_turn: bool = False
    needs: ClassVar[Level] = Level.COLLUDING
    identical: ClassVar[bool] = False

    def __post_init__(self) -> None:
        need_numbers(self, "scale")
        check_shares(self.cosine, self.share)

    def __call__(self, coalition: Colluding, /) -> Mapping[int, Vector]:
        members = sorted(coalition.own)
        if len(coalition.seen) < FEWEST:
            return forged(coalition, [coalition.own[i].update for i in members])
        shared = unit(mean_of([unit(v) for v in coalition.seen]))
        length = np.float32(self.scale * np.median([np.linalg.norm(v) for v in coalition.seen]))
        beyond = [unit(without(coalition.own[i].update, shared)) for i in members]
        count = max(1, round(len(members) / SIZE)) if self.in_turn else 1
        dealt = coalition.own[members[0]].rng.permutation(len(members)) % count
        ways = [unit(mean_of([v for v, k in zip(beyond, dealt, strict=True) if k == way])) for way in range(count)]
        return forged(coalition, [length * self._against(v, ways[k], shared) for v, k in zip(beyond, dealt, strict=True)])

    def _against(self, beyond: Vector, way: Vector, shared: Vector) -> Vector:
        """A unit vector against a member's own direction and the way that it pushes with others."""
        own = without(beyond, way)
        own = unit(own) if np.linalg.norm(own) > ROUNDED else np.zeros_like(own)  # who pushes alone has nothing beside it
        rest = np.float32(max(0.0, 1 - self.cosine**2 - self.share**2) ** 0.5)
        return unit(np.float32(self.cosine) * shared - np.float32(self.share) * way - rest * own)
