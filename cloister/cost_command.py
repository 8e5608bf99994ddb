"""`cloister cost`: what protections cost, measured by playing them on random vectors."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from .errors_in_one_line import one_line_errors, said_in_a_line
from .protocol.core.errors import ProtocolError, Refused

if TYPE_CHECKING:
    from .cost_table import LeftOut
    from .fl.cost.measure import MeasuredCost
    from .fl.cost.workload import Workload
    from .fl.runs.scenario import Scenario
    from .protocol.view.protection import Protection


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
    from .cost_table import comparison_table, cost_json, cost_table, notes
    from .fl.cost.workload import workload_of
    from .protocol.view.protection import as_written
    from .scenario_file import load, with_settings

    with one_line_errors(file, set_ or []):
        with said_in_a_line():
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
            console.print(f"\n[bold]{as_written(one.protection)}")
        console.print(notes(one, workload), highlight=False)
    for left in left_out:
        console.print(f"\nleft out: {left.protection}: {left.reason}", highlight=False)


def _protections(scenario: Scenario, names: Sequence[str]) -> list[Protection]:
    """Those named, by class or as they print, in the order of the list that errors show; "all" for all, the scenario's first."""
    from .fl.runs.scenario import PROTECTIONS
    from .protocol.view.protection import as_written

    known = [scenario.protection, *(p for p in PROTECTIONS if p != scenario.protection)]
    found: list[Protection] = []
    for name in names:
        fits = [p for p in known if name in (type(p).__name__, repr(p), as_written(p))]
        fits = fits or [p for p in known if name == "all"]
        if not fits:
            classes = ", ".join(dict.fromkeys(type(p).__name__ for p in known))
            raise ValueError(f"there is no protection {name!r}; there are {classes}, and all")
        found += [p for p in fits if p not in found]
    return found or [scenario.protection]


def _measure(scenario: Scenario, load: Workload, chosen: Sequence[Protection]) -> tuple[list[MeasuredCost], list[LeftOut]]:
    """Measure each protection, with a progress bar on stderr; who does not fit is left out, with the reason."""
    from .cost_table import LeftOut
    from .fl.cost.measure import measure
    from .protocol.view.protection import as_written, check_composition

    measured, left_out = [], []
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, auto_refresh=False) as bar:  # a thread that refreshes it would be timed
        for protection in chosen:
            task = bar.add_task(as_written(protection), total=1.0)
            shown = [0.0]

            def tell(share: float, task: Any = task, shown: list[float] = shown) -> None:
                if share >= 1 or share - shown[0] > 0.01:
                    shown[0] = share
                    bar.update(task, completed=share, refresh=True)

            try:
                check_composition(type(scenario.algorithm).__name__, load.needs, protection, ())
                measured.append(measure(protection, load, tell))
            except (Refused, ProtocolError, ValueError) as error:
                left_out.append(LeftOut(as_written(protection), str(error)))
    return measured, left_out
