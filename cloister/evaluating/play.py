"""What `cloister evaluate` and `cloister breakdown` do: play, show how far they are, write the folder, say what was found."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import product
from math import inf
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from ..errors_in_one_line import one_line_errors, say
from ..fl.runs.results_folder import Row
from ..fl.runs.run_folder import machine, versions
from ..grids.watching import FAILED, counted, folder_for, seeds_of, stoppable
from ..progress import shown
from ..threat_models.breakdown import Steps, median_interval
from ..threat_models.evaluation import Evaluation, all_cells, description, search_key
from ..threat_models.evaluation_folder import EvaluationFolder
from .data import place_words, read_grid
from .report import write_evaluation_report
from .run import Ledger, Searched, play_grid, play_searches
from .tables import breakdown_table, grid_json, grid_table, reasons
from .verdict import verdict
from .workers import Origin, crew


def play_evaluation(
    file: str,
    out: Path | None,
    resume: bool,
    workers: int | None,
    engine: str,
    seeds: str | None,
    data: Path | None,
    settings: Sequence[str],
    as_json: bool,
) -> None:
    """The arguments are those of the command, one by one. Raises Failure."""
    with one_line_errors():
        origin = Origin(file, tuple(settings), seeds_of(seeds), data)
        evaluation = origin.load()
        folder, ledger = opened(evaluation, origin.data, out, resume, origin.about)
        with crew(origin, evaluation, ledger.folder, workers, engine) as hands, stoppable(folder):
            for _ in watched_grid(ledger, play_grid(ledger, hands), always=True):
                pass
        report = write_evaluation_report(folder)
        grid = read_grid(folder)
    failed = [row for rows in grid.cells.values() for row in rows if row["status"] == "failed"]
    if as_json:
        sys.stdout.write(json.dumps(grid_json(grid)) + "\n")
    else:
        console = Console()
        for protection in grid.protections:
            console.print(grid_table(grid, protection))
            for line in reasons(grid, protection):
                console.print(line, highlight=False, markup=False, soft_wrap=True)
        console.print(verdict(grid), highlight=False, markup=False)
        if grid.earlier:
            console.print(f"left aside  {grid.earlier} cells that were played with other attacks, defences or settings")
        console.print(f"folder      {folder}\nreport      {report}", highlight=False, soft_wrap=True)
    if failed:
        say(f"{len(failed)} cells failed, first {_place(failed[0])}: {failed[0]['reason']}")
        raise typer.Exit(FAILED)


def play_breakdown(
    file: str,
    names: Mapping[str, Sequence[str] | None],
    strengths: Mapping[str, float | None],
    out: Path | None,
    resume: bool,
    workers: int | None,
    engine: str,
    seeds: str | None,
    data: Path | None,
    settings: Sequence[str],
    as_json: bool,
) -> None:
    """names: the attacks, defences and protections that were named. strengths: what bounds the search. Raises Failure."""
    with one_line_errors():
        origin = Origin(file, tuple(settings), seeds_of(seeds), data)
        evaluation = origin.load()
        steps = steps_of(evaluation, strengths)
        chosen = [
            _chosen("attack", names["attack"], evaluation.attacks),
            _chosen("defence", names["defence"], evaluation.defences),
            _chosen("protection", names["protection"], evaluation.named_protections),
        ]
        folder, ledger = opened(evaluation, origin.data, out, resume, origin.about, beside=True)
        total = len(evaluation.seeds) * max(1, len(evaluation.partitions)) * len(chosen[0]) * len(chosen[1]) * len(chosen[2])
        with crew(origin, evaluation, ledger.folder, workers, engine) as hands, stoppable(folder):
            searched = _watch_searches(play_searches(ledger, hands, steps, *chosen), total)
        found = breakdown_json(evaluation, steps, searched)
        ledger.folder.write_json("breakdown.json", found)
        report = write_evaluation_report(folder)
    if as_json:
        sys.stdout.write(json.dumps(found) + "\n")
        return
    Console().print(breakdown_table(found))
    Console().print(f"folder      {folder}\nreport      {report}", highlight=False, soft_wrap=True)


def steps_of(evaluation: Evaluation, given: Mapping[str, float | None]) -> Steps:
    """The strengths to search: the evaluation's, changed by what the command line gives. Raises ValueError."""
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if evaluation.breakdown is None and "most" not in changes:
        raise ValueError("give --most, the greatest strength to try; the evaluation names none")
    return replace(evaluation.breakdown, **changes) if evaluation.breakdown is not None else Steps(**changes)


def breakdown_json(evaluation: Evaluation, steps: Steps, searched: Sequence[Searched]) -> dict[str, Any]:
    """What searches found as plain values: each, and the median over the seeds with its interval.

    of: its search key, by which a report knows that it is about what the folder's evaluation is about.
    """
    by: dict[tuple[str, str, str, str], list[Searched]] = {}
    order = {seed: k for k, seed in enumerate(evaluation.seeds)}
    for one in sorted(searched, key=lambda one: order[one.seed]):
        by.setdefault((one.attack, one.defence, one.protection, one.partition), []).append(one)
    results = []
    places = [(p, of) for of in evaluation.partitions or ("",) for p in evaluation.named_protections]
    for (protection, partition), defence, attack in product(places, evaluation.defences, evaluation.attacks):
        if (attack, defence, protection, partition) in by:
            of = search_key(evaluation, attack, defence, protection, partition)
            results.append({"of": of, **_over_seeds(by[attack, defence, protection, partition])})
    return {
        "name": evaluation.name,
        "strength": evaluation.strength,
        "steps": asdict(steps),
        "results": results,
        "versions": versions(),
        "machine": machine(),
    }


def _over_seeds(searches: Sequence[Searched]) -> dict[str, Any]:
    done = [one.found for one in searches if one.found is not None]
    points = [inf if found.breaks is None else found.breaks for found in done]
    interval = asdict(median_interval(points)) if points else None
    return {
        "attack": searches[0].attack,
        "defence": searches[0].defence,
        "protection": place_words(searches[0].protection, searches[0].partition),
        "median": None if interval is None else {k: _or_none(v) for k, v in interval.items()},
        "single": all(found.single for found in done),
        "seeds": [
            {
                "seed": one.seed,
                "reason": one.reason,
                "breaks": None if one.found is None else one.found.breaks,
                "holds": None if one.found is None else one.found.holds,
                "single": None if one.found is None else one.found.single,
                "tried": [] if one.found is None else [list(pair) for pair in one.found.tried],
            }
            for one in searches
        ],
    }


def _or_none(value: float) -> float | None:
    """None for what lies above the greatest strength."""
    return None if value == inf else value


def opened(
    evaluation: Evaluation, data: Path | None, out: Path | None, resume: bool, origin: Mapping[str, Any], beside: bool = False
) -> tuple[Path, Ledger]:
    """The folder and what it holds. The data are loaded first: bad input leaves nothing behind, and workers fetch nothing.

    origin: where the evaluation comes from, for the record. beside: searches leave the description of a grid that is in the
    folder as it is, so that its report stays about all of it.
    """
    evaluation.scenario.data(data)
    folder = out or folder_for(evaluation.name, "evaluation", resume)
    files = EvaluationFolder(folder)
    about = description(evaluation) | {"origin": origin, "versions": versions(), "machine": machine()}
    return folder, Ledger(evaluation, files, files.open(about, resume, beside))


def watched_grid(ledger: Ledger, rows: Iterator[Row], *, always: bool = False, quiet: bool = False) -> Iterator[Row]:
    """The same lines, and how far the grid is."""
    cells = all_cells(ledger.evaluation)
    known = sum(ledger.known(cell) is not None for cell in cells)
    return counted(rows, ledger.evaluation.name, known, len(cells), always=always, quiet=quiet)


def _watch_searches(searches: Iterator[Searched], total: int) -> list[Searched]:
    found: list[Searched] = []
    with shown(sys.stderr, always=True) as tell:
        tell("searches", 0, total, "")
        for one in searches:
            found.append(one)
            tell("searches", len(found), total, "")
    return found


def _chosen(what: str, names: Sequence[str] | None, known: Mapping[str, object]) -> list[str]:
    if unknown := [name for name in names or () if name not in known]:
        raise ValueError(f"there is no {what} {unknown[0]!r}; there are: {', '.join(known)}")
    return [name for name in known if not names or name in names]


def _place(row: Mapping[str, Any]) -> str:
    attack = "without attack" if row["attack"] is None else f"{row['attack']} at {row['strength']:g}"
    return f"({attack}, {row['defence']}, {row['protection']}, seed {row['seed']})"
