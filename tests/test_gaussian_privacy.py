"""What Gaussian noise costs: against closed forms, against distributions that are summed up, and never below the truth."""

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

from cloister.protocol.privacy.accountant import UnknownEvent, spent
from cloister.protocol.privacy.gaussian import (
    SummedDiscreteGaussians,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
)


def exact_delta(mu: float, epsilon: float) -> float:
    """Balle and Wang 2018, theorem 8, to 60 digits."""
    with mp.workdps(60):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        return float(mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m))


@settings(max_examples=200)
@given(st.floats(-4, 1.8), st.floats(-30, -0.5))
def test_epsilon_is_the_closed_forms_and_not_below_it(log_mu: float, log_delta: float) -> None:
    mu, delta = 10**log_mu, 10**log_delta
    epsilon = gaussian_epsilon(mu, delta)
    assert exact_delta(mu, epsilon) <= delta
    if epsilon > 0:
        assert exact_delta(mu, epsilon * (1 - 1e-6)) > delta
        assert gaussian_mu(epsilon, delta) == pytest.approx(mu, rel=1e-6)
        assert exact_delta(mu, epsilon) <= gaussian_delta(mu, epsilon) <= delta


def test_known_answers() -> None:
    """Of one Gaussian of multiplier z at delta 1e-5, and of several together, from the analytic Gaussian mechanism."""
    for z, times, epsilon in (
        (0.5, 1, 10.00),
        (1.0, 1, 4.38),
        (2.0, 1, 1.99),
        (4.0, 1, 0.93),
        (10.0, 100, 4.38),
        (5.0, 50, 6.57),
    ):
        found = spent([dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(z), times)], "zero out", 1e-5)
        assert found.epsilon == pytest.approx(epsilon, abs=0.01)
        assert found.bound == "Gaussian"
    assert gaussian_epsilon(1e-9, 1e-5) == 0.0
    assert gaussian_epsilon(math.inf, 1e-5) == math.inf


@pytest.mark.parametrize("adjacency", ["zero out", "replace", "add or remove"])
def test_different_releases_compose_as_their_squares_add_up(adjacency) -> None:
    events = [
        dp_event.GaussianDpEvent(3.0),
        dp_event.ComposedDpEvent([dp_event.NoOpDpEvent(), dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(7.0), 4)]),
        SummedDiscreteGaussians(2.0**32, 1, 50, 2.0**16 / 5),
        SummedDiscreteGaussians(2.0**20, 16, 1000, 2.0**12 / 2),
    ]
    mu = math.sqrt(1 / 9 + 4 / 49 + 1 / 25 + 1 / 4)
    for delta in (1e-3, 1e-5, 1e-9):
        found = spent(events, adjacency, delta).epsilon
        assert found == pytest.approx(gaussian_epsilon(mu, delta), rel=1e-5)
        assert exact_delta(mu, found) <= delta


@pytest.mark.long
def test_a_sampled_gaussian_and_others_go_together_and_the_least_bound_counts() -> None:
    sampled = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(1.5)), 8)
    coarse = SummedDiscreteGaussians(2.0**32, 1, 50, 2.0**16 / 4)
    both = spent([sampled, coarse], "zero out", 1e-5)
    alone = [spent([each], "zero out", 1e-5).epsilon for each in (sampled, coarse)]
    assert both.bound == "PLD"
    assert max(alone) < both.epsilon < sum(alone)
    by_hand = pld.from_gaussian_mechanism(1.5, sampling_prob=0.1).self_compose(8).compose(pld.from_gaussian_mechanism(4.0))
    assert both.epsilon == pytest.approx(by_hand.get_epsilon_for_delta(1e-5), rel=1e-3)
    assert spent([sampled, dp_event.ZCDpEvent(0.01)], "zero out", 1e-5).bound == "RDP"
    assert spent([coarse, dp_event.NonPrivateDpEvent()], "zero out", 1e-5).epsilon == math.inf
    with pytest.raises(UnknownEvent):
        spent([coarse, dp_event.UnsupportedDpEvent()], "zero out", 1e-5)


def discrete(variance: float, summands: int, reach: int) -> np.ndarray:
    """P[Z = x], |x| <= reach, of a sum of discrete Gaussians: float64 (2 reach + 1,)."""
    x = np.arange(-reach, reach + 1)
    one = np.exp(-(x**2) / (2 * variance))
    one /= one.sum()
    total = one
    for _ in range(summands - 1):
        total = np.convolve(total, one)[reach:-reach]
    return total


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize(("variance", "honest"), [(4.0, 1), (25.0, 1), (1.0, 6), (0.5, 3), (9.0, 4)])
@pytest.mark.parametrize("shift", [(1,), (3,), (2, 1), (1, 1)])
def test_a_sum_of_discrete_gaussians_is_never_below_what_is_summed_up(variance, honest, shift) -> None:
    reach = 12 + int(14 * math.sqrt(variance * honest))
    z = discrete(variance, honest, reach)
    p, q = np.ones(1), np.ones(1)
    for by in shift:
        p = np.multiply.outer(p, np.pad(z, (0, 8))).ravel()
        q = np.multiply.outer(q, np.pad(z, (by, 8 - by))).ravel()
    event = SummedDiscreteGaussians(variance, honest, len(shift), float(np.linalg.norm(shift)), float(sum(shift)))
    for delta in (1e-2, 1e-4, 1e-6):
        found = spent([event], "zero out", delta)
        assert hockey_stick(p, q, found.epsilon) <= delta
        assert hockey_stick(q, p, found.epsilon) <= delta
        if variance * honest >= 25:  # fine enough for the smoothing to cost little
            assert hockey_stick(p, q, found.epsilon * 0.95) > delta * 0.8


@pytest.mark.parametrize("shift", [20, 100])
def test_on_a_fine_grid_it_is_the_exact_one(shift: int) -> None:
    """One coordinate, against the closed form of the discrete Gaussian (Canonne, Kamath and Steinke 2020, theorem 7)."""
    sigma = 400.0
    z = discrete(sigma**2, 1, 16 * 400)
    p, q = np.pad(z, (0, shift)), np.pad(z, (shift, 0))
    found = spent([SummedDiscreteGaussians(sigma**2, 1, 1, float(shift))], "zero out", 1e-5)
    assert found.bound == "Gaussian"
    assert hockey_stick(p, q, found.epsilon) <= 1e-5
    assert hockey_stick(p, q, found.epsilon * 0.999) > 1e-5


def test_where_the_sum_is_far_from_one_gaussian_zcdp_takes_over() -> None:
    far = SummedDiscreteGaussians(0.5, 10, 64, 1.0)
    assert far.gaussian[1] > 0.01
    found = spent([far], "zero out", 1e-5)
    assert found.bound == "RDP"
    assert found.epsilon < far.gaussian[1] + gaussian_epsilon(far.gaussian[0], 1e-5 * math.exp(-far.gaussian[1] / 2))
    tiny = SummedDiscreteGaussians(0.3, 1, 1, 0.5)  # less variance than smoothing takes
    assert math.isinf(tiny.gaussian[0])
    assert spent([tiny], "zero out", 1e-5).bound == "RDP"
