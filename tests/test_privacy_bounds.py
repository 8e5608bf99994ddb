"""Lower bounds on epsilon: known answers, the table of Gaussian mechanisms, and how often a bound exceeds the truth."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from cloister.protocol.privacy.gaussian import gaussian_epsilon
from cloister.threat_models.privacy import clopper_pearson, gdp, one_run
from cloister.threat_models.privacy.bound import LowerBound, Split, lower, upper
from cloister.threat_models.privacy.one_run import Guesses

DELTA = 1e-5
TRUE = {0.5: 10.00, 1.0: 4.38, 2.0: 1.99, 4.0: 0.93}
"""Epsilon of a Gaussian mechanism by its noise multiplier."""


def gaussian(z: float, trials: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng([seed, trials])
    return 1 / z + rng.standard_normal(trials), rng.standard_normal(trials)


def in_one_run(z: float, canaries: int, made: int, seed: int) -> Guesses:
    rng = np.random.default_rng([seed, canaries])
    coins = rng.random(canaries) < 0.5
    return Guesses.by_scores(coins / z + rng.standard_normal(canaries), coins, made)


def mean_of(bound: Callable[..., LowerBound], z: float, trials: int, repeats: int) -> float:
    return float(np.mean([bound(*gaussian(z, trials, seed), DELTA, 0.95).epsilon for seed in range(repeats)]))


# --- known answers -------------------------------------------------------------------------------------------------------------


def test_clopper_pearson_intervals_are_the_exact_ones() -> None:
    for successes, trials in [(0, 10), (3, 10), (10, 10), (57, 1000)]:
        exact = stats.binomtest(successes, trials).proportion_ci(0.9, "exact")
        assert float(upper(np.array(float(successes)), trials, 0.05)) == pytest.approx(exact.high)
        assert float(lower(np.array(float(successes)), trials, 0.05)) == pytest.approx(exact.low)


def test_perfect_separation_tells_what_so_many_trials_can() -> None:
    """1,000 trials that bound, none of them wrong: by hand."""
    apart = (np.ones(2000), np.zeros(2000))
    right = 0.025 ** (1 / 1000)
    found = clopper_pearson.lower_bound(*apart, DELTA, 0.95)
    assert found.epsilon == pytest.approx(math.log((right - DELTA) / (1 - right)), rel=1e-6)
    assert (found.confidence, found.trials) == (0.95, 2000)
    mu = gdp.mu_lower_bound(*apart, 0.95, choosing=0.5)
    assert mu == pytest.approx(2 * stats.norm.ppf(right), rel=1e-6)
    assert gdp.lower_bound(*apart, DELTA, 0.95, choosing=0.5).epsilon == pytest.approx(gaussian_epsilon(mu, DELTA))


def test_either_neighbour_may_be_the_one_that_stands_out() -> None:
    """A score that is now and then extreme on one side alone: only that side's tail bounds epsilon."""
    rng = np.random.default_rng(1)
    common, rare = rng.random(4000), np.where(rng.random(4000) < 0.3, 5.0, 0.0)
    high = clopper_pearson.lower_bound(common + rare, common, DELTA, 0.95).epsilon
    low = clopper_pearson.lower_bound(common, common - rare, DELTA, 0.95).epsilon
    assert min(high, low) > 4


def test_one_run_known_answers() -> None:
    """1,000 canaries, 100 guesses, 95 right: as by jax_privacy's auditor, which shares no code with this one."""
    guesses = Guesses(1000, 100, 95)
    assert one_run.lower_bound(guesses, DELTA, 0.95, "classical").epsilon == pytest.approx(2.16518, abs=2e-5)
    assert one_run.lower_bound(guesses, DELTA, 0.95).epsilon == pytest.approx(3.32, abs=0.01)
    assert one_run.lower_bound(guesses, DELTA, 0.95).method == "one run, f-DP (gaussian)"
    approximate = one_run.lower_bound(guesses, DELTA, 0.95, curve="approximate").epsilon
    assert approximate == pytest.approx(2.16, abs=0.05)


@pytest.mark.parametrize("epsilon", [0.0, 0.7, 3.0])
def test_the_one_run_p_value_is_the_binomials_without_delta(epsilon: float) -> None:
    right = math.exp(epsilon) / (1 + math.exp(epsilon))
    tail = math.fsum(math.comb(40, k) * right**k * (1 - right) ** (40 - k) for k in range(33, 41))
    assert one_run.p_value(Guesses(200, 40, 33), epsilon, 0.0) == pytest.approx(tail)
    assert one_run.p_value(Guesses(200, 40, 33), epsilon, 1e-3) > tail


def test_more_right_guesses_bound_more_and_chance_bounds_nothing() -> None:
    for method in ("f-DP", "classical"):
        found = [one_run.lower_bound(Guesses(1000, 100, v), DELTA, 0.95, method).epsilon for v in (50, 58, 70, 85, 95, 100)]
        assert found[0] == 0
        assert found == sorted(found)
        assert found[-1] > 2.5


def test_what_cannot_be_bounded_is_refused() -> None:
    good = np.zeros(10)
    for bad in (np.array([math.nan] * 10), np.zeros((2, 5)), np.zeros(1)):
        with pytest.raises(ValueError, match=r"finite|too few"):
            clopper_pearson.lower_bound(bad, good, DELTA, 0.95)
    with pytest.raises(ValueError, match="between 0 and 1"):
        clopper_pearson.lower_bound(good, good, DELTA, 1.0)
    with pytest.raises(ValueError, match="delta above 0"):
        gdp.lower_bound(good, good, 0.0, 0.95)
    with pytest.raises(ValueError, match="delta above 0"):
        one_run.lower_bound(Guesses(10, 5, 5), 0.0, 0.95)
    with pytest.raises(ValueError, match="cannot be"):
        Guesses(10, 5, 6)
    with pytest.raises(ValueError, match="share"):
        Split.of(good, good, 1.0)


# --- the table -----------------------------------------------------------------------------------------------------------------


def check_table(bound: Callable[..., LowerBound], trials: int, expected: dict[float, float], repeats: int) -> None:
    """Within a third of the figure, or 0.25; and under the truth."""
    for z, figure in expected.items():
        found = mean_of(bound, z, trials, repeats)
        assert abs(found - figure) <= max(0.33 * figure, 0.25), (z, trials, found, figure)
        assert found < TRUE[z]


CP = {
    1_000: {0.5: 2.83, 1: 1.25, 2: 0.11, 4: 0.04},
    10_000: {0.5: 4.00, 1: 1.74, 2: 0.24, 4: 0.06},
    100_000: {0.5: 5.17, 1: 2.94, 2: 0.70, 4: 0.24},
}
GDP = {1_000: {0.5: 9.03, 1: 3.56, 2: 1.33, 4: 0.35}, 10_000: {0.5: 9.59, 1: 4.12, 2: 1.75, 4: 0.70}}
ONE_RUN = {1_000: {0.5: 3.37, 1: 1.65, 2: 0.66, 4: 0.21}, 10_000: {0.5: 4.01, 1: 2.06, 2: 0.95, 4: 0.39}}


def test_the_truth_is_what_the_accountant_says() -> None:
    for z, epsilon in TRUE.items():
        assert gaussian_epsilon(1 / z, DELTA) == pytest.approx(epsilon, abs=0.01)


def test_the_table_of_gaussian_mechanisms_for_few_trials() -> None:
    check_table(clopper_pearson.lower_bound, 1000, CP[1000], 10)
    check_table(gdp.lower_bound, 1000, GDP[1000], 10)


@pytest.mark.slow
def test_the_table_of_gaussian_mechanisms_for_many_trials() -> None:
    check_table(gdp.lower_bound, 10_000, GDP[10_000], 10)
    for trials in (10_000, 100_000):
        for z in CP[trials]:
            found = mean_of(clopper_pearson.lower_bound, z, trials, 10)
            assert found < TRUE[z]
            assert found > 0.8 * CP[trials][z], (z, trials, found)  # a better choice of the threshold may find more


@pytest.mark.parametrize("canaries", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_the_table_of_one_run(canaries: int) -> None:
    """A tenth of the coins guessed. The classical bound is near the table's; the f-DP one is never under it by much."""
    for z, figure in ONE_RUN[canaries].items():
        guesses = [in_one_run(z, canaries, canaries // 10, seed) for seed in range(5)]
        classical, f_dp = (
            float(np.mean([one_run.lower_bound(g, DELTA, 0.95, how).epsilon for g in guesses])) for how in ("classical", "f-DP")
        )
        assert abs(classical - figure) <= max(0.33 * figure, 0.25), (z, classical)
        assert classical - 0.1 <= f_dp < TRUE[z], (z, f_dp)


# --- coverage ------------------------------------------------------------------------------------------------------------------


def beyond(found: list[float], truth: float, allowed: float) -> None:
    """No more bounds exceed the truth than the stated share, but for chance (one in 10,000)."""
    over = sum(epsilon > truth for epsilon in found)
    assert stats.binomtest(over, len(found), allowed, alternative="greater").pvalue > 1e-4, over


@pytest.mark.parametrize("confidence", [0.5, 0.95])
@pytest.mark.long
def test_bounds_exceed_the_truth_no_more_often_than_stated(confidence: float) -> None:
    for z in (1.0, 4.0):
        for bound in (clopper_pearson.lower_bound, gdp.lower_bound):
            found = [bound(*gaussian(z, 400, seed), DELTA, confidence).epsilon for seed in range(150)]
            beyond(found, gaussian_epsilon(1 / z, DELTA), 1 - confidence)
        for how in ("classical", "f-DP"):
            guesses = [in_one_run(z, 300, 100, seed) for seed in range(60)]
            found = [one_run.lower_bound(g, DELTA, confidence, how).epsilon for g in guesses]
            beyond(found, gaussian_epsilon(1 / z, DELTA), 1 - confidence)


@pytest.mark.long
def test_bounds_hold_where_they_are_tight() -> None:
    """Randomised response, whose epsilon an attack finds whole: at confidence one half, about half of the bounds are near it."""
    epsilon = 1.0
    right = math.exp(epsilon) / (1 + math.exp(epsilon))
    pairs, guesses = [], []
    for seed in range(150):
        rng = np.random.default_rng([seed, 3])
        pairs.append(tuple((rng.random(2000) < p).astype(float) for p in (right, 1 - right)))
        guesses.append(Guesses(2000, 2000, int((rng.random(2000) < right).sum())))
    for confidence in (0.5, 0.95):
        found = [clopper_pearson.lower_bound(*pair, 0.0, confidence).epsilon for pair in pairs]
        beyond(found, epsilon, 1 - confidence)
        assert np.mean(found) > 0.6
        for how in ("classical", "f-DP"):
            told = [one_run.lower_bound(g, 0.0, confidence, how, "approximate").epsilon for g in guesses]
            beyond(told, epsilon, 1 - confidence)
            assert np.mean(told) > 0.7


def test_mu_is_covered_by_the_gdp_bound_at_its_own_threshold() -> None:
    found = [gdp.mu_lower_bound(*gaussian(1.0, 2000, seed), 0.8) for seed in range(300)]
    beyond(found, 1.0, 0.2)
    assert np.mean(found) > 0.85


def test_the_gdp_bound_is_false_for_other_noise() -> None:
    """Which is why it is for Gaussian mechanisms alone: Laplace noise has epsilon 1, and this says more."""
    rng = np.random.default_rng(5)
    noise = rng.laplace(size=(2, 20_000))
    assert gdp.lower_bound(1 + noise[0], noise[1], DELTA, 0.95).epsilon > 1.5
    assert clopper_pearson.lower_bound(1 + noise[0], noise[1], DELTA, 0.95).epsilon < 1
