"""Clients with quadratic losses who work for slots: every round of an algorithm over them can be computed by hand.

Client i has n_i examples with a point x_s and a label each; the loss of theta on one is |theta - x_s|^2 / 2. Training takes STEPS
full-batch steps of LR on the weighted mean of losses and the pull of the proximal term.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from cloister.crypto.entropy import SimulatedEntropy
from cloister.fl.algorithms.algorithm import Start
from cloister.fl.algorithms.several_models import State
from cloister.fl.clients.keeping import Keeping
from cloister.fl.clients.slots import SlotInputs, filled
from cloister.fl.clients.training import Job, Training
from cloister.fl.data.population import Examples
from cloister.fl.runs.experiment import run
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.core.link import Tap
from cloister.protocol.view.answers import Model
from cloister.protocol.view.protection import Protection, Setup
from cloister.protocol.view.work import LocalJob, LocalWork

M, D, K, LABELS, LR, STEPS = 8, 6, 2, 3, 0.25, 2
CLIENTS = tuple(range(M))
MODELS = [(np.random.default_rng(k).uniform(-0.3, 0.3, D) + 0.6 * k - 0.3).astype(np.float32) for k in range(K)]
WITH_SLOTS: list[tuple[Protection, float, int]] = [
    (Plain(), 5e-6, 4),
    (Permuted(floor=1), 5e-6, 4),
    (Masked(floor=2, slot_spare=0, ring_bits=64), 5e-6, 2),
    (Masked(floor=2, slot_spare=0), 3e-3, 2),
    (TwoServer(floor=2), 3e-3, 2),
    (Encrypted(floor=2), 3e-3, 2),
]
"""Protections that answer slots, how far from the arithmetic of the clear a model may be, and rounds that are quick."""
SPARED = [*WITH_SLOTS[:-1], pytest.param(*WITH_SLOTS[-1], marks=pytest.mark.slow)]
"""The same, for methods whose sums under encryption ask for nothing that another's do not: seconds of encryption are put off."""
Values = NDArray[np.float64]


def examples_of(client: int) -> Examples:
    """5 to 8 points about one of two corners, some about the other, with labels that go with neither."""
    rng = np.random.default_rng([9, client])
    n = 5 + client % 4
    side = np.where(np.arange(n) % 4 == 0, 1 - client % 2, client % 2)
    points = np.where(side[:, None] == 1, 0.6, -0.6) + rng.normal(0, 0.1, (n, D))
    return Examples(torch.tensor(points, dtype=torch.float32), torch.tensor(rng.integers(0, LABELS, n)))


def losses_of(models: Sequence[Any], points: Values) -> Values:
    """Float64 (K, n)."""
    return np.stack([np.square(points - np.asarray(model, np.float64)).sum(axis=1) / 2 for model in models])


def descended(start: Values, points: Values, weights: Values, toward: Values, pull: float) -> Values:
    """Where training ends. weights: float64 (n,). pull: lambda and whatever else goes before |w - toward|^2 / 2."""
    w = np.asarray(start, np.float64)
    for _ in range(STEPS):
        w = w - LR * ((weights[:, None] * (w - points)).mean(axis=0) + pull * (w - toward))
    return w


def check_a_pause(scenario: Scenario, folder: Path) -> None:
    """A run of it that pauses half way ends as one that does not: metrics of all rounds, and models to the bit."""
    whole = replace(scenario, evaluate_every=1)
    list(run(whole, folder / "whole"))
    list(run(replace(whole, rounds=whole.rounds // 2), folder / "halves"))
    list(run(whole, folder / "halves", resume=True))
    metrics, models = [], []
    for name in ("whole", "halves"):
        lines = (folder / name / "metrics.jsonl").read_text().splitlines()
        metrics.append([{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines])
        models.append({path.name: path.read_bytes() for path in (folder / name / "models").glob("*.safetensors")})
    assert metrics[0] == metrics[1]
    assert models[0] == models[1]
    assert models[0]


class Toy:
    """An algorithm over a view of these clients. active: who took part, round by round. sent: what each client sent, by round."""

    def __init__(
        self,
        algorithm: Any,
        protection: Any,
        tap: Tap | None = None,
        examples: Callable[[int], Examples] = examples_of,
        seed: int = 3,
    ) -> None:
        self.algorithm, self.examples, self.kept = algorithm, examples, Keeping()
        self.active, self.sent = dict[int, list[int]](), dict[tuple[int, int], LocalWork]()
        self.further = getattr(algorithm, "beside", lambda _: (0, ""))(LABELS)
        models = [np.concatenate([m, np.zeros(self.further[0], np.float32)]) for m in MODELS[: algorithm.models]]
        setup = Setup(
            bytes(16),
            models[0],
            CLIENTS,
            self.work,
            SimulatedEntropy(seed),
            tap,
            others=tuple(models[1:]),
            carried=self.further[1],
        )
        self.view = protection.open(setup)
        others = tuple(Model(f"init {k}") for k in range(1, algorithm.models))
        self.prox = algorithm.local(Training(epochs=1, batch=1, lr=1.0)).prox
        self.state: State = algorithm.init(Start(CLIENTS, {}, Model("init"), 1, others))

    def see(self, client: int, round: int, starts: Sequence[Any], kept: Any) -> SlotInputs:
        whole, own = np.stack(starts), self.examples(client)
        losses = losses_of(whole[:, :D], own.x.double().numpy())
        return SlotInputs(round, whole[:, :D], whole[:, D:], losses, np.ones(len(own), np.int64), own.y.numpy(), len(own), kept)

    def work(self, jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
        for job in jobs:
            self.active.setdefault(job.round, []).append(job.client)

        def done(todo: Sequence[Job]) -> Iterator[NDArray[np.float32]]:
            for job in todo:
                points = job.examples.x.double().numpy()
                weights = np.ones(len(points)) if job.weights is None else job.weights.astype(np.float64)
                end = descended(job.start, points, weights, job.anchor, self.prox * job.pull)
                yield (end - job.start).astype(np.float32)

        own = {job.client: self.examples(job.client) for job in jobs}
        for client, work in filled(
            jobs,
            self.algorithm.in_slots,
            own,
            lambda job: self.see(job.client, job.round, job.starts, self.kept.of(job.client, job.round)),
            done,
            lambda job: 0,
            lambda job, kept: self.kept.keep(job.client, job.round, kept),
        ):
            self.sent[jobs[0].round, client] = work
            yield client, work

    def step(self) -> None:
        self.state = self.algorithm.round(self.state, self.view, np.random.default_rng(self.state.round))
        self.view.harness.retire(self.state.models, self.state.remembered)

    def models(self) -> list[NDArray[np.float32]]:
        """As they are held, with what goes beside them."""
        return [self.view.harness.observe(c.model) for c in self.state.clusters.values()]
