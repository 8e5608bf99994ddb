"""Distances of embeddings: closed forms in one dimension, POT's own solver on POT's own costs, and what must be refused."""

from math import sqrt

import numpy as np
import ot
import pytest
from numpy.typing import NDArray
from scipy.stats import wasserstein_distance

from cloister.fl.emd.distances import Cosine, Distance, Euclidean, ExactEmd, Ground, MeanDistance, Sinkhorn, transport

Array = NDArray[np.float64]
DISTANCES: list[Distance] = [
    ExactEmd(),
    ExactEmd(Euclidean()),
    Sinkhorn(0.1),
    Sinkhorn(0.1, Euclidean()),
    MeanDistance(),
    MeanDistance(Euclidean()),
]


def clouds(seed: int, n: int, m: int, d: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return np.maximum(rng.standard_normal((n, d)) + 0.5, 0), np.maximum(rng.standard_normal((m, d)) + rng.standard_normal(d), 0)


@pytest.mark.parametrize(("n", "m"), [(40, 40), (31, 17), (1, 9)])
def test_one_dimension_is_the_area_between_the_distribution_functions(n: int, m: int) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(n), rng.standard_normal(m) * 2 + 1
    assert ExactEmd(Euclidean())(x[:, None], y[:, None]) == pytest.approx(wasserstein_distance(x, y), rel=1e-10)


def test_cosine_in_one_dimension_is_a_difference_of_signs() -> None:
    x, y = np.array([[3.0], [0.1], [-2.0], [5.0]]), np.array([[-1.0], [1.0]])
    assert ExactEmd()(x, y) == pytest.approx(2 * 0.25)  # a quarter of the mass changes its sign, at a cost of 2


def test_angles_on_a_quarter_circle_move_in_order() -> None:
    rng = np.random.default_rng(1)
    x, y = np.sort(rng.uniform(0, np.pi / 2, 30)), np.sort(rng.uniform(0, np.pi / 2, 30))
    on_circle = [np.stack([np.cos(angles), np.sin(angles)], axis=1) * rng.uniform(0.1, 9, (30, 1)) for angles in (x, y)]
    # 1 - cos is convex up to a right angle, so the monotone matching is optimal
    assert ExactEmd()(*on_circle) == pytest.approx(float((1 - np.cos(x - y)).mean()), rel=1e-10)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("ground", "metric"), [(Cosine(), "cosine"), (Euclidean(), "euclidean")])
def test_equals_pot_on_its_own_costs(ground: Ground, metric: str, seed: int) -> None:
    x, y = clouds(seed, 60, 45 + seed, 12)
    costs = ot.dist(x, y, metric=metric)
    weights = [np.full(count, 1 / count) for count in costs.shape]
    assert ExactEmd(ground)(x, y) == pytest.approx(float(ot.emd2(*weights, costs)), rel=1e-9)
    assert Sinkhorn(0.1, ground)(x, y) == pytest.approx(float(ot.sinkhorn2(*weights, costs, 0.1)), rel=1e-6)
    x32, y32 = x.astype(np.float32), y.astype(np.float32)
    assert ExactEmd(ground)(x32, y32) == pytest.approx(ExactEmd(ground)(x, y), rel=1e-5)


@pytest.mark.long
def test_sinkhorn_tends_to_the_exact_distance_from_above() -> None:
    x, y = clouds(7, 30, 30, 6)
    exact = ExactEmd()(x, y)
    found = [Sinkhorn(regularisation, iterations=3000)(x, y) for regularisation in (1.0, 0.1, 0.02, 0.005)]
    assert found == sorted(found, reverse=True)
    assert exact - 1e-7 <= found[-1] < exact * 1.02 < found[1]


@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
def test_order_of_embeddings_and_of_samples_does_not_matter(distance: Distance) -> None:
    x, y = clouds(3, 20, 14, 5)
    rng = np.random.default_rng(0)
    value = distance(x, y)
    assert value >= 0
    assert distance(rng.permutation(x), rng.permutation(y)) == pytest.approx(value, rel=1e-6)
    assert distance(y, x) == pytest.approx(value, rel=1e-6)


def test_a_shift_moves_everything_by_its_length() -> None:
    x, _ = clouds(5, 25, 1, 4)
    shift = np.array([3.0, 0.0, -4.0, 0.0])
    for distance in (ExactEmd(Euclidean()), MeanDistance(Euclidean())):
        assert distance(x, x + shift) == pytest.approx(5.0, rel=1e-9)
    assert ExactEmd(Euclidean())(x, x) == 0


def test_cosine_sees_directions_only_and_euclid_scales() -> None:
    x, y = clouds(6, 25, 25, 4)
    stretch = np.random.default_rng(0).uniform(0.01, 100, (25, 1))
    assert ExactEmd()(x * stretch, y * 1e-250) == pytest.approx(ExactEmd()(x, y), rel=1e-9)
    assert ExactEmd()(x * 1e200, y) == pytest.approx(ExactEmd()(x, y), rel=1e-9)
    for factor in (7.0, 1e-20, 1e12):  # the solver alone would fail at 1e-20, where its tolerance is absolute
        assert ExactEmd(Euclidean())(factor * x, factor * y) == pytest.approx(factor * ExactEmd(Euclidean())(x, y), rel=1e-9)


def test_zero_embeddings_are_a_direction_of_their_own() -> None:
    zero, rest = np.zeros((3, 2)), np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]])
    assert ExactEmd()(zero, zero) == 0
    assert ExactEmd()(zero, rest) == 1
    mixed = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 3.0]])
    assert ExactEmd()(mixed, rest) == pytest.approx(1 / 3)
    assert np.isfinite([distance(mixed, zero) for distance in DISTANCES]).all()
    assert MeanDistance()(zero, rest) == 1


def test_euclidean_costs_lose_no_digits_far_from_the_origin() -> None:
    x, y = clouds(8, 30, 30, 5)
    far = np.full(5, 1e6)
    plain, moved = (Euclidean().cost(Euclidean().points(x + by), Euclidean().points(y + by)) for by in (0 * far, far))
    np.testing.assert_allclose(moved, plain, rtol=1e-8)
    twin = np.concatenate([x, y])
    assert (np.diagonal(Euclidean().cost(twin, twin)) == 0).all()
    direct = np.sqrt(((x[:, None] - y[None]) ** 2).sum(axis=2))
    np.testing.assert_allclose(plain, direct, rtol=1e-11)


@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_raises(distance: Distance, bad: float) -> None:
    x, y = clouds(9, 5, 5, 3)
    y[2, 1] = bad
    with pytest.raises(ValueError, match="not finite"):
        distance(x, y)


def test_a_nan_cost_raises_where_the_solver_would_say_identical() -> None:
    costs = np.ones((3, 3))
    costs[1, 2] = np.nan
    with pytest.raises(ValueError, match="finite"):
        transport(costs)
    with pytest.raises(ValueError, match="not finite"), np.errstate(over="ignore", invalid="ignore"):
        ExactEmd(Euclidean())(np.full((2, 2), 1e200), np.full((2, 2), -1e200))


@pytest.mark.parametrize("shapes", [((3, 2), (3, 3)), ((0, 2), (3, 2)), ((3,), (3,)), ((3, 0), (3, 0))])
def test_wrong_shapes_raise(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match="shape"):
        ExactEmd()(np.ones(shapes[0]), np.ones(shapes[1]))


def test_means_are_compared_by_the_ground_cost() -> None:
    x, y = np.array([[1.0, 0.0], [3.0, 0.0]]), np.array([[0.0, 2.0], [4.0, 2.0]])
    assert MeanDistance(Euclidean())(x, y) == pytest.approx(2.0)
    assert MeanDistance()(x, y) == pytest.approx(1 - 1 / sqrt(2))


def test_sinkhorn_refuses_no_regularisation() -> None:
    with pytest.raises(ValueError, match="above 0"):
        Sinkhorn(0.0)
