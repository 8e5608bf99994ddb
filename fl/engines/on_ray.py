"""Local training on a Ray cluster: one actor a worker, of one CPU."""

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .elsewhere import Actors
from .ray_cluster import answer_of, cluster, cpus
from .sendable import Packing, packed
from .trainer import Request, Trainer
from .versions import check_same

PATIENCE = 120
"""Seconds in which all actors must have begun."""

Vector = NDArray[np.float32]


class RayActor:
    """A `Trainer` on the cluster, and what it has by now."""

    def __init__(self) -> None:
        import ray

        self.handle: Any = ray.remote(num_cpus=1, max_restarts=0)(Trainer).remote()
        self.data: set[int] = set()
        self.common = b""

    def train(self, request: Request, /, *arrays: Any) -> "Future[list[Vector]]":
        """The updates of a request, in memory that is ours."""
        return answer_of(self.handle.train.remote(request, *arrays), _copied)

    def end(self) -> None:
        """It ends at once."""
        import ray

        ray.kill(self.handle)


@contextmanager
def on_ray(workers: int | None = None) -> Iterator[Actors]:
    """An engine for `run(..., engine=...)`. workers: actors of one CPU each; None for as many as the cluster has CPUs.

    Raises ValueError of one line where there is no Ray or no cluster, it has too few CPUs, or other versions than ours.
    """
    with cluster(workers):
        import ray

        if (workers or 1) > cpus():
            raise ValueError(f"the cluster has {cpus()} CPUs, of which each worker takes one: ask for no more --workers")
        begun = [RayActor() for _ in range(workers or cpus())]
        actors = Actors([*begun], RayActor, ray.put, Packing(packed))
        try:
            _wait_for(begun)
            yield actors
        finally:
            actors.end()


def _wait_for(actors: list[RayActor]) -> None:
    """Returns when all answer. Raises ValueError where they do not, or compute with other versions than ours."""
    import ray

    try:
        for found in ray.get([actor.handle.versions.remote() for actor in actors], timeout=PATIENCE):
            check_same(found)
    except ray.exceptions.GetTimeoutError:
        raise ValueError(
            f"the cluster did not start {len(actors)} workers within {PATIENCE} s: others may use its CPUs;"
            " ask for fewer --workers"
        ) from None
    except ray.exceptions.RayError as error:
        words = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ValueError(f"Ray's workers do not start ({words}); each machine needs the same Cloister installed") from None


def _copied(found: list[Vector]) -> list[Vector]:
    """In memory that may be written to, so that the store's is free."""
    return [np.array(update) for update in found]
