"""Local training by actors elsewhere, which hold the module and clients' data; jobs go there by the data's number.

Where a round's clients are computed does not change what they come to: what the local engine computes at a time (a tile of
perceptrons, one client of another model) is computed at a time there, by the same function with as many torch threads. On
processors of one kind updates are equal to the bit; other kinds round in other ways, as they do without actors.

Data go to an actor once and stay. A job takes along its start and what it is pulled to, its weights if it has any, and brings
back its update; an actor has two pieces at a time at most. What is above `INLINE` bytes is put into a store, of which each
machine has one copy, however many jobs share it.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ..clients.training import Executor, Job, Training
from ..clients.ways import Way, in_order
from .dispatch import answers
from .held import ExampleCache, NumberedExamples, parcel
from .sendable import Packing
from .trainer import Order, Request

INLINE = 100_000
"""Bytes of an array that travels with its job; what is longer is put into the store."""

Vector = NDArray[np.float32]


class Actor(Protocol):
    """The near end of a `Trainer`. data: numbers of the examples that it has by now; common: its packed module, empty for none.

    `train` raises `WorkerDied` from its future where there will be no answer.
    """

    data: set[int]
    common: bytes

    def train(self, request: Request, /, *arrays: Any) -> "Future[list[Vector]]": ...
    def end(self) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class Actors:
    """Makes an executor compute elsewhere. For one thread, and one batch at a time.

    workers: changed where one dies. make: another actor, in the place of one that died. put: what stands for an array that is in
    the store. packing: of a module, the function that trains it and the training.
    """

    workers: list[Actor]
    make: Callable[[], Actor]
    put: Callable[[NDArray[Any]], Any]
    packing: Packing
    held: ExampleCache = field(default_factory=ExampleCache)

    def __call__(self, executor: Executor) -> "Elsewhere":
        return Elsewhere(executor, self)

    def anew(self, dead: Actor) -> Actor:
        """Another actor in its place, which begins with nothing."""
        dead.end()
        return self.make()

    def end(self) -> None:
        """Ends the actors."""
        for actor in self.workers:
            actor.end()


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """An executor, computed by actors. Raises ValueError for one that cannot be divided, or is for another device.

    What can be divided has a method `way`, with the arguments of the executor itself.
    """

    executor: Executor
    actors: Actors

    def __post_init__(self) -> None:
        if not hasattr(self.executor, "way"):
            name = type(self.executor).__name__
            raise ValueError(
                f"{name} does not say how its jobs are divided (`way`), so that others cannot train for it; use the local engine"
            )
        if torch.device(getattr(self.executor, "device", "cpu")).type != "cpu":
            raise ValueError("the engine ray trains on CPUs; leave out --device, or use the local engine")

    def __call__(self, module: nn.Module, jobs: Sequence[Job], training: Training, round: int) -> Iterator[tuple[int, Vector]]:
        ready = deepcopy(module).cpu().train()
        executor: Any = self.executor
        way: Way = executor.way(ready, jobs, training, round)
        common = self.actors.packing(module, ready, way.train, training)
        threads = 1 if way.workers else torch.get_num_threads()
        chunk = len(jobs) if way.tile is None else way.chunk  # single jobs are given as they come, and none waits for a chunk
        for first in range(0, len(jobs), max(1, chunk)):
            part = jobs[first : first + chunk]
            pieces = way.pieces(part, training)
            batch = _Batch(self.actors, common, [[part[k] for k in piece] for piece in pieces], round, threads)
            if way.tile is None:
                yield from ((job.client, found[0]) for job, found in zip(part, batch.answers(), strict=True))
            else:
                yield from in_order(part, pieces, list(batch.answers()))


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    """Pieces of one round, whose vectors are shared while a piece that needs them is not answered."""

    actors: Actors
    common: bytes
    pieces: list[list[Job]]
    round: int
    threads: int
    stored: dict[int, tuple[Vector, Any]] = field(default_factory=dict)

    def answers(self) -> Iterator[list[Vector]]:
        last = {id(vector): piece for piece, jobs in enumerate(self.pieces) for vector in _vectors(jobs)}
        found = answers(len(self.pieces), self.actors.workers, self.ask, self.actors.anew, self.words)
        for piece, updates in enumerate(found):
            for vector in _vectors(self.pieces[piece]):
                if last[id(vector)] == piece:
                    self.stored.pop(id(vector), None)
            yield updates

    def words(self, piece: int) -> str:
        clients = [f"client {job.client}" for job in self.pieces[piece]]
        return ", ".join(clients[:3]) + (", ..." if len(clients) > 3 else "")

    def ask(self, actor: Actor, piece: int) -> "Future[list[Vector]]":
        """Sends a piece to an actor, with whatever it lacks."""
        jobs = self.pieces[piece]
        vectors = {id(vector): vector for vector in _vectors(jobs)}
        place = {key: k for k, key in enumerate(vectors)}
        new = actor.common != self.common
        data = parcel(self.actors.held, actor.data, jobs)
        orders = tuple(
            Order(
                job.client,
                number,
                place[id(job.start)],
                None if job.toward is None else place[id(job.toward)],
                job.seed,
                job.pull,
                job.weights,
                job.secret,
            )
            for job, number in zip(jobs, data.numbers, strict=True)
        )
        request = Request(
            orders, self.round, self.threads, len(vectors), new, tuple(f.number for f in data.fresh), tuple(data.stale)
        )
        actor.common = self.common
        arrays = [self.common] if new else []
        arrays += [self._stored(vector) for vector in vectors.values()]
        arrays += [array for one in data.fresh for array in self._sent(one)]
        return actor.train(request, *arrays)

    def _stored(self, vector: Vector) -> Any:
        if id(vector) not in self.stored:
            self.stored[id(vector)] = vector, self._shared(vector)
        return self.stored[id(vector)][1]

    def _sent(self, one: NumberedExamples) -> list[Any]:
        """What stands for x and y of a client's examples: put into the store once, whoever asks for them."""
        if not one.sent:
            one.sent[:] = [self._shared(tensor.cpu().numpy()) for tensor in (one.examples.x, one.examples.y)]
        return one.sent

    def _shared(self, array: NDArray[Any]) -> Any:
        """What stands for the array in a request: itself, or where it is in the store."""
        return array if array.nbytes <= INLINE else self.actors.put(array)


def _vectors(jobs: Sequence[Job]) -> list[Vector]:
    return [vector for job in jobs for vector in (job.start, job.toward) if vector is not None]
