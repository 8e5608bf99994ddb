"""A folder is written by one process at a time: of a run, a grid, or an audit."""

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cloister.auditing.folder import claimed
from cloister.fl.runs.experiment import run
from cloister.fl.runs.results_folder import ResultsFolder

from . import evaluation_sample as sample

BUSY = r"^another process plays in .*; wait for it, or choose another folder by --out \(out= in Python\)$"


def audit(folder: Path) -> None:
    with claimed(folder):
        raise AssertionError("it was let in")


def grid(kind: str, resume: bool) -> Callable[[Path], object]:
    return lambda folder: ResultsFolder(folder, kind).open({}, resume=resume)


@pytest.mark.parametrize(
    "writer",
    [
        *(lambda folder, resume=resume: next(run(sample.scenario, folder, resume=resume)) for resume in (False, True)),
        *(grid(kind, resume) for kind in ("comparison", "evaluation", "search") for resume in (False, True)),
        audit,
    ],
)
def test_a_second_process_is_refused_in_a_line_and_writes_nothing(writer: Callable[[Path], object], tmp_path: Path) -> None:
    """Before, of a run: both wrote, and the folder had the rounds of both."""
    other = os.open(tmp_path, os.O_RDONLY)  # a lock is of the opened file, so that this one is as good as another process's
    fcntl.flock(other, fcntl.LOCK_EX)
    with pytest.raises(ValueError, match=BUSY):
        writer(tmp_path)
    assert not list(tmp_path.iterdir())
    os.close(other)


@pytest.mark.trains
def test_a_run_holds_its_folder_until_it_is_over(tmp_path: Path) -> None:
    def free() -> bool:
        other = os.open(tmp_path / "run", os.O_RDONLY)
        with suppress(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.close(other)
            return True
        os.close(other)
        return False

    rounds: Any = run(replace(sample.scenario, rounds=2), tmp_path / "run")
    next(rounds)
    assert not free()
    rounds.close()
    del rounds
    assert free()
    list(run(replace(sample.scenario, rounds=2), tmp_path / "run", resume=True))
    assert free()


def test_an_audit_that_comes_to_nothing_leaves_no_folder_and_one_that_was_there_stays(tmp_path: Path) -> None:
    for folder, stays in ((tmp_path / "runs" / "new", False), (tmp_path, True)):
        with claimed(folder):
            assert folder.is_dir()
        assert folder.exists() == stays
    assert not list(tmp_path.iterdir())
