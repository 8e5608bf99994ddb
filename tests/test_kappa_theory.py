"""Bounds on kappa: known values, what no bound is known for, and rules that keep theirs against attacks of all sizes."""

import numpy as np
import pytest

from cloister.fl.robust.aggregate import aggregate
from cloister.fl.robust.averages import Mean
from cloister.fl.robust.coordinates import Median, TrimmedMean
from cloister.fl.robust.krum import Krum, MultiKrum
from cloister.fl.robust.mixing import ARC, NNM, Mixed
from cloister.fl.robust.rule import Rule
from cloister.fl.robust.weiszfeld import RFA, GeometricMedian
from cloister.threat_models.attack_metrics import empirical_kappa
from cloister.threat_models.kappa_theory import kappa_bound, least_kappa
from cloister.threat_models.peak_memory import forget_peak, peak_mb


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (Krum(2), 6 * 8 / 5),
        (Median(), 4 * (4 / 3) ** 2),
        (GeometricMedian(), 4 * (4 / 3) ** 2),
        (TrimmedMean(2), 6 * (1 / 3) * (4 / 3)),
        (TrimmedMean(3), 6 * (3 / 4) * (7 / 4)),  # judged at its own 3 of 10
        (Mixed((NNM(2),), TrimmedMean(2)), 2 * (8 / 3 + 1)),
        (Mixed((NNM(2), NNM(2)), Median()), 2 * (2 * (64 / 9 + 1) + 1)),
        (Mixed((NNM(3),), TrimmedMean(2)), None),  # mixing for 3 before a rule for 2
        (Mixed((ARC(2), NNM(2)), TrimmedMean(2)), None),
        (TrimmedMean(1), None),
        (Krum(1), None),
        (MultiKrum(2), None),
        (RFA(), None),  # a few steps from the mean, which breaks at one
        (RFA(T=200), None),
        (Mean(), None),
        (None, None),
    ],
)
def test_bounds_at_two_of_ten(rule: Rule | None, expected: float | None) -> None:
    assert kappa_bound(rule, 10, 2) == (None if expected is None else pytest.approx(expected))


def test_no_rule_is_robust_to_a_half() -> None:
    assert least_kappa(10, 2) == pytest.approx(1 / 3)
    assert least_kappa(10, 0) == 0
    assert kappa_bound(Median(), 10, 5) is None
    assert kappa_bound(TrimmedMean(5), 10, 5) is None
    with pytest.raises(ValueError, match="no rule"):
        least_kappa(10, 5)


@pytest.mark.parametrize(
    "rule",
    [Krum(3), Median(), GeometricMedian(), TrimmedMean(3), Mixed((NNM(3),), TrimmedMean(3)), Mixed((NNM(3),), Krum(3))],
)
def test_rules_keep_their_bounds_and_some_attack_costs_more_than_nothing(rule: Rule) -> None:
    """Members far off, near the edge, and all in one place, on heterogeneous honest updates, with as many as the rule stands."""
    rng = np.random.default_rng(0)
    n, worst = 11, 0.0
    for f in (1, 3):
        bound = kappa_bound(rule, n, f)
        assert bound is not None
        for scale in (0.1, 0.5, 1, 2, 3, 10, 1000):
            for d in (1, 2, 20):
                honest = (rng.standard_normal((n - f, d)) * rng.choice((0.1, 1, 5), (n - f, 1))).astype(np.float32)
                bad = honest.mean(axis=0) + np.float32(scale) * honest.std(axis=0) * np.sign(rng.standard_normal(d))
                rows = np.concatenate([honest, np.tile(bad, (f, 1))]).astype(np.float32)
                kappa = empirical_kappa(aggregate(rule, rows, rng).vector, list(honest))
                assert kappa <= bound
                worst = max(worst, kappa)
    assert worst > 0.05


def test_the_peak_is_of_what_was_held_since_it_was_forgotten() -> None:
    if not forget_peak():
        pytest.skip("the peak cannot be set back here")
    before = peak_mb()
    held = np.ones(12_500_000)
    during = peak_mb()
    del held
    assert forget_peak()
    after = peak_mb()
    assert before is not None
    assert during is not None
    assert after is not None
    assert during - before > 90
    assert during - after > 90
