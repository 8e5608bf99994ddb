"""The test vectors of pairs (specs/pairs.md), written by make_vectors.py.

Secrets come from SimulatedEntropy and the labels named in the files. What clients release here are constants, so that no rounding
is in the bytes; projections are given as decimals.
"""

from dataclasses import fields, replace

import numpy as np

from cloister.crypto.agreement import AgreementKey
from cloister.crypto.entropy import SimulatedEntropy
from cloister.crypto.identity import SigningKey
from cloister.crypto.prg import derive_key
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.drivers.in_process import InProcess
from cloister.protocol.drivers.roles import Party
from cloister.protocol.messages import MESSAGES, decode
from cloister.protocol.pairs.client import PairingClient, peer_step
from cloister.protocol.pairs.messages import PairKey
from cloister.protocol.pairs.policy import PairPolicy
from cloister.protocol.pairs.projection import drawn
from cloister.protocol.pairs.question import Released, Reported
from cloister.protocol.pairs.server import BothAnswered, Pairing, offer, server_step
from cloister.protocol.pairs.terms import KEY, ONCE, PROTOCOL, PairTerms
from cloister.protocol.wire.codec import Envelope, encode

SEED = 2025
ENTROPY = SimulatedEntropy(SEED)
RUN = bytes(range(16))
LIMIT = 1 << 16
PAIR = (1, 5)
WEIGHTS = {i: np.array([i, -0.5, 0.25, 2.0], np.float32) for i in PAIR}


def terms_of_pair(projection="gaussian rows"):
    session = Session(PROTOCOL, RUN, 3, "1-5", PAIR, 2)
    return PairTerms(session, "clouds", projection, "exchanged", "train", "projected", 4, 3, 2, 4)


class Constants:
    """A computer that releases the client's first weight as its own cloud, the other's as the other."""

    def release(self, terms, secret, own, others):
        shape = (terms.rows, terms.p)
        return Released(np.full(shape, own[0], np.float32), np.full(shape, others[0], np.float32), float(own[0]) / 16)

    def show(self, terms, own, others):
        return np.outer(np.ones(terms.rows, np.float32), others)

    def report(self, terms, own, others, theirs):
        return Reported(float(theirs.sum()), float(own[0]) / 16)


def play_pair(terms, tamper=None):
    """The exchange with frame number `tamper[0]` replaced by the bytes `tamper[1]` (empty: dropped)."""
    identities = {i: SigningKey.from_secret(ENTROPY.secret(f"identity {i}", 32)) for i in PAIR}
    enrolled = {i: identity.public for i, identity in identities.items()}
    policy = PairPolicy(d=terms.d, inputs=terms.d, rows=terms.rows, released=frozenset({terms.released}))
    parties = {
        i: Party(i, PairingClient(i, RUN, policy, identities[i], enrolled, ENTROPY, Constants(), WEIGHTS[i]), peer_step)
        for i in PAIR
    }

    def tap(frame):
        if tamper is None or frame.number != tamper[0]:
            return [frame]
        return [replace(frame, data=tamper[1])] if tamper[1] else []

    network = InProcess(tap, kinds=MESSAGES, max_bytes=LIMIT, record=True)
    server = Party(SERVER, Pairing(terms, enrolled), server_step)
    opening = ((SERVER, effect) for effect in offer(terms))
    network.run(parties, {terms.session.digest: server}, opening, lambda _: iter(()), lambda *_: None)
    return server.state, network


def agreed(terms):
    """Both one-session keys and the pair's secret."""
    keys = {
        i: AgreementKey(derive_key(ENTROPY.secret(f"pair key {i} {terms.binding.hex()}", 32), KEY, terms.binding)) for i in PAIR
    }
    publics = [keys[i].public for i in PAIR]
    (secret,) = keys[1].agree([(publics[1], terms.binding + publics[0] + publics[1])], "pair")
    return keys, secret


def exchange():
    terms = terms_of_pair()
    _, network = play_pair(terms)
    keys, secret = agreed(terms)
    projections = {name: drawn(terms_of_pair(name), secret) for name in ("gaussian rows", "orthonormal")}
    once = replace(terms, session=Session(ONCE, RUN, 3, "client 1", (1,), 1), embedding="public", weights=0)
    bases = replace(once, released="bases", embedding="own", reference="plain", projection="orthonormal", p=once.d)
    return {
        "entropy_seed": SEED,
        "session": {
            **{f.name: getattr(terms.session, f.name) for f in fields(terms.session) if f.init},
            "digest": terms.session.digest,
        },
        "binding": terms.binding,
        "labels": {str(i): f"pair key {i} {terms.binding.hex()}" for i in PAIR},
        "publics": {str(i): keys[i].public for i in PAIR},
        "secret": secret,
        "projections": {name: [[round(float(x), 6) for x in row] for row in matrix] for name, matrix in projections.items()},
        "projection_context_once": once.projection_context,
        "projection_context_round": bases.projection_context,
        "weights": {str(i): WEIGHTS[i].astype("<f4").tobytes() for i in PAIR},
        "frames": [{"kind": f.kind, "sender": f.sender, "receiver": f.receiver, "bytes": f.data} for f in network.frames],
    }


def measured():
    """An exchange in which the clients measure: what they show each other, and what they report."""
    terms = replace(terms_of_pair(), released="distances", projection="none", p=4, reference="plain")
    _, network = play_pair(terms)
    _, secret = agreed(terms)
    shown = {str(i): Constants().show(terms, None, WEIGHTS[6 - i]).astype("<f4").tobytes() for i in PAIR}
    frames = [f for f in network.frames if f.kind in ("PairOffer", "SealedCloud", "PairDistance")]
    return {
        "entropy_seed": SEED,
        "binding": terms.binding,
        "secret": secret,
        "shown": shown,
        "reported": {str(i): [float(2 * WEIGHTS[i].sum()), float(WEIGHTS[i][0]) / 16] for i in PAIR},
        "frames": [{"kind": f.kind, "sender": f.sender, "receiver": f.receiver, "bytes": f.data} for f in frames],
    }


def broken():
    """Frames changed on their way, with the reason and blame of the fault that follows."""
    terms = terms_of_pair()
    _, network = play_pair(terms)
    frames = {(f.kind, f.sender, f.receiver): f for f in network.frames}
    keys, _ = agreed(terms)
    forger = SigningKey.from_secret(ENTROPY.secret("identity of a stranger", 32))
    shown = frames["PairKey", SERVER, 1]
    mine = AgreementKey(ENTROPY.secret("key of the server", 32))

    def with_key(public, signature):
        return encode(Envelope(terms.session.digest, SERVER, 1, PairKey(public, signature)))

    sealed = frames["SealedEmbedding", SERVER, 5]
    model = decode(sealed.data, SERVER, LIMIT).message
    flipped = replace(model, chunks=(bytes([model.chunks[0][0] ^ 1]) + model.chunks[0][1:],))
    told = frames["PairOffer", SERVER, 5]
    other = replace(terms.offer, target="validation")
    changes = [
        ("a key swapped by the server", shown, with_key(mine.public, forger.sign(KEY, terms.binding, mine.public))),
        ("a key that was signed for nothing", shown, with_key(mine.public, bytes(64))),
        (
            "its own key reflected",
            shown,
            with_key(keys[1].public, decode(frames["PairKey", 1, SERVER].data, 1, LIMIT).message.signature),
        ),
        ("a sealed model with one bit flipped", sealed, encode(Envelope(terms.session.digest, SERVER, 5, flipped))),
        ("other terms for one of the two", told, encode(Envelope(terms.session.digest, SERVER, 5, other))),
    ]
    cases = []
    for name, frame, data in changes:
        state, played = play_pair(terms, (frame.number, data))
        if isinstance(state, BothAnswered) or not played.faults:
            raise ValueError(f"{name} was not found out")
        fault = played.faults[0]
        cases.append({"name": name, "frame": frame.number, "bytes": data, "blame": fault.blame, "reason": fault.reason})
    return cases


FILES = {"pairs/v1/exchange.json": exchange, "pairs/v1/measured.json": measured, "pairs/v1/broken.json": broken}
