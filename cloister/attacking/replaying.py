"""A point that a search found, as the scenario that it is: for what is the user's own, which no file but theirs can write.

The file that replays it names theirs by a path inside of the project that was searched, never by its place on a disk. The
search's own record, beside it, has the way there and the text.
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..fl.runs.doubted import doubted
from ..fl.runs.scenario import Scenario
from ..threat_models.knowledge import Level
from ..threat_models.search.play import Try, scenario_of
from .workers import KIND, Origin, is_file_name

SOURCES = "sources"
"""In the record of a search: the user's files that it was about."""


def named_from_here(where: str) -> tuple[str, str] | None:
    """FILE[:NAME] as it is written down, and the digest of the file: by the path from the working directory where it is inside of
    that, else by its name alone. None of what is no file: cloister:EXAMPLE.
    """
    file, colon, name = where.partition(":")
    path = Path(file).resolve()
    if not path.is_file():
        return None
    here = Path.cwd().resolve()
    known = path.relative_to(here).as_posix() if path.is_relative_to(here) else path.name
    return f"{known}{colon}{name}", digest_of(path)


def sources_of(origin: Origin, folder: Path) -> dict[str, dict[str, str]]:
    """The files that a search is about, for its record, by the path that they are written down by: the way to each from the
    search's folder, and its text.
    """
    found = {}
    for where in (origin.where, *filter(is_file_name, origin.only)):
        if (named := named_from_here(where)) is not None:
            path = Path(where.partition(":")[0]).resolve()
            way = os.path.relpath(path, folder.resolve())
            found[named[0].partition(":")[0]] = {"file": way, "source": path.read_bytes().decode(errors="replace")}
    return found


def digest_of(path: Path) -> str:
    """16 hex digits of the hash of a file."""
    return _digest(path.read_bytes())


def _digest(source: bytes) -> str:
    return hashlib.sha256(source).hexdigest()[:16]


def found_in(where: str, digest: str, module: str) -> str:
    """FILE[:NAME] with the path of the file, looked for beside the file of `module`, in the folders above that, in the working
    directory, and where the search's record beside that says; one that is as it was when the point was found comes first, which
    that record has, too.

    module: `__name__` of whoever asks. Raises ValueError of one line where there is none; one that was edited is a `Doubt`.
    """
    file, colon, name = where.partition(":")
    there = [path for path in _places(file, module) if path.is_file()]
    same = [path for path in there if digest_of(path) == digest]
    same = same or _written_again(file, digest, module)
    if not there and not same:
        asks = getattr(sys.modules.get(module), "__file__", None)
        beside = f" beside {Path(asks).name}, in a folder above it or" if asks else ""
        raise ValueError(
            f"it replays what was found on {file}, which is not there: put that file{beside} in the working directory"
        )
    if not same:
        doubted(f"{file} was edited since this was found on it")
    return f"{(same or there)[0]}{colon}{name}"


def _places(file: str, module: str) -> Iterator[Path]:
    folders = _above(module)
    for folder in folders:
        yield folder / file
    yield Path.cwd() / file
    if kept := _kept(file, folders):
        yield (folders[0] / kept["file"]).resolve()


def _above(module: str) -> list[Path]:
    """The folder of a module's file, and those above it."""
    asks = getattr(sys.modules.get(module), "__file__", None)
    return [*Path(asks).resolve().parents] if asks else []


def _kept(file: str, folders: list[Path]) -> Mapping[str, str]:
    """What the record of a search, if that is in the first of the folders, has of a file; else nothing."""
    try:
        found = json.loads((folders[0] / f"{KIND}.json").read_text(encoding="utf-8"))[SOURCES][file]
        return {name: str(found[name]) for name in ("file", "source")}
    except (OSError, ValueError, LookupError, TypeError):
        return {}


def _written_again(file: str, digest: str, module: str) -> list[Path]:
    """The file with the text that the record has of it, where that is what is looked for. It finds what lay beside the first."""
    folders = _above(module)
    kept = _kept(file, folders)
    if not kept or _digest(source := kept["source"].encode()) != digest:
        return []
    path = folders[0] / SOURCES / Path(file).name
    beside = str((folders[0] / kept["file"]).resolve().parent)
    sys.path += [beside] if beside not in sys.path else []
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(source)
    return [path]


def replayed(
    where: tuple[str, str | None, tuple[str, ...], str | None],
    *,
    only: tuple[str, ...],
    knows: str,
    fixed: tuple[tuple[str, str], ...],
    numbers: Mapping[str, Any],
    attackers: int,
    seed: int,
) -> Scenario:
    """The scenario of a point. where: file, defence, settings and partition. Raises ValueError of one line."""
    file, against, settings, partition = where
    origin = Origin(file, against, settings, None, Level[knows], only, fixed, partition)
    return scenario_of(origin.space(), Try(numbers, attackers, seed), None)
