"""Whether a defence holds, in an evaluation: by accuracy and backdoors together, seed by seed, and never by a mean that hides a
break.

A defence breaks under an attack where, as `threat_models.broken` defines it, it is broken in some seed: late in the run, or in
its last evaluation alone, which is said apart. It holds where no seed breaks and the interval of the mean over seeds ends below
the bound. Else it is undecided, and the seeds that would decide it, if they are like those played, are counted.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from math import inf, isfinite, sqrt

from ..fl.runs.results_folder import Row
from ..grids.spread import LEVEL, Spread, metric, quantile, spread
from ..threat_models.broken import gained
from ..threat_models.chance import NOTHING
from .data import Grid
from .learning import at_chance
from .losses import ends_ruined, gains_by_seed, held_by_seed, lost_at_end_of, lost_by_seed, reference_of

DECIDE = 3
"""Seeds below which nothing but a break is decided."""
MANY = 1000
"""Seeds beyond which none are counted."""
NOBODY = "no attacker at work"
"""What is found where none was, in any round: nothing was held against."""
UNCHANGED = "no model changed"
"""Likewise where no attack changed the model of any loyal client: nothing was held against either."""
REFUSED = "attack refused"
"""Likewise where all that attackers sent was refused, with any attack of which anything was taken."""
SPENT = (UNCHANGED, REFUSED)
AT_THE_END = "breaks at the end"
"""Of what is lost in the last evaluation alone."""


class State(IntEnum):
    """What is found of a defence, the worst last."""

    HOLDS = 0
    UNDECIDED = 1
    BREAKS = 2


@dataclass(frozen=True, slots=True)
class Harm:
    """What an attack does to a defence, seed by seed, against a bound.

    lost: over seeds: accuracy, or a backdoor's success above that on clean models. broke: in how many seeds it breaks the
    defence. needs: about how many seeds would decide it; inf for more than are counted, None where it is decided.
    """

    attack: str
    lost: Spread
    bound: float
    broke: int
    needs: float | None

    @property
    def state(self) -> State:
        if self.broke:
            return State.BREAKS
        return State.HOLDS if self.needs is None else State.UNDECIDED


@dataclass(frozen=True, slots=True)
class Finding:
    """A defence at one strength, against every attack that was played; where attacks differ in that, against those with no more
    attackers than it is built for, or with more.

    attackers: the most at work in one round, with any of them. built_for: how many the defence is built for, None where it states
    none. harm: by the attack that costs most accuracy; backdoor: by that with the most success; None where there is none.
    undecided: by attack that does not break it and is not known to leave it whole, about how many seeds would decide it.
    without: by attack without a result, on how many of the seeds. seeds: that were to be played. reference: what harm is held
    against, in words; held: over seeds, the accuracy that this is with the seeds of `harm`, of which it is what is lost. nothing:
    whether it is at chance without any attack, so that no number of seeds would tell what an attack does. ended: by the attack
    that costs most in the last evaluation alone, None where that breaks the defence in no seed. rows: by attack, the lines that
    it rests on, which are not all of the place where attacks differ as above.
    """

    defence: str
    protection: str
    strength: float
    attackers: int
    built_for: int | None
    harm: Harm | None
    backdoor: Harm | None
    undecided: Mapping[str, float]
    without: Mapping[str, int]
    seeds: int
    reference: str
    held: Spread | None = None
    nothing: bool = False
    ended: Harm | None = None
    rows: Mapping[str, Sequence[Row]] = field(default_factory=dict, repr=False)

    @property
    def within(self) -> bool | None:
        """Whether there are no more attackers than the defence is built for; None where it states no number."""
        return None if self.built_for is None else self.attackers <= self.built_for

    @property
    def unchanged(self) -> tuple[str, ...]:
        """Attacks that changed the model of no loyal client in any run in which an attacker was at work."""
        at_work = {attack: [row for row in of if row.get("attackers")] for attack, of in self.rows.items()}
        return tuple(attack for attack, of in at_work.items() if of and all(row.get("same_models") for row in of))

    @property
    def met_nothing(self) -> bool:
        """Whether nothing of any attack counted, and none is without a result: nobody was at work, or what was sent was refused,
        or changed nothing.
        """
        met = [row for of in self.rows.values() for row in of if row.get("attackers")]
        return not self.attackers or (not self.without and all(row.get("same_models") or all_refused(row) for row in met))

    @property
    def state(self) -> State:
        """Of what learned nothing without attack nothing is known: what parts it from itself is chance, or the labels' shares."""
        found = [of for of in (self.harm, self.backdoor, self.ended) if of is not None and not self.nothing]
        if any(of.state == State.BREAKS for of in found):
            return State.BREAKS
        return State.HOLDS if found and not (self.met_nothing or self.undecided or self.without) else State.UNDECIDED

    @property
    def holds(self) -> bool:
        """Whether it is said to hold: never of what learned nothing without attack."""
        return self.state == State.HOLDS

    @property
    def word(self) -> str:
        """What is found, in a word or two."""
        if self.nothing:
            return NOTHING
        if self.state == State.BREAKS:
            late = self.harm is not None and self.harm.state == State.BREAKS
            broken = "breaks" if late else AT_THE_END if self.ended is not None else ""
            through = self.backdoor is not None and self.backdoor.state == State.BREAKS
            return " and ".join(filter(None, [broken, "lets a backdoor through" * through]))
        if self.met_nothing:
            return self._spent if self.attackers else NOBODY
        return "holds" if self.state == State.HOLDS else "undecided"

    @property
    def _spent(self) -> str:
        """What nothing of any attack counted for: `UNCHANGED` or `REFUSED`."""
        met = [row for of in self.rows.values() for row in of if row.get("attackers")]
        return UNCHANGED if all(row.get("same_models") for row in met) else REFUSED

    @property
    def needs(self) -> float | None:
        """About how many seeds would decide what is undecided; None where seeds are not what is lacking, as where cells
        failed.
        """
        needed = [seeds for attack, seeds in self.undecided.items() if attack not in self.without]
        open_ = self.state == State.UNDECIDED and not (self.met_nothing or self.nothing)
        return max(needed) if needed and open_ else None

    def over(self, harm: Harm | None, *path: str) -> Spread | None:
        """A metric of the lines that it rests on of the attack that does this, over their seeds."""
        return None if harm is None else self.under(harm.attack, *path)

    def under(self, attack: str, *path: str) -> Spread | None:
        """The same of an attack."""
        return spread(metric(row, *path) for row in self.rows.get(attack, ()))

    @property
    def gained_most(self) -> float:
        """What any backdoor gains on any seed; 0 where none gains anything."""
        return max((0.0, *(gained(row.get("success")) or 0.0 for of in self.rows.values() for row in of)))


def all_refused(row: Row) -> bool:
    """Whether as many of the attackers' updates were refused as they sent at most: none of the attack counted."""
    refused = (row.get("rejected") or {}).get("members") or 0
    return bool(0 < (row.get("attackers") or 0) * (max(row.get("rounds") or [0]) + 1) <= refused)


def findings_at(grid: Grid, defence: str, strength: float, protection: str) -> list[Finding]:
    """The defence judged at this strength, by what is done: apart what has no more attackers than it is built for and what has
    more, where attacks differ in that.
    """
    rows = {attack: grid.rows(attack, defence, strength, protection) for attack in grid.attacks}
    limit = grid.built_for(defence, [row for of in rows.values() for row in of])
    spot, found = (defence, strength, protection), []
    for inside in (True, False):
        part = {attack: [row for row in of if _inside(row, limit) is inside] for attack, of in rows.items()}
        found += [_finding(grid, spot, rows, part)] if any(part.values()) else []
    return found


def _inside(row: Row, limit: int | None) -> bool:
    """Whether a run has no more attackers than the defence is built for."""
    return limit is None or int(row.get("attackers") or 0) <= limit


def _finding(
    grid: Grid, spot: tuple[str, float, str], every: Mapping[str, Sequence[Row]], rows: Mapping[str, Sequence[Row]]
) -> Finding:
    """By some of the lines there. every: all of them."""
    defence, strength, protection = spot
    absent, seeds, limit = grid.absent(defence, strength, protection), len(grid.about["seeds"]), grid.about["bounds"]
    losses, rates, without = {}, {}, {}
    for attack, of in rows.items():
        by_seed, gains = lost_by_seed(of, absent), gains_by_seed(of, limit["success"])
        losses[attack], rates[attack] = [*by_seed.values()], [*gains.values()]
        all_losses, all_gains = lost_by_seed(every[attack], absent), gains_by_seed(every[attack], limit["success"])
        lacking = seeds - sum(isfinite(v) and isfinite(all_gains.get(seed, v)) for seed, v in all_losses.items())
        if lacking and (of or not every[attack]):
            without[attack] = lacking
    harms, backdoors = _harms(losses, limit["loss"]), _harms(rates, limit["success"])
    ends = grid.absent_at_end(defence, strength, protection)
    open_: dict[str, float] = {}
    for harm in (*harms, *backdoors):
        if harm.needs is not None:
            open_[harm.attack] = max(harm.needs, open_.get(harm.attack, 0))
    own = grid.clean(defence, protection)
    here, worst = [row for of in rows.values() for row in of], _worst(harms)
    return Finding(
        defence,
        protection,
        strength,
        max((int(row.get("attackers") or 0) for row in here), default=0),
        grid.built_for(defence, [row for of in every.values() for row in of]),
        worst,
        _worst(backdoors),
        open_,
        without,
        seeds,
        reference_of(here, absent),
        None if worst is None else spread(held_by_seed(rows[worst.attack], absent).values()),
        own is not None and at_chance(grid, own.mean, protection),
        _worst([one for attack, of in rows.items() if (one := _ended(attack, of, absent, ends, limit["loss"])) is not None]),
        rows,
    )


def _ended(attack: str, rows: Sequence[Row], absent: Mapping[int, float], ends: Mapping[int, float], bound: float) -> Harm | None:
    """What an attack costs in the last evaluation alone; None where that breaks the defence in no seed but those broken late, and
    the means late and at the end are no further apart than the bound.
    """
    ruins = [row["seed"] for row in rows if ends_ruined(row, absent, ends, bound)]
    late, broke = lost_by_seed(rows, absent), len(ruins)
    seen = spread(lost_at_end_of(row, absent, ends) for row in rows)
    drop = spread(metric(row, "accuracy", "late") - metric(row, "accuracy", "final") for row in rows)
    if all(late[seed] > bound for seed in ruins) and drop is not None and drop.mean <= bound:
        return None
    return Harm(attack, seen, bound, broke, None) if seen is not None and broke else None


def findings(grid: Grid, protection: str) -> list[Finding]:
    """Of every defence at every strength, the weakest first, where anything was played and the defence works without attack."""
    there = [d for d in grid.defences if not grid.idle(d, protection)]
    found = [one for d in there for s in sorted(grid.strengths) for one in findings_at(grid, d, s, protection)]
    return [one for one in found if one.harm is not None]


def harm_of(attack: str, values: Iterable[float], bound: float) -> Harm | None:
    """Of one attack, from a value a seed; None where there is none."""
    seen = [v for v in values if isfinite(v)]
    lost = spread(seen)
    if lost is None:
        return None
    broke = sum(v > bound for v in seen)
    decided = broke or (lost.count > 1 and lost.high <= bound)
    return Harm(attack, lost, bound, broke, None if decided else seeds_needed(bound - lost.mean, lost))


def seeds_needed(gap: float, of: Spread, level: float = LEVEL) -> float:
    """The least number of seeds, above those played, with which the interval of the mean is shorter than the gap to what it is
    held against, if mean and deviation stay as they are, DECIDE at least; inf where that takes more than MANY. One seed alone
    has no deviation: DECIDE.
    """
    if of.count < 2:
        return DECIDE
    for n in range(max(DECIDE, of.count + 1), MANY + 1):
        if quantile(n, level) * of.deviation / sqrt(n) < abs(gap):
            return n
    return inf


def seeds_words(needed: float) -> str:
    """So many seeds, in words."""
    return f"more than {MANY} seeds needed" if needed == inf else f"about {needed:g} seeds needed"


def without_words(without: Mapping[str, int], seeds: int) -> str:
    """Which attacks have no result, or none on some of the seeds: "no result against A; no result on 1 of 2 seeds against B"."""
    by = {n: [attack for attack, of in without.items() if of == n] for n in sorted({*without.values()}, reverse=True)}
    return "; ".join(
        f"no result {'' if n >= seeds else f'on {n} of {seeds} seeds '}against {', '.join(of)}" for n, of in by.items()
    )


def _harms(values: Mapping[str, Sequence[float]], bound: float) -> list[Harm]:
    return [harm for attack, of in values.items() if (harm := harm_of(attack, of, bound)) is not None]


def _worst(found: Sequence[Harm]) -> Harm | None:
    """By the attack that does most: one that breaks before one that does not, then by the mean over seeds."""
    return max(found, key=lambda harm: (harm.state == State.BREAKS, harm.lost.mean), default=None)
