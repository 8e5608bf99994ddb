"""The fast path: the updates of `PlainLoop` up to rounding, several times sooner.

How a round is run is chosen from the model, the data and the device, by what was measured (tests/benchmarks/RESULTS.md):

1. multilayer perceptrons of linear layers and ReLU, by SGD on cross entropy: clients are stacked in tiles (`stacked.py`), on any
   device;
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

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from threading import Event
from time import perf_counter

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ..models.draws import own_draws
from ..models.papers import EmbeddingAndHead
from ..models.vector import dimension, load_vector, names_and_shapes, pieces_of, trainable
from .dp_sgd import one_by_one, train_privately, vectorised
from .dp_stacked import train_stacked_privately
from .stacked import Pull, linear_layers, stackable, train_stacked
from .training import Job, Training, check, mean_loss, minibatches, optimizer_of, train_one
from .ways import OneByOne, Way, go_on, one_torch_thread, played

MEMORY = 512_000_000  # bytes of updates that may wait for the consumer
TILE = 3_200_000  # bytes of stacked weights on a CPU: larger tiles fall out of the cache, smaller ones pay more overhead
WORTH_A_THREAD = 0.5e-3  # seconds a gradient must take for threads to overlap

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
        at = torch.device(self.device)
        if linear_layers(module) is None or any(parameter.device != at for parameter in module.parameters()):
            module = deepcopy(module).to(at).train()  # a perceptron's layers are measured, or copied, and are alike in both modes
        return played(self.way(module, jobs, training, round), module, jobs, training, round)

    def way(self, module: nn.Module, jobs: Sequence[Job], training: Training, round: int) -> Way:
        """The way to run these jobs, by the rule at the top of this file. module: on the device, in training mode."""
        for job in jobs:
            check(job)
        on_cpu = torch.device(self.device).type == "cpu"
        workers = (self.workers or torch.get_num_threads()) if on_cpu else 1
        chunk = self.chunk or max(1, MEMORY // (4 * max(1, dimension(module))))
        layers = linear_layers(module)
        if layers and training.plain and stackable(layers, jobs):
            return Way(train=SideBySide(), chunk=chunk, workers=workers, tile=tile_of(module) if on_cpu else max(1, len(jobs)))
        if training.privacy is not None:
            return Way(train=Privately(), chunk=chunk, workers=workers)
        in_turn = Way(train=OneByOne(train_one), chunk=chunk, workers=0)
        if len(jobs) < 2 or not on_cpu:
            return in_turn
        with one_torch_thread():
            seconds, random = probe(module, jobs[0], training)
        if random:
            return in_turn
        return Way(train=Lean(), chunk=chunk, workers=workers if seconds > WORTH_A_THREAD else 1)


def tile_of(module: nn.Module) -> int:
    """How many clients of this model are stacked at a time, on a CPU."""
    return max(1, TILE // (4 * dimension(module)))


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Clients side by side, by falling number of steps. pull: as in `train_stacked`."""

    pull: Pull | None = None

    def __call__(
        self, module: nn.Module, jobs: Sequence[Job], training: Training, round: int, stop: Event, /
    ) -> list[NDArray[np.float32]]:
        layers = linear_layers(module)
        if layers is None:
            raise ValueError(f"a {type(module).__name__} is no perceptron that can be stacked")
        train = train_stacked if training.privacy is None else train_stacked_privately
        return train(layers, jobs, training, round, layers[0].weight.device, self.pull)


@dataclass(frozen=True, slots=True)
class Lean:
    """One client after the other, by `train_lean`."""

    def __call__(
        self, module: nn.Module, jobs: Sequence[Job], training: Training, round: int, stop: Event, /
    ) -> list[NDArray[np.float32]]:
        return [train_lean(module, job, training, round, stop) for job in jobs]


@dataclass(frozen=True, slots=True)
class Privately:
    """One client after the other, by DP-SGD; models with recurrent layers record by record."""

    def __call__(
        self, module: nn.Module, jobs: Sequence[Job], training: Training, round: int, stop: Event, /
    ) -> list[NDArray[np.float32]]:
        summed = one_by_one if any(isinstance(part, nn.RNNBase) for part in module.modules()) else vectorised
        return [train_privately(module, job, training, round, summed=summed, check_running=lambda: go_on(stop)) for job in jobs]


def train_lean(module: nn.Module, job: Job, training: Training, round: int, stop: Event) -> NDArray[np.float32]:
    """`train_one` with less to do besides the arithmetic: channels last, and one fused operation for SGD's step."""
    local = laid_out(module)
    load_vector(local, job.start)
    parameters = list(trainable(local).values())
    values = [parameter.detach() for parameter in parameters]
    prox = training.prox_in(round)
    anchors = pieces_of(job.anchor, names_and_shapes(local)) if prox else []
    optimizer = optimizer_of(training, parameters, round, fused=True)
    for index in minibatches(job, training):
        go_on(stop)
        batch, weights = job.batch(index)
        torch.autograd.backward(mean_loss(local(batch.x), batch.y, weights, training.loss))
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
    with own_draws():
        before = torch.get_rng_state()
        start = perf_counter()
        torch.autograd.backward(mean_loss(local(batch.x), batch.y, loss=training.loss))
        return perf_counter() - start, not torch.equal(before, torch.get_rng_state())
