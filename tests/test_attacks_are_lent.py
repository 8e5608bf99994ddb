"""What somebody's own code writes into what it is given changes nothing for later rounds, or for anybody else."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from cloister import Scenario, Training, algorithms, attacks, data, models, partitions, protections
from cloister.fl.clients.measures import measures
from cloister.fl.data.population import Examples
from cloister.protocol.view.work import LocalWork
from cloister.threat_models.handing import handed
from cloister.threat_models.knowledge import Level, Omniscient, Own, Situation
from cloister.threat_models.partial import LoneInLayer
from cloister.threat_models.trial import played

BASE = Scenario(
    name="in place",
    data=data.Digits(),
    partition=partitions.Iid(clients=4, samples=10),
    model=models.SoftmaxRegression(),
    training=Training(epochs=1, batch=10, lr=0.1),
    algorithm=algorithms.FedAvg(),
    protection=protections.Plain(),
    rounds=2,
)


def own(**changes: Any) -> Own:
    vector = np.ones(4, np.float32)
    known: dict[str, Any] = {
        "member": 0, "place": 0, "members": 1, "roster": (0, 1), "round": 0, "work": "update", "classes": 2,
        "start": vector.copy(),
        "previous": vector.copy(), "module": torch.nn.Linear(2, 1), "training": BASE.training, "training_seed": 0,
        "examples": Examples(torch.ones(3, 2), torch.zeros(3, dtype=torch.int64)), "data_rng": np.random.default_rng(0),
        "rng": np.random.default_rng(0), "agreed": np.random.default_rng(0), "update": vector.copy(), "samples": 3,
    }  # fmt: skip
    return Own(**known | changes)


def spoil(known: Any) -> Any:
    known.examples.x[:] = 7
    known.examples.y[:] = 1
    known.start[:] = known.previous[:] = known.update[:] = 7
    with torch.no_grad():
        known.module.weight.fill_(7)
    return known.update


@dataclass(frozen=True)
class Spoiling:
    needs: ClassVar[Level] = Level.OWN

    def __call__(self, known: Own, /) -> Any:
        return spoil(known)


@pytest.mark.parametrize("attack", [spoil, Spoiling(), LoneInLayer(Spoiling())], ids=["function", "class", "in a part of ours"])
def test_an_attack_of_ones_own_is_given_copies(attack: Any) -> None:
    known = own(module=torch.nn.Linear(3, 1))
    before = known.module.weight.detach().clone()
    assert handed(attack, known).max() == 7
    assert known.examples.x.max() == 1
    assert known.examples.y.max() == 0
    assert max(known.start.max(), known.previous.max() if known.previous is not None else 0, known.update.max()) == 1
    assert torch.equal(known.module.weight, before)


def test_what_honest_clients_send_is_not_for_an_attack_to_write_to() -> None:
    """Before: under masks their uploads were what it had written there."""
    honest = {1: LocalWork(np.ones(4, np.float32), 3)}
    known = Omniscient(round=0, roster=(0, 1), own={0: own()}, memory={}, honest=honest)

    def attack(known: Omniscient) -> Any:
        for vector in known.seen:
            vector[:] = 7
        return known.own[0].update

    handed(attack, known)
    assert honest[1].vector.max() == 1


@pytest.mark.trains
@pytest.mark.long
def test_a_poison_that_writes_in_place_is_one_in_every_round() -> None:
    """Before: labels that are turned round in place were the true ones again in every second round."""

    def in_place(situation: Situation) -> Examples:
        situation.examples.y[:] = 9 - situation.examples.y
        return situation.examples

    def anew(situation: Situation) -> Examples:
        return replace(situation.examples, y=9 - situation.examples.y)

    ends = []
    for poison in (in_place, anew):
        trial = played(replace(BASE, adversary=attacks.Adversary(members=attacks.Pool(2), data=poison)), None, None)
        ends.append(trial.models[0])
    assert np.array_equal(*ends)


def test_a_metric_that_writes_in_place_changes_no_test_record() -> None:
    """Before: the labels that clients are tested with from then on."""

    def mine(outputs: Any, y: Any) -> float:
        outputs[:] = y[:] = 7
        return 0.0

    outputs, y = np.zeros((2, 2), np.float32), np.zeros(2, np.int64)
    measures((mine,), numbers=False)["mine"](outputs, y)
    assert not outputs.any()
    assert not y.any()
