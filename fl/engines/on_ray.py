"""Local training on a Ray cluster: one actor a worker, which holds the module and clients' data; jobs go there by the data's id.

Where a round's clients are computed does not change what they come to: what the local engine computes at a time (a tile of
perceptrons, one client of another model) is computed at a time here, by the same function with as many torch threads. On
processors of one kind updates are equal to the bit; other kinds round in other ways, as they do without Ray.

Data go to an actor once and stay. A job takes along its start and what it is pulled to, its weights if it has any, and brings
back its update; a worker has two pieces at a time at most. Vectors above `INLINE` bytes are put into the cluster's store, of
which each machine has one copy, however many jobs share them.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ..clients.training import Executor, Job, Training
from ..clients.ways import Way, in_order
from .dispatch import answers
from .held import Held, Numbered, parcel
from .ray_actor import Order, Request, Trainer
from .ray_cluster import answer_of, check_same, cluster, cpus
from .sendable import packed

INLINE = 100_000
"""Bytes of an array that travels with its job; what is longer is put into the store."""
PATIENCE = 120
"""Seconds in which all actors must have begun."""

Vector = NDArray[np.float32]


@contextmanager
def on_ray(workers: int | None = None) -> Iterator["RayEngine"]:
    """An engine for `run(..., engine=...)`. workers: actors of one CPU each; None for as many as the cluster has CPUs.

    Raises ValueError of one line where there is no Ray or no cluster, or the cluster has too few CPUs.
    """
    with cluster(workers):
        engine = RayEngine([Actor() for _ in range(_checked(workers))])
        try:
            engine.begin()
            yield engine
        finally:
            engine.end()


def _checked(workers: int | None) -> int:
    there = cpus()
    if (workers or 1) > there:
        raise ValueError(f"the cluster has {there} CPUs, of which each worker takes one: ask for {there} --workers at most")
    return workers or there


class Actor:
    """A `Trainer` on the cluster, and what it has by now."""

    def __init__(self) -> None:
        import ray

        self.handle: Any = ray.remote(num_cpus=1, max_restarts=0)(Trainer).remote()
        self.data: set[int] = set()
        self.common: bytes = b""

    def end(self) -> None:
        """It ends at once."""
        import ray

        ray.kill(self.handle)


@dataclass(frozen=True, slots=True, eq=False)
class RayEngine:
    """Makes an executor compute on its actors. For one thread, and one batch at a time."""

    actors: list[Actor]
    held: Held = field(default_factory=Held)

    def __call__(self, executor: Executor) -> "OnRay":
        return OnRay(executor, self)

    def begin(self) -> None:
        """Returns when all actors answer. Raises ValueError where they do not, or compute with other versions than ours."""
        import ray

        try:
            for found in ray.get([actor.handle.versions.remote() for actor in self.actors], timeout=PATIENCE):
                check_same(found)
        except ray.exceptions.GetTimeoutError:
            raise ValueError(
                f"the cluster did not start {len(self.actors)} workers within {PATIENCE} s: others may use its CPUs;"
                " ask for fewer --workers"
            ) from None
        except ray.exceptions.RayError as error:
            raise ValueError(f"Ray's workers do not start; Cloister must be installed on each machine: {error}") from None

    def anew(self, dead: Actor) -> Actor:
        """Another actor in its place, which begins with nothing."""
        dead.end()
        return Actor()

    def end(self) -> None:
        """Ends the actors."""
        for actor in self.actors:
            actor.end()


@dataclass(frozen=True, slots=True)
class OnRay:
    """An executor, computed by an engine's actors. Raises ValueError for one that cannot be divided, or is for another device.

    What can be divided has a method `way`, with the arguments of the executor itself.
    """

    executor: Executor
    engine: RayEngine

    def __post_init__(self) -> None:
        if not hasattr(self.executor, "way"):
            name = type(self.executor).__name__
            raise ValueError(f"{name} does not say how its jobs are divided (`way`), so that Ray cannot; use the local engine")
        if torch.device(getattr(self.executor, "device", "cpu")).type != "cpu":
            raise ValueError("the engine ray trains on CPUs; leave out --device, or use the local engine")

    def __call__(self, module: nn.Module, jobs: Sequence[Job], training: Training, round: int) -> Iterator[tuple[int, Vector]]:
        module = deepcopy(module).cpu().train()
        executor: Any = self.executor
        way: Way = executor.way(module, jobs, training, round)
        common = packed(module, way.train, training)
        threads = 1 if way.workers else torch.get_num_threads()
        chunk = len(jobs) if way.tile is None else way.chunk  # single jobs are given as they come, and none waits for a chunk
        for first in range(0, len(jobs), max(1, chunk)):
            part = jobs[first : first + chunk]
            pieces = way.pieces(part, training)
            batch = _Batch(self.engine, common, [[part[k] for k in piece] for piece in pieces], round, threads)
            if way.tile is None:
                yield from ((job.client, found[0]) for job, found in zip(part, batch.answers(), strict=True))
            else:
                yield from in_order(part, pieces, list(batch.answers()))


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    """Pieces of one round, whose vectors are shared while a piece that needs them is not answered."""

    engine: RayEngine
    common: bytes
    pieces: list[list[Job]]
    round: int
    threads: int
    stored: dict[int, tuple[Vector, Any]] = field(default_factory=dict)

    def answers(self) -> Iterator[list[Vector]]:
        last = {id(vector): piece for piece, jobs in enumerate(self.pieces) for vector in _vectors(jobs)}
        found = answers(len(self.pieces), self.engine.actors, self.ask, self.engine.anew, self.words)
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
        data = parcel(self.engine.held, actor.data, jobs)
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
        arrays += [array for one in data.fresh for array in _sent(one)]
        return answer_of(actor.handle.train.remote(request, *arrays), _copied)

    def _stored(self, vector: Vector) -> Any:
        if id(vector) not in self.stored:
            self.stored[id(vector)] = vector, _shared(vector)
        return self.stored[id(vector)][1]


def _sent(one: Numbered) -> list[Any]:
    """What stands for x and y of a client's examples: put into the store once, whoever asks for them."""
    if not one.sent:
        one.sent[:] = [_shared(tensor.cpu().numpy()) for tensor in (one.examples.x, one.examples.y)]
    return one.sent


def _vectors(jobs: Sequence[Job]) -> list[Vector]:
    return [vector for job in jobs for vector in (job.start, job.toward) if vector is not None]


def _shared(array: NDArray[Any]) -> Any:
    """What stands for the array in a request: itself, or where it is in the cluster's store."""
    if array.nbytes <= INLINE:
        return array
    import ray

    return ray.put(array)


def _copied(found: list[Vector]) -> list[Vector]:
    """Of memory that may be written to, so that the store's is free."""
    return [np.array(update) for update in found]
