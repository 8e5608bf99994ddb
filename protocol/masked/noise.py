"""The privacy that is asked of noisy sums, and the noise of each cohort's sum that follows from it.

The noise is the distributed discrete Gaussian (specs/distributed_gaussian.md). Each sum's noise is solved for its own cohort, so
that all sums cost the same, whatever the size of a cluster, and no more than the least number of survivors makes them cost.
Clients and server solve alike, from what both knew before the run.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

from ..parts.charter import Charter, NoiseTerms, Numbers
from ..parts.gate import Rules
from ..privacy.ledger import Adjacency, Ledger
from ..view.answers import Functionality
from ..view.noise_free import check_acknowledged, check_names
from .gaussian import DistributedGaussian
from .gaussian_solver import Target, solve

COVERED = frozenset({Functionality.SUMS, Functionality.SLOTS, Functionality.PERSONAL_SUMS})
"""Sums are under the noise, or not given beside it at all."""
ALWAYS = ("which cluster it was put in, and how many clients that has",)
"""What no noise covers, beside who took part and survived."""


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
        _target(self.terms, 2, 0, 0, 1, 32)
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


@dataclass(frozen=True, slots=True)
class Cohorts:
    """What cohorts of a run have in common. dropped: largest share of a cohort."""

    noise: NoiseTerms
    rules: Rules
    dropped: float
    d: int
    ring_bits: int

    @classmethod
    def of(cls, charter: Charter) -> Self | None:
        """Of a run under this charter; None where no noise was agreed on."""
        numbers: Numbers = charter.numbers
        if numbers.noise is None or charter.dropped is None:
            return None
        return cls(numbers.noise, numbers.rules, charter.dropped, numbers.d, numbers.ring_bits)

    def ledger(self, client: int) -> Ledger:
        """A client's ledger before the first sum."""
        of, n = "the sums of its updates", self.noise
        return Ledger(client, "client", n.adjacency, n.epsilon, n.delta, of, n.acknowledge, not_covered=ALWAYS)

    def threshold(self, clients: int) -> int:
        """Fewest survivors of so many clients."""
        return max(clients - math.floor(self.dropped * clients + 1e-9), min(self.rules.least, clients))

    def parameters(self, clients: int) -> DistributedGaussian:
        """The sum of so many clients. Raises Refused, in one line, if there is no noise for it."""
        gone = clients - self.threshold(clients)
        return _solved(_target(self.noise, clients, self.rules.corrupt, gone, self.d, self.ring_bits))


_solved = lru_cache(maxsize=256)(solve)


def _target(noise: NoiseTerms, clients: int, corrupt: int, dropouts: int, d: int, ring_bits: int) -> Target:
    """What is asked of all rounds, for one cohort."""
    cohort = (noise.rounds, clients, corrupt, dropouts, d, noise.l2, ring_bits, noise.overflow, noise.adjacency)
    return Target(noise.epsilon, noise.delta, *cohort)
