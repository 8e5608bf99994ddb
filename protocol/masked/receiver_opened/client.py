"""The client of receiver-opened sums: as a sender it hides its input from the server, as a receiver it opens one sum.

Spec: specs/receiver_opened.md. A client is in many such sessions at once, as a sender in most and as the receiver in its own.
Phases of one: AwaitingReceiver -> Blinding at a sender, AwaitingSum at the receiver; a Deadline ends all of them. Each (receiver,
round) is stored as spent before anything is sent, so that there is one row for each receiver in a round.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ....crypto.agreement import AgreementKey, UnusableKey
from ....crypto.entropy import Entropy
from ....crypto.fixed_point import Floats, Rounding
from ....crypto.identity import BadSignature, SigningKey, verify
from ....crypto.prg import derive_key
from ...core.errors import ProtocolError, Refused
from ...core.session import SERVER, Session
from ...drivers.roles import Deadline, Effect, Event, Learned, Persist, Received, Send
from ...wire.codec import Envelope
from ..terms import Ring
from .messages import OpenedTotal, OpeningOffer, ReceiverKey, SenderKey
from .terms import PROTOCOL, RECEIVER_KEY, SENDER_KEY, OpeningPolicy, ReceiverSum


@dataclass(frozen=True, slots=True)
class AwaitingReceiver:
    """A sender that has taken an offer, and waits for the receiver's key."""

    opening: ReceiverSum


@dataclass(frozen=True, slots=True)
class Blinding:
    """A sender that knows its mask's key, 32 bytes. sum_protocol: the name of the masked sum that the mask is for."""

    opening: ReceiverSum
    sum_protocol: str
    mask_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class AwaitingSum:
    """The receiver, which waits for the sum."""

    opening: ReceiverSum
    key: AgreementKey


Phase = AwaitingReceiver | Blinding | AwaitingSum


@dataclass(frozen=True, slots=True)
class OpeningClient:
    """A client and its sessions by digest. updates: the work sessions whose updates it holds, by digest: the round of each, and
    SHA-256 of the models as they came; whoever owns the client sets it, the server never. It sends of no others. entropy: where
    its keys come from.

    enrolled: the identities of all clients, known beforehand. next_round: the earliest round of which it still takes an offer,
    per receiver, as persisted. since: the same for all receivers; after a restart the largest number persisted, because what was
    taken in that round is not known any more. taken: the openings of the latest round that it is or was a sender of.
    """

    me: int
    run: bytes
    policy: OpeningPolicy
    identity: SigningKey
    enrolled: Mapping[int, bytes] = field(repr=False)
    entropy: Entropy = field(repr=False)
    updates: Mapping[bytes, tuple[int, bytes]] = field(default_factory=dict)
    next_round: Mapping[int, int] = field(default_factory=dict)
    since: int = 0
    taken: tuple[ReceiverSum, ...] = field(default=(), repr=False)
    phases: Mapping[bytes, Phase] = field(default_factory=dict)


def member_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The client's role. Raises ProtocolError for messages against its policy, out of order or not what they should be."""
    match state, event:
        case _, Received(Envelope(sender=sender)) if sender != SERVER:
            raise ProtocolError("a message that is not the server's", sender)
        case OpeningClient(), Deadline():
            return replace(state, phases={}), ()
        case OpeningClient(), Received(Envelope(message=OpeningOffer() as offer, session=digest)):
            return _take(state, digest, offer)
        case OpeningClient(), Received(Envelope(message=message, session=digest)):
            match state.phases.get(digest), message:
                case AwaitingReceiver(opening=opening), ReceiverKey():
                    return _blind(state, opening, message)
                case AwaitingSum() as receiving, OpenedTotal():
                    return _open(state, receiving, message)
                case phase, _:
                    place = "no session of this kind" if phase is None else type(phase).__name__
                    raise ProtocolError(f"{type(message).__name__} is out of place at {place}", SERVER)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def _take(state: OpeningClient, digest: bytes, offer: OpeningOffer) -> tuple[OpeningClient, tuple[Effect, ...]]:
    """Step 1: check the offer, spend the receiver's round; the receiver advertises its key."""
    try:
        opening = ReceiverSum.offered(offer)
    except ValueError as error:
        raise ProtocolError(f"an offer that cannot be: {error}", SERVER) from None
    session, receiver, policy = opening.session, opening.receiver, state.policy
    if old(state, offer):
        return state, ()
    sending, held = state.me != receiver, state.updates.get(opening.update)
    earlier = tuple(other for other in state.taken if other.session.round == session.round)
    problems = {
        "an offer under another session's digest": session.digest != digest,
        "an offer of another protocol": session.protocol != PROTOCOL,
        "an offer of another run": session.run != state.run,
        "an offer for others": sending and state.me not in session.roster,
        "an offer about an update that this client does not hold": sending and held is None,
        "an offer about an update of another round": held is not None and held[0] != session.round,
        "an offer for another model than the one received": held is not None and held[1] != opening.model,
        "an offer with a client that is not enrolled": any(i not in state.enrolled for i in (receiver, *session.roster)),
        f"an offer longer than the policy's {policy.max_length}": opening.length > policy.max_length,
        "an offer for a receiver and round already taken": session.round < state.next_round.get(receiver, 0),
    }
    if reason := next((reason for reason, found in problems.items() if found), None):
        raise ProtocolError(reason, SERVER)
    if policy.reveals(opening, earlier if sending else ()):
        raise ProtocolError(f"sums that could show client {receiver} what fewer than {policy.rules.least} clients sent", SERVER)
    if sending and policy.reveals_to_corrupt(opening, earlier):
        raise ProtocolError(
            f"sums that could show client {receiver} and other corrupt ones what fewer than {policy.floor} clients sent", SERVER
        )
    next_round = {**state.next_round, receiver: session.round + 1}
    spent = Persist(f"next round opened by {receiver}", (session.round + 1).to_bytes(4, "big"))
    if sending:
        state = replace(state, taken=(*earlier, opening), next_round=next_round)
        return replace(state, phases={**state.phases, digest: AwaitingReceiver(opening)}), (spent,)
    key = _fresh_key(state, opening)
    signed = ReceiverKey(key.public, state.identity.sign(RECEIVER_KEY, opening.binding, key.public))
    phases = {**state.phases, digest: AwaitingSum(opening, key)}
    return replace(state, next_round=next_round, phases=phases), (spent, Send(Envelope(digest, state.me, SERVER, signed)))


def old(state: OpeningClient, offer: OpeningOffer) -> bool:
    """Whether an offer is of a round gone by: late, or sent again (before a restart, perhaps), and no fault."""
    latest = max((other.session.round for other in state.taken), default=0)
    gone = max(state.since, latest, state.next_round.get(offer.opener, 0) - 1)
    return offer.run == state.run and offer.round < gone


def _fresh_key(state: OpeningClient, opening: ReceiverSum) -> AgreementKey:
    secret = state.entropy.secret(f"receiver opened {state.me} {opening.binding.hex()}", 32)
    return AgreementKey(derive_key(secret, "opening key", opening.binding))


def _blind(state: OpeningClient, opening: ReceiverSum, shown: ReceiverKey) -> tuple[OpeningClient, tuple[Effect, ...]]:
    """Step 2, a sender: check the receiver's key, derive the mask's, forget the one-session secret."""
    _check(state, opening.receiver, RECEIVER_KEY, opening, shown.public, shown.signature)
    key, digest = _fresh_key(state, opening), opening.session.digest
    try:
        (mask_key,) = key.agree([(shown.public, opening.pair(state.me, key.public, shown.public))], "opened mask")
    except UnusableKey:
        raise ProtocolError("a receiver's key that nothing can be agreed on with", SERVER) from None
    signed = SenderKey(key.public, state.identity.sign(SENDER_KEY, opening.binding, key.public))
    phases = {**state.phases, digest: Blinding(opening, opening.sum_protocol, mask_key)}
    return replace(state, phases=phases), (Send(Envelope(digest, state.me, SERVER, signed)),)


def blinded_input(state: OpeningClient, session: Session, vector: Floats, rounding: Rounding) -> Ring:
    """A sender's input to the masked sum `session`, ring (d + 1,). Step 3.

    Raises Refused for a masked sum that does not belong to an opening that this client is ready for, and ValueError for a
    vector that `ReceiverSum.blinded` does not take.
    """
    for phase in state.phases.values():
        if isinstance(phase, Blinding) and phase.sum_protocol == session.protocol:
            opening = phase.opening
            if not {state.me} <= set(session.roster) <= set(opening.session.roster):
                break
            if opening.sum_session(session.roster) != session:
                break
            if vector.shape != (opening.d,):
                raise ValueError(f"expected a vector of {opening.d} coordinates, got shape {vector.shape}")
            return opening.blinded(vector, state.me, rounding, phase.mask_key)
    raise Refused(f"client {state.me} has taken no offer that {session.protocol!r} with this roster belongs to")


def _open(state: OpeningClient, receiving: AwaitingSum, opened: OpenedTotal) -> tuple[OpeningClient, tuple[Effect, ...]]:
    """Step 4, the receiver: check the survivors and their keys, take off their masks, decode the sum, float32 (d,)."""
    opening, digest = receiving.opening, receiving.opening.session.digest
    survivors = opened.survivors
    if not set(survivors) <= set(opening.session.roster) or len(opened.total) != 4 * opening.length:
        raise ProtocolError("a sum with strangers or of another length", SERVER)
    least = max(opening.session.threshold, state.policy.rules.least + len(state.policy.group(state.me) & set(survivors)))
    if len(survivors) < least:
        raise ProtocolError(f"a sum of {len(survivors)} where {least} are needed", SERVER)
    peers = []
    for sender, public, signature in zip(survivors, opened.publics, opened.signatures, strict=True):
        _check(state, sender, SENDER_KEY, opening, public, signature)
        peers.append((public, opening.pair(sender, public, receiving.key.public)))
    total = np.frombuffer(opened.total, "<u4").astype(np.uint32, copy=False)
    try:
        found = opening.unblinded(total, receiving.key.agree(peers, "opened mask"))
    except UnusableKey:
        raise ProtocolError("a sender's key that nothing can be agreed on with", SERVER) from None
    except ValueError as error:
        raise ProtocolError(f"a sum that is not these survivors': {error}", SERVER) from None
    phases = {other: phase for other, phase in state.phases.items() if other != digest}
    learned = Learned(opening.session.cluster, digest, found.astype("<f4", copy=False).tobytes())
    return replace(state, phases=phases), (learned,)


def _check(state: OpeningClient, client: int, purpose: str, opening: ReceiverSum, public: bytes, signature: bytes) -> None:
    try:
        verify(state.enrolled[client], signature, purpose, opening.binding, public)
    except BadSignature:
        raise ProtocolError(f"the key shown for client {client} is not signed by it in this session", SERVER) from None
