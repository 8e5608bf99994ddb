"""Personal sums: each receiver gets its own weighted mean and nobody else does; clients start from models of their own.

That answers equal `Plain`'s under any loss is tested in test_ideal_functionality.py, the protocol under Masked in
test_receiver_opened.py.
"""

from dataclasses import replace

import numpy as np
import pytest

from cloister.crypto.entropy import SimulatedEntropy
from cloister.crypto.orthonormal import HadamardRotation, Permutation
from cloister.fl.cost.measure import measure
from cloister.fl.cost.workload import Workload
from cloister.fl.runs.checkpoint import Checkpoint, read, write
from cloister.protocol import Encrypted, Masked, Noise, Permuted, Plain, TwoServer
from cloister.protocol.core.errors import Refused
from cloister.protocol.drivers.roles import Received
from cloister.protocol.masked.receiver_opened.client import member_step
from cloister.protocol.masked.receiver_opened.opening import ReceiverOpened
from cloister.protocol.parts.personal import Personal
from cloister.protocol.view.answers import Assignment, BelowFloor, Model, Sum, Weights
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import Setup, check_composition
from cloister.protocol.view.work import LocalWork
from cloister.protocol.wire.codec import Envelope

from . import sides

CLIENTS = (0, 1, 2, 3, 4)
INIT = Model("init")
D = 48
ALL = [
    Plain(floor=2),
    Permuted(Permutation, floor=2),
    Permuted(HadamardRotation, "session", floor=2),
    Masked(floor=2),
    Masked(floor=3, ring_bits=64),
    Encrypted(floor=2),
]
everywhere = pytest.mark.parametrize("protection", ALL, ids=str)


def target(client):
    return np.random.default_rng(client).uniform(-1, 1, D).astype(np.float32)


def holders(view, model):
    """Who holds a model of this name."""
    return [i for i, party in sides.clients(view).parties.items() if party.owned.holds(model.name)]


class Run:
    """A view whose clients go half the way to their target; `starts` are the models that they began at, round by round."""

    def __init__(self, protection, tap=None, clients=CLIENTS, seed=0):
        self.starts = {}
        initial = np.linspace(-0.1, 0.1, D, dtype=np.float32)
        self.view = protection.open(
            Setup(bytes(range(16)), initial, clients, self.work, SimulatedEntropy(seed), tap, starts_apart=True)
        )
        self.clients, self.initial = clients, initial

    def work(self, jobs):
        for job in jobs:
            self.starts[job.round, job.client] = job.start
            yield job.client, LocalWork((target(job.client) - job.start) / 2, 1)

    def train(self, round=0, own=None, **given):
        return self.view.train(round, {"all": Assignment(INIT, self.clients, self.clients, own=own or {})}, **given)["all"]

    def personal(self, updates, rows):
        return self.view.personal_sums(updates, {r: Weights(row) for r, row in rows.items()})

    def state(self, round, rows, own):
        """One round as personalised algorithms play it: the models that the receivers end up with, by client."""
        updates = self.train(round, own)
        answers = self.personal(updates, rows)
        trained = self.view.own_models(updates)
        moved = {r: self.view.advance(INIT, a) for r, a in answers.items() if isinstance(a, Sum)}
        own = {**own, **trained, **moved}
        self.view.harness.retire([INIT, *own.values()], [])
        return own


def row_of(receiver, clients=CLIENTS):
    """Weights of either sign, another row for each receiver; itself included."""
    return {i: (1 + ((3 * i + 2 * receiver) % 5) / 50) * (-1 if i == (receiver + 1) % 5 else 1) for i in clients}


def bound(answer, row, vectors):
    """What the answer says of its own error: on the l2 norm of its mean, two roundings to float32 beside."""
    scale = sum(abs(row[i]) * np.linalg.norm(vectors[i]) for i in answer.clients) / abs(answer.weight)
    return (answer.tolerance + 2.0**-22) * scale + answer.error + 1e-6


@pytest.mark.long
@everywhere
def test_each_receiver_gets_the_mean_of_its_own_row_and_owns_the_model_that_it_moves(protection):
    run = Run(protection)
    updates = run.train()
    rows = {r: row_of(r) for r in CLIENTS}
    vectors = {i: (target(i) - run.initial) / 2 for i in CLIENTS}
    answers = run.personal(updates, rows)
    assert set(answers) == set(CLIENTS)
    for receiver, answer in answers.items():
        assert isinstance(answer, Sum)
        assert (answer.recipient, answer.clients) == (receiver, CLIENTS)
        assert answer.weight == pytest.approx(sum(rows[receiver].values()), rel=1e-9)
        plain = sum(a * vectors[i].astype(float) for i, a in rows[receiver].items()) / sum(rows[receiver].values())
        moved = run.view.advance(INIT, answer)
        found = run.view.harness.observe(moved).astype(float) - run.initial
        assert np.linalg.norm(found - plain) <= bound(answer, rows[receiver], vectors)
        assert holders(run.view, moved) == [receiver]
        assert moved.name not in sides.models(run.view).held
        assert answer.name not in sides.models(run.view).means
    assert len({run.view.harness.observe(run.view.advance(INIT, a)).tobytes() for a in answers.values()}) == 5
    assert not run.view.record.faults


@everywhere
def test_no_model_of_a_client_has_the_name_of_a_public_one(protection):
    run = Run(protection)
    work = {"client 1": Assignment(INIT, CLIENTS, CLIENTS, own=dict.fromkeys(CLIENTS, INIT))}
    updates = run.view.train(0, work)["client 1"]
    answer = run.view.sums(updates, {"client 1": Weights(dict.fromkeys(CLIENTS, 1.0))})["client 1"]
    public = run.view.advance(INIT, answer)
    own = run.view.own_models(updates)
    assert len({public.name, *(model.name for model in own.values())}) == 6
    assert not np.array_equal(run.view.harness.observe(own[1]), run.view.harness.observe(public))


@everywhere
def test_a_receiver_need_not_be_in_its_sum_nor_have_an_update(protection):
    def silent(frame):
        return [] if frame.kind == "Task" and frame.receiver == 4 else [frame]

    run = Run(protection, silent)
    updates = run.train()
    assert updates.clients == (0, 1, 2, 3)
    vectors = {i: (target(i) - run.initial) / 2 for i in CLIENTS}
    rows = {4: dict.fromkeys(CLIENTS, 1.0), 0: {1: 1.5, 2: 1.5, 3: 1.5}}
    for receiver, answer in run.personal(updates, rows).items():
        about = (0, 1, 2, 3) if receiver == 4 else (1, 2, 3)
        assert (answer.clients, answer.recipient) == (about, receiver)
        plain = sum(rows[receiver][i] * vectors[i].astype(float) for i in about) / answer.weight
        found = run.view.harness.observe(run.view.advance(INIT, answer)).astype(float) - run.initial
        assert np.linalg.norm(found - plain) <= bound(answer, rows[receiver], vectors)


@pytest.mark.long
@everywhere
def test_clients_start_from_their_own_models_and_updates_are_differences_from_the_public_one(protection):
    """Rounds of: train, the weighted mean of personal models, go on from it; against the same in float64."""
    run = Run(protection)
    rows = {r: {i: (3.0 if i == r else 1.0) / 7 for i in CLIENTS} for r in (0, 3)}
    own = dict.fromkeys(CLIENTS, INIT)
    plain = {i: run.initial.astype(float) for i in CLIENTS}
    for round in range(3):
        before = {i: run.view.harness.observe(model) for i, model in own.items()}
        own = run.state(round, rows, own)
        for i in CLIENTS:
            assert run.starts[round, i].tobytes() == before[i].tobytes()
        trained = {i: (plain[i] + target(i).astype(float)) / 2 for i in CLIENTS}
        plain = trained | {r: sum(a * trained[i] for i, a in row.items()) for r, row in rows.items()}
        for i in CLIENTS:
            assert np.abs(run.view.harness.observe(own[i]) - plain[i]).max() < 2e-4
    assert not run.view.record.faults
    assert not [name for name in sides.models(run.view).held if name != "init"]


@pytest.mark.long
@everywhere
def test_the_gram_matrix_of_personal_models_is_of_their_differences_from_the_public_one(protection):
    run = Run(protection)
    own = run.state(0, {}, dict.fromkeys(CLIENTS, INIT))
    updates = run.train(1, own)
    gram = run.view.gram(updates, origin=True)
    models = run.view.own_models(updates)
    drift = np.stack([run.view.harness.observe(models[i]).astype(float) - run.initial for i in CLIENTS])
    for i in CLIENTS:
        assert drift[i] == pytest.approx(0.75 * (target(i).astype(float) - run.initial), abs=1e-6)
    norms = np.linalg.norm(drift, axis=1)
    assert (np.abs(gram.matrix - drift @ drift.T) <= (gram.tolerance + 1e-6) * np.outer(norms, norms)).all()


@everywhere
def test_sums_that_rest_on_too_few_others_are_below_the_floor_and_stand_in_nobodys_way(protection):
    run, floor = Run(protection), protection.floor
    updates = run.train()
    few = dict.fromkeys(CLIENTS[: floor - 1], 1.0) | {4: 5.0}
    cancel = {0: 1.0, 1: -1.0, 2: 2.0, 3: -2.0}
    answers = run.personal(updates, {4: few, 3: {}, 2: cancel, 1: {1: 1.0}, 0: dict.fromkeys(CLIENTS, 1.0)})
    expected = {4: tuple(sorted(few)), 3: (), 2: (0, 1, 2, 3), 1: (1,)}
    for receiver, clients in expected.items():
        assert isinstance(answers[receiver], BelowFloor)
        assert (answers[receiver].clients, answers[receiver].floor) == (clients, floor)
        assert answers[receiver] in run.view.record.below_floor
    assert isinstance(answers[0], Sum)
    assert isinstance(run.personal(updates, {4: dict.fromkeys(CLIENTS, 1.0)})[4], Sum)


@everywhere
def test_what_would_show_more_than_one_sum_to_a_receiver_is_refused(protection):
    run = Run(protection)
    updates = run.train()
    ones = dict.fromkeys(CLIENTS, 1.0)
    run.personal(updates, {0: ones})
    logged = len(run.view.record.log)
    with pytest.raises(Refused, match="client 0 had its personal sum of round 0"):
        run.personal(updates, {0: {**ones, 4: 2.0}})
    with pytest.raises(Refused, match="gave personal sums"):
        run.view.sums(updates, {"all": Weights(ones)})
    for weights, words in [
        ({1: Weights(ones, times_samples=True)}, "weights of personal sums are public"),
        ({1: Weights(ones, members=(1, 2))}, "has no other members"),
        ({9: Weights(ones)}, "client 9 is not of this run"),
    ]:
        with pytest.raises(Refused, match=words):
            run.view.personal_sums(updates, weights)
    assert len(run.view.record.log) == logged
    run.view.harness.retire([INIT], [])
    with pytest.raises(Refused, match="are gone"):
        run.personal(updates, {1: ones})
    updates = run.train(1)
    assert isinstance(run.view.sums(updates, {"all": Weights(ones)})["all"], Sum)
    with pytest.raises(Refused, match="were published"):
        run.personal(updates, {1: ones})


def test_order_statistics_and_personal_sums_are_not_answered_about_the_same_updates():
    run = Run(Plain())
    updates = run.train()
    run.personal(updates, {0: dict.fromkeys(CLIENTS, 1.0)})
    with pytest.raises(Refused, match="already published"):
        run.view.coordinates(updates, "median", lambda rows: np.median(rows, axis=0).astype(np.float32))


@everywhere
def test_the_log_names_the_one_client_that_received_each_sum(protection):
    run = Run(protection)
    updates = run.train()
    logged = len(run.view.record.log)
    run.personal(updates, {1: row_of(1), 3: row_of(3)})
    entries = [e for e in run.view.record.log[logged:] if e.what == "personal sums" and e.recipient == "clients"]
    assert [(e.client, e.round, set(e.about) | {e.client}) for e in entries] == [(i, 0, set(CLIENTS)) for i in (1, 3)]
    assert {e.scalars for e in entries} <= {D, D + 1}
    server = [e for e in run.view.record.log[logged:] if e.recipient == "server"]
    assert sum(e.scalars for e in server) == 0  # beside what uploads told it before, where there are any
    if isinstance(protection, Masked):
        words = "who is in the sum for one client, and the sum under masks that only this client can take off"
        assert {e.words for e in server} == {words}


@everywhere
@pytest.mark.long
def test_a_run_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(protection, tmp_path):
    rows = {r: {i: (3.0 if i == r else 1.0) / 7 for i in CLIENTS} for r in (1, 4)}
    first = Run(protection)
    own = first.state(0, rows, dict.fromkeys(CLIENTS, INIT))
    path = write(tmp_path, Checkpoint(0, {}, first.view.harness.save(), {}, {}))
    second = Run(protection)
    second.view.harness.restore(read(path).snapshot, [])
    for client, model in own.items():
        assert holders(second.view, model) == [client]
        assert model.name not in sides.models(second.view).held
    after = [run.state(1, rows, own) for run in (first, second)]
    assert after[0] == after[1]
    for model in after[0].values():
        one, other = (run.view.harness.observe(model) for run in (first, second))
        assert one == pytest.approx(other, abs=1e-5 if isinstance(protection, Encrypted) else 0)
    assert first.view.record.traffic.messages == second.view.record.traffic.messages


def test_clients_that_start_again_take_no_offer_of_a_round_that_they_answered():
    run = Run(Masked(floor=2))
    run.personal(run.train(2), {0: dict.fromkeys(CLIENTS, 1.0)})
    resumed = Run(Masked(floor=2))
    resumed.view.harness.restore(run.view.harness.save(), [])
    states = [sides.part(view, ReceiverOpened).openers[1].state for view in (run.view, resumed.view)]
    assert [state.since for state in states] == [0, 3]
    updates = run.view.train(3, {"all": Assignment(INIT, CLIENTS, CLIENTS)})["all"]
    questions = []
    sides.part(run.view, Personal)._answer = lambda updates, asked: questions.extend(asked) or {}
    run.personal(updates, {3: dict.fromkeys(CLIENTS, 1.0)})
    (opening,) = sides.part(run.view, ReceiverOpened)._openings(updates, questions)
    stale = replace(opening, session=replace(opening.session, round=2))
    holding = replace(states[1], updates={opening.update: (opening.session.round, opening.model)})
    member_step(holding, Received(Envelope(opening.session.digest, -1, 1, opening.offer)))
    assert member_step(holding, Received(Envelope(stale.session.digest, -1, 1, stale.offer))) == (holding, ())


@pytest.mark.long
def test_receivers_that_collude_are_refused_rows_whose_combination_shows_too_much():
    clients = tuple(range(12))
    ones, spread = dict.fromkeys(clients, 1.0), {i: 1.0 + i // 6 for i in clients}
    other = {**ones, 7: 2.0}
    apart, together = Masked(), Masked(colluding=(frozenset({0, 1}),), dropped=0.0)
    run = Run(apart, clients=clients)
    assert all(isinstance(a, Sum) for a in run.personal(run.train(), {0: ones, 1: other}).values())
    run = Run(together, clients=clients)
    updates = run.train()
    with pytest.raises(Refused, match="sum for client 1 could show it and those that collude with it what fewer than 3"):
        run.personal(updates, {0: ones, 1: other})
    answers = run.personal(updates, {0: {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0}, 2: ones, 3: other})
    assert isinstance(answers.pop(0), BelowFloor)  # client 1 does not count towards its ally's floor
    assert all(isinstance(a, Sum) for a in answers.values())
    answers = run.personal(updates, {0: ones, 1: spread})
    assert all(isinstance(a, Sum) for a in answers.values())
    assert not run.view.record.faults


def test_composition_says_who_gives_personal_sums():
    needs = [Functionality.PERSONAL_SUMS, Functionality.GRAM]
    for protection in ALL:
        check_composition("pFedGraph", needs, protection, [])
    for protection in (TwoServer(), Masked(noise=Noise(epsilon=5.0, delta=1e-5, rounds=3, l2=1.0))):
        with pytest.raises(Refused, match=r"pFedGraph needs personal sums, which .* does not give; these would: Plain"):
            check_composition("pFedGraph", needs, protection, [Plain(), TwoServer()])
    run = Run(TwoServer())
    assert not hasattr(run.view, "personal_sums")
    assert not hasattr(run.view, "own_models")
    with pytest.raises(Refused, match="use Plain, Permuted, Masked or Encrypted"):
        run.train(1, dict.fromkeys(CLIENTS, INIT))


@pytest.mark.parametrize("protection", [Plain(), Masked()], ids=str)
def test_own_models_that_cannot_be_are_refused(protection):
    run = Run(protection)
    with pytest.raises(Refused, match='of the kind "update"'):
        run.view.train(0, {"all": Assignment(INIT, CLIENTS, CLIENTS, own={0: INIT})}, "gradient")
    with pytest.raises(Refused, match="client 4 has a model to start from and takes no part"):
        run.view.train(0, {"all": Assignment(INIT, CLIENTS[:4], CLIENTS, own={4: INIT})})
    with pytest.raises(Refused, match="the model other is no client's own"):
        run.train(0, {1: Model("other")})
    own = run.view.own_models(run.train(0, dict.fromkeys(CLIENTS, INIT)))
    with pytest.raises(Refused, match="client 2 cannot start from client 1@0, which is another client's own"):
        run.train(1, {1: own[1], 2: own[1]})
    with pytest.raises(Refused, match="client 1@0 is one client's own"):
        run.view.merge({own[1]: 1.0, INIT: 1.0})
    answers = run.personal(run.train(1, own), {1: row_of(1)})
    with pytest.raises(Refused, match="client 2@0 is client 2's own; client 1 moves its own or a public one"):
        run.view.advance(own[2], answers[1])
    snapshot = run.view.harness.save()
    assert {snapshot.own[model.name] for model in own.values()} == set(CLIENTS)
    run.view.harness.restore(snapshot, [])
    with pytest.raises(Refused, match="another client's own"):
        run.train(2, {2: own[1]})
    run = Run(protection)
    with pytest.raises(Refused, match="not from clients' own"):
        run.view.slots(0, "all", Assignment(INIT, CLIENTS, CLIENTS, (INIT,), own={1: INIT}))
    with pytest.raises(Refused, match="nobody started from a model of its own"):
        run.view.own_models(run.train())


@pytest.mark.parametrize("protection", [Plain(floor=2), Masked(floor=2)], ids=str)
def test_the_cost_of_personal_sums_is_measured(protection):
    load = Workload(needs=frozenset({Functionality.PERSONAL_SUMS}), clients=5, parameters=40, rounds=1, seed=1)
    (cost,) = measure(protection, load, lambda done: None).rounds
    assert (cost.summed, cost.unsummed) == (25, 0)
    down = min(cost.costs[i].bytes_down for i in range(5))
    assert down >= 4 * (40 if isinstance(protection, Plain) else 41)
    few = Workload(needs=frozenset({Functionality.PERSONAL_SUMS}), clients=2, parameters=40, rounds=1, seed=1)
    (cost,) = measure(Plain(floor=2), few, lambda done: None).rounds
    assert (cost.summed, cost.unsummed) == (0, 2)
