"""What cannot come to anything is said in one line before training."""

import html
import sys
from dataclasses import replace

import numpy as np
import pytest

import cloister
from cloister import Scenario, Training, algorithms, cli, data, models, partitions, protections
from cloister.fl.algorithms.algorithm import Cluster, cohort_sizes, cohorts, invited
from cloister.fl.runs.feasibility import Doubt, check_feasible, doubts
from cloister.protocol.view.answers import Model

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
    assert line.endswith("; take more clients, or a lower protection.corrupt or protection.dropped")


def test_of_a_planted_group_below_the_floor_no_other_size_is_said():
    below, cluster = doubts(replace(few, protection=protections.Masked(corrupt=2)), 12, {i: i // 4 for i in range(12)})
    assert below.startswith("a planted group has 4 clients, which is below the floor of 5 (3, and 2 corrupt)")
    assert cluster.startswith("a cluster at the floor, of 5 clients, cannot be masked")


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


def test_cohorts_that_cannot_be_masked_are_refused_before_anything_is_written(tmp_path):
    """Half of ten clients, two of whom may be corrupt: no threshold serves five, and every sum would end below the floor."""
    half = algorithms.FedAvg(participation=0.5, by_samples=False)
    ten = partitions.LabelSwap(clients=10, groups=2, pairs=((1, 7), (3, 8)), samples=40, shared_test=True)
    nothing = replace(few, partition=ten, algorithm=half, protection=protections.Masked(corrupt=2))
    with pytest.raises(ValueError, match=r"a cohort of 5 of the 10 clients cannot be masked, .* let at least \d+ take part"):
        cloister.run(nothing, tmp_path / "r", quiet=True)
    assert not (tmp_path / "r").exists()
    for fine in (replace(half, participation=1.0), replace(half, participation=0.9)):
        check_feasible(replace(nothing, algorithm=fine), 10)
    check_feasible(replace(nothing, protection=protections.TwoServer(corrupt=2)), 10)


@pytest.mark.parametrize("participation", [0.5, 1.0])
def test_counts_that_corrupt_clients_could_outbid_are_refused(participation):
    """24 clients of 120 samples each, and one that may claim 10,000: no client gives its count to such a sum."""
    counted = replace(few, algorithm=algorithms.FedAvg(participation=participation), protection=protections.Masked(corrupt=1))
    with pytest.raises(ValueError, match=r"1 corrupt may claim 10,000, so that no sum is ever opened\. Bring protection"):
        check_feasible(counted, 24, [120] * 24)
    check_feasible(counted, 24)  # of clients elsewhere nobody knows how many they have
    check_feasible(replace(counted, protection=protections.Masked(corrupt=1, max_samples=150)), 24, [120] * 24)
    check_feasible(replace(counted, algorithm=algorithms.FedAvg(participation=participation, by_samples=False)), 24, [120] * 24)
    check_feasible(replace(counted, protection=protections.Masked()), 24, [120] * 24)


@pytest.mark.trains
def test_what_is_not_refused_is_summed(tmp_path):
    """At the bound that is named something is opened: with half of the clients, corrupt ones and counts."""
    ten = partitions.LabelSwap(clients=16, groups=2, pairs=((1, 7), (3, 8)), samples=40, shared_test=True)
    counted = algorithms.FedAvg(participation=0.5)
    run = replace(few, partition=ten, algorithm=counted, protection=protections.Masked(corrupt=1, max_samples=40), rounds=2)
    result = cloister.run(run, tmp_path / "r", quiet=True)
    assert not result.summary["below_floor"]


@pytest.mark.parametrize(("clients", "share", "least"), [(10, 0.5, 1), (11, 0.3, 5), (7, 1.0, 3), (24, 0.1, 4), (5, 0.5, 9)])
def test_sizes_of_cohorts_are_those_that_are_dealt(clients, share, least):
    cluster = Cluster(tuple(range(clients)), Model("init"))
    dealt = {len(part) for part in cohorts(cluster, share, least)}
    assert dealt == set(cohort_sizes(clients, share, "cohorts", least))
    drawn = invited(cluster, 0, share, "random", np.random.default_rng(0), least)
    assert cohort_sizes(clients, share, "random", least) == (len(drawn),)
