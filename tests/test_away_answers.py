"""Clients in processes of their own: answers beyond plain sums, and what they keep across rounds and crashes."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from cloister.crypto.entropy import OsEntropy
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.core.session import SERVER
from cloister.protocol.view.answers import Assignment, Model, Sum, Weights
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalWork
from cloister.protocol.work.away import Processes
from cloister.protocol.work.tasks import UNAGREED

from .test_away import INITIAL, MEMBERS, RUN, D, mine_lasting, nobody, update_of, workers

OTHER = INITIAL[::-1].copy()
PROTECTIONS = [Plain(floor=2), Permuted(floor=2), Masked(floor=2, slot_spare=0), TwoServer(floor=2), Encrypted(floor=2)]
CHOICE = {0: 0, 2: 0, 3: 1, 5: 1}
ROOT = {"root": Assignment(Model("init"), MEMBERS, MEMBERS)}


def row_of(client, slot, round):
    return np.random.default_rng([client, slot, round, 7]).uniform(-0.5, 0.5, D).astype(np.float32)


def computer(only, jobs):
    """Slots as a client chooses, other work as in test_away.py."""
    for job in jobs:
        assert job.client in only
        if job.work != "slots":
            yield from workers(only, [job])
            continue
        shares = tuple(int(k == CHOICE[job.client]) for k in range(2))
        rows = np.stack([row_of(job.client, k, job.round) * share for k, share in enumerate(shares)])
        yield job.client, LocalWork(rows.astype(np.float32), 10, shares)


def mine(client):
    return replace(mine_lasting(client), workers=partial(computer, (client,)), others=(OTHER,))


def mine_apart(client):
    return replace(mine(client), starts_apart=True)


@pytest.fixture
def processes(tmp_path):
    found = Processes(mine, MEMBERS, tmp_path)
    yield found
    found.stop()


@pytest.fixture
def processes_apart(tmp_path):
    """Clients that have agreed on starts beside the public model."""
    found = Processes(mine_apart, MEMBERS, tmp_path)
    yield found
    found.stop()


def opened(protection, processes, apart=False):
    setup = Setup(RUN, INITIAL, MEMBERS, nobody, OsEntropy(), None, nobody, others=(OTHER,), hosts=processes, starts_apart=apart)
    return protection.open(setup)


def crash(processes):
    """All clients at once; they are started again from their journals."""
    for client in processes.started.values():
        client.kill()
        client.start()


def moved(view, model, answer):
    """By how much a sum moves a model."""
    return view.harness.observe(view.advance(model, answer)) - view.harness.observe(model)


@pytest.mark.long
@pytest.mark.parametrize("protection", PROTECTIONS, ids=repr)
def test_slots_and_personal_sums(protection, processes):
    view = opened(protection, processes)
    slots = view.slots(0, "models", Assignment(Model("init"), MEMBERS, MEMBERS, (Model("init 1"),)))
    for k, (start, slot) in enumerate(zip(("init", "init 1"), slots, strict=True)):
        assert isinstance(slot, Sum), view.record.faults
        mean = np.mean([row_of(i, k, 0) for i in MEMBERS if CHOICE[i] == k], axis=0)
        assert np.allclose(moved(view, Model(start), slot), mean, atol=1e-3)
    view.harness.retire([Model("init"), Model("init 1")], [])
    if Functionality.PERSONAL_SUMS not in protection.gives:
        return
    updates = view.train(1, ROOT)["root"]
    weights = {i: Weights({j: 2.0 if j == i else 1.0 for j in MEMBERS}) for i in (0, 5)}
    for i, answer in view.personal_sums(updates, weights).items():
        assert isinstance(answer, Sum), view.record.faults
        expected = sum(weights[i].of[j] * update_of(j, 1) for j in MEMBERS) / 5
        assert np.allclose(moved(view, Model("init"), answer), expected, atol=1e-3)


@pytest.mark.long
@pytest.mark.parametrize(
    "protection",
    [Plain(floor=2), Permuted(floor=2), Masked(floor=2, keys="run"), TwoServer(floor=2), Encrypted(floor=2)],
    ids=repr,
)
def test_updates_that_are_remembered(protection, processes):
    view = opened(protection, processes)
    handle = view.remember(view.train(0, ROOT)["root"], (0, 3))
    view.harness.retire([Model("init")], [handle])
    found = view.cosines(view.train(1, ROOT)["root"], handle)
    rows, columns = ([update_of(i, round) for i in who] for round, who in ((1, MEMBERS), (0, (0, 3))))
    exact = [[x @ y / np.linalg.norm(x) / np.linalg.norm(y) for y in columns] for x in rows]
    noisy = isinstance(protection, Masked | Encrypted)  # of six measurements
    assert (np.abs(found) <= 1).all() if noisy else np.allclose(found, exact, atol=1e-3)


@pytest.mark.long
def test_a_split_and_updates_that_clients_keep(processes):
    view = opened(Masked(floor=2), processes)
    split = view.edge(view.train(0, ROOT)["root"], MEMBERS)
    view.harness.retire([Model("init")], [split])
    crash(processes)
    cosines = view.cosines(view.train(1, ROOT)["root"], split)
    assert np.isfinite(cosines).all()
    view.harness.retire([Model("init")], [split])
    kept = view.keep(view.train(2, ROOT)["root"], MEMBERS)
    view.harness.retire([Model("init")], [kept])
    crash(processes)
    assert view.recall(3, [kept]).clients == MEMBERS


def test_clients_that_train_alone_and_start_from_that(processes_apart):
    view = opened(Plain(floor=2), processes_apart, apart=True)
    alone = view.train_alone(0, {i: Model("init") for i in MEMBERS})
    for i, model in alone.items():
        assert np.allclose(view.harness.observe(model), INITIAL + update_of(i, 0))
    view.harness.retire([Model("init"), *alone.values()], [])
    crash(processes_apart)
    work = {"root": Assignment(Model("init"), MEMBERS, MEMBERS, own=alone)}
    mean = view.sums(view.train(1, work)["root"], {"m": Weights(dict.fromkeys(MEMBERS, 1.0))})["m"]
    expected = np.mean([update_of(i, 0) + update_of(i, 1) for i in MEMBERS], axis=0)
    assert np.allclose(moved(view, Model("init"), mean), expected, atol=1e-4)


@pytest.mark.parametrize("protection", [Plain(floor=2), Permuted(floor=2), Masked(floor=2)], ids=lambda p: type(p).__name__)
def test_clients_elsewhere_work_from_no_start_that_they_have_not_agreed_on(protection, processes):
    view = opened(protection, processes, apart=True)
    alone = view.train_alone(0, {i: Model("init") for i in MEMBERS})
    work = {"root": Assignment(Model("init"), MEMBERS, MEMBERS, own={i: alone[i] for i in MEMBERS[:2]})}
    assert view.train(0, work)["root"].clients == MEMBERS[2:]
    faults = [(fault.blame, fault.reason) for fault in view.record.faults]
    assert faults == [(SERVER, UNAGREED)] * 2


def test_a_server_with_another_charter_than_clients_elsewhere_gets_no_sum(processes):
    view = opened(Masked(floor=2), processes, apart=True)
    answer = view.train_and_sum(0, ROOT, {"root": Weights(dict.fromkeys(MEMBERS, 1.0))})["root"]
    assert not isinstance(answer, Sum)
