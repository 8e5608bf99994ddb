"""What lies at the paths that a scenario names for its own data."""

from collections.abc import Iterator
from difflib import get_close_matches
from os import PathLike, fspath
from pathlib import Path

from ..functions import brief


def seen(folder: Path) -> Iterator[Path]:
    """What a folder holds, without what is hidden: systems leave `._NAME` and the like beside a copied NAME."""
    return (one for one in folder.iterdir() if not one.name.startswith("."))


def one_path(path: object, by: str, instead: str) -> str:
    """The path. by: the function that takes it. instead: what to give in the place of several. Raises ValueError for anything
    else, as a list is.
    """
    if not isinstance(path, str | PathLike):
        raise ValueError(f"{by} takes one path, not {brief(path)}: {instead}")
    return str(fspath(path))


def nothing_at(path: Path) -> str:
    """That there is nothing of this name, what there is instead, and from where a relative name is looked for."""
    said = f"there is no file or folder {path}"
    there = [one.name for one in seen(path.parent)] if path.parent.is_dir() else []
    if close := get_close_matches(path.name, there, 1, 0.75):
        said += f"; did you mean {path.with_name(close[0])}"
    if path.is_absolute():
        return said
    beside = f"beside a scenario's file: Path(__file__).parent / {str(path)!r}"
    return f"{said}; it is looked for in {Path.cwd()}, where the command runs; {beside}"
