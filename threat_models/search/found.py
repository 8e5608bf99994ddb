"""What the lines of a search say: every point that was tried, which of them break the defence, and which of those is cheapest."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from ...fl.runs.results_folder import Row
from ..membership import Pool
from .choosing import Usual
from .fields import Numbers
from .play import Harm, Sought, Try, harm
from .space import Space
from .who import who

Key = tuple[tuple[tuple[str, object], ...], int]
FAILURES = 5
"""An attack whose first points, so many, all failed alike is given up."""
MULTIPLY = (".factor", ".scale")
"""How numbers end that multiply all that a member sends: an attack's own, those of what is around it, of a boost, of samples."""


@dataclass(slots=True)
class Point:
    """A point of the space with a number of attackers. searched, held_out: harm by seed, of those seeds that have a result.

    without: why others have none, by seed. erred: whether one of these was an error, and no refusal of the protection's; error:
    the first that was. seconds: of CPU, of its runs.
    """

    numbers: Numbers
    attackers: int
    searched: dict[int, Harm] = field(default_factory=dict)
    held_out: dict[int, Harm] = field(default_factory=dict)
    without: dict[int, str] = field(default_factory=dict)
    erred: bool = False
    seconds: float = 0.0
    error: str = ""

    @property
    def why(self) -> str:
        """Why a seed has no result, the first such; empty where all have."""
        return next(iter(self.without.values()), "")

    @property
    def failed(self) -> str:
        """The same where no seed that was searched has a result: it could not be played."""
        return "" if self.searched else self.why

    @property
    def seen(self) -> list[Harm]:
        """Of all seeds that were played, those held out last."""
        return [*self.searched.values(), *self.held_out.values()]

    @property
    def severity(self) -> float:
        """Mean over all seeds that were played, held out or not: what holds on one seed alone counts for little."""
        seen = [h.severity for h in self.seen]
        return sum(seen) / len(seen) if seen else 0.0

    @property
    def severity_searched(self) -> float:
        """Mean over the seeds that were searched alone."""
        seen = [h.severity for h in self.searched.values()]
        return sum(seen) / len(seen) if seen else 0.0

    @property
    def suspected(self) -> bool:
        """Whether it breaks the defence in the mean of the seeds that were searched."""
        return self.severity_searched > 1

    def breaks(self, seeds: Sequence[int]) -> bool:
        """Whether it breaks the defence there and on every one of these seeds, which were held out, and each seed that it was
        played on has a result: nobody knows a mean of which a seed is missing.
        """
        return (
            self.suspected
            and not self.without
            and all(seed in self.held_out and self.held_out[seed].severity > 1 for seed in seeds)
        )

    def refuted(self) -> bool:
        """Whether it was suspected, and does not hold on a seed that was held out."""
        return self.suspected and any(h.severity <= 1 for h in self.held_out.values())

    @property
    def loss(self) -> float:
        """Mean over the seeds that were played."""
        seen = [h.loss for h in self.seen]
        return sum(seen) / len(seen) if seen else 0.0


def key_of(numbers: Numbers, attackers: int) -> Key:
    return tuple(sorted(numbers.items())), attackers


def points_of(rows: Iterable[Row], seeds: Sequence[int], held_out: Sequence[int], sought: Sought) -> dict[Key, Point]:
    """Every point that was tried under these seeds, in the order of the lines. Lines without the runs beside them are left
    aside; of several of one point and seed the last counts.
    """
    last = {(key_of(one.numbers, one.attackers), one.seed): (one, row) for row in rows if (one := try_of(row))}
    kept = list(last.values())
    clean = {one.seed: row for one, row in kept if one.is_clean}
    absent = {(key_of(one.numbers, one.attackers), one.seed): row for one, row in kept if one.is_absent}
    found: dict[Key, Point] = {}
    for one, row in kept:
        beside = absent.get((key_of(who(one.numbers), one.attackers), one.seed))
        if "attack" not in one.numbers or beside is None or one.seed not in clean or one.seed not in (*seeds, *held_out):
            continue
        point = found.setdefault(key_of(one.numbers, one.attackers), Point(one.numbers, one.attackers))
        of = point.searched if one.seed in seeds else point.held_out
        if row["status"] == "done":
            of[one.seed] = harm(row, clean[one.seed], beside, sought)
        else:
            point.without[one.seed] = str(row["reason"])
        point.erred |= row["status"] == "failed"
        point.error = point.error or (str(row["reason"]) if row["status"] == "failed" else "")
        point.seconds += float(row["cost"]["seconds"])
    return found


def given_up(points: Iterable[Point]) -> frozenset[str]:
    """Attacks whose first points all failed for one reason, the numbers in it apart."""
    first: dict[str, list[str]] = {}
    for point in points:
        first.setdefault(str(point.numbers["attack"]), []).append(re.sub(r"\d+", "", point.failed))
    return frozenset(name for name, why in first.items() if len(why) >= FAILURES and why[0] and len(set(why[:FAILURES])) == 1)


def try_of(row: Row) -> Try:
    return Try(row["numbers"], row["attackers"], row["seed"])


def strength_of(space: Space, numbers: Numbers) -> str | None:
    """The name of the attack's first number that is a strength; None where it has none."""
    return next(iter(strengths_of(space, numbers)), None)


def strengths_of(space: Space, numbers: Numbers) -> dict[str, tuple[float, float]]:
    """The strengths of a point by name, with the least and the most that each may be: the first of the attack's own, then all
    that multiply what is sent.
    """
    choose = Usual(numbers)
    space.adversary(choose, Pool(1))
    first = next((name for name in choose.strengths if name.startswith(f"{numbers['attack']}.")), "")
    names = dict.fromkeys([first, *(name for name in choose.strengths if name.endswith(MULTIPLY))])
    return {name: choose.strengths[name] for name in names if name}


def cost_of(space: Space, point: Point) -> tuple[int, float]:
    """What a break costs: attackers, then the strength of what is really sent, which is that of the attack times every factor on
    it, 1 where there is none: a hundredth of an attack, sent a million times, is no weak one.
    """
    return point.attackers, prod(abs(float(point.numbers[name])) for name in strengths_of(space, point.numbers))


def cheapest(space: Space, points: Mapping[Key, Point], held_out: Sequence[int]) -> Point | None:
    """The break that costs least, the more severe one of equals; None where nothing breaks the defence."""
    found = [p for p in points.values() if p.breaks(held_out)]
    return min(found, key=lambda p: (*cost_of(space, p), -p.severity), default=None)


def worst(points: Iterable[Point]) -> Point | None:
    """The most severe point of those that could be played, each in the mean of the seeds that it was played on; of equals, as
    where none does harm, that which loses most.
    """
    return max((p for p in points if not p.failed), key=lambda p: (p.severity, p.loss), default=None)


def worst_searched(points: Iterable[Point]) -> Point | None:
    """The most severe on the seeds that were searched, whatever it is on those held out."""
    return max((p for p in points if not p.failed), key=lambda p: p.severity_searched, default=None)
