"""Clients whose losses are quadratic, so that every round of an algorithm is known in float64, and runs of them under a view."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cloister.crypto.entropy import SimulatedEntropy
from cloister.fl.algorithms.algorithm import Start
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.core.link import Tap
from cloister.protocol.view.answers import Model
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import Protection, Setup
from cloister.protocol.view.work import LocalJob, LocalWork

M, D, LR, STEPS = 12, 240, 0.25, 2
CLIENTS = tuple(range(M))
GROUPS = ((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11))
START = np.random.default_rng(9).uniform(-0.1, 0.1, D).astype(np.float32)
Values = NDArray[np.float64]
EVERY: list[Any] = [
    (Plain(floor=2), 2e-6),
    (Permuted(floor=2), 2e-6),
    (Masked(floor=2, keys="run"), 2e-3),
    (Masked(floor=2), 2e-3),
    (TwoServer(floor=2), 2e-3),
    pytest.param(Encrypted(floor=2), 2e-3, marks=pytest.mark.slow),
]
"""Protections, and how far a coordinate of a model may be from the paper's."""


def giving(*needed: Functionality) -> list[Any]:
    """Those of them that give all of this."""
    return [one for one in EVERY if {*needed} <= getattr(one, "values", one)[0].gives]


def named(value: Any) -> str:
    """Of a protection, for a test's name."""
    by = " by session" if getattr(value, "keys", "") == "session" else ""
    return type(value).__name__ + by if hasattr(value, "gives") else str(value)


def target(client: int) -> Values:
    """Three groups of four, whose targets are in directions of their own; every client's is a little off."""
    found = np.zeros(D)
    found[client // 4 :: 3] = 0.8
    return found + 0.02 * np.random.default_rng(100 + client).standard_normal(D)


def gradient(client: int, model: Any) -> Values:
    """Of |model - target|^2 / 2."""
    found: Values = np.asarray(model, np.float64) - target(client)
    return found


def trained(client: int, model: Any) -> Values:
    """What a client's local training ends with."""
    found: Values = np.asarray(model, np.float64)
    for _ in range(STEPS):
        found = found - LR * gradient(client, found)
    return found


def samples(client: int) -> int:
    """Not all alike, but so much that none outweighs the rest of its group."""
    return 4 + client % 3


Result = Callable[[LocalJob], Values]


def result(job: LocalJob) -> Values:
    """Of work of the usual kinds."""
    return gradient(job.client, job.start) if job.work == "gradient" else trained(job.client, job.start) - job.start


class Run:
    """A view over these clients, and an algorithm's state over it. active: who worked, by round and kind of work."""

    def __init__(
        self,
        algorithm: Any,
        protection: Protection,
        silent: Sequence[tuple[int, int]] = (),
        of: Result = result,
        present: Sequence[int] = CLIENTS,
        embedders: Any = None,
        tap: Tap | None = None,
    ) -> None:
        self.algorithm, self.silent, self.of = algorithm, set(silent), of
        self.active = dict[tuple[int, str], list[int]]()
        apart = getattr(algorithm, "starts_apart", False)
        setup = Setup(bytes(16), START, CLIENTS, self.work, SimulatedEntropy(3), tap, embedders=embedders, starts_apart=apart)
        self.view: Any = protection.open(setup)
        self.state: Any = algorithm.init(Start(tuple(present), {}, Model("init"), 1))

    def work(self, jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
        for job in jobs:
            self.active.setdefault((job.round, job.work), []).append(job.client)
            if (job.round, job.client) not in self.silent:
                yield job.client, LocalWork(self.of(job).astype(np.float32), samples(job.client))

    def step(self) -> None:
        self.state = self.algorithm.round(self.state, self.view, np.random.default_rng(self.state.round))
        self.view.harness.retire(self.state.models, self.state.remembered)

    @property
    def members(self) -> tuple[tuple[int, ...], ...]:
        return tuple(sorted(c.members for c in self.state.clusters.values()))

    def models(self) -> dict[tuple[int, ...], NDArray[np.float32]]:
        return {c.members: self.view.harness.observe(c.model) for c in self.state.clusters.values()}


def mean(clients: Sequence[int], models: dict[int, Values] | Values, by_samples: bool = True) -> Values:
    """Of what these clients' training from a model, or from one each, ends with."""
    found: Values = np.average(
        [trained(i, models[i] if isinstance(models, dict) else models) for i in clients],
        axis=0,
        weights=[samples(i) if by_samples else 1 for i in clients],
    )
    return found


def farthest(ours: dict[tuple[int, ...], NDArray[np.float32]], papers: dict[tuple[int, ...], Values]) -> float:
    """The largest difference of a coordinate; the clusters must agree."""
    assert ours.keys() == papers.keys()
    return max(float(np.abs(ours[c] - papers[c]).max()) for c in ours)
