"""Sums that count samples: who has too much of them is said before a run, what a client can know of it, and why a run ended."""

import json
from dataclasses import replace

import numpy as np
import pytest

import cloister
from cloister import Scenario, Training, algorithms, data, models, protections
from cloister.fl.runs.feasibility import Doubt
from cloister.fl.runs.lost_round import NothingLearned, _more
from cloister.fl.runs.outweighing import least_of_others, outweighed, outweighing
from cloister.own_data_check import fits

from .commanded import commanded
from .frame import Frame
from .served import SMALL, played

EVEN = {0: 96, 1: 110, 2: 72, 3: 80, 4: 64}
UNEVEN = {0: 150, 1: 60, 2: 60, 3: 60, 4: 60}


def owned(samples, **changes):
    """A scenario of clients that train on so many records each."""
    rng = np.random.default_rng(0)
    rows = [(f"h{i}", *rng.normal(size=2), label) for i, n in samples.items() for label in "ab" for _ in range(5 * n // 8)]
    table = Frame(zip(["hospital", "age", "dose", "label"], map(np.array, zip(*rows, strict=True)), strict=True))
    scenario = Scenario(
        name="owned",
        data=data.from_dataframe(table, client="hospital", label="label"),
        model=models.Mlp(hidden=(4,)),
        training=Training(epochs=1, batch=16, lr=0.1),
        algorithm=algorithms.FedAvg(),
        protection=protections.Masked(),
        rounds=1,
    )
    return replace(scenario, **changes)


def plain(samples, **changes):
    """By numbers alone."""
    return outweighing(owned({0: 8, 1: 8, 2: 8}, **changes), samples)


def test_who_has_more_than_its_share_is_found():
    assert plain(EVEN) == ()
    assert plain(UNEVEN) == (0,)
    assert plain(EVEN | {2: 900, 4: 900}) == (2, 4), "of two who outweigh the others each has half"
    assert plain(dict.fromkeys(range(8), 60) | {8: 120}) == ()
    assert plain(dict.fromkeys(range(8), 60) | {8: 121}) == (8,), "121^2 is more than a third of 121^2 + 8 x 60^2"
    for changes in (
        {"algorithm": algorithms.FedAvg(by_samples=False)},
        {"protection": protections.Plain()},
        {"algorithm": algorithms.EMDCFL(), "validation": 0.3},
    ):
        assert plain(UNEVEN, **changes) == ()
    two = {"protection": protections.TwoServer()}
    assert (plain(EVEN, **two), plain(UNEVEN, **two)) == ((), (0,))
    corrupt = protections.Masked(corrupt=1, floor=2, max_samples=120)
    assert plain(dict.fromkeys(range(12), 100) | {0: 120}, protection=corrupt) == ()
    assert plain(dict.fromkeys(range(12), 30) | {0: 120}, protection=corrupt) == (0,)


def test_where_not_all_take_part_the_largest_others_count():
    half = algorithms.FedAvg(participation=0.5)
    others = dict.fromkeys(range(8), 60)
    assert plain(others | {8: 100, 9: 100}, algorithm=half) == ()
    assert plain(others | {8: 100, 9: 121}, algorithm=half) == (9,)
    assert plain(others | {8: 100, 9: 121}) == ()


def test_the_line_says_who_and_what_to_do():
    (line,) = outweighed(owned({0: 8, 1: 8, 2: 8}), UNEVEN, {0: "north"})
    assert line.startswith(
        "sums count samples, and of 390 in all client north (150) has more than 1/3 of the squares of all counts:"
    )
    assert line.endswith("take algorithm.by_samples=False"), "before: or a lower floor, which does not help against so much"
    (line,) = outweighed(owned({0: 8, 1: 8, 2: 8}), {**UNEVEN, 0: 110}, {})
    assert line.endswith("take algorithm.by_samples=False or protection.floor=2")
    corrupt = owned({0: 8, 1: 8, 2: 8}, protection=protections.Masked(floor=2, corrupt=1))
    (line,) = outweighed(corrupt, EVEN, {})
    assert (
        "clients 0 (96), 1 (110), 2 (72), 3 (80), ... have more than 1/3 of the squares of all counts, beside what 1 corrupt"
        in line
    )
    assert "protection.max_samples near what the largest client has (110)" in line


def test_where_all_who_are_invited_are_needed_no_floor_is_advised():
    """Before: "more clients or a lower protection.floor are needed", with which the same run ended likewise."""
    complete = owned({0: 8, 1: 8, 2: 8}, algorithm=algorithms.FedAvg(by_samples=False, complete=True))
    assert _more(complete, True) == "algorithm.complete=False, by which who falls silent is left out"
    assert _more(replace(complete, algorithm=algorithms.FedAvg()), False) == "more clients or a lower protection.floor"


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("protection", [protections.Masked(), protections.TwoServer()], ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("samples", [UNEVEN, {0: 80, 1: 60, 2: 60, 3: 60, 4: 60}], ids=["too much", "not too much"])
def test_what_is_said_is_so(samples, protection, tmp_path):
    """The run that it is said of learns nothing, and the other one does."""
    scenario = owned(samples, protection=protection)
    if samples is UNEVEN:
        with pytest.warns(Doubt, match=r"client h0 \(149\) has more than 1/3"), pytest.raises(NothingLearned):
            cloister.run(scenario, tmp_path / "r", quiet=True)
    else:
        result = cloister.run(scenario, tmp_path / "r", quiet=True)
        assert not result.summary["below_floor"]
        assert "doubts" not in result.summary


@pytest.mark.long
@pytest.mark.trains
def test_it_is_in_the_summary_of_a_run_that_goes_on_without_such_a_client(tmp_path):
    cfl = algorithms.CFL(thresholds=algorithms.ScaleFree(eps1=0.1, eps2=0.9), by_samples=True)
    late = owned(UNEVEN, algorithm=cfl, arrivals={0: 1}, rounds=2)
    with pytest.warns(Doubt, match="client h0"):
        result = cloister.run(late, tmp_path / "r", quiet=True)
    assert any("client h0" in line for line in result.summary["doubts"])


@pytest.mark.parametrize("protection", [protections.Masked(), protections.TwoServer(), protections.Masked(floor=2, corrupt=1)])
@pytest.mark.parametrize("own", [7, 112, 1000])
def test_a_client_is_told_how_many_the_others_must_have(own, protection):
    scenario = owned({0: 8, 1: 8, 2: 8}, protection=protection)
    needed = least_of_others(scenario, 5, own)
    assert outweighing(scenario, {0: own} | dict.fromkeys(range(1, 5), needed)) == ()
    assert outweighing(scenario, {0: own} | dict.fromkeys(range(1, 5), needed - 1)) != ()


def test_where_every_client_is_needed_as_many_each_will_do_and_nothing_else():
    """It was said that none will: the largest number that there may be was tried alone."""
    scenario = owned({0: 8, 1: 8, 2: 8}, protection=protections.Masked(floor=3, corrupt=0))
    assert 188 <= least_of_others(scenario, 3, 192) <= 192
    assert outweighing(scenario, dict.fromkeys(range(3), 192)) == ()


def test_it_may_be_that_no_number_will_do():
    scenario = owned({0: 8, 1: 8, 2: 8}, protection=protections.Masked(corrupt=1))
    assert least_of_others(scenario, 3, 9000) is None
    assert least_of_others(owned({0: 8, 1: 8, 2: 8}), 3, 20_000) is None, "more than protection.max_samples"


@pytest.mark.trains
def test_a_check_speaks_of_equal_weights_where_samples_count():
    told = dict(fits(owned(EVEN), None, 1, None))
    assert told["sums"].endswith("2 may be away while there is one cluster and all weigh the same")
    records = int(told["train on"].split()[0])
    assert f"with this one's {records} where the others have fewer than {np.ceil(records * 0.5**0.5):.0f} each" in told["weights"]
    even = dict(fits(owned(EVEN, algorithm=algorithms.FedAvg(by_samples=False)), None, 1, None))
    assert even["sums"].endswith("2 may be away while there is one cluster")
    assert "weights" not in even


@pytest.mark.long
def test_a_coordinator_says_at_its_start_that_samples_count(tmp_path):
    text = """
from cloister import Scenario, Training, algorithms, data, models, partitions, protections
scenario = Scenario(name="a", data=data.Digits(), partition=partitions.Iid(clients=3, samples=20), model=models.Mlp(hidden=(4,)),
                    training=Training(epochs=1, batch=10, lr=0.1), algorithm=algorithms.FedAvg(),
                    protection=protections.Masked(), rounds=1)
"""
    (tmp_path / "a.py").write_text(text)
    start = ("serve", "a.py", "--listen", "127.0.0.1:0", "--insecure-loopback", "--wait", "0.1", "--out", "run")
    said = commanded(tmp_path, *start).stderr
    assert "one with a client of more than 1/3 of the squares of all counts is withheld; a run without any ends" in said, said
    even = commanded(tmp_path, *start, "--set", "algorithm.by_samples=False").stderr
    assert "sums count samples" not in even


@pytest.mark.trains
@pytest.mark.long
def test_clients_are_told_why_a_run_ended_without_a_model_and_not_whose_fault_it_is(tmp_path):
    uneven = replace(
        SMALL,
        data=owned(UNEVEN).data,
        partition=owned(EVEN).partition,
        algorithm=algorithms.FedAvg(),
        protection=protections.Masked(),
        rounds=1,
    )
    with pytest.raises(NothingLearned, match=r"protection\.floor may help; of client 0$") as ended:
        played(uneven, tmp_path, own=dict.fromkeys(range(5)))
    assert "client 0" not in ended.value.words
    assert cloister.load(tmp_path / "served").ended == str(ended.value), "the coordinator's own folder names it"
    for i in range(5):
        lines = [json.loads(line) for line in (tmp_path / f"client {i}" / "join.jsonl").read_text().splitlines()]
        assert next(line for line in lines if "ended" in line)["why"] == ended.value.words
