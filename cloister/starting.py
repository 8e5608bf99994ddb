"""`cloister new`: a scenario with comments, or an example, to begin from."""

import shlex
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from .errors_in_one_line import one_line_errors
from .shipped import SHIPPED, example_file, examples, imported


class Kind(StrEnum):
    """What there is to begin from, beside examples."""

    QUICKSTART = "quickstart"
    MY_DATA = "my-data"
    EVALUATE = "evaluate"
    COMPARE = "compare"
    AUDIT = "audit"


NEXT = {
    Kind.QUICKSTART: "cloister run {file}",
    Kind.MY_DATA: "put a CSV file for each client into ./data, then: cloister run {file}",
    Kind.EVALUATE: "cloister evaluate {file}",
    Kind.COMPARE: "cloister compare {file}",
    Kind.AUDIT: "cloister audit {file}",
}
"""What to do with each."""
ABOUT = {
    Kind.QUICKSTART: "clustered federated learning on digits, under masked sums",
    Kind.MY_DATA: "your own CSV files, a client each",
    Kind.EVALUATE: "attacks against defences",
    Kind.COMPARE: "methods beside each other, searched alike",
    Kind.AUDIT: "a small scenario to audit",
}


def _listed(asked: bool) -> None:
    if asked:
        wide = max(map(len, [*Kind, *examples()]))
        for kind in Kind:
            typer.echo(f"{kind.value:{wide}}  {ABOUT[kind]}")
        played = f"cloister run {SHIPPED}:NAME, which says of another kind what plays it"
        typer.echo(f"\nExamples, to be copied likewise, or played as they are: {played}\n")
        for name, about in examples().items():
            typer.echo(f"{name:{wide}}  {about}")
        raise typer.Exit


def _known() -> list[str]:
    return [*dict.fromkeys([*(kind.value for kind in Kind), *examples()])]


def new(
    kind: Annotated[
        str, typer.Argument(help="quickstart, my-data, evaluate, compare, audit, or an example's name.", autocompletion=_known)
    ] = Kind.QUICKSTART.value,
    file: Annotated[Path | None, typer.Argument(help="The file to write. Default: KIND.py here, with _ for -.")] = None,
    listed: Annotated[
        bool, typer.Option("--list", callback=_listed, is_eager=True, help="Name all that there is, and end.")
    ] = False,
) -> None:
    """Write a scenario with comments, or copy an example, with those that it imports, to change as you like.

    Try:  cloister new quickstart && cloister run quickstart.py
    """
    with one_line_errors():
        starter = Kind(kind) if kind in [*Kind] else None
        text = example_file(kind, [one.value for one in Kind]).read_text() if starter is None else _starter(starter)
        usual = kind.replace("-", "_") + ".py"
        path = Path(usual) if file is None else file
        if path.exists():
            raise ValueError(f"{path} is there already; name another file: cloister new {kind} FILE")
        if not path.parent.is_dir():
            raise ValueError(f"there is no folder {path.parent}; make it first: mkdir -p {shlex.quote(str(path.parent))}")
        here = shlex.quote(str(path))
        path.write_text(text.replace(f"examples/{usual}", here) if starter is None else text.replace(f" {usual}", f" {here}"))
        beside = _beside(kind, path.parent) if starter is None else []
    after = f"its first lines say how it is played: {path}" if starter is None else NEXT[starter].format(file=path)
    also = f", and beside it {', '.join(beside)}, which it imports" if beside else ""
    typer.echo(f"{path} is written{also}. Next: {after}")


def _beside(example: str, folder: Path) -> list[str]:
    """Copies the examples that an example imports into a folder, but for those that are there, and names what it wrote."""
    found = [folder / f"{name}.py" for name in imported(example)]
    new_ones = [path for path in found if not path.exists()]
    for path in new_ones:
        path.write_text(example_file(path.stem).read_text())
    return [path.name for path in new_ones]


def _starter(kind: Kind) -> str:
    return (files(__package__) / "starters" / (kind.value.replace("-", "_") + ".py")).read_text()
