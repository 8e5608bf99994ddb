"""Attacks on defences that part clients by cosines, and have been read: they aim at what is parted, or stay below it.

`TwoKinds` makes the loyal look like two kinds of clients. What `Unshared`, `OneWay` and `FlippedClasses` send stays below what
different data give, and is not parted at all, or late. What each costs the hardened FLIC is in
examples/results/robustness_search.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..fl.field_ranges import need_numbers
from ..fl.models.vector import names_and_shapes
from ..protocol.view.answers import Vector
from .geometry import mean_of, unit, without
from .knowledge import Colluding, Level, Own, forged

Direction = Literal["most different", "halves"]
FEWEST = 3
"""Updates seen without which members are honest: of fewer there is nothing to divide, or to share."""


def check_cosine(cosine: float) -> None:
    """Raises ValueError for what is none of two directions that do not oppose each other."""
    if not 0 <= cosine <= 1:
        raise ValueError(f"cosine is from 0 to 1, not {cosine}")


def check_shares(cosine: float, share: float) -> None:
    """Raises ValueError for cosines with two directions at right angles that no vector has."""
    check_cosine(cosine)
    if not 0 <= share <= 1 or cosine**2 + share**2 > 1:
        raise ValueError(f"cosine and share are from 0 to 1, their squares 1 at most, not {cosine} and {share}")


def noise(own: Own) -> Vector:
    """A random direction of the member's own, float32 (d,)."""
    return unit(own.rng.standard_normal(len(own.update), dtype=np.float32))


def most_different(directions: NDArray[np.float32]) -> Vector:
    """What unit vectors (n, d) differ by most: float32 (d,)."""
    found: Vector = np.linalg.svd(directions - directions.mean(axis=0), full_matrices=False)[2][0].astype(np.float32)
    return found


def between_halves(directions: NDArray[np.float32]) -> Vector:
    """The difference of the mean directions of every other one and of the rest: float32 (d,)."""
    return unit(unit(directions[::2].mean(axis=0)) - unit(directions[1::2].mean(axis=0)))


OF: dict[Direction, Callable[[NDArray[np.float32]], Vector]] = {"most different": most_different, "halves": between_halves}


@dataclass(frozen=True, slots=True)
class TwoKinds:
    """Half of the members go with one half of the updates seen and against the other half, the rest the other way round.

    So everybody's averages say that there are two kinds of clients, and a defence that parts them by those parts the loyal. Each
    upload is `scale` times the median length and has this cosine with the direction, or with its negative; the rest is noise of
    the member's own. in_turn: members take either way by turns; else as their own updates lie.
    """

    direction: Direction = "most different"
    cosine: float = 0.9
    scale: float = 1.5
    in_turn: bool = False
    needs: ClassVar[Level] = Level.COLLUDING
    identical: ClassVar[bool] = False

    def __post_init__(self) -> None:
        need_numbers(self, "scale")
        check_cosine(self.cosine)

    def __call__(self, coalition: Colluding, /) -> Mapping[int, Vector]:
        members = [own for _, own in sorted(coalition.own.items())]
        seen = coalition.seen
        if len(seen) < FEWEST:
            return forged(coalition, [own.update for own in members])
        towards = OF[self.direction](np.stack([unit(v) for v in seen]))
        length = np.float32(self.scale * np.median([np.linalg.norm(v) for v in seen]))
        places = np.argsort(np.argsort([float(unit(own.update) @ towards) for own in members]))
        far = np.arange(len(members)) % 2 == 1 if self.in_turn else places >= len(members) / 2
        along, rest = np.float32(self.cosine), np.float32((1 - self.cosine**2) ** 0.5)
        return forged(
            coalition,
            [
                length * (along * (towards if one else -towards) + rest * noise(own))
                for own, one in zip(members, far, strict=True)
            ],
        )


@dataclass(frozen=True, slots=True)
class Unshared:
    """Minus the own update, without what the updates seen share, plus a little of that, at `scale` times its own length.

    It works against what clients differ by, and opposes nobody in the mean. cosine: with the mean direction of the updates seen,
    which loyal ones of different data have, too: the more, the less it is told from these, and the less harm it does.
    """

    scale: float = 1.5
    cosine: float = 0.0
    needs: ClassVar[Level] = Level.COLLUDING
    identical: ClassVar[bool] = False

    def __post_init__(self) -> None:
        need_numbers(self, "scale")
        check_cosine(self.cosine)

    def __call__(self, coalition: Colluding, /) -> Mapping[int, Vector]:
        members = [own.update for _, own in sorted(coalition.own.items())]
        if len(coalition.seen) < FEWEST:
            return forged(coalition, members)
        shared = unit(mean_of([unit(v) for v in coalition.seen]))
        along, rest = np.float32(self.cosine), np.float32((1 - self.cosine**2) ** 0.5)
        return forged(
            coalition,
            [
                np.float32(self.scale * np.linalg.norm(update)) * (along * shared - rest * unit(without(update, shared)))
                for update in members
            ],
        )


@dataclass(frozen=True, slots=True)
class OneWay:
    """All members push one way: against what their own updates have in common beyond what the updates seen share.

    Each upload is `scale` times the median length of those seen. cosine: with their mean direction, as in `Unshared`. share: the
    cosine with the way that all push; the rest is noise of the member's own. So harm adds up as members do, and their cosines
    to each other, which count for them as much as those to the loyal, stay below what copies have.
    """

    cosine: float = 0.0
    share: float = 0.65
    scale: float = 2.8
    needs: ClassVar[Level] = Level.COLLUDING
    identical: ClassVar[bool] = False

    def __post_init__(self) -> None:
        need_numbers(self, "scale")
        check_shares(self.cosine, self.share)

    def __call__(self, coalition: Colluding, /) -> Mapping[int, Vector]:
        members = [own for _, own in sorted(coalition.own.items())]
        if len(coalition.seen) < FEWEST:
            return forged(coalition, [own.update for own in members])
        shared = unit(mean_of([unit(v) for v in coalition.seen]))
        way = unit(mean_of([unit(without(own.update, shared)) for own in members]))
        length = np.float32(self.scale * np.median([np.linalg.norm(v) for v in coalition.seen]))
        along = np.float32(self.cosine) * shared - np.float32(self.share) * way
        rest = np.float32(max(0.0, 1 - self.cosine**2 - self.share**2) ** 0.5)
        return forged(coalition, [length * (along + rest * unit(without(without(noise(own), shared), way))) for own in members])


@dataclass(frozen=True, slots=True)
class FlippedClasses:
    """The own update with the last layer's rows of some classes times -strength, at `scale` times its own length.

    What is left of it is honest, and the rest comes to differ from others' slowly, as of clients with other labels. share: of
    all classes, at least one, the first or the last of them; of a regression, its one output's row.
    """

    share: float = 0.7
    side: Literal["first", "last"] = "first"
    strength: float = 1.0
    scale: float = 1.5
    needs: ClassVar[Level] = Level.OWN

    def __post_init__(self) -> None:
        need_numbers(self, "strength", "scale")
        if not 0 <= self.share <= 1:
            raise ValueError(f"share is from 0 to 1, not {self.share}")

    def __call__(self, own: Own, /) -> Vector:
        sent, at = own.update.copy(), len(own.update)
        pieces = list(names_and_shapes(own.module).items())[::-1]
        for name, shape in pieces:
            if name.rpartition(".")[0] != pieces[0][0].rpartition(".")[0]:
                break
            count = max(1, round(self.share * shape[0]))
            rows = slice(count) if self.side == "first" else slice(shape[0] - count, shape[0])
            sent[at - prod(shape) : at].reshape(shape)[rows] *= np.float32(-self.strength)
            at -= prod(shape)
        return np.float32(self.scale * np.linalg.norm(own.update)) * unit(sent)
