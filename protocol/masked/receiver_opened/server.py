"""The server of a receiver-opened sum: it relays signed keys, and forwards a sum that it cannot read.

Spec: specs/receiver_opened.md. Phases: Inviting -> CollectingSenders -> SendersAgreed, one Deadline each; from both of them to
NotOpened. After SendersAgreed comes a masked sum among `SendersAgreed.senders`, then `forward`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ....crypto.agreement import UnusableKey, check_public
from ....crypto.identity import BadSignature, verify
from ...core.errors import ProtocolError
from ...core.session import SERVER
from ...drivers.roles import Awaiting, Deadline, Effect, Event, Received, Send
from ...wire.codec import Envelope
from ..server import Unmasked
from .messages import OpenedTotal, ReceiverKey, SenderKey
from .terms import RECEIVER_KEY, SENDER_KEY, ReceiverSum


@dataclass(frozen=True, slots=True)
class Inviting:
    """The server while the receiver's key is due."""

    opening: ReceiverSum
    enrolled: Mapping[int, bytes] = field(repr=False)
    key: ReceiverKey | None = None


@dataclass(frozen=True, slots=True)
class CollectingSenders:
    """The server while the senders' keys arrive."""

    opening: ReceiverSum
    enrolled: Mapping[int, bytes] = field(repr=False)
    keys: Mapping[int, SenderKey] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class SendersAgreed:
    """The server once enough senders share a mask with the receiver."""

    opening: ReceiverSum
    keys: Mapping[int, SenderKey] = field(repr=False)

    @property
    def senders(self) -> tuple[int, ...]:
        return tuple(sorted(self.keys))


@dataclass(frozen=True, slots=True)
class NotOpened:
    """The end without a sum. stage: "receiver" or "senders"; have of need keys were there."""

    opening: ReceiverSum
    stage: str
    have: int
    need: int


def invite(opening: ReceiverSum) -> tuple[Effect, ...]:
    """The server's first move: the offer to the receiver and to every sender."""
    offer = opening.offer
    return tuple(_send(opening, client, offer) for client in (opening.receiver, *opening.session.roster))


def forward(agreed: SendersAgreed, summed: Unmasked) -> Send:
    """The sum, reduced, to the receiver. summed: of the session `opening.sum_session(agreed.senders)`, else ValueError."""
    opening = agreed.opening
    if summed.session != opening.sum_session(agreed.senders):
        raise ValueError("the sum is of another session than the opening's")
    keys = [agreed.keys[i] for i in summed.clients]
    total = opening.reduced(summed.total).astype("<u4", copy=False).tobytes()
    shown = OpenedTotal(summed.clients, tuple(k.public for k in keys), tuple(k.signature for k in keys), total)
    return _send(opening, opening.receiver, shown)


def server_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The server's role. Raises ProtocolError blaming the client for what is misplaced, repeated or unsigned."""
    match state, event:
        case Inviting(), Received(Envelope(message=ReceiverKey() as key, sender=client)):
            if client != state.opening.receiver or state.key is not None:
                raise ProtocolError("a receiver's key from another client, or a second one", client)
            _verify(state, client, RECEIVER_KEY, key)
            return replace(state, key=key), ()
        case Inviting(key=None), Deadline():
            return NotOpened(state.opening, "receiver", 0, 1), ()
        case Inviting(key=key), Deadline():
            sends = (_send(state.opening, client, key) for client in state.opening.session.roster)
            return CollectingSenders(state.opening, state.enrolled), (Awaiting("senders", state.opening.session.roster), *sends)
        case CollectingSenders(), Received(Envelope(message=SenderKey() as key, sender=client)):
            if client not in state.opening.session.roster or client in state.keys:
                raise ProtocolError("a sender's key from a stranger, or a second one", client)
            _verify(state, client, SENDER_KEY, key)
            return replace(state, keys={**state.keys, client: key}), ()
        case CollectingSenders(), Deadline():
            have, need = len(state.keys), state.opening.session.threshold
            if have < need:
                return NotOpened(state.opening, "senders", have, need), ()
            return SendersAgreed(state.opening, state.keys), ()
        case ((SendersAgreed() | NotOpened()), Deadline()):
            return state, ()
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def _send(opening: ReceiverSum, client: int, message: Any) -> Send:
    return Send(Envelope(opening.session.digest, SERVER, client, message))


def _verify(state: Inviting | CollectingSenders, client: int, purpose: str, key: ReceiverKey | SenderKey) -> None:
    try:
        check_public(key.public)
        verify(state.enrolled[client], key.signature, purpose, state.opening.binding, key.public)
    except (BadSignature, UnusableKey, KeyError):
        raise ProtocolError("a key that is not the client's in this session, or of low order", client) from None
