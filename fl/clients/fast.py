"""The fast path: the updates of `PlainLoop` up to rounding, several times sooner.

How a round is run is chosen from the model, the data and the device, by what was measured (tests/benchmarks/RESULTS.md):

1. multilayer perceptrons of linear layers and ReLU: clients are stacked in tiles (`stacked.py`), on any device;
2. on a GPU, everything else: the plain loop on that device;
3. a single job, and models that draw random numbers (dropout), whose one generator threads would share: the plain loop;
4. everything else: one client after the other in each thread, with a copy of the model of its own.

Tiles and clients are spread over threads that compute with one torch thread each. torch lets go of Python's lock inside its
operations, so threads overlap as well as processes do, and there is no data to copy, no module to pickle and nothing left behind.
Where a step is too short for threads to overlap, one thread does the same work. With privacy the same holds, where gradients of
single records are taken by `torch.func` in the place of the plain loop.

The result does not depend on the number of workers and is the same from run to run: what one thread computes at a time follows
from the model and the jobs alone. "Up to rounding" has one caveat, which holds between any two float32 programs: where the input
of a ReLU or the maximum of a pool is decided by the last bit, one unit's gradient may come out differently.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from threading import Event
from time import perf_counter
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ..models.papers import EmbeddingAndHead
from ..models.vector import dimension, load_vector, names_and_shapes, pieces_of, trainable
from .dp_sgd import one_by_one, train_privately, vectorised
from .dp_stacked import train_stacked_privately
from .stacked import Pull, linear_layers, stackable, steps, train_stacked
from .training import Job, PlainLoop, Training, check, mean_loss, minibatches

MEMORY = 512_000_000  # bytes of updates that may wait for the consumer
TILE = 3_200_000  # bytes of stacked weights on a CPU: larger tiles fall out of the cache, smaller ones pay more overhead
FEW_ROWS = 128  # rows a step that are computed with sooner than another tile is begun
WORTH_A_THREAD = 0.5e-3  # seconds a gradient must take for threads to overlap

T = TypeVar("T")
R = TypeVar("R")
Run = Callable[[Sequence[Job]], Iterator[NDArray[np.float32]]]

KEEPS_LAYOUT = (EmbeddingAndHead, nn.Sequential, nn.Conv2d, nn.ReLU, nn.MaxPool2d, nn.AvgPool2d, nn.Flatten, nn.Linear)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fast:
    """Executor that trains many clients at once.

    workers: threads; None is as many as torch uses. chunk: jobs whose updates may be held at once; None is what fits 512 MB.
    device: where the model is trained, "cpu" or "cuda".
    """

    workers: int | None = None
    chunk: int | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        if (self.workers is not None and self.workers < 1) or (self.chunk is not None and self.chunk < 1):
            raise ValueError(f"workers and chunk must be at least 1, not {self.workers} and {self.chunk}")

    def __call__(
        self, module: nn.Module, jobs: Sequence[Job], training: Training, round: int
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        for job in jobs:
            check(job)
        run = self.choose(deepcopy(module).to(self.device).train(), jobs, training, round)
        yield from chunk_by_chunk(run, jobs, self.chunk or max(1, MEMORY // (4 * max(1, dimension(module)))))

    def choose(self, module: nn.Module, jobs: Sequence[Job], training: Training, round: int) -> Run:
        """The way to run these jobs, by the rule at the top of this file."""
        on_cpu = torch.device(self.device).type == "cpu"
        workers = (self.workers or torch.get_num_threads()) if on_cpu else 1
        layers = linear_layers(module)
        if layers and stackable(layers, jobs):
            size = tile_of(module) if on_cpu else len(jobs)
            return lambda part: in_tiles(layers, part, training, round, size, workers)
        if training.privacy is not None:
            return lambda part: privately(module, part, training, round, workers)
        if len(jobs) < 2 or not on_cpu:
            return lambda part: in_turn(module, part, training, round)
        with one_torch_thread():
            seconds, random = probe(module, jobs[0], training)
        if random:
            return lambda part: in_turn(module, part, training, round)
        return lambda part: in_threads(module, part, training, round, workers if seconds > WORTH_A_THREAD else 1)


def chunk_by_chunk(run: Run, jobs: Sequence[Job], chunk: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """(client, update) of all jobs, of which no more than a chunk's are held at once."""
    for first in range(0, len(jobs), chunk):
        part = jobs[first : first + chunk]
        yield from zip([job.client for job in part], run(part), strict=True)


def in_turn(module: nn.Module, jobs: Sequence[Job], training: Training, round: int) -> Iterator[NDArray[np.float32]]:
    """Updates of the jobs by the plain loop."""
    return (update for _, update in PlainLoop()(module, jobs, training, round))


def in_tiles(
    layers: Sequence[nn.Linear],
    jobs: Sequence[Job],
    training: Training,
    round: int,
    size: int,
    workers: int,
    pull: Pull | None = None,
) -> Iterator[NDArray[np.float32]]:
    """Updates of the jobs, at most `size` of similar length at a time."""
    tiles = tiles_of(jobs, training, size)
    device = layers[0].weight.device
    train = train_stacked if training.privacy is None else train_stacked_privately

    def work(tile: list[int], stop: Event) -> list[NDArray[np.float32]]:
        return train(layers, [jobs[k] for k in tile], training, round, device, pull)

    results = [update for updates in spread(work, tiles, workers) for update in updates]
    return iter([results[place] for place in np.argsort([k for tile in tiles for k in tile])])


def tile_of(module: nn.Module) -> int:
    """How many clients of this model are stacked at a time, on a CPU."""
    return max(1, TILE // (4 * dimension(module)))


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


def in_threads(
    module: nn.Module, jobs: Sequence[Job], training: Training, round: int, workers: int
) -> Iterator[NDArray[np.float32]]:
    """Updates of the jobs, one at a time in each thread."""

    def work(job: Job, stop: Event) -> NDArray[np.float32]:
        return train_lean(module, job, training, round, stop)

    return iter(spread(work, jobs, workers))


def privately(
    module: nn.Module, jobs: Sequence[Job], training: Training, round: int, workers: int
) -> Iterator[NDArray[np.float32]]:
    """Updates of the jobs by DP-SGD, one at a time in each thread; models with recurrent layers record by record."""
    summed = one_by_one if any(isinstance(part, nn.RNNBase) for part in module.modules()) else vectorised

    def work(job: Job, stop: Event) -> NDArray[np.float32]:
        return train_privately(module, job, training, round, summed=summed, check_running=lambda: go_on(stop))

    return iter(spread(work, jobs, workers))


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


def train_lean(module: nn.Module, job: Job, training: Training, round: int, stop: Event) -> NDArray[np.float32]:
    """`train_one` with less to do besides the arithmetic: channels last, and one fused operation for SGD's step."""
    local = laid_out(module)
    load_vector(local, job.start)
    parameters = list(trainable(local).values())
    values = [parameter.detach() for parameter in parameters]
    prox = training.prox_in(round)
    anchors = pieces_of(job.anchor, names_and_shapes(local)) if prox else []
    optimizer = torch.optim.SGD(
        parameters, lr=training.lr_in(round), momentum=training.momentum, weight_decay=training.weight_decay, fused=True
    )
    for index in minibatches(job, training):
        go_on(stop)
        batch, weights = job.batch(index)
        torch.autograd.backward(mean_loss(local(batch.x), batch.y, weights))
        if prox:
            for parameter, value, anchor in zip(parameters, values, anchors, strict=True):
                if parameter.grad is not None:
                    parameter.grad.add_(value - anchor, alpha=prox * job.pull)
        optimizer.step()
        optimizer.zero_grad()
    update = np.empty_like(job.start)
    end = 0
    for value in values:
        start, end = end, end + value.numel()
        np.subtract(value.reshape(-1).numpy(), job.start[start:end], out=update[start:end])
    return update


def laid_out(module: nn.Module) -> nn.Module:
    """A copy of the module; convolutions have channels last, and so what they put out, where all layers can work with that."""
    local = deepcopy(module)
    if all(type(part) in KEEPS_LAYOUT for part in local.modules()):
        for parameter in local.parameters():
            if parameter.ndim == 4:
                parameter.data = parameter.data.to(memory_format=torch.channels_last)
    return local


def probe(module: nn.Module, job: Job, training: Training) -> tuple[float, bool]:
    """Seconds that the gradient of one minibatch takes, and whether the model draws random numbers meanwhile."""
    local = laid_out(module)
    load_vector(local, job.start)
    batch = job.examples.take(next(minibatches(job, training)))
    with torch.random.fork_rng(devices=[]):
        before = torch.get_rng_state()
        start = perf_counter()
        torch.autograd.backward(mean_loss(local(batch.x), batch.y))
        return perf_counter() - start, not torch.equal(before, torch.get_rng_state())
