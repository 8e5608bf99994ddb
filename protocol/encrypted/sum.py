"""The server of the encrypted sum: it adds ciphertexts as they come and sends the sum to those who can open it.

Spec: specs/encrypted.md. Phases: AddingSummands -> OpeningSum -> MeanOpened, or Shortfall. It never holds a secret key, nor
anything decrypted but the total weight that the clients tell it.
"""

import struct
from dataclasses import dataclass, field, replace
from typing import Any

from ...crypto.ckks_ciphertexts import EncryptedVector
from ..core.errors import ProtocolError
from ..core.session import SERVER, Session
from ..drivers.roles import Awaiting, Deadline, Effect, Event, Received, Send
from ..parts.gate import ANYTHING, Rules
from ..parts.leverage import Row
from ..wire.codec import Envelope
from .client_phases import SUM
from .gathering import Reports, added, most_said, report
from .keys import RelayedKey, Shortfall
from .messages import EncryptedInput, EncryptedSum, EncryptedSumRequest, SumOpened
from .scaling import Weighting

__all__ = ["SUM", "AddingSummands", "MeanOpened", "OpeningSum", "Shortfall", "SumPlan", "invite", "server_step"]


@dataclass(frozen=True, slots=True)
class SumPlan:
    """What a sum is: its session, key, weights over the roster, coordinates, and the members that are sent it.

    work: digest of the session that the vectors are the work of.
    shown: the rows of the sums that members already have of the same inputs; one that would show too much with
    them, by the rules, is not sent. receiver: the one client that it is for, whose own update it knows.
    """

    session: Session
    key: RelayedKey
    weighting: Weighting
    length: int
    members: tuple[int, ...]
    work: bytes = bytes(32)
    shown: tuple[Row, ...] = ()
    rules: Rules = ANYTHING
    receiver: int | None = None

    def __post_init__(self) -> None:
        if set(self.weighting.of) != set(self.session.roster):
            raise ValueError("a sum has a weight for every client of its roster")

    @property
    def weights(self) -> bytes:
        """The weights as they are sent."""
        return struct.pack(f">{len(self.session.roster)}d", *(self.weighting.of[i] for i in self.session.roster))


@dataclass(frozen=True, slots=True)
class AddingSummands:
    """The server while inputs are added and forgotten. alive: whose are in the sum."""

    plan: SumPlan
    total: EncryptedVector | None = None
    alive: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class OpeningSum:
    """The server while members open the sum. weights: what each of them reported."""

    plan: SumPlan
    alive: tuple[int, ...]
    weights: Reports = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MeanOpened:
    """The end: members hold the mean of the inputs of `clients`. opened: who said so. blame: who found another weight."""

    session: Session
    clients: tuple[int, ...]
    weight: float
    opened: tuple[int, ...]
    blame: tuple[int, ...]


def invite(plan: SumPlan) -> tuple[Effect, ...]:
    """The server's first move: every client of the roster is asked for its input."""
    s, key = plan.session, plan.key
    terms = (plan.weights, int(plan.weighting.times_samples), plan.length)
    request = EncryptedSumRequest(*s.fields, *terms, key.holder, key.encrypting, key.tag, key.sealed, plan.work)
    return tuple(Send(Envelope(s.digest, SERVER, client, request)) for client in s.roster)


def server_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The server's role. Raises ProtocolError blaming the client for an input that is misplaced, repeated or malformed."""
    match state, event:
        case AddingSummands(), Received(Envelope(message=EncryptedInput(ciphertexts=data), sender=client)):
            plan = state.plan
            total = added(plan.session, plan.key, plan.length + 2, state.total, state.alive, client, data)
            return replace(state, total=total, alive=(*state.alive, client)), ()
        case AddingSummands(), Deadline():
            return _send_sum(state)
        case OpeningSum(), Received(Envelope(message=SumOpened(weight=weight), sender=client)):
            told = report(state.plan.members, state.weights, client, weight, 1)
            if not state.plan.weighting.may_be(state.alive, told[0]):
                raise ProtocolError("a total weight that these clients do not have", client)
            return replace(state, weights={**state.weights, client: told}), ()
        case OpeningSum(), Deadline():
            return _agreed(state), ()
        case ((MeanOpened() | Shortfall()), Deadline()):
            return state, ()
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def _send_sum(state: AddingSummands) -> tuple[OpeningSum | Shortfall, tuple[Effect, ...]]:
    plan, alive = state.plan, tuple(sorted(state.alive))
    s, key = plan.session, plan.key
    if state.total is None or len(alive) < s.threshold:
        return Shortfall(s, "add", len(alive), s.threshold), ()
    if plan.rules.reveals([*plan.shown, {i: plan.weighting.of[i] for i in alive if i != plan.receiver}]):
        return Shortfall(s, "leverage", len(alive), len(s.roster)), ()
    terms = (plan.weights, int(plan.weighting.times_samples), plan.length, alive)
    message = EncryptedSum(*s.fields, *terms, key.holder, key.hash, key.sealed, state.total.to_bytes())
    sends = (Send(Envelope(s.digest, SERVER, client, message)) for client in plan.members)
    return OpeningSum(plan, alive), (Awaiting("open", tuple(sorted(plan.members))), *sends)


def _agreed(state: OpeningSum) -> MeanOpened | Shortfall:
    """The weight that most members found, if as many opened it as a sum has clients: one that few have could be anything, and be
    gone with them.
    """
    plan = state.plan
    if (have := len(state.weights)) < (need := min(plan.session.threshold, len(plan.members))):
        return Shortfall(plan.session, "open", have, need, state.alive)
    (weight,), others = most_said(state.weights)
    return MeanOpened(state.plan.session, state.alive, weight, tuple(sorted(state.weights)), others)
