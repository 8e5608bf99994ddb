"""A client that keeps the best of the models offered: its bound, held against drawn runs, and what its assumptions are for."""

import numpy as np
import pytest

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.hardened_flic import HardenedFLIC
from cloister.threat_models.choice_theory import keep_best_bound
from cloister.threat_models.design_limit import HARDENED_FLIC, known_breaks

DELTA, RUNS = 0.1, 4000


def excesses(losses: np.ndarray, examples: int, rng: np.random.Generator) -> np.ndarray:
    """By how much the kept model's expected loss is above that of the best offered so far, at worst over a run.

    losses: the expected ones, in the order of the offers; an example's loss is 0 or 1, which spreads it most.
    """
    means = rng.binomial(examples, losses, size=(RUNS, len(losses))) / examples
    worst = np.zeros(RUNS)
    for offered in range(1, len(losses) + 1):
        kept = means[:, :offered].argmin(axis=1)
        worst = np.maximum(worst, losses[kept] - losses[:offered].min())
    return worst


@pytest.mark.parametrize("examples", [20, 200])
@pytest.mark.parametrize("models", [2, 10, 100])
def test_the_bound_holds_in_drawn_runs(models: int, examples: int) -> None:
    """One model is better than all others by about the bound: the case in which a choice can do most harm."""
    bound = keep_best_bound(models, examples, DELTA)
    rng = np.random.default_rng(models * examples)
    for gap in (0.5 * bound, bound * 1.001):
        losses = np.full(models, 0.5)
        losses[models // 2] = max(0.0, 0.5 - gap)
        above = float(np.mean(excesses(losses, examples, rng) > bound))
        assert above <= DELTA + 3 * np.sqrt(DELTA / RUNS)


def test_a_fifth_of_the_bound_does_not_hold() -> None:
    """So the drawn runs can tell."""
    bound = keep_best_bound(100, 200, DELTA)
    losses = np.full(100, 0.5)
    losses[50] = 0.5 - 0.21 * bound
    assert float(np.mean(excesses(losses, 200, np.random.default_rng(0)) > 0.2 * bound)) > 0.3


def test_offers_that_depend_on_the_examples_are_not_covered() -> None:
    """A model that knows the 50 examples by heart and guesses otherwise is kept for good: expected loss 1 beside .1."""
    bound, rng = keep_best_bound(2, 50, 0.05), np.random.default_rng(0)
    honest = rng.binomial(50, 0.1, size=RUNS) / 50
    kept_by_heart = np.mean(honest > 0)  # the other one's mean loss is 0
    assert bound < 0.9
    assert kept_by_heart > 0.9


def test_the_bound_grows_with_models_and_falls_with_examples() -> None:
    assert keep_best_bound(10, 14, 0.05) > 0.9
    assert keep_best_bound(20, 1000, 0.05) > keep_best_bound(10, 1000, 0.05) > keep_best_bound(10, 2000, 0.05)


@pytest.mark.parametrize(("models", "examples", "delta"), [(0, 1, 0.1), (1, 0, 0.1), (1, 1, 0.0), (1, 1, 1.0)])
def test_what_cannot_be_is_refused(models: int, examples: int, delta: float) -> None:
    with pytest.raises(ValueError, match=r"at least one|probability"):
        keep_best_bound(models, examples, delta)


def test_what_searches_found_is_said_of_the_hardened_flic_alone() -> None:
    assert known_breaks(HardenedFLIC(rounds_before=2, every=2)) == HARDENED_FLIC
    assert known_breaks(FedAvg()) == ""
