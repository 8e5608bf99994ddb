"""A robust rule that needs more updates than a round has is said before anything is played."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cloister
from cloister import Evaluation, Scenario, Training, algorithms, attacks, data, models, partitions, protections, rules
from cloister.fl.runs.feasibility import Doubt
from cloister.fl.runs.rule_check import rule_doubts


def of(rule: Any, **more: Any) -> Scenario:
    return Scenario(
        name="rules",
        data=data.Digits(),
        partition=partitions.Iid(clients=10),
        model=models.Mlp(hidden=(4,)),
        training=Training(epochs=1, batch=100, lr=0.1),
        algorithm=algorithms.RobustFedAvg(rule=rule, **more),
        protection=protections.Plain(),
        rounds=1,
    )


IMPOSSIBLE = {
    "f": (rules.MultiKrum(f=9), "MultiKrum(f=9, m=None) needs at least 21 updates, got 10"),
    "m": (rules.MultiKrum(f=1, m=11), "needs at least 11 updates, got 10"),
    "b": (rules.TrimmedMean(b=5), "TrimmedMean(b=5) needs at least 11 updates"),
    "a step": (rules.Mixed(steps=(rules.NNM(f=5),), rule=rules.Median()), "NNM(f=5) needs at least 11 updates"),
    "two stages": (rules.Bulyan(f=2), "needs at least 11 updates"),
}
POSSIBLE = [
    rules.MultiKrum(f=3),
    rules.TrimmedMean(b=4),
    rules.Median(),
    rules.FLTrust(),
    rules.CenteredClipping(tau=1.0),
    rules.FoolsGold(),
]


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_rule_of_more_updates_than_there_are_is_named(name: str) -> None:
    rule, words = IMPOSSIBLE[name]
    (said,) = rule_doubts(of(rule), 10)
    assert words in said
    assert not rule_doubts(of(rule), 40)


@pytest.mark.parametrize("rule", POSSIBLE, ids=lambda rule: type(rule).__name__)
def test_of_others_nothing_is_said(rule: Any) -> None:
    class Of:
        algorithm = type("A", (), {"rule": rule, "participation": 1.0, "needs": frozenset()})()
        protection = protections.Plain()

    assert not rule_doubts(Of(), 10)  # type: ignore[arg-type]


def test_updates_are_those_of_a_round() -> None:
    rule = rules.MultiKrum(f=3)
    assert not rule_doubts(of(rule), 10)
    assert "got 5" in rule_doubts(of(rule, participation=0.5), 10)[0]


def test_a_rule_of_ones_own_is_not_called() -> None:
    def mine(updates: Any) -> Any:
        raise AssertionError

    assert not rule_doubts(of(mine), 10)


@pytest.mark.trains
def test_a_run_and_an_evaluation_say_it_first(tmp_path: Path) -> None:
    short, words = of(rules.MultiKrum(f=9)), r"no round moves a model, as 10 updates are all that one has: MultiKrum\(f=9"
    with pytest.warns(Doubt, match=words):
        cloister.run(short, tmp_path / "run", quiet=True)
    grid = Evaluation(
        name="grid",
        scenario=replace(short, algorithm=algorithms.FedAvg()),
        attacks={"flip": attacks.SignFlip()},
        defences={"krum": short.algorithm},
        strengths=(1,),
        seeds=(0,),
        absent=False,
    )
    with pytest.warns(Doubt, match=f"defence 'krum': {words}"):
        cloister.evaluate(grid, tmp_path / "grid", quiet=True, workers=1)
