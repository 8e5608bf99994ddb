"""Clients whose data are drawn, not read: softmax regression in hidden groups (FPFC: Yu, Liu, Sun, Wang, AAAI 2023, Table 1).

The paper follows Li et al. (FedProx, MLSys 2020); the numbers are those of its authors' code: uniform inputs, one draw of labels
for each, and one matrix W and offset b for all clients of a group.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from ..field_ranges import need_least, need_whole
from .dealing import blocks
from .population import Client, Examples, Population, Source

LEAST, BLOCK = 50, 5
"""n_i = BLOCK (int(lognormal) + LEAST) examples, of which one in BLOCK is for testing."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A source without examples, for a partition that draws them: `features` inputs in [0, 1], `classes` labels."""

    features: int = 60
    classes: int = 10
    instead: ClassVar[str] = "the scenario's data are drawn"

    def __call__(self, folder: Path | None = None) -> Source:
        none = Examples(torch.zeros(0, self.features), torch.zeros(0, dtype=torch.int64))
        return Source("drawn", none, none, self.classes)


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftmaxGroups:
    """Groups of clients, contiguous blocks of ids, with a softmax regression W x + b each.

    Of a group u ~ N(0, 1), and all entries of W and b ~ N(u, 1). Of a client n = 5 (int(lognormal(4, 2)) + 50) examples, x
    uniform in [0, 1), y = argmax(W x + b + N(0, noise^2)), each logit with noise of its own; four in five are for training.
    samples: most training examples that a client keeps, of those that were drawn; None for no limit.
    """

    clients: int = 100
    groups: int = 4
    noise: float = 0.5
    samples: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.groups <= self.clients:
            raise ValueError(f"there are 1 to {self.clients} groups of {self.clients} clients, not {self.groups}")
        need_least(self, 0, "noise")
        need_whole(self, 1, "samples")

    def __call__(self, source: Source, rng: np.random.Generator) -> Population:
        (features,), classes = source.shape, source.classes
        groups, u = blocks(self.clients, self.groups), rng.standard_normal(self.groups)
        weights = u[:, None, None] + rng.standard_normal((self.groups, classes, features))
        offsets = u[:, None] + rng.standard_normal((self.groups, classes))
        sizes = rng.lognormal(4.0, 2.0, self.clients).astype(np.int64) + LEAST
        clients = {}
        for i, group in groups.items():
            x = rng.random((BLOCK * int(sizes[i]), features))
            logits = x @ weights[group].T + offsets[group]
            y = (logits + self.noise * rng.standard_normal(logits.shape)).argmax(1)
            held_out = int(sizes[i])
            kept = slice(held_out, None if self.samples is None else held_out + self.samples)
            clients[i] = Client(i, _examples(x[kept], y[kept]), _examples(x[:held_out], y[:held_out]))
        return Population(clients, groups, classes, source.shape)


def _examples(x: NDArray[np.float64], y: NDArray[np.int64]) -> Examples:
    return Examples(torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y))
