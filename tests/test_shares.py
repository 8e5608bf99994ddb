"""How much an update counts: lengths, likeness, and updates against the others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.fl.algorithms.hardened.shares import (
    EARLY,
    GROWTH,
    MANY,
    SHORT,
    USUAL,
    against,
    counted,
    enough,
    in_line,
    lengthened,
    of_their_own,
    rests_on,
    shortened,
)


@settings(max_examples=50)
@given(
    st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=12),
    st.lists(st.floats(1e-6, 1e6), max_size=12),
    st.one_of(st.none(), st.floats(1e-3, 1e3)),
)
def test_no_update_is_longer_than_the_limit_and_none_is_left_out(
    values: list[float], elsewhere: list[float], usual: float | None
) -> None:
    norms = np.array(values)
    factors = shortened(norms, 1.5, elsewhere, usual)
    limit = 1.5 * np.median([*values, *elsewhere])
    limit = limit if usual is None else min(limit, USUAL * usual)
    assert (factors > 0).all()
    assert (factors * norms <= limit * (1 + 1e-9)).all()
    least = SHORT * np.median([*values, *elsewhere])
    np.testing.assert_allclose(factors[(norms <= limit) & (norms >= least)], 1.0)
    np.testing.assert_allclose(factors[norms < least], np.minimum(1, limit / norms[norms < least]) * norms[norms < least] / least)
    early = shortened(norms, 1.5, elsewhere, all_drawn=False)
    assert (early * norms <= 1.5 * EARLY * min(*values, *elsewhere, np.inf) * (1 + 1e-9)).all()


def test_who_is_most_of_a_session_and_less_than_half_of_a_part_shortens_nobody() -> None:
    """Three of five that are drawn send next to nothing: by the five alone the others would be shortened to that."""
    norms = np.array([1e-6, 1e-6, 1e-6, 1.0, 1.1])
    assert shortened(norms, 1.5)[3] < 2e-6
    factors = shortened(norms, 1.5, [1.0] * 9 + [1e-6] * 6, 1.0)
    assert (factors[3:] == 1).all()
    assert (factors[:3] < 1e-5).all()  # nor do they count in the divisor


def test_what_is_usual_for_a_client_falls_at_once_and_grows_slowly() -> None:
    before = {0: 1.0, 1: 1.0, 5: 3.0}
    assert lengthened(before, (0, 1, 2), np.array([5.0, 0.2, 7.0])) == {0: GROWTH, 1: 0.2, 2: 7.0, 5: 3.0}


def test_updates_of_zero_count_for_nothing_in_the_median_and_in_the_sum() -> None:
    assert shortened(np.array([0.0, 0.0, 0.0, 2.0]), 1.5).tolist() == [0, 0, 0, 1]
    assert not shortened(np.zeros(3), 1.5).any()
    assert counted((4, 5, 6), np.array([0.5, 0.0, 1.0])) == {4: 0.5, 6: 1.0}


@pytest.mark.parametrize("copies", [2, 5, 12])
def test_copies_count_as_about_one(copies: int) -> None:
    centred = np.zeros((20, 20))
    centred[:copies, :copies] = 1.0
    np.fill_diagonal(centred, 0.0)
    weights = of_their_own(centred)
    assert weights[:copies].sum() == pytest.approx(copies / (1 + 0.9 * (copies - 1)))
    assert (weights[copies:] == 1).all()
    assert (of_their_own(np.full((6, 6), 0.1)) == 1).all()  # as alike as chance


def test_against_is_a_mean_below_zero_by_more_than_its_error_of_four_or_more() -> None:
    cosines = np.full((5, 5), 0.3)
    cosines[2] = cosines[:, 2] = [-0.2, -0.3, 1.0, -0.2, -0.3]
    assert against(cosines) == [2]
    assert against(cosines[:3, :3]) == []
    noisy = np.full((5, 5), 0.3)
    noisy[2] = noisy[:, 2] = [-0.9, 0.8, 1.0, -0.9, 0.8]
    assert against(noisy) == []


@settings(max_examples=50)
@given(st.integers(1, 12), st.integers(0, 2**16), st.floats(0.1, 10))
def test_weights_of_who_is_in_line_are_fair_whatever_the_order_and_the_scale(n: int, seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((n, 6)) + 2 * rng.random()
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = vectors @ vectors.T
    weights, order = in_line(cosines), rng.permutation(n)
    assert weights.shape == (n,)
    assert ((weights >= 0) & (weights <= 1)).all()
    np.testing.assert_allclose(in_line(cosines[np.ix_(order, order)]), weights[order], atol=1e-9)
    np.testing.assert_allclose(in_line(scale * cosines), weights, atol=1e-9)
    assert (weights == 1).sum() >= n / 4  # whoever goes the others' way as much as the upper quartile counts in full


def test_who_is_orthogonal_to_what_the_others_share_counts_for_little() -> None:
    """Nine of twenty, whose cosines to others are small and alike."""
    cosines = np.full((20, 20), 0.4)
    cosines[11:], cosines[:, 11:] = 0.02, 0.02
    weights = in_line(cosines)
    assert (weights[:11] == 1).all()
    assert (weights[11:] < 0.1).all()


def test_who_leans_to_what_the_others_share_counts_as_much_as_it_does() -> None:
    cosines = np.full((20, 20), 0.4)
    cosines[11:, :11], cosines[:11, 11:] = 0.2, 0.2
    cosines[11:, 11:] = 0.0
    leaning, loyal = 11 * 0.2 / 19, (10 * 0.4 + 9 * 0.2) / 19
    np.testing.assert_allclose(in_line(cosines)[11:], leaning / loyal)


def test_a_few_clients_or_a_part_that_goes_no_way_are_not_weighed() -> None:
    for n, weighed in ((3, 0), (MANY - 1, 0), (MANY, 1)):
        cosines = np.full((n, n), 0.9)
        cosines[0], cosines[:, 0] = 0.0, 0.0
        assert (in_line(cosines) < 1).sum() == weighed
    assert (in_line(np.eye(6)) == 1).all()
    assert (in_line(np.eye(6) - 0.1) == 1).all()


def test_weights_are_those_that_leave_enough_for_the_floor_or_the_last() -> None:
    unlike, alike, few = np.array([1.0, 0.2, 0.2, 0.2]), np.array([1.0, 0.9, 0.9, 0.9]), np.array([1.0, 0.0, 0.0, 0.0])
    assert enough([unlike, alike], 1) is unlike
    assert enough([unlike, alike], 3) is alike
    assert enough([unlike, alike, few], 4) is few


def test_a_sum_rests_on_as_many_as_its_weights_hide() -> None:
    assert rests_on(np.full(5, 0.3)) == pytest.approx(5)
    assert rests_on(np.array([1.0, 0.0, 0.0])) == 1
    assert rests_on(np.array([1.0, 0.5, 0.5])) == pytest.approx(1.5)
    assert rests_on(np.zeros(3)) == 0
