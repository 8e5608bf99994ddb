"""What inference from updates, sums and models achieves on MNIST with a 784-32-10 network, in bands."""

import os
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import nn

from cloister.fl.clients.training import Job, Training, full_gradient, train_one
from cloister.fl.data.partition import Dirichlet
from cloister.fl.data.population import Examples, Source
from cloister.fl.data.source import Mnist
from cloister.fl.models.papers import Mlp, initial
from cloister.fl.models.vector import load_vector, to_vector
from cloister.threat_models.inference.crafted_models import imprint, imprinted
from cloister.threat_models.inference.image_scores import exact_share, matched_psnr, psnr
from cloister.threat_models.inference.inversion import first_layer, inverting_gradients, only_label
from cloister.threat_models.inference.label_regression import total_variation
from cloister.threat_models.inference.labels_of_update import labels_from_bias, labels_from_layer
from cloister.threat_models.inference.membership_scores import auc, tpr_at
from cloister.threat_models.inference.record_membership import lira_online, logit_scaled, mean_where, rmia
from cloister.threat_models.inference.shadow_models import shadow_updates, train_shadows
from cloister.threat_models.inference.sum_membership import Crowd

pytestmark = [
    pytest.mark.slow,
    pytest.mark.trains,
    pytest.mark.skipif("CLOISTER_DATA" not in os.environ, reason="CLOISTER_DATA does not name a folder of real data sets"),
]
SHAPE = (1, 28, 28)


@pytest.fixture(scope="module")
def mnist() -> Source:
    source: Source = Mnist()(None)
    return source


def model(seed: int, hidden: int = 32) -> nn.Module:
    return initial(Mlp((hidden,)), SHAPE, 10, seed)


def parts(pool: Examples, count: int, size: int, alpha: float, rng: np.random.Generator) -> Iterator[Examples]:
    """Data of clients whose labels follow Dirichlet(alpha)."""
    of_label = [np.flatnonzero(pool.y.numpy() == label) for label in range(10)]
    for _ in range(count):
        counts = rng.multinomial(size, rng.dirichlet(np.full(10, alpha)))
        chosen = [rng.choice(positions, k, replace=False) for positions, k in zip(of_label, counts, strict=True)]
        yield pool.take(torch.from_numpy(np.concatenate(chosen)))


def halves(train: Examples, rng: np.random.Generator) -> tuple[Examples, Examples]:
    order = torch.from_numpy(rng.permutation(len(train)))
    return train.take(order[: len(order) // 2]), train.take(order[len(order) // 2 :])


def test_one_record_in_closed_form(mnist: Source) -> None:
    """PSNR of 150 dB and more, and the label, 50 times of 50."""
    module, right, ratios = model(0), 0, []
    for k in range(50):
        one = mnist.test.take(torch.tensor([k]))
        slope = full_gradient(module, Job(0, to_vector(module), one, 0))
        ratios.append(matched_psnr(first_layer(module, slope)[:1], one.x)[0])
        right += only_label(module, slope) == int(one.y)
    print(f"\nPSNR from {min(ratios):.1f} dB, median {np.median(ratios):.1f}; labels {right}/50")
    assert min(ratios) >= 150
    assert right == 50


def test_four_records_of_three_epochs(mnist: Source) -> None:
    """Median PSNR of unrolled training well above the mean image's and that of the mean of 24 updates."""
    training, found, plain, aggregate = Training(epochs=3, batch=10, lr=0.1), [], [], []
    for seed in range(2):
        rng, module = np.random.default_rng(seed), model(seed, 64)
        clients = [mnist.train.take(torch.from_numpy(rng.choice(60_000, 4, replace=False))) for _ in range(24)]
        updates = [train_one(module, Job(i, to_vector(module), c, i), training, 0) for i, c in enumerate(clients)]
        mean = np.mean(updates, axis=0).astype(np.float32)
        for own, update in zip(clients[:2], updates[:2], strict=True):
            for seen, into in ((update, found), (mean, aggregate)):
                guess = inverting_gradients(module, seen, own.y, SHAPE, training, rng, steps=600)
                into.extend(matched_psnr(guess.x, own.x))
            plain.extend(psnr(mnist.test.x.mean(dim=0, keepdim=True), own.x)[0])
    print(
        f"\nmedian PSNR {np.median(found):.1f} dB, of the aggregate {np.median(aggregate):.1f}, mean image {np.median(plain):.1f}"
    )
    assert np.median(found) > 20
    assert np.median(aggregate) < 15


@pytest.mark.parametrize(("samples", "most"), [(60, 0.14), (300, 0.27)])
def test_labels_of_an_update(mnist: Source, samples: int, most: float) -> None:
    """The more steps an update has, the less it says: about .09 for 18 steps and .21 for 90, where equal shares have .46."""
    population = Dirichlet(clients=24, alpha=0.5, samples=samples)(mnist, np.random.default_rng(0))
    module, training = model(0), Training(epochs=3, batch=10, lr=0.1)
    public = mnist.test.take(torch.arange(2000))
    bias, layer, true = [], [], []
    for i, client in population.clients.items():
        update = train_one(module, Job(i, to_vector(module), client.train, i), training, 0)
        bias.append(labels_from_bias(module, update, public, 0.1, 3 * -(-len(client.train) // 10), 10))
        layer.append(labels_from_layer(module, update, public, 10))
        true.append(torch.bincount(client.train.y, minlength=10).double().numpy() / len(client.train))
    truth = np.stack(true)
    apart = [float(total_variation(np.stack(guess), truth).mean()) for guess in (bias, layer)]
    prior = float(total_variation(np.full_like(truth, 0.1), truth).mean())
    print(f"\ntotal variation by bias {apart[0]:.3f}, by layer {apart[1]:.3f}, equal shares {prior:.3f}")
    assert max(apart) < most
    assert prior > 0.35


@pytest.mark.parametrize("seed", range(2))
def test_an_update_in_a_plain_sum(mnist: Source, seed: int) -> None:
    """AUC 1.00 among 2 and 10, above .9 among 50."""
    rng, module = np.random.default_rng(seed), model(seed)
    training = Training(epochs=1, batch=10, lr=0.1)
    theirs, ours = halves(mnist.train, rng)
    shadow = shadow_updates(module, to_vector(module), list(parts(theirs, 600, 100, 0.5, rng)), training, rng)
    real = shadow_updates(module, to_vector(module), list(parts(ours, 600, 100, 0.5, rng)), training, rng)
    crowd = Crowd.of(shadow)
    for count, least in ((2, 0.99), (10, 0.99), (50, 0.85)):
        scores, inside = [], []
        for k in range(300):
            who = rng.choice(len(real), count + 1, replace=False)
            candidate = real[who[0] if k % 2 else who[-1]]
            scores.append(crowd.ratio(real[who[:count]].astype(np.float64).sum(axis=0), candidate, count))
            inside.append(bool(k % 2))
        area = auc(np.array(scores), np.array(inside))
        print(f"\nn = {count}: AUC {area:.3f}, TPR at 1 % {tpr_at(np.array(scores), np.array(inside), 0.01):.2f}")
        assert area > least


@pytest.mark.parametrize(("bins", "least", "most"), [(256, 0.6, 0.85), (1024, 0.85, 1.0)])
def test_records_imprinted_into_a_plain_sum(mnist: Source, bins: int, least: float, most: float) -> None:
    """80 records of 10 clients: (1 - 1/bins)^79 of them are alone in a bin, .73 and .93."""
    shares = []
    for seed in range(5):
        rng, module = np.random.default_rng(seed), model(seed, bins)
        load_vector(module, start := imprint(module, mnist.test.x, rng))
        records = mnist.train.take(torch.from_numpy(rng.choice(60_000, 80, replace=False)))
        clients = [records.take(torch.arange(8 * i, 8 * i + 8)) for i in range(10)]
        total = np.sum([full_gradient(module, Job(i, start, c, 0)) for i, c in enumerate(clients)], axis=0)
        shares.append(exact_share(imprinted(module, total), records.x))
    print(f"\n{bins} bins: {np.mean(shares):.3f} exact, {min(shares):.3f} to {max(shares):.3f}")
    assert least < np.mean(shares) < most


def test_likelihood_ratios_against_a_model_that_remembers(mnist: Source) -> None:
    areas: dict[str, list[float]] = {"confidence": [], "LiRA": [], "RMIA": []}
    at_low: dict[str, list[float]] = {name: [] for name in areas}
    for seed in range(2):
        rng, module = np.random.default_rng(seed), model(seed)
        records = mnist.train.take(torch.from_numpy(rng.choice(60_000, 2000, replace=False)))
        shadows = train_shadows(module, records, Training(epochs=40, batch=20, lr=0.1), 33, rng)
        seen, others = shadows.confidences(module, records), shadows.confidences(module, mnist.test.take(torch.arange(2000)))
        target, shadow, inside, truth = seen[0], seen[1:], shadows.inside[1:], shadows.inside[0]
        scores = {
            "confidence": target,
            "LiRA": lira_online(logit_scaled(target), logit_scaled(shadow), inside, fixed_variance=True),
            "RMIA": rmia(target, mean_where(shadow, ~inside), others[0], others[1:].mean(axis=0)),
        }
        for name, score in scores.items():
            areas[name].append(auc(score, truth))
            at_low[name].append(tpr_at(score, truth, 0.01))
    for name, values in areas.items():
        print(f"\n{name}: AUC {np.mean(values):.3f}, TPR at 1 % {np.mean(at_low[name]):.3f}")
    assert min(np.mean(areas["LiRA"]), np.mean(areas["RMIA"])) > np.mean(areas["confidence"]) + 0.02
