"""An evaluation on the terminal, and as JSON."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import inf
from typing import Any

from rich.table import Table

from ..fl.runs.results_folder import strict
from ..grids.spread import Spread, interval_words, metric, percent, spread
from ..reporting.run_data import DASH
from ..threat_models.broken import Bounds, broken_words
from ..threat_models.chance import NOTHING
from ..threat_models.evaluation_check import ATTACKERS
from .data import Grid
from .judging import SPENT, Finding, Harm, findings
from .learning import at_chance, close_to_chance
from .over_seeds import beyond_words, breaks_within, broke_words, greatest, least_words, median_words, searched

NOT_PLAYED, NEVER_MOVED = "not played yet", "never moved"
NAMED = 3
"""Attacks that a line of reasons names."""


def grid_table(grid: Grid, protection: str) -> Table:
    """Each defence at each strength under one protection: what is found, and accuracy without the attackers' data and under the
    worst attack, which is named.
    """
    over = ", ".join(filter(None, ["mean over seeds", interval_words(len(grid.about["seeds"]))]))
    title = f"{grid.about['name']}, under {protection}: accuracy of loyal clients late in the run in %, {over}"
    title += "; clean: without attack; absent: without the attackers' data"
    if any(one.backdoor for one in findings(grid, protection)):
        title += "; backdoor: success in its last poisoned round in % (on the models without attack, in %)"
    table = Table(title=title, title_justify="left")
    table.add_column("defence", no_wrap=True)
    for column in (str(grid.about["strength"]), "clean / absent", "worst attack", "under it", "backdoor", "finding"):
        table.add_column(column, justify="left" if column in ("worst attack", "finding") else "right")
    judged = findings(grid, protection)
    for defence in grid.defences:
        clean, found = clean_words(grid, defence, protection), [one for one in judged if one.defence == defence]
        if not found:
            table.add_row(defence, "", clean, without_result(grid, defence, protection)[0], "", "", "")
        for one in found:
            attack = one.harm.attack if one.harm else ""
            absent, under = _mean(absent_of(grid, one)), percent(one.over(one.harm, "accuracy", "late"))
            word = _short(one.word) + (" (beyond)" if one.within is False and one.word not in ("holds", NOTHING, *SPENT) else "")
            beside = f"{_mean(clean_of(grid, one))}{unsummed_words(grid, defence, protection)} / {absent}"
            table.add_row(defence, _strength(grid, one, found), beside, attack, under, backdoor_words(one), word)
    return table


def _strength(grid: Grid, one: Finding, found: Sequence[Finding]) -> str:
    """A strength, with the most attackers in a round where there are two rows of it, or it says another number of them."""
    twice = sum(other.strength == one.strength for other in found) > 1
    other = grid.about["strength"] == ATTACKERS and one.attackers != one.strength
    return f"{one.strength:g}" + (f" ({one.attackers} in a round)" if twice or other else "")


def _short(word: str) -> str:
    """A finding for a narrow column."""
    return (
        word.replace(NOTHING, "learned nothing")
        .replace(" and lets a backdoor through", ", backdoor")
        .replace("lets a backdoor through", "backdoor")
    )


def backdoor_words(one: Finding) -> str:
    """The success of the backdoor that succeeds most, in its last poisoned round, and that on clean models."""
    if one.backdoor is None:
        return DASH
    rate, clean = (one.over(one.backdoor, "success", name) for name in ("last_poisoned", "clean_mean"))
    return f"{_mean(rate)} ({_mean(clean)})"


def _mean(spot: Spread | None) -> str:
    return DASH if spot is None else f"{100 * spot.mean:.1f}"


def clean_of(grid: Grid, one: Finding) -> Spread | None:
    """Accuracy without attack of the clients that are loyal under the worst attack, as it is held against; of all where there is
    none.
    """
    loyal = one.over(one.harm, "clean", "late")
    return grid.clean(one.defence, one.protection) if loyal is None else loyal


def absent_of(grid: Grid, one: Finding) -> Spread | None:
    """Accuracy without the attackers' data, on the seeds that it rests on under the worst attack."""
    seeds = {row["seed"] for row in one.rows.get(one.harm.attack, ())} if one.harm else set()
    found = grid.absent(one.defence, one.strength, one.protection)
    return spread(accuracy for seed, accuracy in found.items() if seed in seeds)


def clean_words(grid: Grid, defence: str, protection: str, loyal: Spread | None = None) -> str:
    """Accuracy without attack, and whether that is of a model that nothing ever moved, or that is no better than a guess. loyal:
    of some clients, where it is not of all.
    """
    of, mark = grid.clean(defence, protection) if loyal is None else loyal, unsummed_words(grid, defence, protection)
    if grid.idle(defence, protection):
        return f"{percent(of)} (never moved)"
    if of is None:
        return percent(of)
    near = " (little above chance)" if close_to_chance(grid, of.mean, protection) else ""
    return percent(of) + mark + (" (at chance)" if at_chance(grid, of.mean, protection) else near)


def unsummed_words(grid: Grid, defence: str, protection: str) -> str:
    """A mark beside the accuracy without attack where in some seed no update was summed in any round: it is of clients alone."""
    return " (nothing summed)" if any(row.get("nothing_summed") for row in grid.rows(None, defence, None, protection)) else ""


def without_result(grid: Grid, defence: str, protection: str) -> tuple[str, str]:
    """Whether a defence without a result under a protection never moved, was refused, failed or is not played yet, and why."""
    if why := grid.idle(defence, protection):
        return NEVER_MOVED, why
    for spot, rows in grid.cells.items():
        for row in rows:
            if (spot.defence, spot.protection) == (defence, protection) and row["status"] != "done":
                return str(row["status"]), str(row["reason"])
    return NOT_PLAYED, ""


def reasons(grid: Grid, protection: str) -> list[str]:
    """A line for each defence that has no result under a protection, or none that means anything, and for each attack that has
    none on some seeds.
    """
    judged = {one.defence for one in findings(grid, protection)}
    silent = [d for d in grid.defences if d not in judged and not grid.idle(d, protection)]
    found = {d: without_result(grid, d, protection) for d in silent}
    lines = [f"{d} under {protection}: {status}: {reason}" for d, (status, reason) in found.items() if reason]
    never = {d: grid.idle(d, protection) for d in grid.defences}
    lines += [f"{d} under {protection}: never moved without attack: {reason}" for d, reason in never.items() if reason]
    return lines + _partly(grid, protection, judged)


def _partly(grid: Grid, protection: str, judged: Collection[str]) -> list[str]:
    """Of defences that have a result, the cells that have none, by reason."""
    found: dict[tuple[str, str, str], Counter[str]] = {}
    for spot, rows in grid.cells.items():
        for row in rows:
            if (spot.protection, row["status"] != "done") == (protection, True) and spot.defence in judged:
                attacks = found.setdefault((spot.defence, row["status"], str(row["reason"])), Counter())
                attacks[spot.attack or "no attack"] += 1
    return [f"{d} under {protection}, {_some(of)}: {of.total()} {s}: {why}" for (d, s, why), of in found.items()]


def _some(attacks: Mapping[str, int]) -> str:
    """Those with the same reason, a few by name."""
    names, more = [*attacks][:NAMED], len(attacks) - NAMED
    return f"{', '.join(names)} and {more} more" if more > 0 else ", ".join(names)


def grid_json(grid: Grid) -> dict[str, Any]:
    """What is found of every defence at every strength and under every protection, and every cell's line."""
    found = [_found_json(grid, one) for protection in grid.protections for one in findings(grid, protection)]
    cells = [strict(row) for rows in grid.cells.values() for row in rows]
    return {"name": grid.about["name"], "bounds": grid.about["bounds"], "found": found, "cells": cells}


def _found_json(grid: Grid, one: Finding) -> dict[str, Any]:
    return {
        "defence": one.defence,
        "protection": one.protection,
        "strength": one.strength,
        "attackers": one.attackers,
        "built_for": one.built_for,
        "finding": one.word,
        "within": one.within,
        "seeds_needed": strict(one.needs),
        "without_result": list(one.without),
        "clean": _plain(clean_of(grid, one)),
        "absent": _plain(absent_of(grid, one)),
        "attacked": _plain(one.over(one.harm, "accuracy", "late")),
        "harm": _harm_json(one.harm) | {"against": one.reference},
        "backdoor": _harm_json(one.backdoor),
        "at_the_end": _harm_json(one.ended),
    }


def _harm_json(harm: Harm | None) -> dict[str, Any]:
    return {} if harm is None else {"attack": harm.attack, "lost": _plain(harm.lost), "bound": harm.bound, "broke": harm.broke}


def _plain(spot: Spread | None) -> dict[str, Any] | None:
    if spot is None:
        return None
    half = None if spot.count == 1 else spot.half
    return {"mean": spot.mean, "half": half, "least": spot.least, "most": spot.most, "seeds": spot.count}


def bounds_words(grid: Grid) -> str:
    """When a defence is called broken, with the bounds."""
    return f"Broken is a defence where {broken_words(grid.bounds)}. Over seeds: it breaks where some seed does."


def breakdown_table(found: Mapping[str, Any]) -> Table:
    """What searches found: the median over seeds, its interval, what broke, and whether one crossing explains all tries."""
    table = Table(title=f"{found['name']}: {least_words(found)} that break each defence", title_justify="left")
    table.add_column("attack")
    table.add_column("defence")
    table.add_column("protection")
    table.add_column("broken in")
    table.add_column("median over seeds", justify="right")
    table.add_column("interval of the median", justify="right")
    table.add_column("breaks by")
    table.add_column("remarks")
    for one in found["results"]:
        median, interval, remarks = breakdown_words(one, greatest(found))
        names = one["attack"], one["defence"], one["protection"]
        table.add_row(*names, broke_words(one), median, interval, by_words(one), remarks)
    return table


def breakdown_lines(found: Mapping[str, Any]) -> list[str]:
    """What stands below the table."""
    return [
        f"Broken is a defence where {broken_words(Bounds(**found['bounds']))}. Over seeds: the median of the smallest strengths;"
        " of an even number of seeds the two in the middle."
    ]


def by_words(one: Mapping[str, Any]) -> str:
    """What broke at the smallest strength of each seed: accuracy, backdoor, or both."""
    seen = [seed["by"] for seed in one["seeds"] if seed["by"]]
    return "; ".join(dict.fromkeys(seen)) or DASH


def breakdown_words(one: Mapping[str, Any], most: float) -> tuple[str, str, str]:
    """Median, interval and remarks of one search over its seeds."""
    remarks = sorted({seed["reason"] for seed in one["seeds"] if seed["reason"]})
    if one["median"] is None:
        return DASH, DASH, "; ".join(remarks)
    if "nothing" in one and not breaks_within(one):
        return DASH, DASH, "; ".join([one["nothing"], *remarks])
    of = one["median"]
    remarks = [*filter(None, [one.get("nothing", ""), beyond_words(one)]), *remarks]
    remarks += [*_taken(one), *(one.get("in_vain") or ())]
    low, high = (f"over {most:g}" if of[k] is None else f"{of[k]:g}" for k in ("low", "high"))
    if not one["single"]:
        remarks.insert(0, "not monotone")
    coverage = 100 * metric(of, "coverage")
    interval = f"{low} to {high} (covers it with {coverage:.1f} %)" if coverage >= 0.05 else "none: one seed"
    interval = f"none; both seeds: {low} and {high}" if len(searched(one["seeds"])) == 2 else interval
    return median_words(one, most), interval, "; ".join(remarks)


def _taken(one: Mapping[str, Any]) -> list[str]:
    """That more than the bound of the accuracy without attack is taken on seeds where that is no break, as no more than the bound
    is taken of what there is without the attackers' data: seed by seed, since the median of all says nothing of one of them.
    """
    done, before, taken = searched(one["seeds"]), [], one.get("taken") or {}
    for seed in (seed for seed in done if str(seed["seed"]) in taken):
        strengths, first = taken[str(seed["seed"])], inf if seed["breaks"] is None else seed["breaks"]
        whole = [strength for strength, broke in seed["tried"] if not broke and strength in strengths and strength < first]
        before += [min(whole)] if whole else []
    if not before:
        return []
    least, most = min(before), max(before)
    at = f"{least:g}" if least == most else f"{least:g} to {most:g}"
    seeds = f"on {len(before)} of {len(done)} seed{'s' * (len(done) != 1)}"
    return [
        f"{seeds} more than the bound is taken of the accuracy without attack at {at}; no more than the bound of that without the"
        " attackers' data, by which a break is told"
    ]
