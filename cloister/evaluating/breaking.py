"""What `cloister breakdown` does: search, show how far it is, write the folder, say what was found."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from rich.console import Console

from ..errors_in_one_line import one_line_errors, said_in_a_line
from ..fl.near_names import listed
from ..fl.runs.results_folder import Row
from ..fl.runs.run_folder import machine, versions
from ..grids.ahead import Pace, begun, hands_words, noted
from ..grids.known import KNOWN, known_in_short
from ..grids.watching import seeds_of, stoppable
from ..grids.workers import Crew
from ..progress import shown
from ..tables_out import print_table
from ..threat_models.breakdown import Steps
from ..threat_models.broken import Bounds
from ..threat_models.evaluation import ABSENT, Cell, Evaluation, search_key
from ..threat_models.evaluation_check import check_strengths
from .beside_search import beside
from .data import place_words, read_grid
from .over_seeds import over_seeds
from .play import opened
from .report import write_evaluation_report
from .run import Ledger
from .searches import Searched, play_searches
from .tables import breakdown_lines, breakdown_table
from .workers import Origin, crew


def play_breakdown(
    file: str,
    names: Mapping[str, Sequence[str] | None],
    strengths: Mapping[str, float | None],
    bounds: Mapping[str, float | None],
    out: Path | None,
    resume: bool,
    workers: int | None,
    engine: str,
    seeds: str | None,
    data: Path | None,
    settings: Sequence[str],
    as_json: bool,
) -> None:
    """names: the attacks, defences and protections that were named. strengths: what bounds the search. bounds: when a defence
    is broken. Raises Failure.
    """
    with one_line_errors(file, settings):
        origin = Origin(file, tuple(settings), seeds_of(seeds), data)
        with said_in_a_line():
            asked = breakdown_asked(origin.load(), names, strengths, bounds)
            folder, ledger = opened(
                asked.evaluation, origin.data, out, resume, origin.about, True, (asked.attacks, asked.defences)
            )
        with stoppable(folder), crew(origin, asked.evaluation, ledger.folder, workers, engine) as hands:
            begun(f"{asked.evaluation.name}: {asked.in_words}", folder, by=hands_words(workers, engine))
            found = played_breakdown(asked, ledger, hands)
        report = write_evaluation_report(folder)
    if as_json:
        sys.stdout.write(json.dumps(found) + "\n")
        return
    console = Console()
    print_table(console, breakdown_table(found))
    named = {name: words for name, words in read_grid(folder).about.get(KNOWN, {}).items() if name in asked.defences}
    for line in (*breakdown_lines(found), *known_in_short({KNOWN: named}, "the report")):
        console.print(line, highlight=False, markup=False)
    console.print(f"folder      {folder}\nreport      {report}", highlight=False, soft_wrap=True)


@dataclass(frozen=True, slots=True)
class AskedBreakdown:
    """What breakdown searches were asked: of an evaluation, whose bounds they judge by, over which strengths, of which names."""

    evaluation: Evaluation
    steps: Steps
    bounds: Bounds
    attacks: Sequence[str]
    defences: Sequence[str]
    protections: Sequence[str]

    @property
    def count(self) -> int:
        places = len(self.evaluation.seeds) * max(1, len(self.evaluation.partitions))
        return places * len(self.attacks) * len(self.defences) * len(self.protections)

    @property
    def in_words(self) -> str:
        """How much there is to search: "4 searches, each of some of 6 strengths from 1 to 6"."""
        steps, many = self.steps, self.count != 1
        strengths = f"{len(steps)} strengths from {steps.least:g} to {steps.at(len(steps) - 1):g}"
        return f"{self.count} search{'es' * many}, {'each ' * many}of some of {strengths} ({self.evaluation.strength})"


def breakdown_asked(
    evaluation: Evaluation,
    names: Mapping[str, Sequence[str] | None],
    strengths: Mapping[str, float | None],
    bounds: Mapping[str, float | None],
) -> AskedBreakdown:
    """names: of the attacks, defences and protections, None or empty for all. bounds: others than the evaluation's. Raises
    ValueError.
    """
    given: dict[str, Any] = {name: value for name, value in bounds.items() if value is not None}
    steps = steps_of(evaluation, strengths)
    partitions = evaluation.partitions.values() or (evaluation.scenario.partition,)
    check_strengths((steps.least, steps.most, steps.step), evaluation.strength, partitions)
    return AskedBreakdown(
        evaluation,
        steps,
        replace(evaluation.bounds, **given),
        _chosen("attack", names["attack"], evaluation.attacks),
        _chosen("defence", names["defence"], evaluation.defences),
        _chosen("protection", names["protection"], evaluation.named_protections),
    )


def played_breakdown(asked: AskedBreakdown, ledger: Ledger, hands: Crew, *, quiet: bool = False) -> dict[str, Any]:
    """Plays the searches and writes breakdown.json, which is returned."""
    named = asked.attacks, asked.defences, asked.protections
    searches = play_searches(ledger, hands, asked.steps, *named, asked.bounds)
    searched = _watch_searches(searches, asked.count, quiet)
    found = breakdown_json(asked.evaluation, asked.steps, asked.bounds, searched, current_rows(asked.evaluation, ledger))
    ledger.folder.write_json("breakdown.json", found)
    return found


def current_rows(evaluation: Evaluation, ledger: Ledger) -> list[Row]:
    """Lines of the evaluation as it is now: not of seeds that it had, nor of an attack or a defence before it was edited."""
    names: dict[str, set[Any]] = {
        "attack": {None, ABSENT, *evaluation.attacks},
        "defence": {*evaluation.defences},
        "seed": {*evaluation.seeds},
        "protection": {*evaluation.named_protections},
        "partition": {*(evaluation.partitions or ("",))},
    }
    there = [row for row in ledger.rows.values() if all(row.get(name, "") in known for name, known in names.items())]
    return [row for row in there if row["key"] == ledger.key(Cell(*(row[f.name] for f in fields(Cell))))]


def steps_of(evaluation: Evaluation, given: Mapping[str, float | None]) -> Steps:
    """The strengths to search: the evaluation's, changed by what the command line gives. Raises ValueError."""
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if evaluation.breakdown is None and "most" not in changes:
        raise ValueError(
            "give --most, the greatest strength to try, for example --most 5; or let the evaluation name it:"
            " breakdown=attacks.Steps(most=5)"
        )
    return replace(evaluation.breakdown, **changes) if evaluation.breakdown is not None else Steps(**changes)


def breakdown_json(
    evaluation: Evaluation, steps: Steps, bounds: Bounds, searched: Sequence[Searched], rows: Sequence[Row] = ()
) -> dict[str, Any]:
    """What searches found as plain values: each, and the median over the seeds with its interval.

    rows: of the cells that were played, which say whether a defence learned anything without attack. of: its search key, by
    which a report knows that it is about what the folder's evaluation is about.
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
            about = beside(evaluation, bounds, rows, attack, defence, protection, partition)
            results.append({"of": of, **_over_seeds(by[attack, defence, protection, partition]), **about})
    return {
        "name": evaluation.name,
        "strength": evaluation.strength,
        "steps": asdict(steps),
        "bounds": asdict(bounds),
        "results": results,
        "versions": versions(),
        "machine": machine(),
    }


def _over_seeds(searches: Sequence[Searched]) -> dict[str, Any]:
    seeds = [
        {
            "seed": one.seed,
            "reason": one.reason,
            "breaks": None if one.found is None else one.found.breaks,
            "holds": None if one.found is None else one.found.holds,
            "single": None if one.found is None else one.found.single,
            "by": "" if one.found is None or one.found.breaks is None else one.by.get(one.found.breaks, ""),
            "tried": [] if one.found is None else [list(pair) for pair in one.found.tried],
        }
        for one in searches
    ]
    return {
        "attack": searches[0].attack,
        "defence": searches[0].defence,
        "protection": place_words(searches[0].protection, searches[0].partition),
        **over_seeds(seeds),
        "seeds": seeds,
    }


def _watch_searches(searches: Iterator[Searched], total: int, quiet: bool) -> list[Searched]:
    found: list[Searched] = []
    pace = Pace("searches", total)
    with shown(sys.stderr, always=not quiet, quiet=quiet) as tell:
        tell("searches", 0, total, "")
        for one in searches:
            found.append(one)
            tell("searches", len(found), total, "")
            if (words := pace.over(one.found is not None)) and not quiet:
                noted(words)
    return found


def _chosen(what: str, names: Sequence[str] | None, known: Mapping[str, object]) -> list[str]:
    names = [names] if isinstance(names, str) else names
    if unknown := [name for name in names or () if name not in known]:
        raise ValueError(f"there is no {what} {unknown[0]!r}; there are: {listed(known)}")
    return [name for name in known if not names or name in names]
