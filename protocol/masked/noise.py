"""Masked sums with noise, in a view: the privacy that is asked for, each client's ledger, and what the clients put in.

The noise is the distributed discrete Gaussian (specs/distributed_gaussian.md). Each sum's noise is solved for its own cohort, so
that all sums cost the same, whatever the size of a cluster, and no more than the least number of survivors makes them cost.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ...crypto.entropy import Entropy
from ..core.errors import Refused
from ..core.session import Session
from ..parts.gate import Rules
from ..parts.leverage import Row
from ..privacy.ledger import Adjacency, BudgetExceeded, Ledger, Unit
from ..view.answers import Functionality
from ..view.disclosure import Disclosure
from ..view.noise_free import check_acknowledged, check_names
from ..view.work import LocalWork
from ..work.uploads import usable
from .gaussian import DistributedGaussian, Place, decode, reserve
from .gaussian_solver import Target, solve
from .input import Total
from .masking import Shape
from .server import Summed
from .terms import Ring

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
        self.target(2, 0, 0, 1, 32)
        if not (0 < self.l2 < math.inf and 0 < self.overflow < 1):
            raise ValueError("l2 is above 0 and finite, overflow within 0 and 1")
        check_names(self.acknowledge)

    def target(self, clients: int, corrupt: int, dropouts: int, d: int, ring_bits: int) -> Target:
        """The same for one cohort."""
        cohort = (self.rounds, clients, corrupt, dropouts, d, self.l2, ring_bits, self.overflow, self.adjacency)
        return Target(self.epsilon, self.delta, *cohort)

    def ledger(self, client: int) -> Ledger:
        """A client's ledger before the first sum."""
        of = "the sums of its updates"
        return Ledger(client, "client", self.adjacency, self.epsilon, self.delta, of, self.acknowledge, not_covered=ALWAYS)

    def check(self, *either: Functionality) -> None:
        """Raises Refused for an answer without noise that is acknowledged by none of these names."""
        if not COVERED & {*either} and not {name.value for name in either} & {*self.acknowledge}:
            check_acknowledged(either[:1], self.acknowledge, "protection.noise", "the sums under noise")


@dataclass(frozen=True, slots=True)
class Cohorts:
    """What cohorts of a run have in common. dropped: largest share of a cohort."""

    noise: Noise
    rules: Rules
    dropped: float
    d: int
    ring_bits: int

    def threshold(self, clients: int) -> int:
        """Fewest survivors of so many clients."""
        return max(clients - math.floor(self.dropped * clients + 1e-9), min(self.rules.least, clients))

    def parameters(self, clients: int) -> DistributedGaussian:
        """The sum of so many clients. Raises Refused, in one line, if there is no noise for it."""
        gone = clients - self.threshold(clients)
        return _solved(self.noise.target(clients, self.rules.corrupt, gone, self.d, self.ring_bits))


_solved = lru_cache(maxsize=256)(solve)


class NoisySums:
    """The ledgers of a run's clients, each its client's own, played together here; and the sums that are put on them.

    Who can pay is public: ledgers depend on survivor sets alone.
    """

    def __init__(self, cohorts: Cohorts, clients: Iterable[int]) -> None:
        self.ledgers: dict[tuple[int, Unit], Ledger] = {(i, "client"): cohorts.noise.ledger(i) for i in clients}
        cohorts.parameters(len(self.ledgers))  # refused here rather than in the first round
        self._cohorts = cohorts
        self._last: dict[int, int] = {}  # the round of each client's last sum

    def check(self, name: str, round: int, rows: Mapping[str, Row], times_samples: bool) -> None:
        """Raises Refused for a sum that is not uniform, or not the only one of its clients in this round. rows: all, by name."""
        row = rows[name]
        if times_samples or len(set(row.values())) > 1:
            raise Refused(
                f"sum {name} is not uniform: under noise a client's weight would be its sensitivity; take equal weights, without"
                " sample counts (by_samples=False)"
            )
        others = [other for label, other in rows.items() if label != name]
        if any(self._last.get(i) == round or any(i in other for other in others) for i in row):
            raise Refused(f"sum {name} would be another of its clients' in round {round}; under noise a client is in one a round")

    def paying(self, clients: tuple[int, ...]) -> tuple[tuple[int, ...], Mapping[int, str]]:
        """Those who can pay for their sum, and why the others cannot.

        Raises Refused, with the ledger's own line, if fewer than the floor can.
        """
        able, unable = clients, dict[int, str]()
        while True:  # with fewer clients the sum is another one
            release = self._parameters(able).release(self._cohorts.threshold(len(able)), self._cohorts.noise.adjacency)
            found = {}
            for i in able:
                try:
                    self.ledgers[i, "client"] + release
                except BudgetExceeded as error:
                    found[i] = str(error)
            if not found:
                return able, unable
            unable |= found
            able = tuple(i for i in able if i not in found)
            if len(able) < self._cohorts.rules.least:
                raise Refused(f"{len(able)} clients can pay for a sum with noise; {next(iter(found.values()))}")

    def shape(self, label: str, roster: tuple[int, ...]) -> Shape:
        """The masked sum of a cohort."""
        p = self._parameters(roster)
        size = (p.ring_bits, p.length, p.bits, p.grid.clip, 1)
        return Shape(label, p.protocol, self._cohorts.threshold(len(roster)), size, dict.fromkeys(roster, 1.0))

    def reserve(self, session: Session, entropy: Entropy) -> "NoisyInput":
        """Everybody's place in the session, before its first key is advertised."""
        parameters = self._parameters(session.roster)
        places = {i: reserve(parameters, session, self.ledgers[i, "client"]) for i in session.roster}
        self.ledgers |= {(i, "client"): place.ledger for i, place in places.items()}
        self._last |= dict.fromkeys(places, session.round)
        return NoisyInput(parameters, places, entropy)

    def settle(self, inputs: "NoisyInput", signed: Callable[[int], int]) -> None:
        """After the session. signed: the survivors in the set that a client signed; 0 if it signed none.

        Who has put nothing in gets its reservation back; who has, and signed nothing, cannot know what was opened.
        """
        for i, place in inputs.places.items():
            if survivors := signed(i):
                self.ledgers[i, "client"] = place.settled(survivors)
            elif i not in inputs.sent:
                self.ledgers[i, "client"] = place.before

    def noted(self, entry: Disclosure) -> None:
        """Name what was disclosed about clients without noise; who takes part and the sums themselves ledgers name already."""
        for i in entry.about if entry.what not in ("sums", "participation") else ():
            self.ledgers[i, "client"] = self.ledgers[i, "client"].without(entry.words)

    def save(self) -> tuple[dict[str, Any], ...]:
        """Plain JSON values."""
        return tuple(ledger.as_dict() for ledger in self.ledgers.values())

    def restore(self, saved: Iterable[Mapping[str, Any]]) -> None:
        """Continue from saved ledgers. Raises ValueError for one that is past its budget."""
        for plain in saved:
            ledger = Ledger.from_dict(plain)
            self.ledgers[ledger.client, ledger.unit] = ledger

    def _parameters(self, clients: tuple[int, ...]) -> DistributedGaussian:
        return self._cohorts.parameters(len(clients))


@dataclass(frozen=True, slots=True)
class NoisyInput:
    """What clients put into a masked sum with noise, and what the server reads from the total. sent: who was asked for it."""

    parameters: DistributedGaussian
    places: Mapping[int, Place] = field(repr=False)
    entropy: Entropy = field(repr=False)
    sent: set[int] = field(default_factory=set, repr=False)

    def encode(self, client: int, work: LocalWork) -> Ring | str:
        """A client's update, scaled down to l2, with its share of the noise; or why it cannot be put in."""
        if not usable(work.vector):
            return "the vector is not finite, or too large to compare"
        ring = self.places[client].encode(work.vector, self.entropy)
        self.sent.add(client)
        return ring

    def decode(self, ended: Summed, weight: float) -> Total:
        """The noisy mean in the total. weight: of every client. Raises ValueError for a total that no inputs have."""
        p, survivors = self.parameters, len(ended.clients)
        rounding = p.grid.step * math.sqrt(p.padded)
        noise = p.grid.step * math.sqrt(p.variance / survivors)
        return Total(decode(p, ended), weight * survivors, 0.0, rounding, noise)
