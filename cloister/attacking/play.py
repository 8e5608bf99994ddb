"""What `cloister attack` does: search, show how far it is, write the folder, say what was found."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Any

import typer
from rich.console import Console

from ..errors_in_one_line import one_line_errors, said_in_a_line
from ..fl.data.natural import dealt_anew
from ..fl.data.source import not_read
from ..fl.runs.before_grids import check_fits
from ..fl.runs.doubted import doubted
from ..fl.runs.origin import checksum_of_source
from ..fl.runs.results_folder import DATA, Row, write
from ..fl.runs.rule_check import rule_doubts
from ..grids.ahead import Pace, begun, hands_words, noted
from ..grids.known import known_in_short
from ..grids.ledger import Ledger
from ..grids.watching import FAILED, folder_for, stoppable
from ..grids.workers import crew_of
from ..progress import shown
from ..tables_out import print_table
from ..threat_models.broken import Bounds
from ..threat_models.evaluation_folder import EvaluationFolder
from ..threat_models.membership import Fixed
from ..threat_models.search.found import Point, cheapest, cost_of, key_of, strength_of, try_of, worst
from ..threat_models.search.plan import Plan, hunt, settled
from ..threat_models.search.play import Bench, Try, scenario_of
from ..threat_models.search.space import Space
from ..threat_models.search.spent import spent
from ..threat_models.search.tpe import available
from ..threat_models.search.who import ANY, FROM, WHICH, population_of
from .asked import Asked, command_of, description, plan_of, said_of
from .data import Search, read_search
from .defence import Subject
from .points import counts_words, no_break
from .replaying import SOURCES, sources_of
from .report import write_search_report
from .run import Named, play_hunt
from .source import Unwritable, scenario_source
from .tables import as_given_words, break_words, curve_table, failed_words, point_json, points_table, search_json, verdict
from .workers import KIND, Origin, crew, space_of

BREAK, WORST = "break.py", "worst.py"
NONE: Mapping[str, Any] = MappingProxyType({})


def play_attack(asked: Asked, as_json: bool) -> None:
    """Raises Failure."""
    with one_line_errors(asked.file, asked.settings):
        available()
        origin = asked.origin
        with said_in_a_line():
            subject = origin.subject()
            folder, subject = play_search(asked, subject, origin)
        report, search = folder / "report.html", read_search(folder)
    if as_json:
        sys.stdout.write(json.dumps(search_json(search)) + "\n")
        _end(search)
        return
    console = Console()
    print_table(console, points_table(search))
    print_table(console, curve_table(search))
    console.print(f"Broken is a defence where {break_words(search)}.", highlight=False, markup=False)
    console.print(verdict(search), highlight=False, markup=False)
    if not_played := failed_words(search):
        console.print(not_played, highlight=False, markup=False)
    if given := as_given_words(search):
        console.print(given, highlight=False, markup=False)
    for words in known_in_short(search.about, "the report"):
        console.print(words, highlight=False, markup=False)
    console.print(f"defence     {defence_words(asked.against, subject)}", highlight=False, markup=False)
    if subject.partition and subject.evaluation is not None:
        others = [name for name in subject.evaluation.partitions if name != subject.partition]
        more = f"; --partition takes {', '.join(others)} too" if others else ""
        console.print(f"partition   {subject.partition}{more}", highlight=False, markup=False)
    for name in (BREAK, WORST):
        if (folder / name).exists():
            console.print(f"replay      cloister run {folder / name}", highlight=False, soft_wrap=True)
    console.print(f"folder      {folder}\nreport      {report}", highlight=False, soft_wrap=True)
    _end(search)


def defence_words(against: str | None, subject: Subject) -> str:
    """What was attacked; where nobody said what, which defences of the file could be."""
    said = said_of(subject.scenario.algorithm)
    if against is None and subject.evaluation is not None:
        return f"{said}, the scenario's own; --against takes {', '.join(subject.evaluation.defences)}"
    return said if against in (None, said) else f"{against}: {said}"


def _end(search: Search) -> None:
    """The exit code says whether an attack of the user's own failed, or all did."""
    if search.erred:
        raise typer.Exit(FAILED)


def play_search(
    asked: Asked, subject: Subject, origin: Origin | None, quiet: bool = False, own: Mapping[str, Any] = NONE
) -> tuple[Path, Subject]:
    """The folder of the search, and what was attacked. origin: that worker processes load it from; None to play in this process.

    own: attacks that Python gave, by name. Warns (Doubt) of a folder of data sets that is not read, and of clients of the data
    that are not those of the runs. Raises ValueError.
    """
    space = space_of(subject, asked.level, asked.attacks, asked.named, asked.data, own, asked.goal == "backdoor")
    clients = len(population_of(space.scenario, asked.data).clients)
    plan = plan_of(asked, space, clients, Bounds() if subject.evaluation is None else subject.evaluation.bounds, subject.limit)
    named = Named.of(space)
    source = space.scenario.data(asked.data)
    check_fits(space.scenario, source)
    folder = asked.out or folder_for(space.scenario.name, "attack", asked.resume)
    bench = Bench(space, EvaluationFolder(folder, KIND), asked.data)
    about, before = description(asked, space, plan, clients, named, subject.partition, subject.limit), _described(folder)
    about |= {DATA: {"data": checksum_of_source(source)}, SOURCES: {} if origin is None else sources_of(origin, folder)}
    ledger = Ledger[Try](bench.folder, bench.folder.open(about, asked.resume), named.key)
    unread = not_read(space.scenario.data, asked.data)
    anew = dealt_anew(source, space.scenario.partition)
    for words in (*([unread] if unread else []), *anew, *rule_doubts(space.scenario, clients)):
        doubted(words)
    known = len(ledger.rows)
    hands = crew_of(bench, lambda: bench, 1) if origin is None else crew(origin, bench, asked.workers, asked.engine)
    with stoppable(folder), hands as played:
        if not quiet:
            by = hands_words(1 if origin is None else asked.workers, asked.engine)
            begun(f"{about['name']}: {_search_words(about)}", folder, known, by)
        if any(before.get(name, about[name]) != about[name] for name in ("runs", "minutes")):
            list(play_hunt(settled(plan, read_search(folder).points.values()), ledger, played, named))
        _watch(space, plan, play_hunt(hunt(space, plan), ledger, played, named), known, quiet)
    bench.folder.write_json("found.json", _found(read_search(folder), space, plan, asked, origin, folder))
    write_search_report(folder)
    return folder, subject


def _described(folder: Path) -> Row:
    """What the folder says that it is about; empty where it says nothing yet."""
    file = folder / f"{KIND}.json"
    found: Row = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return found


def _found(search: Search, space: Space, plan: Plan, asked: Asked, origin: Origin | None, folder: Path) -> dict[str, Any]:
    """What was found, with the scenarios that replay it written into the folder."""
    best = cheapest(space, search.points, plan.held_out)
    most = worst(search.points.values())
    for name in (BREAK, WORST):  # of an earlier end of this search
        (folder / name).unlink(missing_ok=True)
    for name, point in ((BREAK, best), (WORST, most)):
        if point is not None and (name == WORST or point is not most):
            with suppress(Unwritable):  # of what Python made, which no file has
                write(folder / name, _source(point, space, plan, asked, origin, search).encode())
    found: dict[str, Any] = {"cheapest": None, "worst": None if most is None else point_json(most)}
    if best is not None:
        runs, seconds = _first_break(search)
        strength = strength_of(space, best.numbers)
        fewer = sum(p.attackers < best.attackers for p in search.played)
        found["cheapest"] = point_json(best) | {
            "strength": strength,
            "sent": cost_of(space, best)[1],
            "after_runs": runs,
            "after_seconds": seconds,
        }
        found["cheapest"] |= {"fewer_tried": fewer, "file": WORST if best is most else BREAK}
    return found


def _first_break(search: Search) -> tuple[int, float]:
    """After how many runs and CPU seconds the first break was known."""
    broken = {key_of(p.numbers, p.attackers): len(p.searched) + len(p.held_out) for p in search.breaks}
    seconds = 0.0
    for n, row in enumerate(search.rows, 1):
        seconds += spent(row)
        one = try_of(row)
        key = key_of(one.numbers, one.attackers)
        if key in broken:
            broken[key] -= 1
            if not broken[key]:
                return n, seconds
    return len(search.rows), seconds


def _source(point: Point, space: Space, plan: Plan, asked: Asked, origin: Origin | None, search: Search) -> str:
    """The file that replays a point, under the first seed that was searched. Raises Unwritable."""
    one = Try(point.numbers, point.attackers, plan.seeds[0])
    scenario = scenario_of(space, one, asked.data)
    told, why = point_json(point), no_break(search, point)
    by_data = point.numbers.get(WHICH, ANY) not in (ANY, FROM)
    only = f" Who attacks was chosen by the data of seed {one.seed}." if by_data else ""
    who: Any = getattr(scenario.adversary, "members", None)
    only += f" The attackers are {counts_words(who.ids)}, by id." if isinstance(who, Fixed) else ""
    broke = f" This is {why}." if why else ""
    about = (
        f"{point.attackers} of {search.about['clients']} clients are corrupt: {told['said']}\n\n{_expected(search, one)}{only}\n"
        f"Mean over the seeds that were played: {told['did']}.{broke}\n\nFound by\n\n{command_of(asked, published=True)}\n"
    )
    return scenario_source(scenario, about, origin, one)


def _expected(search: Search, one: Try) -> str:
    """What a replay of a try is to show: its seed, and the accuracy of loyal clients in the runs of the search."""
    done = [(try_of(row), row) for row in search.rows if row["status"] == "done"]
    rows = {(key_of(o.numbers, o.attackers), o.seed): row for o, row in done}
    attacked, clean = (rows.get((key_of(o.numbers, o.attackers), o.seed)) for o in (one, one.clean))
    if attacked is None:
        return f"Seed {one.seed}."
    words = f"Seed {one.seed}: accuracy of loyal clients, late in the run, {100 * attacked['accuracy']:.1f} %"
    if clean is None:
        return f"{words}."
    same = [float(clean["of"][i]) for i in attacked["of"]]
    return f"{words}; without attack {100 * sum(same) / len(same):.1f} %."


def _search_words(about: Row) -> str:
    """What is searched, and with what budget: "median attacked by 1 to 6 of 20 clients, in at most 200 runs"."""
    many = f"{about['least']} to {about['most']}" if about["least"] < about["most"] else f"{about['most']}"
    budget = [f"{about['runs']} runs"] if about["runs"] else []
    budget += [f"{about['minutes']:g} CPU minute{'s' * (about['minutes'] != 1)}"] if about["minutes"] else []
    beside = ", of all processes, their beginning included" if about["minutes"] else ""
    return f"{about['defence']} attacked by {many} of {about['clients']} clients, in at most {' and '.join(budget)}{beside}"


def _watch(space: Space, plan: Plan, rows: Iterator[Row], known: int, quiet: bool) -> None:
    """A bar of runs, or of CPU seconds where they are the budget. known: how many runs were in the folder before."""
    by_seconds = plan.runs == inf
    pace = None if by_seconds else Pace("runs of the budget", int(plan.runs), most=True)
    total = plan.seconds if by_seconds else plan.runs
    runs, seconds = 0, 0.0
    with shown(sys.stderr, always=not quiet, quiet=quiet) as tell:
        for row in rows:
            runs += 1
            seconds += spent(row)
            note = f"{runs} runs  {row['attackers']} attackers"
            tell(space.scenario.name, int(seconds) if by_seconds else runs, int(total), note)
            if pace is not None and (words := pace.over(runs > known)) and not quiet:
                noted(words)
