"""The plain loop is SGD by its formula, and the fast path is the plain loop."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cloister.fl.clients.fast import Fast
from cloister.fl.clients.stacked import linear_layers
from cloister.fl.clients.training import Job, PlainLoop, Training, full_gradient, minibatches, train_one
from cloister.fl.data.population import Examples
from cloister.fl.models.papers import CflCnn, EmbeddingAndHead, Lstm, Mlp, ModelFactory, initial
from cloister.fl.models.vector import dimension, load_vector, to_vector
from cloister.fl.runs.evaluation import ModelScore, ScoringJob, accuracies, by_example, mixed_score

BENCHMARK = Path(__file__).parent / "benchmarks" / "local_training.py"
PLAIN = Training(epochs=2, batch=8, lr=0.1)
VARIANTS = {
    "sgd": PLAIN,
    "momentum": replace(PLAIN, momentum=0.9, lr_decay=0.5),
    "decay": replace(PLAIN, weight_decay=0.03),
    "prox": replace(PLAIN, prox=0.7),
    "prox so far": replace(PLAIN, prox=0.7, prox_rounds=4),
    "prox no more": replace(PLAIN, prox=0.7, prox_rounds=3),
    "all examples a step": replace(PLAIN, epochs=4, batch=1000, momentum=0.9, prox=0.7),
    "all": replace(PLAIN, momentum=0.9, weight_decay=0.03, prox=0.7),
}


def images(n: int, shape: tuple[int, ...], seed: int) -> Examples:
    rng = np.random.default_rng(seed)
    return Examples(torch.from_numpy(rng.random((n, *shape), np.float32)), torch.from_numpy(rng.integers(0, 4, n)))


def tokens(n: int, seed: int) -> Examples:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 11, (n, 6))
    y[:, 4:] = np.where(rng.random((n, 2)) < 0.5, -1, y[:, 4:])
    return Examples(torch.from_numpy(rng.integers(0, 11, (n, 6))), torch.from_numpy(y))


def jobs_for(module: nn.Module, sizes: list[int], data: Callable[[int, int], Examples], pulled: bool = False) -> list[Job]:
    """Jobs of unequal sizes with ids that are no positions; every other one starts from a vector of its own.

    pulled: every third to another point than its start, half as strongly, and every other has weights of its examples' losses.
    """
    start = to_vector(module)
    start.flags.writeable = False
    other = (start * np.float32(0.9)).astype(np.float32)
    far = (start + np.float32(0.05)).astype(np.float32)
    starts, pulls = (start, other), (far if pulled else None, None, None)
    jobs = [Job(100 - k, starts[k % 2], data(n, k), seed=7 * k, toward=pulls[k % 3]) for k, n in enumerate(sizes)]
    if not pulled:
        return jobs
    weights = [np.random.default_rng(k).random(n, np.float32) if k % 2 == 0 else None for k, n in enumerate(sizes)]
    return [replace(job, pull=(0.5, 1.0)[k % 2], weights=weights[k]) for k, job in enumerate(jobs)]


def distance(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    return float(np.abs(a - b).max() / np.abs(b).max())


def by_formula(job: Job, training: Training, round: int) -> NDArray[np.float64]:
    """Softmax regression in float64, written out: gradient, decay, proximal term, momentum, step."""
    x = job.examples.x.flatten(1).numpy().astype(np.float64)
    labels = np.eye(4)[job.examples.y.numpy()]
    start, anchor = job.start.astype(np.float64), job.anchor.astype(np.float64)
    w = start.copy()
    velocity = np.zeros_like(w)
    for index in minibatches(job, training):
        weight, bias = w[:-4].reshape(4, -1), w[-4:]
        logits = x[index] @ weight.T + bias
        p = np.exp(logits - logits.max(1, keepdims=True))
        weights = np.ones(len(index)) if job.weights is None else job.weights[index].astype(np.float64)
        error = weights[:, None] * (p / p.sum(1, keepdims=True) - labels[index]) / len(index)
        gradient = np.concatenate([(error.T @ x[index]).ravel(), error.sum(0)])
        gradient += training.weight_decay * w + training.prox_in(round) * job.pull * (w - anchor)
        velocity = training.momentum * velocity + gradient
        w = w - training.lr * training.lr_decay**round * velocity
    return w - start


@pytest.mark.trains
@pytest.mark.parametrize("training", VARIANTS.values(), ids=list(VARIANTS))
def test_plain_loop_is_the_formula(training: Training) -> None:
    module = initial(Mlp(()), (1, 3, 3), 4, 0)
    (own,), (far,) = (jobs_for(module, [21], lambda n, k: images(n, (1, 3, 3), k), pulled) for pulled in (False, True))
    for job in (own, far):
        np.testing.assert_allclose(train_one(module, job, training, 3), by_formula(job, training, 3), rtol=1e-4, atol=1e-7)
    near = replace(far, weights=None)
    assert np.array_equal(train_one(module, own, training, 3), train_one(module, near, training, 3)) == (training.prox_in(3) == 0)


def test_minibatches_are_a_fresh_permutation_each_epoch() -> None:
    job = Job(0, np.zeros(1, np.float32), images(19, (1,), 0), seed=3)
    batches = [index.tolist() for index in minibatches(job, PLAIN)]
    assert [len(batch) for batch in batches] == [8, 8, 3] * 2
    first, second = ([row for batch in half for row in batch] for half in (batches[:3], batches[3:]))
    assert sorted(first) == sorted(second) == list(range(19))
    assert first != second
    assert batches == [index.tolist() for index in minibatches(job, PLAIN)]


@pytest.mark.trains
@pytest.mark.parametrize("batch", [5, 1000])
def test_what_is_not_finite_in_one_clients_data_stays_with_it(batch: int) -> None:
    """Short batches are filled up side by side, and nothing times what is not a number is not nothing."""
    module = initial(Mlp((6,)), (1, 3, 3), 4, 0)
    jobs = jobs_for(module, [12, 7, 3, 12], lambda n, k: images(n, (1, 3, 3), k))
    jobs[0].examples.x[0] = float("nan")
    training = replace(PLAIN, batch=batch)
    found, plain = (dict(way(module, jobs, training, 0)) for way in (Fast(), PlainLoop()))
    assert [bool(np.isfinite(found[job.client]).all()) for job in jobs] == [False, True, True, True]
    assert all(distance(found[job.client], plain[job.client]) < 1e-4 for job in jobs[1:])


@pytest.mark.trains
def test_training_changes_nothing_but_its_result() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(9, 6), nn.BatchNorm1d(6), nn.Dropout(), nn.Linear(6, 4))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    job = jobs_for(module, [20], lambda n, k: images(n, (1, 3, 3), k))[0]
    state = torch.get_rng_state()
    update = train_one(module, job, PLAIN, 0)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert update.dtype == np.float32
    torch.manual_seed(99)
    assert np.array_equal(update, train_one(module, job, PLAIN, 0))
    assert not np.array_equal(update, train_one(module, replace(job, seed=1), PLAIN, 0))


@pytest.mark.trains
def test_prox_of_zero_is_fedavg_and_large_prox_stays_near() -> None:
    module = initial(Mlp((5,)), (1, 3, 3), 4, 0)
    job = jobs_for(module, [24], lambda n, k: images(n, (1, 3, 3), k))[0]
    free = train_one(module, job, PLAIN, 0)
    assert np.array_equal(free, train_one(module, job, replace(PLAIN, prox=0.0), 0))
    norms = [float(np.linalg.norm(train_one(module, job, replace(PLAIN, prox=mu), 0))) for mu in (0.0, 1.0, 5.0)]
    assert norms[0] > norms[1] > norms[2]


@pytest.mark.trains
def test_full_gradient_is_one_step_on_all_the_data() -> None:
    module = initial(Mlp((5,)), (1, 3, 3), 4, 0)
    job = jobs_for(module, [1100], lambda n, k: images(n, (1, 3, 3), k))[0]
    gradient = full_gradient(module, job)
    step = train_one(module, job, Training(epochs=1, batch=1100, lr=1.0), 0)
    np.testing.assert_allclose(gradient, -step, rtol=1e-3, atol=1e-6)
    backwards = replace(job, examples=job.examples.take(torch.arange(1099, -1, -1)), seed=5)
    np.testing.assert_allclose(gradient, full_gradient(module, backwards), rtol=1e-3, atol=1e-7)


@pytest.mark.trains
@pytest.mark.parametrize("executor", [PlainLoop(), Fast()], ids=["plain", "fast"])
def test_weights_of_losses_count_examples_several_times(executor: PlainLoop | Fast) -> None:
    """Whole weights are copies of an example, over the number of examples as it is; weights of 1 are none, to the bit."""
    module, data = initial(Mlp((5,)), (1, 3, 3), 4, 0), images(6, (1, 3, 3), 0)
    job = Job(0, to_vector(module), data, seed=1, weights=np.array([2, 0, 1, 3, 0, 0], np.float32))
    copies = replace(job, examples=data.take(torch.tensor([0, 0, 2, 3, 3, 3])), weights=None)
    assert full_gradient(module, job) == pytest.approx(full_gradient(module, copies), abs=1e-7)
    whole = Training(epochs=3, batch=6, lr=0.3)

    def trained(job: Job) -> NDArray[np.float32]:
        ((_, update), *_) = executor(module, [job, job], whole, 0)
        return update

    assert distance(trained(job), trained(copies)) < 1e-5
    plain = replace(job, weights=None)
    assert not trained(replace(job, weights=np.zeros(6, np.float32))).any()
    ones = trained(replace(job, weights=np.ones(6, np.float32)))
    assert distance(ones, trained(plain)) < 1e-6
    assert distance(trained(job), trained(plain)) > 0.01


@pytest.mark.trains
def test_padding_is_never_learned() -> None:
    module = initial(Lstm(4, 5), (6,), 11, 0)
    data = tokens(10, 0)
    job = Job(0, to_vector(module), data, seed=0)
    nothing = replace(job, examples=Examples(data.x, torch.full_like(data.y, -1)))
    assert not train_one(module, nothing, PLAIN, 0).any()
    assert not full_gradient(module, nothing).any()
    last = data.x.clone()
    last[data.y == -1] = 0  # the input at a padded end has no later target to reach
    ends = (data.y == -1).flip(1).cumprod(1).flip(1).bool()
    altered = Examples(torch.where(ends, last, data.x), data.y)
    assert distance(full_gradient(module, replace(job, examples=altered)), full_gradient(module, job)) < 1e-5


class Recurrent(nn.Module):
    """A user's own module: layers that the stacked path must leave alone, and a view that needs contiguous memory."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 3, 3)
        self.norm = nn.BatchNorm2d(3)
        self.fc = nn.Linear(3 * 36, 4)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc(torch.tanh(self.norm(self.first(x))).view(len(x), -1))
        return out


def own(shape: tuple[int, ...], classes: int) -> nn.Module:
    return Recurrent()


CASES: dict[str, tuple[ModelFactory, tuple[int, ...], int, Callable[[int, int], Examples]]] = {
    "mlp": (Mlp((12, 7)), (1, 8, 8), 4, lambda n, k: images(n, (1, 8, 8), k)),
    "regression": (Mlp(()), (1, 8, 8), 4, lambda n, k: images(n, (1, 8, 8), k)),
    "cnn": (CflCnn(), (1, 28, 28), 4, lambda n, k: images(n, (1, 28, 28), k)),
    "lstm": (Lstm(4, 5), (6,), 11, lambda n, k: tokens(n, k)),
    "own": (own, (1, 8, 8), 4, lambda n, k: images(n, (1, 8, 8), k)),
}
SIZES = [3, 20, 8, 1, 33, 16]


@pytest.mark.trains
@pytest.mark.parametrize("training", VARIANTS.values(), ids=list(VARIANTS))
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
@pytest.mark.long
def test_fast_is_the_plain_loop(
    case: tuple[ModelFactory, tuple[int, ...], int, Callable[[int, int], Examples]], training: Training
) -> None:
    factory, shape, classes, data = case
    module = initial(factory, shape, classes, 1)
    jobs = jobs_for(module, SIZES, data, pulled=True)
    plain = list(PlainLoop()(module, jobs, training, 2))
    fast = list(Fast(workers=2)(module, jobs, training, 2))
    assert [client for client, _ in fast] == [client for client, _ in plain] == [job.client for job in jobs]
    for (_, a), (_, b) in zip(fast, plain, strict=True):
        assert a.dtype == np.float32
        assert distance(a, b) < 1e-5
    for (_, a), (_, b) in zip(Fast(workers=2, chunk=4)(module, jobs, training, 2), plain, strict=True):
        assert distance(a, b) < 1e-5


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_fast_does_not_depend_on_workers(
    case: tuple[ModelFactory, tuple[int, ...], int, Callable[[int, int], Examples]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloister.fl.clients.fast.TILE", 0)  # one client a tile, so that tiles are spread too
    monkeypatch.setattr("cloister.fl.clients.fast.WORTH_A_THREAD", 0.0)
    factory, shape, classes, data = case
    module = initial(factory, shape, classes, 1)
    jobs = jobs_for(module, SIZES, data)
    threads = torch.get_num_threads()
    results = [list(Fast(workers=workers)(module, jobs, VARIANTS["all"], 0)) for workers in (1, 2, 3, 3)]
    assert torch.get_num_threads() == threads
    for other in results[1:]:
        assert all(np.array_equal(a, b) for (_, a), (_, b) in zip(results[0], other, strict=True))


@pytest.mark.trains
def test_fast_draws_dropout_as_the_plain_loop_does() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(9, 6), nn.Dropout(), nn.Linear(6, 4))
    jobs = jobs_for(module, [20, 9, 4], lambda n, k: images(n, (1, 3, 3), k))
    state = torch.get_rng_state()
    fast = list(Fast(workers=2)(module, jobs, PLAIN, 0))
    assert torch.equal(state, torch.get_rng_state())
    assert all(np.array_equal(a, b) for (_, a), (_, b) in zip(fast, PlainLoop()(module, jobs, PLAIN, 0), strict=True))


def test_only_plain_perceptrons_are_stacked() -> None:
    mlp = initial(Mlp((5, 6)), (1, 3, 3), 4, 0)
    assert [layer.out_features for layer in linear_layers(mlp) or []] == [5, 6, 4]
    shared = nn.Linear(4, 4)
    frozen = initial(Mlp((5,)), (1, 3, 3), 4, 0)
    frozen.get_submodule("head").bias.requires_grad_(False)
    hooked = initial(Mlp((5,)), (1, 3, 3), 4, 0)
    hooked.get_submodule("head").register_forward_hook(lambda *_: None)
    for refused in (
        frozen,
        hooked,
        nn.Sequential(shared, nn.ReLU(), shared),
        nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)),
        nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)),
        nn.Sequential(nn.Linear(4, 4), nn.ReLU()),
        nn.Sequential(nn.Linear(4, 4), nn.Flatten(), nn.ReLU(), nn.Linear(4, 4)),
        nn.Sequential(nn.Flatten(0), nn.Linear(4, 4)),
        EmbeddingAndHead(nn.Sequential(nn.Flatten(), nn.Linear(4, 4), nn.BatchNorm1d(4)), nn.Linear(4, 4)),
        Recurrent(),
        nn.Sequential(nn.Flatten()),
    ):
        assert linear_layers(refused) is None


@pytest.mark.trains
def test_a_linear_layer_over_the_last_axis_only_is_not_stacked() -> None:
    module = nn.Sequential(nn.Linear(3, 4))  # of (n, 3, 3) inputs: 3 predictions an example
    data = images(12, (3, 3), 0)
    targets = Examples(data.x, torch.arange(36).view(12, 3) % 4)
    jobs = [Job(k, to_vector(module), targets, seed=k) for k in range(3)]
    for (_, a), (_, b) in zip(Fast()(module, jobs, PLAIN, 0), PlainLoop()(module, jobs, PLAIN, 0), strict=True):
        assert distance(a, b) < 1e-5


@pytest.mark.trains
def test_layers_without_bias_are_stacked_too() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(9, 6, bias=False), nn.ReLU(), nn.Linear(6, 4))
    assert linear_layers(module)
    jobs = jobs_for(module, SIZES, lambda n, k: images(n, (1, 3, 3), k))
    for (_, a), (_, b) in zip(Fast()(module, jobs, PLAIN, 0), PlainLoop()(module, jobs, PLAIN, 0), strict=True):
        assert distance(a, b) < 1e-5


@pytest.mark.trains
@pytest.mark.parametrize("case", [CASES["mlp"], CASES["cnn"]], ids=["mlp", "cnn"])
def test_fast_streams_and_a_failure_leaves_nothing_behind(
    case: tuple[ModelFactory, tuple[int, ...], int, Callable[[int, int], Examples]],
) -> None:
    factory, shape, classes, data = case
    module = initial(factory, shape, classes, 1)
    jobs = jobs_for(module, [8, 8, 8, 8], data)
    jobs[3] = replace(jobs[3], start=jobs[3].start[:-1])
    running, threads = threading.active_count(), torch.get_num_threads()
    updates = Fast(workers=2, chunk=2)(module, jobs, PLAIN, 0)
    assert [next(updates)[0], next(updates)[0]] == [100, 99]  # before the broken job is looked at
    with pytest.raises((ValueError, InterruptedError)):
        next(updates)
    assert threading.active_count() == running
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize(
    "wrong",
    [
        {"epochs": 0},
        {"batch": 0},
        {"lr": 0.0},
        {"momentum": 1.0},
        {"weight_decay": -1.0},
        {"prox": -1.0},
        {"prox_rounds": -1},
        {"lr_decay": 0.0},
        {"lr": float("nan")},
    ],
)
def test_training_validates_itself(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Training(**{"epochs": 1, "batch": 1, "lr": 0.1, **wrong})


@pytest.mark.parametrize("executor", [PlainLoop(), Fast()])
def test_jobs_that_cannot_train_are_refused(executor: PlainLoop | Fast) -> None:
    module = initial(Mlp(()), (1, 3, 3), 4, 0)
    empty = Job(6, to_vector(module), images(0, (1, 3, 3), 0), seed=0)
    double = Job(6, to_vector(module).astype(np.float64), images(3, (1, 3, 3), 0), seed=0)
    for job in (empty, double):
        with pytest.raises(ValueError, match="client 6"):
            list(executor(module, [job], PLAIN, 0))
    right = Job(6, to_vector(module), images(3, (1, 3, 3), 0), seed=0)
    for weights in (np.ones(2, np.float32), np.ones(3), np.array([1, -1, 1], np.float32), np.array([1, np.nan, 1], np.float32)):
        with pytest.raises(ValueError, match="client 6 has weights"):
            list(executor(module, [replace(right, weights=weights)], PLAIN, 0))
    for pull in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="client 6 is pulled"):
            list(executor(module, [replace(right, pull=pull)], PLAIN, 0))


def test_fast_refuses_no_workers() -> None:
    for wrong in (Fast, lambda workers: Fast(chunk=workers)):
        with pytest.raises(ValueError, match="at least 1"):
            wrong(workers=0)


def test_score_by_hand() -> None:
    module = nn.Linear(1, 2, bias=False)  # logits (x, 0)
    vector = np.array([1, 0], np.float32)
    x = torch.tensor([[2.0], [2.0], [-1.0]])
    scores = accuracies(module, [ScoringJob(4, vector, Examples(x, torch.tensor([0, 1, 1])))])
    losses = [np.log1p(exp(-2)), np.log1p(exp(2)), np.log1p(exp(-1))]
    assert scores[4].accuracy == pytest.approx(2 / 3)
    assert scores[4].loss == pytest.approx(np.mean(losses))
    assert scores[4].perplexity == pytest.approx(exp(np.mean(losses)))
    assert ModelScore(0.0, 1e6).perplexity == float("inf")


def test_scores_do_not_depend_on_how_clients_share_models() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(9, 6), nn.BatchNorm1d(6), nn.Dropout(), nn.Linear(6, 4))
    vector = to_vector(module)
    data = [images(n, (1, 3, 3), n) for n in (700, 3, 1, 600)]
    shared = accuracies(module, [ScoringJob(k, vector, examples) for k, examples in enumerate(data)])
    apart = accuracies(module, [ScoringJob(k, vector.copy(), examples) for k, examples in enumerate(data)])
    assert list(shared) == [0, 1, 2, 3]
    for k in shared:
        assert shared[k].accuracy == apart[k].accuracy
        assert shared[k].loss == pytest.approx(apart[k].loss, rel=1e-5)
    mixed = accuracies(
        module, [ScoringJob(0, vector, data[0]), ScoringJob(1, 0 * vector, data[0]), ScoringJob(2, vector, data[0])]
    )
    assert mixed[0] == mixed[2]
    assert mixed[1].loss == pytest.approx(np.log(4))


def test_a_mixture_predicts_by_the_mean_of_probabilities() -> None:
    models = [nn.Linear(1, 2, bias=False) for _ in range(2)]  # logits (x, 0) and (0, 2 x)
    load_vector(models[0], np.array([1, 0], np.float32))
    load_vector(models[1], np.array([0, 2], np.float32))
    data = Examples(torch.tensor([[2.0], [1.0], [-1.0]]), torch.tensor([0, 1, 1]))

    def first(x: float) -> float:  # of label 0
        return 0.6 * exp(x) / (exp(x) + 1) + 0.4 / (1 + exp(2 * x))

    found = mixed_score(models, np.array([0.6, 0.4]), data)
    probabilities = [first(2), 1 - first(1), 1 - first(-1)]
    assert found.loss == pytest.approx(-np.mean(np.log(probabilities)))
    assert found.accuracy == np.mean([p > 0.5 for p in probabilities])
    alone = accuracies(models[0], [ScoringJob(0, np.array([1, 0], np.float32), data)])[0]
    pure = mixed_score(models, np.array([1.0, 0.0]), data)
    assert (pure.accuracy, pure.loss) == (alone.accuracy, pytest.approx(alone.loss))


def test_losses_by_example_are_means_over_targets_that_count() -> None:
    module, data = initial(Lstm(4, 5), (6,), 11, 0).eval(), tokens(10, 0)
    losses, targets = by_example(module, data)
    assert targets.tolist() == (data.y != -1).sum(1).tolist()
    whole = accuracies(module, [ScoringJob(0, to_vector(module), data)])[0]
    assert (losses * targets).sum() / targets.sum() == pytest.approx(whole.loss)
    alone = accuracies(module, [ScoringJob(0, to_vector(module), data.take(torch.tensor([3])))])[0]
    assert losses[3] == pytest.approx(alone.loss)
    nothing, none = by_example(module, Examples(data.x, torch.full_like(data.y, -1)))
    assert not nothing.any()
    assert not none.any()
    with torch.no_grad():
        next(module.parameters()).fill_(float("nan"))
    assert np.isinf(by_example(module, data)[0]).all()


def test_padding_is_never_scored() -> None:
    module = initial(Lstm(4, 5), (6,), 11, 0)
    data = tokens(10, 0)
    zero = np.zeros(dimension(module), np.float32)
    assert accuracies(module, [ScoringJob(0, zero, data)])[0].perplexity == pytest.approx(11)
    kept = data.y != -1
    right = Examples(data.x, torch.where(kept, 0, -1))  # equal logits: the first word is the prediction
    assert accuracies(module, [ScoringJob(0, zero, right)])[0].accuracy == 1.0
    with pytest.raises(ValueError, match="client 3 has no examples"):
        accuracies(module, [ScoringJob(3, zero, Examples(data.x, torch.full_like(data.y, -1)))])
    with pytest.raises(ValueError, match="named twice"):
        accuracies(module, [ScoringJob(3, zero, data)] * 2)


@pytest.mark.slow
def test_a_thousand_large_models_stream_in_little_memory() -> None:
    out = subprocess.run([sys.executable, BENCHMARK, "--memory", "--json"], check=True, capture_output=True, text=True).stdout
    result = json.loads(out)
    assert result["clients"] == 1000
    assert result["parameters"] == 1_663_370
    assert result["peak_bytes"] < 2e9
