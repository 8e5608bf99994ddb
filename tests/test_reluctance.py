"""Which model a client names that leaves the first only for what is better beyond chance."""

import numpy as np
import pytest

from cloister.fl.clients.reluctance import reluctant

RNG = np.random.default_rng(0)
FIRST = RNG.uniform(0.2, 1.0, 60)
NOISE = RNG.normal(0.0, 0.1, 60)


def test_the_first_stays_unless_another_is_better_beyond_chance() -> None:
    a_little = FIRST - 0.01 + NOISE - NOISE.mean()
    assert a_little.mean() < FIRST.mean()
    assert reluctant([FIRST, a_little], 2.0) == 0
    assert reluctant([FIRST, a_little], 0.0) == 1
    assert reluctant([FIRST, a_little, FIRST - 0.1 + NOISE], 2.0) == 2


def test_of_those_that_are_better_the_best_is_named() -> None:
    assert reluctant([FIRST, FIRST - 0.1 + NOISE, FIRST - 0.15 + NOISE], 2.0) == 2
    assert reluctant([FIRST, FIRST - 0.15 + NOISE, FIRST - 0.1 + NOISE], 2.0) == 1


def test_one_example_shows_nothing_beyond_chance() -> None:
    assert reluctant([np.array([1.0]), np.array([0.1])], 2.0) == 0


@pytest.mark.filterwarnings("error")
def test_without_a_margin_the_least_mean_is_named_of_one_example_too() -> None:
    assert reluctant([np.array([1.0]), np.array([0.1])], 0.0) == 1
    assert reluctant([np.array([0.1]), np.array([1.0])], 0.0) == 0


def test_a_model_that_gives_no_number_is_left_for_one_that_does_and_never_named() -> None:
    broken = np.where(np.arange(60) == 7, np.nan, FIRST)
    assert reluctant([broken, FIRST], 2.0) == 1
    assert reluctant([FIRST, broken], 2.0) == 0
    assert reluctant([broken, broken], 2.0) == 0
