"""Cells in worker processes, of this machine or a Ray cluster: each makes what it needs by itself and is sent names, never code.

The result of a cell does not depend on who plays it: workers and the process that needs none compute with one thread each.
"""

import gc
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

import torch
from threadpoolctl import threadpool_limits

from ..fl.engines.cores import cores
from ..fl.engines.dispatch import WorkerDied
from ..fl.runs.feasibility import Doubt
from ..fl.runs.held_alone import GO_ON
from ..fl.runs.results_folder import Row
from ..signals import on_signals

Task = tuple[Any, Any]
"""A cell, and what playing it takes beside its name."""


class Bench(Protocol):
    """What plays cells."""

    def play(self, task: Task, /) -> Row: ...


_bench: list[Bench] = []  # of a worker process: set once, before its first cell


def _begin(make: Callable[[], Bench]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _bench[:] = [begun(make)]


def begun(make: Callable[[], Bench]) -> Bench:
    """The bench of a process that plays cells and does nothing else."""
    torch.set_num_threads(1)
    threadpool_limits(1)
    with warnings.catch_warnings(category=Doubt, action="ignore"):  # whoever began this process has said it
        bench = make()
    gc.freeze()  # what a worker begins with stays: it need not be looked through after every cell
    return bench


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _play(task: Task) -> Row:
    return tidied(_bench[0], task)


def tidied(bench: Bench, task: Task) -> Row:
    """The line of a cell. Its run is gone by then: it refers to itself, and several would wait for Python to look for them."""
    try:
        return bench.play(task)
    finally:
        gc.collect()


@dataclass(frozen=True, slots=True)
class Crew:
    """Somebody who plays cells: `count` at a time."""

    submit: Callable[[Task], "Future[Row]"]
    count: int

    def play(self, first: Iterable[Task], follow: Callable[[Any, Row], Iterable[Task]]) -> Iterator[tuple[Any, Row]]:
        """Plays tasks and those that follow from their lines; yields as they come. Raises ValueError when a worker dies."""
        waiting, running = deque(first), dict[Future[Row], Any]()
        while waiting or running:
            while waiting and len(running) < self.count:
                task = waiting.popleft()
                running[self.submit(task)] = task[0]
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                cell = running.pop(future)
                try:
                    row = future.result()
                except (BrokenProcessPool, WorkerDied):
                    raise ValueError(
                        f"a worker process died, perhaps for lack of memory; go on by {GO_ON}, with fewer workers"
                    ) from None
                waiting.extend(follow(cell, row))
                yield cell, row


@contextmanager
def crew_of(bench: Bench, make: Callable[[], Bench], workers: int | None, engine: str = "local") -> Iterator[Crew]:
    """`workers` processes, each with a bench that it makes by itself, or this one with `bench` where it is 1.

    workers: None for as many as there are cores, here or in the cluster. engine: "ray" for processes of a Ray cluster, even one.
    Leaving early ends them at once.
    """
    if engine == "ray":
        from .on_ray import ray_crew

        with ray_crew(make, workers) as (submit, count):
            yield Crew(submit, count)
        return
    workers = workers or cores()
    if workers == 1:
        with _one_thread(), _looked_through():
            yield Crew(lambda task: _played(bench, task), 1)
        return
    before = set(multiprocessing.active_children())
    pool: Executor = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_begin, initargs=(make,))
    try:
        # one more than there are workers, so that none waits while the parent writes a line
        yield Crew(lambda task: _submitted(pool, task), workers + 1)
    except BaseException:
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _submitted(pool: Executor, task: Task) -> "Future[Row]":
    """Sent to a worker, which may begin for it, without the script that is played here: it would play that once more."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        with _undisturbed():
            return pool.submit(_play, task)
    finally:
        sys.modules["__main__"] = main


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A worker that begins hears no Ctrl-C, from its first moment on: it would say where in its imports it was. This process
    hears of it, and of SIGTERM, when the worker has been told what to do.
    """
    heard: list[int] = []
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # a process begins with that of its parent
    try:
        with on_signals(lambda number, _: heard.append(number)):
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    for number in heard:
        signal.raise_signal(number)


def _played(bench: Bench, task: Task) -> "Future[Row]":
    future: Future[Row] = Future()
    future.set_result(tidied(bench, task))
    return future


@contextmanager
def _looked_through() -> Iterator[None]:
    """What there is by now need not be looked through after every cell."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with _limited():
            yield
    finally:
        torch.set_num_threads(threads)


def _limited() -> Any:
    return threadpool_limits(1)
