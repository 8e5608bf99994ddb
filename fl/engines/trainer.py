"""The far end of local training elsewhere: what an actor holds, and what it does with a request."""

import pickle
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from ..clients.training import Job, Training
from ..clients.ways import Train
from ..data.population import Examples
from .versions import versions

Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """A job whose vectors and data are named: `start` and `toward` by their place among the request's, `data` by number."""

    client: int
    data: int
    start: int
    toward: int | None
    seed: int
    pull: float
    weights: Vector | None = field(repr=False)
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A piece. vectors: how many come with it. fresh: numbers of the data that come with it, (x, y) each. stale: to forget.

    threads: torch's. new: whether the module comes with it, first of all.
    """

    orders: tuple[Order, ...]
    round: int
    threads: int
    vectors: int
    new: bool
    fresh: tuple[int, ...]
    stale: tuple[int, ...]


class Trainer:
    """One worker: a module, a way to train it, and clients' examples by number."""

    def __init__(self) -> None:
        threadpool_limits(1)
        self._held: dict[int, Examples] = {}
        self._common: tuple[nn.Module, Train, Training] | None = None

    def versions(self) -> dict[str, str]:
        """Of what computes here."""
        return versions()

    def train(self, request: Request, *arrays: Any) -> list[Vector]:
        """The updates of a piece's jobs. arrays: the packed module if it is new, vectors, and x and y of fresh data."""
        if request.new:
            self._common = pickle.loads(arrays[0])  # noqa: S301 - from the process that began this one
        if self._common is None:
            raise RuntimeError("a worker was given jobs before a module")
        given = arrays[1 if request.new else 0 :]
        vectors, data = given[: request.vectors], given[request.vectors :]
        for number in request.stale:
            self._held.pop(number, None)
        for place, number in enumerate(request.fresh):
            self._held[number] = Examples(_tensor(data[2 * place]), _tensor(data[2 * place + 1]))
        jobs = [self._job(order, vectors) for order in request.orders]
        module, train, training = self._common
        torch.set_num_threads(request.threads)
        return train(module, jobs, training, request.round, Event())

    def _job(self, order: Order, vectors: Sequence[Vector]) -> Job:
        toward = None if order.toward is None else vectors[order.toward]
        examples = self._held[order.data]
        return Job(order.client, vectors[order.start], examples, order.seed, toward, order.pull, order.weights, order.secret)


def _tensor(array: NDArray[Any]) -> Tensor:
    """The same memory, which training only reads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of memory that may not be written to
        return torch.from_numpy(array)
