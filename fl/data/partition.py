"""Partitions: who gets which examples, and which groups are planted among the clients.

A partition is called with a source and a random generator and returns a `Population` with client ids 0..m-1. Unless its
docstring says otherwise, each client gets an equal random share of the training and of the test examples, no example
twice, and its planted group then changes both in the same way. Planted groups are contiguous blocks of ids (`blocks`).
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from ..field_ranges import need_finite
from .dealing import (
    EQUAL,
    Change,
    Equal,
    LogNormal,
    PartitionOptions,
    PowerLaw,
    Sizes,
    blocks,
    deal,
    require_labels,
    unchanged,
    whole,
    whole_each,
)
from .population import Examples, Population, Source
from .rotation import rotate
from .skew import CongruentHalves, Dirichlet, TopicPerClient

__all__ = [
    "EQUAL",
    "FLIC_PAIRS",
    "CongruentHalves",
    "Dirichlet",
    "Equal",
    "Iid",
    "LabelPermutation",
    "LabelSwap",
    "LogNormal",
    "Partition",
    "PartitionOptions",
    "PowerLaw",
    "Rotation",
    "Sizes",
    "TopicPerClient",
]

FLIC_PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9))
"""The label pairs that FLIC's five groups swap (Espinoza Castellon et al. 2022, section IV-A)."""


class Partition(Protocol):
    """Deals a source to clients. The same source and generator state give the same population."""

    def __call__(self, source: Source, rng: np.random.Generator, /) -> Population: ...


@dataclass(frozen=True, slots=True)
class Iid(PartitionOptions):
    """Every client gets a share of the same distribution; one planted group, 0.

    An equal share of what there is, and of that at most `samples` training examples: 100,000 are all of a share that is smaller.
    """

    clients: int

    def __call__(self, source: Source, rng: np.random.Generator, /) -> Population:
        return deal(source, whole(source, self.clients), blocks(self.clients, 1), unchanged, self, rng)


@dataclass(frozen=True, slots=True)
class LabelSwap(PartitionOptions):
    """Group g swaps the two labels pairs[g] (CFL, Sattler et al. 2020, section VI-A; FLIC).

    pairs: at least as many as groups, no two of the used ones equal; None draws distinct pairs at random, as CFL does (two
        pairs may have one label in common).
    """

    clients: int
    groups: int
    pairs: tuple[tuple[int, int], ...] | None = FLIC_PAIRS

    def __call__(self, source: Source, rng: np.random.Generator, /) -> Population:
        require_labels(source)
        groups = blocks(self.clients, self.groups)
        tables = []
        for first, second in self._pairs(source.classes, rng):
            table = torch.arange(source.classes)
            table[[first, second]] = table[[second, first]]
            tables.append(table)
        return deal(source, whole(source, self.clients), groups, _relabelled(tables), self, rng)

    def _pairs(self, classes: int, rng: np.random.Generator) -> list[tuple[int, int]]:
        every = [(first, second) for second in range(classes) for first in range(second)]
        if self.pairs is None:
            if self.groups > len(every):
                raise ValueError(
                    f"{classes} labels have only {len(every)} pairs to swap; ask for fewer groups than {self.groups}"
                )
            return [every[choice] for choice in rng.permutation(len(every))[: self.groups]]
        used = [(min(pair), max(pair)) for pair in self.pairs[: self.groups]]
        if len(used) < self.groups:
            raise ValueError(f"{self.groups} groups need as many label pairs, but there are {len(used)}; give more, or None")
        if len(set(used)) < len(used) or not set(used) <= set(every):
            raise ValueError(f"label pairs must be different pairs of different labels from 0 to {classes - 1}, not {used}")
        return used


@dataclass(frozen=True, slots=True)
class LabelPermutation(PartitionOptions):
    """Each group applies a random permutation of its own to the labels (CFL, section VI-C, equations 52 and 53).

    CFL's figure 8 has 20 clients in 4 groups on CIFAR-10, and tests each client on the whole test set: shared_test=True.
    """

    clients: int
    groups: int

    def __call__(self, source: Source, rng: np.random.Generator, /) -> Population:
        require_labels(source)
        groups = blocks(self.clients, self.groups)
        if self.groups > math.factorial(source.classes):
            raise ValueError(f"{source.classes} labels have too few permutations for {self.groups} groups; ask for fewer")
        tables: list[Tensor] = []
        while len(tables) < self.groups:
            table = torch.from_numpy(rng.permutation(source.classes))
            if not any(torch.equal(table, other) for other in tables):
                tables.append(table)
        return deal(source, whole(source, self.clients), groups, _relabelled(tables), self, rng)


@dataclass(frozen=True, slots=True)
class Rotation(PartitionOptions):
    """Group g turns its images by angles[g] degrees counter-clockwise (FLIC; IFCA; EMD-CFL). See `rotate`.

    truth: the planted group of each angle, where angles are so close that they count as one (EMD-CFL, appendix E.9); None: each
        is a group of its own. replicated: every angle deals out the whole data set among its clients, as in EMD-CFL, so that an
        image occurs once in every group.
    """

    clients: int
    angles: tuple[float, ...] = (0, 90, 180, 270)
    truth: tuple[int, ...] | None = None
    replicated: bool = False

    def __post_init__(self) -> None:
        PartitionOptions.__post_init__(self)
        need_finite(self, "angles")

    def __call__(self, source: Source, rng: np.random.Generator, /) -> Population:
        if self.truth is None and len({angle % 360 for angle in self.angles}) < len(self.angles):
            raise ValueError(f"angles must differ, or groups would have the same data, not {self.angles}; Iid rotates nothing")
        if self.truth is not None and len(self.truth) != len(self.angles):
            raise ValueError(f"truth names a group for each of the {len(self.angles)} angles, not {self.truth}")

        def turned(group: int, examples: Examples) -> Examples:
            return Examples(rotate(examples.x, self.angles[group]), examples.y, examples.topic)

        turns = blocks(self.clients, len(self.angles))
        pools = whole_each(source, turns) if self.replicated else whole(source, self.clients)
        population = deal(source, pools, turns, turned, self, rng)
        if self.truth is None:
            return population
        return Population(population.clients, {i: self.truth[g] for i, g in turns.items()}, population.classes, population.shape)


def _relabelled(tables: list[Tensor]) -> Change:
    """The change that replaces label y of group g by tables[g][y]."""

    def change(group: int, examples: Examples) -> Examples:
        return Examples(examples.x, tables[group][examples.y], examples.topic)

    return change
