"""Clients' embeddings as the observer has them of a comparison: clouds, and with a corrupt client what projects and embeds them.

Whoever holds the pair's secret has its projection and opens what the other client sealed; where all clients share one secret, any
of them has the projection of all (`protocol.pairs`).
"""

import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from ...crypto.agreement import AgreementKey
from ...crypto.sealing import InvalidSeal
from ...protocol.pairs.client import agreed
from ...protocol.pairs.messages import PairClouds, PairDistance, PairKey, PairOffer, SealedCloud, SealedEmbedding
from ...protocol.pairs.projection import drawn
from ...protocol.pairs.question import Rows
from ...protocol.pairs.sealing import CLOUD, MODEL, opened_chunks
from ...protocol.pairs.terms import ONCE, PairTerms
from ...protocol.view.answers import Vector
from .reading import messages
from .view import CorruptView, Matrix


@dataclass(frozen=True, slots=True, eq=False)
class Cloud:
    """What a client released of its training sample: rows, float32 (n, p), or the one row of a mean.

    projection: float64 (d, p), None if the observer lacks it. model: the embedding model that they are by, where a corrupt client
    was sent it. by: whose that is; of no meaning where it is public.
    """

    client: int
    terms: PairTerms
    rows: Rows = field(repr=False)
    projection: Matrix | None = field(default=None, repr=False)
    model: Vector | None = field(default=None, repr=False)
    by: int = 0


def terms_of(view: CorruptView) -> dict[bytes, PairTerms]:
    """What clients were offered, by the session's digest."""
    return {envelope.session: PairTerms.offered(envelope.message) for _, envelope in messages(view, PairOffer)}


def secrets_of(view: CorruptView, terms: dict[bytes, PairTerms]) -> dict[bytes, bytes]:
    """Of sessions in which a corrupt client is, or all clients' secret: 32 bytes by digest."""
    seed = next((held.pair_seed for held in view.held.values() if held.pair_seed), b"")
    found = {digest: seed for digest, of in terms.items() if seed and of.session.protocol == ONCE}
    for frame, envelope in messages(view, PairKey):
        me, digest = frame.receiver, envelope.session
        if me in view.held and digest in view.held[me].pair_keys:
            found[digest] = agreed(AgreementKey(view.held[me].pair_keys[digest]), envelope.message.public, terms[digest], me)
    return found


def clouds(view: CorruptView) -> Iterator[Cloud]:
    """Those of clients that are not corrupt, in order: what the server was sent, and what a corrupt client was shown."""
    terms = terms_of(view)
    secrets = secrets_of(view, terms)
    models = _opened(view, SealedEmbedding, MODEL, terms, secrets)
    for frame, envelope in messages(view, PairClouds):
        of, client = terms[envelope.session], frame.sender
        if client in view.observer.clients:
            continue
        secret = secrets.get(envelope.session)
        projection = np.eye(of.d) if of.projection == "none" else None if secret is None else drawn(of, secret)
        rows = np.frombuffer(envelope.message.own, "<f4").reshape(of.released_rows, of.p)
        yield Cloud(client, of, rows, projection, models.get((envelope.session, client)), client)
    for (digest, client), shown in _opened(view, SealedCloud, CLOUD, terms, secrets).items():
        of = terms[digest]
        if of.target == "train":
            yield Cloud(client, of, shown.reshape(of.rows, of.d), np.eye(of.d), None, of.peer(client))


def models_shown(view: CorruptView) -> dict[tuple[int, int], Vector]:
    """Embedding models that corrupt clients were shown, float32, by round and client whose they are."""
    terms = terms_of(view)
    found = _opened(view, SealedEmbedding, MODEL, terms, secrets_of(view, terms))
    return {(terms[digest].session.round, client): weights for (digest, client), weights in found.items()}


def reported(view: CorruptView) -> dict[tuple[int, int], tuple[float, float]]:
    """What the server was told where clients measure: the distance and tau, by (client, other)."""
    terms, found = terms_of(view), dict[tuple[int, int], tuple[float, float]]()
    for frame, envelope in messages(view, PairDistance):
        message, peer = envelope.message, terms[envelope.session].peer(frame.sender)
        found[frame.sender, peer] = struct.unpack(">2d", message.distance + message.reference)
    return found


def _opened(
    view: CorruptView, kind: type, label: str, terms: dict[bytes, PairTerms], secrets: dict[bytes, bytes]
) -> dict[tuple[bytes, int], Vector]:
    """What honest clients sealed for corrupt ones, float32, by session and client."""
    found = {}
    for frame, envelope in messages(view, kind):
        digest, me = envelope.session, frame.receiver
        if me in view.held and digest in secrets:
            of = terms[digest]
            sender = of.peer(me)
            floats = of.weights if label == MODEL else of.rows * of.d
            if sender in view.observer.clients:
                continue
            with suppress(InvalidSeal):  # what a network spoilt opens for nobody
                found[digest, sender] = opened_chunks(secrets[digest], of, label, sender, envelope.message.chunks, floats)
    return found
