"""The privacy ledger: known answers, refusal before release, and sums of discrete Gaussians summed up directly."""

import json
import math

import attrs
import numpy as np
import pytest
from dp_accounting import dp_event
from scipy.special import logsumexp
from scipy.stats import norm

from cloister.protocol.privacy.accountant import spent
from cloister.protocol.privacy.gaussian import SummedDiscreteGaussians, closeness, rounded_l2
from cloister.protocol.privacy.ledger import BudgetExceeded, Ledger, Release, UnknownEvent, disjoint_epsilon

DELTA = 1e-5


def gaussian(noise: float, adjacency="zero out", unit="client") -> Release:
    return Release(dp_event.GaussianDpEvent(noise), 1.0, adjacency, unit, f"Gaussian of deviation {noise}", "one sum")


def ledger(budget: float = 100.0, **given) -> Ledger:
    return Ledger(**({"client": 3, "unit": "client", "adjacency": "zero out", "budget": budget, "delta": DELTA} | given))


def exact_gaussian_delta(epsilon: float, mu: float) -> float:
    """delta of mu-GDP (Balle and Wang 2018)."""
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("adjacency", ["zero out", "replace", "add or remove"])
@pytest.mark.parametrize("count", [1, 9])
def test_composed_gaussians_cost_what_they_cost_for_every_adjacency(adjacency, count):
    """Noise is relative to the sensitivity, so T Gaussians of multiplier z are sqrt(T)/z-GDP whatever the adjacency is."""
    book = ledger(adjacency=adjacency)
    for _ in range(count):
        book = book + gaussian(4.0, adjacency)
    assert exact_gaussian_delta(book.spent, math.sqrt(count) / 4.0) <= DELTA * (1 + 1e-6)
    assert exact_gaussian_delta(book.spent * 0.999, math.sqrt(count) / 4.0) > DELTA
    assert book.bound == "Gaussian"


@pytest.mark.long
def test_dp_sgd_is_accounted_as_elsewhere():
    """q = 0.1, z = 1, 100 steps: 7.05 by PLD; by RDP more."""
    steps = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(1.0)), 100)
    release = Release(steps, 1.0, "add or remove", "record", "Gaussian", "DP-SGD")
    book = ledger(unit="record", adjacency="add or remove") + release
    assert book.spent == pytest.approx(7.05, abs=0.01)
    assert book.bound == "PLD"


@pytest.mark.long
def test_sampling_everybody_is_no_sampling():
    for adjacency in ("zero out", "replace", "add or remove"):
        sampled = dp_event.PoissonSampledDpEvent(1 - 1e-9, dp_event.GaussianDpEvent(3.0))
        book = ledger(adjacency=adjacency)
        whole = (book + gaussian(3.0, adjacency)).spent
        assert (book + Release(sampled, 1.0, adjacency, "client", "", "")).spent == pytest.approx(whole, rel=1e-4)


def test_a_release_past_the_budget_raises_and_leaves_the_ledger():
    book = ledger(budget=3.0)
    for _ in range(3):
        book = book + gaussian(3.0)
    before = book
    assert book.spent < 3.0
    with pytest.raises(BudgetExceeded, match=r"one sum would take client 3 from epsilon .* past its budget of 3") as raised:
        book + gaussian(1.0)
    assert "\n" not in str(raised.value)
    book = book + gaussian(30.0)  # what fits still fits
    assert before.releases == book.releases[:3]


def test_a_release_without_privacy_never_fits():
    with pytest.raises(BudgetExceeded, match="inf"):
        ledger(budget=1e9) + Release(dp_event.NonPrivateDpEvent(), 1.0, "zero out", "client", "none", "an update")


@pytest.mark.parametrize("count", [-1, 0, 0.01, True])
def test_a_release_that_would_give_epsilon_back_cannot_be(count):
    event = dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(1.0), count)
    with pytest.raises(ValueError, match="whole number from 1 on"):
        spent([dp_event.GaussianDpEvent(1.0), event], "replace", 1e-5)


@pytest.mark.parametrize("delta", [0.0, 1.0, 1.5, -1e-5, float("nan")])
def test_a_delta_that_is_none_is_refused(delta):
    with pytest.raises(ValueError, match="between 0 and 1"):
        spent([dp_event.GaussianDpEvent(1.0)], "replace", delta)


@pytest.mark.long
def test_what_cannot_be_accounted_is_refused():
    sampled = dp_event.PoissonSampledDpEvent(0.1, dp_event.ZCDpEvent(0.1))
    unknown = Release(sampled, 1.0, "zero out", "client", "discrete Gaussian", "a sampled sum")
    with pytest.raises(UnknownEvent, match="PoissonSampledDpEvent"):
        ledger() + unknown
    laplace = Release(dp_event.LaplaceDpEvent(1.0), 1.0, "replace", "client", "Laplace", "a count")
    assert 0.9 < (ledger(adjacency="replace") + laplace).spent < 1.01
    subset = dp_event.SampledWithoutReplacementDpEvent(9, 3, dp_event.GaussianDpEvent(2.0))
    unlike = Release(subset, 1.0, "replace", "client", "", "")
    both = ledger(adjacency="replace") + unlike + gaussian(8.0, "replace")
    assert both.bound == "RDP"
    sampled = Release(dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(2.0)), 1.0, "replace", "client", "", "")
    with pytest.raises(UnknownEvent):  # of which one accountant knows each, and none both
        both + sampled
    for release in (gaussian(1.0, unit="record"), gaussian(1.0, adjacency="replace")):
        with pytest.raises(ValueError, match="cannot enter"):
            ledger() + release
    for sensitivity in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="clip"):
            Release(dp_event.GaussianDpEvent(1.0), sensitivity, "replace", "client", "", "")
    for bad in ({"delta": 0.0}, {"delta": 1.0}, {"budget": 0.0}):
        with pytest.raises(ValueError, match="budget"):
            ledger(**bad)


def test_disjoint_ledgers_cost_what_the_largest_costs():
    small, large = ledger() + gaussian(5.0), ledger() + gaussian(2.0)
    assert disjoint_epsilon([small, large], DELTA) == large.spent
    assert disjoint_epsilon([], DELTA) == 0.0
    assert large.epsilon(1e-3) < large.spent < large.epsilon(1e-9)
    assert ledger().spent == 0.0


def test_ledgers_survive_json():
    composed = dp_event.ComposedDpEvent(
        [dp_event.GaussianDpEvent(8.0), dp_event.SelfComposedDpEvent(dp_event.ZCDpEvent(0.01, 0.001), 3)]
    )
    book = (ledger(budget=5.0) + gaussian(4.0) + Release(composed, 2.5, "zero out", "client", "mixed", "round 2")).without(
        "cluster membership", "update norms"
    )
    plain = json.loads(json.dumps(book.as_dict(), allow_nan=False))
    assert Ledger.from_dict(plain) == book
    assert plain["epsilon"] == book.spent
    assert plain["not_covered"] == ["cluster membership", "update norms"]
    assert book.without("update norms") == book
    with pytest.raises(BudgetExceeded):
        Ledger.from_dict(plain | {"budget": 0.1})
    with pytest.raises(ValueError, match="not an event"):
        Ledger.from_dict(plain | {"releases": [plain["releases"][0] | {"event": {"class": "importlib"}}]})
    with pytest.raises(ValueError, match="plain form"):
        (ledger() + gaussian(np.float32(4.0))).as_dict()


@attrs.frozen
class Own(dp_event.DpEvent):
    """An event that dp_accounting does not have."""

    parts: tuple[int, ...]


def test_events_of_other_libraries_can_be_read_back():
    written = Release(Own((1, 2)), 1.0, "zero out", "client", "own", "own").as_dict()
    assert written["event"] == {"class": "Own", "parts": [1, 2]}
    plain = ledger().as_dict() | {"releases": [written]}
    with pytest.raises(ValueError, match="pass its class"):
        Ledger.from_dict(plain)
    with pytest.raises(UnknownEvent, match="Own"):
        Ledger.from_dict(plain, Own)


def log_sum_distribution(variance: float, summands: int, reach: int = 120) -> np.ndarray:
    """log P[Z = x] of a sum of discrete Gaussians for |x| <= reach, by direct convolution of logarithms."""
    x = np.arange(-reach, reach + 1)
    one = -(x**2) / (2 * variance)
    one = one - logsumexp(one)
    gaps = x[:, None] - x[None, :]
    kernel = np.where(np.abs(gaps) <= reach, -(gaps**2) / (2 * variance), -np.inf)
    total = one
    for _ in range(summands - 1):
        total = logsumexp(kernel + total[None, :], axis=1)
        total = total - logsumexp(total)
    return total


def renyi(distribution: np.ndarray, shift: int, order: float) -> float:
    """D_order(Z || Z + shift)."""
    return float(logsumexp(order * distribution[shift:] + (1 - order) * distribution[:-shift]) / (order - 1))


@pytest.mark.parametrize(("variance", "honest"), [(0.25, 1), (0.25, 2), (0.3, 3), (0.5, 2), (0.5, 5), (1.0, 3), (4.0, 4)])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_summed_discrete_gaussians_are_bounded_as_stated(variance, honest, shift):
    """The event covers the Renyi divergence that is summed up directly, in one dimension and in three equal ones."""
    distribution = log_sum_distribution(variance, honest)
    tau = closeness(variance, honest)
    for dimension in (1, 3):
        event = SummedDiscreteGaussians(variance, honest, dimension, shift * math.sqrt(dimension), shift * dimension).zcdp
        for order in (1.05, 1.5, 2.0, 5.0, 10.0, 20.0):
            exact = dimension * renyi(distribution, shift, order)
            assert exact <= (event.rho * order + event.xi) * (1 + 1e-9)
            if tau < 1e-3:
                assert exact > 0.97 * (event.rho * order + event.xi)


def test_the_distance_to_a_discrete_gaussian_is_needed():
    """Without tau the bound would be false: two summands of variance 1/4 are worse than one of variance 1/2."""
    distribution = log_sum_distribution(0.25, 2)
    assert renyi(distribution, 1, 1.5) > 1.015 * 1.5 / (2 * 2 * 0.25)
    one = log_sum_distribution(0.5, 1)
    assert renyi(one, 1, 1.5) < 1.5 / (2 * 0.5) * (1 + 1e-9)


def test_lost_clients_cost_privacy():
    def spent(honest: int) -> float:
        event = SummedDiscreteGaussians(400.0, honest, 10_000, 100.0)
        return (ledger() + Release(event, 100.0, "zero out", "client", "discrete Gaussian", "a sum")).spent

    assert spent(20) < spent(15) < spent(5)
    continuous = ledger() + gaussian(math.sqrt(20 * 400.0) / 100.0)
    assert spent(20) == pytest.approx(continuous.spent, rel=1e-3)


def test_closeness_counts_all_but_one_summand():
    assert closeness(1.0, 1) == 0.0
    assert closeness(0.5, 2) == pytest.approx(10 * math.exp(-(math.pi**2) / 2))
    with pytest.raises(ValueError, match="1/4"):
        SummedDiscreteGaussians(0.2, 3, 1, 1.0)
    with pytest.raises(ValueError, match="honest"):
        SummedDiscreteGaussians(1.0, 0, 1, 1.0)


def test_rounding_stays_under_its_bound_often_enough():
    """Stochastic rounding exceeds the bound with probability at most beta, and the bound never exceeds l2 + sqrt(d)."""
    rng, dimension = np.random.default_rng(0), 400
    vector = rng.normal(size=dimension) * 3
    bound = rounded_l2(float(np.linalg.norm(vector)), dimension, math.exp(-0.5))
    rounded = np.floor(vector + rng.random((2000, dimension)))
    assert (np.linalg.norm(rounded, axis=1) > bound).mean() <= math.exp(-0.5)
    assert rounded_l2(0.01, 4, 1e-30) == pytest.approx(2.01)
    with pytest.raises(ValueError, match="beta"):
        rounded_l2(1.0, 4, 1.0)
