"""The audit of noise that a trusted server adds to the sums that it publishes: the shipped view, from task to model.

Each trial is `ROUNDS` rounds of all clients under `Plain(noise=CentralNoise(...))`; what is seen are the models that follow.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from ...crypto.entropy import SimulatedEntropy
from ...protocol.privacy.ledger import Ledger
from ...protocol.uploaded.central import CentralNoise
from ...protocol.uploaded.plain import Plain
from ...protocol.view.answers import Assignment, Model, Sum, Weights
from ...protocol.view.protection import Setup
from ...protocol.view.work import LocalJob, LocalWork
from . import names
from .bound import Floats
from .mechanism import Mechanism
from .noisy_sum import AUDITED, CLIENTS, ROUNDS, D, update

NAME = names.CENTRAL_SUM
NOISE = CentralNoise(epsilon=10.0, delta=1e-5, rounds=ROUNDS, l2=1.0)


def central_sum() -> Mechanism:
    """Unit: a client; its updates of both rounds are replaced by zeros. The claim is the ledger's, after both sums."""
    ledger = _played(False, 0)[1]

    def play(neighbour: bool, seed: int, /) -> Floats:
        return _played(neighbour, seed)[0]

    return Mechanism(NAME, ledger.spent, ledger.delta, True, "GDP", play, unit=ledger.unit)


def _played(neighbour: bool, seed: int) -> tuple[Floats, Ledger]:
    """How the model moved in each round, float64 (ROUNDS * D,), and the ledger of the audited client."""

    def work(jobs: Sequence[LocalJob]) -> Iterator[tuple[int, LocalWork]]:
        for job in jobs:
            yield job.client, LocalWork(update(job.client, job.round, neighbour), 10)

    initial = np.zeros(D, np.float32)
    view = Plain(noise=NOISE).open(Setup(bytes(range(16)), initial, CLIENTS, work, SimulatedEntropy(seed)))
    weights, seen = {"root": Weights(dict.fromkeys(CLIENTS, 1.0))}, []
    for round in range(ROUNDS):
        answer = view.train_and_sum(round, {"root": Assignment(Model("init"), CLIENTS, CLIENTS)}, weights)["root"]
        if not isinstance(answer, Sum):
            raise ValueError(f"no sum of round {round}")
        seen.append(view.harness.observe(view.advance(Model("init"), answer)).astype(np.float64) - initial)
    return np.concatenate(seen), view.record.ledgers[AUDITED, "client"]
