"""The label histogram of a client from the output layer of its update."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from cloister.fl.clients.fast import Fast
from cloister.fl.clients.training import Job, Training, full_gradient
from cloister.fl.data.partition import Dirichlet
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp, initial
from cloister.fl.models.vector import load_vector, to_vector
from cloister.threat_models.inference.label_regression import top_label, total_variation
from cloister.threat_models.inference.labels_of_update import labels_from_bias, labels_from_layer, llg

TRAINING = Training(epochs=3, batch=10, lr=0.1)
Histograms = dict[str, NDArray[np.float64]]


def guessed(seed: int, rounds: int) -> tuple[Histograms, NDArray[np.float64]]:
    """Of 24 clients with Dirichlet(0.5) labels, from their updates in the last of the rounds, and the truth."""
    source = Digits()(None)
    population = Dirichlet(clients=24, alpha=0.5)(source, np.random.default_rng(seed))
    module = initial(Mlp((64,)), source.shape, 10, seed)
    for round in range(rounds):
        start = to_vector(module)
        jobs = [Job(i, start, client.train, 100 * round + i) for i, client in population.clients.items()]
        updates = dict(Fast(workers=1)(module, jobs, TRAINING, round))
        if round < rounds - 1:
            load_vector(module, start + np.mean(list(updates.values()), axis=0).astype(np.float32))
    counts = [torch.bincount(population.clients[i].train.y, minlength=10).double().numpy() for i in updates]
    found: Histograms = {
        "llg": np.stack([llg(module, -u, int(n.sum())) for u, n in zip(updates.values(), counts, strict=True)]),
        "bias": np.stack(
            [
                labels_from_bias(module, u, source.test, 0.1, 3 * -(-int(n.sum()) // 10), 10)
                for u, n in zip(updates.values(), counts, strict=True)
            ]
        ),
        "layer": np.stack([labels_from_layer(module, u, source.test, 10) for u in updates.values()]),
        "prior": np.tile(torch.bincount(source.test.y).double().numpy() / len(source.test), (len(updates), 1)),
    }
    return found, np.stack([n / n.sum() for n in counts])


@pytest.mark.trains
@pytest.mark.parametrize("seed", range(2))
def test_the_first_rounds_update_tells_the_labels(seed: int) -> None:
    """Total variation about .07 where the prior alone has .44."""
    found, true = guessed(seed, 1)
    apart = {name: float(total_variation(guess, true).mean()) for name, guess in found.items()}
    assert apart["prior"] > 0.35
    assert max(apart["bias"], apart["layer"]) < 0.13
    assert apart["llg"] < 0.3
    for name in ("bias", "layer", "llg"):
        assert top_label(found[name], true).mean() > 0.6


@pytest.mark.trains
def test_later_updates_tell_less_and_still_tell() -> None:
    found, true = guessed(0, 6)
    apart = {name: float(total_variation(guess, true).mean()) for name, guess in found.items()}
    assert max(apart["bias"], apart["layer"]) < apart["prior"] - 0.15


@pytest.mark.trains
def test_a_single_gradient_is_read_without_data_up_to_rounding() -> None:
    source = Digits()(None)
    module = initial(Mlp((64,)), source.shape, 10, 0)
    some = source.train.take(torch.arange(8))
    slope = full_gradient(module, Job(0, to_vector(module), some, 0))
    true = torch.bincount(some.y, minlength=10).numpy() / 8
    found = llg(module, slope, 8)
    assert found.sum() == pytest.approx(1.0)
    assert float(np.abs(found - true).sum()) / 2 <= 0.26


def test_an_update_of_nothing_says_nothing() -> None:
    source = Digits()(None)
    module = initial(Mlp((8,)), source.shape, 10, 0)
    nothing = np.zeros_like(to_vector(module))
    for guess in (llg(module, nothing, 5), labels_from_layer(module, nothing, source.test, 10)):
        np.testing.assert_allclose(guess, 0.1)
    with pytest.raises(ValueError, match="no example of some label"):
        labels_from_layer(module, nothing, source.test.take(torch.arange(2)), 10)
