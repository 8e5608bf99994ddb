"""Every client in a process of its own: a run answers what it answers in one process, and only bytes go between parties."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from cloister.crypto.entropy import KeptEntropy, OsEntropy
from cloister.crypto.orthonormal import Permutation
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.drivers.journal import InFile
from cloister.protocol.messages import decode
from cloister.protocol.uploaded.clients import transforming_clients
from cloister.protocol.view.answers import Assignment, Model, Sum, Weights
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalWork
from cloister.protocol.wire.codec import encode
from cloister.protocol.work.away import Processes
from cloister.protocol.work.driving import Driven

D = 12
RUN = bytes(range(16))
INITIAL = np.random.default_rng(0).standard_normal(D).astype(np.float32)
MEMBERS = (0, 2, 3, 5)
PROTECTIONS = [
    Plain(),
    Permuted(),
    Permuted(keys="session"),
    Masked(floor=2),
    Masked(keys="run", floor=2),
    TwoServer(),
    Encrypted(),
]


def update_of(client: int, round: int) -> np.ndarray:
    return np.random.default_rng([client, round]).standard_normal(D).astype(np.float32) / 4


def workers(only, jobs):
    """The computers of these clients, which know no other's data."""
    for job in jobs:
        assert job.client in only
        yield job.client, LocalWork(update_of(job.client, job.round), 10 + job.client)


def judge(offer):
    return offer.client % len(offer.models)


def mine(client):
    """What a client's process begins with."""
    return Setup(RUN, INITIAL, MEMBERS, partial(workers, (client,)), OsEntropy(), judge=judge)


def nobody(jobs):
    raise AssertionError("the server's process was asked to do a client's work")


@pytest.fixture
def processes():
    found = Processes(mine, MEMBERS)
    yield found
    found.stop()


def opened(protection, processes, tap=None):
    """A view whose clients are here, or each in a process of its own; nothing of their data is in this one then."""
    here = Setup(RUN, INITIAL, MEMBERS, partial(workers, MEMBERS), OsEntropy(), tap, judge)
    there = Setup(RUN, INITIAL, MEMBERS, nobody, OsEntropy(), tap, nobody, hosts=processes)
    return protection.open(here if processes is None else there)


def played(protection, processes, tap=None):
    """Two rounds, in which everything simple is asked; the answers."""
    view, model, answers = opened(protection, processes, tap), Model("init"), {}
    for round in (0, 1):
        updates = view.train(round, {"root": Assignment(model, MEMBERS, MEMBERS)})["root"]
        answers["clients", round] = updates.clients
        if Functionality.GRAM in protection.gives:
            gram = view.gram(updates)
            answers["gram", round] = gram.clients, gram.matrix, gram.tolerance
        if not (isinstance(protection, Masked) and protection.keys == "run"):
            mean = view.sums(updates, {"m": Weights(dict.fromkeys(MEMBERS, 1.0))})["m"]
            assert isinstance(mean, Sum)
            answers["sum", round] = mean.clients, mean.weight
            before, model = model, view.advance(model, mean)
            answers["choice", round] = view.choose(round, {"old": before, "new": model}, MEMBERS)
            answers["model", round] = view.harness.observe(model)
        view.harness.retire([Model("init"), model], [])
    return view, answers


@pytest.mark.parametrize("protection", PROTECTIONS, ids=repr)
@pytest.mark.long
def test_answers_are_those_of_one_process(protection, processes):
    (here, expected), (there, found) = played(protection, None), played(protection, processes)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        if key[0] == "gram":
            assert found[key][0] == value[0]
            exact = np.stack([update_of(i, key[1]) for i in value[0]]).astype(float)
            exact -= exact.mean(0)
            norms = np.sqrt(max(np.diag(exact @ exact.T)))
            assert np.abs(found[key][1] - exact @ exact.T).max() <= 6 * found[key][2] * norms**2 + 1e-4
        elif key[0] == "model":
            assert np.allclose(found[key], value, atol=1e-4)
        else:
            assert found[key] == value, key
    assert not there.record.faults
    assert there.record.log == here.record.log
    assert here.record.traffic.messages == there.record.traffic.messages


@pytest.mark.long
def test_of_clients_in_processes_of_their_own_one_that_is_sent_another_model_is_out(processes):
    def tap(frame):
        if (frame.kind, frame.receiver) != ("Task", 3):
            return [frame]
        envelope = decode(frame.data, frame.sender, 1 << 20)
        return [replace(frame, data=encode(replace(envelope, message=replace(envelope.message, vector=bytes(4 * D)))))]

    view = opened(TwoServer(), processes, tap)
    updates = view.train(0, {"root": Assignment(Model("init"), MEMBERS, MEMBERS)})["root"]
    assert updates.clients == (0, 2, 5)
    mean = view.sums(updates, {"m": Weights(dict.fromkeys(MEMBERS, 1.0))})["m"]
    assert mean.clients == (0, 2, 5)
    assert [fault.blame for fault in view.record.faults] == [3]


def mine_lasting(client):
    """What a client begins with that can be started again."""
    return replace(mine(client), entropy=KeptEntropy())


ANSWERS = {"Upload", "KeyShare", "ExplicitShare", "Ready", "MaskedInput", "RevealedShares", "EncryptedInput"}


def back(killer):
    """Start it again, if it was killed."""
    if killer.killed and not killer.back:
        killer.processes.started[killer.victim].start()
        killer.back = True


def slow(*of):
    return pytest.param(*of, marks=pytest.mark.slow)


class Killer:
    """A tap: when the nth frame of a kind goes from or to a client, its process is killed, and the frame with it."""

    def __init__(self, processes, victim, kind):
        self.processes, self.victim, self.kind = processes, victim, kind
        self.killed = self.back = False
        self.after = []

    def __call__(self, frame):
        if not self.killed and frame.kind == self.kind and self.victim in (frame.sender, frame.receiver):
            self.processes.started[self.victim].kill()
            self.killed = True
            return []
        if self.back and frame.sender == self.victim:
            self.after.append(frame)
        return [frame]


@pytest.mark.long
@pytest.mark.parametrize(
    ("protection", "kind", "left"),
    [
        (Plain(), "Upload", 3),
        (Permuted(), "Task", 3),
        (TwoServer(), "KeyShare", 3),
        (Masked(floor=2), "Ready", 3),
        slow(Masked(floor=2), "Task", 3),
        slow(Masked(floor=2), "MaskKeys", 3),
        slow(Masked(floor=2), "SealedShares", 3),
        (Masked(floor=2), "MaskedInput", 3),
        slow(Masked(floor=2), "Survivors", 4),
        (Masked(floor=2), "UnmaskRequest", 4),
        slow(Encrypted(), "EncryptedInput", 3),
        (Encrypted(), "EncryptedSum", 4),
    ],
    ids=str,
)
def test_a_client_that_is_killed_goes_on_from_its_journal(protection, kind, left, tmp_path):
    """In the round in which it is killed it says nothing more, also when it is back at once; in the next it is there."""
    processes = Processes(mine_lasting, MEMBERS, tmp_path)
    killer = Killer(processes, 3, kind)
    try:
        view, model = opened(protection, processes, killer), Model("init")
        for round, there in ((0, left), (1, 4)):
            updates = view.train(round, {"root": Assignment(model, MEMBERS, MEMBERS)})["root"]
            back(killer)
            mean = view.sums(updates, {"m": Weights(dict.fromkeys(updates.clients, 1.0))})["m"]
            assert isinstance(mean, Sum), view.record.faults
            assert len(mean.clients) == there
            back(killer)
            assert round or not any(frame.kind in ANSWERS for frame in killer.after)
            before, model = model, view.advance(model, mean)
            moved = view.harness.observe(model) - view.harness.observe(before)
            expected = np.mean([update_of(i, round) for i in mean.clients], axis=0)
            assert np.allclose(moved, expected, atol=1e-3)
            view.harness.retire([Model("init"), model], [])
        assert killer.killed
        assert any(frame.sender == 3 for frame in killer.after)
    finally:
        processes.stop()


def test_of_a_client_whose_process_is_gone_nothing_is_asked_in_vain():
    processes = Processes(mine, MEMBERS)
    try:
        view = opened(Permuted(), processes)
        gone = processes.started[2]
        roles = gone.roles.keys()
        gone.kill()
        assert gone.roles.keys() == roles
        assert gone.model("init") is None
        assert not gone.train_alone(0, "init", None, "mine")
        with pytest.raises(RuntimeError, match="the process of client 2 is gone"):
            view.harness.save()
    finally:
        processes.stop()


def test_a_journal_of_another_client_is_not_gone_on_from(tmp_path):
    processes = Processes(mine_lasting, MEMBERS, tmp_path)
    try:
        opened(Permuted(), processes)
        journal = InFile(tmp_path / "client 3.journal")
        with pytest.raises(
            ValueError,
            match="not the journal of client 2 in this run: it is another client's, or of another run; give the folder",
        ):
            Driven(2, mine_lasting(2), transforming_clients(Permutation), journal)
        assert (tmp_path / "client 3.journal").stat().st_mode & 0o777 == 0o600
    finally:
        processes.stop()
