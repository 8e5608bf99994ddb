"""DP-SGD of one client: against Opacus, executor against executor, and what one record can move."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn import functional

from cloister.fl.clients.cosine_pull import CosinePull
from cloister.fl.clients.dp_sgd import draws, one_by_one, per_sample, train_privately, vectorised
from cloister.fl.clients.dp_stacked import train_stacked_privately
from cloister.fl.clients.fast import Fast
from cloister.fl.clients.fit_module import check_module
from cloister.fl.clients.losses import IGNORED
from cloister.fl.clients.meta import MetaSteps
from cloister.fl.clients.record_privacy import GRID, RecordPrivacy
from cloister.fl.clients.stacked import linear_layers
from cloister.fl.clients.training import Job, PlainLoop, Training, train_one
from cloister.fl.data.population import Examples
from cloister.fl.models.papers import Lstm, Mlp, initial
from cloister.fl.models.vector import dimension, to_vector

pytestmark = pytest.mark.trains

PRIVACY = RecordPrivacy(clip=0.7, multiplier=0.8, budget=100.0, delta=1e-5)
TRAINING = Training(epochs=2, batch=10, lr=0.3, privacy=PRIVACY)
SHAPE, CLASSES = (1, 8, 8), 5


class SmallCnn(nn.Module):
    """Convolutions, group normalisation, pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(4, 6, 2, stride=2)
        )
        self.head = nn.Linear(6, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).tanh().flatten(1))


class Scaled(nn.Module):
    """Looks up rows of a table that it scales down as it does."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(12, 12, max_norm=0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.rows(x.argmax(1))


class Dropping(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(x, 0.5, self.training)


class Centred(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.mean(0, keepdim=True)


class Remembering(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean = (self.mean + x.detach().mean(0)) / 2
        return x - self.mean


def cnn(shape: tuple[int, ...], classes: int) -> nn.Module:
    return SmallCnn()


def examples(count: int, seed: int = 0) -> Examples:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((count, *SHAPE)) * rng.choice([0.2, 1.0, 5.0], size=(count, 1, 1, 1))
    return Examples(torch.from_numpy(x.astype(np.float32)), torch.from_numpy(rng.integers(0, CLASSES, count)))


def job(module: nn.Module, count: int = 37, client: int = 1, **of: Any) -> Job:
    secret = bytes([client]) * 32
    return Job(client, to_vector(module), examples(count, client), client, **{"secret": secret, **of})


def smooth_mlp() -> nn.Module:
    """Without the kink of a ReLU, at which two float32 programs may part."""
    return initial(lambda s, c: nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.Tanh(), nn.Linear(12, c)), SHAPE, CLASSES, 3)


@pytest.mark.parametrize(
    "module", [smooth_mlp(), initial(Mlp(hidden=(16, 9)), SHAPE, CLASSES, 1), initial(cnn, SHAPE, CLASSES, 2)]
)
def test_gradients_of_single_records_are_those_of_opacus(module: nn.Module) -> None:
    opacus = pytest.importorskip("opacus")
    data = examples(24)
    wrapped = opacus.GradSampleModule(initial(lambda *_: module, SHAPE, CLASSES, 0), loss_reduction="sum")
    functional.cross_entropy(wrapped(data.x), data.y, reduction="sum").backward()
    theirs = torch.cat([p.grad_sample.flatten(1) for p in wrapped.parameters()], dim=1)
    wrapped.remove_hooks()
    module.zero_grad()
    ours = per_sample(module, data.x, data.y, torch.ones(24))
    assert float((ours - theirs).abs().max()) <= 1e-6 * max(1.0, float(theirs.abs().max()))


@pytest.mark.parametrize("module", [initial(Mlp(hidden=(16, 9)), SHAPE, CLASSES, 1), initial(cnn, SHAPE, CLASSES, 2)])
@pytest.mark.parametrize("clip", [0.05, 3.0, 1e6])
def test_sums_of_clipped_gradients_are_the_same_in_every_way(module: nn.Module, clip: float) -> None:
    weights = np.random.default_rng(0).random(37, np.float32)
    for of in (job(module), job(module, weights=weights)):
        index = torch.tensor([0, 3, 4, 11, 36])
        by_hand = torch.zeros(dimension(module), dtype=torch.float64)
        for at in index:
            module.zero_grad()
            loss = functional.cross_entropy(module(of.examples.x[at][None]), of.examples.y[at][None])
            (loss * (1.0 if of.weights is None else float(of.weights[at]))).backward()
            gradient = torch.cat([p.grad.flatten() for p in module.parameters()]).double()
            by_hand += gradient * min(1.0, clip / float(gradient.norm()))
        for way in (one_by_one, vectorised):
            found = way(module, of, index, clip)
            assert found.dtype == torch.float64
            assert float((found - by_hand).abs().max()) <= 1e-6 * max(1.0, float(by_hand.abs().max()))
            assert float(way(module, of, index[:0], clip).abs().max()) == 0


EXECUTED = (
    TRAINING,
    replace(TRAINING, momentum=0.9, weight_decay=0.01, prox=0.1),
    replace(TRAINING, batch=50),
    replace(TRAINING, privacy=replace(PRIVACY, adjacency="add or remove", records=30)),
)


@pytest.mark.parametrize("training", EXECUTED)
@pytest.mark.parametrize(
    "module",
    [smooth_mlp(), initial(Mlp(hidden=()), SHAPE, CLASSES, 1), initial(cnn, SHAPE, CLASSES, 2)],
    ids=["mlp by torch.func", "stacked softmax", "cnn"],
)
@pytest.mark.long
def test_both_executors_train_alike(module: nn.Module, training: Training) -> None:
    """Five clients of unequal sizes, so that some are done before others."""
    jobs = [job(module, count, client) for client, count in enumerate((37, 60, 8, 41, 60), 1)]
    plain = dict(PlainLoop()(module, jobs, training, 0))
    fast = dict(Fast(workers=2)(module, jobs, training, 0))
    assert list(fast) == list(plain)
    for i, update in plain.items():
        assert update.dtype == np.float32
        np.testing.assert_allclose(fast[i], update, rtol=0, atol=1e-6)
    assert not np.allclose(plain[2], plain[5], atol=1e-3)


def test_stacked_networks_train_alike() -> None:
    """With ReLUs, whose kinks are away from these inputs' sums for so few steps."""
    module = initial(Mlp(hidden=(16, 9)), SHAPE, CLASSES, 1)
    weights = np.random.default_rng(5).random(60, np.float32)
    jobs = [job(module, 60, 1, weights=weights), job(module, 37, 2), job(module, 8, 3)]
    training = replace(TRAINING, epochs=1, momentum=0.5)
    found = train_stacked_privately(linear_layers(module) or [], jobs, training, 0, torch.device("cpu"))
    for of, update in zip(jobs, found, strict=True):
        np.testing.assert_allclose(update, train_one(module, of, training, 0), rtol=0, atol=1e-6)
    pulling = CosinePull(0.3)
    pulled = dict(pulling(module, jobs, training, 1))
    for of in jobs:
        np.testing.assert_allclose(pulled[of.client], train_one(module, of, training, 1, pulling.add), rtol=0, atol=1e-6)
    assert float(np.abs(pulled[1] - found[0]).max()) > 1e-4


def test_recurrent_models_train_record_by_record() -> None:
    module = initial(Lstm(embedding=4, hidden=5, layers=1), (6,), 11, 0)
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 11, (20, 6)), rng.integers(0, 11, (20, 6))
    y[3] = IGNORED
    y[4, 2:] = IGNORED
    data = Examples(torch.from_numpy(x), torch.from_numpy(y))
    jobs = [Job(i, to_vector(module), data, i, secret=bytes([i]) * 32) for i in (1, 2)]
    plain, fast = (dict(run(module, jobs, replace(TRAINING, epochs=1), 0)) for run in (PlainLoop(), Fast()))
    for i in (1, 2):
        np.testing.assert_allclose(fast[i], plain[i], rtol=0, atol=1e-6)


def one_step(of: Job, privacy: RecordPrivacy, batch: int, module: nn.Module) -> np.ndarray[Any, np.dtype[np.float64]]:
    """What one step divides and goes by: the noisy sum of clipped gradients, float64 (d,)."""
    training = Training(epochs=1, batch=batch, lr=1.0, privacy=privacy)
    update = train_privately(module, replace(of, start=np.zeros_like(of.start)), training, 0, summed=vectorised)
    return -update.astype(np.float64) * privacy.expected(len(of.examples), batch)


def test_the_noise_is_there_on_every_coordinate_and_of_one_training_alone() -> None:
    """Normal, of the claimed deviation, and other noise in another step, another training or another client's."""
    module = initial(Mlp(hidden=(300,)), SHAPE, CLASSES, 0)
    found = []
    for secret in (bytes(32), bytes(31) + b"1"):
        of = job(module, 12, secret=secret)
        exact = vectorised(module_at_zero(module), of, torch.arange(12), PRIVACY.clip).numpy()
        found.append((one_step(of, PRIVACY, 12, module) - exact) / (PRIVACY.multiplier * PRIVACY.clip))
    training = replace(TRAINING, epochs=2, batch=12)
    steps = [draw.noise / GRID for draw in draws(job(module, 12, secret=bytes(32)), training)]
    np.testing.assert_allclose(found[0], steps[0], atol=1e-3)
    values = [*found, steps[1]]
    for noise in values:
        low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], len(noise))
        assert low <= float((noise**2).sum()) <= high
        assert stats.kstest(noise, "norm").pvalue > 1e-6
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert abs(float(values[a] @ values[b])) < 5.5 * len(values[a]) ** 0.5
    for part in np.split(values[0], np.cumsum([p.numel() for p in module.parameters()])[:-1]):
        low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], len(part))
        assert low <= float((part**2).sum()) <= high  # of no layer without


def module_at_zero(module: nn.Module) -> nn.Module:
    zero = initial(lambda *_: module, SHAPE, CLASSES, 0)
    with torch.no_grad():
        for parameter in zero.parameters():
            parameter.zero_()
    return zero


def test_every_record_is_sampled_by_itself_with_the_public_rate() -> None:
    module = initial(Mlp(hidden=()), SHAPE, CLASSES, 0)
    training = Training(epochs=300, batch=10, lr=1.0, privacy=PRIVACY)
    index = [draw.index.numpy() for draw in draws(job(module, 40), training)]
    assert len(index) == 1200
    sizes = np.array([len(of) for of in index])
    counts = np.bincount(np.concatenate(index), minlength=40)
    q, n = 0.25, 1200
    assert stats.chi2.sf(float(((counts - n * q) ** 2 / (n * q * (1 - q))).sum()), 40) > 1e-6
    assert sizes.std() == pytest.approx((40 * q * (1 - q)) ** 0.5, rel=0.12)  # not of one size
    together = np.bincount(np.concatenate([of for of in index if 7 in of]), minlength=40)[8]
    assert abs(together - n * q * q) < 5 * (n * q * q) ** 0.5
    whole = list(draws(job(module, 40), replace(training, epochs=2, batch=64)))
    assert [len(draw.index) for draw in whole] == [40, 40]


def test_one_record_more_divides_by_the_same_number() -> None:
    """Where Opacus 1.6 divides by a number that follows from the records: 32 for 64, and 21 for 65."""
    module = initial(Mlp(hidden=()), SHAPE, CLASSES, 0)
    privacy = replace(PRIVACY, adjacency="add or remove", records=64, multiplier=1e-6)
    training = Training(epochs=1, batch=32, lr=1.0, privacy=privacy)
    assert privacy.expected(64, 32) == privacy.expected(65, 32) == 32
    assert privacy.steps(64, 1, 32) == privacy.steps(65, 1, 32) == 2
    whole = examples(65, 1)
    fewer = Examples(whole.x[:64], whole.y[:64])
    jobs = [Job(1, to_vector(module), of, 1, secret=bytes(32)) for of in (fewer, whole)]
    samples = [[draw.index.tolist() for draw in draws(of, training)] for of in jobs]
    assert [[i for i in step if i < 64] for step in samples[1]] == samples[0]
    first = [one_step(of, privacy, 64, module) for of in jobs]
    assert float(np.linalg.norm(first[0] - first[1])) <= privacy.clip * (1 + 1e-4)


@pytest.mark.long
def test_no_record_moves_a_sum_by_more_than_it_is_charged_for() -> None:
    """Of neighbours with the same samples and noise; among records that are anything, and not finite."""
    rng = np.random.default_rng(3)
    most = 0.0
    for k, module in enumerate([initial(Mlp(hidden=(9,)), SHAPE, CLASSES, 1), initial(cnn, SHAPE, CLASSES, 2)] * 8):
        privacy = replace(PRIVACY, clip=float(rng.choice([0.1, 1.0, 5.0])), multiplier=1e-3)
        own = job(module, 16, k)
        x, y, at = own.examples.x.clone(), own.examples.y.clone(), int(rng.integers(16))
        x[at] = (-50 * x[at], 0 * x[at], 1e30 + x[at], torch.nan + x[at])[k // 2 % 4]
        y[at] = int(rng.integers(CLASSES))
        other = replace(own, examples=Examples(x, y))
        privacy = replace(privacy, records=16)
        for batch, ways in ((16, (one_by_one, vectorised)), (4, (vectorised,))):
            training = Training(epochs=1, batch=batch, lr=1.0, privacy=privacy)
            todo = next(draws(own, training))
            for way in ways:
                before, after = (way(module, of, todo.index, privacy.clip) for of in (own, other))
                moved = float((before - after).norm())
                assert np.isfinite(moved)
                assert moved <= privacy.release(16, 1, batch, dimension(module)).sensitivity
                assert at in todo.index or moved == 0.0
                most = max(most, moved / (2 * privacy.clip))
        if k % 2 == 0:
            stacked = [
                train_stacked_privately(
                    linear_layers(module) or [],
                    [of],
                    Training(epochs=1, batch=16, lr=1.0, privacy=privacy),
                    0,
                    torch.device("cpu"),
                )[0]
                for of in (own, other)
            ]
            assert float(np.linalg.norm(stacked[0] - stacked[1])) * 16 <= 2 * privacy.clip * 1.001
    assert most > 0.5  # it does move


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (nn.BatchNorm1d(12), "mixes the records"),
        (nn.Dropout(0.5), "not the noise's"),
        (nn.RReLU(), "RReLU draws"),
        (Scaled(), "Embedding scales the rows"),
        (Dropping(), "in two ways"),
        (Centred(), "mixes the records"),
        (Remembering(), "changes 2.mean"),
        (nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(12, 12))), "changes 2.0.parametrizations"),
        (nn.Sequential(nn.Unflatten(1, (3, 4)), nn.InstanceNorm1d(3, track_running_stats=True), nn.Flatten()), "statistics"),
    ],
)
def test_layers_that_noise_cannot_cover_are_refused_in_words(layer: nn.Module, words: str) -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 12), layer, nn.Linear(12, CLASSES))
    for run in (PlainLoop(), Fast()):
        with pytest.raises(ValueError, match=words):
            dict(run(module, [job(module)], TRAINING, 0))


def test_modules_that_treat_records_alone_are_let_through_and_left_as_they_are() -> None:
    tokens = initial(Lstm(embedding=4, hidden=5, layers=2), (7,), 11, 0)
    state = torch.get_rng_state()
    for factory, x in ((cnn, torch.zeros(1, *SHAPE)), (Mlp(hidden=(9,)), torch.full((1, *SHAPE), torch.nan))):
        module = initial(factory, SHAPE, CLASSES, 1)
        before = to_vector(module)
        check_module(module, x)  # of values that are anything: nothing follows from them
        assert np.array_equal(to_vector(module), before)
    check_module(tokens, torch.zeros((3, 7), dtype=torch.int64))
    assert torch.equal(torch.get_rng_state(), state)


def test_training_without_a_secret_or_noise_is_refused() -> None:
    module = smooth_mlp()
    with pytest.raises(ValueError, match="no secret"):
        train_one(module, job(module, secret=b""), TRAINING, 0)
    with pytest.raises(ValueError, match="privacy at None"):
        MetaSteps(0.1)(module, [job(module)], TRAINING, 0)
