"""An evaluation's table by defence: as tidy rows, CSV and Markdown. One row is a defence at one strength, in one place."""

from dataclasses import dataclass
from itertools import product
from typing import Any

from ..grids.known import known_words
from ..grids.spread import Spread, percent, spread
from ..reporting.run_data import DASH
from ..tables_out import SHARE, csv_of, in_markdown, markdown_of
from .data import Grid, place_words
from .judging import Finding, Harm, findings
from .tables import absent_of, bounds_words, clean_of, clean_words, reasons, without_result
from .verdict import sentences


def defence_rows(grid: Grid) -> list[dict[str, Any]]:
    """A row for each defence at each strength, under each protection on each partition; what was measured is in shares of 1.

    One without a result at any strength has one row there, its strength None, with the reason.
    attackers: the most at work in one round; built_for: None where the defence states none. finding: over all attacks and seeds;
    "refused", "failed", "never moved" or "not played yet" where there is no result. clean, absent, attacked: accuracy of loyal
    clients late in the run without attack, without the attackers' data and under `attack`, the one that costs most, means over
    seeds; held_against: of each seed the lower of the first two, where both were played. lost: held_against less attacked; of the
    backdoor that succeeds most, whose rates stand beside, gained: both with Student's t interval of the mean at 95 %, cut to what
    can be (None of fewer than three seeds), and the least and the most of any seed. lost_at_end: in the last evaluation, to
    attack_at_end; None where that alone breaks nothing.
    """
    return [{**row.names, **_numbers(grid, row)} for row in _rows(grid)]


@dataclass(frozen=True, slots=True)
class _Row:
    """One defence in one place at one strength. place: protection and partition in words. found: None where there is nothing."""

    names: dict[str, Any]
    defence: str
    place: str
    strength: float | None
    found: Finding | None


def _rows(grid: Grid) -> list[_Row]:
    rows = []
    for partition, protection in product(grid.about["partitions"] or [""], grid.about["protections"]):
        place = place_words(protection, partition)
        judged: dict[tuple[str, float | None], list[Finding | None]] = {}
        for of in findings(grid, place):
            judged.setdefault((of.defence, of.strength), []).append(of)
        told = {defence for defence, _ in judged}
        at = [(one, s) for one in grid.defences for s in (sorted(grid.strengths) if one in told else [None])]
        for defence, strength in at:
            names = {"defence": defence, "protection": protection, "partition": partition, "strength": strength}
            rows += [_Row(names, defence, place, strength, found) for found in judged.get((defence, strength), [None])]
    return rows


def _numbers(grid: Grid, row: _Row) -> dict[str, Any]:
    defence, strength, place, one = row.defence, row.strength, row.place, row.found
    status, why = ("", "") if one is not None else without_result(grid, defence, place)
    harm, backdoor, ended = (None, None, None) if one is None else (one.harm, one.backdoor, one.ended)
    absent = spread(grid.absent(defence, strength, place).values()) if one is None else absent_of(grid, one)
    return {
        "attackers": None if one is None else one.attackers,
        "built_for": None if one is None else one.built_for,
        "finding": status if one is None else one.word,
        "seeds": None if harm is None else harm.lost.count,
        "seeds_played": len(grid.about["seeds"]),
        "clean": _mean(grid.clean(defence, place) if one is None else clean_of(grid, one)),
        "absent": _mean(absent),
        "attack": None if harm is None else harm.attack,
        "held_against": None if one is None else _mean(one.held),
        "attacked": None if one is None else _mean(one.over(harm, "accuracy", "late")),
        **_figures("lost", harm),
        "lost_against": None if one is None else one.reference,
        "attack_at_end": None if ended is None else ended.attack,
        "lost_at_end": None if ended is None else ended.lost.mean,
        "backdoor": None if backdoor is None else backdoor.attack,
        "success": None if one is None else _mean(one.over(backdoor, "success", "last_poisoned")),
        "success_clean": None if one is None else _mean(one.over(backdoor, "success", "clean_mean")),
        **_figures("gained", backdoor),
        "loss_bound": grid.bounds.loss,
        "success_bound": grid.bounds.success,
        "unit": SHARE,
        "reason": why or None,
    }


def _mean(spot: Spread | None) -> float | None:
    return None if spot is None else spot.mean


def _figures(name: str, harm: Harm | None) -> dict[str, float | None]:
    spot = None if harm is None else harm.lost
    low, high = (None, None) if spot is None or not spot.tells else spot.ends(-1)
    least, most = (None, None) if spot is None else (spot.least, spot.most)
    ends = {f"{name}_low": low, f"{name}_high": high, f"{name}_least": least, f"{name}_most": most}
    return {name: _mean(spot), **ends}


def csv_text(grid: Grid) -> str:
    """The rows with every number, empty where a defence has none."""
    return csv_of(defence_rows(grid))


def markdown(grid: Grid) -> str:
    """What was found, when a defence is called broken, and the table in per cent and points of 100."""
    several, strength = bool(grid.about["partitions"]), str(grid.about["strength"])
    kept = ["defence", "protection", *(["partition"] if several else []), *([] if strength == "attackers" else ["strength"])]
    heads = [strength if name == "strength" else name for name in kept]
    heads += [
        "attackers (built for)",
        "finding",
        "seeds",
        "without attack, %",
        "absent, %",
        "worst attack",
        "held against, %",
        "under it, %",
        "lost, points",
    ]
    heads += ["backdoor", "its success, %", "on clean models, %", "gained, points"]
    body = []
    for row in _rows(grid):
        at = DASH if row.strength is None else f"{row.strength:g}"
        words = [at if name == "strength" else str(row.names[name]) for name in kept]
        body.append([*words, *_cells(grid, row)])
    notes = [f"- {line}" for place in grid.protections for line in reasons(grid, place)]
    notes += [f"- {words}" for words in known_words(grid.about)]
    how = (
        "Accuracy of loyal clients late in the run, means over seeds; ± is half of Student's t interval of that mean at 95 %; of"
        " two seeds both values stand there. Absent: without the attackers' data; none where a round of one of these runs came to"
        " nothing, which is no measure then. Held against: of each seed the lower of the runs without attack and absent. Lost:"
        " that less what is left under the attack; below 0 is better."
    )
    said = sentences(grid)
    found = [(first, *(f"- {one}" for one in others)) for first, others in said.places]
    found += [tuple(f"- {one}" for one in said.notes)] if said.notes else []
    paragraphs = [(f"# {grid.about['name']}: defences",), *found, (bounds_words(grid),), (how,)]
    prose = ["\n".join(map(in_markdown, lines)) for lines in paragraphs]
    return "\n\n".join([*prose, markdown_of(heads, body), *(["\n".join(map(in_markdown, notes))] if notes else [])]) + "\n"


def _cells(grid: Grid, row: _Row) -> list[str]:
    defence, strength, place, one = row.defence, row.strength, row.place, row.found
    clean = clean_words(grid, defence, place, None if one is None else clean_of(grid, one))
    absent = percent(spread(grid.absent(defence, strength, place).values()) if one is None else absent_of(grid, one))
    if one is None or one.harm is None:
        return [DASH, without_result(grid, defence, place)[0], DASH, clean, absent, *[DASH] * 8]
    built = "" if one.built_for is None else f" ({one.built_for})"
    count = one.harm.lost.count
    seeds = f"{count}" if count == one.seeds else f"{count} of {one.seeds}"
    cells = [f"{one.attackers}{built}", one.word, seeds, clean, absent, one.harm.attack, percent(one.held)]
    cells += [percent(one.over(one.harm, "accuracy", "late")), percent(one.harm.lost, -1)]
    if one.backdoor is None:
        return [*cells, *[DASH] * 4]
    rates = [percent(one.over(one.backdoor, "success", name)) for name in ("last_poisoned", "clean_mean")]
    return [*cells, one.backdoor.attack, *rates, percent(one.backdoor.lost, -1)]
