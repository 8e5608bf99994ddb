"""What `cloister attack` does: search, show how far it is, write the folder, say what was found."""

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any

from rich.console import Console

from ..errors_in_one_line import one_line_errors
from ..fl.runs.results_folder import Row, write
from ..fl.runs.run_folder import machine, versions
from ..fl.runs.scenario import described
from ..grids.ledger import Ledger
from ..grids.watching import folder_for, progress_bar, seeds_of, stoppable
from ..threat_models.knowledge import Level
from ..threat_models.search.found import Point, cheapest, key_of, strength_of, try_of, worst
from ..threat_models.search.plan import Plan, hunt
from ..threat_models.search.play import Bench, Bounds, Try, scenario_of
from ..threat_models.search.space import Space
from ..threat_models.search.tpe import available
from ..threat_models.search.who import clients_of
from .data import Search, read_search
from .report import write_search_report
from .run import Named, play_hunt
from .source import scenario_source
from .tables import curve_table, point_json, search_json, verdict
from .workers import KIND, Origin, crew

RUNS = 200
BREAK, WORST = "break.py", "worst.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command was given."""

    file: str
    against: str | None
    attackers: str | None
    attacks: Sequence[str]
    fixed: Sequence[str]
    knows: str
    goal: str
    loss: float
    success: float
    share: float
    runs: int | None
    minutes: float | None
    exhaust: bool
    out: Path | None
    resume: bool
    workers: int | None
    engine: str
    seeds: str | None
    held_out: str | None
    data: Path | None
    settings: Sequence[str]

    @property
    def budget(self) -> float:
        """In runs: 200 where neither runs nor minutes are given."""
        return float(self.runs or (inf if self.minutes is not None else RUNS))

    @property
    def origin(self) -> Origin:
        if wrong := [text for text in self.fixed if "=" not in text]:
            raise ValueError(f"--fix takes NAME=VALUE, for example schedule=always, not {wrong[0]!r}")
        fixed = tuple((name.strip(), value.strip()) for name, _, value in (text.partition("=") for text in self.fixed))
        level = Level[self.knows.upper()]
        return Origin(self.file, self.against, tuple(self.settings), self.data, level, tuple(self.attacks), self.share, fixed)


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
        bench = Bench(space, _files(folder), origin.share, origin.data)
        rows = bench.folder.open(description(asked, space, plan, clients, named), asked.resume)
        ledger = Ledger[Try](bench.folder, rows, named.key)
        with crew(origin, bench, asked.workers, asked.engine) as hands, stoppable(folder):
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


def _files(folder: Path) -> Any:
    from ..threat_models.evaluation_folder import EvaluationFolder

    return EvaluationFolder(folder, KIND)


def plan_of(asked: Asked, space: Space, clients: int) -> Plan:
    """The limits of the search. Raises ValueError.

    By default as many attackers as the defence's rule is built for, or fewer than half of the clients; one seed is searched, the
    scenario's, and two others are held out.
    """
    seeds = seeds_of(asked.seeds) or (space.scenario.seed,)
    held_out = seeds_of(asked.held_out) or tuple(s for s in range(max(seeds) + 1, max(seeds) + 3))
    least, most = 1, _most(space, clients)
    if asked.attackers is not None:
        counts = seeds_of(asked.attackers)
        if not counts or max(counts) >= clients:
            raise ValueError(
                f"--attackers takes a number or a range below {clients}, for example 1-{most}, not {asked.attackers!r}"
            )
        least, most = min(counts), max(counts)
    goal: Any = asked.goal
    bounds = Bounds(loss=asked.loss, success=asked.success, share=asked.share, goal=goal)
    seconds = inf if asked.minutes is None else 60 * asked.minutes
    return Plan(
        least=least,
        most=most,
        seeds=seeds,
        held_out=held_out,
        bounds=bounds,
        runs=asked.budget,
        seconds=seconds,
        exhaust=asked.exhaust,
    )


def _most(space: Space, clients: int) -> int:
    last: Any = getattr(space.scenario.algorithm, "rule", None)
    while hasattr(last, "steps"):
        last = last.rule
    f = getattr(last, "f", None)
    return f if type(f) is int and 0 < f < clients else max(1, (clients - 1) // 2)


def description(asked: Asked, space: Space, plan: Plan, clients: int, named: Named) -> dict[str, Any]:
    """The search as plain JSON values: what its folder records before anything is played."""
    return {
        "name": space.scenario.name,
        "defence": asked.against or repr(space.scenario.algorithm),
        "about": named.id,
        "scenario": described(space.scenario),
        "clients": clients,
        "least": plan.least,
        "most": plan.most,
        "seeds": list(plan.seeds),
        "held_out": list(plan.held_out),
        "bounds": asdict(plan.bounds),
        "runs": None if plan.runs == inf else int(plan.runs),
        "minutes": asked.minutes,
        "knows": space.knows.name,
        "distinct": space.distinct,
        "fixed": dict(space.fixed),
        "attacks": [*space.attacks, *space.votes],
        "left_out": dict(space.left_out),
        "command": _command(asked),
        "versions": versions(),
        "machine": machine(),
    }


def _command(asked: Asked) -> str:
    words = ["cloister", "attack", asked.file]
    words += ["--against", asked.against] if asked.against else []
    words += ["--attackers", asked.attackers] if asked.attackers else []
    words += [word for name in asked.attacks for word in ("--attack", name)]
    words += [word for text in asked.fixed for word in ("--fix", text)]
    words += ["--knows", asked.knows] if asked.knows != "insider" else []
    words += ["--goal", asked.goal] if asked.goal != "any" else []
    for name, value, usual in (("loss", asked.loss, 0.1), ("success", asked.success, 0.2), ("last", asked.share, 0.25)):
        words += [f"--{name}", f"{value:g}"] if value != usual else []
    words += ["--budget", str(asked.runs)] if asked.runs else []
    words += ["--minutes", f"{asked.minutes:g}"] if asked.minutes is not None else []
    words += ["--exhaust"] if asked.exhaust else []
    words += ["--seeds", asked.seeds] if asked.seeds else []
    words += ["--held-out", asked.held_out] if asked.held_out else []
    words += [word for setting in asked.settings for word in ("--set", setting)]
    return shlex.join(words)


def _found(search: Search, space: Space, plan: Plan, asked: Asked, folder: Path) -> dict[str, Any]:
    """What was found, with the scenarios that replay it written into the folder."""
    best = cheapest(space, search.points, plan.held_out)
    most = worst(search.points.values())
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
        f"{point.attackers} attackers: {told['said']}\n\n{told['did']}, mean over seeds.{only} Found by\n\n{_command(asked)}\n"
    )
    return scenario_source(scenario, about, (str(_absolute(asked.file)), asked.against, tuple(asked.settings)))


def _absolute(where: str) -> str:
    file, colon, name = where.partition(":")
    return f"{Path(file).resolve()}{colon}{name}"


def _watch(space: Space, plan: Plan, rows: Iterator[Row]) -> None:
    """A bar of runs, or of CPU seconds where they are the budget, with the worst severity so far."""
    by_seconds = plan.runs == inf
    total = plan.seconds if by_seconds else plan.runs
    bar, task = progress_bar(space.scenario.name, int(total), 0)
    runs, seconds = 0, 0.0
    with bar:
        for row in rows:
            runs += 1
            seconds += float(row["cost"]["seconds"])
            note = f"{runs} runs  {row['attackers']} attackers"
            bar.update(task, completed=seconds if by_seconds else runs, note=note)
