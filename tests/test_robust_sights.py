"""What a rule declares that it must see is true: it looks at no more, and would not do with the kind before it."""

from typing import Any

import numpy as np
import pytest

from cloister.fl.robust.aggregate import aggregate
from cloister.fl.robust.averages import Mean, NormBound
from cloister.fl.robust.clustering import FLAME, CFLDefence, ClippedClustering
from cloister.fl.robust.coordinates import Bulyan, Meamed, Median, Phocas, RobustLearningRate, TrimmedMean
from cloister.fl.robust.diameter import MDA, SMEA
from cloister.fl.robust.frequency import FreqFed
from cloister.fl.robust.krum import Krum, MultiKrum
from cloister.fl.robust.layers import LASA
from cloister.fl.robust.mixing import ARC, NNM, Bucketing, Clip, Mixed
from cloister.fl.robust.rule import Sight
from cloister.fl.robust.signs import SignGuard
from cloister.fl.robust.similarity import FLTrust, FoolsGold
from cloister.fl.robust.smoothing import CRFL
from cloister.fl.robust.spectral import CAF, DnC
from cloister.fl.robust.weiszfeld import RFA, CenteredClipping, GeometricMedian

N, D, F = 11, 24, 2

RULES: dict[Sight, list[Any]] = {
    Sight.SUM: [Mean(), Mixed((Bucketing(2),), Mean())],
    Sight.NORMS: [NormBound(2.0), Mixed((Clip(2.0),), Mean()), Mixed((ARC(F),), Mean())],
    Sight.GRAM: [
        Krum(F),
        MultiKrum(F),
        MDA(F),
        SMEA(F),
        GeometricMedian(),
        RFA(),
        CenteredClipping(1.5, L=3),
        CAF(F),
        FoolsGold(),
        FLAME(),
        ClippedClustering(),
        CFLDefence(10.0, 0.1),
        Mixed((NNM(F),), Mean()),
        Mixed((Bucketing(2),), Krum(1)),
    ],
    Sight.COORDINATES: [Median(), TrimmedMean(F), Meamed(F), Phocas(F), Bulyan(F), RobustLearningRate(5), DnC(F, b=6)],
    Sight.UPDATES: [SignGuard(part=1.0), FreqFed()],
}
ALL = [(sight, rule) for sight, rules in RULES.items() for rule in rules]


def named(kind: Sight) -> Any:
    return pytest.mark.parametrize("rule", RULES[kind], ids=lambda rule: str(rule).split(", cut=")[0])


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def updates(seed: int = 0, n: int = N) -> Any:
    """Two opinions, a few long ones, and some noise: every rule has something to decide."""
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((n, D)) + 2 * draw.standard_normal(D)
    x[: n // 3] -= 3.0
    x[-1] *= 4
    return x.astype(np.float32)


def turned(x: Any) -> Any:
    """The updates in a rotated space: every Gram matrix is kept, no coordinate is."""
    q, _ = np.linalg.qr(np.random.default_rng(9).standard_normal((D, D)))
    return (x @ q).astype(np.float32), q


@pytest.mark.parametrize(("sight", "rule"), ALL, ids=lambda v: str(v).split(", cut=")[0])
def test_every_rule_declares_it(sight: Sight, rule: Any) -> None:
    assert rule.sees == sight


def test_the_others_declare_it_too() -> None:
    assert FLTrust().sees == Sight.GRAM
    assert LASA((D,)).sees == Sight.UPDATES
    assert CRFL(rho_0=1, rate=0, sigma=1, sigma_test=1, T=1).sees == Sight.SUM


@named(Sight.SUM)
def test_for_a_sum_all_updates_of_one_number_weigh_alike(rule: Any) -> None:
    x, y = updates(0), updates(1)
    np.testing.assert_array_equal(rule.weights(x @ x.T, rng()), rule.weights(y @ y.T, rng()))


@named(Sight.NORMS)
def test_for_norms_the_diagonal_is_enough_and_nothing_is_not(rule: Any) -> None:
    gram = updates() @ updates().T
    diagonal = np.diag(np.diagonal(gram))
    np.testing.assert_array_equal(rule.weights(gram, rng()), rule.weights(diagonal, rng()))
    assert np.ptp(rule.weights(diagonal, rng())) > 1e-3


@named(Sight.GRAM)
def test_for_a_gram_matrix_a_rotation_changes_no_weight_and_the_norms_alone_are_not_enough(rule: Any) -> None:
    x = updates()
    (rotated, q) = turned(x)
    found = aggregate(rule, x, rng()).vector
    np.testing.assert_allclose(aggregate(rule, rotated, rng()).vector, found @ q, atol=1e-3)
    moved = 0.0
    for seed in range(4):  # clustering may agree by luck on one input
        gram = updates(seed).astype(np.float64) @ updates(seed).T.astype(np.float64)
        moved = max(moved, float(np.abs(rule.weights(gram, rng()) - rule.weights(np.diag(np.diagonal(gram)), rng())).max()))
    assert moved > 1e-3


@named(Sight.COORDINATES)
def test_for_coordinates_order_and_signs_do_not_matter_and_a_gram_matrix_is_not_enough(rule: Any) -> None:
    x = updates()
    rotated, q = turned(x)
    found = aggregate(rule, x, rng()).vector
    assert np.abs(aggregate(rule, rotated, rng()).vector - found @ q).max() > 1e-2
    draw = np.random.default_rng(4)
    order, signs = draw.permutation(D), draw.choice(np.array([-1, 1], np.float32), D)
    if isinstance(rule, DnC):  # draws coordinates by their places: its choice is another, its weights follow one set of rows
        every = DnC(rule.f, b=D)
        found, rule = aggregate(every, x, rng()).vector, every
    moved = aggregate(rule, x[:, order] * signs, rng()).vector
    np.testing.assert_allclose(moved, found[order] * signs, atol=1e-4)


@named(Sight.UPDATES)
def test_for_updates_signs_matter(rule: Any) -> None:
    x = np.abs(np.random.default_rng(0).standard_normal((N, 200))).astype(np.float32)
    x[:3] *= -1  # turned updates: found out by their signs, of which as many are of each kind after half are flipped
    half = np.resize(np.array([1, -1], np.float32), 200)
    plain, hidden = aggregate(rule, x, rng()).weights, aggregate(rule, x * half, rng()).weights
    assert plain is not None
    assert hidden is not None
    assert not plain[:3].any()
    assert hidden[:3].all()


def test_signguard_uses_norms_and_counts_of_signs_alone() -> None:
    """Other values of the same signs and norms give the same weights."""
    x = np.random.default_rng(1).standard_normal((N, 200)).astype(np.float32)
    y = np.sign(x) * np.abs(x[:, ::-1])
    first, second = (aggregate(SignGuard(), v.astype(np.float32), rng()).weights for v in (x, y))
    assert first is not None
    np.testing.assert_allclose(first, second, rtol=1e-5)


def test_the_robust_learning_rate_uses_the_sum_and_the_sum_of_signs_alone() -> None:
    x = updates()
    total, signs = x.sum(axis=0), np.sign(x).sum(axis=0)
    expected = np.where(np.abs(signs) >= 5, total, -total) / N
    np.testing.assert_allclose(aggregate(RobustLearningRate(5), x, rng()).vector, expected, atol=1e-5)
