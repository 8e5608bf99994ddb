"""The server of pairs: it relays keys and sealed models that it cannot use, and collects clouds.

Spec: specs/pairs.md. Phases between two clients: Pairing -> BothAnswered or Undecided. For one release a client: CollectingClouds
-> CloudsCollected. A Deadline ends both.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...crypto.identity import BadSignature, verify
from ..core.errors import ProtocolError
from ..core.session import SERVER
from ..drivers.roles import Deadline, Effect, Event, Received, Send
from ..wire.codec import Envelope
from ..work.uploads import from_bytes, usable
from .messages import PairClouds, PairDistance, PairEdge, PairKey, SealedCloud, SealedEmbedding
from .question import Released, Reported
from .terms import KEY, PairTerms

Answer = Released | Reported


@dataclass(frozen=True, slots=True)
class Pairing:
    """The server while the two of a pair agree, exchange and answer.

    enrolled: their identities. models, shown: whose sealed model, and whose sealed cloud, was relayed.
    """

    terms: PairTerms
    enrolled: Mapping[int, bytes] = field(repr=False)
    keys: Mapping[int, PairKey] = field(default_factory=dict, repr=False)
    models: frozenset[int] = frozenset()
    shown: frozenset[int] = frozenset()
    clouds: Mapping[int, Answer] = field(default_factory=dict, repr=False)
    rejected: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BothAnswered:
    """Both have answered."""

    terms: PairTerms
    clouds: Mapping[int, Answer] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Undecided:
    """At least one has not answered. begun: both may have been shown the other's key, so either may have answered.

    rejected: whose answers were not finite, or too large to compare.
    """

    terms: PairTerms
    begun: bool
    answered: tuple[int, ...]
    rejected: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CollectingClouds:
    """The server while clients release one cloud each."""

    terms: PairTerms
    clouds: Mapping[int, Answer] = field(default_factory=dict, repr=False)
    rejected: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CloudsCollected:
    """Who has answered, and who with what cannot be compared."""

    terms: PairTerms
    clouds: Mapping[int, Answer] = field(repr=False)
    rejected: tuple[int, ...]


def offer(terms: PairTerms) -> tuple[Effect, ...]:
    """The server's first move: the offer, to everybody on the roster."""
    return tuple(Send(Envelope(terms.session.digest, SERVER, client, terms.offer)) for client in terms.session.roster)


def tell(terms: PairTerms, edge: bool) -> tuple[Effect, ...]:
    """The server's last move: the edge, to both."""
    return tuple(Send(Envelope(terms.session.digest, SERVER, client, PairEdge(int(edge)))) for client in terms.session.roster)


def server_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The server's role. Raises ProtocolError blaming the client for what is misplaced, repeated, malformed or not signed."""
    match state, event:
        case ((Pairing() | CollectingClouds()), Received(Envelope(sender=client))) if client not in state.terms.session.roster:
            raise ProtocolError("a message from outside the roster", client)
        case Pairing(), Received(Envelope(message=PairKey() as key, sender=client)):
            return _introduce(state, client, key)
        case Pairing(), Received(Envelope(message=SealedEmbedding() as sealed, sender=client)):
            if client in state.models or len(state.keys) < 2 or state.terms.weights == 0:
                raise ProtocolError("an embedding model that is not due", client)
            return replace(state, models=state.models | {client}), (_relayed(state, client, sealed),)
        case Pairing(), Received(Envelope(message=SealedCloud() as cloud, sender=client)):
            if client in state.shown or len(state.keys) < 2 or state.terms.released != "distances":
                raise ProtocolError("a sealed cloud that is not due", client)
            return replace(state, shown=state.shown | {client}), (_relayed(state, client, cloud),)
        case (
            (Pairing() | CollectingClouds()),
            Received(Envelope(message=(PairClouds() | PairDistance()) as answer, sender=client)),
        ):
            if isinstance(state, Pairing) and len(state.keys) < 2:
                raise ProtocolError("an answer before keys", client)
            if client in state.clouds or client in state.rejected:
                raise ProtocolError("a second answer for one pair", client)
            if isinstance(answer, PairDistance) != (state.terms.released == "distances"):
                raise ProtocolError(f"{type(answer).__name__} where {state.terms.released} belong", client)
            found = _distance(answer) if isinstance(answer, PairDistance) else _clouds(state.terms, client, answer)
            if found is None:
                return replace(state, rejected=(*state.rejected, client)), ()
            return replace(state, clouds={**state.clouds, client: found}), ()
        case Pairing(), Deadline():
            if len(state.clouds) == 2:
                return BothAnswered(state.terms, dict(sorted(state.clouds.items()))), ()
            begun = len(state.keys) == 2
            return Undecided(state.terms, begun, tuple(sorted(state.clouds)), state.rejected), ()
        case CollectingClouds(), Deadline():
            return CloudsCollected(state.terms, dict(sorted(state.clouds.items())), state.rejected), ()
        case _, Deadline():
            return state, ()
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def _introduce(state: Pairing, client: int, key: PairKey) -> tuple[Pairing, tuple[Effect, ...]]:
    if client in state.keys:
        raise ProtocolError("a second key", client)
    try:
        verify(state.enrolled[client], key.signature, KEY, state.terms.binding, key.public)
    except (BadSignature, KeyError):
        raise ProtocolError("a key that is not signed for this pair by the client it came from", client) from None
    keys = {**state.keys, client: key}
    if len(keys) < 2:
        return replace(state, keys=keys), ()
    digest = state.terms.session.digest
    shown = tuple(Send(Envelope(digest, SERVER, i, keys[state.terms.peer(i)])) for i in state.terms.session.roster)
    return replace(state, keys=keys), shown


def _relayed(state: Pairing, client: int, sealed: SealedEmbedding | SealedCloud) -> Effect:
    return Send(Envelope(state.terms.session.digest, SERVER, state.terms.peer(client), sealed))


def _distance(answer: PairDistance) -> Reported | None:
    """None if one of the numbers is not finite."""
    distance, reference = struct.unpack(">2d", answer.distance + answer.reference)
    return Reported(distance, reference) if np.isfinite([distance, reference]).all() else None


def _clouds(terms: PairTerms, client: int, clouds: PairClouds) -> Released | None:
    """The clouds as matrices; None if they cannot be compared. Raises ProtocolError for other sizes."""
    wanted = (terms.cloud_bytes, terms.cloud_bytes if terms.both else 0)
    if (len(clouds.own), len(clouds.other)) != wanted:
        raise ProtocolError(
            f"clouds of {len(clouds.own)} and {len(clouds.other)} bytes where {wanted[0]}, {wanted[1]} belong", client
        )
    (reference,) = struct.unpack(">d", clouds.reference)
    vectors = [from_bytes(data) for data in (clouds.own, clouds.other) if data]
    if not (np.isfinite(reference) and all(map(usable, vectors))):
        return None
    own, *other = (vector.reshape(terms.released_rows, terms.p) for vector in vectors)
    return Released(own, other[0] if other else None, reference)
