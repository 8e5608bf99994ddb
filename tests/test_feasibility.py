"""What cannot come to anything is said in one line before training."""

import html
import re
import sys
from dataclasses import replace

import numpy as np
import pytest

import cloister
from cloister import Scenario, Training, algorithms, attacks, cli, data, models, partitions, protections
from cloister.comparing.caveats import doubtful_words
from cloister.comparing.data import read_comparison
from cloister.comparing.notes import footnotes
from cloister.fl.algorithms.algorithm import Cluster
from cloister.fl.algorithms.cohorts import cohort_sizes, cohorts, invited
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
SPLIT = "every split of 4 clients leaves a side below the floor of 3, and is turned down: take 6 clients or more"


def test_a_floor_that_no_split_could_meet_is_said():
    split, group = doubts(few, 4, HALVES)
    assert split.startswith(SPLIT)
    assert group.startswith("a planted group has 2 clients, which is below the floor of 3: it gets no model of its own")
    for algorithm, then in (
        (algorithms.FLIC(rounds_before=1), "each of its clients trains alone"),
        (algorithms.FeSEM(models=2), "by itself it is trained no more"),
    ):
        (group,) = doubts(replace(few, algorithm=algorithm, rounds=2), 4, HALVES)
        assert group.startswith(f"a planted group has 2 clients, which is below the floor of 3: {then}; take larger")
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
    corrupt = replace(few, protection=protections.Masked(corrupt=9))
    with pytest.raises(ValueError, match=r"4 clients are below the floor of 12 \(3, and 9 corrupt\).* or protection\.corrupt$"):
        check_feasible(corrupt, 4)


def test_weights_too_uneven_for_the_floor_are_said():
    (line,) = doubts(replace(few, algorithm=algorithms.PFedGraph()), 12, {})
    assert line.startswith("a client's mean in which another one has more than 1/3 of the squared weights is not opened")
    assert "take a larger algorithm.lam, such as 3, or" in line
    masked = protections.Masked(corrupt=1, sketch=128)
    (line,) = doubts(replace(few, algorithm=algorithms.FedSaC(), protection=masked), 12, {})
    assert "1/4 of" in line
    assert "smaller algorithm.l1 and algorithm.l2" in line
    for algorithm in (algorithms.PFedGraph(lam=3.0), algorithms.FedSaC(l1=0.1, l2=0.2)):
        assert doubts(replace(few, algorithm=algorithm, protection=protections.Masked(sketch=128)), 12, {}) == []
    assert doubts(replace(few, algorithm=algorithms.PFedGraph(), protection=protections.Plain()), 12, {}) == []


def test_thresholds_that_are_no_shares_are_said():
    thresholds = algorithms.ScaleFree(eps1=4, eps2=74)
    settled, never = doubts(replace(few, algorithm=algorithms.CFL(thresholds=thresholds)), 12, {})
    assert settled.startswith("algorithm.thresholds.eps1 is 4, and no mean")
    assert never.startswith("algorithm.thresholds.eps2 is 74: a cluster is split while")
    assert not doubts(replace(few, algorithm=algorithms.CFL(thresholds=algorithms.Absolute(eps1=4, eps2=74))), 12, {})


def test_fewer_measurements_than_fedsac_needs_are_said():
    """Of other methods, whose weights do not feed on themselves, nothing is."""
    even = replace(few, algorithm=algorithms.FedSaC(l1=0.1, l2=0.2))
    (line,) = doubts(even, 12, {})
    assert line.startswith("cosines of 64 measurements may lead FedSaC to mix groups for good")
    assert "take protection.sketch=128 or more" in line
    for enough in (protections.Masked(sketch=128), protections.Plain()):
        assert doubts(replace(even, protection=enough), 12, {}) == []
    assert doubts(replace(few, algorithm=algorithms.PFedGraph(lam=3.0)), 12, {}) == []


def test_planted_groups_that_cannot_be_masked_are_said():
    """Five reach the floor of three and two corrupt, and no threshold serves them."""
    grouped = replace(few, protection=protections.Masked(corrupt=2))
    assert doubts(grouped, 24, {i: i // 8 for i in range(24)}) == []
    assert doubts(grouped, 24, {}) == []
    (line,) = doubts(grouped, 20, {i: i // 5 for i in range(20)})
    assert line.startswith(
        "a planted group has 5 clients, which is below the 6 that can be masked together with 2 corrupt and 25 %"
    )


@pytest.mark.long
@pytest.mark.trains
def test_it_is_said_before_training_in_the_summary_and_in_the_report(tmp_path, monkeypatch, capsys):
    with pytest.warns(Doubt, match="every split of 4 clients leaves a side below the floor of 3"):
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
    """Five clients, two of whom may be corrupt: no threshold serves them, and every sum would end below the floor."""
    averaged = algorithms.FedAvg(by_samples=False)
    five = partitions.LabelSwap(clients=5, groups=2, pairs=((1, 7), (3, 8)), samples=40, shared_test=True)
    nothing = replace(few, partition=five, algorithm=averaged, protection=protections.Masked(corrupt=2))
    with pytest.raises(
        ValueError, match=r"a sum of all clients cannot be masked: 5 clients with 2 corrupt and 1 dropped: .*dropouts; take"
    ) as error:
        cloister.run(nothing, tmp_path / "r", quiet=True)
    assert str(error.value).endswith("take 6 clients or more, or a lower protection.corrupt (2) or protection.dropped (0.25)")
    assert not (tmp_path / "r").exists()
    check_feasible(replace(nothing, protection=protections.TwoServer(corrupt=2)), 5)


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize(
    "method",
    [algorithms.IFCA(models=1, participation=0.1), algorithms.HardenedFLIC(rounds_before=2, every=2, participation=0.1)],
    ids=lambda method: type(method).__name__,
)
def test_who_takes_part_is_enough_for_a_sum(method, tmp_path):
    """A tenth of twenty are two, of whom no sum is opened."""
    twenty = partitions.LabelSwap(clients=20, groups=2, pairs=((1, 7), (3, 8)), samples=40, shared_test=True)
    run = replace(few, partition=twenty, algorithm=method, protection=protections.TwoServer(floor=5), rounds=2)
    result = cloister.run(run, tmp_path / "r", quiet=True)
    opened = [told for told in result.disclosures if told["recipient"] == "server" and told["what"] in ("slots", "sums")]
    assert {len(told["about"]) for told in opened} == {5}


@pytest.mark.trains
def test_what_would_open_slots_is_said(tmp_path):
    """Five clients of four models: no sum of a model is of five."""
    twenty = partitions.LabelSwap(clients=20, groups=2, pairs=((1, 7), (3, 8)), samples=40, shared_test=True)
    method = algorithms.IFCA(models=4, gamma=0.3, participation=0.1)
    run = replace(few, partition=twenty, algorithm=method, protection=protections.TwoServer(floor=5), rounds=1)
    with pytest.raises(ValueError, match=r"no slot was chosen by 5 clients: .*algorithm.participation, fewer models or a lower"):
        cloister.run(run, tmp_path / "r", quiet=True)


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("method", [algorithms.FedAvg, algorithms.FLIC, algorithms.CFL], ids=lambda method: method.__name__)
def test_as_many_are_invited_as_can_be_masked(method, tmp_path):
    """Half of ten clients, two of whom may be corrupt: no threshold serves five, so all ten take part."""
    more = {algorithms.FLIC: {"rounds_before": 3}, algorithms.CFL: {"thresholds": algorithms.ScaleFree(eps1=0.1, eps2=0.9)}}
    half = method(participation=0.5, by_samples=False, **more.get(method, {}))
    ten = partitions.LabelSwap(clients=10, groups=2, pairs=((1, 7), (3, 8)), samples=40, shared_test=True)
    run = replace(few, partition=ten, algorithm=half, protection=protections.Masked(corrupt=2), rounds=2)
    assert not cloister.run(run, tmp_path / "r", quiet=True).summary["below_floor"]


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


@pytest.mark.long
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


def test_a_delta_above_one_in_so_many_is_doubted():
    """Before: taken without a word, though to give one record away as it is keeps such a promise."""
    privacy = protections.RecordPrivacy(clip=1.0, multiplier=1.0, budget=8.0, delta=0.05, records=40)
    private = replace(few, training=replace(few.training, privacy=privacy), protection=protections.Plain())
    (words,) = doubts(private, 12, {})
    assert words.startswith("training.privacy.delta is 0.05, above 1 / 40: to give one of 40 records of a client away")
    weaker = replace(private, training=replace(few.training, privacy=replace(privacy, delta=1 / 40)))
    assert doubts(weaker, 12, {}) == []
    noise = protections.Noise(epsilon=8.0, delta=0.1, rounds=1, l2=1.0)
    (words,) = doubts(
        replace(few, algorithm=algorithms.FedAvg(by_samples=False), protection=protections.Masked(noise=noise)), 12, {}
    )
    assert words.startswith("protection.noise.delta is 0.1, above 1 / 12: to give one of 12 clients away")


@pytest.mark.parametrize(
    ("protection", "clients", "ways"),
    [
        (protections.Masked(floor=2, corrupt=1), 9, "take 10 clients or more, or protection.dropped=0.2"),
        (
            protections.Masked(floor=2, corrupt=1, dropped=0.0),
            5,
            "take 6 clients or more, or, where nobody colludes, protection.corrupt=0",
        ),
        (protections.Masked(floor=7), 9, "take 14 clients or more, or protection.floor=4"),
        (protections.TwoServer(floor=5), 9, "take 10 clients or more, or protection.floor=4"),
        (protections.Masked(floor=2), 3, "take 4 clients or more"),
    ],
)
def test_the_ways_out_that_are_named_are_ways_out(protection, clients, ways):
    """Told to take a lower floor where it was at its least, an engineer went round in a circle."""
    played = replace(few, protection=protection)
    words = next(line for line in doubts(played, clients, {}) if line.startswith("every split"))
    assert words.endswith(f"and is turned down: {ways}")
    for name, value in re.findall(r"protection\.(\w+)=([\d.]+)", ways):
        changed = replace(protection, **{name: type(getattr(protection, name))(float(value))})
        assert not [line for line in doubts(replace(played, protection=changed), clients, {}) if line.startswith("every split")]


@pytest.mark.trains
@pytest.mark.filterwarnings("ignore::cloister.fl.runs.feasibility.Doubt")
def test_a_comparison_says_what_could_not_come_to_anything(tmp_path):
    """A method looked 22 points worse under a protection whose floor turned all of its splits down."""
    played = replace(few, partition=partitions.Iid(clients=9, samples=40), rounds=1)
    compared = cloister.Comparison(
        name="floors", data={"iid": played}, methods={"CFL": cloister.Method(algorithm=few.algorithm)}, seeds=(0,), scale="quick",
        protections={"Masked": protections.Masked(), "with one corrupt": protections.Masked(floor=2, corrupt=1)},
    )  # fmt: skip
    cloister.compare(compared, tmp_path / "c", quiet=True, workers=1)
    (words,) = doubtful_words(read_comparison(tmp_path / "c"))
    assert words.startswith("What could not come to anything: CFL on iid under with one corrupt: every split of 9 clients leaves")
    assert words in footnotes(read_comparison(tmp_path / "c"))


def test_a_floor_in_clear_has_its_ways_out_too():
    """It ended in an AttributeError: nobody is corrupt there."""
    plain = replace(few, protection=protections.Plain(floor=2))
    for groups, ways in (({0: 0, 1: 1, 2: 1, 3: 1}, "take larger groups"), ({0: 0, 1: 0, 2: 1, 3: 1}, "")):
        words = [line for line in doubts(plain, 4, groups) if line.startswith("a planted group")]
        assert [line.endswith(ways) for line in words] == [True] * bool(ways)


def test_grouping_that_begins_after_the_last_round_is_said():
    """Before: a FLIC that never grouped was shown as if it had found that all clients are alike, and praised as holding."""

    def said(algorithm, rounds=12):
        return doubts(replace(few, algorithm=algorithm, protection=protections.Plain(), rounds=rounds), 12, {})

    late = "FLIC never begins to group in 12 rounds (rounds_before=100): all clients share one model to the end; take"
    assert said(algorithms.FLIC(rounds_before=100)) == [f"{late} algorithm.rounds_before=3, a quarter of them, or more rounds"]
    assert said(algorithms.FLIC(rounds_before=12))[0].startswith(
        "FLIC begins to group in the last of 12 rounds (rounds_before=12)"
    )
    (words,) = said(algorithms.HardenedFLIC(rounds_before=12, every=2))
    assert words.startswith("in 12 rounds clients of HardenedFLIC never begin to choose among models but after a fork (rounds_b")
    assert (
        "warm_up=3): all clients share one model to the end; take algorithm.warm_up=1"
        in said(algorithms.CFLGP(models=None), 2)[0]
    )
    assert said(algorithms.FLIC(rounds_before=2), 1)[0].endswith("to the end; take more rounds")
    for algorithm in (
        algorithms.FLIC(rounds_before=11),
        algorithms.FLIC(rounds_before=12, similarities="every round", trace=True),
        algorithms.HardenedFLIC(rounds_before=11, every=2),
        algorithms.CFLGP(models=2, warm_up=20),
        algorithms.FedAvg(),
    ):
        assert said(algorithm) == []


@pytest.mark.long
@pytest.mark.trains
def test_a_verdict_and_a_run_say_that_grouping_never_began(tmp_path):
    late = algorithms.FLIC(rounds_before=9)
    plain = replace(few, protection=protections.Plain(), rounds=2)
    result = cloister.run(replace(plain, algorithm=late), tmp_path / "run", quiet=True)
    words = "FLIC never begins to group in 2 rounds (rounds_before=9): all clients share one model to the end"
    assert words in str(result)
    assert words in result.report.read_text()
    evaluation = attacks.Evaluation(
        name="late",
        scenario=plain,
        strengths=(1,),
        attacks={"minus": attacks.MinusGradient()},
        defences={"late": late, "mean": algorithms.FedAvg()},
        seeds=(0,),
    )
    found = cloister.evaluate(evaluation, tmp_path / "grid", quiet=True, workers=1)
    assert f"Defence 'late': {words}" in found.verdict
    assert words in found.report.read_text()
    assert words in (found.folder / "summary.md").read_text()
