"""The Separation Theorem: its bounds are never broken, they are reached, and every quantity has its known answer."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.fl.clustering.bipartition import Bipartition, optimal_bipartition
from cloister.fl.clustering.separation import (
    H,
    accepts,
    correct,
    cosine_similarity,
    cross_bound,
    gamma,
    gamma_limit,
    intra_bound,
    norm_of_combination,
    norms,
    separation_gap,
)

ROUNDING = 1e-7  # a cosine near 1 moves by this when its angle moves by the square root of it


@st.composite
def populations(draw):
    """A stationary point as Theorem 1 has it: weighted true gradients that sum to zero, and noise below each of them."""
    k, d = draw(st.integers(2, 6)), draw(st.integers(2, 6))
    seed, members = draw(st.integers(0, 2**32 - 1)), draw(st.integers(1, 3))
    noisiest = draw(st.sampled_from([0.0, 0.02, 0.1, 0.3, 0.7, 0.999]))
    rng = np.random.default_rng(seed)
    true = rng.normal(size=(k, d))
    weights = rng.uniform(0.1, 5, size=k)
    true[-1] = -(weights[:-1] @ true[:-1]) / weights[-1]
    groups = np.repeat(np.arange(k), members)
    noise = rng.normal(size=(len(groups), d))
    gammas = noisiest * rng.uniform(0, 1, size=len(groups))
    size = gammas * np.linalg.norm(true[groups], axis=1)
    gradients = true[groups] + noise * (size / np.linalg.norm(noise, axis=1))[:, None]
    return true, gradients, gammas, groups.tolist(), k


@pytest.mark.long
@given(populations())
@settings(max_examples=400)
def test_theorem_1_bounds_are_never_broken(population):
    true, gradients, gammas, groups, k = population
    alpha = cosine_similarity(gradients @ gradients.T)
    measured = [gamma(true[group], gradient) for group, gradient in zip(groups, gradients, strict=True)]
    assert measured == pytest.approx(gammas, abs=1e-9)

    same = [alpha[i, j] for i in range(len(groups)) for j in range(len(groups)) if groups[i] == groups[j]]
    assert min(same) >= intra_bound(gammas, groups) - ROUNDING

    found = optimal_bipartition(alpha, range(len(groups)))
    least = float(H(gammas[:, None], gammas[None, :]).min())
    assert found.cross <= cross_bound(least, k) + ROUNDING

    planted = dict(enumerate(groups))
    if separation_gap(alpha, groups) > 0:
        assert correct(found, planted)
    if accepts(found.cross, float(gammas.max())):  # Eq. 39, for any k
        assert correct(found, planted)
    if gammas.max() < gamma_limit(k):
        assert separation_gap(alpha, groups) > -ROUNDING


@given(st.integers(2, 7), st.integers(2, 6), st.integers(0, 2**32 - 1))
@settings(max_examples=200)
def test_lemma_4_vectors_that_sum_to_zero_can_be_cut(k, d, seed):
    # Nearly one-sided vectors are the hard ones: the last has to balance all others.
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(k, d)) * rng.choice([0.05, 1], size=d) + rng.choice([0, 1, 3]) * np.eye(d)[0]
    vectors[-1] = -vectors[:-1].sum(axis=0)
    found = optimal_bipartition(cosine_similarity(vectors @ vectors.T), range(k))
    assert found.cross <= math.cos(math.pi / (k - 1)) + 1e-9


@pytest.mark.parametrize("k", [3, 4, 5, 9])
def test_lemma_4_is_sharp(k):
    """Directions pi/(k-1) apart over a hair more than a half circle: some positive combination is zero, no cut is wider."""
    step = math.pi / (k - 1)
    angles = np.arange(k) * step
    angles[0], angles[-1] = -1e-6, math.pi + 1e-6
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    weights = np.linalg.solve(vectors[[0, -1]].T, -vectors[1:-1].sum(axis=0))  # of the two ends, the others weigh 1
    assert (weights > 0).all()
    found = optimal_bipartition(cosine_similarity(vectors @ vectors.T), range(k))
    assert found.cross == pytest.approx(math.cos(step), abs=1e-5)


@given(st.floats(0, 0.99), st.floats(0, 0.99))
def test_h_is_reached_by_noise_at_right_angles_on_opposite_sides(a, b):
    """Lemma 2 is sharp: v = e_1, and both noisy vectors are tangents of their noise circles."""
    up, down = math.asin(a), -math.asin(b)
    first = math.cos(up) * np.array([math.cos(up), math.sin(up)])
    second = math.cos(down) * np.array([math.cos(down), math.sin(down)])
    v = np.array([1.0, 0.0])
    assert gamma(v, first) == pytest.approx(a, abs=1e-7)
    assert gamma(v, second) == pytest.approx(b, abs=1e-7)
    cosine = cosine_similarity(np.stack([first, second]) @ np.stack([first, second]).T)[0, 1]
    assert cosine == pytest.approx(float(H(a, b)), abs=1e-9)
    assert float(H(a, b)) == pytest.approx(math.cos(math.asin(a) + math.asin(b)), abs=1e-12)


@given(st.floats(-1, 1), st.integers(2, 30))
def test_cross_bound_is_the_cosine_of_what_the_noise_leaves_of_the_angle(h, k):
    left_over = math.pi / (k - 1) - math.acos(h)
    assert cross_bound(h, k) == pytest.approx(math.cos(max(0.0, left_over)), abs=1e-9)


@given(st.floats(0, 0.999))
def test_two_groups_give_minus_h_exactly(noise):
    h = float(H(noise, noise))
    assert cross_bound(h, 2) == -h
    assert h == pytest.approx(1 - 2 * noise**2, abs=1e-12)  # Eq. 38


def test_bounds_have_their_known_answers():
    assert float(H(0, 0)) == 1.0
    assert float(H(0.6, 0.8)) == pytest.approx(0.0, abs=1e-15)
    assert cross_bound(1.0, 3) == pytest.approx(0.0, abs=1e-15)
    assert cross_bound(0.8, 3) == pytest.approx(0.6)
    assert cross_bound(1.0, 4) == pytest.approx(0.5)
    assert cross_bound(0.49, 4) == 1.0  # h < cos(pi/3): nothing is promised
    assert intra_bound([0.6, 0.8, 0.0], [1, 1, 2]) == pytest.approx(0.0, abs=1e-15)
    assert intra_bound([0.6, 0.8], [1, 2]) == 1.0


@pytest.mark.parametrize("k", range(2, 20))
def test_gamma_limit_is_where_the_bounds_cross(k):
    for noise, certain in ((gamma_limit(k) - 1e-6, True), (gamma_limit(k) + 1e-6, False)):
        h = float(H(noise, noise))
        assert (intra_bound([noise, noise], [0, 0]) > cross_bound(h, k)) == certain
    assert gamma_limit(2) == pytest.approx(math.sqrt(0.5))


def test_acceptance_threshold_of_the_five_directions():
    cross = math.cos(math.radians(35))
    assert cross == pytest.approx(0.8192, abs=5e-5)
    assert math.sqrt((1 - cross) / 2) == pytest.approx(0.3007, abs=5e-5)
    assert accepts(cross, 0.3007)
    assert not accepts(cross, 0.3008)


def test_acceptance_at_its_ends():
    assert not accepts(1.0, 0.0)  # identical updates
    assert not accepts(1.0 + 1e-12, 0.0)  # and their rounding
    assert accepts(-1.0, 0.999999)
    assert not accepts(-1.0, 1.0)
    assert not accepts(0.5, 0.5)  # sqrt((1 - 0.5) / 2) = 0.5 and the inequality is strict


def test_opposed_groups_have_gap_two():
    updates = np.array([[1.0, 2.0], [2.0, 4.0], [-1.0, -2.0], [-3.0, -6.0]])
    alpha = cosine_similarity(updates @ updates.T)
    assert separation_gap(alpha, [0, 0, 1, 1]) == pytest.approx(2.0)
    assert separation_gap(alpha, [0, 1, 0, 1]) == pytest.approx(0.0)  # every cut has a pair as opposed as the groups


def test_a_correct_cut_may_have_a_negative_gap():
    """Remark 2 of the paper says "if and only if"; only "if" holds."""
    angle = np.radians([0, 25, 50, 90])
    alpha = np.cos(angle[:, None] - angle[None, :])
    assert correct(optimal_bipartition(alpha, range(4)), {0: 0, 1: 0, 2: 0, 3: 1})
    assert separation_gap(alpha, [0, 0, 0, 1]) == pytest.approx(math.cos(math.radians(50)) - math.cos(math.radians(40)))
    assert separation_gap(alpha, [0, 0, 0, 1]) < 0


def test_correct_speaks_of_ids():
    groups = {10: 0, 20: 0, 30: 1, 40: 2}
    assert correct(Bipartition((10, 20), (30, 40), 0.0), groups)
    assert correct(Bipartition((10, 20, 30), (40,), 0.0), groups)
    assert not correct(Bipartition((10,), (20, 30, 40), 0.0), groups)


@given(st.integers(1, 8), st.integers(1, 5), st.integers(0, 2**32 - 1))
@settings(max_examples=100)
def test_the_gram_matrix_answers_what_the_updates_would(m, d, seed):
    rng = np.random.default_rng(seed)
    updates, weights = rng.normal(size=(m, d)), rng.normal(size=m)
    gram = updates @ updates.T
    assert norms(gram) == pytest.approx(np.linalg.norm(updates, axis=1))
    assert norm_of_combination(gram, weights) == pytest.approx(np.linalg.norm(weights @ updates), abs=1e-7)
    unit = updates / np.linalg.norm(updates, axis=1, keepdims=True)
    alpha = cosine_similarity(gram)
    assert alpha == pytest.approx(unit @ unit.T, abs=1e-9)
    assert np.array_equal(alpha, alpha.T)
    assert alpha.min() >= -1
    assert alpha.max() <= 1


def test_a_gram_matrix_with_rounding_gives_symmetric_cosines():
    gram = np.array([[4.0, 2.0], [2.0 + 1e-9, 9.0]])
    alpha = cosine_similarity(gram)
    assert alpha[0, 1] == alpha[1, 0] == pytest.approx(1 / 3)


@given(st.lists(st.floats(1e-6, 1e6), min_size=4, max_size=4))
def test_cosines_do_not_depend_on_lengths(lengths):
    updates = np.array([[1.0, 0.0], [1.0, 1.0], [-1.0, 2.0], [0.0, -1.0]])
    scaled = updates * np.array(lengths)[:, None]
    assert cosine_similarity(scaled @ scaled.T) == pytest.approx(cosine_similarity(updates @ updates.T), abs=1e-9)


def test_an_update_of_norm_zero_is_similar_to_itself_alone():
    updates = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 0.0]])
    assert cosine_similarity(updates @ updates.T).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert cosine_similarity(np.zeros((2, 2))).tolist() == [[1, 0], [0, 1]]


def test_rounding_below_zero_gives_zero():
    assert norm_of_combination(np.array([[1.0, 1.0 + 1e-12], [1.0 + 1e-12, 1.0]]), [1.0, -1.0]) == 0.0
    assert norms(np.array([[-1e-15, 0.0], [0.0, 4.0]])).tolist() == [0.0, 2.0]


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="square"):
        cosine_similarity(np.ones((2, 3)))
    with pytest.raises(ValueError, match="NaN"):
        cosine_similarity(np.array([[1.0, np.nan], [np.nan, 1.0]]))
    with pytest.raises(ValueError, match="weights"):
        norm_of_combination(np.eye(3), [1.0, 1.0])
    with pytest.raises(ValueError, match="not zero"):
        gamma([0.0, 0.0], [1.0, 0.0])
    with pytest.raises(ValueError, match="shapes"):
        gamma([1.0, 0.0], [1.0])
    with pytest.raises(ValueError, match=r"\[0, 1\)"):
        H(1.0, 0.5)
    with pytest.raises(ValueError, match=r"\[0, 1\)"):
        intra_bound([0.1, np.nan], [0, 0])
    with pytest.raises(ValueError, match="gammas"):
        intra_bound([0.1, 0.2], [0, 0, 1])
    with pytest.raises(ValueError, match="two groups"):
        cross_bound(0.5, 1)
    with pytest.raises(ValueError, match="two groups"):
        gamma_limit(1)
    with pytest.raises(ValueError, match="h must"):
        cross_bound(float("nan"), 3)
    with pytest.raises(ValueError, match="cross"):
        accepts(float("nan"), 0.1)
    with pytest.raises(ValueError, match="gamma_max"):
        accepts(0.0, -0.1)
