"""Which defences hold wherever they are built to, and which of them loses least."""

from collections.abc import Mapping, Sequence
from math import comb

from ..grids.spread import LEVEL, spread
from ..grids.words import capital, names_words
from .caveats import fewer_than_built_for
from .data import Grid, at
from .judging import DECIDE, SPENT, UNCHANGED, Finding, State, seeds_needed, seeds_words
from .learning import enough_words, learns, without_attack
from .loss_words import lost_in_the_mean, nothing_met, points, rate, they_are, verb_of
from .losses import lost_by_seed

WITHIN = "with as many attackers as it is built for"


def which_is_best(grid: Grid, found: Sequence[Finding]) -> str:
    """Which defences hold against all that was played wherever they are built to, and which of them loses least."""
    inside = [one for one in found if one.within and one.attackers]
    if not inside:
        judged = {(one.defence, one.strength) for one in found}
        if any(_missing_within(grid, found, one) for one in found) or any(
            (d, s) not in judged for d in grid.defences for s in grid.strengths
        ):
            return "no defence has a result with as many attackers as it says it is built for."
        return "no number of attackers was played that a defence says it is built for."
    met = [one for one in inside if one.word not in SPENT]
    spared = [d for d in dict.fromkeys(one.defence for one in inside) if d not in {one.defence for one in met}]
    nothing = nothing_met(spared, all(one.word == UNCHANGED for one in inside if one.defence in spared)) if spared else ""
    if not met:
        by = {d: [one for one in inside if one.defence == d] for d in spared}
        return f"{_as_many(by, spared)}, {nothing}. {without_attack(grid, spared, inside[0].protection)}"
    return _of_those_attacked(grid, found, met) + (f" {capital(nothing)}." if spared else "")


def _of_those_attacked(grid: Grid, found: Sequence[Finding], inside: Sequence[Finding]) -> str:
    """The same of those that an attack changed something of. inside: where they are built for as many attackers."""
    by = {d: [one for one in inside if one.defence == d] for d in dict.fromkeys(one.defence for one in inside)}
    place = inside[0].protection
    all_holding = [
        d for d, of in by.items() if all(one.state == State.HOLDS for one in of) and not _missing_within(grid, found, of[0])
    ]
    holding = [d for d in all_holding if learns(grid, d, place)]
    open_ = [d for d, of in by.items() if all(one.state != State.BREAKS for one in of) and learns(grid, d, place)]
    if not holding and len(open_) == len(by):
        return f"undecided: no defence breaks {WITHIN}, and none is known to hold against every attack played."
    if not holding:
        little = all_holding or not any(learns(grid, d, place) for d in by)
        nothing = f" that learned {enough_words(grid, place)}" if little else ""
        if open_:
            of = f"{names_words(open_)} {'is' if len(open_) == 1 else 'are'} undecided"
            return f"no defence{nothing} is known to hold against every attack played {WITHIN}; {of}."
        return f"no defence{nothing} holds against every attack played {WITHIN}."
    hold = f"{names_words(holding)} {verb_of(holding, 'hold')} against every attack played."
    who = f"{_as_many(by, holding)}, {hold}"
    common = set.intersection(*({one.strength for one in by[d]} for d in holding))
    if len(holding) == 1 or not common:
        return f"{who} {without_attack(grid, holding, place)}"
    strength = max(common)
    least, *others = sorted(
        (one for d in holding for one in by[d] if one.strength == strength),
        key=lost_in_the_mean,
    )
    words = f"{who} With {at(grid, strength)} {least.defence} loses least of these: {points(least)}{rate(least)}."
    return " ".join(filter(None, [words, _alike(grid, least, others), without_attack(grid, holding, place)]))


def _as_many(by: Mapping[str, Sequence[Finding]], names: Sequence[str]) -> str:
    """With as many attackers as these are built for, or with fewer, and how many."""
    fewer = fewer_than_built_for(by, names)
    many = "no more attackers than" if fewer else "as many attackers as"
    return f"with {many} {they_are(names)} built for{fewer}"


def strengths_without_result(grid: Grid, found: Sequence[Finding], defence: str, protection: str) -> list[float]:
    """Strengths at which a defence has no result with any attack, though it has at others."""
    judged = {one.strength for one in found if (one.defence, one.protection) == (defence, protection)}
    return [s for s in sorted(grid.strengths) if judged and s not in judged]


def _missing_within(grid: Grid, found: Sequence[Finding], one: Finding) -> bool:
    """Whether an attack has no result with a defence at some strength, or none on some seed, with as many attackers as the
    defence may be built for.
    """
    if one.built_for is None:
        return False
    seeds, spots = len(grid.about["seeds"]), [(s, attack) for s in grid.strengths for attack in grid.attacks]
    lacking = [(s, attack) for s, attack in spots if len(grid.rows(attack, one.defence, s, one.protection)) < seeds]
    return any(_met(grid, found, attack, s) <= one.built_for for s, attack in lacking)


def _met(grid: Grid, found: Sequence[Finding], attack: str, strength: float) -> int:
    """How many attackers others meet of an attack at a strength; of the others there where nobody has a result."""
    there = [one for one in found if one.strength == strength]
    of_it = [int(row.get("attackers") or 0) for one in there for row in one.rows.get(attack, ())]
    counted = [int(strength)] if grid.about["strength"] == "attackers" else []
    return max(of_it or counted or [one.attackers for one in there], default=0)


def _alike(grid: Grid, least: Finding, others: Sequence[Finding]) -> str:
    """Whom the difference, paired by seed, does not tell from the one that loses least, and about how many seeds would. The
    intervals hold for all pairs at once (Bonferroni), as which one loses least is seen in the same seeds.
    """
    open_, needed = [], 0.0
    level = 1 - (1 - LEVEL) / comb(len(others) + 1, 2)
    mine = _lost(grid, least)
    for other in others:
        theirs = _lost(grid, other)
        gap = spread((theirs[seed] - mine[seed] for seed in mine.keys() & theirs.keys()), level)
        if gap is None or gap.count < 2 or gap.mean <= gap.half:
            open_.append(other.defence)
            needed = max(needed, DECIDE if gap is None else seeds_needed(gap.mean, gap, level))
    at_once = " by intervals that hold for all pairs at once" * (len(others) > 1)
    who = f"Whether {names_words(open_)} {verb_of(open_, 'lose')} more is undecided{at_once}"
    return f"{who}, {seeds_words(needed)}." if open_ else ""


def _lost(grid: Grid, one: Finding) -> dict[int, float]:
    """By seed, what the worst attack costs."""
    rows = one.rows.get(one.harm.attack, ()) if one.harm else ()
    return lost_by_seed(rows, grid.absent(one.defence, one.strength, one.protection))
