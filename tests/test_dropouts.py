"""The tap on which clients drop out: who and when is a function of seed and round, and a victim says nothing after its moment."""

from collections import Counter

import numpy as np
import pytest

from cloister.crypto.entropy import SimulatedEntropy
from cloister.fl.runs.scenario import described
from cloister.protocol import Masked
from cloister.protocol.drivers.dropouts import Dropouts
from cloister.protocol.view.answers import Assignment, Model, Sum, Weights
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalWork

MEMBERS = tuple(range(1, 8))
INITIAL = np.zeros(30, np.float32)


def play(dropouts, rounds):
    """The clients of each round's sum, and how many messages each client got through."""
    through = [Counter() for _ in range(rounds)]
    now = [0]

    def tap(frame):
        passed = tuple(dropouts(frame))
        through[now[0]].update(f.sender for f in passed)
        return passed

    def work(jobs):
        return ((j.client, LocalWork(np.full(30, j.client / 8, np.float32), 5)) for j in jobs)

    view = Masked().open(Setup(bytes(16), INITIAL, MEMBERS, work, SimulatedEntropy(0), tap))
    sums = []
    for round in range(rounds):
        now[0] = round
        answered = view.train_and_sum(
            round, {"a": Assignment(Model("init"), MEMBERS, MEMBERS)}, {"a": Weights(dict.fromkeys(MEMBERS, 1.0))}
        )["a"]
        assert isinstance(answered, Sum), view.record.faults
        sums.append(answered.clients)
        view.harness.retire([Model("init")], [])
    return sums, through


def test_each_round_has_its_victims_and_they_fall_silent():
    sums, through = play(Dropouts(MEMBERS, seed=3), 12)
    victims = [[i for i in MEMBERS if i not in clients] for clients in sums]
    assert all(len(v) <= 1 for v in victims)
    assert len({v[0] for v in victims if v}) > 2, "not always the same"
    through = through[1:]  # the first has the seed exchange, too
    most = max(count[i] for count in through for i in MEMBERS)
    assert {sum(count[i] < most for i in MEMBERS) for count in through} == {0, 1}


@pytest.mark.long
def test_the_same_seed_gives_the_same_losses_and_another_seed_others():
    assert play(Dropouts(MEMBERS, seed=3), 6) == play(Dropouts(MEMBERS, seed=3), 6)
    assert play(Dropouts(MEMBERS, seed=3), 6) != play(Dropouts(MEMBERS, seed=4), 6)


@pytest.mark.long
def test_nobody_drops_out_of_none_and_too_many_are_refused():
    sums, _ = play(Dropouts(MEMBERS, count=0), 2)
    assert sums == [MEMBERS, MEMBERS]
    with pytest.raises(ValueError, match="count is 0 to 7"):
        Dropouts(MEMBERS, count=8)
    assert described(Dropouts((1, 2), seed=5)) == {"type": "Dropouts", "among": [1, 2], "count": 1, "seed": 5, "latest": 8}
