"""The audits of local training with noise: DP-SGD of a client, as its executors run it and its ledger charges it.

What is played is `Spending.admit` (the ledger, and the secret of each training) and then the executor: samples, gradients, clip,
noise, normaliser, and several steps in each round. Seen is all that the server sees: the update of every round, from a start that
the server chose. Beside each update stands its norm, as a score that is linear cannot see that noise has another size. Gradients
by `torch.func`, which `Fast` takes for other models, are held equal to these by the tests of training.

There are two labels, so that the gradients of one record under either label point in opposite directions. Clips are far below
any gradient, so that records move a sum as far as they may. Where trials are repeated the audited record is an outlier: its input
has no coordinate in common with others', and is so much longer that what bounds the mean of all gradients does not bound its own.
The server's models show it at its strongest: neither label is likelier than the other, and what it moves in the second round is
opposite to what it moves in the first, so that noise that is the same in both goes away in their difference.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from ...crypto.entropy import SimulatedEntropy
from ...fl.clients.fast import Fast
from ...fl.clients.record_privacy import RecordPrivacy
from ...fl.clients.spending import Spending
from ...fl.clients.training import Executor, Job, PlainLoop, Training
from ...fl.data.population import Examples
from ...fl.models.papers import Mlp, initial
from . import names
from .bound import Floats
from .mechanism import Auditor, InOneRun, Mechanism

LOOP, STACKED, SAMPLED, RARE = names.LOOP, names.STACKED, names.SAMPLED, names.RARE
ROUNDS = 2
CLIENT = 1
CLASSES = 2
HIDDEN = 1
NARROW, WIDE = 2, 8
"""Coordinates of an input: half of them others', and half the audited record's. WIDE: so many that the noise's size shows."""
RECORDS, EPOCHS = 8, 4
"""Of the stacked path, without sampling: each epoch is a step."""
PUBLIC, BATCH = 128, 64
"""Of the paths that sample: a record may be missing, so the number of records is a public one."""
FEW, RARELY = 64, 8
"""The same two where it is rarely sampled."""
OUTLIER = 3000.0
"""Norm of the audited record's input; others' coordinates are from 1 to 2."""
SLOW = 0.003
"""Rate at which the noise hardly moves what the outlier's gradient is."""
CANARIES, SPLIT = 800, 2
"""Records of the one run, and the steps of each of its rounds."""
FAR = 20.0
"""Norm of a canary's input, in one run."""
SURE = 0.6
"""Weight that the server gives all canaries of the loop in the second round, so that one label has next to no gradient."""
Rows = NDArray[np.float32]


def examples(count: int, label: int | None, rows: int = RECORDS, width: int = NARROW) -> Examples:
    """Records with label 0 and inputs in the first half of the coordinates; and, in the other half, one with this label, if any.

    rows: how many there are with it, and without it one less. width: of inputs, (1, 1, width) each. count: seed of the inputs.
    """
    half = width // 2
    rng = np.random.default_rng([count, 0x5D])
    x, y = np.zeros((rows, width), np.float32), np.zeros(rows, np.int64)
    x[: rows - 1, :half] = 1 + rng.random((rows - 1, half))
    x[rows - 1, half:] = OUTLIER / np.sqrt(width - half)
    if label is None:
        x, y = x[:-1], y[:-1]
    else:
        y[-1] = label
    return Examples(torch.from_numpy(x.reshape(-1, 1, 1, width)), torch.from_numpy(y))


def trained(
    executor: Executor, factory: Mlp, training: Training, starts: Sequence[Rows], data: Examples, seeds: Sequence[int]
) -> tuple[Floats, Spending]:
    """The updates of all rounds of one client, once for each seed of its secrets: float64 (seeds, rounds, d); and the ledgers of
    the last. Raises ValueError where it would not train."""
    module = initial(factory, tuple(data.x.shape[1:]), CLASSES, 0)
    clients = [Spending.of(training, SimulatedEntropy(seed), (CLIENT,), lambda _: ()) for seed in seeds]
    found = []
    for round, start in enumerate(starts):
        jobs = []
        for spending in clients:
            admitted, reasons = spending.admit([Job(CLIENT, start, data, 0)])
            if reasons:
                raise ValueError(reasons[CLIENT])
            jobs += admitted
        found.append(np.stack([update for _, update in executor(module, jobs, training, round)]).astype(np.float64))
    return np.stack(found, axis=1), clients[-1]


def seen(updates: Floats) -> Floats:
    """All updates and their norms: float64 (n, k), of (n, rounds, d)."""
    norms = np.linalg.norm(updates, axis=2)
    return np.concatenate([updates.reshape(len(updates), -1), norms], axis=1)


def starts(rounds: int, width: int = NARROW) -> tuple[Rows, ...]:
    """The models that the server sends, float32 (d,) each: one hidden unit, at 1 for the audited record, which is for one label
    and against the other, and in every other round the other way round."""
    first = np.full(width, 1 / (OUTLIER * np.sqrt(width - width // 2)))
    second = np.array([0.1, -0.1])
    parts = [(first, np.zeros(HIDDEN), (-1) ** round * second, np.zeros(CLASSES)) for round in range(rounds)]
    return tuple(np.concatenate(of).astype(np.float32) for of in parts)


def _audited(name: str, rounds: int, training: Training, pair: tuple[Examples, Examples], gaussian: bool) -> Mechanism:
    """Of two neighbouring data sets, by the stacked path: trials are clients that train at once."""
    factory, sent, executor = Mlp(hidden=(HIDDEN,)), starts(rounds, pair[0].x.shape[-1]), Fast(workers=1)

    def play_all(neighbour: bool, seeds: Sequence[int], /) -> Floats:
        return seen(trained(executor, factory, training, sent, pair[neighbour], seeds)[0])

    spent = trained(executor, factory, training, sent, pair[0], (0,))[1].ledgers[CLIENT]
    auditor: Auditor = "GDP" if gaussian else "Clopper-Pearson"
    return Mechanism(
        name,
        spent.spent,
        spent.delta,
        gaussian,
        auditor,
        lambda neighbour, seed: play_all(neighbour, (seed,))[0],
        play_all,
        spent.unit,
    )


def stacked() -> Mechanism:
    """Unit: one record, replaced by itself with the other label. Every step is of all records. The claim is large, as noise that
    is a little too small shows in few trials where the whole of it is small already."""
    privacy = RecordPrivacy(clip=0.01, multiplier=2.25, budget=1e3, delta=1e-5)
    training = Training(epochs=EPOCHS, batch=RECORDS, lr=SLOW, privacy=privacy)
    return _audited(STACKED, ROUNDS, training, (examples(1, 0), examples(1, 1)), True)


def sampled() -> Mechanism:
    """Unit: one record, there or missing. Every step samples half of the records, as many as would be of a public number."""
    privacy = RecordPrivacy(clip=0.0025, multiplier=6.0, budget=1e3, delta=1e-5, adjacency="add or remove", records=PUBLIC)
    training = Training(epochs=1, batch=BATCH, lr=SLOW, privacy=privacy)
    pair = examples(2, None, PUBLIC + 1, WIDE), examples(2, 1, PUBLIC + 1, WIDE)
    return _audited(SAMPLED, ROUNDS, training, pair, False)


def rare() -> Mechanism:
    """Unit: as in `sampled`. One round, whose steps sample an eighth of the records: little noise for a step, of which a record
    that is in all of them would make out next to none. The claim is at a large delta, where rare trials tell most."""
    privacy = RecordPrivacy(clip=0.01, multiplier=1.0, budget=1e3, delta=0.02, adjacency="add or remove", records=FEW)
    training = Training(epochs=2, batch=RARELY, lr=SLOW, privacy=privacy)
    return _audited(RARE, 1, training, (examples(2, None, FEW + 1), examples(2, 1, FEW + 1)), False)


def loop() -> InOneRun:
    """Unit: one of a client's records, each of which has an input coordinate of its own and a label by a coin of its own."""
    privacy = RecordPrivacy(clip=0.0025, multiplier=16.0, budget=1e3, delta=1e-5)
    training = Training(epochs=SPLIT, batch=CANARIES, lr=1.0, privacy=privacy)
    factory, x = Mlp(hidden=()), FAR * torch.eye(CANARIES)
    first = np.zeros(CLASSES * (CANARIES + 1), np.float32)
    second = first.copy()
    second[:CANARIES] = SURE

    def released(coins: NDArray[np.bool_], seed: int) -> tuple[Floats, Spending]:
        data = Examples(x, torch.from_numpy(coins.astype(np.int64)))
        updates, after = trained(PlainLoop(), factory, training, (first, second), data, (seed,))
        weights = updates[0][:, : CLASSES * CANARIES].reshape(ROUNDS, CLASSES, CANARIES)
        scale = weights.std(axis=2, keepdims=True).mean(axis=1, keepdims=True)  # of a round, if something scaled all of it
        return (weights / scale).reshape(ROUNDS * CLASSES, CANARIES).T, after

    half = np.arange(CANARIES) % 2 == 0
    way, after = released(half, 0)
    moved = way - released(~half, 0)[0]  # the same noise on both sides
    towards = (moved[half] - moved[~half]).mean(axis=0)
    spent = after.ledgers[CLIENT]

    def play(coins: NDArray[np.bool_], seed: int, /) -> tuple[Floats, Floats]:
        return released(coins, seed)[0], towards

    return InOneRun(LOOP, spent.spent, spent.delta, True, CANARIES, CANARIES // 10, play, spent.unit)
