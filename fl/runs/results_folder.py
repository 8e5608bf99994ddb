"""The folder of a grid of runs: one line for each cell, whatever became of it.

`results.jsonl` only grows while cells are played, by whole lines that are on disk before the next; when all are there it is
put in the order of the grid. A line that a kill has cut off is dropped. `KIND.json` says what the grid is made of.
"""

import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .held_alone import ANOTHER, GO_ON, OTHERWISE_READ, FolderLock, folder_may_be, held_alone

Row = Mapping[str, Any]

DATA = "data_sha256"
"""In the description: of each data set, by name, the checksum as it was read (`origin.checksum_of_source`)."""


class ResultsFolder:
    """The files of one grid. kind: what it is, in a word, which also names the file that describes it."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path = path
        self.kind = kind
        self.results = path / "results.jsonl"
        self._alone: FolderLock | None = None

    def open(self, description: Mapping[str, Any], resume: bool, beside: bool = False) -> dict[str, Row]:
        """The cells that are there already, by key. Raises ValueError if the folder holds a grid and none was expected, or if
        another process plays in it: as long as this object lives, its process does alone. And where its cells are of other data.

        The description is rewritten: a grid may have grown since. Cells that are no longer part of it stay. beside: what is
        played is no grid itself, and shares the folder of one: a description that is there stays.
        """
        one = f"{'an' if self.kind[0] in 'aeiou' else 'a'} {self.kind}"
        folder_may_be(self.path, self.kind)
        if self.path.is_dir():
            self._alone = held_alone(self.path)
        if self.results.exists() and not resume:
            raise ValueError(f"{self.path} already holds {one}; go on with it by {GO_ON}, or {ANOTHER}")
        if resume and not self.results.exists():
            raise ValueError(f"{self.path} holds no {self.kind} to resume; leave out {GO_ON} to begin one")
        self._check_data(description)
        self.path.mkdir(parents=True, exist_ok=True)
        self._alone = held_alone(self.path)
        if not (beside and (self.path / f"{self.kind}.json").exists()):
            self.write_json(f"{self.kind}.json", description)
        self.results.touch()
        rows, whole = _read(self.results)
        with open(self.results, "ab") as file:
            file.truncate(whole)
        return rows

    def _check_data(self, description: Mapping[str, Any]) -> None:
        """Cells are known by what they are made of, but for their data. Raises ValueError where a data set is another now."""
        try:
            before = json.loads((self.path / f"{self.kind}.json").read_text(encoding="utf-8")).get(DATA) or {}
        except (OSError, ValueError, AttributeError):
            return  # there is none, or it is damaged, which its readers say
        now = description.get(DATA) or {}
        if others := [name for name in now if name in before and before[name] != now[name]]:
            which = f" of {', '.join(map(repr, others))}" if len(now) > 1 else ""
            raise ValueError(f"the data{which} are not those that what is in {self.path} {OTHERWISE_READ}")

    def append(self, row: Row) -> None:
        """Add a cell and wait until it is on disk."""
        with open(self.results, "a", encoding="utf-8") as file:
            file.write(_line(row))
            file.flush()
            os.fsync(file.fileno())

    def arrange(self, rows: Iterable[Row]) -> None:
        """Put the cells in this order: readers see the old file or the new one."""
        write(self.results, "".join(map(_line, rows)).encode())

    def write_json(self, name: str, content: object) -> None:
        """Write a JSON file at once."""
        write(self.path / name, (json.dumps(strict(content), indent=1) + "\n").encode())


def read_results(folder: Path, kind: str, command: str) -> dict[str, Row]:
    """The cells of a folder by key, the last line of each. Raises ValueError where there are none to read."""
    if not (folder / "results.jsonl").is_file():
        if (folder / f"{kind}.json").is_file():
            what = f"{folder / 'results.jsonl'} is missing, which has what the {kind} found: the folder is damaged"
            raise ValueError(f"{what}; take a whole copy of it, or play the {kind} anew into another folder")
        raise ValueError(f"{folder} holds no {kind}; give the folder that `cloister {command}` wrote")
    return _read(folder / "results.jsonl")[0]


def cut_off(folder: Path) -> list[str]:
    """A line where the last one of results.jsonl was cut off while it was written, and what to do; none where it is whole."""
    path = folder / "results.jsonl"
    if not path.is_file() or not (text := path.read_bytes()) or text.endswith(b"\n"):
        return []
    return [f"the last line of {path} is cut off, and its cell counts as not played; {GO_ON} plays it again"]


def _read(path: Path) -> tuple[dict[str, Row], int]:
    """Rows by key, and the length in bytes of all whole lines."""
    rows: dict[str, Row] = {}
    whole = 0
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            break  # cut off while it was written
        try:
            row = json.loads(line)
            rows[row["key"]] = row
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"line {number} of {path} is no cell; delete that line") from None
        whole += len(line)
    return rows, whole


def strict(value: Any) -> Any:
    """The value with text for numbers that JSON has no word for: "inf", "nan"."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: strict(inner) for key, inner in value.items()}
    return [strict(inner) for inner in value] if isinstance(value, list | tuple) else value


def _line(row: Row) -> str:
    return json.dumps(strict(row), sort_keys=True) + "\n"


def write(path: Path, content: bytes) -> None:
    """Write a file at once: readers see the old one or the new one."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    with open(partial, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
