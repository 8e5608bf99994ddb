"""What one client puts into masked sums: made of its own work, of what came to it, and of numbers that it knew before the run.

The server's half makes the same terms on its own; where a proposal's are not those that belong to the client's own work, it
declines. Sums of weights and counts of slots come before the sums that they are for: a client goes by those that it signed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...crypto.fixed_point import FixedPoint, Nearest
from ..core.errors import OF_FLOOR, Refused
from ..core.session import Session
from ..parts.charter import Numbers
from ..parts.leverage import Row
from ..view.work import LocalWork
from .given import GivenUpdates
from .input import LIMBS, InputTerms
from .joined import OPENED, inputs_of, kind_of
from .receiver_opened.opener import NO_OFFER, Opener
from .slots import COUNTING, SlotLayout, Weighted
from .terms import Plan, Ring, SumTerms, decode_weights
from .weighing import WEIGHED, WEIGHTS, WeightEncoding, told

if TYPE_CHECKING:
    from ..work.tasks import Taken

OTHER_KIND = (
    "work of a round that this client gave to the other kind of sums: those that the server reads, or that receivers open"
)
OTHER_WORK = "a sum of other work than the work of this round that this client gave to sums: both have much of it in common"
SLOT_SUMS = "masked sum/slots "
"""How the protocol of a sum into slots begins, after that of its counts."""


@dataclass(slots=True)
class Inputs:
    """One client's. before: sessions of this round that others follow: sums of weights, counts of slots; by digest.

    opener: its part in sums that a receiver opens, where there are any. gave: the round of its latest input, the work session
    that it was of, and whether that was to a sum that a receiver opens: together with a sum that the server reads it would tell
    the difference of both, and so would sums of two kinds of work, which have much in common.
    """

    me: int
    numbers: Numbers
    opener: Opener | None = None
    before: dict[bytes, Plan] = field(default_factory=dict)
    gave: tuple[int, bytes, bool] = (-1, b"", False)

    def against(self, protocol: str, taken: "Taken", given: GivenUpdates, joined: Mapping[str, int]) -> str | None:
        """Why this client gives nothing to a session of this name, whatever its terms, or None. taken: the work that it is of.

        given: what it signed. joined: the next round by name, of sessions that it joined. Both outlive its process.
        """
        round, work, opened = self.gave
        signed, to_receiver = given.at(taken.round).updates.keys(), kind_of(protocol) == OPENED
        other_kind = signed if to_receiver else _opened_in(taken.round, joined)
        if other_kind or (round == taken.round and opened != to_receiver):
            return OTHER_KIND
        if (round == taken.round and work != taken.session) or signed - inputs_of(taken.session):
            return OTHER_WORK
        return None

    def put_in(self, plan: Plan, work: LocalWork, taken: "Taken", given: GivenUpdates, joined: Mapping[str, int]) -> Ring | str:
        """The input, or why there is none. taken: the task that the work is of. given, joined: as in `against`."""
        found = self.against(plan.session.protocol, taken, given, joined) or self._made(plan, work, taken.most, given)
        if not isinstance(found, str):
            self.gave = taken.round, taken.session, kind_of(plan.session.protocol) == OPENED
        return found

    def _made(self, plan: Plan, work: LocalWork, most: int, given: GivenUpdates) -> Ring | str:
        protocol = plan.session.protocol
        if not _row(plan).get(self.me):
            return "a sum in which it does not count"
        if bool(work.shares) != (protocol == COUNTING or protocol.startswith(SLOT_SUMS)):
            return "a sum of another kind of work than this is"
        if kind_of(protocol) == OPENED:
            return NO_OFFER if self.opener is None else self.opener.put_in(plan, work)
        self.before = {digest: p for digest, p in self.before.items() if p.session.round == plan.session.round}
        if protocol.startswith(f"{WEIGHTS}/"):
            self.before[plan.session.digest] = plan
            return self.encoded(plan.session, plan.terms, work)
        if protocol == COUNTING:
            self.before[plan.session.digest] = plan
            return self._slots(plan, work, most).encode_count(chosen(work))
        if protocol.startswith(SLOT_SUMS):
            return self._into_slots(plan, work, most, given)
        if protocol.startswith(f"{WEIGHED} ") and (reason := self._too_heavy(plan, work, given)):
            return reason
        return self.encoded(plan.session, plan.terms, work)

    def encoded(self, session: Session, terms: SumTerms, work: LocalWork) -> Ring | str:
        """The input to a sum of updates, or of weights that count samples, by its terms alone; or why there is none."""
        if session.protocol.startswith(f"{WEIGHTS}/"):
            return self._weight(session, terms, work)
        return self._vector(session, terms, work)

    def update_of(self, protocol: str, update: bytes) -> bytes:
        """Whose held updates a sum is of: as its terms say, or, where these name none, as the offer does that it is under."""
        if kind_of(protocol) != OPENED:
            return update
        return b"" if self.opener is None else self.opener.update_of(protocol)

    # --- updates ------------------------------------------------------------------------------------------------------

    def _vector(self, session: Session, terms: SumTerms, work: LocalWork) -> Ring | str:
        row, numbers = decode_weights(session.roster, terms.weights), self.numbers
        counted = numbers.max_samples if terms.times_samples else 0
        energy = terms.length == numbers.d + (2 if counted else 1) + LIMBS
        if energy and min(row.values()) < 0:
            return "a sum of squared norms with a weight below 0, which counts there as if it were above"
        inputs = InputTerms(terms.ring_bits, numbers.clip, len(row), max(map(abs, row.values())), counted, energy)
        expected = inputs.length(numbers.d), inputs.fixed.bits, numbers.clip
        if (terms.length, terms.bits, terms.clip) != expected:
            return "terms that do not belong to a sum of this update"
        return inputs.unfit(work) or inputs.encode(work, row[self.me])

    # --- weights that count samples -----------------------------------------------------------------------------------

    def _weight(self, session: Session, terms: SumTerms, work: LocalWork) -> Ring | str:
        row, most = decode_weights(session.roster, terms.weights), self.numbers.max_samples
        largest = max(map(abs, row.values()))
        share = abs(row[self.me]) / largest * work.samples / most
        if share > 1:
            return f"more samples than the {most} of protection.max_samples"
        return self._weighing(row, largest).encode(share)

    def _too_heavy(self, plan: Plan, work: LocalWork, given: GivenUpdates) -> str | None:
        """Why its weight is too much of what this sum would be of, or why it cannot know, or None."""
        reason = "a sum that counts samples, without sums of the weights before it"
        for first in (p for p in self.before.values() if p.session.protocol.startswith(f"{WEIGHTS}/")):
            alive = given.signed(first.terms.update)
            try:
                sums = told(first.session, alive, plan.session)
            except Refused as error:
                reason = str(error)
                continue
            row = _row(first)
            largest = max(map(abs, row.values()))
            weight = abs(row[self.me]) / largest * work.samples / self.numbers.max_samples
            there = {i: row[i] for i in alive}
            if _row(plan) != there:
                return "a sum by other weights than those that were summed before it"
            if self._weighing(there, largest).holds(weight, sums, len(plan.session.roster), plan.session.threshold):
                return None
            return f"its weight, times its samples, {OF_FLOOR}"
        return reason

    def _weighing(self, row: Row, largest: float) -> WeightEncoding:
        """row: of those that are left. largest: of all weights in the session in which they are summed."""
        return WeightEncoding(tuple(sorted((abs(a) / largest for a in row.values()), reverse=True)), self.numbers.rules)

    # --- slots --------------------------------------------------------------------------------------------------------

    def _slots(self, counting: Plan, work: LocalWork, most: int) -> SlotLayout:
        numbers, rules = self.numbers, self.numbers.rules
        grid = FixedPoint.finest(numbers.ring_bits, numbers.clip, len(counting.session.roster), most)
        return SlotLayout(len(work.shares), numbers.d, grid, rules.floor, rules.corrupt)

    def _into_slots(self, plan: Plan, work: LocalWork, most: int, given: GivenUpdates) -> Ring | str:
        reason = "a sum into slots, without counts before it"
        for counting in (p for p in self.before.values() if p.session.protocol == COUNTING):
            slots = self._slots(counting, work, most)
            try:
                opened = slots.joined(counting.session, given.signed(counting.terms.update), plan.session)
            except Refused as error:
                reason = str(error)
                continue
            return slots.encode(chosen(work), opened, Nearest())
        return reason


def _opened_in(round: int, joined: Mapping[str, int]) -> bool:
    """Whether some sum that it joined in this round is one that a receiver opens."""
    return any(after == round + 1 and kind_of(protocol) == OPENED for protocol, after in joined.items())


def chosen(work: LocalWork) -> dict[int, Weighted]:
    """What goes into which slot."""
    return {k: Weighted(work.vector[k], share) for k, share in enumerate(work.shares) if share}


def _row(plan: Plan) -> Mapping[int, float]:
    """The public weights of a sum, over its roster."""
    return decode_weights(plan.session.roster, plan.terms.weights)
