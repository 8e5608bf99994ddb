"""`cloister new`: a scenario with comments, to begin from."""

from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from .errors_in_one_line import one_line_errors


class Kind(StrEnum):
    """What there is to begin from."""

    QUICKSTART = "quickstart"
    MY_DATA = "my-data"
    EVALUATE = "evaluate"
    AUDIT = "audit"


NEXT = {
    Kind.QUICKSTART: "cloister run {file}",
    Kind.MY_DATA: "put a CSV file for each client into ./data, then: cloister run {file}",
    Kind.EVALUATE: "cloister evaluate {file}",
    Kind.AUDIT: "cloister audit {file}",
}
"""What to do with each."""


def new(
    kind: Annotated[Kind, typer.Argument(help="What to begin from.")] = Kind.QUICKSTART,
    file: Annotated[Path | None, typer.Argument(help="The file to write. Default: KIND.py here.")] = None,
) -> None:
    """Write a scenario with comments, to change as you like.

    Try:  cloister new quickstart && cloister run quickstart.py
    """
    with one_line_errors():
        name = kind.value.replace("-", "_") + ".py"
        path = Path(name) if file is None else file
        if path.exists():
            raise ValueError(f"{path} is there already; name another file: cloister new {kind.value} FILE")
        path.write_text((files(__package__) / "starters" / name).read_text())
    typer.echo(f"{path} is written. Next: {NEXT[kind].format(file=path)}")
