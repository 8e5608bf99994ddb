"""What `cloister compare` does: play, show how far it is, write the folder, say what was found."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from ..errors_in_one_line import one_line_errors, said_in_a_line, say
from ..fl.data.natural import dealt_anew
from ..fl.data.source import not_read
from ..fl.fields_at_fault import about
from ..fl.near_names import in_short
from ..fl.runs.before_grids import check_fits
from ..fl.runs.comparison import Comparison
from ..fl.runs.comparison_cells import description, places, search_cells
from ..fl.runs.doubted import doubted
from ..fl.runs.origin import checksum_of_source
from ..fl.runs.results_folder import DATA, ResultsFolder, Row
from ..fl.runs.run_folder import machine, versions
from ..grids.ahead import begun, hands_words
from ..grids.known import KNOWN, known_in_short
from ..grids.watching import FAILED, counted, folder_for, seeds_of, stoppable
from ..tables_out import print_table
from ..threat_models.design_limit import known_breaks
from .caveats import caveats
from .data import KIND, Found, read_comparison
from .lines import block_lines, marked
from .notes import BRACKETS, fits, fits_words
from .report import write_comparison_report
from .run import Ledger, count_of, current_cells, play_comparison
from .scale import attackers_words
from .texts import as_json as in_json
from .texts import terminal
from .verdict import headline
from .workers import Origin, crew


def play(
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
            comparison = origin.load()
            folder, ledger = opened(comparison, origin.data, out, resume, origin.about)
        with stoppable(folder), crew(origin, comparison, workers, engine) as hands:
            what, aside = f"{comparison.name}: {_runs_words(comparison)}", ledger.aside(current_cells(ledger))
            begun(what, folder, _known(ledger), hands_words(workers, engine), aside)
            for _ in watched_comparison(ledger, play_comparison(ledger, hands), always=True):
                pass
        report = write_comparison_report(folder)
        found = read_comparison(folder)
    if as_json:
        sys.stdout.write(json.dumps(in_json(found)) + "\n")
    else:
        _say(found, folder, report)
    if failed := [row for rows in found.cells.values() for row in rows if row["status"] == "failed"]:
        first = failed[0]
        attack = f", {first['attack']}" if first["attack"] else ""
        place = f"({first['data']}, {first['method']}, {first['protection']}{attack}, seed {first['seed']})"
        say(f"{len(failed)} run{'s' * (len(failed) != 1)} failed, first {place}: {first['reason']}")
        raise typer.Exit(FAILED)


def _say(found: Found, folder: Path, report: Path) -> None:
    console = Console()
    for data, protection in found.blocks:
        print_table(console, terminal(found, data, protection))
        for line in block_lines(found, data, protection):
            if line.instead:
                words = f"{marked(found, line.method)} under {protection}: {line.instead}"
                console.print(words, highlight=False, markup=False, soft_wrap=True)
    if len(found.seeds) > 2:
        console.print("\u00b1 is the standard deviation over seeds", highlight=False, markup=False)
    if found.attacks:
        console.print(BRACKETS, highlight=False, markup=False)
        if words := attackers_words(found):
            console.print(words, highlight=False, markup=False)
    for words in (headline(found), fits_words(found, fits(found)), *caveats(found), *known_in_short(found.about, "the report")):
        console.print(words, highlight=False, markup=False)
    if found.earlier:
        console.print(f"left aside  {found.earlier} runs of other settings, seeds or configurations")
    console.print(f"folder      {folder}\nreport      {report}", highlight=False, soft_wrap=True)


def opened(
    comparison: Comparison, data: Path | None, out: Path | None, resume: bool, origin: Mapping[str, Any]
) -> tuple[Path, Ledger]:
    """The folder and what it holds. The data are loaded first: bad input leaves nothing behind, and workers fetch nothing.

    origin: where the comparison comes from, for the record. Warns (Doubt) of data that cannot be had, where others can.
    """
    read = _check_data(comparison, data)
    folder = out or folder_for(comparison.name, KIND, resume)
    files = ResultsFolder(folder, KIND)
    known = {KNOWN: _known_of(comparison)}
    described = description(comparison) | known | {DATA: read, "origin": origin, "versions": versions(), "machine": machine()}
    return folder, Ledger(comparison, files, files.open(described, resume))


def _known_of(comparison: Comparison) -> dict[str, str]:
    """What searches have found against its methods, by name; nothing of one that cannot be made here, whose lines say it."""
    found = dict[str, str]()
    data, protection, seed = next(iter(comparison.data)), next(iter(comparison.protections.values())), comparison.seeds[0]
    for name in comparison.methods:
        with suppress(Exception):
            found[name] = known_breaks(comparison.without_attack(data, name, 0, protection, seed).algorithm)
    return {name: words for name, words in found.items() if words}


def _check_data(comparison: Comparison, data: Path | None) -> dict[str, str]:
    """Checksums of the data sets that are there, by name."""
    lost: dict[str, Exception] = {}
    read: dict[str, str] = {}
    dealt: dict[str, None] = {}
    for name, scenario in comparison.data.items():
        try:
            with about("data"):
                source = scenario.data(data)
            check_fits(scenario, source)
            read[name] = checksum_of_source(source)
            dealt |= dict.fromkeys(dealt_anew(source, scenario.partition))
        except Exception as error:  # a loader may be the user's own
            lost[name] = error
    if len(lost) == len(comparison.data):
        raise next(iter(lost.values()))
    unread = [not_read(scenario.data, data) for scenario in comparison.data.values()]
    if all(unread):  # of several, one may be for those that read it
        doubted(unread[0])
    for words in dealt:
        doubted(words)
    for name, why in lost.items():
        words = " ".join(str(why).split()) if isinstance(why, ValueError) else in_short(why)
        doubted(f"there are no data for {name!r}, whose runs will fail: {words}")
    return read


def watched_comparison(ledger: Ledger, rows: Iterator[Row], *, always: bool = False, quiet: bool = False) -> Iterator[Row]:
    """The same lines, and how far the comparison is."""
    return counted(rows, ledger.comparison.name, _known(ledger), count_of(ledger.comparison), always=always, quiet=quiet)


def _known(ledger: Ledger) -> int:
    return sum(ledger.known(cell) is not None for cell in current_cells(ledger))


def _runs_words(comparison: Comparison) -> str:
    """How many runs there are: "30 runs (18 of the search for hyper-parameters, 12 of the table)"."""
    total = count_of(comparison)
    searched = sum(len(search_cells(comparison, *place)) for place in places(comparison))
    return f"{total} runs ({searched} of the search for hyper-parameters, {total - searched} of the table)"
