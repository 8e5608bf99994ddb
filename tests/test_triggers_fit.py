"""Backdoors that cannot be put into a grid's records are refused before anything is played."""

from dataclasses import replace

import numpy as np
import pytest
from torch import nn

from cloister import Scenario, Training, algorithms, attacks, data, models, partitions, protections
from cloister.evaluating.triggers_fit import check_triggers, measured_together
from cloister.fl.data.source import Digits
from cloister.protocol.core.errors import Refused

from .commanded import commanded


def table():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 12)), rng.integers(0, 3, size=60)


def grid(**more):
    scenario = Scenario(
        name="blobs", data=data.from_datasets({"all": table()}), partition=partitions.Iid(clients=5), model=models.Mlp(()),
        training=Training(epochs=1, batch=10, lr=0.1), algorithm=algorithms.FedAvg(), protection=protections.Plain(), rounds=1,
    )  # fmt: skip
    taken = {"attacks": attacks.strongest(), "defences": {"FedAvg": algorithms.FedAvg()}, "strengths": (1,)} | more
    return attacks.Evaluation(name="e", scenario=scenario, **taken)


def test_a_suite_with_backdoors_on_a_table_is_refused_with_what_to_take():
    played = grid()
    source = played.scenario.data(None)
    with pytest.raises(Refused) as told:
        check_triggers(played, source)
    assert str(told.value) == (
        "attacks 'BadNets', 'BadNets x3' do not fit the data: a trigger is put into images, (channels, height, width) of float32,"
        " not into records of shape (12,); leave them out; of suites, attacks.strongest(images=False) has none that is put into"
        " images"
    )
    check_triggers(played, source, [["ALIE z=1.5"], ["FedAvg"]])
    check_triggers(grid(attacks=attacks.strongest(images=False)), source)


def test_what_fits_is_played():
    played = grid()
    images = replace(played.scenario, data=Digits())
    check_triggers(replace(played, scenario=images), images.data(None))


class Batched(nn.Module):
    """Its means are those of the records that it is given."""

    def __init__(self, norm: nn.Module, flat: bool = True) -> None:
        super().__init__()
        self.norm, self.flat = norm, flat
        self.out = nn.Linear(64, 10)

    def forward(self, x):
        x = self.norm(x.flatten(1) if self.flat else x)
        return self.out(x.flatten(1))


@pytest.mark.long
def test_backdoors_on_a_model_that_predicts_for_many_together_are_doubted():
    """A trigger that all test records have was normalised away, and success was 56 % without any attack."""

    def doubts(norm, flat=True, **of):
        images = replace(grid().scenario, data=Digits(), model=lambda shape, classes: Batched(norm, flat))
        played = replace(grid(), scenario=images, **of)
        return measured_together(played, images.data(None))

    batched = nn.BatchNorm1d(64, track_running_stats=False)
    assert len(doubts(batched)) == 1
    assert "'BadNets'" in doubts(batched)[0]
    assert len(doubts(nn.BatchNorm2d(1, track_running_stats=False), flat=False)) == 1
    assert doubts(nn.LayerNorm(64)) == doubts(nn.GroupNorm(1, 1), flat=False) == []
    assert doubts(batched, attacks={"minus": attacks.MinusGradient()}) == []


def test_by_the_command_nothing_is_played(tmp_path):
    (tmp_path / "t.py").write_text(
        "import numpy as np\n"
        "from cloister import Scenario, Training, algorithms, attacks, data, models, partitions, protections\n"
        "x, y = np.random.default_rng(0).normal(size=(60, 12)), np.arange(60) % 3\n"
        "s = Scenario(name='b', data=data.from_datasets({'all': (x, y)}), partition=partitions.Iid(clients=5),\n"
        "    model=models.Mlp(()), training=Training(epochs=1, batch=10, lr=0.1), algorithm=algorithms.FedAvg(),\n"
        "    protection=protections.Plain(), rounds=1)\n"
        "e = attacks.Evaluation(name='e', scenario=s, attacks=attacks.strongest(), defences={'FedAvg': algorithms.FedAvg()},\n"
        "    strengths=(1,), seeds=(0,))\n"
    )
    done = commanded(tmp_path, "evaluate", "t.py:e", "--out", "r")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("cloister: attacks 'BadNets', 'BadNets x3' do not fit the data: a trigger is put into images")
    assert not (tmp_path / "r").exists()
