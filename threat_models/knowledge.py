"""What an attack is told: one type a level of knowledge, each with what its level allows and no more.

The levels are those of the literature on poisoning: K0 a member's own data, its own update and the global model; K1 also the
colluders' own updates; K2 also the honest updates of the round; K3 also the rule that aggregates them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal

import numpy as np
from torch import nn

from ..crypto.projection import TwoStage
from ..fl.clients.training import Training
from ..fl.data.population import Examples
from ..protocol.view.answers import Vector, Work
from ..protocol.view.work import LocalWork


class Level(IntEnum):
    """How much an adversary knows, in ascending order."""

    OWN = 0
    COLLUDING = 1
    OMNISCIENT = 2
    INSIDER = 3


Randomness = Literal["member", "shared"]
"""Whether each member draws random numbers of its own, or all members draw the same ones in one round."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Situation:
    """What a member knows before it works. An attack of one's own is handed copies, made for one call: what it writes into
    them is its own.

    place: its position among all members, 0 first; members: how many there are; both agreed before the run. roster: the
    session's clients, which every client is told. examples: its own training data. start: the model it opened, float32 (d,); of
    work for slots the first of `starts`, and before an upload that of its slot. previous: the model that members opened in an
    earlier round, the nearest to `start` of the latest such round, or None; only for attacks that look back. module: the
    architecture. training_seed: of the minibatches. data_rng: the same in every round. rng: of this member and round. agreed:
    the same for all members and rounds.
    sketch: draws the secret sketch of this work that all clients share; None where none is known before the upload.
    learned: what members have learned together about their poison, by name; empty where they do not, and always at K0.
    """

    member: int
    place: int
    members: int
    roster: tuple[int, ...]
    round: int
    work: Work
    examples: Examples = field(repr=False)
    classes: int
    start: Vector = field(repr=False)
    starts: tuple[Vector, ...] = field(default=(), repr=False)
    previous: Vector | None = field(repr=False)
    module: nn.Module = field(repr=False)
    training: Training
    training_seed: int
    data_rng: np.random.Generator = field(repr=False)
    rng: np.random.Generator = field(repr=False)
    agreed: np.random.Generator = field(repr=False)
    sketch: Callable[[], TwoStage] | None = field(default=None, repr=False)
    learned: Mapping[str, Vector] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Own(Situation):
    """K0. update: what the member's own work gave (on poisoned data, if the adversary poisons data): float32 (d,).

    samples: the number of examples that the member will report.
    """

    update: Vector = field(repr=False)
    samples: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Colluding:
    """K1: the members of one session together. own: what each knows. memory: what the attack kept from earlier rounds."""

    round: int
    roster: tuple[int, ...]
    own: Mapping[int, Own]
    memory: Mapping[str, Vector] = field(repr=False)

    @property
    def seen(self) -> list[Vector]:
        """The updates that statistics are taken of: here, the members' own."""
        return [own.update for _, own in sorted(self.own.items())]

    @property
    def faulty(self) -> int:
        """Members in the session, f."""
        return len(self.own)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Omniscient(Colluding):
    """K2. honest: the work of every client of the session that is not a member, as it reports it."""

    honest: Mapping[int, LocalWork] = field(repr=False)

    @property
    def seen(self) -> list[Vector]:
        """The honest updates; the members' own where no honest client is in the session."""
        honest = [work.vector for _, work in sorted(self.honest.items())]
        return honest or [own.update for _, own in sorted(self.own.items())]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Insider(Omniscient):
    """K3. rule: the server's, with its parameters and state, for `rules.aggregate`; of one that takes a vector beside the
    updates, a `WithExtra`: that rule, and `row`, the vector by a member's `Own`.
    """

    rule: Any


def colluding(
    level: Level, own: Mapping[int, Own], honest: Mapping[int, LocalWork], rule: object, memory: Mapping[str, Vector]
) -> Colluding:
    """What a coalition knows at this level. Raises ValueError at K0, where there is none, and at K3 without a rule."""
    first = next(iter(own.values()))
    match level:
        case Level.COLLUDING:
            return Colluding(round=first.round, roster=first.roster, own=own, memory=memory)
        case Level.OMNISCIENT:
            return Omniscient(round=first.round, roster=first.roster, own=own, memory=memory, honest=honest)
        case Level.INSIDER:
            if rule is None:
                raise ValueError("an insider knows the rule; give the adversary one")
            return Insider(round=first.round, roster=first.roster, own=own, memory=memory, honest=honest, rule=rule)
        case _:
            raise ValueError(f"members do not talk to each other at level {level.name}")


def forged(coalition: Colluding, vectors: Sequence[Vector]) -> dict[int, Vector]:
    """One vector for every member, in the order of their ids."""
    return dict(zip(sorted(coalition.own), vectors, strict=True))
