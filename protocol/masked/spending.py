"""What one client spends on noisy sums: its own ledger, and its place in the sum that it is in.

Spec: specs/distributed_gaussian.md. A client finds the noise of a proposal's roster by itself, from what it knew before the run,
and takes part on no other terms. What a sum could cost at most is on its ledger before its first key is sent; what it does cost
follows from the survivors that the client itself signed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from ...crypto.entropy import Entropy
from ..drivers.roles import Persist
from ..parts.charter import Charter
from ..privacy.ledger import BudgetExceeded, Ledger
from ..view.work import LocalWork
from ..work.uploads import usable
from .cohorts import Cohorts
from .gaussian import Place, reserve
from .joined import NOISY, WITHOUT_NOISE, kind_of
from .terms import Plan, Ring, decode_weights

LEDGER = "masked sum ledger"
"""What a client stores its ledger under."""


@dataclass(frozen=True, slots=True)
class SumSpending:
    """One client's. ledger: with the sum that it is in, at its worst. place: in that sum; None outside of one."""

    cohorts: Cohorts = field(repr=False)
    ledger: Ledger = field(repr=False)
    place: Place | None = field(default=None, repr=False)

    @classmethod
    def of(cls, charter: Charter, client: int) -> Self | None:
        """Before the first sum under this charter; None where no noise was agreed on."""
        cohorts = Cohorts.of(charter)
        return None if cohorts is None else cls(cohorts, cohorts.ledger(client))

    @property
    def entry(self) -> bytes:
        """The ledger, as JSON."""
        return json.dumps(self.ledger.as_dict()).encode()

    @property
    def stored(self) -> Persist:
        """What the client stores, before anything that follows from it is sent."""
        return Persist(LEDGER, self.entry)

    def restored(self, journal: Mapping[str, bytes], given: int = 0) -> Self:
        """With the ledger that was stored, outside of any sum. given: inputs that the client's transcript says it gave.

        Raises ValueError for no ledger, for another client's, for one of another budget, or past it, and for one of fewer sums
        than the client gave inputs to.
        """
        own = self.ledger
        try:
            found = Ledger.from_dict(json.loads(journal[LEDGER]))
        except (KeyError, TypeError, json.JSONDecodeError):
            raise ValueError("no ledger that this client stored; without it it must take no part") from None
        if _claim(found) != _claim(own) or len(found.releases) < given:
            raise ValueError("not the ledger that this client stored under this charter; without it it must take no part")
        return replace(self, ledger=found, place=None)

    def joining(self, plan: Plan, joined: Mapping[str, int]) -> Self | str:
        """In the sum of this plan; or why it gives nothing: no noise, or none that it can pay for. joined: as
        `Idle.next_round`.

        Raises ValueError for a second sum in a round, and for terms that do not belong to the noise that was agreed on.
        """
        session, terms, count = plan.session, plan.terms, len(plan.session.roster)
        if kind_of(session.protocol) != NOISY:
            return WITHOUT_NOISE
        if any(kind_of(name) == NOISY and after > session.round for name, after in joined.items()):
            raise ValueError("a second sum with noise in one round, where one was agreed on")
        p = self.cohorts.parameters(count)
        agreed = (p.protocol, self.cohorts.threshold(count), p.ring_bits, p.length, p.bits, p.grid.clip, 1, 0)
        size = (terms.ring_bits, terms.length, terms.bits, terms.clip, terms.max_weight, terms.times_samples)
        if (session.protocol, session.threshold, *size) != agreed:
            raise ValueError(f"terms that do not belong to the noise that was agreed on for {count} clients")
        if len(weights := {*decode_weights(session.roster, terms.weights).values()}) != 1 or 0 in weights:
            raise ValueError("a sum with noise by weights that are not equal")
        try:
            place = reserve(p, session, self.ledger)
        except BudgetExceeded as error:
            return str(error)
        return replace(self, ledger=place.ledger, place=place)

    def put_in(self, work: LocalWork, entropy: Entropy) -> Ring | str:
        """The update, scaled down to l2, with this client's share of the noise; or why it cannot be put in."""
        if self.place is None:
            return WITHOUT_NOISE
        if work.vector.ndim != 1:
            return "work that is no update"
        if not usable(work.vector):
            return "the vector is not finite, or too large to compare"
        return self.place.encode(work.vector, entropy)

    def agreed(self, survivors: int) -> Self:
        """After it saw that enough neighbours signed the same survivors as it did: they tell what the sum costs.

        Its own signature does not: a server can show it more survivors than the sum is opened of.
        """
        return self if self.place is None else replace(self, ledger=self.place.settled(survivors), place=None)

    def left(self, sent: bool) -> Self:
        """Out of the sum before others' signatures. Who sent its input cannot know what was opened, and keeps its reservation."""
        if self.place is None:
            return self
        return replace(self, ledger=self.ledger if sent else self.place.before, place=None)


def _claim(ledger: Ledger) -> tuple[Any, ...]:
    """Whose it is, and what it may spend."""
    return ledger.client, ledger.unit, ledger.adjacency, ledger.budget, ledger.delta
