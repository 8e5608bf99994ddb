"""A deployment for tests: an authority, folders of keys, and masked sums over gRPC; clients are threads, and train nothing."""

import os
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import cbor2
import numpy as np

from cloister.crypto.entropy import KeptEntropy, OsEntropy
from cloister.fl.runs.greeting import Greeting, listed_of
from cloister.protocol import Masked
from cloister.protocol.drivers.journal import InMemory
from cloister.protocol.links.dialled import Dialled
from cloister.protocol.links.listener import Listener
from cloister.protocol.links.terms import Limits
from cloister.protocol.masked.clients import masking_clients
from cloister.protocol.pki import office, private_keys
from cloister.protocol.pki.certificates import issue, pem
from cloister.protocol.pki.names import name_of
from cloister.protocol.pki.party import Credentials
from cloister.protocol.pki.standing import Standing
from cloister.protocol.view.answers import Assignment, Model, Sum, Weights
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalWork
from cloister.protocol.work.driving import Driven
from cloister.protocol.work.linked import Linked
from cloister.protocol.work.said import said

D = 12
DRAWN = bytes(range(16))
INITIAL = np.zeros(D, np.float32)
HOW = Masked(floor=2)
QUICK = Limits(greeting=2.0, patience=5.0, at_most=10.0, back=1.0)


def authority(folder: Path, clients: int) -> Path:
    """Of parties whose keys are all made here."""
    office.init(folder, "tests", clients, ["localhost", "127.0.0.1"], two_servers=False, now=int(time.time()))
    return folder


def of(folder: Path, party: int) -> Path:
    """A party's own folder."""
    return folder / "parties" / name_of(party)


def standing(folder: Path, party: int) -> Standing:
    return Standing(of(folder, party))


def unlisted(folder: Path, party: int, now: int, days: int = 1) -> Credentials:
    """A certificate that the authority signs, for so long, and does not list."""
    found = office.opened(folder, int(time.time()), 1, private_keys.none)
    key = private_keys.new_key()
    certificate = issue(found.authority.certificate, found.key, party, key.public_key(), [], now, days)
    return Credentials(standing(folder, 0).credentials().authority, pem(certificate), private_keys.pem_of(key))


def update_of(client: int, round: int) -> np.ndarray:
    return np.random.default_rng([client, round]).standard_normal(D).astype(np.float32) / 4


def workers(client, jobs):
    for job in jobs:
        assert job.client == client
        yield job.client, LocalWork(update_of(job.client, job.round), 10)


def nobody(jobs):
    raise AssertionError("a coordinator was asked to do a client's work")


def driven_by(greeting, own, journal=None):
    """A client that has been greeted. own: its standing, or None."""
    told = Greeting.of(greeting)
    run, listed = listed_of(told, own)
    setup = Setup(run, INITIAL, told.clients, partial(workers, told.client), KeptEntropy())
    return Driven(told.client, setup, masking_clients(HOW), journal or InMemory(), listed)


def greeting(drawn, clients, client):
    return cbor2.dumps([client, drawn, list(clients), [1, 3, 4], 2, bytes(32), repr(HOW), {}])


@dataclass
class Member:
    """A client in a thread. ended: what its link ended with. refused: what it refused."""

    link: Dialled
    own: Standing | None
    drive: object = driven_by
    ended: BaseException | None = None
    refused: list = field(default_factory=list)
    thread: threading.Thread = None

    def start(self):
        self.thread = threading.Thread(target=self._play, daemon=True)
        self.thread.start()
        return self

    def _play(self):
        try:
            driven = self.drive(self.link.start(), self.own)
            for number, data in self.link.words():
                answer = said(driven, data)
                self.refused += answer.refused
                self.link.answer(number, answer.data)
        except Exception as error:  # the test looks at it
            self.ended = error


class Coordinator:
    """listener, view, members; `round` plays one and checks its sum."""

    def __init__(self, listener, members, clients, own, drawn):
        self.listener, self.members, self.clients = listener, members, clients
        self.run = own.directory.run_of(drawn)
        self.hosts = Linked(listener, clients, own.directory.enrolled(clients))
        self.played = 0

    def begin(self):
        assert self.listener.wait_for(len(self.clients), 20) == self.clients
        setup = Setup(self.run, INITIAL, self.clients, nobody, OsEntropy(), hosts=self.hosts)
        self.view = HOW.open(setup)
        return self

    def round(self):
        """A round; who is in its sum, which is the right one."""
        t, self.played = self.played, self.played + 1
        updates = self.view.train(t, {"root": Assignment(Model("init"), self.clients, self.clients)})["root"]
        mean = self.view.sums(updates, {"m": Weights(dict.fromkeys(updates.clients, 1.0))})["m"]
        assert isinstance(mean, Sum)
        found = self.view.harness.observe(self.view.advance(Model("init"), mean))
        assert np.allclose(found, np.mean([update_of(i, t) for i in mean.clients], 0), atol=1e-4)
        return mean.clients


@contextmanager
def deployed(folder, clients=(0, 1, 2, 3), limits=QUICK, owns=None, dial=Dialled, own=None, drive=driven_by):
    """A coordinator, and a client in a thread for each. owns, own: the clients' and the coordinator's standings, where they are
    not those of their folders. drive: what makes a client that was greeted.
    """
    own, drawn = own or standing(folder, -1), os.urandom(16)
    listener = Listener("127.0.0.1:0", clients, partial(greeting, drawn, clients), own, limits)
    listener.start()
    owns = {i: standing(folder, i) for i in clients} | (owns or {})
    members = {i: Member(dial(f"127.0.0.1:{listener.port}", owns[i], patience=20), owns[i], drive).start() for i in clients}
    try:
        yield Coordinator(listener, members, clients, own, drawn)
    finally:
        listener.stop()
        for member in members.values():
            member.link.stop()
