"""Work for slots: a client is given K models, weighs them by its losses, and works from each that it gives a share.

The algorithm says how (`InSlots`); the client's computer does it. What it sends is K vectors and K whole shares, of which the
protocol sums each slot by itself.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...protocol.view.work import LocalJob, LocalWork
from ..data.population import Examples
from .training import Job

Losses = NDArray[np.float64]
Shares = Callable[[Losses, int], Sequence[int]]
"""The client's shares in the slots, whole numbers of 0 or more and not all 0, of its mean losses (K,) and its samples."""
Vectors = Iterator[NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class InSlots:
    """What clients do for slots. kind: what is in a slot, the update of local training from its model, or the full gradient."""

    shares: Shares
    kind: Literal["update", "gradient"] = "update"


def least(losses: Losses, samples: int) -> tuple[int, ...]:
    """All of the client in the slot of the least loss; of several, in the first."""
    best = int(np.argmin(losses))
    return tuple(int(k == best) for k in range(len(losses)))


def filled(
    jobs: Sequence[LocalJob],
    work: InSlots,
    examples: Mapping[int, Examples],
    losses: Callable[[LocalJob], Losses],
    do: Callable[[Sequence[Job]], Vectors],
    seed: Callable[[LocalJob], int],
    samples: Mapping[int, int],
) -> Iterator[tuple[int, LocalWork]]:
    """The slots of every job. losses: of a job's models, on the client's examples. do: what `work.kind` says, in the jobs' order.

    samples: what each client says that it has.
    """
    shares = {job.client: tuple(work.shares(losses(job), samples[job.client])) for job in jobs}
    chosen = [(job, k) for job in jobs for k, share in enumerate(shares[job.client]) if share]
    found = do([Job(job.client, job.starts[k], examples[job.client], seed(job)) for job, k in chosen])
    rows = {(job.client, k): vector for (job, k), vector in zip(chosen, found, strict=True)}
    for job in jobs:
        vectors = np.zeros((len(job.starts), len(job.start)), np.float32)
        for k in (k for k, share in enumerate(shares[job.client]) if share):
            vectors[k] = rows[job.client, k]
        yield job.client, LocalWork(vectors, samples[job.client], shares[job.client])
