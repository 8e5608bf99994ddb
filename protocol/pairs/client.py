"""The client of pairs: it agrees on a secret with another client, shows it its embedding model, and releases its clouds.

Spec: specs/pairs.md. A client is in many such sessions at once. Phases of one: AwaitingKey -> Meeting -> AwaitingEdge, without
Meeting where embedding models are public, and with Showing before AwaitingEdge where the clients measure distances themselves; a
Deadline ends all of them. An answer for a pair is counted and stored before anything about data leaves the client. A server that
says that it did not arrive gets another, of a later session: under a projection of its own, and charged again, so only as often
as the policy and the ledger allow, one at a time, and none once the client was told the edge. An answer for all is stored itself,
and sent again as it was; where answers are for a round (`terms.anew`), another is made in a later round alone.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from ...crypto.agreement import AgreementKey, UnusableKey
from ...crypto.entropy import Entropy
from ...crypto.identity import BadSignature, SigningKey, verify
from ...crypto.prg import derive_key
from ...crypto.sealing import InvalidSeal
from ..core.errors import ProtocolError
from ..core.session import SERVER
from ..drivers.roles import Deadline, Effect, Event, Persist, Received, Send
from ..privacy.ledger import BudgetExceeded
from ..view.answers import Vector
from ..wire.codec import Envelope
from ..wire.messages import MOST_REASON, Declined
from ..work.uploads import to_bytes, usable
from .memory import GROUP, SAID, AnswerForAll, edge_entry, edge_key, said_entry, spent_entry, spent_key
from .messages import PairClouds, PairDistance, PairEdge, PairKey, PairOffer, SealedCloud, SealedEmbedding
from .policy import PairPolicy
from .question import Released, Reported, Rows, Unusable
from .sealing import CLOUD, MODEL, opened_chunks, sealed_chunks
from .terms import KEY, ONCE, PairTerms

MOST_OPEN = 64
"""Sessions of one pair, or of one release for all, that are open at once at most."""
LACKING = "no secret of all, under which one release would be for all"


class Computer(Protocol):
    """A client's own computer. Raises BudgetExceeded before anything was released, Unusable for the other's model."""

    def release(self, terms: PairTerms, secret: bytes, own: Vector | None, others: Vector | None, /) -> Released:
        """What it releases on these terms, under the projection of this 32-byte secret, by its own embedding model and by the
        other's. Spends its budget."""
        ...

    def show(self, terms: PairTerms, own: Vector | None, others: Vector | None, /) -> Rows:
        """What it shows the other client: its data under the other's embedding model. Spends its budget for all that follows."""
        ...

    def report(self, terms: PairTerms, own: Vector | None, others: Vector | None, theirs: Rows, /) -> Reported:
        """The distance to what it was shown, and tau."""
        ...


@dataclass(frozen=True, slots=True)
class AwaitingKey:
    """A client that has shown its key, and waits for the other's."""

    terms: PairTerms
    key: AgreementKey


@dataclass(frozen=True, slots=True)
class Meeting:
    """A client that has sent its embedding model, and waits for the other's. secret: the pair's, 32 bytes."""

    terms: PairTerms
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Showing:
    """A client that has shown the other its cloud, and waits for the other's. others: the other's embedding model."""

    terms: PairTerms
    secret: bytes = field(repr=False)
    others: Vector | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class AwaitingEdge:
    """A client that has answered the server, and waits for the edge."""

    terms: PairTerms


Phase = AwaitingKey | Meeting | Showing | AwaitingEdge


@dataclass(frozen=True, slots=True)
class PairingClient:
    """A client and its sessions by digest. enrolled: the identities of all clients, known beforehand.

    weights: its own embedding model of this round, None for the public one. group: a secret that all clients of the run share, or
    None. spent: how often it has answered for each other client, as persisted. said: the last answer for all. edges: what it was
    told.
    """

    me: int
    run: bytes
    policy: PairPolicy
    identity: SigningKey
    enrolled: Mapping[int, bytes] = field(repr=False)
    entropy: Entropy = field(repr=False)
    computer: Computer = field(repr=False)
    weights: Vector | None = field(default=None, repr=False)
    group: bytes | None = field(default=None, repr=False)
    spent: Mapping[int, int] = field(default_factory=dict)
    said: AnswerForAll | None = field(default=None, repr=False)
    edges: Mapping[int, bool] = field(default_factory=dict)
    phases: Mapping[bytes, Phase] = field(default_factory=dict)


def peer_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The client's role. Raises ProtocolError for messages against its policy, out of order or not what they should be."""
    match state, event:
        case _, Received(Envelope(sender=sender)) if sender != SERVER:
            raise ProtocolError("a message that is not the server's", sender)
        case PairingClient(), Deadline():
            return replace(state, phases={}), ()
        case PairingClient(), Received(Envelope(message=PairOffer() as offer, session=digest)):
            return _take(state, digest, offer)
        case PairingClient(), Received(Envelope(message=message, session=digest)):
            match state.phases.get(digest), message:
                case AwaitingKey() as phase, PairKey():
                    return _meet(state, phase, message)
                case Meeting() as phase, SealedEmbedding():
                    return _release(state, phase.terms, phase.secret, _model(phase, state.me, message))
                case Showing() as phase, SealedCloud():
                    return _report(state, phase, message)
                case AwaitingEdge(terms=terms), PairEdge(edge):
                    told = {} if terms.session.protocol == ONCE else {terms.peer(state.me): bool(edge)}
                    stored = tuple(Persist(edge_key(peer), edge_entry(joined)) for peer, joined in told.items())
                    return replace(state, edges={**state.edges, **told}, phases=_without(state, digest)), stored
                case found, _:
                    place = "no session of this kind" if found is None else type(found).__name__
                    raise ProtocolError(f"{type(message).__name__} is out of place at {place}", SERVER)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def key_for(terms: PairTerms, me: int, entropy: Entropy) -> AgreementKey:
    """The fresh key that a client draws to agree with the other on the pair's secret."""
    secret = entropy.secret(f"pair key {me} {terms.binding.hex()}", 32)
    return AgreementKey(derive_key(secret, "pair key", terms.binding))


def agreed(key: AgreementKey, shown: bytes, terms: PairTerms, me: int) -> bytes:
    """The pair's secret, 32 bytes, of this client's key and the public key that the other has shown. Raises UnusableKey."""
    publics = (key.public, shown) if me < terms.peer(me) else (shown, key.public)
    (secret,) = key.agree([(shown, terms.binding + publics[0] + publics[1])], "pair")
    return secret


def _without(state: PairingClient, digest: bytes) -> dict[bytes, Phase]:
    return {other: phase for other, phase in state.phases.items() if other != digest}


def _take(state: PairingClient, digest: bytes, offer: PairOffer) -> tuple[PairingClient, tuple[Effect, ...]]:
    """Step 1: check the offer, and advertise a key; or answer at once, where no secret of a pair is needed."""
    try:
        terms = PairTerms.offered(offer)
    except ValueError as error:
        raise ProtocolError(f"an offer that cannot be: {error}", SERVER) from None
    session = terms.session
    once = session.protocol == ONCE
    problems = {
        "an offer under another session's digest": session.digest != digest,
        "an offer of another run": session.run != state.run,
        "an offer for others": state.me not in session.roster,
        "an offer with a client that is not enrolled": any(i not in state.enrolled for i in session.roster),
        "an offer taken already": digest in state.phases,
        "an offer where too many are open": sum(p.terms.session.roster == session.roster for p in state.phases.values())
        >= MOST_OPEN,
    }
    reason = next((reason for reason, found in problems.items() if found), None) or state.policy.refusal(terms)
    if reason is not None:
        raise ProtocolError(reason, SERVER)
    if once and terms.released != "samples" and state.group is None:  # as others may have it, nobody is to blame
        return state, (Send(Envelope(digest, state.me, SERVER, Declined(LACKING))),)
    if once and state.said is not None and not (terms.anew and terms.session.round > state.said.round):
        return _repeated(state, terms, state.said)
    if terms.embedding != "public" and state.weights is None:
        raise ProtocolError("an embedding model is asked for of a round in which none was trained here", SERVER)
    if once:
        return _release(state, terms, state.group or bytes(32), None)
    _check_open(state, terms)
    if state.weights is not None and len(state.weights) != terms.weights > 0:
        raise ProtocolError("an embedding model of another size is asked for", SERVER)
    key = key_for(terms, state.me, state.entropy)
    shown = PairKey(key.public, state.identity.sign(KEY, terms.binding, key.public))
    phases = {**state.phases, digest: AwaitingKey(terms, key)}
    return replace(state, phases=phases), (Send(Envelope(digest, state.me, SERVER, shown)),)


def _check_open(state: PairingClient, terms: PairTerms) -> None:
    """Raises ProtocolError where the client has answered for this pair as often as it will, for now or for good."""
    peer = terms.peer(state.me)
    open_sessions = (phase.terms for phase in state.phases.values() if isinstance(phase, AwaitingEdge | Showing))
    if (
        peer in state.edges
        or state.spent.get(peer, 0) >= state.policy.answers
        or any(t.session.roster == terms.session.roster for t in open_sessions)
    ):
        raise ProtocolError("an offer for a pair already answered", SERVER)


def _repeated(state: PairingClient, terms: PairTerms, said: AnswerForAll) -> tuple[PairingClient, tuple[Effect, ...]]:
    """The answer for all once more, to the byte: it tells nobody anything new, and costs nothing."""
    if said.context != terms.projection_context:
        raise ProtocolError("an offer of other terms than those that were answered", SERVER)
    digest = terms.session.digest
    return replace(state, phases={**state.phases, digest: AwaitingEdge(terms)}), (
        Send(Envelope(digest, state.me, SERVER, said.clouds)),
    )


def _meet(state: PairingClient, phase: AwaitingKey, shown: PairKey) -> tuple[PairingClient, tuple[Effect, ...]]:
    """Step 2: the other's key is checked against its identity, and the pair has a secret."""
    terms, me = phase.terms, state.me
    peer, digest = terms.peer(me), terms.session.digest
    try:
        verify(state.enrolled[peer], shown.signature, KEY, terms.binding, shown.public)
    except BadSignature:
        raise ProtocolError(f"the key shown for client {peer} is not signed by it for this pair", SERVER) from None
    try:
        secret = agreed(phase.key, shown.public, terms, me)
    except UnusableKey:
        raise ProtocolError("a key that nothing can be agreed on with", peer) from None
    if terms.weights == 0:
        return _release(state, terms, secret, None)
    weights = np.zeros(0, np.float32) if state.weights is None else state.weights  # of the right size, as was checked
    sealed = SealedEmbedding(sealed_chunks(secret, terms, MODEL, me, to_bytes(weights)))
    phases = {**state.phases, digest: Meeting(terms, secret)}
    return replace(state, phases=phases), (Send(Envelope(digest, me, SERVER, sealed)),)


def _model(phase: Meeting, me: int, sealed: SealedEmbedding) -> Vector:
    weights = _unsealed(phase.secret, phase.terms, MODEL, me, sealed.chunks, phase.terms.weights)
    if not np.isfinite(weights).all():
        raise ProtocolError("an embedding model that is not finite", phase.terms.peer(me))
    return weights


def _unsealed(secret: bytes, terms: PairTerms, label: str, me: int, chunks: tuple[bytes, ...], floats: int) -> Vector:
    sender, what = terms.peer(me), "embedding model" if label == MODEL else "cloud"
    try:
        return opened_chunks(secret, terms, label, sender, chunks, floats)
    except InvalidSeal:
        raise ProtocolError(f"the sealed {what} of client {sender} does not open", SERVER) from None
    except ValueError as error:
        raise ProtocolError(f"a sealed {what} that is {error}", SERVER) from None


def _release(
    state: PairingClient, terms: PairTerms, secret: bytes, others: Vector | None
) -> tuple[PairingClient, tuple[Effect, ...]]:
    """Step 3: count the answer, then release, or show the other. A client whose budget does not allow it says so."""
    digest, me = terms.session.digest, state.me
    once = terms.session.protocol == ONCE
    if not once:
        _check_open(state, terms)  # another session may have been open at the same time
    own = state.weights if terms.embedding != "public" else None
    message: PairClouds | SealedCloud
    phase: Phase = AwaitingEdge(terms)
    try:
        if terms.released == "distances":
            shown = to_bytes(state.computer.show(terms, own, others))
            message, phase = SealedCloud(sealed_chunks(secret, terms, CLOUD, me, shown)), Showing(terms, secret, others)
        else:
            found = state.computer.release(terms, secret, own, others)
            other = b"" if found.other is None else to_bytes(found.other)
            message = PairClouds(to_bytes(found.own), other, struct.pack(">d", found.reference))
    except BudgetExceeded as error:
        declined = Declined(str(error)[:MOST_REASON])
        return replace(state, phases=_without(state, digest)), (Send(Envelope(digest, me, SERVER, declined)),)
    except Unusable:
        raise ProtocolError("an embedding model that embeds to what is not finite", terms.peer(me)) from None
    phases, send = {**state.phases, digest: phase}, Send(Envelope(digest, me, SERVER, message))
    if once and isinstance(message, PairClouds):
        said = AnswerForAll(terms.session.round, terms.projection_context, message)
        group = () if state.group is None else (Persist(GROUP, state.group),)  # without which it would not say it again
        return replace(state, said=said, phases=phases), (*group, Persist(SAID, said_entry(said)), send)
    peer = terms.peer(me)
    count = state.spent.get(peer, 0) + 1
    stored = Persist(spent_key(peer), spent_entry(count))
    return replace(state, spent={**state.spent, peer: count}, phases=phases), (stored, send)


def _report(state: PairingClient, phase: Showing, shown: SealedCloud) -> tuple[PairingClient, tuple[Effect, ...]]:
    """Step 3 where clients measure: the distance to what the other has shown, and tau."""
    terms, me, digest = phase.terms, state.me, phase.terms.session.digest
    theirs = _unsealed(phase.secret, terms, CLOUD, me, shown.chunks, terms.rows * terms.d)
    if not usable(theirs):
        raise ProtocolError("a cloud that is not finite, or too large to compare", terms.peer(me))
    own = state.weights if terms.embedding == "exchanged" else None
    found = state.computer.report(terms, own, phase.others, theirs.reshape(terms.rows, terms.d))
    message = PairDistance(struct.pack(">d", found.distance), struct.pack(">d", found.reference))
    phases = {**state.phases, digest: AwaitingEdge(terms)}
    return replace(state, phases=phases), (Send(Envelope(digest, me, SERVER, message)),)
