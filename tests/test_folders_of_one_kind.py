"""A folder holds one thing: nothing of another kind is written into it, whose report would take the place of its own."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from cloister.auditing.folder import folder_to_write
from cloister.fl.runs.held_alone import HOLD, folder_may_be
from cloister.fl.runs.results_folder import ResultsFolder
from cloister.fl.runs.run_folder import RunFolder


@pytest.mark.parametrize("kind", HOLD)
def test_every_other_kind_is_refused_and_nothing_is_written(kind: str, tmp_path: Path) -> None:
    (tmp_path / HOLD[kind]).write_text("{}")
    folder_may_be(tmp_path, kind)
    for other in HOLD.keys() - {kind}:
        with pytest.raises(ValueError, match=rf"holds an? {kind} already; choose another folder by --out"):
            folder_may_be(tmp_path, other)
    begin: dict[str, Callable[[], object]] = {
        "run": lambda: RunFolder(tmp_path).begin({}),
        "audit": lambda: folder_to_write(tmp_path, "x", False),
    }
    for grid in ("evaluation", "comparison", "search"):
        begin[grid] = partial(ResultsFolder(tmp_path, grid).open, {}, False)
    for other in begin.keys() - {kind}:
        with pytest.raises(ValueError, match=f"holds an? {kind} already"):
            begin[other]()
    assert [path.name for path in tmp_path.iterdir()] == [HOLD[kind]]
