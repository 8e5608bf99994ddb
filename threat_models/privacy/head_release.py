"""The audit of what clients of `PrivateCFL` release: noisy means of clipped gradients of a public model's last layer.

One run, through the clients' own computers (`OwnComputer.release`) and `HeadGradients`, as `pair_releases` has it. Every record
of client 1 is a canary with an input coordinate, and so coordinates of the gradient, of its own; a coin is its label, of two. A
rotation mixes all coordinates, so canaries are estimated by least squares, from blocks of what is released.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from ...fl.algorithms.private_cfl import PrivateCFL
from ...fl.clients.head_gradients import HeadGradients
from ...fl.data.population import Client, Examples
from ...fl.models.papers import SoftmaxRegression
from ...protocol.pairs.noise import Noise
from ...protocol.pairs.projection import drawn
from . import names
from .bound import Floats
from .mechanism import InOneRun
from .pair_releases import SECRET, asked, released

NAME = names.HEAD_GRADIENTS
CLASSES = 2
RECORDS, WIDTH = 100, 400
"""Of each client, all of them released in one mean; and coordinates of their inputs, so many that a part of the release tells."""
FAR = 100.0
"""Norm of an input; a gradient's is .7 of it."""
PARTS = 6
"""Blocks of the release's coordinates, from each of which all canaries are estimated by themselves."""


def head_gradients(multiplier: float = 8.0) -> InOneRun:
    """Unit: one record of client 1. The server sees client 2's release beside client 1's."""
    noise = Noise(clip=0.05, multiplier=multiplier, reference_multiplier=1.0, budget=1e3, delta=1e-5)
    choice, x = PrivateCFL(noise=noise, records=RECORDS).choice, FAR * torch.eye(RECORDS, WIDTH)
    model = SoftmaxRegression()((WIDTH,), CLASSES)

    def own(coins: NDArray[np.bool_]) -> HeadGradients:
        labels = coins, np.zeros(RECORDS)
        data = [Examples(x, torch.from_numpy(y.astype(np.int64))) for y in labels]
        return HeadGradients({i: Client(i, of, of) for i, of in enumerate(data, 1)}, model, RECORDS, lambda i: i)

    nobody = own(np.zeros(RECORDS, np.bool_))
    away = noise.clipped(nobody.embed(1, "train", None))  # of label 0: of label 1 they are the opposite
    away = away[np.argsort(np.argmax(away[:, WIDTH + 1 :], axis=1))]  # in the order of the canaries
    turned = away @ drawn(asked(choice, nobody, 1), SECRET)
    blocks = np.array_split(np.arange(turned.shape[1]), PARTS)
    solved = [np.linalg.pinv(turned[:, block].T) for block in blocks]

    def play(coins: NDArray[np.bool_], seed: int, /) -> tuple[Floats, Floats]:
        computers = own(coins)
        means = [released(choice, computers, i, seed)[0].own.astype(np.float64).ravel() for i in (1, 2)]
        each = [solve @ mean[block] for mean in means for block, solve in zip(blocks, solved, strict=True)]
        return np.stack(each, axis=1), np.repeat([-1.0, 0.0], PARTS)

    ledger = released(choice, nobody, 1, 0)[1]
    return InOneRun(NAME, ledger.spent, ledger.delta, True, RECORDS, RECORDS // 2, play, ledger.unit)
