"""What an attack is told when a member is offered models to choose among: one type a level of knowledge, as for uploads."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from torch import nn

from ..fl.data.population import Examples
from ..protocol.view.answers import Vector
from .knowledge import Level


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Offered:
    """K0. What a member knows: its own data, the models that it is offered, and what it would say if it were honest.

    models: each float32 (d,). honest: a position among them; None where it would not answer. place,
    members, roster, module, rng, agreed: as in `knowledge.Situation`.
    """

    member: int
    place: int
    members: int
    roster: tuple[int, ...]
    round: int
    examples: Examples = field(repr=False)
    classes: int
    module: nn.Module = field(repr=False)
    models: tuple[Vector, ...] = field(repr=False)
    honest: int | None
    rng: np.random.Generator = field(repr=False)
    agreed: np.random.Generator = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class OfferedTogether(Offered):
    """K1, and K2 and K3. chosen: what clients that were asked would honestly say: at K1 the members, above it all clients."""

    chosen: Mapping[int, int]


def whose(level: Level, roster: tuple[int, ...], members: frozenset[int]) -> tuple[int, ...]:
    """The clients whose honest choices an adversary of this level knows beyond a member's own."""
    if level == Level.OWN:
        return ()
    return roster if level >= Level.OMNISCIENT else tuple(i for i in roster if i in members)
