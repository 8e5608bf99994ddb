"""The command line: `cloister run` and `cloister report`. Errors are one line on stderr and a non-zero exit.

Exit codes: 0 done; 1 could not be done; 2 wrong usage; 3 done, but updates were rejected; 130 stopped by the user.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from .fl.experiment import run as play
from .fl.scenario import Scenario
from .protocol.errors import ProtocolError
from .report import write_report
from .scenario_file import load, with_settings
from .summary import summary_table

REJECTED = 3

app = typer.Typer(
    name="cloister",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


class Failure(Exception):
    """Something to tell the user in one line."""


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn expected errors into Failure. Bugs keep their traceback."""
    try:
        yield
    except (ValueError, OSError, ProtocolError) as error:
        message = str(error) or type(error).__name__
        raise Failure(" ".join(message.split())) from error


@app.callback()
def _about() -> None:
    """Clustered federated learning in which every party sees exactly what the protocol says it sees.

    Begin with:  cloister run examples/quickstart.py
    """


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
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Set any field, e.g. training.lr=0.05. Repeatable.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run from its newest checkpoint.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary alone to stdout, as JSON.")] = False,
) -> None:
    """Train a scenario and write a run folder with its report.

    Try:  cloister run examples/quickstart.py --seed 1 --set training.lr=0.05

    The run folder holds summary.json, metrics.jsonl, the models, checkpoints, the disclosure log and report.html.
    A run that was stopped, even by a kill, goes on with the same command plus --out FOLDER --resume.
    """
    with one_line_errors():
        given = {"rounds": rounds, "seed": seed, "device": device}
        settings = [f"{name}={value}" for name, value in given.items() if value is not None]
        scenario = with_settings(load(file), [*(set_ or []), *settings])
        _check_device(scenario.device)
        folder = out or _folder(scenario, resume)
        _watch(scenario, folder, data, resume)
        report = write_report(folder)
        summary = json.loads((folder / "summary.json").read_text())
    if as_json:
        sys.stdout.write(json.dumps(summary) + "\n")
    else:
        Console().print(summary_table(summary))
        Console().print(f"run folder  {folder}\nreport      {report}", highlight=False, soft_wrap=True)
    if summary["rejected"]:
        first, count = summary["rejected"][0], len(summary["rejected"])
        _say(f"{count} updates were rejected, first of client {first['client']} in round {first['round']}: {first['reason']}")
        raise typer.Exit(REJECTED)


@app.command()
def report(folder: Annotated[Path, typer.Argument(help="A run folder, finished or not.")]) -> None:
    """Rebuild report.html of a run folder, finished or interrupted.

    Try:  cloister report runs/quickstart-seed0
    """
    with one_line_errors():
        path = write_report(folder)
    Console().print(f"report      {path}", highlight=False, soft_wrap=True)


def _watch(scenario: Scenario, folder: Path, data: Path | None, resume: bool) -> None:
    """Run with a progress bar on stderr; on Ctrl-C say how to go on."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("clusters {task.fields[clusters]}  accuracy {task.fields[accuracy]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=False) as bar:
        task = bar.add_task(scenario.name, total=scenario.rounds, clusters=1, accuracy="-")
        known: dict[str, Any] = {}
        try:
            for done in play(scenario, folder, data, resume):
                if done.accuracy is not None:
                    known["accuracy"] = f"{done.accuracy:.3f}"
                bar.update(task, completed=done.round, clusters=done.clusters, **known)
        except KeyboardInterrupt:
            bar.stop()
            _say(f"stopped; the same command with --out {folder} --resume goes on")
            raise typer.Exit(130) from None


def _folder(scenario: Scenario, resume: bool) -> Path:
    """runs/NAME-seedS, with a number if that is taken; when resuming, the newest that exists."""
    stem = Path("runs") / f"{scenario.name.replace(' ', '-').replace('/', '-')}-seed{scenario.seed}"
    taken = [stem.with_name(f"{stem.name}-{k}") if k > 1 else stem for k in range(1, 10_000)]
    existing = [path for path in taken if path.exists()]
    if resume:
        if not existing:
            raise ValueError(f"there is no run folder {stem} to resume; name it with --out")
        return existing[-1]
    return next(path for path in taken if not path.exists())


def _check_device(device: str) -> None:
    try:
        torch.zeros(1, device=device).item()  # some devices make tensors that hold nothing
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ValueError(f"this machine has no device {device!r}; use --device cpu") from None


def _say(message: str) -> None:
    sys.stderr.write(f"cloister: {message}\n")


def main() -> None:
    """Entry point of the `cloister` command."""
    try:
        app()
    except Failure as failure:
        _say(str(failure))
        sys.exit(1)


if __name__ == "__main__":
    main()
