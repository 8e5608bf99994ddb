"""The noise of each cohort's sum, as it follows from what is asked of all sums together (noise.py).

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
from ..privacy.ledger import Ledger
from .gaussian import DistributedGaussian
from .gaussian_solver import Target, solve

ALWAYS = ("which cluster it was put in, and how many clients that has",)
"""What no noise covers, beside who took part and survived."""
OUTSIDE = ", against all who put no noise of their own into them"
TOOK_PART = "whoever took part, and knows its own share of the noise (a protection.corrupt of 1 would count one such client)"
"""Of noise that reckons with no corrupt client: of a sum's noise a client in it has to be told all but its own."""


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
        n, nobody = self.noise, self.rules.corrupt == 0
        of, left = f"the sums of its updates{OUTSIDE * nobody}", (*ALWAYS, *[TOOK_PART] * nobody)
        return Ledger(client, "client", n.adjacency, n.epsilon, n.delta, of, n.acknowledge, not_covered=left)

    def threshold(self, clients: int) -> int:
        """Fewest survivors of so many clients."""
        return max(clients - math.floor(self.dropped * clients + 1e-9), min(self.rules.least, clients))

    def parameters(self, clients: int) -> DistributedGaussian:
        """The sum of so many clients. Raises Refused, in one line, if there is no noise for it."""
        gone = clients - self.threshold(clients)
        return _solved(target_of(self.noise, clients, self.rules.corrupt, gone, self.d, self.ring_bits))


_solved = lru_cache(maxsize=256)(solve)


def target_of(noise: NoiseTerms, clients: int, corrupt: int, dropouts: int, d: int, ring_bits: int) -> Target:
    """What is asked of all rounds, for one cohort."""
    cohort = (noise.rounds, clients, corrupt, dropouts, d, noise.l2, ring_bits, noise.overflow, noise.adjacency)
    return Target(noise.epsilon, noise.delta, *cohort)
