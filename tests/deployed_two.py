"""A deployment of two servers for tests: an authority, and a coordinator, second server, dealer and clients as threads."""

import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from safetensors.numpy import load_file

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import LabelSwap
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.joining import join
from cloister.fl.runs.listening import Listening as Served
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.serving import serve
from cloister.protocol import TwoServer
from cloister.protocol.core.session import DEALER, SECOND_SERVER, SERVER
from cloister.protocol.links.dialled import Dialled
from cloister.protocol.links.terms import Limits
from cloister.protocol.pki import office
from cloister.protocol.two_servers.aside import Aside
from cloister.protocol.two_servers.deployed import ListeningAside, dealer, second_server

from .deployed import standing

LIMITS = Limits(greeting=2.0, patience=5.0, at_most=20.0, back=1.0)
scenario = Scenario(
    name="two servers",
    data=Digits(),
    partition=LabelSwap(clients=6, groups=2, pairs=((1, 7), (3, 8)), shared_test=True),
    model=Mlp(hidden=(8,)),
    training=Training(epochs=1, batch=10, lr=0.1),
    algorithm=FedAvg(by_samples=False),
    protection=TwoServer(k=128),
    rounds=3,
)


def authority(folder, clients=6):
    office.init(folder, "tests", clients, ["localhost", "127.0.0.1"], two_servers=True, now=int(time.time()))
    return folder


class Playing:
    """A party in a thread, until it ends. said: what its iterator yielded. ended: what it ended with, True in order."""

    def __init__(self, play):
        self.said, self.ended, self._play = [], None, play
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            for word in self._play:
                self.said.append(word)
            self.ended = True
        except BaseException as error:  # the test looks at it
            self.ended = error

    def wait(self, seconds=60):
        self.thread.join(seconds)
        assert not self.thread.is_alive()
        return self.ended


class Deployment:
    """Threads of one run, whose first server is played by the test itself. ports: of both servers, as soon as they listen."""

    def __init__(self, keys, folder, played=scenario, limits=LIMITS):
        self.keys, self.folder, self.scenario, self.limits = keys, folder, played, limits
        self.ports, self.links, self.parties = {}, {}, {}

    def dialled(self, party, server=SERVER, own=None):
        address = f"127.0.0.1:{self.ports[server]}"
        link = Dialled(address, own or standing(self.keys, party), patience=20, server=server)
        self.links.setdefault(party, []).append(link)
        return link

    def second(self, port=0):
        told = threading.Event()

        def listens(found):
            self.ports[SECOND_SERVER] = found
            told.set()

        where = ListeningAside(f"127.0.0.1:{port}", self.limits, listens)
        link, home = self.dialled(SECOND_SERVER), self.folder / "second"
        found = self.parties[SECOND_SERVER] = Playing(second_server(self.scenario.protection, link, home, where))
        while not told.wait(0.1):
            assert found.ended is None, found.ended
        return found

    def dealer(self):
        aside = Aside(self.dialled(DEALER, SECOND_SERVER))
        play = dealer(self.scenario.protection, self.dialled(DEALER), aside, self.folder / "dealer")
        found = self.parties[DEALER] = Playing(play)
        return found

    def client(self, id):
        aside = Aside(self.dialled(id, SECOND_SERVER))
        play = join(self.scenario, self.dialled(id), self.folder / f"client {id}", aside=aside)
        found = self.parties[id] = Playing(play)
        until = time.monotonic() + 20
        while not aside.link.connections and found.ended is None:  # its model is drawn: torch's generator is one for all threads
            assert time.monotonic() < until
            time.sleep(0.02)
        return found

    def everybody(self, port):
        self.but()(port)

    def serve(self, start=None, wait=30.0, port=0):
        where = Served(f"127.0.0.1:{port}", standing(self.keys, SERVER), self.limits, wait, told=start or self.everybody)
        return serve(self.scenario, self.folder / "served", where)

    def but(self, *away):
        """What begins everybody but these."""

        def start(port):
            self.ports[SERVER] = port
            self.second()
            for party in {DEALER, *range(6)} - set(away):
                self.dealer() if party == DEALER else self.client(party)

        return start

    def stop(self, party):
        """End a party's links, so that it ends."""
        for link in self.links.pop(party, ()):
            link.stop()


@contextmanager
def deployment(keys, folder, **changes):
    found = Deployment(keys, folder, replace(scenario, **changes))
    try:
        yield found
    finally:
        for party in list(found.links):
            found.stop(party)


def models(folder):
    return {path.name: load_file(path) for path in sorted((folder / "models").glob("*.safetensors"))}


def apart(folder, other):
    """How far the models of two runs are from each other at most."""
    here, there = models(folder), models(other)
    assert here.keys() == there.keys()
    return max(float(np.abs(here[name][part] - there[name][part]).max()) for name in here for part in here[name])
