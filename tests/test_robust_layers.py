"""LASA: known answers, what it is without its filters, a poison in one layer, and where it can be played."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from torch import nn

from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Iid
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.models.vector import dimension
from cloister.fl.robust.aggregate import aggregate
from cloister.fl.robust.layers import LASA, sizes_of
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked, Plain

RNG = np.random.default_rng


def combined(rule: LASA, rows: Any) -> NDArray[np.float32]:
    return aggregate(rule, np.asarray(rows, dtype=np.float32), RNG(0)).vector


def updates(n: int = 9, d: int = 60, seed: int = 0) -> NDArray[np.float32]:
    draw = RNG(seed)
    return (draw.standard_normal((n, d)) * 0.3 + draw.standard_normal(d)).astype(np.float32)


def test_a_known_answer() -> None:
    """Norms 5, 5, 5 and 10: the last is halved. Half of each becomes 0: (0, 4), (0, 4), (0, 4), (0, -4). Signs tell the last."""
    rows = [[3, 4], [3, 4], [3, 4], [6, -8]]
    np.testing.assert_allclose(combined(LASA((2,), sparsity=0.5), rows), [0, 4], atol=1e-6)
    np.testing.assert_allclose(combined(LASA((2,), sparsity=0.5, signs=3.0), rows), [0, 2], atol=1e-6)


def test_without_filters_it_is_the_mean_of_updates_clipped_to_the_median_norm() -> None:
    x = updates()
    x[3] *= 50
    norms = np.linalg.norm(x, axis=1)
    clipped = x * np.minimum(1, np.median(norms) / norms)[:, None]
    found = combined(LASA((50, 10), sparsity=0.0, norms=1e9, signs=1e9), x)
    np.testing.assert_allclose(found, clipped.mean(axis=0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_what_a_plain_reading_of_its_algorithm_gives(seed: int) -> None:
    x, sizes, sparsity = updates(seed=seed), (30, 20, 10), 0.3
    x[0] *= -1
    x[1, 30:] *= 9
    clipped = [row * min(1.0, float(np.median(np.linalg.norm(x, axis=1)) / np.linalg.norm(row))) for row in x]
    sparse = [np.where(np.abs(row) > np.sort(np.abs(row))[int(sparsity * len(row)) - 1], row, 0) for row in clipped]
    expected, start = [], 0
    for size in sizes:
        part = np.stack(sparse)[:, start : start + size]
        norm = np.linalg.norm(part, axis=1)
        purity = np.array([0.5 * (1 + np.sign(row).sum() / np.abs(np.sign(row)).sum()) for row in part])
        scores = [np.abs(v - np.median(v)) / np.std(v) for v in (norm, purity)]
        kept = [i for i in range(len(x)) if scores[0][i] < 2 and scores[1][i] < 1] or list(range(len(x)))
        expected.append(part[kept].mean(axis=0))
        start += size
    np.testing.assert_allclose(combined(LASA(sizes, sparsity), x), np.concatenate(expected), rtol=1e-4, atol=1e-6)


def test_who_poisons_one_layer_is_out_of_this_layer_alone() -> None:
    layer = np.where(RNG(1).random((10, 40)) < 0.9, 1.0, -1.0)
    x = np.concatenate([layer, RNG(2).standard_normal((10, 40))], axis=1)
    x[0, :40] *= -1
    rule = LASA((40, 40), sparsity=0.0, signs=2.0)
    assert rule.benign(x[:, :40].astype(np.float32)).tolist() == [False] + [True] * 9
    assert rule.benign(x[:, 40:].astype(np.float32))[0]


def test_a_layer_in_which_all_are_zero_or_all_alike_loses_nobody() -> None:
    rule = LASA((3,))
    assert rule.benign(np.zeros((4, 3), np.float32)).all()
    assert rule.benign(np.ones((4, 3), np.float32)).all()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"layers": ()}, "sizes_of"),
        ({"layers": (3, 0)}, "at least 1"),
        ({"layers": (3,), "sparsity": 1.0}, "sparsity"),
        ({"layers": (3,), "norms": 0.0}, "norms must be above 0"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        LASA(**changes)


def test_layers_of_another_model_are_refused() -> None:
    with pytest.raises(ValueError, match="5 numbers together, and an update has 60"):
        combined(LASA((2, 3)), updates())


def test_sizes_are_those_of_the_vector() -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    assert sizes_of(module) == (12, 3, 3, 3, 6, 2)
    assert sum(sizes_of(module)) == dimension(module)


def test_a_server_that_sees_updates_can_play_it_and_no_other() -> None:
    def scenario(protection: Any) -> Scenario:
        return Scenario(
            name="LASA",
            data=Digits(),
            partition=Iid(clients=4),
            model=Mlp(hidden=(8,)),
            training=Training(epochs=1, batch=50, lr=0.1),
            algorithm=RobustFedAvg(rule=LASA((512, 8, 80, 10))),
            protection=protection,
            rounds=1,
        )

    assert scenario(Plain()).algorithm.needs
    with pytest.raises(ValueError, match="RobustFedAvg needs coordinates"):
        scenario(Masked())
