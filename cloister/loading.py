"""What any folder of results holds, and what it has lost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .fl.runs.doubted import doubted
from .fl.runs.results_folder import cut_off
from .reporting.gaps import gaps
from .result import Result
from .result import load as load_run

if TYPE_CHECKING:
    from .attacking.result import Attacked
    from .auditing.result import Audited
    from .comparing.result import Compared
    from .evaluating.result import Evaluated


def load(folder: str | Path) -> Result | Evaluated | Compared | Audited | Attacked:
    """What came out of the run, evaluation, comparison, audit or search for a break that this folder holds, whether it is over
    or not.

    Warns (Doubt) of what is missing there, as of a line that was cut off by a kill. Raises ValueError where the folder holds
    none of these, or where it is damaged.
    """
    path = Path(folder)
    if (found := _no_run(path)) is None:
        run = load_run(path)
        _warn(gaps(run.read()))
        return run
    _warn(cut_off(path))
    return found


def _no_run(path: Path) -> Evaluated | Compared | Audited | Attacked | None:
    """What is read to its end, so that a damaged folder is refused here; None of a folder that is of a run, or of nothing."""
    if (path / "audit.json").is_file():
        from .auditing.result import Audited

        audited = Audited(path)
        audited.check()
        return audited
    if (path / "comparison.json").is_file():
        from .comparing.data import read_comparison
        from .comparing.result import Compared

        read_comparison(path)
        return Compared(path)
    if (path / "search.json").is_file():
        from .attacking.data import read_search
        from .attacking.result import Attacked

        read_search(path)
        return Attacked(path)
    if (path / "evaluation.json").is_file() or (path / "results.jsonl").is_file():
        from .evaluating.data import read_grid
        from .evaluating.result import Evaluated

        read_grid(path)
        return Evaluated(path)
    return None


def _warn(lines: list[str]) -> None:
    for line in lines:
        doubted(line)
