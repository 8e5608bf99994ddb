"""Clients that are there already: a partition that leaves every client what is its own."""

from dataclasses import dataclass

import numpy as np
import torch

from .dealing import PartitionOptions
from .population import Client, Examples, Population, Source
from .skew import TopicPerClient


@dataclass(frozen=True, slots=True)
class Natural:
    """Every client has its own data, as the source says; nobody planted groups among them."""

    def __call__(self, source: Source, rng: np.random.Generator, /) -> Population:
        """rng: not used. Raises ValueError for a source that does not say whose its examples are."""
        if not source.clients:
            raise ValueError(
                f"{source.name} has no clients of its own; give the scenario a partition, for example partitions.Iid(clients=20)"
            )
        clients = {i: Client(i, _of(source.train, i), _of(source.test, i)) for i in range(len(source.clients))}
        return Population(clients, {}, source.classes, source.shape, dict(enumerate(source.clients)))


def dealt_anew(source: Source, partition: object) -> list[str]:
    """A line where a partition of ours pools what clients of the data have and deals it to others; one of a user's own knows."""
    if not source.clients or not isinstance(partition, PartitionOptions) or isinstance(partition, TopicPerClient):
        return []
    count, kind = len(source.clients), type(partition).__name__
    whose = f"{source.clients[0]!r}" + (f" to {source.clients[-1]!r}" if count > 1 else "")
    return [
        f"the {count} clients of {source.name} ({whose}) are not the clients of the run: partitions.{kind} pools their records"
        " and deals them anew; if they are to be, leave the partition out"
    ]


def _of(examples: Examples, client: int) -> Examples:
    if examples.topic is None:
        raise ValueError("the source names clients, and its examples do not say whose they are; give them topics")
    index = torch.nonzero(examples.topic == client).flatten()
    return Examples(examples.x[index], examples.y[index])
