"""Rules and attacks of a user's own that keep something from round to round: no cell of a grid hands it to another."""

import json
from dataclasses import replace

import numpy as np
import pytest

import cloister
from cloister import Evaluation, Scenario, Training, algorithms, attacks, data, models, partitions, protections, rules
from cloister.fl.runs.own_rule import as_given


class Averaging:
    """Clips to the mean length of all rounds so far."""

    def __init__(self):
        self.seen = []

    def __call__(self, updates):
        lengths = np.linalg.norm(updates, axis=1, keepdims=True)
        self.seen.append(float(np.median(lengths)))
        return (updates * np.minimum(1, np.mean(self.seen) / np.maximum(lengths, 1e-12))).mean(0)


class Stubborn(Averaging):
    """And cannot be copied."""

    def __deepcopy__(self, memo):
        raise RuntimeError("mine")


def of(rule, **changes):
    scenario = Scenario(
        name="own",
        data=data.Digits(),
        partition=partitions.Iid(clients=6, samples=30),
        model=models.Mlp(hidden=(4,)),
        training=Training(epochs=1, batch=10, lr=0.2),
        algorithm=algorithms.RobustFedAvg(rule=rule),
        protection=protections.Plain(),
        rounds=3,
    )
    return replace(scenario, **changes)


@pytest.mark.long
@pytest.mark.trains
def test_cells_of_a_grid_do_not_touch_each_other(tmp_path):
    """Each had the lengths of all rounds that were played before in its process, so that workers and order told."""
    rule = Averaging()

    def late(name, *seeds):
        grid = Evaluation(
            name=name,
            scenario=of(rules.Median()),
            attacks={"flip": attacks.SignFlip()},
            defences={"own": algorithms.RobustFedAvg(rule=rule)},
            strengths=(1,),
            seeds=seeds,
        )
        cloister.evaluate(grid, tmp_path / name, quiet=True, workers=1)
        rows = map(json.loads, (tmp_path / name / "results.jsonl").read_text().splitlines())
        return {row["attack"]: row["accuracy"]["late"] for row in rows if row["seed"] == 1}

    assert late("after another", 0, 1) == late("alone", 1)
    assert rule.seen == []


@pytest.mark.trains
def test_a_run_plays_the_rule_that_it_is_given_which_can_be_looked_at(tmp_path):
    rule = Averaging()
    cloister.run(of(rule), tmp_path / "run", quiet=True)
    assert len(rule.seen) == 3


def test_what_cannot_be_copied_is_played_as_it_is_and_ours_is_not_copied():
    rule = Stubborn()
    assert as_given(of(rule)).algorithm.rule.function is rule
    scenario = of(rules.Median())
    assert as_given(scenario) is scenario


class Gram:
    """Weights of the Gram matrix, which counts its calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, gram):
        self.calls += 1
        return np.full(len(gram), 1 / len(gram))


def test_the_rule_inside_a_defence_is_copied_too():
    own = Gram()
    flic = algorithms.HardenedFLIC(rounds_before=2, every=1, inner=rules.OfGram(own, shift_invariant=True))
    found = as_given(of(rules.Median(), algorithm=flic))
    assert isinstance(found.algorithm.inner.function, Gram)
    assert found.algorithm.inner.function is not own


class Growing:
    """Turns round from its 19th call on."""

    def __init__(self):
        self.calls = 0

    def __call__(self, own: attacks.Own):
        self.calls += 1
        return -3 * own.update if self.calls > 18 else own.update


@pytest.mark.trains
@pytest.mark.long
def test_what_an_attack_keeps_is_not_carried_from_cell_to_cell_nor_from_point_to_point(tmp_path):
    """The same attack did nothing in the first seed, and cost 40 points in all others."""
    attack = Growing()
    own, defences = {"own": attack}, {"median": algorithms.RobustFedAvg(rule=rules.Median())}
    grid = Evaluation(name="kept", scenario=of(rules.Median()), attacks=own, defences=defences, strengths=(3,), seeds=(0, 1, 2))
    cloister.evaluate(grid, tmp_path / "grid", quiet=True, workers=1)
    rows = map(json.loads, (tmp_path / "grid" / "results.jsonl").read_text().splitlines())
    assert {row["same_models"] for row in rows if row["attack"] == "own"} == {True}
    assert attack.calls == 0
    pytest.importorskip("optuna")
    cloister.attack(of(rules.Median()), tmp_path / "hunt", attacks=own, attackers=3, budget=8, quiet=True)
    assert attack.calls == 0


def test_the_objects_of_an_adversary_are_copied_and_its_functions_are_not():
    def minus(own: attacks.Own):
        return -own.update

    for upload, same in ((Growing(), False), (minus, True)):
        scenario = of(rules.Median(), adversary=attacks.Adversary(members=attacks.Pool(2), upload=upload))
        found = as_given(scenario)
        assert (found.adversary.upload.function is upload) == same
        assert found.algorithm is scenario.algorithm
    ours = of(rules.Median(), adversary=attacks.Adversary(members=attacks.Pool(2), upload=attacks.MinusGradient()))
    assert as_given(ours) is ours
