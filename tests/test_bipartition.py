"""The optimal bipartition against Algorithm 1 as printed, against brute force, and against what must not matter."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.fl.clustering.bipartition import Bipartition, complete_linkage_bipartition, optimal_bipartition


def algorithm_1(alpha):
    """Sattler et al. 2020, Algorithm 1, line by line, with a stable sort."""
    m = len(alpha)
    order = np.argsort(-alpha.reshape(-1), kind="stable")
    clusters = [{i} for i in range(m)]
    for position in order:
        i1, i2 = divmod(int(position), m)
        merged = set()
        for cluster in list(clusters):
            if i1 in cluster or i2 in cluster:
                merged |= cluster
                clusters.remove(cluster)
        clusters.append(merged)
        if len(clusters) == 2:
            return {frozenset(cluster) for cluster in clusters}
    raise AssertionError("unreachable for m >= 2")


def cross_of(alpha, left):
    right = [j for j in range(len(alpha)) if j not in left]
    return max(alpha[i, j] for i in left for j in right)


def brute_force(alpha):
    """All bipartitions (as the side of client 0) that reach the least maximum cross similarity, and that value."""
    m = len(alpha)
    sides = [{0, *rest} for size in range(m - 1) for rest in itertools.combinations(range(1, m), size)]
    values = [cross_of(alpha, side) for side in sides]
    least = min(values)
    return least, [frozenset(side) for side, value in zip(sides, values, strict=True) if value == least]


@st.composite
def similarities(draw, most=10, levels=None):
    """Symmetric matrices; with few levels nearly every comparison is a tie."""
    m = draw(st.integers(2, most))
    entry = st.integers(-levels, levels).map(lambda n: n / levels) if levels else st.floats(-1, 1)
    pairs = draw(st.lists(entry, min_size=m * (m - 1) // 2, max_size=m * (m - 1) // 2))
    alpha = np.eye(m)
    alpha[np.triu_indices(m, 1)] = pairs
    return np.triu(alpha) + np.triu(alpha, 1).T


def sets(bipartition):
    return {frozenset(bipartition.left), frozenset(bipartition.right)}


@pytest.mark.long
@given(st.one_of(similarities(levels=1), similarities(levels=2), similarities(levels=5), similarities()))
@settings(max_examples=400)
def test_partition_is_that_of_algorithm_1_even_with_ties(alpha):
    found = optimal_bipartition(alpha, range(len(alpha)))
    assert sets(found) == algorithm_1(alpha)
    assert found.cross == cross_of(alpha, set(found.left))


@given(st.one_of(similarities(most=8, levels=3), similarities(most=8)))
@settings(max_examples=150)
def test_no_bipartition_has_a_smaller_maximum_cross_similarity(alpha):
    found = optimal_bipartition(alpha, range(len(alpha)))
    least, optima = brute_force(alpha)
    assert found.cross == least
    assert frozenset(found.left) in optima  # position 0 has the smallest id, so it is on the left


@pytest.mark.long
@given(
    similarities(levels=2),
    st.randoms(use_true_random=False),
    st.sampled_from([optimal_bipartition, complete_linkage_bipartition]),
)
@settings(max_examples=200)
def test_order_in_which_clients_are_listed_does_not_matter(alpha, random, cut):
    ids = random.sample(range(1000), len(alpha))
    order = random.sample(range(len(alpha)), len(alpha))
    listed = [ids[position] for position in order]
    assert cut(alpha[np.ix_(order, order)], listed) == cut(alpha, ids)


@given(similarities(levels=4))
@settings(max_examples=100)
def test_only_the_order_of_similarities_decides(alpha):
    found, bent = (optimal_bipartition(matrix, range(len(alpha))) for matrix in (alpha, np.exp(3 * alpha) - 7))
    assert (found.left, found.right) == (bent.left, bent.right)


@given(st.one_of(similarities(levels=3), similarities()))
@settings(max_examples=100)
def test_complete_linkage_is_a_bipartition_that_is_never_better(alpha):
    m = len(alpha)
    found = complete_linkage_bipartition(alpha, range(m))
    assert found.left[0] == 0
    assert sorted(found.left + found.right) == list(range(m))
    assert found.right
    assert found.cross == cross_of(alpha, set(found.left))
    assert found.cross >= optimal_bipartition(alpha, range(m)).cross


def greedy_complete_linkage(alpha):
    """Merge the two clusters whose least similar pair is most similar, until two are left."""
    clusters = [{i} for i in range(len(alpha))]
    while len(clusters) > 2:
        first, second = max(
            itertools.combinations(clusters, 2), key=lambda pair: min(alpha[i, j] for i in pair[0] for j in pair[1])
        )
        clusters = [cluster for cluster in clusters if cluster not in (first, second)] + [first | second]
    return {frozenset(cluster) for cluster in clusters}


@given(st.integers(2, 9), st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_complete_linkage_is_the_greedy_one(m, seed):
    updates = np.random.default_rng(seed).normal(size=(m, 4))
    alpha = updates @ updates.T
    assert sets(complete_linkage_bipartition(alpha, range(m))) == greedy_complete_linkage(alpha)


def directions(*degrees):
    angle = np.radians(degrees)
    return np.cos(angle[:, None] - angle[None, :])


def test_five_directions_show_single_against_complete_linkage():
    alpha, ids = directions(0, 25, 50, 75, 110), [10, 11, 12, 13, 14]
    single, complete = optimal_bipartition(alpha, ids), complete_linkage_bipartition(alpha, ids)
    assert (single.left, single.right) == ((10, 11, 12, 13), (14,))
    assert single.cross == pytest.approx(math.cos(math.radians(35)), abs=1e-15)
    assert (complete.left, complete.right) == ((10, 11), (12, 13, 14))
    assert complete.cross == pytest.approx(math.cos(math.radians(25)), abs=1e-15)


def test_single_and_complete_linkage_differ_often_on_random_updates():
    rng = np.random.default_rng(5)
    differ = 0
    for _ in range(100):
        updates = rng.normal(size=(12, 6))
        updates /= np.linalg.norm(updates, axis=1, keepdims=True)
        alpha = updates @ updates.T
        differ += sets(optimal_bipartition(alpha, range(12))) != sets(complete_linkage_bipartition(alpha, range(12)))
    assert differ > 30


def test_ids_come_back_and_not_positions():
    alpha = directions(180, 0, 181, 3)
    assert optimal_bipartition(alpha, [70, 50, 90, 40]) == Bipartition(
        (40, 50), (70, 90), pytest.approx(math.cos(math.radians(177)))
    )


def test_equal_similarities_cut_off_the_largest_id():
    # Kruskal takes (1,2), (1,3), (1,4); the pair (1,5) is the next one and is the cut.
    assert optimal_bipartition(np.ones((5, 5)), [5, 3, 1, 2, 4]) == Bipartition((1, 2, 3, 4), (5,), 1.0)


@pytest.mark.parametrize("cut", [optimal_bipartition, complete_linkage_bipartition])
def test_two_clients_become_two_singletons(cut):
    assert cut(np.array([[1.0, 0.25], [0.25, 1.0]]), [9, 2]) == Bipartition((2,), (9,), 0.25)


@pytest.mark.parametrize("cut", [optimal_bipartition, complete_linkage_bipartition])
def test_rounding_may_differ_between_the_two_halves_of_the_matrix(cut):
    rng = np.random.default_rng(0)
    for _ in range(20):
        alpha = 0.5 + 1e-8 * rng.normal(size=(6, 6))  # all pairs tie but for rounding
        assert cut(alpha, range(6)) == cut(alpha.T, range(6)) == cut((alpha + alpha.T) / 2, range(6))


@pytest.mark.parametrize("cut", [optimal_bipartition, complete_linkage_bipartition])
@pytest.mark.parametrize(
    ("alpha", "clients", "message"),
    [
        (np.ones((1, 1)), [3], "at least two"),
        (np.ones((0, 0)), [], "at least two"),
        (np.ones((3, 3)), [1, 2], "shape"),
        (np.ones((3, 2)), [1, 2, 3], "shape"),
        (np.ones((2, 2)), [4, 4], "repeat"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), [1, 2], "NaN"),
        (np.array([[1.0, np.inf], [np.inf, 1.0]]), [1, 2], "NaN"),
        (np.array([[1.0, 0.5], [0.4, 1.0]]), [1, 2], "symmetric"),
    ],
)
def test_bad_arguments_are_refused(cut, alpha, clients, message):
    with pytest.raises(ValueError, match=message):
        cut(alpha, clients)


def test_the_argument_is_left_as_it_was():
    alpha = directions(0, 25, 50, 75, 110)
    before = alpha.copy()
    optimal_bipartition(alpha, range(5))
    complete_linkage_bipartition(alpha, range(5))
    assert np.array_equal(alpha, before)


def test_thousands_of_clients_are_cut():
    rng = np.random.default_rng(1)
    planted = rng.permutation(np.repeat([0, 1], 1500))
    updates = rng.normal(size=(3000, 20)) + 8 * np.where(planted == 0, 1, -1)[:, None]
    updates /= np.linalg.norm(updates, axis=1, keepdims=True)
    found = optimal_bipartition(updates @ updates.T, range(3000))
    assert {planted[i] for i in found.left}.isdisjoint({planted[j] for j in found.right})
