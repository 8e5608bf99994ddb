"""The headline of an evaluation: what holds within what it is built for, what breaks there, and what beyond; never of a part of
a grid.

It says "holds against every attack played", and never that a defence is safe.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..grids.spread import spread
from ..reporting.headings import Said
from ..threat_models.broken import CLEAN, LOWER
from ..threat_models.chance import NOTHING
from .caveats import (
    diverged_without_attack,
    fewer_than_built_for,
    in_vain,
    little_on_some_seeds,
    nobody_at_work,
    not_parted,
    nothing_summed_without_attack,
    of_missing_data,
    unusable,
)
from .data import Grid, at
from .judging import (
    DECIDE,
    Finding,
    Harm,
    State,
    findings,
    seeds_needed,
    seeds_words,
    without_words,
)
from .learning import enough_words, learns, little_words, without_attack
from .losses import NO_MEASURE, lost_by_seed
from .not_seen import (
    absent_failed,
    by_chance,
    did_nothing,
    earlier_peaks,
    never_touched,
    nobody_loyal,
    single_clients,
    stopped_by_errors,
    works_without,
)
from .over_seeds import least_words, median_words, searched
from .tables import reasons

OPENINGS = {
    True: "within what they are built for",
    None: "defences that state no number of attackers (say it with limits=)",
    False: "beyond what they are built for",
}
WITHIN = "with as many attackers as it is built for"


def verdict(grid: Grid) -> str:
    """The evaluation in a few sentences; no verdict before every cell is there."""
    said = sentences(grid)
    return " ".join([*(one for first, others in said.places for one in (first, *others)), *said.notes])


def sentences(grid: Grid) -> Said:
    """The same one by one."""
    if grid.unplayed > 0:
        missing = f"{grid.unplayed} of {grid.expected} cells are not played yet."
        first, found_by = _searched(grid)
        if found_by:
            return Said(((first, found_by),), (f"No verdict on the grid: {missing}",))
        return Said(((f"No verdict: {missing}", ()),))
    found = {protection: findings(grid, protection) for protection in grid.protections}
    if not any(found.values()):
        why = next((line for protection in grid.protections for line in reasons(grid, protection)), "")
        return Said(((f"No verdict: no defence has a result under attack{f', first {why}' if why else ''}.", ()),))
    places = []
    for protection, of in found.items():
        under = f"Under {protection}: " if len(grid.protections) > 1 else ""
        places.append((_first(under + _best(grid, of)), tuple(map(_first, _listed(grid, of)))))
    seeds = len(grid.about["seeds"])
    held = seeds > 1 and any(one.state == State.HOLDS for of in found.values() for one in of)
    few = f"With {seeds} seed{'s' * (seeds != 1)} nothing but a break is decided: play {DECIDE} or more."
    few = f"{seeds} seeds are few, and what holds here may yet break on a third: play {DECIDE} or more." if held else few
    less = (*nothing_summed_without_attack(grid), *diverged_without_attack(grid))
    less += (*of_missing_data(grid, found), *not_parted(grid), *little_on_some_seeds(grid, found))
    less += tuple(f"{_first(words)}." for words in grid.about.get("doubts") or ())
    less += (
        *unusable(grid),
        *nobody_at_work(grid),
        *did_nothing(grid),
        *never_touched(grid, found),
        *nobody_loyal(grid),
        *works_without(grid),
    )
    less += (
        *absent_failed(grid),
        *stopped_by_errors(grid),
        *by_chance(grid, found),
        *in_vain(grid),
        *single_clients(grid, found),
        *earlier_peaks(grid, found),
        *_left_out(grid, found),
    )
    return Said(tuple(places), (*_measured(found), *less, *([few] if seeds < DECIDE else [])))


def _searched(grid: Grid) -> tuple[str, tuple[str, ...]]:
    """What breakdown searches found: of what they are the answer, and a sentence for each defence in each place."""
    by: dict[tuple[str, str], list[str]] = {}
    found = grid.breakdown
    for one in found.get("results", ()):
        median = "no result" if one["median"] is None else median_words(one, found["steps"]["most"])
        said = one.get("nothing") or f"{median} by {one['attack']}{_little(one)}"
        if said not in (known := by.setdefault((one["defence"], one["protection"]), [])):
            known.append(said)
    if not by:
        return "", ()
    counts = sorted({len(searched(one["seeds"])) for one in found["results"]} - {0}) or [0]
    least, most = counts[0], counts[-1]
    first = (
        f"The {least_words(found)} that break each defence, from {found['steps']['least']:g} to {found['steps']['most']:g} tried"
    )
    few = f"{least} to " if least < most else ""
    first += f", median of {few}{most} seeds." if most > 1 else ", of one seed."
    places = {protection for _, protection in by}
    return first, tuple(f"{d}{f' under {p}' if len(places) > 1 else ''}: {', '.join(of)}." for (d, p), of in by.items())


def _little(one: Mapping[str, Any]) -> str:
    """Why what was tried of an attack says little, in brackets; empty where nothing is wrong with it, or it broke the defence."""
    if one["median"] is None or one["median"]["median"] is not None or not one.get("in_vain"):
        return ""
    return f" ({'; '.join(one['in_vain'])})"


def _best(grid: Grid, found: Sequence[Finding]) -> str:
    """Which defences hold against all that was played wherever they are built to, and which of them loses least."""
    inside = [one for one in found if one.within and one.attackers]
    if not inside:
        return "no number of attackers was played that a defence says it is built for."
    by = {d: [one for one in inside if one.defence == d] for d in dict.fromkeys(one.defence for one in inside)}
    place = inside[0].protection
    blank = {one.defence: _blank(grid, found, one.defence, place) for one in inside}
    all_holding = [
        d
        for d, of in by.items()
        if all(one.state == State.HOLDS for one in of) and not any(_may_be_within(grid, found, of[0], s) for s in blank[d])
    ]
    holding = [d for d in all_holding if learns(grid, d, place)]
    open_ = [d for d, of in by.items() if all(one.state != State.BREAKS for one in of) and learns(grid, d, place)]
    if not holding and len(open_) == len(by):
        return f"undecided: no defence breaks {WITHIN}, and none is known to hold against every attack played."
    if not holding:
        nothing = f" that learned {enough_words(grid, place)}" if all_holding else ""
        if open_:
            of = f"{_names(open_)} {'is' if len(open_) == 1 else 'are'} undecided"
            return f"no defence{nothing} is known to hold against every attack played {WITHIN}; {of}."
        return f"no defence{nothing} holds against every attack played {WITHIN}."
    fewer = fewer_than_built_for(by, holding)
    many = "no more attackers than" if fewer else "as many attackers as"
    who = f"with {many} {_they(holding)} built for{fewer}, {_names(holding)} {_s(holding, 'hold')} against every attack played."
    common = set.intersection(*({one.strength for one in by[d]} for d in holding))
    if len(holding) == 1 or not common:
        return f"{who} {without_attack(grid, holding, place)}"
    strength = max(common)
    least, *others = sorted(
        (one for d in holding for one in by[d] if one.strength == strength),
        key=_lost_in_the_mean,
    )
    words = f"{who} With {at(grid, strength)} {least.defence} loses least: {_points(least)}{_rate(least)}."
    return " ".join(filter(None, [words, _alike(grid, least, others), without_attack(grid, holding, place)]))


def _blank(grid: Grid, found: Sequence[Finding], defence: str, protection: str) -> list[float]:
    """Strengths at which a defence has no result with any attack, though it has at others."""
    judged = {one.strength for one in found if (one.defence, one.protection) == (defence, protection)}
    return [s for s in sorted(grid.strengths) if judged and s not in judged]


def _may_be_within(grid: Grid, found: Sequence[Finding], one: Finding, strength: float) -> bool:
    """Whether a defence may be built for a strength at which nothing is known of it: by the attackers that others meet there."""
    counted = [int(strength)] if grid.about["strength"] == "attackers" else []
    met = max([other.attackers for other in found if other.strength == strength] + counted, default=0)
    return one.built_for is None or met <= one.built_for


def _alike(grid: Grid, least: Finding, others: Sequence[Finding]) -> str:
    """Whom the difference, paired by seed, does not tell from the one that loses least, and about how many seeds would."""
    open_, needed = [], 0.0
    mine = _lost(grid, least)
    for other in others:
        theirs = _lost(grid, other)
        gap = spread(theirs[seed] - mine[seed] for seed in mine.keys() & theirs.keys())
        if gap is None or gap.count < 2 or gap.mean <= gap.half:
            open_.append(other.defence)
            needed = max(needed, DECIDE if gap is None else seeds_needed(gap.mean, gap))
    return f"Whether {_names(open_)} {_s(open_, 'lose')} more is undecided, {seeds_words(needed)}." if open_ else ""


def _lost(grid: Grid, one: Finding) -> dict[int, float]:
    """By seed, what the worst attack costs."""
    rows = one.rows.get(one.harm.attack, ()) if one.harm else ()
    return lost_by_seed(rows, grid.absent(one.defence, one.strength, one.protection))


def _listed(grid: Grid, found: Sequence[Finding]) -> Iterable[str]:
    """A sentence for every strength and for what is within, beyond, or without a limit: who holds, and what becomes of the
    others.
    """
    for strength in sorted({one.strength for one in found}):
        for within, opening in OPENINGS.items():
            of = [one for one in found if one.strength == strength and one.within is within and one.attackers]
            words = [
                _grouped(grid, word, [one for one in of if one.word == word])
                for word in dict.fromkeys(one.word for one in _ordered(of))
            ]
            if words:
                yield f"{at(grid, strength)}{_at_work(grid, strength, of)}, {opening}: {'; '.join(words)}."


def _at_work(grid: Grid, strength: float, found: Sequence[Finding]) -> str:
    """How many attackers there are in a round, where that is more than the strength says."""
    most = max(one.attackers for one in found)
    return f" ({most} in a round)" if grid.about["strength"] == "attackers" and most > strength else ""


def _ordered(found: Sequence[Finding]) -> list[Finding]:
    return sorted(found, key=lambda one: (one.state, one.word))


def _grouped(grid: Grid, word: str, found: Sequence[Finding]) -> str:
    """ "Multi-Krum and median break (at most 81.3 points, optimal IPM)"."""
    names = [one.defence for one in found]
    first, _, rest = word.partition(" ")
    if word == "undecided":
        without = [one.defence for one in found if one.without]
        seeds = [one.needs for one in found if one.needs is not None]
        why = [seeds_words(max(seeds))] if seeds else []
        why += [f"{_lacking(found)} with {_names(without)}"] if without else []
        return f"{_names(names)} {'is' if len(names) == 1 else 'are'} undecided ({'; '.join(why)})"
    if word == NOTHING:
        own = [f"{100 * of.mean:.1f}" for one in found if (of := grid.clean(one.defence, one.protection))]
        return f"{_names(names)} {NOTHING} ({_names(own)} %, as chance is {100 * (grid.chance(found[0].protection) or 0):.1f} %)"
    verb = {"holds": "hold", "breaks": "break", "lets": "let"}[first]
    if word.endswith("backdoor through"):
        rest = rest.replace("lets", _s(names, "let")) if first == "breaks" else rest
    said = f"{_names(names)} {_s(names, verb)}{' ' + rest if rest else ''}"
    several = len(found) > 1
    harmed = [o for o in found if o.harm and o.harm.broke]
    worst = max(harmed, key=_lost_in_the_mean, default=None)
    told = [f"{f'{worst.defence} loses most:' if several else 'loses'} {_points(worst)}"] if worst else []
    ended = max((o for o in found if o.ended), key=lambda o: o.ended.lost.mean if o.ended else 0.0, default=None)
    told += [f"{f'{ended.defence} most ' if several else ''}{_at_the_end(ended)}"] if ended else []
    through = [o for o in found if o.backdoor and o.backdoor.state == State.BREAKS]
    if word == "holds":
        told += filter(None, [little_words(grid, names, found[0].protection)])
    if through:
        most = max(through, key=lambda o: o.backdoor.lost.mean if o.backdoor else 0.0)
        told += [f"{f'most through {most.defence}: ' if several else ''}{_success(most.backdoor)}"] if most.backdoor else []
    return f"{said} ({'; '.join(told)})" if told else said


def _lacking(found: Sequence[Finding]) -> str:
    """Which results are not there, in a few words."""
    missing = [(attack, n, one.seeds) for one in found for attack, n in one.without.items()]
    if any(n >= seeds for _, n, seeds in missing):
        return "no result against some attacks"
    if len(missing) == 1:
        return without_words({missing[0][0]: missing[0][1]}, missing[0][2])
    counts = {(n, seeds) for _, n, seeds in missing}
    on = f"{missing[0][1]} of {missing[0][2]}" if len(counts) == 1 else "some"
    return f"no result on {on} seeds against some attacks"


def _points(one: Finding) -> str:
    """What is lost to the worst attack, and from what to what; `_measured` says once of all such numbers what they are."""
    harm = one.harm
    if harm is None or (harm.lost.mean <= 0 and not harm.broke):
        return "nothing"
    seeds = f" in {harm.broke} of {harm.lost.count} seeds" if harm.broke and harm.broke < harm.lost.count else ""
    mean = "" if harm.lost.count == 1 else " in the mean"
    ends = "" if one.held is None else f", from {100 * one.held.mean:.1f} to {100 * (one.held.mean - harm.lost.mean):.1f} %"
    few = f", played on {harm.lost.count} of {one.seeds} seeds" * (harm.lost.count < one.seeds)
    return f"{100 * harm.lost.mean:.1f} points of accuracy{mean if seeds else ''} to {harm.attack}{few}{ends}" + (
        f", above the bound{seeds}" if seeds else ""
    )


def _at_the_end(one: Finding) -> str:
    """What is lost in the last evaluation alone, from what to what, and what late in the run."""
    ended = one.ended
    final, late = one.over(ended, "accuracy", "final"), one.over(ended, "accuracy", "late")
    if ended is None or final is None or late is None:
        return ""
    seeds = f", above the bound in {ended.broke} of {ended.lost.count} seeds" if ended.broke < ended.lost.count else ""
    mean = " in the mean" if seeds else ""
    ends = f"from {100 * (final.mean + ended.lost.mean):.1f} to {100 * final.mean:.1f} %, {100 * late.mean:.1f} % late in the run"
    return f"in the last evaluation {100 * ended.lost.mean:.1f} points{mean} to {ended.attack}, {ends}{seeds}"


def _lost_in_the_mean(one: Finding) -> float:
    return one.harm.lost.mean if one.harm else 0.0


def _measured(found: Mapping[str, Sequence[Finding]]) -> list[str]:
    """Whose accuracy the points are of, when, below which run, and over what they are means."""
    of = [one for several in found.values() for one in several if one.harm]
    against = NO_MEASURE.join(words for words in (LOWER, CLEAN) if any(words in one.reference for one in of))
    counts = {one.harm.lost.count for one in of if one.harm}
    least, most = min(counts, default=0), max(counts, default=0)
    mean = f", in the mean of {f'{least} to ' * (least < most)}{most} seeds" if most > 1 else ""
    words = f"Points lost: the loyal clients' accuracy late in the run below that of {against}, of the same seed{mean}."
    return [words] if of else []


def _success(harm: Harm) -> str:
    some = harm.broke < harm.lost.count
    mean = " in the mean" if some else ""
    seeds = f", above the bound in {harm.broke} of {harm.lost.count} seeds" if some else ""
    more = f"{100 * harm.lost.mean:.1f} points{mean} more often than without it, in its last poisoned round"
    return f"{harm.attack} succeeds {more}{seeds}"


def _rate(one: Finding) -> str:
    """What backdoors gain, the one that gains most in the mean of the seeds, and what any gains on one of them."""
    if one.backdoor is None:
        return ""
    of, most = one.backdoor.lost, 100 * one.gained_most
    mean, several = 100 * max(0.0, of.mean), of.count > 1
    single = f", {most:.1f} on one" if several and f"{most:.1f}" != f"{mean:.1f}" else ""
    return (
        f", and backdoors gain at most {mean:.1f} points of success{f' in the mean of {of.count} seeds{single}' * bool(single)}"
    )


def _left_out(grid: Grid, found: dict[str, list[Finding]]) -> list[str]:
    judged = {(one.defence, p) for p, of in found.items() for one in of}
    out = [f"{d} under {p}" for p in grid.protections for d in grid.defences if (d, p) not in judged]
    out += [f"{d} under {p} with {at(grid, s)}" for p, of in found.items() for d in grid.defences for s in _blank(grid, of, d, p)]
    fewer = [
        f"{one.defence} under {one.protection} {one.harm.lost.count} of {one.seeds}"
        for of in found.values()
        for one in of
        if one.harm and one.harm.lost.count < one.seeds
    ]
    said = [f"Left out, as without a result: {', '.join(out)}."] if out else []
    return said + ([f"Of fewer seeds than played: {', '.join(dict.fromkeys(fewer))}."] if fewer else [])


def _names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _s(names: Sequence[str], verb: str) -> str:
    return verb + "s" if len(names) == 1 else verb


def _they(names: Sequence[str]) -> str:
    return "it is" if len(names) == 1 else "they are"


def _first(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
