"""What a run is a run of, for whoever repeats it: the scenario's source and settings, the data's checksum, versions, commit."""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..data.population import Population, Source
from .run_folder import machine, versions

ORIGIN = "origin.json"
"""Of a run folder. file: as it was named, None for a scenario that Python made; source: its text; name: there; settings:
PATH=VALUE, in their order; data_sha256: see `checksum`; served: in its place, of a run whose clients were elsewhere; commit: of
Cloister's own source tree, None where it is installed."""
NOWHERE: Mapping[str, Any] = {"file": None, "name": "", "source": "", "settings": []}


def origin(given: Mapping[str, Any] | None, population: Population | None) -> dict[str, Any]:
    """What a run folder records. given: file, source, name and settings; None for a scenario that Python made. population: None
    of a run that was served, whose clients' data are with them.
    """
    data = {"served": True} if population is None else {"data_sha256": checksum(population)}
    seen: dict[str, Any] = {**data, "commit": commit(), "versions": versions()}
    kernels = torch.backends.cpu.get_cpu_capability()  # as ATEN_CPU_CAPABILITY has it: each kind rounds its own way
    seen["machine"] = machine() | {"kernels": kernels}
    return {**NOWHERE, **(given or {}), **seen}


def other_data(folder: Path, made_of: Mapping[str, Any]) -> bool:
    """Whether the run in this folder, as far as its record says, had other data than these, which `origin` found."""
    try:
        before = json.loads((folder / ORIGIN).read_text(encoding="utf-8")).get("data_sha256")
    except (OSError, ValueError, AttributeError):
        return False
    return before is not None and before != made_of.get("data_sha256", before)


def checksum(population: Population) -> str:
    """SHA-256 of every client's id, records and labels, as they are trained on and scored by."""
    known: dict[int, bytes] = {}  # clients may share their test data

    def digest(tensor: Tensor) -> bytes:
        if id(tensor) not in known:
            known[id(tensor)] = _digest(tensor)
        return known[id(tensor)]

    found = hashlib.sha256(str(population.classes).encode())
    for i, client in sorted(population.clients.items()):
        found.update(f" {i} ".encode())
        for examples in (client.train, client.test):
            found.update(digest(examples.x) + digest(examples.y))
    return found.hexdigest()


def checksum_of_source(source: Source) -> str:
    """SHA-256 of a data set as it is read, before it is dealt: records, labels, and whose they are."""
    found = hashlib.sha256(repr((source.classes, source.clients, source.labels)).encode())
    for examples in (source.train, source.test):
        for tensor in (examples.x, examples.y, examples.topic):
            found.update(b"none" if tensor is None else _digest(tensor))
    return found.hexdigest()


def _digest(tensor: Tensor) -> bytes:
    array = tensor.detach().cpu().contiguous().numpy()
    found = hashlib.sha256(f"{array.dtype.str} {array.shape}".encode())
    found.update(array.tobytes())
    return found.digest()


def commit() -> str | None:
    """The commit of the source tree that this is, with -dirty where it was changed; None where there is none, or no git."""
    root, git = Path(__file__).resolve().parents[2], shutil.which("git")
    if git is None or not (root / ".git").exists():
        return None
    command = [git, "-C", str(root), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return done.stdout.strip() or None
