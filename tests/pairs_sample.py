"""Clients that can be compared, small enough to do by hand: two groups whose embeddings point in different directions."""

from dataclasses import dataclass, replace

import numpy as np

from cloister.crypto.entropy import SimulatedEntropy
from cloister.crypto.identity import SigningKey
from cloister.fl.algorithms.emd_cfl import Tau
from cloister.fl.emd.distances import COSINE, ExactEmd
from cloister.protocol.core.link import Frame
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.drivers.in_process import InProcess
from cloister.protocol.drivers.roles import Party
from cloister.protocol.messages import MESSAGES, decode
from cloister.protocol.pairs.client import PairingClient, peer_step
from cloister.protocol.pairs.noise import Noise
from cloister.protocol.pairs.policy import policy_of
from cloister.protocol.pairs.question import MeasuredDirection, PairQuestion, Released, Reported
from cloister.protocol.pairs.server import Pairing, offer, server_step
from cloister.protocol.pairs.terms import terms_of
from cloister.protocol.view.answers import Assignment, Model
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalWork
from cloister.protocol.wire.codec import encode

RUN = bytes(range(16))
D, ROWS, MODEL, WEIGHTS = 24, 12, 40, 30
CLIENTS = (1, 2, 5, 8)
GROUPS = {1: 0, 2: 1, 5: 0, 8: 1}
TAU = Tau(ExactEmd(COSINE), 2.0)
LIMIT = 1 << 20
NOISE = Noise(clip=4.0, multiplier=1.0, reference_multiplier=1.0, budget=1e6, delta=1e-6)
INITIAL = np.linspace(0.5, 1.5, MODEL).astype(np.float32)


def update_of(client):
    return (0.01 * np.random.default_rng([client, 7]).standard_normal(MODEL)).astype(np.float32)


def workers(jobs):
    for job in jobs:
        yield job.client, LocalWork(update_of(job.client), 10 + job.client)


@dataclass(frozen=True)
class Small:
    """Embedders whose model is a scaling of coordinates: the first D of its weights; the public one scales by 1."""

    d: int = D
    inputs: int = D
    rows: int = ROWS
    by_position: bool = True
    broken: tuple[int, ...] = ()

    def weights_of(self, model):
        return model[:WEIGHTS]

    def examples(self, client, part):
        rng = np.random.default_rng([client, part == "train"])
        centre = np.zeros(D)
        centre[GROUPS[client]] = 3.0
        rows = centre + 0.3 * rng.standard_normal((self.rows, D))
        return rows.astype(np.float32)

    def embed(self, client, part, weights):
        found = self.embed_examples(self.examples(client, part), weights)
        return found * np.float32(np.nan) if client in self.broken else found

    def embed_examples(self, examples, weights):
        return examples if weights is None else examples * weights[:D]

    def sent(self, client, occasion, honest):
        return honest


def by_distance(eps=0.2, seen=None, distance=TAU):
    """A judge that solves every direction exactly; `seen` collects them. eps: in 18 draws those alike had .08, others .29."""

    def judge(directions):
        found = {}
        for d in directions:
            if seen is not None:
                seen[d.client, d.other] = d
            w = d.distance if isinstance(d, MeasuredDirection) else distance(d.source, d.target)
            found[d.client, d.other] = w - d.reference < eps
        return found

    return judge


def all_pairs(clients=CLIENTS):
    return tuple((a, b) for a in clients for b in clients if a < b)


def opened(protection, tap=None, seed=3, embedders=Small()):
    return protection.open(Setup(RUN, INITIAL, CLIENTS, workers, SimulatedEntropy(seed), tap, embedders=embedders))


def ask(view, choice, pairs=None, round=0, judge=None, clients=CLIENTS):
    work = {"all": Assignment(Model("init"), clients, CLIENTS)}
    updates = view.train(round, work)
    question = PairQuestion(all_pairs(clients) if pairs is None else pairs, choice, TAU, judge or by_distance())
    return view.pairs(round, work, updates, question)


def expected(pairs=None):
    """Who accepts whom, by the planted groups."""
    found = {}
    for a, b in all_pairs() if pairs is None else pairs:
        found[a, b] = found[b, a] = GROUPS[a] == GROUPS[b]
    return found


class Ones:
    """A computer that releases ones, shows ones, and reports constants."""

    def release(self, terms, secret, own, others):
        rows = np.ones((terms.released_rows, terms.p), np.float32)
        return Released(rows, rows if terms.both else None, 0.25)

    def show(self, terms, own, others):
        return np.ones((terms.rows, terms.d), np.float32)

    def report(self, terms, own, others, theirs):
        return Reported(float(theirs.mean()), 0.25)


def two(choice, computer=Ones(), round=0, policy=None, seed=3):
    """The terms of a pair of clients 1 and 5, their parties by id, and the identities that everybody knows."""
    entropy = SimulatedEntropy(seed)
    identities = {i: SigningKey.from_secret(entropy.secret(f"identity {i}", 32)) for i in CLIENTS}
    enrolled = {i: identity.public for i, identity in identities.items()}
    weights = WEIGHTS if getattr(choice, "embedding", "") == "exchanged" else 0
    terms = terms_of(Session("pairs", RUN, round, "1-5", (1, 5), 2), choice, Small(), weights)
    own = {i: INITIAL[:WEIGHTS] + i for i in CLIENTS} if weights else dict.fromkeys(CLIENTS)
    policy = policy_of(choice, Small()) if policy is None else policy
    parties = {
        i: Party(i, PairingClient(i, RUN, policy, identities[i], enrolled, entropy, computer, own[i]), peer_step) for i in CLIENTS
    }
    return terms, parties, identities


def play(choice, tap=None, policy=None, change=lambda parties: None):
    """One pair from offer to deadline: the server's end, the clients' parties, and the network."""
    terms, parties, identities = two(choice, policy=policy)
    change(parties)
    network = InProcess(tap, kinds=MESSAGES, max_bytes=LIMIT, record=True)
    server = Party(SERVER, Pairing(terms, {i: k.public for i, k in identities.items()}), server_step)
    opening = ((SERVER, effect) for effect in offer(terms))
    network.run(parties, {terms.session.digest: server}, opening, lambda _: iter(()), lambda *_: None)
    return server.state, parties, network


def tampered(kind, change):
    """A server that changes messages of this kind on their way to clients."""

    def tap(frame: Frame):
        if frame.kind != kind or frame.sender != SERVER:
            return [frame]
        envelope = decode(frame.data, SERVER, LIMIT)
        return [replace(frame, data=encode(replace(envelope, message=change(envelope.message, frame.receiver))))]

    return tap
