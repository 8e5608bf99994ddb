"""Cells as tasks of a Ray cluster. A task whose process or machine dies is done again, on another one."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from ..fl.engines.ray_cluster import answer_of, cluster, cpus
from ..fl.engines.versions import check_same, versions
from ..fl.runs.results_folder import Row
from .workers import Bench, Task, begun, tidied

AGAIN = 2
"""So often a task is done again whose process died."""

_benches: dict[str, Bench] = {}  # of a worker process: that of the grid which it plays


@contextmanager
def ray_crew(make: Callable[[], Bench], workers: int | None) -> Iterator[tuple[Callable[[Task], "Future[Row]"], int]]:
    """How a cell is sent, and how many at a time: `workers`, or the cluster's CPUs. Leaving early ends them at once."""
    with cluster(workers):
        import ray

        play = ray.remote(num_cpus=1, max_retries=AGAIN)(_play)
        grid = ray.get_runtime_context().get_job_id() + ray.put(None).hex()  # names this grid, in processes that play several
        sent: set[Any] = set()

        def submit(task: Task) -> "Future[Row]":
            reference = play.remote(grid, make, task, versions())
            sent.add(reference)
            answer = answer_of(reference, lambda row: row)
            answer.add_done_callback(lambda _: sent.discard(reference))
            return answer

        try:
            yield submit, workers or cpus()
        finally:
            for reference in tuple(sent):
                ray.cancel(reference, force=True)


def _play(grid: str, make: Callable[[], Bench], task: Task, ours: dict[str, str]) -> Row:
    if grid not in _benches:
        check_same(ours)
        _benches.clear()
        _benches[grid] = begun(make)
    return tidied(_benches[grid], task)
