"""Rules of the Gram matrix: each equals its definition, computed here directly from the updates, and known closed forms."""

from collections.abc import Callable
from itertools import combinations
from math import sqrt

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cloister.fl.robust.aggregate import aggregate
from cloister.fl.robust.averages import Mean, NormBound
from cloister.fl.robust.clustering import FLAME, CFLDefence, ClippedClustering
from cloister.fl.robust.coordinates import TrimmedMean
from cloister.fl.robust.diameter import MDA, SMEA, least_diameter
from cloister.fl.robust.krum import Krum, MultiKrum
from cloister.fl.robust.mixing import ARC, NNM, Bucketing, Clip, Mixed
from cloister.fl.robust.rule import GramRule, Sight, squared_distances
from cloister.fl.robust.similarity import FLTrust, FoolsGold
from cloister.fl.robust.spectral import CAF
from cloister.fl.robust.weiszfeld import RFA, CenteredClipping, GeometricMedian

Array = NDArray[np.float64]
seeds = st.integers(0, 2**32 - 1)


def updates_of(seed: int, n: int = 9, d: int = 6, f: int = 2) -> Array:
    """Honest updates about a common direction, and f others that are longer and point elsewhere, in a random order."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) + 1
    x[:f] = 3 * rng.standard_normal((f, d)) - 1
    return x[rng.permutation(n)]


def rng() -> np.random.Generator:
    return np.random.default_rng(5)


# --- the definitions, from the updates --------------------------------------------------------------------------------


def krum_order(x: Array, f: int, neighbours: int | None = None) -> list[int]:
    n = len(x)
    scores = []
    for i in range(n):
        d = sorted(float(np.sum((x[i] - x[j]) ** 2)) for j in range(n) if j != i)
        scores.append(sum(d[: n - f - 2 if neighbours is None else neighbours]))
    return sorted(range(n), key=lambda i: scores[i])


def weiszfeld(x: Array, T: int, nu: float) -> Array:
    z = x.mean(axis=0)
    for _ in range(T):
        beta = [1 / max(nu, float(np.linalg.norm(z - row))) for row in x]
        z = np.average(x, axis=0, weights=beta)
    return z


def centered_clipping(x: Array, v: Array, tau: float, L: int) -> Array:
    for _ in range(L):
        v = v + np.mean([(row - v) * min(1, tau / np.linalg.norm(row - v)) for row in x], axis=0)
    return v


def nnm(x: Array, f: int) -> Array:
    n = len(x)
    return np.array([x[np.argsort([np.linalg.norm(row - other) for other in x])[: n - f]].mean(axis=0) for row in x])


def arc(x: Array, f: int) -> Array:
    n, norm = len(x), np.linalg.norm(x, axis=1)
    bound = np.sort(norm)[::-1][(2 * f * (n - f)) // n]
    return x * np.minimum(1, bound / norm)[:, None]


def subset_mean(x: Array, f: int, badness: Callable[[Array], float]) -> Array:
    best = min(combinations(range(len(x)), len(x) - f), key=lambda s: badness(x[list(s)]))
    return x[list(best)].mean(axis=0)


def diameter(x: Array) -> float:
    return max(float(np.linalg.norm(a - b)) for a in x for b in x)


def top_variance(x: Array) -> float:
    return float(np.linalg.eigvalsh(np.cov(x.T, bias=True))[-1])


def caf(x: Array, f: int) -> Array:
    c, best, kept = np.ones(len(x)), np.inf, x.mean(axis=0)
    while c.sum() > len(x) - 2 * f:
        mean = np.average(x, axis=0, weights=c)
        values, vectors = np.linalg.eigh(np.cov(x.T, bias=True, aweights=c))
        if values[-1] < best:
            best, kept = values[-1], mean
        t = ((x - mean) @ vectors[:, -1]) ** 2
        c = c * (1 - t / t[c > 0].max()).clip(0)
    return kept


def decided(made: Callable[[Array], Array], x: Array) -> bool:
    """Whether it does not rest on a tie: updates moved by their last digits give the same.

    Rows that NNM mixed of the same neighbours are one point each, and Krum's scores of such points tie.
    """
    moves = np.random.default_rng(0).standard_normal((20, *x.shape))
    return all(np.linalg.norm(made(x * (1 + 1e-9 * move)) - made(x)) <= 1e-7 * np.linalg.norm(x) for move in moves)


DEFINITIONS: list[tuple[GramRule, Callable[[Array], Array]]] = [
    (Mean(), lambda x: x.mean(axis=0)),
    (NormBound(2.0), lambda x: (x * np.minimum(1, 2 / np.linalg.norm(x, axis=1))[:, None]).mean(axis=0)),
    (Krum(2), lambda x: x[krum_order(x, 2)[0]]),
    (MultiKrum(2), lambda x: x[krum_order(x, 2)[: len(x) - 2]].mean(axis=0)),
    (MultiKrum(2, m=3), lambda x: x[krum_order(x, 2)[:3]].mean(axis=0)),
    (RFA(T=3, nu=1e-6), lambda x: weiszfeld(x, 3, 1e-6)),
    (RFA(T=7, nu=0.5), lambda x: weiszfeld(x, 7, 0.5)),
    (CenteredClipping(tau=1.5), lambda x: centered_clipping(x, np.zeros(x.shape[1]), 1.5, 1)),
    (CenteredClipping(tau=1.5, L=4), lambda x: centered_clipping(x, np.zeros(x.shape[1]), 1.5, 4)),
    (SMEA(2), lambda x: subset_mean(x, 2, top_variance)),
    (CAF(2), lambda x: caf(x, 2)),
    (Mixed((NNM(2),), Mean()), lambda x: nnm(x, 2).mean(axis=0)),
    (Mixed((NNM(2),), MultiKrum(2)), lambda x: nnm(x, 2)[krum_order(nnm(x, 2), 2)[: len(x) - 2]].mean(axis=0)),
    (Mixed((ARC(2),), Mean()), lambda x: arc(x, 2).mean(axis=0)),
    (Mixed((ARC(2), NNM(2)), RFA()), lambda x: weiszfeld(nnm(arc(x, 2), 2), 3, 1e-6)),
    (Mixed((Clip(2.0),), Mean()), lambda x: (x * np.minimum(1, 2 / np.linalg.norm(x, axis=1))[:, None]).mean(axis=0)),
    (Mixed((Bucketing(1),), Krum(2)), lambda x: x[krum_order(x, 2)[0]]),
]
RULES = [*(rule for rule, _ in DEFINITIONS), GeometricMedian()]  # whose definition is tested in test_geometric_median.py


@pytest.mark.parametrize(("rule", "definition"), DEFINITIONS, ids=lambda v: str(v) if not callable(v) else "")
@given(seed=seeds, n=st.integers(7, 11))
@settings(max_examples=25)
@pytest.mark.long
def test_a_rule_of_the_gram_matrix_is_its_definition(
    rule: GramRule, definition: Callable[[Array], Array], seed: int, n: int
) -> None:
    x = updates_of(seed, n)
    assume(decided(definition, x) and decided(lambda rows: rule.weights(rows @ rows.T, rng()) @ rows, x))
    expected = definition(x)
    found = rule.weights(x @ x.T, rng()) @ x
    assert np.linalg.norm(found - expected) <= 1e-6 * np.linalg.norm(x)
    if rule.shift_invariant:
        shifted = x - x.mean(axis=0)
        np.testing.assert_allclose(rule.weights(shifted @ shifted.T, rng()) @ x, expected, atol=1e-6 * np.linalg.norm(x))
        assert rule.weights(x @ x.T, rng()).sum() == pytest.approx(1)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule).split(", cut=")[0])
@given(seed=seeds)
@settings(max_examples=10)
def test_it_does_not_matter_in_which_order_the_clients_come(rule: GramRule, seed: int) -> None:
    """But between points that NNM mixed of the same updates, whose scores tie but for rounding: which Krum takes is chance."""
    x = updates_of(seed)
    assume(decided(lambda rows: rule.weights(rows @ rows.T, rng()), x))

    def in_order(order: NDArray[np.intp]) -> Array:
        return rule.weights(x[order] @ x[order].T, rng())[np.argsort(order)]

    shuffled = np.random.default_rng(seed)
    orders = [np.arange(len(x)), *(shuffled.permutation(len(x)) for _ in range(12))]
    first, *others = [in_order(order) for order in orders]
    if rule == Mixed((NNM(2),), MultiKrum(2)):
        assume(all(np.allclose(weights, first, atol=1e-9) for weights in others[:-1]))
    for weights in others:
        np.testing.assert_allclose(weights, first, atol=1e-9)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule).split(", cut=")[0])
def test_full_updates_give_what_the_gram_matrix_gives_and_nothing_given_is_changed(rule: GramRule) -> None:
    x = updates_of(11, n=10, d=300).astype(np.float32)
    before, gram = x.copy(), x.astype(np.float64) @ x.astype(np.float64).T
    gram_before = gram.copy()
    found = aggregate(rule, x, rng())
    weights = rule.weights(gram, rng())
    assert found.weights is not None
    np.testing.assert_allclose(found.weights, weights, atol=2e-5)
    np.testing.assert_allclose(found.vector, weights @ x, atol=2e-4)
    np.testing.assert_array_equal(aggregate(rule, list(x), rng()).vector, found.vector)  # rows or a block, bit for bit
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(gram, gram_before)


@pytest.mark.parametrize(
    "rule",
    [Mean(), NormBound(2.0), Mixed((ARC(2),), Mean()), Mixed((Bucketing(2),), Mean())],
    ids=lambda rule: str(rule).split(", cut=")[0],
)
def test_a_rule_looks_at_no_more_than_it_declares(rule: GramRule) -> None:
    x = updates_of(3)
    gram = x @ x.T
    assert rule.sees <= Sight.NORMS
    seen = np.zeros_like(gram) if rule.sees == Sight.SUM else np.diag(np.diagonal(gram))
    np.testing.assert_array_equal(rule.weights(seen, rng()), rule.weights(gram, rng()))


def test_what_a_composition_sees_is_the_most_of_its_parts() -> None:
    assert Mixed((Bucketing(2),), Mean()).sees == Sight.SUM
    assert Mixed((ARC(1),), Mean()).sees == Sight.NORMS
    assert Mixed((Bucketing(2), NNM(1)), Mean()).sees == Sight.GRAM
    assert not Mixed((ARC(1),), Krum(1)).shift_invariant
    assert Mixed((NNM(1),), Krum(1)).shift_invariant


TOO_FEW: list[tuple[GramRule, int]] = [
    (Krum(2), 6),
    (MultiKrum(2), 6),
    (MultiKrum(0, m=5), 4),
    (MDA(3), 6),
    (SMEA(3), 6),
    (CAF(3), 6),
    (Mixed((NNM(3),), Mean()), 6),
    (Mixed((ARC(3),), Mean()), 6),
    (Mixed((Bucketing(2),), Krum(2)), 12),
    (FoolsGold(), 1),
    (FLAME(), 2),
    (Mean(), 0),
]


@pytest.mark.parametrize(("rule", "n"), TOO_FEW, ids=str)
def test_more_faults_than_a_rule_can_stand_are_refused_in_one_line(rule: GramRule, n: int) -> None:
    x = updates_of(1, n=max(n, 3))[:n]
    with pytest.raises(ValueError, match=r"needs at least \d+ updates, got \d+") as caught:
        rule.weights(x @ x.T, rng())
    assert "\n" not in str(caught.value)
    more = updates_of(1, n=2 * n + 2)
    rule.weights(more @ more.T, rng())


@pytest.mark.parametrize("kind", [Krum, MultiKrum, MDA, SMEA, CAF, NNM, ARC])
def test_a_negative_number_of_faults_is_refused(kind: Callable[[int], object]) -> None:
    with pytest.raises(ValueError, match="f counts faulty updates"):
        kind(-1)


def test_what_is_wrong_is_called_as_the_rules_field_is() -> None:
    with pytest.raises(ValueError, match=r"^b counts faulty updates"):
        TrimmedMean(-1)


def test_of_equal_updates_krum_takes_the_first() -> None:
    x = np.zeros((7, 2))
    np.testing.assert_array_equal(Krum(2).weights(x @ x.T, rng()), np.eye(7)[0])
    np.testing.assert_array_equal(MultiKrum(2, m=2).weights(x @ x.T, rng()), [0.5, 0.5, 0, 0, 0, 0, 0])


# --- least diameter ---------------------------------------------------------------------------------------------------


@given(seed=seeds, n=st.integers(1, 9), data=st.data(), grid=st.booleans())
@settings(max_examples=150)
def test_least_diameter_is_the_first_of_all_subsets_with_the_least_diameter(
    seed: int, n: int, data: st.DataObject, grid: bool
) -> None:
    f = data.draw(st.integers(0, n - 1))
    draw = np.random.default_rng(seed)
    x = draw.integers(0, 3, (n, 2)).astype(float) if grid else draw.standard_normal((n, 3))  # a grid has many ties
    d = squared_distances(x @ x.T)
    expected = min(combinations(range(n), n - f), key=lambda s: (d[np.ix_(s, s)].max(), s))
    assert least_diameter(d, n - f, work=100_000) == list(expected)


def test_mda_of_a_hundred_updates_is_exact_and_quick_and_gives_up_loudly() -> None:
    draw = np.random.default_rng(0)
    x = draw.standard_normal((100, 50)) + 1
    x[:20] += 20 * draw.standard_normal((20, 50))
    gram = x @ x.T
    np.testing.assert_array_equal(np.flatnonzero(MDA(20).weights(gram, rng())), np.arange(20, 100))
    with pytest.raises(ValueError, match="raise work"):
        MDA(20, work=3).weights(gram, rng())
    with pytest.raises(ValueError, match="raise work"):
        SMEA(20).weights(gram, rng())


# --- known answers ----------------------------------------------------------------------------------------------------


def test_centred_clipping_starts_where_it_is_told() -> None:
    x, v = updates_of(4), np.full(6, 2.0)
    together = np.vstack([x, v])
    weights = CenteredClipping(tau=1.0, L=3).weights_with(together @ together.T, rng())
    np.testing.assert_allclose(weights @ together, centered_clipping(x, v, 1.0, 3), atol=1e-9)
    assert weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(CenteredClipping(tau=1e9).weights(x @ x.T, rng()), np.full(9, 1 / 9))


def test_nearest_neighbour_mixing_replaces_a_minority_by_means_that_hold_the_majority() -> None:
    x = np.array([[0.0], [1.0], [2.0], [3.0], [100.0]])
    np.testing.assert_allclose(NNM(1).mixing(x @ x.T, rng()) @ x, [[1.5], [1.5], [1.5], [1.5], [26.5]])


def test_arc_shortens_as_many_as_it_says_to_the_next_norm() -> None:
    x = np.diag([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0])
    norm = np.linalg.norm(ARC(3).mixing(x @ x.T, rng()) @ x, axis=1)  # floor(2 * 3 * 7 / 10) = 4
    np.testing.assert_allclose(norm, [1, 2, 3, 4, 5, 6, 6, 6, 6, 6])


@given(seed=seeds, n=st.integers(1, 12), s=st.integers(1, 5))
@settings(max_examples=30)
def test_bucketing_puts_every_client_into_one_bucket_of_s(seed: int, n: int, s: int) -> None:
    mixing = Bucketing(s).mixing(np.zeros((n, n)), np.random.default_rng(seed))
    assert mixing.shape == (-(-n // s), n)
    np.testing.assert_allclose(mixing.sum(axis=1), 1)
    np.testing.assert_array_equal((mixing > 0).sum(axis=0), 1)
    assert sorted((mixing > 0).sum(axis=1))[-1] == min(s, n)


def test_fltrust_weighs_by_the_root_and_gives_all_its_length() -> None:
    x = np.array([[3.0, 0.0], [0.0, 5.0], [-1.0, 0.0], [0.0, 0.0], [2.0, 2.0], [4.0, 0.0]])  # the last is the root's
    weights = FLTrust().weights_with(x @ x.T, rng())
    share = 1 + 1 / sqrt(2)
    np.testing.assert_allclose(weights, [4 / 3 / share, 0, 0, 0, 1 / sqrt(2) * 4 / sqrt(8) / share, 0], atol=1e-12)
    np.testing.assert_array_equal(FLTrust().weights_with(np.diag([1.0, 1.0, 1.0]), rng()), np.zeros(3))


def test_foolsgold_distrusts_those_who_agree_and_pardons_those_they_resemble() -> None:
    draw = np.random.default_rng(2)
    honest = draw.standard_normal((5, 400))
    sybil = draw.standard_normal(400) + 0.3 * honest[0]
    x = np.vstack([honest, sybil, sybil, sybil])
    weights = FoolsGold().weights(x @ x.T, rng())
    np.testing.assert_allclose(weights[5:], 0, atol=1e-6)
    np.testing.assert_allclose(weights[:5], 0.2, atol=1e-6)
    np.testing.assert_array_equal(FoolsGold().weights(np.ones((4, 4)), rng()), np.zeros(4))


def test_foolsgold_is_algorithm_1_line_by_line() -> None:
    x = updates_of(8, n=7, d=3)
    n = len(x)
    cs = np.array([[a @ b / np.linalg.norm(a) / np.linalg.norm(b) for b in x] for a in x])
    v = [max(0.0, *(cs[i, j] for j in range(n) if j != i)) for i in range(n)]
    alpha = []
    for i in range(n):
        rescaled = [cs[i, j] * (v[i] / v[j] if v[j] > v[i] else 1) for j in range(n) if j != i]
        alpha.append(1 - max(0.0, *rescaled))
    alpha = [min(a / max(alpha), 0.99) for a in alpha]
    expected = np.clip([np.log(a / (1 - a)) + 0.5 if a > 0 else 0 for a in alpha], 0, 1)
    np.testing.assert_allclose(FoolsGold().weights(x @ x.T, rng()), expected / expected.sum(), atol=1e-9)


def opposed(n: int, f: int, seed: int = 0, strength: float = 4.0) -> Array:
    """n - f updates about one direction, then f about its opposite, longer."""
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((n, 50)) * 0.3 + 1
    x[n - f :] *= -strength
    return x


@pytest.mark.parametrize(
    "rule",
    [FLAME(), ClippedClustering(), CFLDefence(eps1=100.0, eps2=0.0, gamma_max=0.5)],
    ids=lambda rule: str(rule).split(", cut=")[0],
)
def test_clustering_rules_keep_the_majority_and_none_of_the_opposition(rule: GramRule) -> None:
    x = opposed(11, 5)
    weights = rule.weights(x @ x.T, rng())
    np.testing.assert_array_equal(weights[6:], 0)
    assert (weights[:6] > 0).all()
    order = np.random.default_rng(1).permutation(11)
    np.testing.assert_allclose(rule.weights(x[order] @ x[order].T, rng()), weights[order], atol=1e-12)
    assert not rule.shift_invariant


def test_flame_clips_to_the_median_norm_of_all_and_asks_for_noise_of_that_scale() -> None:
    x = opposed(9, 4, strength=3.0)
    x[0] *= 10
    norm = np.linalg.norm(x, axis=1)
    found = np.linalg.norm(FLAME().weights(x @ x.T, rng())[:, None] * x, axis=1)
    np.testing.assert_allclose(found[:5], np.minimum(norm[:5], np.median(norm)) / 5)
    assert FLAME(noise=0.1).noise_std(x @ x.T) == pytest.approx(0.1 * np.median(norm))


@given(seed=seeds, n=st.integers(3, 15))
@settings(max_examples=40)
def test_flame_admits_a_majority_whatever_is_sent(seed: int, n: int) -> None:
    x = np.random.default_rng(seed).standard_normal((n, 4))
    assert (FLAME().weights(x @ x.T, rng()) > 0).sum() > n / 2


def test_clipped_clustering_remembers_norms() -> None:
    x = np.array([[4.0, 0.0], [4.0, 0.1], [5.0, 0.1], [-4.0, 0.0]])
    rule = ClippedClustering().after(np.diag([1.0] * 5))
    assert rule.history == (1.0,) * 5
    weights = rule.weights(x @ x.T, rng())  # the median of five ones and four longer norms is 1
    np.testing.assert_allclose(np.linalg.norm(weights[:, None] * x, axis=1), [1 / 3, 1 / 3, 1 / 3, 0])


def test_cfl_as_a_defence_splits_only_where_its_three_tests_pass() -> None:
    x = opposed(9, 3, strength=1.0)
    gram, all_of_them = x @ x.T, np.full(9, 1 / 9)
    passes = {"eps1": 100.0, "eps2": 0.0, "gamma_max": 0.5}
    np.testing.assert_allclose(CFLDefence(**passes).weights(gram, rng()), [1 / 6] * 6 + [0] * 3)
    for fails in ({"eps1": 1e-3}, {"eps2": 1e3}, {"gamma_max": 0.9999}):
        np.testing.assert_allclose(CFLDefence(**{**passes, **fails}).weights(gram, rng()), all_of_them)


# --- what only full updates can have ----------------------------------------------------------------------------------


def test_foolsgold_judges_what_clients_sent_so_far_and_sums_what_they_send_now() -> None:
    draw = np.random.default_rng(0)
    history = draw.standard_normal((5, 200)).astype(np.float32)
    history[4] = history[3]
    now = draw.standard_normal((5, 20)).astype(np.float32)
    found = aggregate(FoolsGold(), now, rng(), judged=history)
    np.testing.assert_allclose(found.weights, [1 / 3, 1 / 3, 1 / 3, 0, 0], atol=1e-5)
    np.testing.assert_allclose(found.vector, now[:3].mean(axis=0), atol=1e-5)
    history[1, 0] = np.nan
    assert aggregate(FoolsGold(), now, rng(), judged=history).rejected == (1,)


def test_weak_dp_and_flame_add_noise_of_the_size_they_ask_for() -> None:
    x = opposed(9, 4)
    x = np.tile(x, 400).astype(np.float32)
    without = aggregate(NormBound(5.0), x, rng()).vector
    blurred = [aggregate(NormBound(5.0, s=0.3), x, np.random.default_rng(seed)).vector for seed in (0, 0, 1)]
    assert np.std(blurred[0] - without) == pytest.approx(0.3, rel=0.03)
    np.testing.assert_array_equal(blurred[0], blurred[1])
    assert not np.array_equal(blurred[0], blurred[2])
    scale = float(np.median(np.linalg.norm(x, axis=1)))
    flame = aggregate(FLAME(noise=0.01), x, rng()).vector - aggregate(FLAME(), x, rng()).vector
    assert np.std(flame) == pytest.approx(0.01 * scale, rel=0.03)
