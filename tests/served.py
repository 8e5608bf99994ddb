"""A coordinator and clients in threads, over loopback, and the simulation that they are held against."""

import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import LabelSwap
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs import member as members
from cloister.fl.runs.experiment import run
from cloister.fl.runs.joining import join
from cloister.fl.runs.listening import Listening
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.serving import serve
from cloister.protocol import Permuted
from cloister.protocol.links.dialled import Dialled
from cloister.protocol.links.terms import Limits
from cloister.protocol.pki.standing import Standing

from .deployed import authority, of, standing

SMALL = Scenario(
    name="served",
    data=Digits(),
    partition=LabelSwap(clients=4, groups=2, pairs=((1, 7), (3, 8)), shared_test=True),
    model=Mlp(hidden=(8,)),
    training=Training(epochs=1, batch=20, lr=0.1),
    algorithm=FedAvg(by_samples=False),
    protection=Permuted(floor=2),
    rounds=2,
)


@dataclass
class Served:
    """A run that was served. folder: its run folder. home: of clients, by id. ended: what clients' threads ended with."""

    folder: Path
    home: dict[int, Path]
    ended: dict[int, BaseException | None] = field(default_factory=dict)

    def read(self, log):
        return [json.loads(line) for line in (self.folder / log).read_text().splitlines()]

    @property
    def summary(self):
        return json.loads((self.folder / "summary.json").read_text())

    @property
    def link(self):
        return json.loads((self.folder / "link.json").read_text())

    def record(self, client):
        return [json.loads(line) for line in (self.home[client] / "join.jsonl").read_text().splitlines()]

    def model(self, client):
        return load_file(self.home[client] / "model.safetensors")


@contextmanager
def one_at_a_time():
    """What clients compute: PyTorch has one generator for all threads."""
    lock, parties, said = threading.Lock(), members.own_parties, members.Member.said

    def made(*of):
        with lock:
            return parties(*of)

    def answered(member, data):
        with lock:
            return said(member, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(members, "own_parties", made)
        patch.setattr(members.Member, "said", answered)
        yield


def played(scenario, folder, scores=False, silent=(), mine=None, clock=time.time, after=lambda done: None, wait=60.0, own=None,
           least=None, late=(), limits=Limits(patience=60.0)):  # fmt: skip
    """serve and join. silent: clients that do not say how well they predict. mine: the clients' own scenario. clock: the
    coordinator's. after: called with each of its rounds. wait, least: of `Listening`. own: files of clients' own, by id. late:
    clients that come a second after the others. limits: the coordinator's.
    """
    count = scenario.partition.clients if own is None else len(own)
    found = Served(folder / "served", {i: folder / f"client {i}" for i in range(count)})
    threads, keys = [], authority(folder / "pki", count)

    def client(i, port):
        try:
            time.sleep(1.0 if i in late else 0.0)
            link = Dialled(f"127.0.0.1:{port}", standing(keys, i), patience=60.0)
            for _ in join(mine or scenario, link, found.home[i], tells=i not in silent, own=own and own[i]):
                pass
            found.ended[i] = None
        except BaseException as error:  # the test looks at it
            found.ended[i] = error

    def listening(port):
        for i in range(count):
            threads.append(threading.Thread(target=client, args=(i, port), daemon=True))
            threads[-1].start()

    where = Listening("127.0.0.1:0", Standing(of(keys, -1), clock=clock), limits, wait, least, told=listening, scores=scores)
    with one_at_a_time():
        try:
            for done in serve(scenario, found.folder, where):
                after(done)
        finally:
            for thread in threads:
                thread.join(60)
    assert found.ended == dict.fromkeys(range(count)), found.ended
    return found


def simulated(scenario, folder):
    """The same in one process."""
    for _ in run(scenario, folder / "simulated"):
        pass
    return Served(folder / "simulated", {})


def check_same(one, other, tolerance=1e-5):
    """Clusters and scores of every round are those of the other."""
    for mine, theirs in zip(one.read("metrics.jsonl"), other.read("metrics.jsonl"), strict=True):
        assert mine["clusters"] == theirs["clusters"]
        for what in ("accuracy", "loss"):
            assert mine[what].keys() == theirs[what].keys()
            for i, value in theirs[what].items():
                assert abs(mine[what][i] - value) <= tolerance, (what, i, mine[what], theirs[what])


def check_models(one, other, tolerance=1e-5):
    """Each client's own file is the model of its cluster."""
    clusters = other.read("metrics.jsonl")[-1]["clusters"]
    for name, who in clusters.items():
        expected = load_file(other.folder / "models" / f"{name.replace(' ', '-')}.safetensors")
        for i in who:
            found = one.model(i)
            assert found.keys() == expected.keys()
            assert all(np.abs(found[part] - tensor).max() <= tolerance for part, tensor in expected.items())
