"""The folder of an evaluation: one line for each cell, and the attack-free runs that cells are compared with.

`results.jsonl` only grows while cells are played, by whole lines that are on disk before the next; when all are there it is
put in the order of the grid. A line that a kill has cut off is dropped. `clean/KEY.safetensors` holds an attack-free run's
accuracies and models; its line holds the hash.
"""

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from .trial import Clean

Row = Mapping[str, Any]


class EvaluationFolder:
    """The files of one evaluation."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.results = path / "results.jsonl"

    def open(self, description: Mapping[str, Any], resume: bool) -> dict[str, Row]:
        """The cells that are there already, by key. Raises ValueError if the folder holds an evaluation and none was expected.

        The description is rewritten: an evaluation may have grown since. Cells that are no longer part of it stay.
        """
        if self.results.exists() and not resume:
            raise ValueError(f"{self.path} already holds an evaluation; add --resume to go on with it, or choose another --out")
        if resume and not self.results.exists():
            raise ValueError(f"{self.path} holds no evaluation to resume; leave out --resume to begin one")
        (self.path / "clean").mkdir(parents=True, exist_ok=True)
        self.write_json("evaluation.json", description)
        self.results.touch()
        rows, whole = _read(self.results)
        with open(self.results, "ab") as file:
            file.truncate(whole)
        return rows

    def append(self, row: Row) -> None:
        """Add a cell and wait until it is on disk."""
        with open(self.results, "a", encoding="utf-8") as file:
            file.write(_line(row))
            file.flush()
            os.fsync(file.fileno())

    def arrange(self, rows: Iterable[Row]) -> None:
        """Put the cells in this order: readers see the old file or the new one."""
        _write(self.results, "".join(map(_line, rows)).encode())

    def write_json(self, name: str, content: object) -> None:
        """Write a JSON file at once."""
        _write(self.path / name, (json.dumps(strict(content), indent=1) + "\n").encode())

    def write_clean(self, key: str, clean: Clean) -> str:
        """Store an attack-free run; the hash of its file."""
        vectors = list({id(v): v for v in clean.models.values()}.values())
        place = {id(v): k for k, v in enumerate(vectors)}
        of = [place[id(clean.models[i])] if i in clean.models else -1 for i in clean.clients]
        arrays = {f"model {k}": np.ascontiguousarray(v) for k, v in enumerate(vectors)}
        arrays |= {"clients": np.array(clean.clients, dtype=np.int64), "model of": np.array(of, dtype=np.int64)}
        packed = save({**arrays, "accuracy": np.ascontiguousarray(clean.accuracy, dtype=np.float64)})
        _write(self.path / "clean" / f"{key}.safetensors", packed)
        return hashlib.sha256(packed).hexdigest()

    def read_clean(self, key: str, digest: str) -> Clean | None:
        """An attack-free run, or None where its file is missing or is not what was written."""
        try:
            packed = (self.path / "clean" / f"{key}.safetensors").read_bytes()
        except OSError:
            return None
        if hashlib.sha256(packed).hexdigest() != digest:
            return None
        arrays = load(packed)
        clients = tuple(int(i) for i in arrays["clients"])
        models = {i: arrays[f"model {k}"] for i, k in zip(clients, arrays["model of"].tolist(), strict=True) if k >= 0}
        return Clean(clients, arrays["accuracy"], models)


def read_results(folder: Path) -> dict[str, Row]:
    """The cells of a folder by key, the last line of each. Raises ValueError where there are none to read."""
    if not (folder / "results.jsonl").is_file():
        raise ValueError(f"{folder} holds no evaluation; give the folder that `cloister evaluate` wrote")
    return _read(folder / "results.jsonl")[0]


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


def _write(path: Path, content: bytes) -> None:
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    with open(partial, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
