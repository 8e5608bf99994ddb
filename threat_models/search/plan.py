"""What a search plays next: a pure function of what it was answered so far, so that it can be killed and go on.

1. At the most attackers: every attack as it is by default, those that were asked for by name before anything else; then ten
   times weaker and stronger, then with its other choices, one at a time; from `ALONE` points on in turns with points that a
   tree-structured Parzen estimator proposes. A point that breaks the defence on the seeds that are searched is played on seeds
   that were held out; it is a break only if it holds on every one of them, and ends the search at this number of attackers.
   Half of the budget is for that, and more where attacks were not played as they are by default; what is left of these comes
   at 4.
2. The number of attackers is bisected (`breakdown.search`), each number being searched from the worst that is known, then with
   blocks of clients by id (`probing`): a defence may trust some more than others.
3. Points that would cost less than the cheapest break (`found.cost_of`), and broke the defence where they were searched, are
   played on the seeds that were held out, the cheapest first. Then the strengths of the cheapest break, the greatest first, are
   bisected on a logarithmic scale, by quarters of a decade, with the same search.
4. What is left of the budget goes to one attacker fewer than the cheapest break has, or, where nothing broke, to the most.

An attack that cannot be played at any of its first points, always for the same reason, is given up. The last of the budget is
left for the seeds that were held out: what breaks the defence on the others is tried there before anything else is searched.

With several searched seeds, a point is played on the second and later ones only if it is among the worst third so far or
comes half way to a bound.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from math import ceil, floor, inf, log2, log10
from typing import Any

from ...fl.runs.results_folder import Row
from ..breakdown import Steps, search
from ..membership import Pool
from .choosing import Partly
from .fields import Number, Numbers
from .forms import defaults, named_forms, usual_forms
from .found import Key, Point, cheapest, cost_of, given_up, key_of, points_of, strengths_of
from .play import Sought, Try, harm
from .probing import probe
from .space import Space, chosen_which
from .spent import spent
from .tpe import proposed, seed_for

BATCH = 4
"""Points that are chosen together, whatever the number of workers, so that what is found does not depend on it."""
ALONE = 32
"""So many points are tried before an estimator that has seen so few is asked."""
CARRIED = 6
"""Of the worst points at other numbers of attackers, so many are tried first."""
EARLY = 8
"""So many attacks are played as they are by default before clients take turns, by the worst of them."""
FIRST, LONGER, LEVELS, ALL = 0.5, 0.7, 0.85, 1.0
"""Shares of the budget by which the first number of attackers (where attacks were not played by default then), and the bisection,
are over.
"""
QUARTER = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The limits of a search. least, most: attackers. seeds: that are searched. held_out: on which a break must hold, too.

    runs, seconds: the budget, in runs of any kind and in CPU seconds (`spent.py`); one of them is finite. exhaust: whether it is
    spent in any case, on what else breaks the defence, and how badly.
    """

    least: int
    most: int
    seeds: tuple[int, ...]
    held_out: tuple[int, ...]
    sought: Sought = field(default_factory=Sought)
    runs: float = inf
    seconds: float = inf
    exhaust: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most:
            raise ValueError(f"attackers are from 1 on, the least at most the most, not {self.least} to {self.most}")
        if not self.seeds or not self.held_out or set(self.seeds) & set(self.held_out):
            raise ValueError("a search needs seeds to search and others to hold out, on which a break must hold")
        if not (self.runs > 0 and self.seconds > 0) or (self.runs == inf and self.seconds == inf):
            raise ValueError("a search needs a budget: a number of runs, or of CPU minutes, above 0")


Hunt = Generator[list[Try], list[Row], None]
"""Yields tries to be played, of which those without attack or the attackers' data come first, and is sent their lines."""


class _Spent(Exception):
    """The budget is."""


@dataclass(slots=True)
class _Hunter:
    space: Space
    plan: Plan
    rows: dict[tuple[Key, int], Row] = field(default_factory=dict)
    seconds: float = 0.0
    probed: set[int] = field(default_factory=set)

    @property
    def most(self) -> int:
        """Attackers."""
        return self.plan.most

    @property
    def runs_left(self) -> float:
        """As far as runs cost what they did so far."""
        runs, plan = len(self.rows), self.plan
        return min(plan.runs - runs, (plan.seconds - self.seconds) * runs / self.seconds if self.seconds else inf)

    @property
    def progress(self) -> float:
        """The share of the budget that is spent."""
        return max(len(self.rows) / self.plan.runs, self.seconds / self.plan.seconds)

    @property
    def points(self) -> dict[Key, Point]:
        return points_of(self.rows.values(), self.plan.seeds, self.plan.held_out, self.plan.sought)

    def play(self, tries: Sequence[Try]) -> Hunt:
        """Plays what is not known yet, first the runs that it is compared with. Raises _Spent where the budget ends before."""
        for wanted in ([one.clean for one in tries], [one.absent for one in tries], tries):
            new = {(key_of(one.numbers, one.attackers), one.seed): one for one in wanted}
            missing = [(key, one) for key, one in new.items() if key not in self.rows]
            left = floor(min(self.plan.runs - len(self.rows), len(missing))) if self.progress < 1 else 0
            if left:
                found = yield [one for _, one in missing[:left]]
                for (key, _), row in zip(missing, found, strict=False):
                    if row["status"] != "done" and not row["attackers"]:
                        raise ValueError(f"the defence has no run without attack: {row['reason']}")
                    self.rows[key] = row
                    self.seconds += spent(row)
            if left < len(missing):
                raise _Spent

    def hunt(self) -> Hunt:
        plan = self.plan
        try:
            yield from self.bisect()
            while True:
                yield from self.cheapen()
                best = self.best()
                if best is not None and best.attackers == plan.least and not plan.exhaust:
                    return
                count = plan.most if best is None else max(plan.least, best.attackers - 1)
                before = len(self.rows)
                yield from self.level(count, ALL)
                if len(self.rows) == before:
                    return  # nothing new can be proposed
        except _Spent:
            return

    def best(self) -> Point | None:
        return cheapest(self.space, self.points, self.plan.held_out)

    def bisect(self) -> Hunt:
        plan = self.plan
        steps = Steps(least=plan.least, most=plan.most, neighbours=0, probes=2)
        driven, until = search(steps), FIRST if len(steps) > 1 else ALL
        try:
            count = next(driven)
            for left in range(max(1, ceil(log2(len(steps) + 1))), -1, -1):
                broken = yield from self.level(int(count), until)
                count = driven.send(broken)
                until = self.progress + max(0.0, LEVELS - self.progress) / max(1, left)
        except StopIteration:
            return

    def level(self, count: int, until: float) -> Generator[list[Try], list[Row], bool]:
        """Searches one number of attackers until a share of the budget is spent; whether it found a break."""
        first = defaults(self.space) if count == self.plan.most else []
        broken = (yield from self.named(count)) if first and self.space.only else False
        queue, ahead = self.waiting(count), first[:EARLY] or self.carried(count)
        while (self.progress < until or self.left(first, count)) and not (broken and not self.plan.exhaust):
            if count not in self.probed and not self.unplayed(ahead, count):
                self.probed.add(count)
                broken = (yield from probe(self, count)) or broken
                continue
            points = self.points
            without = given_up(points.values())
            known = [(p.numbers, p.severity) for p in points.values() if p.attackers == count]
            usual_turn = len(known) < ALONE or len(known) // BATCH % 2 == 0
            size = self.affordable(count)
            chosen = list(islice((n for n in queue if n["attack"] not in without), size)) if usual_turn else []
            if not chosen:
                ask = partial(self.ask, without=without)
                chosen = proposed(ask, known, size, seed_for(count, len(known), self.plan.seeds))
            if not chosen:
                break
            broken = (yield from self.tried(chosen, count)) or broken
        return broken

    def named(self, count: int) -> Generator[list[Try], list[Row], bool]:
        """Plays what was asked for by name, as it is by default, before a break by any of it is looked for with other numbers or
        with fewer attackers; whether one is a break.
        """
        broken = False
        while left := self.unplayed(named_forms(self.space), count):
            broken = (yield from self.tried(left[: self.affordable(count, len(left))], count)) or broken
        return broken

    def unplayed(self, forms: Sequence[Numbers], count: int) -> list[Numbers]:
        """Those of these that were not played, and whose attack was not given up."""
        points = self.points
        without = given_up(points.values())
        return [n for n in forms if n["attack"] not in without and key_of(n, count) not in points]

    def left(self, first: Sequence[Numbers], count: int) -> bool:
        """Whether one of these attacks as they are by default was not played, while there is budget for what follows: fewer
        attackers are not tried before that, in vain.
        """
        return self.progress < LONGER and bool(self.unplayed(first, count))

    def affordable(self, count: int, size: int = BATCH) -> int:
        """How many points of so many to play at once, so that the budget lasts to try one of them on every seed held out."""
        plan, left = self.plan, self.runs_left
        without = {seed for key, seed in self.rows if not key[0]}
        known = {seed for key, seed in self.rows if key[1] == count}
        held = sum(1 + (seed not in known) + (seed not in without) for seed in plan.held_out)
        beside = sum((seed not in known) + (seed not in without) for seed in plan.seeds[:1])
        return size if left >= size + held + beside else max(1, floor(left - held - beside))

    def ask(self, choose: object, without: frozenset[str] = frozenset()) -> Numbers:
        """Fixes a point of the space, its attackers apart. without: attacks that were given up, for which it raises
        ValueError.
        """
        asked: Any = choose
        attack = Partly(asked, self.space.fixed).one_of("attack", self.space.attacks) if without else ""
        if attack in without:
            raise ValueError(f"{attack} was given up")
        self.space.adversary(asked, Pool(1))
        chosen_which(self.space, asked)
        return asked.chosen if hasattr(asked, "chosen") else {}

    def waiting(self, count: int) -> Iterator[Numbers]:
        """What is tried before anything is proposed: the worst that is known; at first the usual forms of all attacks."""
        points, carried = self.points, self.carried(count)
        first = usual_forms(self.space) if count == self.plan.most or not carried else []
        return (n for n in [*carried, *first] if key_of(n, count) not in points)

    def carried(self, count: int) -> list[Numbers]:
        """The worst that are known at other numbers of attackers."""
        others = sorted((p for p in self.points.values() if p.attackers != count and not p.failed), key=lambda p: -p.severity)
        return [p.numbers for p in others][:CARRIED]

    def tried(self, chosen: Sequence[Numbers], count: int) -> Generator[list[Try], list[Row], bool]:
        """Plays points on the searched seeds, and those that break the defence there on the others; whether one is a break."""
        first, *later = self.plan.seeds
        yield from self.play([Try(n, count, first) for n in chosen])
        for seed in later:
            promising = [n for n in chosen if self.promising(n, count)]
            yield from self.play([Try(n, count, seed) for n in promising])
        keys = [key_of(n, count) for n in chosen]
        points, broken = self.points, False
        for key in sorted(keys, key=lambda k: -points[k].severity):
            if points[key].suspected and (yield from self.held(points[key])):
                broken = True
                if not self.plan.exhaust:
                    break
        return broken

    def promising(self, numbers: Numbers, count: int) -> bool:
        points = self.points
        own = points[key_of(numbers, count)].severity
        others = sorted((p.severity for p in points.values() if p.attackers == count), reverse=True)
        return own > 0.5 or own >= others[(len(others) - 1) // 3] > 0

    def held(self, point: Point) -> Generator[list[Try], list[Row], bool]:
        """Whether a point holds on every seed that was held out; the first that refutes it ends this."""
        key = key_of(point.numbers, point.attackers)
        for seed in self.plan.held_out:
            yield from self.play([Try(point.numbers, point.attackers, seed)])
            if self.points[key].refuted() or self.points[key].without:
                return False
        return True

    def cheapen(self) -> Hunt:
        """Plays what may be cheaper than the cheapest break, until nothing is left: what is suspected, then what is weaker."""
        lowered: set[tuple[Key, str]] = set()
        while True:
            yield from self.confirm()
            if (best := self.best()) is None:
                return
            strengths = strengths_of(self.space, best.numbers)
            of = key_of({name: value for name, value in best.numbers.items() if name not in strengths}, best.attackers)
            left = [name for name in strengths if (of, name) not in lowered]
            if not left:
                return
            name = max(left, key=lambda name: float(best.numbers[name]))
            lowered.add((of, name))
            yield from self.weaken(best, name, strengths[name][0])

    def confirm(self) -> Hunt:
        """Plays points that would be cheaper than the cheapest break on the seeds held out, until one of them holds."""
        best = self.best()
        if best is None:
            return
        costs = [(cost_of(self.space, p), p) for p in self.points.values() if p.suspected and not (p.refuted() or p.without)]
        for cost, point in sorted(costs, key=lambda pair: pair[0]):
            if cost >= cost_of(self.space, best) or (yield from self.held(point)):
                return

    def weaken(self, best: Point, name: str, weakest: float) -> Hunt:
        """Bisects one strength of a break, down to the weakest that still breaks and holds."""
        strongest = float(best.numbers[name])
        if strongest <= 0:  # it is set: which way is weaker is not known
            return
        top = log10(strongest)
        count = floor((top - log10(weakest)) / QUARTER + 1e-9)
        if count < 1:
            return
        driven = search(Steps(least=top - count * QUARTER, most=top, step=QUARTER, neighbours=0, probes=0))
        try:
            exponent = next(driven)
            while True:
                at: dict[str, Number] = {**best.numbers, name: float(f"{10**exponent:.6g}")}
                at = dict(best.numbers) if exponent >= top - 1e-6 else at
                exponent = driven.send((yield from self.tried([at], best.attackers)))
        except StopIteration:
            return


def hunt(space: Space, plan: Plan) -> Hunt:
    """The search, with whoever drives it to play tries. Nothing but the lines that it is sent decides what it asks for next."""
    return _Hunter(space, plan).hunt()


def settled(plan: Plan, points: Iterable[Point]) -> Hunt:
    """Plays what an earlier budget left open: points that broke the defence where they were searched, on what is left of these
    seeds, and on those held out.
    """
    waiting = [p for p in points if p.suspected and not (p.refuted() or p.without) and not p.breaks(plan.held_out)]
    for point in sorted(waiting, key=lambda p: -p.severity):
        seen = [of.severity for of in point.searched.values()]
        for seed in (*(s for s in plan.seeds if s not in point.searched), *plan.held_out):
            if sum(seen) <= len(seen):
                break  # it does not break the defence in the mean of the seeds searched
            one = Try(point.numbers, point.attackers, seed)
            (clean,) = yield [one.clean]
            (absent,) = yield [one.absent]
            (row,) = yield [one]
            severity = harm(row, clean, absent, plan.sought).severity
            if seed in plan.held_out and severity <= 1:
                break
            seen += [] if seed in plan.held_out else [severity]
