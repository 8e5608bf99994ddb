"""A property of a client's data, and its cluster, from its update."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from cloister.fl.clients.record_privacy import RecordPrivacy
from cloister.fl.clients.training import Training
from cloister.fl.data.population import Examples
from cloister.fl.data.rotation import rotate
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp, initial
from cloister.fl.models.vector import to_vector
from cloister.threat_models.inference.membership_scores import auc
from cloister.threat_models.inference.property_inference import learned, with_share
from cloister.threat_models.inference.shadow_models import shadow_updates

TRAINING = Training(epochs=3, batch=10, lr=0.1)
SWAPS = ((1, 7), (3, 8), (4, 9))
SIZE = 60


def rotated(pool: Examples, client: int, rng: np.random.Generator) -> Examples:
    """More than half of the images of odd clients are turned by a quarter, fewer of even ones."""
    share = rng.uniform(0.55, 1.0) if client % 2 else rng.uniform(0.0, 0.45)
    some = pool.take(torch.from_numpy(rng.choice(len(pool), SIZE, replace=False)))
    count = round(SIZE * share)
    return Examples(torch.cat([rotate(some.x[:count], 90), some.x[count:]]), some.y)


def many_threes(pool: Examples, client: int, rng: np.random.Generator) -> Examples:
    share = rng.uniform(0.15, 0.24) if client % 2 else rng.uniform(0.03, 0.12)
    return with_share(pool, pool.y.numpy() == 3, share, SIZE, rng)


def swapped(pool: Examples, client: int, rng: np.random.Generator) -> Examples:
    table = torch.arange(10)
    table[list(SWAPS[client % 3])] = table[list(reversed(SWAPS[client % 3]))]
    some = pool.take(torch.from_numpy(rng.choice(len(pool), SIZE, replace=False)))
    return Examples(some.x, table[some.y])


def both_sides(make: object, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Updates of 90 shadow clients on one half of the data and of 60 clients on the other."""
    source, rng = Digits()(None), np.random.default_rng(seed)
    order = torch.from_numpy(rng.permutation(len(source.train)))
    module = initial(Mlp((64,)), source.shape, 10, seed)
    start, half = to_vector(module), len(order) // 2
    assert callable(make)
    parts = [[make(source.train.take(side), i, rng) for i in range(n)] for side, n in ((order[:half], 90), (order[half:], 60))]
    shadow, victims = (shadow_updates(module, start, part, TRAINING, rng) for part in parts)
    return shadow, victims


@pytest.mark.trains
@pytest.mark.parametrize("make", [rotated, many_threes])
@pytest.mark.parametrize("seed", range(2))
def test_a_property_is_read_from_an_update(make: object, seed: int) -> None:
    shadow, victims = both_sides(make, seed)
    found = learned(shadow, np.arange(len(shadow)) % 2)
    truth = np.arange(len(victims)) % 2
    assert auc(found.scores(victims), truth == 1) > 0.85
    assert (found.guess(victims) == truth).mean() > 0.75


@pytest.mark.trains
def test_the_cluster_is_read_from_an_update() -> None:
    shadow, victims = both_sides(swapped, 0)
    found = learned(shadow, np.arange(len(shadow)) % 3)
    assert found.scores(victims).shape == (60, 3)
    assert (found.guess(victims) == np.arange(len(victims)) % 3).mean() > 0.9


def test_what_never_differs_counts_nothing_and_one_class_is_refused() -> None:
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.standard_normal((40, 1)), np.full((40, 1), 5.0)], axis=1).astype(np.float32)
    classes = (rows[:, 0] > 0).astype(np.int64) * 4
    found = learned(rows, classes, 0.01)
    far = np.array([[2.0, -1e6], [-2.0, 1e6]], np.float32)
    assert found.guess(far).tolist() == [4, 0]
    with pytest.raises(ValueError, match="with it and without"):
        learned(rows, np.zeros(40, np.int64))


def test_shares_are_kept() -> None:
    train = Digits()(None).train
    some = with_share(train, train.y.numpy() == 3, 0.25, 80, np.random.default_rng(0))
    assert int((some.y == 3).sum()) == 20
    assert len(some) == 80
    with pytest.raises(ValueError, match="examples are asked of"):
        with_share(train, train.y.numpy() == 3, 1.0, 1000, np.random.default_rng(0))


@pytest.mark.trains
def test_shadows_of_clients_that_train_with_noise_have_other_noise_each() -> None:
    """An audit of such a run trains them; they lacked a secret once, and no audit of DP-SGD came to an end."""
    source, rng = Digits()(None), np.random.default_rng(0)
    module = initial(Mlp((8,)), source.shape, 10, 0)
    part = source.train.take(torch.arange(60))
    noisy = replace(TRAINING, privacy=RecordPrivacy(clip=1.0, multiplier=4.0, budget=8.0, delta=1e-5, records=60))
    one, other = shadow_updates(module, to_vector(module), [part, part], noisy, rng)
    alike = shadow_updates(module, to_vector(module), [part, part], replace(TRAINING, lr=0.01), rng)
    assert np.isfinite([one, other]).all()
    cosines = [float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)) for a, b in ((one, other), alike)]
    assert cosines[0] < 0.5 < 0.9 < cosines[1]
