"""Clients that are there already: a partition that leaves every client what is its own."""

from dataclasses import dataclass

import numpy as np
import torch

from .population import Client, Examples, Population, Source


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


def _of(examples: Examples, client: int) -> Examples:
    if examples.topic is None:
        raise ValueError("the source names clients, and its examples do not say whose they are; give them topics")
    index = torch.nonzero(examples.topic == client).flatten()
    return Examples(examples.x[index], examples.y[index])
