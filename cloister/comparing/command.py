"""The command `compare`: what it takes and what it says of itself. What it does is in play.py, imported when asked for."""

from typing import Annotated

import typer

from ..grids.options import Data, Engine, EngineName, Json, Out, Resume, Seeds, Workers

File = Annotated[str, typer.Argument(metavar="FILE[:NAME]", help="A Python file with a Comparison; NAME picks one of several.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Set a field of all scenarios, e.g. rounds=5, or of one: data.NAME.rounds=5. Repeatable.",
    ),
]


def compare(
    file: File,
    out: Out = None,
    resume: Resume = False,
    workers: Workers = None,
    engine: Engine = EngineName.LOCAL,
    seeds: Seeds = None,
    data: Data = None,
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """Play a grid of methods, data sets, protections and seeds, and make one table of it, as papers print them.

    Try:  cloister compare cloister:compare_digits

    First the hyper-parameters of each method are searched: up to the same number of configurations for each, on validation data
    that are taken from training data, with seeds of their own; test data are not there. Then every method is played under every
    protection, and again with members of an adversary among its clients. All do the same local work, but where the table says so.

    The folder holds results.jsonl, one line a run; table.md, table.csv and report.html, which also shows the matrix that each
    method groups clients by; and comparison.json, written before anything is played. What a protection refuses stands in the
    table with the reason. Who is better is said where seeds can tell; where not, about how many would.

    --set changes a field of every data set's scenario, training.lr=0.3, or with data.NAME. before the path of one alone. Methods,
    protections and seeds are the comparison's own: what is set of a scenario's and changes nothing is refused.

    A comparison that was stopped, even by a kill, goes on with the same command plus --out FOLDER --resume; so does one that has
    grown by a method, a seed or a data set.
    """
    from .play import play

    play(file, out, resume, workers, engine.value, seeds, data, set_ or (), as_json)
