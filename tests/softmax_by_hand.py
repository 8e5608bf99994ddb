"""A federation small enough to be played again in numpy: softmax regressions, full batches, float64.

Nothing of ours computes what is expected: neither gradients nor anything that an algorithm is made of. Only who takes part in a
round is asked of the code (`active`).
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cloister.fl.algorithms.cohorts import invited
from cloister.fl.clients.training import Training
from cloister.fl.data.population import Examples, Source
from cloister.fl.models.papers import SoftmaxRegression
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation, seed_of
from cloister.protocol import Plain

M, F, C, STEPS, LR = 8, 5, 3, 3, 0.3
CLIENTS = range(M)
Values = NDArray[np.float64]


def drawn(client: int, count: int, part: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Inputs, and labels by one of two rules; of each label at least one."""
    rules = np.random.default_rng(5).normal(size=(2, C, F)) * 2
    rng = np.random.default_rng([client, part])
    x = (rng.uniform(size=(count, F)) + 0.3 * (client % 2)).astype(np.float32)
    y = np.argmax(x @ rules[client % 2].T + 0.3 * rng.normal(size=(count, C)), axis=1)
    y[:C] = range(C)
    return x, y


TRAIN = [drawn(i, 12 + 3 * i, 0) for i in CLIENTS]
TEST = [drawn(i, 15, 1) for i in CLIENTS]
N = np.array([len(y) for _, y in TRAIN], np.float64)


def loaded(_: Path | None, count: int = M) -> Source:
    """The data of the first `count` clients."""

    def together(parts: list[tuple[Any, Any]]) -> Examples:
        whose = np.repeat(np.arange(count), [len(y) for _, y in parts])
        x, y = (np.concatenate(of) for of in zip(*parts, strict=True))
        return Examples(torch.tensor(x), torch.tensor(y), torch.tensor(whose))

    return Source("tiny", together(TRAIN[:count]), together(TEST[:count]), C, tuple(map(str, range(count))))


def simulation(algorithm: Any, **more: Any) -> Simulation:
    """Whose models begin at draws of N(0, .7^2)."""
    tiny = Scenario(
        name="tiny",
        data=loaded,
        model=SoftmaxRegression(deviation=0.7),
        training=Training(epochs=STEPS, batch=1000, lr=LR),
        algorithm=algorithm,
        protection=Plain(),
        rounds=9,
    )
    return Simulation(replace(tiny, **more), None)


def active(run: Simulation, participation: float) -> list[int]:
    """Who takes part in the coming round, of random samples."""
    round = run.state.round
    rng = np.random.default_rng(seed_of(run.scenario.seed, "round", round))
    return list(invited(run.state.everyone, round, participation, "random", rng, run.view.least))


def held(run: Simulation) -> list[Values]:
    """The models of the state's clusters."""
    return [run.parameters(c.model).astype(np.float64) for c in run.state.clusters.values()]


def used(run: Simulation) -> list[Values]:
    """What every client predicts with, by their ids."""
    return [vector.astype(np.float64) for _, vector in sorted(run.vectors().items())]


def log_p(w: Values, x: NDArray[np.float32]) -> Values:
    """Of every label: (n, C)."""
    z = x.astype(np.float64) @ w[: C * F].reshape(C, F).T + w[C * F :]
    z = z - z.max(axis=1, keepdims=True)
    return np.asarray(z - np.log(np.exp(z).sum(axis=1, keepdims=True)))


def losses(w: Values, client: int) -> Values:
    """Of every training example: (n,)."""
    x, y = TRAIN[client]
    return np.asarray(-log_p(w, x)[np.arange(len(y)), y])


def gradient(w: Values, client: int, q: Values | None = None) -> Values:
    """Of (1 / n) sum_s q_s loss_s."""
    x, y = TRAIN[client]
    apart = (np.exp(log_p(w, x)) - np.eye(C)[y]) * (1.0 if q is None else q[:, None]) / len(y)
    return np.concatenate([(apart.T @ x.astype(np.float64)).ravel(), apart.sum(axis=0)])


def trained(w: Values, client: int, q: Values | None = None, also: Callable[[Values], Values] | None = None) -> Values:
    """Where local training ends. also: gradient of what the objective has beside the loss."""
    for _ in range(STEPS):
        w = w - LR * (gradient(w, client, q) + (0.0 if also is None else also(w)))
    return w


def farthest(found: list[Values], expected: list[Values]) -> float:
    """The largest difference of a coordinate."""
    return max(float(np.abs(a - b).max()) for a, b in zip(found, expected, strict=True))
