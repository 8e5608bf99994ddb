"""Searches against the package's own rules: what a search believes is what the rule does."""

from typing import Any

import numpy as np
import pytest

from cloister.fl.robust.aggregate import aggregate
from cloister.fl.robust.averages import Mean
from cloister.fl.robust.coordinates import Median, TrimmedMean
from cloister.fl.robust.krum import Krum, MultiKrum
from cloister.fl.robust.mixing import ARC, NNM, Mixed
from cloister.fl.robust.weiszfeld import CenteredClipping, GeometricMedian
from cloister.threat_models.attack_metrics import empirical_kappa
from cloister.threat_models.geometry import geometry
from cloister.threat_models.knowledge import Level
from cloister.threat_models.line_search import WithExtra, damage_of, last_aggregate, optimal_alie, optimal_ipm

from .coalition_sample import coalition, gaussian, own

F, N = 3, 14
RULES = [
    Mean(),
    Krum(f=F),
    MultiKrum(f=F),
    GeometricMedian(),
    Median(),
    TrimmedMean(b=F),
    Mixed((NNM(f=F),), MultiKrum(f=F)),
    Mixed((NNM(f=F),), TrimmedMean(b=F)),
    Mixed((ARC(f=F), NNM(f=F)), Median()),
]


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("perturbation", ["mean", "deviation"])
def test_the_damage_that_a_search_sees_is_what_the_rule_does(rule: Any, perturbation: Any) -> None:
    honest = gaussian(N, 700, 5)[F:]
    shape = geometry(honest, perturbation)
    damage = damage_of(rule, shape, honest, F, np.random.default_rng(0))
    for t in (0.5, 2.0, 20.0):
        result = aggregate(rule, [*honest, *[shape.point(t)] * F], np.random.default_rng(0)).vector
        expected = float(np.sum((result.astype(np.float64) - shape.mean) ** 2))
        assert damage(t) == pytest.approx(expected, rel=1e-3, abs=1e-3)


def test_centred_clipping_is_searched_with_the_result_of_the_round_before() -> None:
    honest = gaussian(N, 700, 5)[F:]
    known = own(honest[0], start=honest[1], previous=honest[2])
    rule = CenteredClipping(tau=10.0)
    shape = geometry(honest, "deviation", last_aggregate(known))
    damage = damage_of(WithExtra(rule, last_aggregate), shape, honest, F, np.random.default_rng(0))
    for t in (0.5, 20.0):
        sent = [*honest, *[shape.point(t)] * F]
        result = aggregate(rule, sent, np.random.default_rng(0), extra=last_aggregate(known)).vector
        assert damage(t) == pytest.approx(float(np.sum((result.astype(np.float64) - shape.mean) ** 2)), rel=1e-3)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_a_rule_that_stands_f_keeps_the_empirical_kappa_small_and_the_mean_does_not(rule: Any) -> None:
    updates = gaussian(N, 700, 5)
    worst = 0.0
    for attack in (optimal_alie(most=1e3), optimal_ipm(most=1e3)):
        sent = attack(coalition(updates, F, Level.INSIDER, rule=rule))
        result = aggregate(rule, [*sent.values(), *updates[F:]], np.random.default_rng(0)).vector
        worst = max(worst, empirical_kappa(result, updates[F:]))
    assert (worst > 100) == isinstance(rule, Mean)
