"""Rules of coordinates and of whole updates: definitions by brute force, symmetries, ties, block edges; CRFL's certificate."""

from collections.abc import Callable
from math import inf, log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import norm as normal

from cloister.fl.robust import rows as rows_module
from cloister.fl.robust.aggregate import aggregate
from cloister.fl.robust.averages import Mean
from cloister.fl.robust.coordinates import Bulyan, Meamed, MeanAroundMedian, Median, Phocas, RobustLearningRate, TrimmedMean
from cloister.fl.robust.frequency import FreqFed
from cloister.fl.robust.mixing import NNM, Bucketing, Mixed
from cloister.fl.robust.rule import Rule, Sight
from cloister.fl.robust.signs import SignGuard
from cloister.fl.robust.smoothing import CRFL, Exposure, blurred, bounds, clip_model
from cloister.fl.robust.spectral import DnC

Array = NDArray[np.float64]
Rows = NDArray[np.float32]
seeds = st.integers(0, 2**32 - 1)


def updates_of(seed: int, n: int, d: int = 13, f: int = 2) -> Rows:
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((n, d)) + 0.5
    x[:f] = 5 * draw.standard_normal((f, d))
    return x[draw.permutation(n)].astype(np.float32)


def rng() -> np.random.Generator:
    return np.random.default_rng(5)


# --- the definitions, a coordinate at a time --------------------------------------------------------------------------


def near(values: Array, centre: float, count: int) -> float:
    return float(np.mean(sorted(values, key=lambda v: abs(v - centre))[:count]))


def trimmed(values: Array, b: int) -> float:
    return float(np.mean(sorted(values)[b : len(values) - b]))


def each(rule: Callable[[Array], float]) -> Callable[[Array], Array]:
    return lambda x: np.array([rule(column) for column in x.T])


def bulyan(x: Array, f: int) -> Array:
    left, picked = list(range(len(x))), []
    while len(picked) < len(x) - 2 * f:
        scores = []
        for i in left:
            d = sorted(float(np.sum((x[i] - x[j]) ** 2)) for j in left if j != i)
            scores.append(sum(d[: max(1, len(left) - f - 2)]))
        picked.append(left.pop(int(np.argmin(scores))))
    chosen = x[picked]
    return each(lambda v: near(v, float(np.median(v)), len(v) - 2 * f))(chosen)


def nnm(x: Array, f: int) -> Array:
    return np.array([x[np.argsort([np.linalg.norm(r - o) for o in x])[: len(x) - f]].mean(axis=0) for r in x])


def turned(x: Array, theta: float) -> Array:
    return np.where(np.abs(np.sign(x).sum(axis=0)) >= theta, 1, -1) * x.mean(axis=0)


DEFINITIONS: list[tuple[Rule, Callable[[Array], Array]]] = [
    (Median(), lambda x: np.median(x, axis=0)),
    (TrimmedMean(0), lambda x: x.mean(axis=0)),
    (TrimmedMean(2), each(lambda v: trimmed(v, 2))),
    (Meamed(2), each(lambda v: near(v, float(np.median(v)), len(v) - 2))),
    (Phocas(2), each(lambda v: near(v, trimmed(v, 2), len(v) - 2))),
    (Bulyan(1), lambda x: bulyan(x, 1)),
    (Bulyan(2), lambda x: bulyan(x, 2)),
    (RobustLearningRate(5), lambda x: turned(x, 5)),
    (Mixed((NNM(2),), TrimmedMean(2)), lambda x: each(lambda v: trimmed(v, 2))(nnm(x, 2))),
]
rules = pytest.mark.parametrize("rule", [rule for rule, _ in DEFINITIONS], ids=str)


@pytest.mark.parametrize(("rule", "definition"), DEFINITIONS, ids=lambda v: str(v) if not callable(v) else "")
@given(seed=seeds, n=st.integers(11, 14))
@settings(max_examples=20)
def test_a_rule_of_coordinates_is_its_definition(rule: Rule, definition: Callable[[Array], Array], seed: int, n: int) -> None:
    x = updates_of(seed, n)
    found = aggregate(rule, x, rng())
    assert found.weights is None
    np.testing.assert_allclose(found.vector, definition(x.astype(np.float64)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rule", [Bulyan(3), *(r for r, _ in DEFINITIONS if not isinstance(r, Bulyan))], ids=str)
@given(seed=seeds)
@settings(max_examples=10)
def test_permutations_and_sign_flips_change_nothing_else(rule: Rule, seed: int) -> None:
    x = updates_of(seed, 15)
    x[:, :4] = np.round(x[:, :4])  # ties
    draw = np.random.default_rng(seed)
    clients, coordinates = draw.permutation(15), draw.permutation(13)
    flips = draw.choice(np.array([-1.0, 1.0], dtype=np.float32), 13)
    expected = aggregate(rule, x, rng()).vector
    np.testing.assert_allclose(aggregate(rule, x[clients], rng()).vector, expected, atol=1e-5)
    moved = aggregate(rule, x[:, coordinates] * flips, rng()).vector
    np.testing.assert_allclose(moved, expected[coordinates] * flips, atol=1e-5)


@rules
def test_blocks_and_rows_one_by_one_give_the_same_bits(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    x = updates_of(4, 11, d=1000)
    x.setflags(write=False)
    whole = aggregate(rule, x, rng()).vector
    np.testing.assert_array_equal(aggregate(rule, list(x), rng()).vector, whole)
    monkeypatch.setattr(rows_module, "MAX_BLOCK", 64)
    np.testing.assert_allclose(aggregate(rule, x, rng()).vector, whole, rtol=1e-6, atol=1e-6)


def test_values_that_tie_share_the_places_that_are_left() -> None:
    column = np.array([[-1], [-1], [-1], [0], [0.5], [1], [1]], dtype=np.float32)
    # Bulyan's second stage with f = 2 keeps 3 of 7: 0, 0.5 and a share of the five values at distance 1 from the median 0.
    np.testing.assert_allclose(MeanAroundMedian(2).combine(column), [(0 + 0.5 - 1 / 5) / 3], rtol=1e-6)


@pytest.mark.parametrize(
    ("rule", "n"),
    [(TrimmedMean(3), 6), (Meamed(3), 6), (Phocas(3), 6), (Bulyan(2), 10), (DnC(3, b=4), 6), (Mixed((NNM(3),), Median()), 6)],
    ids=str,
)
def test_more_faults_than_a_rule_can_stand_are_refused_in_one_line(rule: Rule, n: int) -> None:
    with pytest.raises(ValueError, match=rf"needs at least {n + 1} updates, got {n}"):
        aggregate(rule, updates_of(0, n), rng())
    aggregate(rule, updates_of(0, n + 1), rng())


def test_one_update_is_its_own_median_and_of_two_the_middle() -> None:
    x = updates_of(0, 2)
    np.testing.assert_array_equal(aggregate(Median(), x[:1], rng()).vector, x[0])
    np.testing.assert_allclose(aggregate(Median(), x, rng()).vector, x.mean(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(aggregate(TrimmedMean(0), x[:1, :1], rng()).vector, x[0, :1])


def test_robust_learning_rate_turns_where_signs_disagree() -> None:
    x = np.array([[1, 1], [1, -1], [1, 4]], dtype=np.float32)
    np.testing.assert_allclose(aggregate(RobustLearningRate(3), x, rng()).vector, [1, -4 / 3], rtol=1e-6)


# --- rules that weigh rows --------------------------------------------------------------------------------------------


@given(seed=seeds)
@settings(max_examples=20)
def test_dnc_drops_the_largest_components_along_the_top_singular_vector(seed: int) -> None:
    x = updates_of(seed, 10)
    about_mean = x.astype(np.float64) - x.mean(axis=0)
    scores = (about_mean @ np.linalg.svd(about_mean)[2][0]) ** 2
    found = aggregate(DnC(2, b=13), x, rng()).weights
    expected = np.full(10, 1 / 8)
    expected[np.argsort(scores)[-2:]] = 0
    np.testing.assert_allclose(found, expected)


def test_dnc_keeps_what_no_subset_dropped_and_its_chance_is_the_generators() -> None:
    x = updates_of(1, 12, d=400, f=3)
    a, b = (aggregate(DnC(3, b=20, iterations=4, c=0.7), x, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(a.vector, b.vector)
    assert a.weights is not None
    assert (a.weights > 0).sum() <= 12 - round(0.7 * 3)
    assert a.weights.sum() == pytest.approx(1)


def test_signguard_drops_turned_and_far_too_long_updates_and_clips_the_rest() -> None:
    draw = np.random.default_rng(0)
    x = (draw.standard_normal((12, 2000)) + 0.5).astype(np.float32)
    x[:3] *= -1  # the same norms, the signs of a minority
    x[3] *= 50
    x[4] *= 0.01
    x[5] *= 2
    found = aggregate(SignGuard(part=0.5), x, rng())
    assert found.weights is not None
    np.testing.assert_array_equal(found.weights[:5], 0)
    length = np.linalg.norm(x, axis=1)
    np.testing.assert_allclose(found.weights[5:], np.minimum(1, np.median(length) / length[5:]) / 7, rtol=1e-5)
    assert SignGuard().sees == Sight.UPDATES


def slow(rows: int, d: int, seed: int) -> NDArray[np.float32]:
    """Updates that agree in their lowest frequencies, with noise in all."""
    draw = np.random.default_rng(seed)
    wave = np.cos(np.pi * (np.arange(d) + 0.5) * 3 / d)
    return (wave + 0.2 * draw.standard_normal((rows, d))).astype(np.float32)


def test_freqfed_leaves_a_minority_out_by_its_low_frequencies_alone() -> None:
    """Turned in the low frequencies: out. Turned in the high ones, which are all noise here: in, although cosines tell them
    apart.
    """
    x = slow(12, 400, 0)
    turned = x.copy()
    turned[:4] *= -1
    assert np.flatnonzero(aggregate(FreqFed(), turned, rng()).weights == 0).tolist() == [0, 1, 2, 3]
    high = np.cos(np.pi * (np.arange(400) + 0.5) * 350 / 400).astype(np.float32)
    shaken = x.copy()
    shaken[:4] += 3 * high
    kept = aggregate(FreqFed(), shaken, rng()).weights
    assert kept is not None
    assert (kept[:4] > 0).any()
    everything = aggregate(FreqFed(share=1.0), shaken, rng()).weights
    assert everything is not None
    assert (everything[:4] == 0).all()
    with pytest.raises(ValueError, match="share is above 0"):
        FreqFed(share=0)


def test_steps_come_before_rules_that_weigh_rows_too() -> None:
    x = updates_of(2, 12)
    found = aggregate(Mixed((Bucketing(3),), DnC(1, b=13)), x, rng())
    assert found.weights is not None
    np.testing.assert_allclose(found.weights @ x, found.vector, atol=1e-5)
    np.testing.assert_allclose(np.sort(found.weights), [0] * 3 + [1 / 9] * 9)


# --- what aggregate refuses -------------------------------------------------------------------------------------------


def test_aggregate_refuses_what_does_not_fit() -> None:
    x = updates_of(0, 5)
    cases: list[tuple[str, Callable[[], object]]] = [
        ("float32", lambda: aggregate(Mean(), x.astype(np.float64), rng())),
        ("float32", lambda: aggregate(Mean(), [x[0], x[1][:3]], rng())),
        ("no updates", lambda: aggregate(Mean(), [], rng())),
        ("none of 5", lambda: aggregate(Mean(), x * np.float32(np.nan), rng())),
        ("one for each", lambda: aggregate(Mean(), x, rng(), judged=x[:2])),
        ("takes no extra", lambda: aggregate(Mean(), x, rng(), extra=x[0])),
        ("neither extra", lambda: aggregate(Median(), x, rng(), extra=x[0])),
        ("extra is a float32 vector", lambda: aggregate(Mean(), x, rng(), extra=x[0][:2])),
    ]
    for message, call in cases:
        with pytest.raises(ValueError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)


# --- CRFL -------------------------------------------------------------------------------------------------------------

CLIPPED = CRFL(rho_0=2.0, rate=0.5, sigma=0.1, sigma_test=0.2, T=4)


def test_crfl_clips_the_model_and_not_the_update_and_blurs_it_in_every_round_but_the_last() -> None:
    model = np.full(10_000, 1.0, dtype=np.float32)
    before = model.copy()
    for t in (1, 4):
        found = CLIPPED.after_round(model, t, rng())
        clean = model * (CLIPPED.rho(t) / 100)
        assert np.std(found - clean) == pytest.approx(0.1 if t < 4 else 0, rel=0.05, abs=1e-7)
    np.testing.assert_array_equal(model, before)
    short = np.array([0.3, 0.4], dtype=np.float32)
    np.testing.assert_array_equal(clip_model(short, 1.0), short)
    np.testing.assert_array_equal(clip_model(np.zeros(2, np.float32), 1.0), np.zeros(2))


def test_crfl_votes_over_blurred_models_with_the_chances_of_the_blur() -> None:
    def predict(w: Rows) -> NDArray[np.int64]:
        return np.array([int(w[0] > 0.3), 0])

    model = np.array([0.4, 0.0], dtype=np.float32)
    votes = CLIPPED.vote(model, predict, classes=3, M=4000, rng=rng())
    assert votes.shape == (2, 3)
    assert votes.sum(axis=1).tolist() == [4000, 4000]
    assert votes[0, 1] / 4000 == pytest.approx(normal.cdf(0.5), abs=0.04)
    assert votes[1].tolist() == [4000, 0, 0]
    p_a, p_b = bounds(votes[0], alpha=0.001)
    slack = sqrt(log(1000) / 8000)
    assert p_a == pytest.approx(votes[0, 1] / 4000 - slack)
    assert p_b == pytest.approx(votes[0, 0] / 4000 + slack)


def attack(**changed: float) -> Exposure:
    base = {"R": 1, "t_adv": 2, "p": 0.05, "gamma": 10.0, "tau": 6, "eta": 0.01, "q_share": 0.1, "L_Z": 4.0}
    return Exposure(**{**base, **changed})  # type: ignore[arg-type]


def test_the_certificate_follows_the_formula_and_moves_the_right_way() -> None:
    radius = CLIPPED.certified_radius(0.9, 0.1, attack())
    gap = (sqrt(0.9) - sqrt(0.1)) ** 2
    contraction = (2 * normal.cdf(3.5 / 0.1) - 1) * (2 * normal.cdf(4.0 / 0.2) - 1)
    share = 0.05 * 10 * 6 * 0.01 * 0.1
    assert radius == pytest.approx(sqrt(-log(1 - gap) * 0.01 / (2 * 16 * share**2 * contraction)))
    assert CLIPPED.certified_radius(0.5, 0.5, attack()) == 0
    assert CLIPPED.certified_radius(1.0, 0.0, attack()) == inf
    assert CLIPPED.certified_radius(0.8, 0.1, attack()) < radius
    assert CLIPPED.certified_radius(0.9, 0.1, attack(R=2)) == pytest.approx(radius / 2)
    assert CLIPPED.certified_radius(0.9, 0.1, attack(gamma=20.0)) == pytest.approx(radius / 2)


def test_no_attack_within_the_certificate_turns_the_vote_of_a_linear_model() -> None:
    # One client, one step: the attacker moves the model by moved_per_unit * L_Z * |backdoor| and nothing else happens.
    crfl = CRFL(rho_0=1e6, rate=0.0, sigma=0.2, sigma_test=0.2, T=1)
    shown = attack(t_adv=1, p=1.0, gamma=1.0, tau=1, eta=1.0, q_share=1.0, L_Z=1.0)
    margin = 0.3
    p_a = float(normal.cdf(margin / 0.2))
    radius = crfl.certified_radius(p_a, 1 - p_a, shown)
    assert 0 < radius < margin  # the exact radius of this blur is the margin; the certificate may not exceed it
    model = blurred(np.full(1, margin, np.float32), 0.0, rng()) - np.float32(radius)
    votes = crfl.vote(model, lambda w: (w > 0).astype(np.int64), classes=2, M=2000, rng=rng())
    assert votes[0, 1] > votes[0, 0]
