"""What a search costs: CPU seconds of its runs, and of all that is done beside them by every process that takes part.

A worker's beginning is beside its first run, and so is that of the process that searches. Only what is done after the last run,
as the writing of a report, is in no line.
"""

import time
from typing import Any

from ...fl.runs.results_folder import Row

_counted = [0.0]  # of this process's CPU seconds so many are accounted for, or are not the search's


def since_counted() -> float:
    """CPU seconds of this process that are in no line yet; from here on they are. The first ones are those of its imports."""
    before, _counted[0] = _counted[0], time.process_time()
    return _counted[0] - before


def cost(run: float, beside: float) -> dict[str, float]:
    """Of a line: CPU seconds of its run, and of what was done since the one before."""
    return {"seconds": run, "beside": beside}


def with_more_beside(row: Row, seconds: float) -> dict[str, Any]:
    return {**row, "cost": cost(row["cost"]["seconds"], row["cost"].get("beside", 0.0) + seconds)}


def spent(row: Row) -> float:
    """What a line takes of the budget; lines of earlier versions say their run's alone."""
    return float(row["cost"]["seconds"]) + float(row["cost"].get("beside", 0.0))
