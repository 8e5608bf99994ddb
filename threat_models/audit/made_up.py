"""Clients that an attacker makes up of public examples, and the updates of their first rounds: it knows their data."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from ...fl.clients.stacked import linear_layers
from ...fl.data.population import Examples
from ...fl.models.vector import dimension
from ..inference.shadow_models import shadow_updates
from .truth import Matrix
from .view import Public

UNEVEN = (0.1, 2.0)
"""Between which a made-up client's Dirichlet parameter is, evenly in its logarithm: from a label or two to most of them."""
LARGEST = 20_000_000
"""Numbers of all made-up updates together, at most."""
FEWEST = 40
"""Clients that are made up of a model of any size."""
IN_TURN = 100
"""Clients that are made up, at most, where they do not train side by side, as only perceptrons can."""


@dataclass(frozen=True, slots=True, eq=False)
class MadeUp:
    """parts: what each client has. updates: float32 (rounds, clients, d), of round 0 from the public initial model, of later ones
    from where all of these clients together would have brought it. histograms: of labels, float64 (clients, classes).
    """

    parts: tuple[Examples, ...] = field(repr=False)
    updates: NDArray[np.float32] = field(repr=False)
    histograms: Matrix = field(repr=False)

    @property
    def samples(self) -> Matrix:
        """How many examples each has: float64 (clients,)."""
        return np.array([len(part) for part in self.parts], np.float64)


class NoExamples(ValueError):
    """There is nothing to make up clients of."""


def made_up(public: Public, sizes: Sequence[int], count: int, rng: np.random.Generator, rounds: int = 1) -> MadeUp:
    """Clients of label mixtures drawn at random, each of one planted group's kind, who train as the run's clients do.

    sizes: how many examples such clients have, as the attacker knows of its own run. count: how many, fewer of a large model or
    one that is no perceptron.
    """
    if not len(public.auxiliary):
        raise NoExamples("nobody holds out enough records to make up clients of: take a larger test_share, or more records")
    d = dimension(public.module)
    count = min(count, max(FEWEST, LARGEST // (d * rounds)), count if linear_layers(public.module) else IN_TURN)
    y, groups = public.auxiliary.y.numpy(), public.groups
    pools = [np.flatnonzero(groups == g) for g in np.unique(groups)] if len(groups) == len(y) else [np.arange(len(y))]
    parts = [_part(public.auxiliary, pools[int(rng.integers(len(pools)))], int(rng.choice(sizes)), rng) for _ in range(count)]
    start, updates = public.initial[:d], list[NDArray[np.float32]]()
    for t in range(rounds):
        updates.append(shadow_updates(public.module, start, parts, public.training, rng, t))
        start = (start + updates[-1].mean(axis=0)).astype(np.float32)
    histograms = np.stack([np.bincount(p.y.numpy(), minlength=public.classes) / len(p) for p in parts])
    return MadeUp(tuple(parts), np.stack(updates), histograms)


def _part(public: Examples, pool: NDArray[np.int64], size: int, rng: np.random.Generator) -> Examples:
    """So many examples of the pool, of a label mixture of their own; drawn twice only where there are too few of a label."""
    y = public.y.numpy()[pool]
    labels = np.unique(y)
    low, high = np.log(UNEVEN)
    mixture = rng.dirichlet(np.full(len(labels), np.exp(rng.uniform(low, high))))
    drawn = list[int]()
    for label, wanted in zip(labels, rng.multinomial(size, mixture), strict=True):
        there = pool[y == label]
        drawn += rng.choice(there, wanted, replace=wanted > len(there)).tolist()
    return public.take(torch.tensor(drawn, dtype=torch.long))
