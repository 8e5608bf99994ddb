"""A way to train a batch of jobs: in pieces of which each is computed by itself.

What a piece comes to depends on its jobs alone, so that it is of no account who computes it, when, and beside what: a thread
here, or a process elsewhere (`fl/engines/`). How jobs are put together follows from the model and the jobs, never from workers.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from .stacked import steps
from .training import Job, Training

FEW_ROWS = 128  # rows a step that are computed with sooner than another tile is begun

Vector = NDArray[np.float32]
T = TypeVar("T")
R = TypeVar("R")


class Train(Protocol):
    """Trains the jobs of a piece: their updates, float32, shape (d,) each. stop: set once the others fail."""

    def __call__(
        self, module: nn.Module, jobs: Sequence[Job], training: Training, round: int, stop: Event, /
    ) -> list[NDArray[np.float32]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a batch of jobs is trained.

    train: what is done with a piece. chunk: jobs whose updates may be held at once. workers: pieces at a time, each with one
    torch thread; 0 for one after the other, with as many threads as torch has. tile: jobs in a piece at most, put together by
    their length; None for one each, in order.
    """

    train: Train
    chunk: int
    workers: int
    tile: int | None = None

    def pieces(self, jobs: Sequence[Job], training: Training) -> list[list[int]]:
        """Positions of a chunk's jobs, piece by piece."""
        return [[k] for k in range(len(jobs))] if self.tile is None else tiles_of(jobs, training, self.tile)


@dataclass(frozen=True, slots=True)
class OneByOne:
    """One client after the other, by a function of (module, job, training, round)."""

    train_one: Callable[[nn.Module, Job, Training, int], Vector]

    def __call__(self, module: nn.Module, jobs: Sequence[Job], training: Training, round: int, stop: Event, /) -> list[Vector]:
        return [self.train_one(module, job, training, round) for job in jobs]


def played(
    way: Way, module: nn.Module, jobs: Sequence[Job], training: Training, round: int
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """(client, update) of all jobs, in their order, computed by threads of this process."""
    for first in range(0, len(jobs), way.chunk):
        part = jobs[first : first + way.chunk]
        if way.workers == 0:
            for job in part:
                yield job.client, way.train(module, [job], training, round, Event())[0]
            continue
        pieces = way.pieces(part, training)

        def work(piece: list[int], stop: Event, part: Sequence[Job] = part) -> list[Vector]:
            return way.train(module, [part[k] for k in piece], training, round, stop)

        yield from in_order(part, pieces, spread(work, pieces, way.workers))


def in_order(
    jobs: Sequence[Job], pieces: Sequence[Sequence[int]], found: Sequence[Sequence[Vector]]
) -> Iterator[tuple[int, Vector]]:
    """(client, update) in the order of the jobs. found: of every piece, what its jobs came to."""
    results = [update for updates in found for update in updates]
    for job, place in zip(jobs, np.argsort([k for piece in pieces for k in piece]), strict=True):
        yield job.client, results[place]


def tiles_of(jobs: Sequence[Job], training: Training, size: int) -> list[list[int]]:
    """Positions of the jobs, by falling number of steps, and then of rows a step: a tile's jobs all compute with as many rows.

    A job that would compute with twice its own begins the next tile, unless they are few.
    """
    rows = [min(training.batch, len(job.examples)) for job in jobs]
    tiles: list[list[int]] = []
    for k in sorted(range(len(jobs)), key=lambda k: (-steps(jobs[k], training), -rows[k])):
        first = rows[tiles[-1][0]] if tiles else 0
        if not tiles or len(tiles[-1]) == size or first >= max(2 * rows[k], FEW_ROWS):
            tiles.append([])
        tiles[-1].append(k)
    return tiles


def go_on(stop: Event) -> None:
    """Raises InterruptedError once the others stop."""
    if stop.is_set():
        raise InterruptedError("another client's training failed or was interrupted")


def spread(work: Callable[[T, Event], R], pieces: Sequence[T], workers: int) -> list[R]:
    """`work` of every piece, by threads that have one torch thread each.

    An exception or an interrupt drops the pieces that wait, tells those at work by the event, and waits for their end.
    """
    stop = Event()

    def alone(piece: T) -> R:
        torch.set_num_threads(1)
        return work(piece, stop)

    with one_torch_thread():
        if min(workers, len(pieces)) < 2:
            return [work(piece, stop) for piece in pieces]
        with ThreadPoolExecutor(min(workers, len(pieces))) as pool:
            futures = [pool.submit(alone, piece) for piece in pieces]
            try:
                return [future.result() for future in futures]
            except BaseException:
                stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """torch computes with one thread inside, and with as many as before after it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
