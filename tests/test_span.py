"""The span check against brute force, and the attacks that it is there to stop."""

from fractions import Fraction
from itertools import combinations
from time import perf_counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cloister.protocol.span import fewest_clients, reveals_fewer_than


def rank(matrix):
    """Rank of a list of rows, exactly."""
    rows = [[Fraction(a) for a in row] for row in matrix]
    found = 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((k for k in range(found, len(rows)) if rows[k][column]), None)
        if pivot is None:
            continue
        rows[found], rows[pivot] = rows[pivot], rows[found]
        for k in range(found + 1, len(rows)):
            factor = rows[k][column] / rows[found][column]
            rows[k] = [a - factor * b for a, b in zip(rows[k], rows[found], strict=True)]
        found += 1
    return found


def brute(matrix):
    """The smallest set of columns outside of which some non-zero combination vanishes: those whose complement loses rank."""
    whole = rank(matrix)
    if whole == 0:
        return None
    n = len(matrix[0])
    for size in range(n + 1):
        for kept in combinations(range(n), size):
            others = [k for k in range(n) if k not in kept]
            if rank([[row[k] for k in others] for row in matrix]) < whole:
                return size
    raise AssertionError("the whole set has full rank")


def rows_of(matrix):
    return [{i: float(a) for i, a in enumerate(row)} for row in matrix]


def ones(clients, a=1.0):
    return dict.fromkeys(clients, a)


matrices = st.integers(1, 6).flatmap(
    lambda n: st.lists(st.lists(st.integers(-2, 2), min_size=n, max_size=n), min_size=1, max_size=4)
)
zero_one = st.integers(1, 7).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, 1), min_size=n, max_size=n), min_size=1, max_size=4)
)


@given(st.one_of(matrices, zero_one))
@example([[1, 1, 1, 1], [1, 1, 1, 0]])
@example([[1, 2, 3, 4, 5, 6], [1, 1, 1, 1, 1, 1]])
@example([[0, 0], [0, 0]])
@settings(deadline=None, max_examples=250)
def test_the_fewest_clients_are_those_of_brute_force(matrix):
    assert fewest_clients(rows_of(matrix)) == brute(matrix)


@given(matrices, st.randoms(use_true_random=False), st.data())
@settings(deadline=None, max_examples=80)
def test_neither_order_nor_scale_nor_names_matter_and_more_sums_never_reveal_less(matrix, random, data):
    rows = rows_of(matrix)
    fewest = fewest_clients(rows)
    scales = data.draw(st.lists(st.sampled_from([-3.0, -0.5, 0.25, 8.0]), min_size=len(rows), max_size=len(rows)))
    names = list(range(100, 100 + len(matrix[0])))
    random.shuffle(names)
    other = [{names[i]: a * scale for i, a in row.items()} for row, scale in zip(rows, scales, strict=True)]
    random.shuffle(other)
    assert fewest_clients(other) == fewest
    sparse = [{i: a for i, a in row.items() if a} for row in rows]
    assert fewest_clients(sparse) == fewest
    fewer = fewest_clients(rows[:-1])
    assert fewer is None or (fewest is not None and fewest <= fewer)


# --- attacks --------------------------------------------------------------------------------------------------------------


def test_the_attack_works_on_sums_that_are_refused():
    """Differencing: a sum over all and a sum over all but one give that one's update, to the last bit of float64."""
    updates = np.random.default_rng(0).standard_normal((5, 8))
    everyone, without = ones(range(5)), ones(range(4))
    sums = [sum(a * updates[i] for i, a in row.items()) for row in (everyone, without)]
    assert np.allclose(sums[0] - sums[1], updates[4])
    assert fewest_clients([everyone, without]) == 1
    assert reveals_fewer_than(2, [everyone, without])
    assert not reveals_fewer_than(4, [everyone])
    assert not reveals_fewer_than(4, [without])


@pytest.mark.parametrize("missing", range(1, 5))
def test_a_difference_of_k_clients_reveals_k(missing):
    rows = [ones(range(10)), ones(range(10 - missing))]
    assert fewest_clients(rows) == min(missing, 10 - missing)
    assert reveals_fewer_than(missing + 1, rows)
    assert not reveals_fewer_than(missing, rows)


def test_three_sums_that_are_pairwise_safe_and_together_not():
    """No two of these show fewer than 3 clients; a + b - c shows client 0 alone, twice."""
    a, b, c = ones([0, 1, 2, 3]), ones([0, 4, 5, 6]), ones([1, 2, 3, 4, 5, 6])
    for pair in combinations([a, b, c], 2):
        assert not reveals_fewer_than(3, pair)
    assert fewest_clients([a, b, c]) == 1


def test_personalised_sums_for_every_client_determine_every_update():
    rng = np.random.default_rng(1)
    assert fewest_clients([dict(enumerate(rng.uniform(0.1, 1, 6))) for _ in range(6)]) == 1


@pytest.mark.parametrize("step", [2.0**-52, 1e-9, 1e-3])
def test_weights_that_are_almost_equal_are_not_equal(step):
    rows = [ones(range(5)), {**ones(range(5)), 2: 1 + step}]
    assert fewest_clients(rows) == 1
    assert reveals_fewer_than(2, rows)


def test_sums_over_disjoint_clusters_pass():
    rows = [ones(range(5 * k, 5 * k + 5), a=0.1 * (k + 1)) for k in range(20)]
    assert fewest_clients(rows) == 5
    assert not reveals_fewer_than(5, rows)
    assert reveals_fewer_than(6, rows)


@pytest.mark.parametrize("scale", [1.0, -1.0, 0.5, 3.0, 1 / 1024])
def test_the_same_sum_again_scaled_reveals_nothing_new(scale):
    row = {0: 3.0, 1: 5.0, 2: 7.0, 3: 1.0}
    assert fewest_clients([row, {i: scale * a for i, a in row.items()}]) == 4


def test_a_scale_that_rounds_makes_another_sum():
    """0.1 times a weight is not exactly a tenth of it, so the check does not take the two for one."""
    row = {0: 3.0, 1: 5.0, 2: 7.0, 3: 1.0}
    assert reveals_fewer_than(4, [row, {i: 0.1 * a for i, a in row.items()}])


def test_nothing_reveals_nothing():
    assert fewest_clients([]) is None
    assert fewest_clients([{}, {1: 0.0}]) is None
    assert not reveals_fewer_than(100, [{}])


def test_what_cannot_be_decided_counts_as_unsafe():
    rng = np.random.default_rng(2)
    rows = [dict(enumerate(rng.uniform(0.1, 1, 60))) for _ in range(8)]
    assert fewest_clients(rows) == 0
    assert reveals_fewer_than(1, rows)


# --- time -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [5, 50, 2500])
def test_five_thousand_clients_in_disjoint_sums_are_fast(size):
    rows = [ones(range(k, k + size), a=k + 0.5) for k in range(0, 5000, size)]
    start = perf_counter()
    assert fewest_clients(rows) == size
    assert perf_counter() - start < 3


def test_five_thousand_clients_in_a_few_overlapping_sums_are_fast():
    rows = [ones(range(5000)), ones(range(2500)), ones(range(0, 5000, 2))]
    start = perf_counter()
    assert fewest_clients(rows) == 2500  # four kinds of clients, 1250 of each; a combination cancels two kinds
    assert perf_counter() - start < 3


@pytest.mark.parametrize(("sums", "clients"), [(2, 2000), (3, 100), (4, 40)])
def test_overlapping_sums_with_all_weights_different_are_decided_in_time(sums, clients):
    """Powers of the client's number are weights in general position, so k sums cancel k - 1 clients and no more."""
    rows = [{i: float(i + 1) ** k for i in range(clients)} for k in range(sums)]
    start = perf_counter()
    assert fewest_clients(rows) == clients - (sums - 1)
    assert perf_counter() - start < 8
