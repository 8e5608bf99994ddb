"""Rules of a user's own that keep something from round to round: no run hands it to another."""

from dataclasses import replace

import numpy as np
import pytest

import cloister
from cloister import Scenario, Training, algorithms, data, models, partitions, protections, rules
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
def test_a_second_run_of_a_process_is_the_first_again(tmp_path):
    """Its rule had the lengths of the first run's rounds."""
    rule = Averaging()
    first, second = (cloister.run(of(rule), tmp_path / name, quiet=True) for name in ("a", "b"))
    models_of = [(one.folder / "models" / "0.safetensors").read_bytes() for one in (first, second)]
    assert models_of[0] == models_of[1]
    assert rule.seen == [], "each run had a copy"


def test_what_cannot_be_copied_is_played_as_it_is_and_ours_is_not_copied():
    rule = Stubborn()
    assert as_given(of(rule)).algorithm.rule.function is rule
    scenario = of(rules.Median())
    assert as_given(scenario) is scenario
    assert as_given(of(rules.Median(), algorithm=algorithms.FedAvg())).algorithm == algorithms.FedAvg()


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
