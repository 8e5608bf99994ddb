"""Work for slots: a client is given K models, weighs them by its losses, and works on those that it takes to.

The algorithm says how (`InSlots`); the client's computer does it. What it sends is K vectors and K whole shares, of which the
protocol sums each slot by itself. What it keeps from round to round (how it weighs the models, a model of its own) it keeps to
itself: no party of the protocol is told.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...protocol.view.work import LocalJob, LocalWork, Unwilling
from ..data.population import Examples
from .keeping import Kept
from .training import Job

Vector = NDArray[np.float32]
Values = NDArray[np.float64]
Admit = Callable[[Sequence[Job]], tuple[Sequence[Job], Mapping[int, str]]]
"""Of jobs, those that clients do, in the same order, and why others do none of theirs."""


@dataclass(frozen=True, slots=True, eq=False)
class SlotInputs:
    """What a client weighs models by. models: float32 (K, d). beside: float32 (K, s), numbers that came with each of them.

    losses: float64 (K, n), of each model the mean loss of each example's targets, infinite where it is not a number. targets:
    (n,), how many of an example count. y: int64 labels, (n,) or (n, length). samples: what the client says that it has. kept:
    what it kept of the rounds before. round: that it is asked in.
    """

    round: int
    models: Vector = field(repr=False)
    beside: Vector = field(repr=False)
    losses: Values = field(repr=False)
    targets: NDArray[np.int64] = field(repr=False)
    y: NDArray[np.int64] = field(repr=False)
    samples: int
    kept: Kept = field(repr=False)

    @property
    def mean(self) -> Values:
        """Of each model, its mean loss: float64 (K,)."""
        return np.asarray((self.losses * self.targets).sum(axis=1) / max(1, self.targets.sum()))


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """One local training, from `start`. slots: those that its end is put into. weights, toward, pull: as in `Job`.

    kept_as: what the client keeps its end as; empty if not at all.
    """

    start: Vector = field(repr=False)
    slots: tuple[int, ...]
    weights: Vector | None = field(default=None, repr=False)
    toward: Vector | None = field(default=None, repr=False)
    pull: float = 1.0
    kept_as: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class SlotWork:
    """What a client does. shares: whole numbers of 0 or more, not all 0; a slot with a share is in the `slots` of one piece.

    kept: what it keeps, in the place of what it kept before. beside: float32 (K, s), its part of the numbers beside each model:
    their mean, weighted by shares, takes the place of those that came.
    """

    shares: tuple[int, ...]
    pieces: tuple[Piece, ...]
    kept: Kept = field(default_factory=dict, repr=False)
    beside: Vector | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class InSlots:
    """What clients do for slots. kind: what is in a slot, the difference of where training ends from the slot's model, or the
    full gradient at the piece's start.

    uses: the weights, float64 (K,), by which a client predicts with the models: the mean of their probabilities. It is with the
    model of the largest, of several with the first. by: which examples are seen; "validation" are those held out, or the training
    examples where none are. own: what a client predicts with instead, by the name that it keeps that model under.
    """

    plan: Callable[[SlotInputs], SlotWork]
    uses: Callable[[SlotInputs], Values]
    kind: Literal["update", "gradient"] = "update"
    by: Literal["training", "validation"] = "training"
    own: str = ""


def one_hot(k: int, count: int) -> Values:
    """All of the weight on one of `count` models."""
    return np.asarray(np.arange(count) == k, np.float64)


def best(seen: SlotInputs) -> Values:
    """All of the weight on the model of the least mean loss; of several, on the first."""
    return one_hot(int(np.argmin(seen.mean)), len(seen.models))


def least(seen: SlotInputs) -> SlotWork:
    """All of the client in the slot of the model of the least mean loss, and trained from it."""
    k = int(np.argmin(seen.mean))
    return SlotWork(tuple(int(slot == k) for slot in range(len(seen.models))), (Piece(seen.models[k], (k,)),))


def filled(
    jobs: Sequence[LocalJob],
    work: InSlots,
    examples: Mapping[int, Examples],
    see: Callable[[LocalJob], SlotInputs],
    do: Callable[[Sequence[Job]], Iterator[Vector]],
    seed: Callable[[LocalJob], int],
    keep: Callable[[LocalJob, Kept], None],
    admit: Admit = lambda jobs: (jobs, {}),
) -> Iterator[tuple[int, LocalWork | Unwilling]]:
    """The slots of every job. do: what `work.kind` says, in the jobs' order. keep: takes what the client keeps."""
    seen = {job.client: see(job) for job in jobs}
    plans = {client: work.plan(found) for client, found in seen.items()}
    todo = [_job(job, piece, examples[job.client], seed(job)) for job in jobs for piece in plans[job.client].pieces]
    admitted, reasons = admit(todo)
    vectors: dict[int, list[Vector]] = {job.client: [] for job in jobs}
    for own, vector in zip(admitted, do(admitted), strict=True):
        vectors[own.client].append(vector)
    yield from ((client, Unwilling(reason)) for client, reason in reasons.items())
    for job in (job for job in jobs if job.client not in reasons):
        found, plan = seen[job.client], plans[job.client]
        rows = np.zeros_like(found.models)
        ends = {}
        for piece, vector in zip(plan.pieces, vectors.pop(job.client), strict=True):
            for k in piece.slots:
                as_is = work.kind == "gradient" or np.array_equal(piece.start, found.models[k])
                rows[k] = vector if as_is else piece.start + vector - found.models[k]
            if piece.kept_as:
                ends[piece.kept_as] = piece.start + vector
        keep(job, {**plan.kept, **ends})
        if plan.beside is not None:
            rows = np.concatenate([rows, (plan.beside - found.beside).astype(np.float32)], axis=1)
        yield job.client, LocalWork(rows, found.samples, plan.shares)


def _job(job: LocalJob, piece: Piece, examples: Examples, seed: int) -> Job:
    """Weights of 1 are none, so that whatever counts every example alike does the same arithmetic."""
    weights = None if piece.weights is None or bool((piece.weights == 1).all()) else piece.weights
    return Job(job.client, piece.start, examples, seed, piece.toward, piece.pull, weights)
