"""Rules of a user's own that keep something from round to round: no cell of a grid hands it to another."""

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
