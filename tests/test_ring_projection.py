"""The ring projection: exact and linear on shares, bounded always, unbiased with the variance that its module proves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.crypto.additive import reveal, share
from cloister.crypto.prg import derive_key
from cloister.crypto.ring_projection import REPEATS, RingProjection, growth, relative_deviation

KEY = bytes(range(32))
sizes = st.tuples(st.integers(1, 20), st.integers(0, 150)).map(lambda s: (2 * s[0] + s[1], 2 * s[0]))


def key(n):
    return derive_key(KEY, "test", n.to_bytes(4, "big"))


def applied(projection, values):
    return projection.apply(np.asarray(values, np.int64).view(np.uint64)).view(np.int64)


def matrix(projection):
    """The projection as an integer matrix, (width, length), from its definition."""
    repeats, fold, blocks = projection.order.shape
    dense = np.zeros((repeats * blocks, projection.length), np.int64)
    signs = projection.signs.view(np.int64)
    for repeat in range(repeats):
        for place in range(fold):
            for block in range(blocks):
                dense[repeat * blocks + block, projection.order[repeat, place, block]] += signs[repeat, place, block]
    return dense


def estimates(x, y, width, draws):
    found = []
    for n in range(draws):
        projection = RingProjection.draw(key(n), len(x), width)
        found.append(applied(projection, x) @ applied(projection, y) / REPEATS)
    return np.array(found, np.float64)


@given(sizes, st.integers(0, 100))
@settings(max_examples=40)
def test_every_coordinate_is_in_one_block_of_each_repeat_under_a_sign(size, n):
    length, width = size
    projection = RingProjection.draw(key(n), length, width)
    dense = matrix(projection)
    halves = dense.reshape(REPEATS, width // REPEATS, length)
    assert (np.abs(halves).sum(axis=1) == 1).all()
    assert np.abs(halves).sum(axis=2).max() <= growth(length, width) // REPEATS
    values = np.random.default_rng(n).integers(-1000, 1000, length)
    assert np.array_equal(applied(projection, values), dense @ values)


@given(sizes, st.integers(0, 100))
@settings(max_examples=40)
def test_projected_shares_are_shares_of_the_projected_vector(size, n):
    length, width = size
    values = np.random.default_rng(n).integers(-(2**30), 2**30, length)
    one, other = share(values, 2**30, key(n))
    projection = RingProjection.draw(key(n + 1), length, width)
    projected = [type(s)(s.party, projection.apply(s.values)) for s in (one, other)]
    assert np.array_equal(reveal(*projected), applied(projection, values))


@given(sizes, st.integers(0, 100))
@settings(max_examples=40)
def test_norms_never_grow_by_more_than_the_bound_and_the_worst_vector_reaches_half_of_it(size, n):
    length, width = size
    projection = RingProjection.draw(key(n), length, width)
    dense = matrix(projection)
    assert np.linalg.norm(dense, 2) ** 2 <= growth(length, width) + 1e-9
    fullest = dense[np.argmax(np.abs(dense).sum(axis=1))]  # the signs of one block: its sum is as long as can be
    y = applied(projection, fullest)
    assert growth(length, width) / REPEATS * (fullest @ fullest) <= y @ y <= growth(length, width) * (fullest @ fullest)


def vectors(length):
    rng = np.random.default_rng(0)
    dense = rng.integers(-1000, 1001, length)
    sparse = np.where(rng.random(length) < 0.02, dense, 0)
    concentrated = dense.copy()
    concentrated[:3] = 100_000
    pair = np.zeros(length, np.int64)
    pair[[3, length - 1]] = 1000
    one = np.zeros(length, np.int64)
    one[5] = 1000
    return {"dense": dense, "sparse": sparse, "concentrated": concentrated, "two": pair, "one": one, "ones": np.ones(length, int)}


@pytest.mark.parametrize("name", vectors(50))
@pytest.mark.parametrize("width", [16, pytest.param(64, marks=pytest.mark.slow)])
@pytest.mark.long
def test_inner_products_are_unbiased_and_their_variance_is_within_the_bound(name, width):
    length, draws = 300, 1500
    x = vectors(length)[name]
    other = vectors(length)["dense"]
    for y in (x, other):
        scale = np.linalg.norm(x) * np.linalg.norm(y)
        found = estimates(x, y, width, draws) / scale
        bound = relative_deviation(width)
        exact = np.sqrt((1 + (x @ y / scale) ** 2) / width)
        assert exact <= bound + 1e-12
        assert abs(found.mean() - x @ y / scale) < 5 * bound / np.sqrt(draws)
        assert found.std() < 1.15 * exact


@pytest.mark.long
def test_the_variance_of_a_spread_vector_reaches_the_bound_and_a_wider_projection_halves_it():
    ones = np.ones(2000, np.int64)
    deviations = [estimates(ones, ones, width, 800).std() / 2000 for width in (16, 32, 64)]
    for found, width in zip(deviations, (16, 32, 64), strict=True):
        assert 0.85 * relative_deviation(width) < found < 1.1 * relative_deviation(width)


@pytest.mark.long
def test_one_coordinate_is_exact_and_two_that_cancel_do_so_as_seldom_as_is_said():
    x = vectors(64)["two"]
    m, draws = 8 // REPEATS, 4000
    norms = estimates(x, x, 8, draws) / (x @ x)
    assert set(norms) <= {0.0, 0.5, 1.0, 1.5, 2.0}
    meet = (64 // m - 1) / (64 - 1)  # both in one block
    hidden = (meet / 2) ** 2
    assert abs(np.mean(norms == 0) - hidden) < 5 * np.sqrt(hidden / draws)
    one = vectors(64)["one"]
    assert set(estimates(one, one, 8, 50)) == {1000.0**2}


def test_another_key_draws_another_projection_and_the_same_key_the_same():
    draw = [RingProjection.draw(key(n), 40, 8) for n in (0, 0, 1)]
    assert np.array_equal(draw[0].order, draw[1].order)
    assert np.array_equal(draw[0].signs, draw[1].signs)
    assert not np.array_equal(draw[0].order, draw[2].order)
    assert not np.array_equal(draw[0].order[0], draw[0].order[1])


@pytest.mark.parametrize(("length", "width"), [(10, 0), (10, 3), (10, 12), (10, -2)])
def test_sizes_that_cannot_be_are_refused(length, width):
    with pytest.raises(ValueError, match="even number"):
        RingProjection.draw(KEY, length, width)


def test_only_ring_vectors_of_the_right_length_are_projected():
    projection = RingProjection.draw(KEY, 10, 4)
    for values in (np.zeros(9, np.uint64), np.zeros(10, np.int64), np.zeros((1, 10), np.uint64)):
        with pytest.raises(ValueError, match="10 uint64"):
            projection.apply(values)
