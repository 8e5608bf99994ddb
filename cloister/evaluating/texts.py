"""An evaluation's cells as tidy rows, and its table as Markdown and CSV."""

from collections.abc import Sequence
from math import isfinite
from typing import Any

from ..fl.runs.results_folder import Row
from ..grids.spread import in_points, metric
from ..reporting.run_data import DASH
from ..tables_out import SHARE, in_markdown, markdown_of, tidy
from ..threat_models.broken import breaks, gained
from ..threat_models.chance import NOTHING
from ..threat_models.evaluation import ABSENT
from .cells import METRICS, headed
from .data import Grid, Spot
from .judging import AT_THE_END, NOBODY, REFUSED, UNCHANGED, Finding, all_refused, findings
from .losses import cannot_gain, ends_ruined, lost_by_seed, reference_of
from .tables import NEVER_MOVED, bounds_words, reasons
from .verdict import verdict

PLACE = ("attack", "strength", "defence", "protection", "partition", "seed", "status")
JUDGED = ("verdict", "lost", "gained", "lost_against", "loss_bound", "success_bound", "unit", "finding")
"""Columns of a cell under attack, beside those of its line: what it did to the defence, and what is found over all seeds."""
WORDS = {
    "": "holds",
    "accuracy": "breaks",
    "accuracy at the end": AT_THE_END,
    "backdoor": "lets a backdoor through",
    "accuracy and backdoor": "breaks and lets a backdoor through",
    "accuracy at the end and backdoor": f"{AT_THE_END} and lets a backdoor through",
}


WORKS = "trigger works without attack"
"""Likewise where a backdoor could gain no more than the bound; where no attacker was at work it is `NOBODY`, and where no loyal
client's model changed `UNCHANGED`.
"""


def cell_rows(grid: Grid) -> list[dict[str, Any]]:
    """A row for each cell, by seed: where it stands, what it did to the defence, and all that was measured.

    verdict: of this run alone, `REFUSED`, `NOBODY`, `WORKS` or `UNCHANGED` where nothing of the attack counted, `NOTHING` or
    `NEVER_MOVED` where the defence learns nothing, or moves no model, even without it. lost: accuracy of the loyal clients
    against `lost_against`; gained: of a backdoor; None where nothing was attacked. finding: of the defence at this strength over
    all attacks and seeds.
    """
    found: dict[tuple[str, str, float], list[Finding]] = {}
    for one in (one for p in grid.protections for one in findings(grid, p)):
        found.setdefault((one.protection, one.defence, one.strength), []).append(one)
    rows = []
    for spot, lines in grid.cells.items():
        of = found.get((spot.protection, spot.defence, spot.strength or 0.0), [])
        rows += [_row(line, judged) for line, judged in zip(lines, _judged(grid, spot, lines, of), strict=True)]
    hollow = _hollow(rows)
    return [{name: value for name, value in row.items() if name not in hollow} for row in rows]


def _hollow(rows: Sequence[Row]) -> frozenset[str]:
    """Names that stand for numbers of other lines, and have no value of their own: "success" beside "success.mean"."""
    beginnings = {name.rpartition(".")[0] for row in rows for name in row if "." in name}
    return frozenset(name for name in beginnings if all(row.get(name) is None for row in rows))


def _judged(grid: Grid, spot: Spot, lines: Sequence[Row], found: Sequence[Finding]) -> list[dict[str, Any]]:
    bounds = grid.bounds
    if spot.attack is None or spot.strength is None or spot.attack == ABSENT:
        return [dict.fromkeys(JUDGED) | {"unit": SHARE} for _ in lines]
    absent = grid.absent(spot.defence, spot.strength, spot.protection)
    ends = grid.absent_at_end(spot.defence, spot.strength, spot.protection)
    done = lost_by_seed([line for line in lines if line["status"] == "done"], absent)
    judged = []
    for line in lines:
        loss = done.get(line["seed"])
        known = loss is not None and isfinite(loss)
        gain = gained(line.get("success"))
        ruins = ends_ruined(line, absent, ends, bounds.loss)
        words = WORDS[breaks(loss, gain, bounds, ruins)] if loss is not None and known else None
        words = REFUSED if words == WORDS[""] and all_refused(line) else words
        words = NOBODY if words == WORDS[""] and line.get("attackers") == 0 else words
        words = WORKS if words == WORDS[""] and line.get("success") and cannot_gain(line, bounds.success) else words
        words = NOTHING if words == WORDS[""] and any(one.nothing for one in found) else words
        words = NEVER_MOVED if words == WORDS[""] and grid.idle(spot.defence, spot.protection) else words
        words = UNCHANGED if words == WORDS[""] and line.get("same_models") else words
        judged.append(
            {
                "verdict": words,
                "lost": loss if known else None,
                "gained": gain,
                "lost_against": reference_of([line], absent) if known else None,
                "loss_bound": bounds.loss,
                "success_bound": bounds.success,
                "unit": SHARE,
                "finding": _finding_of(line, found),
            }
        )
    return judged


def _finding_of(line: Row, found: Sequence[Finding]) -> str | None:
    """What is found of the defence where a line belongs; one without a result to where others of its attack are."""
    if line["status"] != "done":
        found = [one for one in found if one.rows.get(line["attack"])] or found
    return next((one.word for one in found if one.attackers >= int(line.get("attackers") or 0)), None)


def _row(line: Row, judged: dict[str, Any]) -> dict[str, Any]:
    flat = tidy([line])[0]
    rounds = {"nothing_learned": flat.pop("lost")} if "lost" in flat else {}
    place = {name: flat.pop(name, "") for name in PLACE}
    rest = {
        ("nothing_learned." + name.removeprefix("lost.") if name.startswith("lost.") else name): v for name, v in flat.items()
    }
    return {**place, **judged, **rounds, **rest}


def markdown(grid: Grid) -> str:
    """What was found, when a defence is called broken, and a table of the cells under attack with their main numbers."""
    shown = [(name, path, share) for name, path, share in METRICS if any(metric_of(row, path) for row in _lines(grid))]
    heads = [*PLACE, "verdict", "lost, points", "gained, points", "finding"]
    heads += [headed(name, share) for name, _, share in shown]
    body = []
    for row, line in zip(cell_rows(grid), _lines(grid), strict=True):
        figures = [in_points(row[name]) for name in ("lost", "gained")]
        names = [*(_word(row[name]) for name in (*PLACE, "verdict")), *figures, _word(row["finding"])]
        body.append([*names, *(_number(line, path, share) for _, path, share in shown)])
    notes = [line for protection in grid.protections for line in reasons(grid, protection)]
    parts = [*map(in_markdown, (f"# {grid.about['name']}", verdict(grid), bounds_words(grid))), markdown_of(heads, body)]
    return "\n\n".join([*parts, *(["\n".join(f"- {note}" for note in notes)] if notes else [])]) + "\n"


def _lines(grid: Grid) -> list[Row]:
    return [line for lines in grid.cells.values() for line in lines]


def metric_of(line: Row, path: tuple[str, ...]) -> bool:
    """Whether a line has the number."""
    return line["status"] == "done" and isfinite(metric(line, *path))


def _number(line: Row, path: tuple[str, ...], share: bool) -> str:
    if not metric_of(line, path):
        return DASH
    value = metric(line, *path)
    return f"{100 * value:.1f}" if share else f"{value:.3g}"


def _word(value: Any) -> str:
    return DASH if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
