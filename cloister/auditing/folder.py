"""The folder of an audit: which is free or goes on, that one process alone writes it, and what is written."""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..fl.runs.held_alone import ANOTHER, GO_ON, folder_may_be, held_alone
from ..fl.runs.results_folder import write
from ..grids.watching import folder_for
from ..threat_models.audit.kept import is_empty

PLAYING = "playing"
"""The folder inside, of what is kept until the audit is over. It holds clients' data, as recordings do."""


def folder_to_write(out: Path | None, name: str, resume: bool) -> Path:
    """The folder. Raises ValueError where it holds an audit, one that was stopped and is not to go on, or none that could; or is
    a file.
    """
    folder = out or folder_for(name, "audit", resume)
    folder_may_be(folder, "audit")
    if (folder / "audit.json").exists():
        over = "that is over: there is nothing to go on with" if resume else ANOTHER
        raise ValueError(f"{folder} already holds an audit{' ' if resume else '; '}{over}")
    if (stopped := (folder / PLAYING).is_dir()) and not resume:
        raise ValueError(f"{folder} holds an audit that was stopped; go on with it by {GO_ON}, or {ANOTHER}")
    if resume and not stopped:
        raise ValueError(f"{folder} holds no audit that was stopped; leave out {GO_ON} to begin one")
    return folder


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """The folder is there meanwhile, for this process alone; gone again where it keeps nothing. Raises ValueError."""
    fresh = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    held = held_alone(folder)
    try:
        yield
    finally:
        if is_empty(folder / PLAYING):
            shutil.rmtree(folder / PLAYING, ignore_errors=True)
        with suppress(OSError):  # where there is something in it
            for each in fresh:
                each.rmdir()
        del held


def write_audit(folder: Path, found: Mapping[str, Any]) -> None:
    """The audit, for its report. What was kept for it is gone."""
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "audit.json", (json.dumps(found, indent=1) + "\n").encode())
    shutil.rmtree(folder / PLAYING, ignore_errors=True)
