"""Noisy sums at the server: its public account of what clients have spent, and what it reads from a total.

Each client keeps a ledger of its own (spending.py). Who can pay is public all the same: what a sum costs depends on who was asked
and on the survivor set. Where the last word of a client is lost, the account is the higher of the two, never the lower.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..core.errors import Refused
from ..core.session import Session
from ..parts.leverage import Row
from ..privacy.ledger import BudgetExceeded, Ledger, Unit
from ..view.disclosure import Disclosure
from .cohorts import Cohorts
from .gaussian import DistributedGaussian, Place, decode, reserve
from .input import Total
from .server_phases import Reached, Unmasked
from .shape import Shape


class NoisySums:
    """What the clients of a run have spent, by what everybody knows; and the sums that are put on that account."""

    def __init__(self, cohorts: Cohorts, clients: Iterable[int]) -> None:
        self.ledgers: dict[tuple[int, Unit], Ledger] = {(i, "client"): cohorts.ledger(i) for i in clients}
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
        """Those who can pay for their sum, nobody where they are fewer than the floor, and why the others cannot."""
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
                return (), unable

    def shape(self, label: str, roster: tuple[int, ...]) -> Shape:
        """The masked sum of a cohort."""
        p = self._parameters(roster)
        size = (p.ring_bits, p.length, p.bits, p.grid.clip, 1)
        return Shape(label, p.protocol, self._cohorts.threshold(len(roster)), size, dict.fromkeys(roster, 1.0))

    def reserve(self, session: Session) -> "NoisySum":
        """Charge everybody for the fewest survivors, before anything is sent."""
        parameters = self._parameters(session.roster)
        places = {i: reserve(parameters, session, self.ledgers[i, "client"]) for i in session.roster}
        self.ledgers |= {(i, "client"): place.ledger for i, place in places.items()}
        self._last |= dict.fromkeys(places, session.round)
        return NoisySum(parameters, places)

    def settle(self, sum: "NoisySum", reached: Reached, declined: Collection[int]) -> None:
        """After the session. declined: who said that it puts nothing in.

        Whose signature came is charged for the survivors; who was not asked for an input, or declined to send one, for nothing.
        Who was asked and did not sign may have sent an input, and does not know what was opened.
        """
        for i, place in sum.places.items():
            if i in reached.agreed:
                self.ledgers[i, "client"] = place.settled(len(reached.alive))
            elif i not in reached.asked or (i in declined and i not in reached.alive):
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
class NoisySum:
    """A sum that is on the account. places: what each client is charged at the worst, and was charged before."""

    parameters: DistributedGaussian
    places: Mapping[int, Place] = field(repr=False)

    def decode(self, ended: Unmasked, weight: float) -> Total:
        """The noisy mean in the total. weight: of every client. Raises ValueError for a total that no inputs have."""
        p, survivors = self.parameters, len(ended.clients)
        rounding = p.grid.step * math.sqrt(p.padded)
        noise = p.grid.step * math.sqrt(p.variance / survivors)
        return Total(decode(p, ended), weight * survivors, 0.0, rounding, noise)
