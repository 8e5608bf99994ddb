"""What is true of a run: for whoever scores an attack's guess, and for no attack."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...fl.data.population import Examples, Population
from ...protocol.view.answers import Vector, Work
from .view import MaskKeys

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """population: all clients' data, and the planted groups. updates: float32 (d,) by round, kind and client, as clients computed
    them; without those that nobody takes, as they are not finite or too large to compare. outside: examples of the same
    distribution that neither a client nor the attacker has. starts: float32 (d,), what clients trained from, by round and client.
    compared: the examples that a client's embeddings are of, in order, if any. mask_keys: of all masks that there should be; of
    shares between two servers those too. foreign: what is wrong with the keys that clients have, in words. said: by round, kind
    and client of an update, how many samples its client said that it has, where it has another number: of an attacker.
    """

    population: Population = field(repr=False)
    updates: Mapping[tuple[int, Work, int], Vector] = field(repr=False)
    outside: Examples = field(repr=False)
    starts: Mapping[tuple[int, int], Vector] = field(default_factory=dict, repr=False)
    compared: Mapping[int, Examples] = field(default_factory=dict, repr=False)
    mask_keys: MaskKeys = field(default_factory=dict, repr=False)
    foreign: tuple[str, ...] = ()
    said: Mapping[tuple[int, Work, int], int] = field(default_factory=dict, repr=False)

    def samples(self, round: int, kind: Work, client: int) -> int:
        """How many the client said that it has."""
        return self.said.get((round, kind, client), len(self.population.clients[client].train))

    def histogram(self, client: int) -> Matrix:
        """Shares of labels among the client's training examples: float64 (classes,)."""
        counts = np.bincount(self.population.clients[client].train.y.numpy().ravel(), minlength=self.population.classes)
        found: Matrix = counts / counts.sum()
        return found
