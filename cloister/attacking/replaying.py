"""A point that a search found, as the scenario that it is: for what is the user's own, which no file but theirs can write.

The file that replays it names theirs by a path inside of the project that was searched, never by its place on a disk.
"""

import hashlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..fl.runs.doubted import doubted
from ..fl.runs.scenario import Scenario
from ..threat_models.knowledge import Level
from ..threat_models.search.play import Try, scenario_of
from .workers import Origin


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


def digest_of(path: Path) -> str:
    """16 hex digits of the hash of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def found_in(where: str, digest: str, module: str) -> str:
    """FILE[:NAME] with the path of the file, looked for beside the file of `module`, in the folders above that, and in the
    working directory; one that is as it was when the point was found comes first.

    module: `__name__` of whoever asks. Raises ValueError of one line where there is none; one that was edited is a `Doubt`.
    """
    file, colon, name = where.partition(":")
    there = [path for path in _places(file, module) if path.is_file()]
    same = [path for path in there if digest_of(path) == digest]
    if not there:
        asks = getattr(sys.modules.get(module), "__file__", None)
        beside = f" beside {Path(asks).name}, in a folder above it or" if asks else ""
        raise ValueError(
            f"it replays what was found on {file}, which is not there: put that file{beside} in the working directory"
        )
    if not same:
        doubted(f"{file} was edited since this was found on it")
    return f"{(same or there)[0]}{colon}{name}"


def _places(file: str, module: str) -> Iterator[Path]:
    asks = getattr(sys.modules.get(module), "__file__", None)
    for folder in Path(asks).resolve().parents if asks else ():
        yield folder / file
    yield Path.cwd() / file


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
