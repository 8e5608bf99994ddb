"""The privacy that is asked of noisy sums (specs/distributed_gaussian.md). The noise that follows from it is in cohorts.py.

A module apart: where no noise is asked for, no accountant is loaded.
"""

import math
from dataclasses import dataclass

from ..parts.charter import NoiseTerms
from ..privacy.adjacency import Adjacency
from ..view.functionality import Functionality
from ..view.noise_free import check_acknowledged, check_names

COVERED = frozenset({Functionality.SUMS, Functionality.SLOTS, Functionality.PERSONAL_SUMS})
"""Sums are under the noise, or not given beside it at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """What the sums of a run may tell about a client: epsilon at delta, of all of its updates in all rounds together.

    rounds: sums that a client is in; the noise is solved for them, and once the budget is spent no more are answered. l2: norm
    that every update is scaled down to. adjacency: as in `Release`. overflow: chance per sum that a coordinate is cut off.
    """

    epsilon: float
    delta: float
    rounds: int
    l2: float
    adjacency: Adjacency = "zero out"
    overflow: float = 1e-6
    acknowledge: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.adjacency not in ("zero out", "replace"):
            raise ValueError(f'adjacency is "zero out" or "replace", not {self.adjacency!r}: who takes part is public')
        from .cohorts import target_of

        target_of(self.terms, 2, 0, 0, 1, 32)
        if not (0 < self.l2 < math.inf and 0 < self.overflow < 1):
            raise ValueError("l2 is above 0 and finite, overflow within 0 and 1")
        check_names(self.acknowledge)

    @property
    def terms(self) -> NoiseTerms:
        """What clients accept of it before the run."""
        claim = (self.epsilon, self.delta, self.rounds, self.l2)
        return NoiseTerms(*claim, self.adjacency, self.overflow, tuple(self.acknowledge))

    def check(self, *either: Functionality) -> None:
        """Raises Refused for an answer without noise that is acknowledged by none of these names."""
        if not COVERED & {*either} and not {name.value for name in either} & {*self.acknowledge}:
            check_acknowledged(either[:1], self.acknowledge, "protection.noise", "the sums under noise")
