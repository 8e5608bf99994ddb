"""The headline of an evaluation: what holds within what it is built for, what breaks there, and what beyond; never of a part of
a grid.

It says "holds against every attack played", and never that a defence is safe.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..grids.words import capital
from ..reporting.headings import Said
from ..threat_models.broken import CLEAN, LOWER
from .behind_means import earlier_peaks, single_clients
from .beside_alone import no_better_than_alone
from .best import strengths_without_result, which_is_best
from .by_strength import by_strength
from .caveats import (
    by_accuracy_alone,
    in_vain,
    little_on_some_seeds,
    nobody_at_work,
    not_parted,
    nothing_summed_without_attack,
    of_missing_data,
    unusable,
    withheld_without_attack,
)
from .chance_breaks import by_chance
from .data import Grid, at
from .diverging import diverged_without_attack
from .harmless import harm_nobody
from .judging import (
    DECIDE,
    Finding,
    findings,
)
from .losses import NO_MEASURE
from .not_seen import (
    absent_failed,
    did_nothing,
    nobody_loyal,
    stopped_by_errors,
    without_some,
    works_without,
)
from .over_seeds import beyond_words, breaks_within, greatest, least_words, median_words, searched
from .tables import reasons


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
        places.append((capital(under + which_is_best(grid, of)), tuple(map(capital, by_strength(grid, of)))))
    seeds = len(grid.about["seeds"])
    held = seeds > 1 and any(one.holds for of in found.values() for one in of)
    few = f"With {seeds} seed{'s' * (seeds != 1)} nothing but a break is decided: play {DECIDE} or more."
    few = f"{seeds} seeds are few, and what holds here may yet break on a third: play {DECIDE} or more." if held else few
    less = (*nothing_summed_without_attack(grid), *diverged_without_attack(grid), *withheld_without_attack(grid))
    less += (*of_missing_data(grid, found), *not_parted(grid), *little_on_some_seeds(grid, found))
    less += (*by_accuracy_alone(grid), *(f"{capital(words)}." for words in grid.about.get("doubts") or ()))
    less += (
        *unusable(grid),
        *nobody_at_work(grid),
        *did_nothing(grid),
        *without_some(grid, found),
        *harm_nobody(grid, found),
        *no_better_than_alone(grid, found),
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
        median = "no result" if one["median"] is None else median_words(one, greatest(found))
        said = f"{median} by {one['attack']}{_fewer(one)}{_little(one)}"
        if "nothing" in one:
            said = f"{said} (yet it {one['nothing']})" if breaks_within(one) else one["nothing"]
        if said not in (known := by.setdefault((one["defence"], one["protection"]), [])):
            known.append(said)
    if not by:
        return "", ()
    counts = sorted({len(searched(one["seeds"])) for one in found["results"]} - {0}) or [0]
    least, most = counts[0], counts[-1]
    tried = f"some from {found['steps']['least']:g} to {greatest(found):g} tried"
    few = f"{least} to " if least < most else ""
    of = f"median of {few}{most} seeds" if most > 1 else "of one seed" if most else "of which no search has a result"
    first = f"The {least_words(found)} that break each defence, {tried}, {of}."
    places = {protection for _, protection in by}
    return first, tuple(f"{d}{f' under {p}' if len(places) > 1 else ''}: {', '.join(of)}." for (d, p), of in by.items())


def _fewer(one: Mapping[str, Any]) -> str:
    """On how many seeds the search came to a result, where not on all, and why not on the others; empty where on all, or none."""
    done, seeds = len(searched(one["seeds"])), one["seeds"]
    why = next((seed["reason"] for seed in seeds if seed.get("reason")), "")
    return f" (on {done} of {len(seeds)} seeds{f'; {why}' if why else ''})" if 0 < done < len(seeds) else ""


def _little(one: Mapping[str, Any]) -> str:
    """What a median alone does not say, in brackets: that it is beyond what the defence is built for, that strengths tried fit no
    single crossing, and, where most seeds hold, why what was tried says little; empty where there is nothing to say.
    """
    if one["median"] is None:
        return ""
    told = [*filter(None, [beyond_words(one)]), *(["not monotone"] if not one["single"] else [])]
    told += () if breaks_within(one) else one.get("in_vain") or ()
    return f" ({'; '.join(told)})" if told else ""


def _measured(found: Mapping[str, Sequence[Finding]]) -> list[str]:
    """Whose accuracy the points are of, when, below which run, and over what they are means."""
    of = [one for several in found.values() for one in several if one.harm]
    against = NO_MEASURE.join(words for words in (LOWER, CLEAN) if any(words in one.reference for one in of))
    counts = {one.harm.lost.count for one in of if one.harm}
    least, most = min(counts, default=0), max(counts, default=0)
    mean = f", in the mean of {f'{least} to ' * (least < most)}{most} seeds" if most > 1 else ""
    words = f"Points lost: the loyal clients' accuracy late in the run below that of {against}, of the same seed{mean}."
    return [words] if of else []


def _left_out(grid: Grid, found: dict[str, list[Finding]]) -> list[str]:
    judged = {(one.defence, p) for p, of in found.items() for one in of}
    out = [f"{d} under {p}" for p in grid.protections for d in grid.defences if (d, p) not in judged]
    out += [
        f"{d} under {p} with {at(grid, s)}"
        for p, of in found.items()
        for d in grid.defences
        for s in strengths_without_result(grid, of, d, p)
    ]
    fewer = [
        f"{one.defence} under {one.protection} {one.harm.lost.count} of {one.seeds}"
        for of in found.values()
        for one in of
        if one.harm and one.harm.lost.count < one.seeds
    ]
    said = [f"Left out, as without a result: {', '.join(out)}."] if out else []
    return said + ([f"Of fewer seeds than played: {', '.join(dict.fromkeys(fewer))}."] if fewer else [])
