"""Certified decisions are the exact solver's, on random and adversarial pairs, and every bound is one."""

import math
from collections import Counter
from itertools import product

import numpy as np
import ot
import pytest
from numpy.typing import NDArray

from cloister.fl.emd import decision
from cloister.fl.emd.bounds import Couplings, Gelbrich, Interval, Moments, Pair, Projections, Relaxed, Stage, along_axes
from cloister.fl.emd.decision import LADDER, Decision, decide
from cloister.fl.emd.distances import Cosine, Euclidean, ExactEmd
from cloister.fl.emd.matching import dual_bound, matched, rounded

Array = NDArray[np.float64]
Case = tuple[Cosine | Euclidean, Array, Array, float, float]

GROUNDS: tuple[Cosine | Euclidean, ...] = (Cosine(), Euclidean())
STAGES: list[Stage] = [
    Moments(),
    Projections(),
    Gelbrich(),
    Relaxed(),
    Couplings(3, 0.5),
    Couplings(10, 0.25),
    Couplings(60, 0.1),
]


def clouds(rng: np.random.Generator) -> tuple[Array, Array]:
    """Two clouds of one of many kinds: apart or alike, grouped, clipped at zero, repeated, single, zero, tiny or huge."""
    n, d = int(rng.integers(1, 24)), int(rng.integers(1, 9))
    m = n if rng.random() < 0.6 else int(rng.integers(1, 24))
    centres = rng.standard_normal((3, d)) * 2
    x = centres[rng.integers(3, size=n)] + rng.standard_normal((n, d)) * rng.choice([0.05, 0.5, 2])
    y = centres[rng.integers(3, size=m)] + rng.standard_normal((m, d)) * 0.5 + rng.standard_normal(d) * rng.choice([0, 0.1, 3])
    kind = rng.integers(9)
    if kind == 1:
        x, y = np.maximum(x, 0), np.maximum(y, 0)
    elif kind == 2:
        x[rng.random(n) < 0.4] = 0
        y[rng.random(m) < 0.4] = 0
    elif kind == 3:
        x, y = x[rng.integers(n, size=n) // 2], x[rng.integers(n, size=m)]
    elif kind == 4:
        y = x[rng.permutation(n)] + 1e-9 * rng.standard_normal((n, d))
    elif kind == 5:
        x, y = x[:1], y[:1]
    elif kind == 6:
        y = np.zeros_like(y)
    elif kind == 7:
        x, y = np.round(x), np.round(y)
    elif kind == 8:
        y = x.copy()
    scale = rng.choice([1.0, 1.0, 1.0, 1e-20, 1e-12, 1e6, 1e12])
    far = rng.choice([0.0, 0.0, 1.0, 1e3]) * rng.standard_normal(d)
    return (x + far) * scale, (y + far) * scale


def cases(count: int, seed: int) -> list[Case]:
    """Ground, clouds, reference and eps, half of them at a tie or a few roundings from one."""
    rng = np.random.default_rng(seed)
    found: list[Case] = []
    while len(found) < count:
        ground = GROUNDS[len(found) % 2]
        x, y = clouds(rng)
        distance = ExactEmd(ground)(x, y)
        reference = float(rng.choice([0.0, distance * rng.random(), distance * 3 * rng.random(), rng.random()]))
        eps = distance - reference
        near = rng.choice([0.0, 1e-16, -1e-16, 1e-12, -1e-12, 1e-8, -1e-8, 1e-5, -1e-5, 1e-3, -1e-3])
        kind = rng.integers(6)
        if kind == 0:
            eps = float(np.nextafter(eps, rng.choice([-np.inf, np.inf])))
        elif kind == 1:
            eps += near * max(distance, 1e-300)
        elif kind >= 3:
            eps = float(
                rng.choice([0.0, 0.025, distance * rng.random(), distance * (1 + rng.random()) - reference, -rng.random()])
            )
        found.append((ground, x, y, reference, eps))
    return found


@pytest.mark.long
def test_decisions_are_the_exact_ones_on_a_thousand_pairs() -> None:
    settled: Counter[tuple[str, bool]] = Counter()
    for ground, x, y, reference, eps in cases(1200, seed=0):
        found = decide(Pair.of(ground, x, y), reference, eps)
        distance = ExactEmd(ground)(x, y)
        assert found.edge == (distance - reference < eps), (ground, x, y, reference, eps, found)
        settled[found.by, found.edge] += 1
    assert all(settled[by, edge] >= 20 for by, edge in (("exact", True), ("exact", False)))
    assert settled["lower bound", False] >= 200
    assert settled["upper bound", True] >= 200
    assert set(settled) == {("exact", True), ("exact", False), ("lower bound", False), ("upper bound", True)}


@pytest.mark.parametrize("stages", [(), (Projections(), Gelbrich()), tuple(reversed(LADDER)), tuple(STAGES)], ids=len)
def test_decisions_do_not_depend_on_the_stages(stages: tuple[Stage, ...]) -> None:
    for ground, x, y, reference, eps in cases(120, seed=1):
        pair = Pair.of(ground, x, y)
        assert decide(pair, reference, eps, stages).edge == decide(pair, reference, eps).edge


@pytest.mark.parametrize("stage", STAGES, ids=repr)
def test_every_bound_is_one(stage: Stage) -> None:
    informative = 0
    for ground, x, y, reference, eps in cases(150, seed=2):
        pair = Pair.of(ground, x, y)
        distance = ExactEmd(ground)(x, y)
        for threshold in (reference + eps, distance / 2, distance * 1.5):
            found = stage(pair, threshold)
            assert found.lower <= distance + pair.slack
            assert found.upper >= distance - pair.slack
            informative += found.lower > 1e-3 * distance or found.upper < math.inf
    assert informative >= 50


def test_slack_is_small_beside_what_it_guards() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((50, 115)), rng.standard_normal((50, 115))
    for ground, share in ((Cosine(), 1e-4), (Euclidean(), 1e-3)):
        assert Pair.of(ground, x, y).slack < share * ExactEmd(ground)(x, y)


def test_bounds_are_sharp_where_they_should_be() -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((40, 6))
    shift = np.array([1.0, 2.0, 2.0, 0, 0, 0])
    pair = Pair.of(Euclidean(), x, x + shift)
    assert Moments()(pair, 3.0).lower == pytest.approx(3.0)
    assert Projections()(pair, 9.0).lower == pytest.approx(3.0)
    one = Pair.of(Cosine(), x[:1], x[1:2])
    exact = ExactEmd()(x[:1], x[1:2])
    for stage in STAGES:
        assert stage(one, exact).lower == pytest.approx(exact, abs=1e-6)
    assert Moments()(one, 0.1).upper == pytest.approx(exact)
    far = Pair.of(Euclidean(), x, np.concatenate([x, x]) + shift * 1e-3)
    assert Relaxed()(far, 1.0).lower == pytest.approx(3e-3, rel=1e-3)


def test_gelbrich_is_exact_for_a_stretch_and_beats_the_means() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((200, 5)), rng.standard_normal((180, 5)) * 0.1 + 1
    pair = Pair.of(Cosine(), x, y)
    assert Moments()(pair, 1.0).lower < Gelbrich()(pair, 1.0).lower <= ExactEmd()(x, y) + pair.slack
    # for a common mean, covariances A and t^2 A have the distance (1 - t)^2 tr A, reached by the stretch itself
    z = rng.standard_normal((30, 3))
    z -= z.mean(axis=0)
    stretched = Pair(Cosine(), z, 3 * z)
    assert Gelbrich()(stretched, 1.0).lower == pytest.approx(float((4 * z**2).sum()) / 30 / 2)


@pytest.mark.parametrize(("n", "m"), [(12, 12), (12, 7), (1, 5)])
@pytest.mark.parametrize("power", [1, 2])
def test_one_dimensional_transport_is_pots(n: int, m: int, power: int) -> None:
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((n, 3)), rng.standard_normal((m, 3))
    metric = {1: "euclidean", 2: "sqeuclidean"}[power]
    expected = [ot.emd2_1d(x[:, k], y[:, k], metric=metric) for k in range(3)]
    np.testing.assert_allclose(along_axes(x, y, power), expected, rtol=1e-9)


@pytest.mark.parametrize(("n", "m"), [(9, 9), (9, 6), (2, 30)])
def test_any_potentials_give_a_lower_bound_and_couplings_are_feasible(n: int, m: int) -> None:
    rng = np.random.default_rng(6)
    for _ in range(50):
        costs = rng.random((n, m)).astype(np.float32)
        weights = np.full(n, 1 / n), np.full(m, 1 / m)
        distance = float(ot.emd2(*weights, costs.astype(np.float64)))
        _, log = ot.emd(*weights, costs.astype(np.float64), log=True)
        for potentials in (rng.standard_normal(n).astype(np.float32), log["u"].astype(np.float32)):
            lower, reduced = dual_bound(costs, potentials)
            assert lower <= distance + 1e-6
            assert reduced.min() >= 0
            upper = matched(costs, reduced) if n == m else rounded(costs, reduced, 0.05)
            assert distance - 1e-6 <= upper <= costs.max()
        assert lower == pytest.approx(distance, abs=1e-5)


def test_matching_finds_the_optimum_from_optimal_potentials_of_a_permutation() -> None:
    rng = np.random.default_rng(7)
    permutation = rng.permutation(30)
    costs = rng.random((30, 30)).astype(np.float32) + 1
    costs[np.arange(30), permutation] = 0.5
    lower, reduced = dual_bound(costs, np.full(30, 0.5, dtype=np.float32))
    assert lower == pytest.approx(0.5) == matched(costs, reduced)


def test_ties_go_to_the_solver_and_are_no_edges() -> None:
    rng = np.random.default_rng(8)
    x, y = rng.standard_normal((20, 4)), rng.standard_normal((20, 4))
    distance = ExactEmd()(x, y)
    assert decide(Pair.of(Cosine(), x, y), 0.0, distance) == Decision(False, "exact", "exact", Interval(distance, distance))
    above = float(np.nextafter(distance, 3))
    assert decide(Pair.of(Cosine(), x, y), 0.0, above) == Decision(True, "exact", "exact", Interval(distance, distance))


def test_clear_calls_never_reach_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(cost: Array) -> float:
        raise AssertionError("solved")

    monkeypatch.setattr(decision, "transport", never)
    rng = np.random.default_rng(9)
    x = np.maximum(rng.standard_normal((120, 30)) + 0.3, 0)
    alike = np.maximum(rng.standard_normal((120, 30)) + 0.3, 0)
    apart = np.maximum(rng.standard_normal((120, 30)) + np.linspace(-2, 2, 30), 0)
    for ground, (other, edge) in product(GROUNDS, ((alike, True), (apart, False))):
        pair = Pair.of(ground, x, other)
        tau = ExactEmd(ground)(x, alike)
        found = decide(pair, tau, 0.15 * tau)
        assert found.edge == edge
        assert found.by == ("upper bound" if edge else "lower bound")


@pytest.mark.parametrize(("reference", "eps"), [(math.nan, 0.1), (0.1, math.inf), (-math.inf, 0.0)])
def test_numbers_that_are_not_finite_raise(reference: float, eps: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        decide(Pair.of(Cosine(), np.ones((2, 2)), np.ones((2, 2))), reference, eps)


@pytest.mark.parametrize("ground", GROUNDS)
def test_samples_that_cannot_be_compared_raise(ground: Cosine | Euclidean) -> None:
    fine = np.ones((2, 2))
    for bad in (np.array([[np.nan, 1.0]]), np.ones((2, 3)), np.ones((0, 2))):
        with pytest.raises(ValueError, match=r"finite|shape"):
            Pair.of(ground, fine, bad)
    if ground == Euclidean():
        with pytest.raises(ValueError, match="farther"), np.errstate(over="ignore"):
            Pair.of(ground, fine, fine * 1e200)
