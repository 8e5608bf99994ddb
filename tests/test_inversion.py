"""Images and labels from one update: in closed form, by matching gradients, and by unrolled local training."""

import numpy as np
import pytest
import torch
from torch import nn

from cloister.fl.clients.training import Job, Training, full_gradient, train_one
from cloister.fl.data.population import Examples
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import CflCnn, Mlp, initial
from cloister.fl.models.vector import to_vector
from cloister.threat_models.inference.image_scores import exact_share, matched_psnr, psnr
from cloister.threat_models.inference.inversion import (
    dlg,
    first_layer,
    gradient_of,
    inverting_gradients,
    only_label,
    trained,
)

SHAPE = (1, 8, 8)
TRAINING = Training(epochs=3, batch=10, lr=0.1)


def drawn(seed: int, count: int) -> Examples:
    """Of all different labels where there are as many."""
    train = Digits()(None).train
    rng = np.random.default_rng(seed)
    chosen = [int(rng.choice(np.flatnonzero(train.y.numpy() == label))) for label in rng.permutation(10)[:count]]
    return train.take(torch.tensor(chosen))


def model(seed: int, hidden: int = 64) -> nn.Module:
    return initial(Mlp((hidden,)), SHAPE, 10, seed)


@pytest.mark.trains
@pytest.mark.parametrize("seed", range(3))
def test_one_record_is_read_off_the_first_layer(seed: int) -> None:
    module, one = model(seed), drawn(seed, 1)
    one = Examples(one.x * 0.997 + 0.001, one.y)  # not on the grid of grey levels, where no rounding shows
    slope = full_gradient(module, Job(0, to_vector(module), one, 0))
    found = first_layer(module, slope)
    assert len(found) == 1
    assert matched_psnr(found, one.x).min() > 150
    assert only_label(module, slope) == int(one.y)
    update = train_one(module, Job(0, to_vector(module), one, 0), Training(epochs=1, batch=1, lr=0.1), 0)
    assert matched_psnr(first_layer(module, update)[:1], one.x).min() > 100
    assert only_label(module, gradient_of(update, Training(epochs=1, batch=1, lr=0.1), 1)) == int(one.y)


@pytest.mark.trains
def test_of_a_batch_those_records_that_lit_a_unit_alone() -> None:
    module, batch = model(0, 256), drawn(0, 4)
    found = first_layer(module, full_gradient(module, Job(0, to_vector(module), batch, 0)))
    assert exact_share(found, batch.x, 1e-4) >= 0.5


@pytest.mark.trains
@pytest.mark.long
def test_matching_gradients_finds_one_record() -> None:
    """In most draws: L-BFGS may stop early on a ReLU network."""
    free, given = [], []
    for seed in range(5):
        module, one, rng = model(seed), drawn(seed, 1), np.random.default_rng(seed)
        slope = full_gradient(module, Job(0, to_vector(module), one, 0))
        free.append(matched_psnr(dlg(module, slope, SHAPE, 1, 10, rng).x, one.x)[0])
        found = dlg(module, slope, SHAPE, 1, 10, rng, label=only_label(module, slope))
        given.append(matched_psnr(found.x, one.x)[0])
        assert found.y.tolist() == one.y.tolist()
    assert np.median(given) > 40
    assert np.max(free) > 40


@pytest.mark.trains
@pytest.mark.long
def test_unrolled_training_finds_four_records_better_than_the_mean_image() -> None:
    found, plain = [], []
    for seed in range(3):
        module, batch = model(seed), drawn(seed, 4)
        update = train_one(module, Job(0, to_vector(module), batch, 7), TRAINING, 0)
        guess = inverting_gradients(module, update, batch.y, SHAPE, TRAINING, np.random.default_rng(seed), steps=300)
        found.extend(matched_psnr(guess.x, batch.x))
        plain.extend(psnr(Digits()(None).test.x.mean(dim=0, keepdim=True), batch.x)[0])
        assert ((guess.x >= 0) & (guess.x <= 1)).all()
    assert np.median(found) > np.median(plain) + 6


@pytest.mark.trains
@pytest.mark.parametrize("batch", [3, 10])
def test_unrolled_training_is_the_clients(batch: int) -> None:
    """One epoch of a batch as large as the data, whose order does not matter, is the plain loop's."""
    module, some = model(1), drawn(1, 3)
    training = Training(epochs=2, batch=batch, lr=0.2, weight_decay=0.01)
    update = train_one(module, Job(0, to_vector(module), some, 5), training, 0)
    start = {name: value.detach().clone().requires_grad_() for name, value in module.named_parameters()}
    moved = trained(module, start, some.x, some.y, training, 0.2)
    played = torch.cat([(moved[name] - start[name]).detach().flatten() for name in start]).numpy()
    np.testing.assert_allclose(played, update, atol=2e-6)


def test_a_first_layer_of_another_kind_is_refused() -> None:
    module = initial(CflCnn(), (1, 28, 28), 10, 0)
    with pytest.raises(ValueError, match="not linear"):
        first_layer(module, to_vector(module))


def test_scores_match_each_image_once() -> None:
    truth = torch.eye(4).reshape(4, 1, 2, 2)
    assert np.isinf(matched_psnr(truth[[2, 0, 3, 1]], truth)).all()
    one = matched_psnr(truth[:1], truth)
    assert np.isposinf(one).sum() == 1
    assert np.isneginf(one).sum() == 3
    np.testing.assert_allclose(psnr(torch.full((1, 1, 2, 2), 0.6), torch.full((1, 1, 2, 2), 0.5)), 20.0, atol=1e-5)
    assert matched_psnr(torch.full((1, 1, 2, 2), float("nan")), truth[:1])[0] <= -60
    assert exact_share(truth[:3], truth) == 0.75
