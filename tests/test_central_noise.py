"""Noise that a trusted server adds to what it publishes: how much, what it costs, what is refused, what stays without."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.crypto.entropy import SimulatedEntropy
from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Iid
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.robust.coordinates import Median
from cloister.fl.runs.experiment import run
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import CentralNoise, Plain
from cloister.protocol.core.errors import Refused
from cloister.protocol.core.session import Session
from cloister.protocol.privacy.gaussian import gaussian_epsilon
from cloister.protocol.uploaded.central import FROM_THE_SERVER, STEPS, CentralSums
from cloister.protocol.view.answers import Assignment, BelowFloor, Model, Sum, Weights
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalWork

D = 3000
MEMBERS = tuple(range(1, 9))
NOISE = CentralNoise(epsilon=6.0, delta=1e-4, rounds=3, l2=0.5)
SESSION = Session("upload", bytes(16), 0, "root", MEMBERS, 1)
INITIAL = np.zeros(D, np.float32)


def update_of(client, round):
    found = np.random.default_rng([client, round]).standard_normal(D)
    return (0.4 * found / np.linalg.norm(found)).astype(np.float32)  # within l2


def open_view(noise=NOISE, update=update_of, seed=1, floor=1):
    def work(jobs):
        for job in jobs:
            yield job.client, LocalWork(update(job.client, job.round), 10)

    return Plain(floor=floor, noise=noise).open(Setup(bytes(range(16)), INITIAL, MEMBERS, work, SimulatedEntropy(seed)))


def uniform(members=MEMBERS):
    return Weights(dict.fromkeys(members, 1.0))


def summed(view, round, members=MEMBERS):
    work = {"root": Assignment(Model("init"), members, members)}
    return view.train_and_sum(round, work, {"root": uniform(members)})["root"]


def mean_in(view, answer):
    return view.harness.observe(view.advance(Model("init"), answer)).astype(np.float64)


@pytest.mark.parametrize("adjacency", ["zero out", "replace"])
def test_the_noise_on_a_sum_is_of_the_deviation_that_its_budget_asks_for(adjacency):
    noise = replace(NOISE, adjacency=adjacency)
    view = open_view(noise)
    off = mean_in(view, summed(view, 0)) - np.mean([update_of(i, 0) for i in MEMBERS], axis=0)
    deviation, _ = noise.solved(D)
    assert np.std(off) * len(MEMBERS) == pytest.approx(deviation, rel=0.07)
    assert abs(np.mean(off)) < 5 * deviation / len(MEMBERS) / np.sqrt(D)
    apart = 1 if adjacency == "zero out" else 2
    assert gaussian_epsilon(np.sqrt(3) * apart * 0.5 / deviation, 1e-4) == pytest.approx(6.0, rel=0.01)
    assert view.record.ledgers[1, "client"].spent < 6.0


def test_the_budget_is_spent_after_its_rounds_and_then_nothing_is_published():
    view = open_view()
    answers = [summed(view, t) for t in range(3)]
    assert all(isinstance(answer, Sum) and answer.clients == MEMBERS for answer in answers)
    ledger = view.record.ledgers[1, "client"]
    assert 5.9 < ledger.spent <= 6.0
    assert FROM_THE_SERVER in ledger.not_covered
    assert isinstance(summed(view, 3), BelowFloor)
    assert view.record.ledgers[1, "client"].spent == ledger.spent


def test_who_cannot_pay_is_left_out_of_the_sum_of_those_who_can():
    view = open_view()
    for t in range(3):
        summed(view, t, MEMBERS[:4])
    answer = summed(view, 3)
    assert answer.clients == MEMBERS[4:]
    expected = np.mean([update_of(i, 3) for i in MEMBERS[4:]], axis=0)
    deviation, _ = NOISE.solved(D)
    assert np.std(mean_in(view, answer) - expected) * 4 == pytest.approx(deviation, rel=0.07)


@settings(max_examples=40, deadline=None)
@given(st.floats(-12, 12), st.booleans(), st.integers(0, 2**32))
def test_no_update_moves_a_sum_by_more_than_its_release_says(log_length, far, seed):
    """The same noise on both sides: the integers that are published differ by the update's, and by no more than was charged."""
    rng = np.random.default_rng(seed)
    update = rng.standard_normal(D) * 10.0**log_length
    if far:
        update[rng.integers(D)] = rng.choice([np.inf, -np.inf, np.nan, 3e38])
    update = update.astype(np.float32)
    deviation, release = NOISE.solved(D)
    totals = []
    for mine in (update, np.zeros(D, np.float32)):
        received = {i: mine if i == 1 else update_of(i, 0) for i in MEMBERS}
        sums = CentralSums(NOISE, D, MEMBERS, SimulatedEntropy(0))
        totals.append(sums.total(SESSION, "root", dict.fromkeys(MEMBERS, 1.0), received))
    moved = np.linalg.norm((totals[0] - totals[1]) / (deviation / STEPS))
    assert moved <= release.event.l2 * (1 + 1e-9)


def test_a_sum_that_is_not_uniform_or_not_the_only_one_is_refused():
    view = open_view()
    work = {"root": Assignment(Model("init"), MEMBERS, MEMBERS)}
    updates = view.train(0, work)["root"]
    with pytest.raises(Refused, match="not uniform"):
        view.sums(updates, {"one": Weights({1: 2.0, 2: 1.0})})
    with pytest.raises(Refused, match="another of its clients"):
        view.sums(updates, {"one": uniform((1, 2)), "other": uniform((2, 3))})
    assert view.record.ledgers[1, "client"].spent == 0
    view.sums(updates, {"one": uniform((1, 2))})
    with pytest.raises(Refused, match="another of its clients"):
        view.sums(updates, {"again": uniform((2, 3))})


def test_two_sums_have_noise_of_their_own():
    view = open_view()
    updates = view.train(0, {"root": Assignment(Model("init"), MEMBERS, MEMBERS)})["root"]
    found = view.sums(updates, {"a": uniform(MEMBERS[:4]), "b": uniform(MEMBERS[4:])})
    off = [
        mean_in(view, found[name]) - np.mean([update_of(i, 0) for i in of], axis=0)
        for name, of in (("a", MEMBERS[:4]), ("b", MEMBERS[4:]))
    ]
    assert abs(np.corrcoef(*off)[0, 1]) < 0.1


def test_a_snapshot_keeps_what_was_spent():
    view = open_view()
    summed(view, 0)
    again = open_view()
    again.harness.restore(view.harness.save(), [])
    assert again.record.ledgers == view.record.ledgers
    summed(again, 1)
    summed(again, 2)
    assert isinstance(summed(again, 3), BelowFloor)


@pytest.mark.parametrize("wrong", [{"epsilon": 0.0}, {"delta": 1.0}, {"l2": float("inf")}, {"rounds": 0}, {"adjacency": "add"}])
def test_what_cannot_be_asked_for(wrong):
    with pytest.raises(ValueError, match=r"above 0|adjacency"):
        replace(NOISE, **wrong)


SCENARIO = Scenario(
    name="central",
    data=Digits(),
    partition=Iid(clients=20, shared_test=True),
    model=Mlp(hidden=()),
    training=Training(epochs=2, batch=10, lr=0.2),
    algorithm=FedAvg(by_samples=False),
    protection=Plain(noise=CentralNoise(epsilon=50.0, delta=1e-3, rounds=3, l2=1.0)),
    rounds=3,
)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"algorithm": FedAvg()}, "by_samples=False"),
        ({"algorithm": RobustFedAvg(rule=Median())}, "coordinates"),
        ({"algorithm": CFL(thresholds=ScaleFree(0.4, 0.1), by_samples=False)}, "gram"),
    ],
)
def test_what_the_noise_does_not_cover_is_refused_before_the_run(changes, words, tmp_path):
    with pytest.raises(Refused, match=words):
        list(run(replace(SCENARIO, **changes), tmp_path / "run"))


@pytest.mark.trains
def test_a_run_says_what_it_spent_and_on_whom_that_holds(tmp_path):
    rounds = list(run(SCENARIO, tmp_path / "run"))
    assert len(rounds) == 3
    of = json.loads((tmp_path / "run" / "privacy.json").read_text())["client"]
    assert 49 < of["epsilon_worst"] <= 50
    assert FROM_THE_SERVER in of["not_covered"]
