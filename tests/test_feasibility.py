"""What cannot come to anything is said in one line before training."""

import html
import sys
from dataclasses import replace

import pytest

import cloister
from cloister import Scenario, Training, algorithms, cli, data, models, partitions, protections
from cloister.fl.runs.feasibility import Doubt, doubts

FILE = """
from cloister import Scenario, Training, algorithms, data, models, partitions, protections

scenario = Scenario(
    name="few",
    data=data.Digits(),
    partition=partitions.LabelSwap(clients=4, groups=2, pairs=((1, 7), (3, 8)), samples=40, shared_test=True),
    model=models.Mlp(hidden=(8,)),
    training=Training(epochs=1, batch=10, lr=0.1),
    algorithm=algorithms.CFL(thresholds=algorithms.ScaleFree(eps1=0.4, eps2=0.5)),
    protection=protections.Masked(),
    rounds=1,
)
"""
few = Scenario(
    name="few",
    data=data.Digits(),
    partition=partitions.LabelSwap(clients=4, groups=2, pairs=((1, 7), (3, 8)), samples=40, shared_test=True),
    model=models.Mlp(hidden=(8,)),
    training=Training(epochs=1, batch=10, lr=0.1),
    algorithm=algorithms.CFL(thresholds=algorithms.ScaleFree(eps1=0.4, eps2=0.5)),
    protection=protections.Masked(),
    rounds=1,
)
HALVES = {0: 0, 1: 0, 2: 1, 3: 1}
SPLIT = "a split of 4 clients leaves a side below the floor of 3, which is then trained no more: take 6 clients or more"


def test_a_floor_that_no_split_could_meet_is_said():
    split, group = doubts(few, 4, HALVES)
    assert split.startswith(SPLIT)
    assert group.startswith("a planted group has 2 clients, which is below the floor of 3")
    assert doubts(few, 12, {i: i % 2 for i in range(12)}) == []
    assert doubts(replace(few, protection=protections.Plain()), 4, HALVES) == []
    assert doubts(replace(few, algorithm=algorithms.FedAvg()), 4, HALVES) == []
    corrupt = replace(few, protection=protections.TwoServer(floor=3, corrupt=2))
    assert "below the floor of 5 (3, and 2 corrupt)" in doubts(corrupt, 9, {})[0]
    assert doubts(corrupt, 10, {}) == []


def test_fewer_clients_than_any_sum_needs_are_refused_before_anything_is_written(tmp_path):
    two = replace(few, partition=partitions.Iid(clients=2, samples=20, shared_test=True))
    with pytest.raises(ValueError, match="2 clients are below the floor of 3: no sum is ever opened; take more clients"):
        cloister.run(two, tmp_path / "r", quiet=True)
    assert not (tmp_path / "r").exists()


def test_a_cohort_below_the_protocols_solver_is_said():
    """With half of them gone no threshold is both above half and reached."""
    lossy = replace(few, algorithm=algorithms.FedAvg(participation=0.25), protection=protections.Masked(dropped=0.5))
    (line,) = doubts(lossy, 40, {})
    assert line.startswith("a cohort, of 10 clients, cannot be masked, and is not summed: 10 clients with 0 corrupt")
    assert "\n" not in line
    assert doubts(replace(lossy, protection=protections.Masked()), 40, {}) == []


def test_planted_groups_that_can_be_masked_raise_no_doubt():
    """A cluster at the floor could not be masked, and none of this size is planted."""
    grouped = replace(few, protection=protections.Masked(corrupt=2))
    assert doubts(grouped, 24, {i: i // 8 for i in range(24)}) == []
    (line,) = doubts(grouped, 24, {})
    assert line.startswith("a cluster at the floor, of 5 clients, cannot be masked")


@pytest.mark.trains
def test_it_is_said_before_training_in_the_summary_and_in_the_report(tmp_path, monkeypatch, capsys):
    with pytest.warns(Doubt, match="a split of 4 clients leaves a side below the floor of 3"):
        result = cloister.run(few, tmp_path / "r", quiet=True)
    assert len(result.summary["doubts"]) == 2
    assert SPLIT in html.unescape(result.report.read_text())
    assert SPLIT in str(result)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "few.py").write_text(FILE)
    monkeypatch.setattr(sys, "argv", ["cloister", "run", "few.py", "--out", "again"])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert not caught.value.code
    said = capsys.readouterr().err
    assert f"cloister: note: {SPLIT}" in said
    assert said.index("cloister: note:") < said.index("1/1")
