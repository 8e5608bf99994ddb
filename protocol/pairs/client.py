"""The client of pairs: it agrees on a secret with another client, shows it its embedding model, and releases its clouds.

Spec: specs/pairs.md. A client is in many such sessions at once. Phases of one: Offered -> Meeting -> Answered, without Meeting
where embedding models are public; a Deadline ends all of them. A pair is stored as spent before anything is released to the
server, and a client releases nothing for a pair twice.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...crypto.agreement import AgreementKey, UnusableKey
from ...crypto.entropy import Entropy
from ...crypto.envelope import open_sealed, seal
from ...crypto.identity import BadSignature, Identity, verify
from ...crypto.prg import derive_key
from ...crypto.sealing import InvalidSeal
from ..answers import Vector
from ..errors import ProtocolError
from ..ledger import BudgetExceeded
from ..messages import Envelope
from ..roles import Deadline, Effect, Event, Persist, Received, Send
from ..session import SERVER
from ..uploads import from_bytes, to_bytes
from .messages import CHUNK_BYTES, PairClouds, PairEdge, PairKey, PairOffer, SealedEmbedding
from .terms import ONCE, PROTOCOL, PairPolicy, PairTerms, Released

KEY = "pair key"
"""What signatures are for."""

Compute = Callable[[PairTerms, bytes, Vector | None, Vector | None], Released]
"""A client's own computer: what it releases on these terms, under the projection of this 32-byte secret, by its own embedding
model and by the other's. Spends its budget. Raises BudgetExceeded, and then nothing was released."""


@dataclass(frozen=True, slots=True)
class Offered:
    """A client that has shown its key, and waits for the other's."""

    terms: PairTerms
    key: AgreementKey


@dataclass(frozen=True, slots=True)
class Meeting:
    """A client that has sent its embedding model, and waits for the other's. secret: the pair's, 32 bytes."""

    terms: PairTerms
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Answered:
    """A client that has released its clouds, and waits for the edge."""

    terms: PairTerms


Phase = Offered | Meeting | Answered


@dataclass(frozen=True, slots=True)
class Peer:
    """A client and its sessions by digest. enrolled: the identities of all clients, known beforehand.

    weights: its own embedding model of this round, None for the public one. group: a secret that all clients of the run share, or
    None. spent: the clients that it has released clouds for, itself among them if it has released some for all; as persisted.
    edges: what it was told.
    """

    me: int
    run: bytes
    policy: PairPolicy
    identity: Identity
    enrolled: Mapping[int, bytes] = field(repr=False)
    entropy: Entropy = field(repr=False)
    compute: Compute = field(repr=False)
    weights: Vector | None = field(default=None, repr=False)
    group: bytes | None = field(default=None, repr=False)
    spent: frozenset[int] = frozenset()
    edges: Mapping[int, bool] = field(default_factory=dict)
    phases: Mapping[bytes, Phase] = field(default_factory=dict)


def peer_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The client's role. Raises ProtocolError for messages against its policy, out of order or not what they should be."""
    match state, event:
        case _, Received(Envelope(sender=sender)) if sender != SERVER:
            raise ProtocolError("a message that is not the server's", sender)
        case Peer(), Deadline():
            return replace(state, phases={}), ()
        case Peer(), Received(Envelope(message=PairOffer() as offer, session=digest)):
            return _take(state, digest, offer)
        case Peer(), Received(Envelope(message=message, session=digest)):
            match state.phases.get(digest), message:
                case Offered() as phase, PairKey():
                    return _meet(state, phase, message)
                case Meeting() as phase, SealedEmbedding():
                    peer = phase.terms.peer(state.me)
                    return _release(state, phase.terms, phase.secret, _opened(phase, peer, state.me, message))
                case Answered(terms=terms), PairEdge(edge):
                    told = {} if terms.session.protocol == ONCE else {terms.peer(state.me): bool(edge)}
                    return replace(state, edges={**state.edges, **told}, phases=_without(state, digest)), ()
                case found, _:
                    place = "no session of this kind" if found is None else type(found).__name__
                    raise ProtocolError(f"{type(message).__name__} is out of place at {place}", SERVER)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def _without(state: Peer, digest: bytes) -> dict[bytes, Phase]:
    return {other: phase for other, phase in state.phases.items() if other != digest}


def _take(state: Peer, digest: bytes, offer: PairOffer) -> tuple[Peer, tuple[Effect, ...]]:
    """Step 1: check the offer, and advertise a key; or answer at once, where no secret of a pair is needed."""
    try:
        terms = PairTerms.offered(offer)
    except ValueError as error:
        raise ProtocolError(f"an offer that cannot be: {error}", SERVER) from None
    session = terms.session
    once = session.protocol == ONCE
    problems = {
        "an offer under another session's digest": session.digest != digest,
        "an offer of another protocol": session.protocol not in (PROTOCOL, ONCE),
        "an offer of another run": session.run != state.run,
        "an offer for others": state.me not in session.roster,
        "an offer with a client that is not enrolled": any(i not in state.enrolled for i in session.roster),
        "an offer taken already": digest in state.phases,
        "an offer of one release for all without a secret of all": once and terms.released != "samples" and state.group is None,
    }
    reason = next((reason for reason, found in problems.items() if found), None) or state.policy.refusal(terms)
    if reason is not None:
        raise ProtocolError(reason, SERVER)
    if (state.me if once else terms.peer(state.me)) in state.spent:
        raise ProtocolError("an offer for a pair already answered", SERVER)
    if once:
        return _release(state, terms, state.group or bytes(32), None)
    if terms.weights > 0 and (state.weights is None or len(state.weights) != terms.weights):
        raise ProtocolError("an embedding model of another size is asked for", SERVER)
    secret = state.entropy.secret(f"pair key {state.me} {terms.binding.hex()}", 32)
    key = AgreementKey(derive_key(secret, "pair key", terms.binding))
    shown = PairKey(key.public, state.identity.sign(KEY, terms.binding, key.public))
    phases = {**state.phases, digest: Offered(terms, key)}
    return replace(state, phases=phases), (Send(Envelope(digest, state.me, SERVER, shown)),)


def _meet(state: Peer, phase: Offered, shown: PairKey) -> tuple[Peer, tuple[Effect, ...]]:
    """Step 2: the other's key is checked against its identity, and the pair has a secret."""
    terms, me = phase.terms, state.me
    peer, digest = terms.peer(me), terms.session.digest
    try:
        verify(state.enrolled[peer], shown.signature, KEY, terms.binding, shown.public)
    except BadSignature:
        raise ProtocolError(f"the key shown for client {peer} is not signed by it for this pair", SERVER) from None
    publics = (phase.key.public, shown.public) if me < peer else (shown.public, phase.key.public)
    try:
        (secret,) = phase.key.agree([(shown.public, terms.binding + publics[0] + publics[1])], "pair")
    except UnusableKey:
        raise ProtocolError("a key that nothing can be agreed on with", peer) from None
    if terms.weights == 0:
        return _release(state, terms, secret, None)
    weights = np.zeros(0, np.float32) if state.weights is None else state.weights  # of the right size, as was checked
    sealed = SealedEmbedding(sealed_chunks(secret, terms, me, to_bytes(weights)))
    phases = {**state.phases, digest: Meeting(terms, secret)}
    return replace(state, phases=phases), (Send(Envelope(digest, me, SERVER, sealed)),)


def sealed_chunks(secret: bytes, terms: PairTerms, sender: int, content: bytes) -> tuple[bytes, ...]:
    """The content in chunks of at most CHUNK_BYTES, each sealed under a key of its own: place and number are in the key."""
    pieces = [content[at : at + CHUNK_BYTES] for at in range(0, len(content), CHUNK_BYTES)]
    return tuple(
        seal(_chunk_key(secret, terms, sender, at, len(pieces)), piece, terms.binding) for at, piece in enumerate(pieces)
    )


def _chunk_key(secret: bytes, terms: PairTerms, sender: int, at: int, count: int) -> bytes:
    place = b"".join(number.to_bytes(4, "big") for number in (sender, at, count))
    return derive_key(secret, "pair embedding", terms.binding + place)


def _opened(phase: Meeting, sender: int, me: int, sealed: SealedEmbedding) -> Vector:
    terms, count = phase.terms, len(sealed.chunks)
    if sum(len(chunk) - 16 for chunk in sealed.chunks) != 4 * terms.weights:
        raise ProtocolError(f"a sealed embedding model that is not {4 * terms.weights} bytes long", SERVER)
    try:
        opened = b"".join(
            open_sealed(_chunk_key(phase.secret, terms, sender, at, count), chunk, terms.binding)
            for at, chunk in enumerate(sealed.chunks)
        )
    except InvalidSeal:
        raise ProtocolError(f"the sealed embedding model of client {sender} does not open", SERVER) from None
    weights = from_bytes(opened)
    if not np.isfinite(weights).all():
        raise ProtocolError("an embedding model that is not finite", sender)
    return weights


def _release(state: Peer, terms: PairTerms, secret: bytes, others: Vector | None) -> tuple[Peer, tuple[Effect, ...]]:
    """Step 3: spend the pair, then release. A client whose budget does not allow it is silent."""
    digest = terms.session.digest
    partner = state.me if terms.session.protocol == ONCE else terms.peer(state.me)
    try:
        found = state.compute(terms, secret, state.weights if terms.embedding == "exchanged" else None, others)
    except BudgetExceeded:
        return replace(state, phases=_without(state, digest)), ()
    other = b"" if found.other is None else to_bytes(found.other)
    clouds = PairClouds(to_bytes(found.own), other, struct.pack(">d", found.reference))
    spent = Persist(f"pair {partner} spent", b"\1")
    after = replace(state, spent=state.spent | {partner}, phases={**state.phases, digest: Answered(terms)})
    return after, (spent, Send(Envelope(digest, state.me, SERVER, clouds)))
