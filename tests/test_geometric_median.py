"""The geometric median: it is where the unit vectors balance, and a minority moves it no further than its bound says."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import sqrt

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.data.partition import Iid
from cloister.fl.robust.aggregate import aggregate
from cloister.fl.robust.rule import Matrix
from cloister.fl.robust.weiszfeld import RFA, GeometricMedian, distances_from
from cloister.fl.runs.simulation import Simulation
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.membership import Fixed
from cloister.threat_models.simple_attacks import MinusGradient

from .coalition_sample import SMALL

Array = NDArray[np.float64]
Shape = Callable[[np.random.Generator, int, int], Array]
N = 20
STRENGTHS = [1.0, 10.0, 1e3, 1e6, 1e9, 1e12]


def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def weights_of(x: Array) -> Matrix:
    """The rule's, which are a convex combination's."""
    weights = GeometricMedian().weights(x @ x.T, rng())
    assert weights.sum() == pytest.approx(1)
    assert weights.min() >= 0
    return weights


def imbalance(x: Array, z: Array) -> float:
    """How much longer the sum of unit vectors from z is than rows in z itself can balance, by the number of rows."""
    away = x - z
    length = np.linalg.norm(away, axis=1)
    here = length <= 1e-9 * np.linalg.norm(x, axis=1)
    force = np.linalg.norm((away[~here] / length[~here, None]).sum(axis=0))
    return float(force - np.count_nonzero(here)) / len(x)


SHAPES: dict[str, Shape] = {
    "gaussian": lambda draw, n, d: draw.standard_normal((n, d)),
    "about a common part": lambda draw, n, d: draw.standard_normal((n, d)) + 100,
    "a grid with many in one place": lambda draw, n, d: draw.integers(0, 3, (n, d)).astype(float),
    "lengths over twelve decades": lambda draw, n, d: draw.standard_normal((n, d)) * 10.0 ** draw.uniform(-6, 6, (n, 1)),
    "heavy tails": lambda draw, n, d: draw.standard_t(1, (n, d)),
    "on a line": lambda draw, n, d: draw.standard_normal((n, 1)) * np.ones((1, d)),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 24), d=st.integers(1, 40))
@example(seed=282, n=5, d=8)  # two that a thousand steps left .001 and .002 away
@example(seed=137, n=9, d=12)
@settings(max_examples=60)
def test_the_unit_vectors_balance(shape: Shape, seed: int, n: int, d: int) -> None:
    """Where the median all but lies on one of the inputs the steps end first, still close; elsewhere at the tolerance."""
    x = shape(np.random.default_rng(seed), n, d)
    assert imbalance(x, weights_of(x) @ x) <= 2e-4


def test_at_ordinary_updates_it_ends_at_its_tolerance_and_three_steps_do_not() -> None:
    for seed in range(10):
        x = np.random.default_rng(seed).standard_normal((N, 300))
        x[:8] -= 1.0
        assert imbalance(x, weights_of(x) @ x) <= 1.1e-7
        assert imbalance(x, RFA().weights(x @ x.T, rng()) @ x) > 1e-4


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([[3.0, 1.0]], [3, 1]),
        ([[3.0, 1.0], [5.0, -1.0]], [4, 0]),  # every point between them is one: the middle
        ([[1.0, 2.0]] * 4, [1, 2]),
        ([[0.0, 0.0], [1.0, 0.0], [10.0, 0.0]], [1, 0]),
        ([[0.0], [1.0], [3.0], [1e6]], [2]),  # as the median of four numbers
        ([[1.0, 2.0]] * 3 + [[50.0, 0.0], [0.0, -70.0]], [1, 2]),
        ([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [9.0, 4.0]], [1, 0]),
        ([[1.0, 0.0], [-0.5, sqrt(3) / 2], [-0.5, -sqrt(3) / 2]], [0, 0]),  # Fermat's point
        ([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [0.0, 0.0]], [0, 0]),
        ([[10.0, 1.0], [10.0, -1.0], [0.0, 0.0]], [10 - 1 / sqrt(3), 0]),  # seen from there, 120 degrees apart
        ([[1.0, 0.1], [1.0, -0.1], [0.0, 0.0], [-1e7, 0.0]], [0, 0]),  # the crossing of a quadrangle's diagonals, or a corner
    ],
)
def test_known_medians(x: list[list[float]], expected: list[float]) -> None:
    rows = np.array(x)
    for shift in (0.0, 3.0):
        np.testing.assert_allclose(weights_of(rows + shift) @ rows, expected, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e12])
def test_no_unit_of_the_updates_matters(scale: float) -> None:
    x = np.random.default_rng(0).standard_normal((N, 40))
    x[:3] *= 1e4
    np.testing.assert_allclose(weights_of(scale * x), weights_of(x), rtol=1e-6)


def clean(seed: int, f: int) -> NDArray[np.float32]:
    return (np.random.default_rng(seed).standard_normal((N - f, 500)) * 0.3 + 1).astype(np.float32)


def attackers(kind: str, honest: NDArray[np.float32], f: int, strength: float) -> NDArray[np.float32]:
    draw = np.random.default_rng(f)
    pattern = {
        "opposite": -honest[:f],
        "one vector": np.tile(-honest.mean(axis=0), (f, 1)),
        "apart": draw.standard_normal((f, honest.shape[1])),
        "sideways": np.tile(honest[0] - honest.mean(axis=0), (f, 1)),
    }[kind]
    return (strength * pattern).astype(np.float32)


@pytest.mark.parametrize("f", [1, 4, 9])
@pytest.mark.parametrize("kind", ["opposite", "one vector", "apart", "sideways"])
def test_a_minority_moves_it_by_no_more_than_its_bound_however_long_its_updates(kind: str, f: int) -> None:
    """From the median of the others: r (n - f) / sqrt(n (n - 2 f)) by the largest distance, 2 / (n - 2 f) times their sum."""
    honest = clean(f, f)
    middle = aggregate(GeometricMedian(), honest, rng()).vector
    away = np.linalg.norm(honest - middle, axis=1)
    bound = min(away.max() * (N - f) / sqrt(N * (N - 2 * f)), 2 * away.sum() / (N - 2 * f))
    moved = []
    for strength in STRENGTHS:
        rows = np.concatenate([attackers(kind, honest, f, strength), honest])
        found = aggregate(GeometricMedian(), rows, rng())
        assert found.rejected == ()
        assert imbalance(rows.astype(np.float64), found.vector.astype(np.float64)) <= 1e-5  # inner products are float32's
        moved.append(float(np.linalg.norm(found.vector - middle)))
    assert max(moved) <= bound
    assert moved[-1] == pytest.approx(moved[-2], rel=1e-3)  # from some length on direction alone counts


def test_three_steps_from_the_mean_follow_one_update_as_far_as_it_goes() -> None:
    honest = clean(0, 1)
    rows = [np.concatenate([attackers("opposite", honest, 1, s), honest]) for s in (1e6, 1e9)]
    near, far = (float(np.linalg.norm(aggregate(RFA(), x, rng()).vector)) for x in rows)
    assert far > 100 * near
    assert far > 1e3 * np.linalg.norm(honest, axis=1).max()


@dataclass(frozen=True)
class Watched:
    """The geometric median, and what it was given."""

    seen: list[Matrix] = field(default_factory=list)
    sees = GeometricMedian.sees
    shift_invariant = True

    def weights(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        self.seen.append(gram)
        return GeometricMedian().weights(gram, rng)


@pytest.mark.trains
def test_one_of_twenty_clients_moves_the_model_by_no_more_than_the_bound() -> None:
    watched = Watched()
    scenario = replace(SMALL, partition=Iid(clients=N, samples=30), algorithm=RobustFedAvg(rule=watched))

    def after_a_round(adversary: Adversary | None, rule: object) -> Array:
        simulation = Simulation(replace(scenario, adversary=adversary, algorithm=RobustFedAvg(rule=rule)), None)
        simulation.step()
        (model, *_) = simulation.vectors().values()
        return model.astype(np.float64)

    free = after_a_round(None, watched)
    (gram,) = watched.seen
    away = distances_from(gram, GeometricMedian().weights(gram, rng()))
    bound = float(np.delete(away, 3).max()) * (N - 1) / sqrt(N * (N - 2))
    for strength in STRENGTHS:
        attack = Adversary(members=Fixed((3,)), upload=MinusGradient(strength))
        assert np.linalg.norm(after_a_round(attack, GeometricMedian()) - free) <= bound
    assert np.linalg.norm(after_a_round(attack, RFA()) - free) > 1e6 * bound
