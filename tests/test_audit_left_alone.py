"""All but one of a sum know the update of the one: an audit says so of coalitions, with and without the server, and of whom."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cloister.auditing.first_words import sentences
from cloister.fl.algorithms.fedavg import Oracle
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import LabelSwap
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked
from cloister.threat_models.audit.experiment import QUICK
from cloister.threat_models.audit.observer import Observer, server_and
from cloister.threat_models.audit.own_part import left_alone
from cloister.threat_models.audit.participation import Disaggregation
from cloister.threat_models.audit.recovery import UpdateRecovery
from cloister.threat_models.audit.stage import Stage, stages
from cloister.threat_models.audit.table import rows
from cloister.threat_models.audit.view import PublishedSum

SCENARIO = Scenario(
    name="left alone",
    data=Digits(),
    partition=LabelSwap(clients=8, groups=2, pairs=((1, 7), (3, 8)), shared_test=True),
    model=Mlp(hidden=(8,)),
    training=Training(epochs=1, batch=50, lr=0.2),
    algorithm=Oracle(by_samples=False),
    protection=Masked(floor=3),
    rounds=3,
)


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("by_samples", [False, True])
def test_three_of_a_group_of_four_know_the_fourth_with_and_without_the_server(by_samples: bool) -> None:
    """Before: the three were said to find -0.01 of updates, and the server with them less of the fourth than they alone."""
    staged = [s for s in stages(replace(SCENARIO, algorithm=Oracle(by_samples=by_samples)), [0], None) if isinstance(s, Stage)]
    groups = staged[0].audited.truth.population.groups
    *three, fourth = sorted(i for i in groups if groups[i] == groups[0])
    found = list(rows(staged, (Observer(clients=frozenset(three)), server_and(*three)), [UpdateRecovery()], (), QUICK))
    for row in found:
        assert row.worst is not None
        assert (row.worst.victim.client, row.worst.value > 1 - 1e-6) == (fourth, True)
        assert row.records["here"]["whose"] == [{"seed": 0, "client": fourth, "read": 3}]
        assert row.records[row.anchor]["read"] == 0
    alone, beside = (dict(zip(f.findings[0].victims, f.findings[0].values, strict=True)) for f in found)
    assert all(beside[i] >= value - 1e-9 for i, value in alone.items()), "whoever has more finds as much"
    evidence, truth = staged[0].evidence(Observer(clients=frozenset(three))), staged[0].audited.truth
    apart = Disaggregation()(evidence, truth, QUICK, np.random.default_rng(0))
    told = dict(zip(apart.victims, apart.values, strict=True))
    assert told.pop(fourth) > 0.99, "before: 0, of whom every update is known"
    assert max(told.values()) < 0.5
    said = sentences({"rows": [row.as_dict() for row in found], "seeds": [0], "run": ""}).places
    assert any(f"can tell whole updates: 3 of client {fourth} of seed 0" in line for _, lines in said for line in lines)


def test_noise_and_a_corrupt_client_that_is_not_held_leave_nobody_alone() -> None:
    mean, own = np.array([1.0, 2.0], np.float32), {(0, "update"): np.array([3.0, 0.0], np.float32)}
    told = PublishedSum(0, "c", "update", {0: 1.0, 1: 1.0, 2: 0.0}, False, -1, mean=mean)

    def left(of: PublishedSum, protection: object, held: dict[int, object]) -> dict[object, list[float]]:
        public, observer = SimpleNamespace(protection=protection), SimpleNamespace(clients=frozenset({0}))
        view: Any = SimpleNamespace(public=public, observer=observer, sums=[of], held=held)
        return {key: vector.tolist() for key, vector in left_alone(view)}

    held: dict[int, object] = {0: SimpleNamespace(updates=own, examples=range(30))}
    assert left(told, Masked(), held) == {(0, "update", 1): [-1.0, 4.0]}
    assert left(replace(told, row={0: 1.0, 1: 1.0, 2: 1.0}), Masked(), held) == {}
    assert left(replace(told, times_samples=True, weight=40.0), Masked(), held) == {(0, "update", 1): [-5.0, 8.0]}
    guessed = left(replace(told, times_samples=True), Masked(), held)
    assert guessed == {(0, "update", 1): [-1.0, 4.0]}, "who does not open the sum takes it that all have as many samples"
    assert left(told, SimpleNamespace(noise=object()), held) == {}
    assert left(told, Masked(), {0: SimpleNamespace(updates={})}) == left(told, Masked(), {}) == {}
