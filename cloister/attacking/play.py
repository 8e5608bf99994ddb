"""What `cloister attack` does: search, show how far it is, write the folder, say what was found."""

import json
import sys
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

from rich.console import Console

from ..errors_in_one_line import one_line_errors
from ..fl.runs.results_folder import Row, write
from ..grids.ledger import Ledger
from ..grids.watching import folder_for, stoppable
from ..progress import shown
from ..threat_models.evaluation_folder import EvaluationFolder
from ..threat_models.search.found import Point, cheapest, key_of, strength_of, try_of, worst
from ..threat_models.search.plan import Plan, hunt, settled
from ..threat_models.search.play import Bench, Try, scenario_of
from ..threat_models.search.space import Space
from ..threat_models.search.tpe import available
from ..threat_models.search.who import clients_of
from .asked import Asked, command_of, description, plan_of
from .data import Search, read_search
from .report import write_search_report
from .run import Named, play_hunt
from .source import scenario_source
from .tables import curve_table, point_json, search_json, verdict
from .workers import KIND, crew

BREAK, WORST = "break.py", "worst.py"


def play_attack(asked: Asked, as_json: bool) -> None:
    """Raises Failure."""
    with one_line_errors():
        available()
        origin = asked.origin
        space = origin.space()
        clients = len(clients_of(space.scenario, origin.data))
        plan = plan_of(asked, space, clients)
        named = Named.of(space, origin.share)
        folder = asked.out or folder_for(space.scenario.name, "attack", asked.resume)
        bench = Bench(space, EvaluationFolder(folder, KIND), origin.share, origin.data)
        about, before = description(asked, space, plan, clients, named), _described(folder)
        rows = bench.folder.open(about, asked.resume)
        ledger = Ledger[Try](bench.folder, rows, named.key)
        with crew(origin, bench, asked.workers, asked.engine) as hands, stoppable(folder):
            if any(before.get(name, about[name]) != about[name] for name in ("runs", "minutes")):
                list(play_hunt(settled(plan, read_search(folder).points.values()), ledger, hands, named.id))
            _watch(space, plan, play_hunt(hunt(space, plan), ledger, hands, named.id))
        bench.folder.write_json("found.json", _found(read_search(folder), space, plan, asked, folder))
        report = write_search_report(folder)
        search = read_search(folder)
    if as_json:
        sys.stdout.write(json.dumps(search_json(search)) + "\n")
        return
    console = Console()
    console.print(curve_table(search))
    console.print(verdict(search), highlight=False, markup=False)
    for name in (BREAK, WORST):
        if (folder / name).exists():
            console.print(f"replay      cloister run {folder / name}", highlight=False, soft_wrap=True)
    console.print(f"folder      {folder}\nreport      {report}", highlight=False, soft_wrap=True)


def _described(folder: Path) -> Row:
    """What the folder says that it is about; empty where it says nothing yet."""
    file = folder / f"{KIND}.json"
    found: Row = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return found


def _found(search: Search, space: Space, plan: Plan, asked: Asked, folder: Path) -> dict[str, Any]:
    """What was found, with the scenarios that replay it written into the folder."""
    best = cheapest(space, search.points, plan.held_out)
    most = worst(search.points.values())
    (folder / BREAK).unlink(missing_ok=True)  # of an earlier end of this search
    for name, point in ((BREAK, best), (WORST, most)):
        if point is not None and (name == WORST or point is not most):
            write(folder / name, _source(point, space, plan, asked).encode())
    found: dict[str, Any] = {"cheapest": None, "worst": None if most is None else point_json(most)}
    if best is not None:
        runs, seconds = _first_break(search)
        strength = strength_of(space, best.numbers)
        fewer = sum(p.attackers < best.attackers for p in search.points.values())
        found["cheapest"] = point_json(best) | {"strength": strength, "after_runs": runs, "after_seconds": seconds}
        found["cheapest"] |= {"fewer_tried": fewer, "file": WORST if best is most else BREAK}
    return found


def _first_break(search: Search) -> tuple[int, float]:
    """After how many runs and CPU seconds the first break was known."""
    broken = {key_of(p.numbers, p.attackers): len(p.searched) + len(p.held_out) for p in search.breaks}
    seconds = 0.0
    for n, row in enumerate(search.rows, 1):
        seconds += float(row["cost"]["seconds"])
        one = try_of(row)
        key = key_of(one.numbers, one.attackers)
        if key in broken:
            broken[key] -= 1
            if not broken[key]:
                return n, seconds
    return len(search.rows), seconds


def _source(point: Point, space: Space, plan: Plan, asked: Asked) -> str:
    """The file that replays a point, under the first seed that was searched."""
    seed = plan.seeds[0]
    scenario = scenario_of(space, Try(point.numbers, point.attackers, seed), asked.data)
    told = point_json(point)
    only = "" if point.numbers.get("which", "any") == "any" else f" Who attacks was chosen by the data of seed {seed}."
    about = (
        f"{point.attackers} attackers: {told['said']}\n\n{told['did']}, mean over seeds.{only} Found by\n\n{command_of(asked)}\n"
    )
    return scenario_source(scenario, about, (str(_absolute(asked.file)), asked.against, tuple(asked.settings)))


def _absolute(where: str) -> str:
    file, colon, name = where.partition(":")
    return f"{Path(file).resolve()}{colon}{name}"


def _watch(space: Space, plan: Plan, rows: Iterator[Row]) -> None:
    """A bar of runs, or of CPU seconds where they are the budget, with the worst severity so far."""
    by_seconds = plan.runs == inf
    total = plan.seconds if by_seconds else plan.runs
    runs, seconds = 0, 0.0
    with shown(sys.stderr, always=True) as tell:
        for row in rows:
            runs += 1
            seconds += float(row["cost"]["seconds"])
            note = f"{runs} runs  {row['attackers']} attackers"
            tell(space.scenario.name, int(seconds) if by_seconds else runs, int(total), note)
