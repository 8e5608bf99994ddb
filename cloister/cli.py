"""The command line: run, evaluate, breakdown, attack, compare, audit, cost, report, keys. Errors are one line and an exit code.

What a command works with is imported by it: `--help` answers at once.

Exit codes: 0 done; 1 could not be done; 2 wrong usage; 3 done, but updates were rejected, or an attack of yours failed; 4 a claim
is refuted, or a run comes out otherwise; 77 this party's certificate was revoked; 130 stopped by the user, 143 by SIGTERM.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from .attacking.command import attack
from .auditing.command import audit
from .comparing.command import compare
from .deploying import join, serve
from .errors_in_one_line import Failure, one_line_errors, said_in_a_line, say
from .evaluating.command import breakdown, evaluate
from .grids.options import Engine, EngineName
from .keys_command import keys
from .protocol.core.errors import ProtocolError, Refused
from .repeating import rerun
from .server_commands import dealer, second
from .starting import new

if TYPE_CHECKING:
    from .cost_table import LeftOut
    from .fl.cost.measure import MeasuredCost, Workload
    from .fl.runs.experiment import Engine as Engine_
    from .fl.runs.scenario import Scenario
    from .protocol.view.protection import Protection
    from .scenario_origin import Origin

REJECTED = 3

app = typer.Typer(
    name="cloister",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _version(asked: bool) -> None:
    if asked:
        from . import __version__

        typer.echo(f"cloister {__version__}")
        raise typer.Exit


@app.callback()
def _about(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version, and end.")
    ] = False,
) -> None:
    """Clustered federated learning in which every party sees exactly what the protocol says it sees.

    Begin with:  cloister new quickstart && cloister run quickstart.py
    """


app.command()(new)


@app.command()
def run(
    file: Annotated[str, typer.Argument(metavar="FILE[:NAME]", help="A Python file with a Scenario; NAME picks one of several.")],
    rounds: Annotated[int | None, typer.Option(help="Communication rounds.", min=1)] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of data, models, sampling and simulated secrets.")] = None,
    device: Annotated[str | None, typer.Option(help="Where models are trained: cpu or cuda.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder to write. Default: a new one under runs/.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the data sets. Default: CLOISTER_DATA, else a cache folder.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PATH=VALUE",
            help="Set any field, e.g. training.lr=0.05 or protection='Masked(floor=5)'. Repeatable.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run from its newest checkpoint.")] = False,
    record: Annotated[
        bool, typer.Option("--record", help="Keep all that every party saw in FOLDER/recording, for `cloister audit FOLDER`.")
    ] = False,
    yardsticks: Annotated[
        bool,
        typer.Option(
            "--yardsticks", help="Then play one model for all, every client alone, and other seeds: what are the groups worth?"
        ),
    ] = False,
    engine: Engine = EngineName.LOCAL,
    workers: Annotated[
        int | None, typer.Option(help="With --engine ray: processes that train. Default: the cluster's CPUs.", min=1, max=1024)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary alone to stdout, as JSON.")] = False,
) -> None:
    """Train a scenario and write a run folder with its report.

    Try:  cloister run cloister:quickstart --seed 1 --set training.lr=0.05

    The run folder holds summary.json, metrics.jsonl, the models, checkpoints, the disclosure log and report.html.
    A run that was stopped, even by a kill, goes on with the same command plus --out FOLDER --resume.
    A recording, with clients' data and the scenario's source, is written when the run ends; what was stopped is not recorded.
    """
    from .reporting.repeat import DRAWN
    from .reporting.report import write_report
    from .running import free_folder
    from .scenario_file import draws_its_model, load, with_settings
    from .scenario_origin import Origin
    from .summary import summary_table

    with one_line_errors():
        if workers is not None and engine is EngineName.LOCAL:
            raise ValueError("--workers is of --engine ray; the local engine's threads are set by --set execution.workers=2")
        if record and resume:
            raise ValueError("a run is recorded from its first round on: leave out --resume, or --record")
        given = {"rounds": rounds, "seed": seed, "device": device}
        settings = [f"{name}={value}" for name, value in given.items() if value is not None]
        settings = [*(set_ or []), *settings]
        scenario = with_settings(load(file), settings)
        origin = Origin.of(file, settings)
        _check_device(scenario.device)
        if draws_its_model(scenario, file, settings):
            say(f"the model is a finished module: {DRAWN}")
        folder = out or free_folder(scenario, resume)
        with _engine(engine, workers) as made:
            _watch(scenario, folder, data, resume, file, origin, record, made)
        if yardsticks:
            _measure_groups(scenario, folder, data)
        report = write_report(folder)
        summary = json.loads((folder / "summary.json").read_text())
    if as_json:
        sys.stdout.write(json.dumps(summary) + "\n")
    else:
        Console().print(summary_table(summary))
        Console().print(f"run folder  {folder}\nreport      {report}", highlight=False, soft_wrap=True)
    if summary["rejected"]:
        first, count = summary["rejected"][0], len(summary["rejected"])
        say(f"{count} updates were rejected, first of client {first['client']} in round {first['round']}: {first['reason']}")
        raise typer.Exit(REJECTED)


@app.command()
def cost(
    file: Annotated[str, typer.Argument(metavar="FILE[:NAME]", help="A Python file with a Scenario; NAME picks one of several.")],
    clients: Annotated[int | None, typer.Option(help="Number of clients, n. Default: the scenario's.", min=1)] = None,
    parameters: Annotated[
        int | None, typer.Option(help="Parameters of the model, d. Default: those of the scenario's model.", min=1)
    ] = None,
    clusters: Annotated[int, typer.Option(help="Disjoint clusters, each with its own sum.", min=1)] = 1,
    drop: Annotated[
        float, typer.Option(help="Share of clients that fall silent in a round, from 0 to below 1, each at a random message.")
    ] = 0.0,
    rounds: Annotated[int, typer.Option(help="Rounds to play.", min=1)] = 3,
    seed: Annotated[int | None, typer.Option(help="Seed of vectors, dropouts and simulated secrets.")] = None,
    protection: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Masked, Plain, ...; all: each that fits. Repeatable. Default: the scenario's."),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the data sets, if n or d must be read from the data.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Set any field, e.g. protection.sketch=512. Repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the measurements alone to stdout, as JSON.")] = False,
) -> None:
    """Measure what a protection costs: messages, bytes and CPU seconds of each party, without training.

    Try:  cloister cost cloister:quickstart --drop 0.1

    Compare:  cloister cost cloister:quickstart --protection all --clients 100 --parameters 1000000 --rounds 2

    The protocol itself is played, on random vectors: per round what the scenario's algorithm asks of the server. CPU seconds
    are of this machine and this implementation, all threads counted, and without drawing the vectors.
    """
    from .cost_table import brief, comparison_table, cost_json, cost_table, notes
    from .fl.cost.measure import workload_of
    from .scenario_file import load, with_settings

    with one_line_errors():
        scenario = with_settings(load(file), [*(set_ or []), *([] if seed is None else [f"seed={seed}"])])
        workload = workload_of(scenario, clients, parameters, data)
        workload = replace(workload, clusters=clusters, drop=drop, rounds=rounds)
        chosen = _protections(scenario, protection or [])
        measured, left_out = _measure(scenario, workload, chosen)
        if not measured:
            raise ValueError("; ".join(f"{one.protection}: {one.reason}" for one in left_out))
    if as_json:
        sys.stdout.write(json.dumps(cost_json(measured, left_out, workload, scenario.name)) + "\n")
        return
    console = Console()
    title = f"{scenario.name}, n = {workload.clients:,}, d = {workload.parameters:,}"
    several = len(chosen) > 1
    console.print(comparison_table(measured, workload, title) if several else cost_table(measured[0], title))
    for one in measured:
        if several:
            console.print(f"\n[bold]{brief(one.protection)}")
        console.print(notes(one, workload), highlight=False)
    for left in left_out:
        console.print(f"\nleft out: {left.protection}: {left.reason}", highlight=False)


def _protections(scenario: Scenario, names: Sequence[str]) -> list[Protection]:
    """Those named, by class or as they print, in the order of the list that errors show; "all" for all, the scenario's first."""
    from .fl.runs.scenario import PROTECTIONS

    known = [scenario.protection, *(p for p in PROTECTIONS if p != scenario.protection)]
    found: list[Protection] = []
    for name in names:
        fits = [p for p in known[1:] if name in (type(p).__name__, repr(p))] or [
            p for p in known if name in (type(p).__name__, "all")
        ]
        if not fits:
            classes = ", ".join(dict.fromkeys(type(p).__name__ for p in known))
            raise ValueError(f"there is no protection {name!r}; there are {classes}, and all")
        found += [p for p in fits if p not in found]
    return found or [scenario.protection]


def _measure(scenario: Scenario, load: Workload, chosen: Sequence[Protection]) -> tuple[list[MeasuredCost], list[LeftOut]]:
    """Measure each protection, with a progress bar on stderr; who does not fit is left out, with the reason."""
    from .cost_table import LeftOut, brief
    from .fl.cost.measure import measure
    from .protocol.view.protection import check_composition

    measured, left_out = [], []
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, auto_refresh=False) as bar:  # a thread that refreshes it would be timed
        for protection in chosen:
            task = bar.add_task(brief(protection), total=1.0)
            shown = [0.0]

            def tell(share: float, task: Any = task, shown: list[float] = shown) -> None:
                if share >= 1 or share - shown[0] > 0.01:
                    shown[0] = share
                    bar.update(task, completed=share, refresh=True)

            try:
                check_composition(type(scenario.algorithm).__name__, load.needs, protection, ())
                measured.append(measure(protection, load, tell))
            except (Refused, ProtocolError, ValueError) as error:
                left_out.append(LeftOut(brief(protection), str(error)))
    return measured, left_out


app.command()(evaluate)
app.command()(breakdown)
app.command()(attack)
app.command()(compare)
app.command()(audit)
app.add_typer(keys)
app.command()(serve)
app.command()(join)
app.command()(second)
app.command()(dealer)


@app.command()
def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="FOLDER...", help="A run folder, or that of an evaluation, a search, a comparison or a client."),
    ],
    out: Annotated[Path | None, typer.Option(help="Of several evaluations' folders: the one to put them together in.")] = None,
) -> None:
    """Rebuild report.html of a run folder, or of that of an evaluation, a search, a comparison or a client, finished or not.

    A client's says what it revealed, to whom, what it spent of its privacy, and what it refused, from its own record alone.
    Folders of evaluations of one scenario, with other seeds, attacks or defences, become one table: cloister report A B --out C

    Try:  cloister report runs/quickstart-seed0
    """
    from .attacking.report import write_search_report
    from .comparing.report import write_comparison_report
    from .evaluating.merging import merge
    from .evaluating.report import write_evaluation_report
    from .reporting.own_record import is_record, write_client_report
    from .reporting.report import write_report
    from .reporting.run_data import missing_answers, read_run

    with one_line_errors():
        if (len(folders) > 1) != (out is not None):
            raise ValueError("several folders are put together in one: cloister report A B --out C")
        folder = folders[0] if out is None else merge(folders, out)
        if is_record(folder):
            path = write_client_report(folder)
        elif (folder / "comparison.json").is_file():
            path = write_comparison_report(folder)
        elif (folder / "search.json").is_file():
            path = write_search_report(folder)
        else:
            grid = (folder / "results.jsonl").is_file()
            path = write_evaluation_report(folder) if grid else write_report(folder)
            if not grid and (words := missing_answers(read_run(folder))):
                say(f"note: {words}")
    Console().print(f"report      {path}", highlight=False, soft_wrap=True)


app.command()(rerun)


@contextmanager
def _engine(name: EngineName, workers: int | None) -> Iterator[Engine_ | None]:
    """What clients' local training is computed by; None for this process."""
    if name is EngineName.LOCAL:
        yield None
        return
    from .fl.engines.on_ray import on_ray

    with on_ray(workers) as made:
        yield made


def _watch(
    scenario: Scenario,
    folder: Path,
    data: Path | None,
    resume: bool,
    file: str,
    origin: Origin,
    record: bool,
    engine: Engine_ | None,
) -> None:
    """Run with a progress bar on stderr; on Ctrl-C say how to go on."""
    from .auditing.recorded_runs import recorded
    from .fl.runs.experiment import run as play
    from .progress import watched

    if record:
        rounds = recorded(scenario, folder, data, origin, engine, file)
    else:
        rounds = play(scenario, folder, data, resume, engine=engine, given={"file": file, **asdict(origin)})
    try:
        with said_in_a_line():
            for _ in watched(rounds, scenario.name, scenario.rounds, sys.stderr, always=True):
                pass
    except KeyboardInterrupt:
        how = "--resume in the place of --record goes on, unrecorded" if record else "--resume goes on"
        say(f"stopped; the same command with --out {folder} {how}")
        raise typer.Exit(130) from None


def _measure_groups(scenario: Scenario, folder: Path, data: Path | None) -> None:
    """Play the runs beside it."""
    from .fl.runs.yardsticks import add_yardsticks
    from .progress import shown

    with shown(sys.stderr, always=True) as tell:
        add_yardsticks(scenario, folder, data, lambda what, done, of: tell(what, done, of, ""))


def _check_device(device: str) -> None:
    import torch

    try:
        torch.zeros(1, device=device).item()  # some devices make tensors that hold nothing
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ValueError(f"this machine has no device {device!r}; use --device cpu") from None


def main() -> None:
    """Entry point of the `cloister` command."""
    try:
        app()
    except Failure as failure:
        say(str(failure))
        sys.exit(failure.code)


if __name__ == "__main__":
    main()
