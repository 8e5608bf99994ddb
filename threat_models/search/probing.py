"""Whether a defence trusts some clients more than others: blocks of clients that follow each other by id attack in turn, then
parts of the worst block, down to as many attackers as are asked about.

Each attacks as the worst point that is known does, and by uploads of enormous length, for what is trusted is not bounded. All
clients are in some block, unless the budget has no room for so many.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from math import ceil
from typing import Protocol

from ...fl.runs.results_folder import Row
from ..magnified import Magnified
from ..membership import Pool
from .fields import Number, Numbers
from .found import Key, Point, key_of, worst
from .play import Try
from .space import Space, usual
from .who import FIRST, FROM, WHICH

BLOCKS = 12
"""Blocks of all clients, at most, unless so few attackers are allowed that there are more."""
PARTS = 4
"""Of the worst block, at most."""
SHARE = 1 / 3
"""Of the runs that are left, so many may go to blocks at once; each takes a run without its members' data, too."""
VARIANT, LOUD = "variant", Magnified.__name__
FEWEST = 4
"""Blocks that say something where there is no room for all."""


class Prober(Protocol):
    """The hunter, as far as it is asked."""

    space: Space

    @property
    def points(self) -> dict[Key, Point]: ...

    @property
    def most(self) -> int: ...

    @property
    def runs_left(self) -> float: ...

    def tried(self, chosen: Sequence[Numbers], count: int) -> Generator[list[Try], list[Row], bool]: ...


def probe(by: Prober, count: int) -> Generator[list[Try], list[Row], bool]:
    """Plays blocks until they are of so many attackers, first parts of one that broke the defence; whether one is a break.

    Nothing where nothing was played.
    """
    clients, top = by.space.clients, worst(by.points.values())
    if clients < 2 or {WHICH, FIRST} & by.space.fixed.keys() or top is None:
        return False
    kinds = [top.numbers, *loud(by.space, top.numbers)]
    broke = [p for p in by.points.values() if p.suspected and p.attackers > count and p.numbers.get(WHICH) == FROM]
    if broke:
        one = min(broke, key=lambda p: (p.attackers, -p.severity))
        first, length = int(one.numbers[FIRST]), one.attackers
        if (yield from _within(by, count, [one.numbers], (first, length), ceil(length / PARTS))):
            return True
    return (yield from _within(by, count, kinds, (0, clients), min(by.most, ceil(clients / BLOCKS))))


def _within(
    by: Prober, count: int, kinds: Sequence[Numbers], of: tuple[int, int], size: int
) -> Generator[list[Try], list[Row], bool]:
    """The same of these clients: of the first, and of how many. size: of the first blocks. kinds: what each block does."""
    (first, length), size = of, max(count, size)
    while True:
        starts = blocks(first, length, size, by.space.clients)
        new = [start for start in starts if any(key_of(at_place(numbers, start), size) not in by.points for numbers in kinds)]
        kept = {*starts} - {*new} | {*afforded(new, by.runs_left / (1 + len(kinds)))}
        forms = [at_place(numbers, start) for start in starts if start in kept for numbers in kinds]
        if not forms:
            return False
        broken = yield from by.tried(forms, size)
        if size == count:
            return broken
        points = by.points
        first = int(max(forms, key=lambda form: points[key_of(form, size)].severity)[FIRST])
        length, size = size, max(count, ceil(size / PARTS))


def blocks(first: int, length: int, size: int, clients: int) -> list[int]:
    """Where blocks of this size begin that together are so many clients from `first` on; the last one ends where these do."""
    return [(first + min(start, length - size)) % clients for start in range(0, length, size)]


def afforded(starts: Sequence[int], left: float) -> list[int]:
    """All of these, or as many as there is room for, of so many that are left, spread with the first and the last among them."""
    room = int(min(SHARE * left, len(starts)))
    if room == len(starts):
        return list(starts)
    return [starts[round(k * (len(starts) - 1) / (room - 1))] for k in range(room)] if room >= FEWEST else []


def loud(space: Space, beside: Numbers) -> list[Numbers]:
    """The first attack whose uploads can be made enormous, with these; none where there is none, or where that is known."""
    for name in space.attacks if VARIANT not in space.fixed and beside.get(VARIANT) != LOUD else ():
        with suppress(ValueError, KeyError):  # what has no uploads, or others
            if (found := usual(space, {"attack": name, VARIANT: LOUD}, Pool(1))[0]).get(VARIANT) == LOUD:
                return [found]
    return []


def at_place(numbers: Numbers, first: int) -> Mapping[str, Number]:
    """The point with the clients from this place on as its members."""
    return {**{name: value for name, value in numbers.items() if name not in (WHICH, FIRST)}, WHICH: FROM, FIRST: first}
