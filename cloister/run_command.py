"""`cloister run`: train a scenario and write its run folder, with a progress bar; Ctrl-C says how to go on."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from .errors_in_one_line import one_line_errors, said_in_a_line, say
from .grids.options import Engine, EngineName

if TYPE_CHECKING:
    from .fl.runs.experiment import Engine as Engine_
    from .fl.runs.experiment import Round
    from .fl.runs.scenario import Scenario
    from .fl.runs.telling import Tell
    from .scenario_origin import Origin

REJECTED = 3
"""Exit code: the run is done, but updates were rejected."""


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
    from .reporting.headline import rejected_in_words
    from .reporting.repeat import DRAWN
    from .reporting.report import write_report
    from .running import free_folder
    from .scenario_file import draws_its_model, load, with_settings
    from .scenario_origin import Origin
    from .summary import summary_table

    given = {"rounds": rounds, "seed": seed, "device": device}
    settings = [*(set_ or []), *(f"{name}={value}" for name, value in given.items() if value is not None)]
    with one_line_errors(file, settings):
        if workers is not None and engine is EngineName.LOCAL:
            raise ValueError("--workers is of --engine ray; the local engine's threads are set by --set execution.workers=2")
        if record and resume:
            raise ValueError("a run is recorded from its first round on: leave out --resume, or --record")
        with said_in_a_line():
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
        say(rejected_in_words(summary["rejected"]))
        raise typer.Exit(REJECTED)


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
    """Run with a progress bar on stderr; on Ctrl-C and SIGTERM say how to go on."""
    from .auditing.recorded_runs import recorded
    from .fl.runs.experiment import run as play
    from .grids.watching import stoppable
    from .progress import watched

    def rounds(tell: Tell | None) -> Iterator[Round]:
        if record:
            return recorded(scenario, folder, data, origin, engine, file, tell)
        return play(scenario, folder, data, resume, engine=engine, given={"file": file, **asdict(origin)}, tell=tell)

    unrecorded = "in the place of --record goes on, unrecorded" if record else ""
    with stoppable(folder, unrecorded), said_in_a_line():
        for _ in watched(rounds, scenario.name, scenario.rounds, sys.stderr, always=True):
            pass


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
