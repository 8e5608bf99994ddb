"""The folder of an audit: which is free, that one process alone writes it, and what is written."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..fl.runs.held_alone import ANOTHER, folder_may_be, held_alone
from ..fl.runs.results_folder import write
from ..grids.watching import folder_for


def free_folder(out: Path | None, name: str) -> Path:
    """The folder to write. Raises ValueError where it holds an audit, or is a file."""
    folder = out or folder_for(name, "audit", False)
    folder_may_be(folder, "audit")
    if (folder / "audit.json").exists():
        raise ValueError(f"{folder} already holds an audit; {ANOTHER}")
    return folder


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """The folder is there meanwhile, for this process alone; gone again where nothing was written into it. Raises ValueError."""
    fresh = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    held = held_alone(folder)
    try:
        yield
    finally:
        with suppress(OSError):  # where there is something in it
            for each in fresh:
                each.rmdir()
        del held


def write_audit(folder: Path, found: Mapping[str, Any]) -> None:
    """The audit, for its report."""
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "audit.json", (json.dumps(found, indent=1) + "\n").encode())
