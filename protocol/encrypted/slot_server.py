"""The server of encrypted sums into slots: it has the counts opened, and then the sums of those slots that reach the floor.

Spec: specs/slots.md. Phases: AddingSlots -> Counting -> OpeningSlots -> SlotsSummed, or Shortfall. Both openings are of the same
ciphertexts' total, so nobody can be lost in between; the rows of small slots are sent to nobody.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...crypto.ckks_ciphertexts import EncryptedVector
from ..core.errors import ProtocolError
from ..core.session import SERVER, Session
from ..drivers.roles import Awaiting, Deadline, Effect, Event, Received, Send
from ..wire.codec import Envelope
from .gathering import Reports, added, most_said, report
from .keys import RelayedKey, Shortfall
from .messages import EncryptedInput, EncryptedSum, EncryptedSumRequest, OpenSlots, SumOpened
from .slots import EncryptedSlots


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """What is summed: its session, key, slots, and the members that open it. work: digest of the session that it was made in."""

    session: Session
    key: RelayedKey
    slots: EncryptedSlots
    members: tuple[int, ...]
    work: bytes = bytes(32)

    @property
    def fewest(self) -> int:
        """Members that have to open it: as many as a sum has clients, or all."""
        return min(self.session.threshold, len(self.members))

    @property
    def weights(self) -> bytes:
        """One for every client: shares are part of what is encrypted."""
        return struct.pack(">d", 1.0) * len(self.session.roster)


@dataclass(frozen=True, slots=True)
class AddingSlots:
    """The server while inputs are added and forgotten. alive: whose are in the total."""

    plan: SlotPlan
    total: EncryptedVector | None = None
    alive: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Counting:
    """The server while members open the counts. reports: what each of them says."""

    plan: SlotPlan
    total: EncryptedVector
    alive: tuple[int, ...]
    reports: Reports = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OpeningSlots:
    """The server while members open the sums of the open slots. said: the counts, by who said them. counts: those that most did.
    blame: who said others than most.
    """

    plan: SlotPlan
    alive: tuple[int, ...]
    counts: tuple[int, ...]
    opened: tuple[int, ...]
    said: Reports
    blame: tuple[int, ...]
    reports: Reports = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SlotsSummed:
    """The end: what most members said. counts: of every slot. opened: sent to members. weights: of these, none if nobody said."""

    session: Session
    clients: tuple[int, ...]
    counts: tuple[int, ...]
    opened: tuple[int, ...]
    weights: Mapping[int, float]
    blame: tuple[int, ...]


def invite(plan: SlotPlan) -> tuple[Effect, ...]:
    """The server's first move: every client of the roster is asked for its input."""
    key = plan.key
    terms = plan.weights, 0, plan.slots.length
    request = EncryptedSumRequest(*plan.session.fields, *terms, key.holder, key.encrypting, key.tag, key.sealed, plan.work)
    return tuple(Send(Envelope(plan.session.digest, SERVER, client, request)) for client in plan.session.roster)


def server_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The server's role. Raises ProtocolError blaming the client for a message that is misplaced, repeated or malformed."""
    match state, event:
        case AddingSlots(), Received(Envelope(message=EncryptedInput(ciphertexts=data), sender=client)):
            plan = state.plan
            total = added(plan.session, plan.key, plan.slots.length, state.total, state.alive, client, data)
            return replace(state, total=total, alive=(*state.alive, client)), ()
        case AddingSlots(), Deadline():
            return _send_counts(state)
        case Counting(), Received(Envelope(message=SumOpened(weight=told), sender=client)):
            numbers = report(state.plan.members, state.reports, client, told, state.plan.slots.count)
            if not all(n == int(n) and 0 <= n <= len(state.alive) for n in numbers):
                raise ProtocolError("counts that are not of these clients", client)
            return replace(state, reports={**state.reports, client: numbers}), ()
        case Counting(), Deadline():
            return _send_slots(state)
        case OpeningSlots(), Received(Envelope(message=SumOpened(weight=told), sender=client)):
            *weights, together = report(state.said, state.reports, client, told, len(state.opened) + 1)
            most, counts = state.plan.slots.most, state.said[client]  # its own: where two say other counts, either may be right
            if sum(weights) != together:
                raise ProtocolError("weights that do not add up to what is said beside them", client)
            if not all(counts[k] <= n <= counts[k] * most for k, n in zip(state.opened, weights, strict=True)):
                raise ProtocolError("weights that so many clients cannot have given", client)
            return replace(state, reports={**state.reports, client: tuple(weights)}), ()
        case OpeningSlots(), Deadline():
            return _summed(state), ()
        case ((SlotsSummed() | Shortfall()), Deadline()):
            return state, ()
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def _send_counts(state: AddingSlots) -> tuple[Counting | Shortfall, tuple[Effect, ...]]:
    plan, alive = state.plan, tuple(sorted(state.alive))
    if state.total is None or len(alive) < plan.session.threshold:
        return Shortfall(plan.session, "add", len(alive), plan.session.threshold), ()
    key, counts = plan.key, plan.slots.part(state.total, None)
    message = EncryptedSum(
        *plan.session.fields, plan.weights, 0, plan.slots.count, alive, key.holder, key.hash, key.sealed, counts
    )
    sends = (Send(Envelope(plan.session.digest, SERVER, client, message)) for client in plan.members)
    return Counting(plan, state.total, alive), (Awaiting("count", tuple(sorted(plan.members))), *sends)


def _send_slots(state: Counting) -> tuple[OpeningSlots | SlotsSummed | Shortfall, tuple[Effect, ...]]:
    """Those that have counted are sent the open slots; what is under the floor by any report goes nowhere, and is forgotten here.

    Who lies about a count so shuts a slot, and cannot have a small one sent to itself.
    """
    plan, key = state.plan, state.plan.key
    if (have := len(state.reports)) < plan.fewest:
        return Shortfall(plan.session, "count", have, plan.fewest), ()
    found, blame = most_said(state.reports)
    counts = tuple(int(n) for n in found)
    opened = tuple(k for k in range(plan.slots.count) if all(k in plan.slots.chosen(told) for told in state.reports.values()))
    if not opened:
        return SlotsSummed(plan.session, state.alive, counts, (), {}, blame), ()
    rows = plan.slots.part(state.total, opened)
    message = OpenSlots(*plan.session.fields, state.alive, opened, plan.slots.most, key.holder, key.hash, key.sealed, rows)
    asked = tuple(sorted(state.reports))
    sends = (Send(Envelope(plan.session.digest, SERVER, client, message)) for client in asked)
    return OpeningSlots(plan, state.alive, counts, opened, state.reports, blame), (Awaiting("open", asked), *sends)


def _summed(state: OpeningSlots) -> SlotsSummed:
    """What most said, if enough did: sums that few have could be anything, and be gone with them."""
    said, others = most_said(state.reports) if len(state.reports) >= state.plan.fewest else ((), ())
    weights = dict(zip(state.opened, said, strict=True)) if said else {}
    blame = tuple(sorted({*state.blame, *others}))
    return SlotsSummed(state.plan.session, state.alive, state.counts, state.opened, weights, blame)
