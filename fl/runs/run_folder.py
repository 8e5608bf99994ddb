"""A run folder: everything that is needed to look at a run, repeat it and go on with it. Formats are in its README."""

import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import nn

from ...protocol.view.answers import Vector
from ..models.vector import load_vector, named_tensors
from .held_alone import ANOTHER, GO_ON, FolderLock, folder_may_be, held_alone

LOGS = (
    "metrics.jsonl",
    "splits.jsonl",
    "disclosure.jsonl",
    "faults.jsonl",
    "similarities.jsonl",
    "pairs.jsonl",
    "account.jsonl",
)


class RunFolder:
    """The files of one run. Logs only ever grow, by whole lines; resuming cuts them back to the checkpoint's length."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self._alone: FolderLock | None = None

    def hold(self) -> None:
        """As long as this object lives, no other process plays in the folder. Raises ValueError where one does already."""
        folder_may_be(self.path, "run")
        if self.path.is_dir():
            self._alone = held_alone(self.path)

    def check_free(self) -> None:
        """Raise ValueError if the folder already holds a run."""
        if (self.path / "scenario.json").exists():
            raise ValueError(f"{self.path} already holds a run; go on with it by {GO_ON}, or {ANOTHER}")

    def begin(self, scenario: Mapping[str, Any]) -> None:
        """Start a new run. Raises ValueError if the folder already holds one, or another process plays in it."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.hold()
        self.check_free()
        self.write_json("scenario.json", scenario)
        for log in LOGS:
            (self.path / log).touch()

    def scenario(self) -> dict[str, Any]:
        """The scenario that the folder's run was begun with. Raises ValueError if there is none."""
        try:
            plain: dict[str, Any] = json.loads((self.path / "scenario.json").read_text())
        except (OSError, ValueError):
            raise ValueError(f"{self.path} holds no run to resume; leave out {GO_ON} to begin one") from None
        return plain

    def append(self, log: str, lines: Sequence[Mapping[str, Any]]) -> None:
        """Add lines to a log and wait until they are on disk."""
        if not lines:
            return
        with open(self.path / log, "a", encoding="utf-8") as file:
            file.writelines(json.dumps(_strict(line)) + "\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())

    def lengths(self) -> dict[str, int]:
        """Bytes in each log."""
        return {log: (self.path / log).stat().st_size for log in LOGS}

    def cut(self, lengths: Mapping[str, int]) -> None:
        """Cut each log back to a length that it once had. Raises ValueError where one is shorter by now, before any is cut."""
        for log in LOGS:
            path = self.path / log
            if (path.stat().st_size if path.is_file() else 0) < lengths.get(log, 0):
                lost = "shorter than at its newest checkpoint" if path.is_file() else "missing"
                raise ValueError(f"{path} is {lost}, so the run cannot go on; take a whole copy of its folder, or {ANOTHER}")
        for log in LOGS:
            with open(self.path / log, "ab") as file:
                file.truncate(lengths.get(log, 0))

    def read(self, log: str) -> list[dict[str, Any]]:
        """All lines of a log."""
        return [json.loads(line) for line in (self.path / log).read_text(encoding="utf-8").splitlines()]

    def write_json(self, name: str, content: object) -> None:
        """Write a JSON file at once: readers see the old file or the new one."""
        partial = self.path / f"{name}.partial"
        partial.write_text(json.dumps(_strict(content), indent=1) + "\n", encoding="utf-8")
        partial.replace(self.path / name)

    def remove(self, name: str) -> None:
        """A file that no longer holds, if it is there."""
        (self.path / name).unlink(missing_ok=True)

    def write_models(self, module: nn.Module, vectors: Mapping[str, Vector], about: dict[str, str] | None = None) -> None:
        """Each model as safetensors of named tensors, `models/NAME.safetensors`, in place of what an earlier end left there.

        about: metadata of each file.
        """
        (self.path / "models").mkdir(exist_ok=True)
        for old in (self.path / "models").glob("*.safetensors"):
            old.unlink()
        for name, vector in vectors.items():
            load_vector(module, vector)
            (self.path / "models" / f"{name.replace(' ', '-')}.safetensors").write_bytes(save(named_tensors(module), about))


def _strict(value: Any) -> Any:
    """The value with null for numbers that JSON has no word for: a loss may be infinite."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _strict(inner) for key, inner in value.items()}
    return [_strict(inner) for inner in value] if isinstance(value, list | tuple) else value


def versions() -> dict[str, str]:
    """The versions that a repeated run must match."""
    packages = ("cloister", "torch", "numpy", "cryptography")
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # run from a source tree
            found[package] = "not installed"
    return found


def machine() -> dict[str, Any]:
    """What the run ran on: processor, cores that torch used, system."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0] if names else model
    return {"processor": model, "threads": torch.get_num_threads(), "system": platform.system()}
