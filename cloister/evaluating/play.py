"""What `cloister evaluate` does: play, show how far it is, write the folder, say what was found."""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from ..errors_in_one_line import FAILED as NOTHING
from ..errors_in_one_line import one_line_errors, said_in_a_line, say
from ..fl.data.natural import dealt_anew
from ..fl.data.source import not_read
from ..fl.fields_at_fault import about
from ..fl.runs.before_grids import check_fits
from ..fl.runs.doubted import doubted
from ..fl.runs.grouping_check import late_grouping
from ..fl.runs.origin import checksum_of_source
from ..fl.runs.results_folder import DATA, Row
from ..fl.runs.rule_check import rule_doubts
from ..fl.runs.run_folder import machine, versions
from ..grids.ahead import begun, hands_words
from ..grids.known import known_in_short
from ..grids.watching import FAILED, counted, folder_for, seeds_of, stoppable
from ..tables_out import print_table
from ..threat_models.evaluation import ABSENT, Evaluation, all_cells, clean_cells, description, resolved
from ..threat_models.evaluation_folder import EvaluationFolder
from .data import read_grid
from .judging import findings
from .report import write_evaluation_report
from .run import Ledger, play_grid
from .tables import bounds_words, grid_json, grid_table, reasons
from .tried import failures
from .triggers_fit import check_triggers, measured_together
from .verdict import sentences
from .workers import Origin, crew

KINDS: Mapping[str | None, str] = {None: "without attack", ABSENT: "without the attackers' data"}
"""Of cells, by their attack; all others are under attack."""


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
    with one_line_errors(file, settings):
        origin = Origin(file, tuple(settings), seeds_of(seeds), data)
        with said_in_a_line():
            evaluation = origin.load()
            folder, ledger = opened(evaluation, origin.data, out, resume, origin.about)
        with stoppable(folder), crew(origin, evaluation, ledger.folder, workers, engine) as hands:
            what, aside = f"{evaluation.name}: {_cells_words(evaluation)}", ledger.aside(all_cells(evaluation))
            begun(what, folder, _known(ledger), hands_words(workers, engine), aside)
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
            print_table(console, grid_table(grid, protection))
            for line in reasons(grid, protection):
                console.print(line, highlight=False, markup=False, soft_wrap=True)
        console.print(bounds_words(grid), highlight=False, markup=False)
        said = sentences(grid)
        lines = [line for first, others in said.places for line in (first, *(f"- {one}" for one in others))]
        for line in (*lines, *said.notes, *known_in_short(grid.about, "the report")):
            console.print(line, highlight=False, markup=False)
        if grid.earlier:
            console.print(f"left aside  {grid.earlier} cells that were played with other attacks, defences or settings")
        console.print(f"folder      {folder}\nreport      {report}", highlight=False, soft_wrap=True)
    if failed:
        say(f"{len(failed)} cell{'s' * (len(failed) != 1)} failed, first {_place(failed[0])}: {failed[0]['reason']}")
        raise typer.Exit(FAILED)
    if not any(findings(grid, protection) for protection in grid.protections):
        why = next((line for protection in grid.protections for line in reasons(grid, protection)), "")
        say(f"no defence has a result under attack{f'; first {why}' if why else ''}")
        raise typer.Exit(NOTHING)


def opened(
    evaluation: Evaluation,
    data: Path | None,
    out: Path | None,
    resume: bool,
    origin: Mapping[str, Any],
    beside: bool = False,
    names: Sequence[Sequence[str]] = (),
) -> tuple[Path, Ledger]:
    """The folder and what it holds. The data are loaded first: bad input leaves nothing behind, and workers fetch nothing.

    origin: where the evaluation comes from, for the record. beside: searches leave the description of a grid that is in the
    folder as it is, so that its report stays about all of it. names: of the attacks and of the defences that are played, empty
    for all. Warns (Doubt) of a folder of data sets that is not read, of
    clients of the data that are not those of the runs, and of attacks and defences of the user's own that fail.
    """
    with about("data"):
        source = evaluation.scenario.data(data)
    places = evaluation.partitions.values() or (evaluation.scenario.partition,)
    check_fits(replace(evaluation.scenario, partition=next(iter(places))), source)
    check_triggers(evaluation, source, names)
    folder = out or folder_for(evaluation.name, "evaluation", resume)
    files = EvaluationFolder(folder)
    together = [*measured_together(evaluation, source, names), *dict.fromkeys(_grouped_late(evaluation, names))]
    of_data = {DATA: {"data": checksum_of_source(source)}, "doubts": together}
    described = description(evaluation) | of_data | {"origin": origin, "versions": versions(), "machine": machine()}
    ledger = Ledger(evaluation, files, files.open(described, resume, beside))
    unread = not_read(evaluation.scenario.data, data)
    dealt = dict.fromkeys(words for partition in places for words in dealt_anew(source, partition))
    short = dict.fromkeys(_too_few(evaluation, len(source.clients or ())))
    for words in (*([unread] if unread else []), *dealt, *short, *together, *failures(evaluation, source, names)):
        doubted(words)
    return folder, ledger


def _grouped_late(evaluation: Evaluation, names: Sequence[Sequence[str]]) -> Iterator[str]:
    """Defences that group clients, or begin to, after the last round. names: as of `opened`."""
    for cell in clean_cells(evaluation):
        if not names or cell.defence in names[1]:
            with suppress(Exception):  # of the user's own, or refused: its cells' lines say it
                words = late_grouping(resolved(evaluation, cell))
                yield from [f"defence {cell.defence!r}: {words}"] * bool(words)


def _too_few(evaluation: Evaluation, own: int) -> Iterator[str]:
    """Defences whose rules need more updates than a round has. own: clients of the data, where a partition does not say."""
    for cell in all_cells(evaluation):
        if cell.attack is not None:
            continue
        said: list[str] = []
        with suppress(Exception):  # of the user's own, or refused: its cells' lines say it
            scenario = resolved(evaluation, cell)
            clients = getattr(scenario.partition, "clients", own)
            said = rule_doubts(scenario, clients) if isinstance(clients, int) and clients > 0 else []
        yield from (f"defence {cell.defence!r}: {words}" for words in said)


def watched_grid(ledger: Ledger, rows: Iterator[Row], *, always: bool = False, quiet: bool = False) -> Iterator[Row]:
    """The same lines, and how far the grid is."""
    total = len(all_cells(ledger.evaluation))
    return counted(rows, ledger.evaluation.name, _known(ledger), total, always=always, quiet=quiet)


def _known(ledger: Ledger) -> int:
    return sum(ledger.known(cell) is not None for cell in all_cells(ledger.evaluation))


def _cells_words(evaluation: Evaluation) -> str:
    """How many cells of which kind: "14 cells (2 without attack, 4 without the attackers' data, 8 under attack)"."""
    cells = all_cells(evaluation)
    kinds = Counter(KINDS.get(cell.attack, "under attack") for cell in cells)
    return f"{len(cells)} cells ({', '.join(f'{count} {kind}' for kind, count in kinds.items())})"


def _place(row: Mapping[str, Any]) -> str:
    attack = "without attack" if row["attack"] is None else f"{row['attack']} at {row['strength']:g}"
    return f"({attack}, {row['defence']}, {row['protection']}, seed {row['seed']})"
