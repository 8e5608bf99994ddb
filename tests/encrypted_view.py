"""A view of encryption among five clients whose updates are drawn, and clients of it that lie about the keys that they make."""

import numpy as np
import pytest

from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol import Encrypted
from cloister.protocol.encrypted import client as encrypted_client
from cloister.protocol.view.answers import Assignment, Model, Sum
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalWork

from .encrypted_session import another_key
from .hostile_ckks import parts_of

D = 90
RUN = bytes(range(16))
INITIAL = np.random.default_rng(0).standard_normal(D).astype(np.float32)
MEMBERS = tuple(range(1, 6))


def update_of(client, round=0, kind="update"):
    return np.random.default_rng([client, round, kind == "update"]).standard_normal(D).astype(np.float32) / 2


def samples_of(client):
    return 40 + 7 * client


def workers(jobs):
    for job in jobs:
        yield job.client, LocalWork(update_of(job.client, job.round, job.work), samples_of(job.client))


def open_view(protection=Encrypted(), tap=None, seed=1, work=workers):
    return protection.open(Setup(RUN, INITIAL, MEMBERS, work, SimulatedEntropy(seed), tap))


def root(members=MEMBERS, model="init"):
    return {"root": Assignment(Model(model), members, members)}


def losing(kind, clients):
    return lambda frame: [] if frame.kind == kind and frame.sender in clients else [frame]


def mean_of(view, answer):
    return view.harness.observe(view.advance(Model("init"), answer)).astype(np.float64) - INITIAL


def check(view, answer, weights, round=0):
    """The answer is the weighted mean of the updates of exactly the clients that it names."""
    assert isinstance(answer, Sum)
    assert (answer.recipient, answer.norm) == ("clients", None)
    of = {i: weights[i] for i in answer.clients}
    expected = sum(a * update_of(i, round).astype(np.float64) for i, a in of.items())
    scale = sum(abs(a) * np.linalg.norm(update_of(i, round)) for i, a in of.items())
    total = sum(of.values())
    assert answer.weight == pytest.approx(total, rel=1e-12)
    rounding = 2.0**-23 * (np.linalg.norm(INITIAL) + scale / abs(total))
    allowed = answer.error + answer.tolerance * scale / abs(total) + rounding
    assert np.linalg.norm(mean_of(view, answer) - expected / total) <= allowed
    assert answer.error < 1e-6 * scale / abs(total)


class Lying:
    """A key whose secret bytes are what `how` makes of it."""

    def __init__(self, secret, how):
        self._secret, self._how = secret, how
        self.public_bytes, self.encrypting_bytes = secret.public_bytes, secret.encrypting_bytes

    def under(self, label):
        return Lying(self._secret.under(label), self._how)

    def secret_bytes(self):
        return self._how(self._secret)


def sealing(monkeypatch, makers, how):
    """Clients that make keys whose secret nobody can use. how: of the secret bytes that they should seal, those that they do."""
    honest = encrypted_client.offer

    def offer(seed, name, me, secret):
        if me not in makers:
            return honest(seed, name, me, secret)
        return honest(seed, name, me, Lying(secret, how))

    monkeypatch.setattr(encrypted_client, "offer", offer)


def garbage(secret):
    return b"no key at all"


def of_another(secret):
    """The secret key of other keys, with the public key that belongs to it."""
    return another_key(secret.parameters).secret_bytes()


def put_together(secret):
    """The public key that was sent, and the secret key of others."""
    own, other = (parts_of(key.secret_bytes()) for key in (secret, another_key(secret.parameters)))
    return b"".join([*own[:2], other[2]])
