"""DP-SGD of one client (Abadi et al. 2016, Algorithm 1), record by record, as a reader can follow it.

A step samples every record with chance q = batch / N by itself, scales each sampled record's gradient down to norm C over all
trainable parameters, adds them up, adds discrete Gaussian noise of deviation z C to every coordinate, and divides by q N. N is
public (`RecordPrivacy.public`): what a sum is divided by never follows from the records, nor from how many were sampled.
Momentum, weight decay, another optimizer (Adam) and terms that pull to a point work on the noisy gradient, and so cost nothing.

Formal guarantee: the trained model is differentially private for one record as `RecordPrivacy.release` says, whoever knows what
it started from; q is rounded down. Samples and noise come from the job's secret alone, by AES-256; whoever has it has both. Sums
are in float64, with room for rounding; that float32 may round one record's gradient otherwise beside others is not counted.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from ...crypto.prg import KEY_BYTES, derive_key, random_uint64
from ...crypto.samplers import discrete_gaussian
from ..models.vector import load_vector, names_and_shapes, pieces_of, to_vector, trainable
from .fit_module import check_module
from .losses import CROSS_ENTROPY, IGNORED, LossFunction
from .record_privacy import GRID, RecordPrivacy
from .training import Job, Regulariser, Training, check, optimizer_of, summed_loss

Values = NDArray[np.float64]
Sum = Callable[[nn.Module, Job, Tensor, float, str | LossFunction], Tensor]
"""Of a module, a job, positions of its examples, a clip and a loss: the sum of their clipped gradients, float64 (d,)."""

PER_SAMPLE_BYTES = 64_000_000
"""Of gradients of single records that `vectorised` holds at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """Of one step. index: positions of the records that it samples, int64, ascending, of which there may be none.

    noise: whole numbers of the grid, int64 (d,).
    """

    index: Tensor
    noise: NDArray[np.int64] = field(repr=False)


def draws(job: Job, training: Training) -> Iterator[Draw]:
    """Samples and noise of all steps. Raises ValueError for a job without a secret of its own."""
    privacy, count = privacy_of(training), len(job.examples)
    if len(job.secret) != KEY_BYTES:
        raise ValueError(f"client {job.client} trains with noise, and has no secret of {KEY_BYTES} bytes for this training")
    chance = (training.batch << 64) // privacy.public(count)
    for step in range(privacy.steps(count, training.epochs, training.batch)):
        key = derive_key(job.secret, "DP-SGD step", step.to_bytes(4, "big"))
        if chance < 1 << 64:
            sampled = np.flatnonzero(random_uint64(derive_key(key, "sample", b""), count) < np.uint64(chance))
        else:
            sampled = np.arange(count)
        noise = discrete_gaussian(derive_key(key, "noise", b""), len(job.start), Fraction(GRID) ** 2)
        yield Draw(torch.from_numpy(sampled), noise)


def noisy_mean(total: Values, noise: NDArray[np.int64], privacy: RecordPrivacy, expected: int) -> NDArray[np.float32]:
    """What a step goes by: float32 (d,). total: the sum of clipped gradients; it is rounded to the noise's grid.

    expected: what it is divided by (`RecordPrivacy.expected`).
    """
    grid = privacy.deviation / GRID
    return ((np.rint(total / grid) + noise) * (grid / expected)).astype(np.float32)


def one_by_one(local: nn.Module, job: Job, index: Tensor, clip: float, loss_of: str | LossFunction = CROSS_ENTROPY) -> Tensor:
    """See `Sum`: one record after the other."""
    parameters = list(trainable(local).values())
    total = torch.zeros(sum(p.numel() for p in parameters), dtype=torch.float64)
    for at in index.unsqueeze(1):
        x, y, scale = _records(local, job, at)
        loss = summed_loss(local(x), y, loss=loss_of) * scale[0]
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        pieces = [torch.zeros_like(p) if g is None else g for g, p in zip(found, parameters, strict=True)]
        gradient = torch.cat([piece.flatten().cpu() for piece in pieces]).double()
        total += gradient if (norm := float(gradient.norm())) <= clip else clipped(gradient, norm, clip)
    return total


def clipped(gradient: Tensor, norm: float, clip: float) -> Tensor:
    """A longer gradient at norm `clip`; 0 for one that is not finite."""
    return gradient * (clip / norm) if np.isfinite(norm) else torch.zeros_like(gradient)


def vectorised(local: nn.Module, job: Job, index: Tensor, clip: float, loss_of: str | LossFunction = CROSS_ENTROPY) -> Tensor:
    """See `Sum`: of many records at once, by `torch.func`."""
    d = sum(p.numel() for p in trainable(local).values())
    total = torch.zeros(d, dtype=torch.float64)
    for part in torch.split(index, max(1, PER_SAMPLE_BYTES // (4 * d))) if len(index) else ():
        gradients = per_sample(local, *_records(local, job, part), loss_of)
        norms = gradients.double().norm(dim=1)
        scale = torch.where(norms.isfinite(), clip / norms.clamp(min=clip), 0.0)
        if not bool(norms.isfinite().all()):
            gradients = gradients.where(norms.isfinite().unsqueeze(1), 0.0)
        total += (scale @ gradients.double()).cpu()
    return total


def per_sample(local: nn.Module, x: Tensor, y: Tensor, scale: Tensor, loss_of: str | LossFunction = CROSS_ENTROPY) -> Tensor:
    """The gradient of every record's loss, float32 (n, d). scale: float32 (n,), what each summed loss is multiplied by."""
    frozen = {name: p.detach() for name, p in local.named_parameters() if not p.requires_grad}
    frozen |= dict(local.named_buffers())

    def loss(parameters: dict[str, Tensor], x: Tensor, y: Tensor, scale: Tensor) -> Tensor:
        logits: Tensor = functional_call(local, {**frozen, **parameters}, (x.unsqueeze(0),))
        return summed_loss(logits, y.unsqueeze(0), loss=loss_of) * scale

    values = {name: p.detach() for name, p in trainable(local).items()}
    found = vmap(grad(loss), in_dims=(None, 0, 0, 0))(values, x, y, scale)
    return torch.cat([found[name].flatten(1) for name in values], dim=1)


def train_privately(
    module: nn.Module,
    job: Job,
    training: Training,
    round: int,
    also: Regulariser | None = None,
    summed: Sum = one_by_one,
    check_running: Callable[[], None] = lambda: None,
) -> NDArray[np.float32]:
    """The client's update, local model - start: float32, shape (d,). Arguments as of `train_one`; summed: how gradients add up.

    check_running: called before each step; what it raises ends the training. Raises ValueError for a module that is not fit.
    """
    check(job)
    check_module(module, job.examples.x)
    privacy, expected = privacy_of(training), privacy_of(training).expected(len(job.examples), training.batch)
    local = deepcopy(module).train()
    load_vector(local, job.start)
    parameters, shapes = list(trainable(local).values()), names_and_shapes(local)
    device, prox = parameters[0].device, training.prox_in(round)
    anchor = [piece.to(device) for piece in pieces_of(job.anchor, shapes)]
    optimizer = optimizer_of(training, parameters, round)
    for draw in draws(job, training):
        check_running()
        total = summed(local, job, draw.index, privacy.clip, training.loss).numpy()
        gradient = pieces_of(noisy_mean(total, draw.noise, privacy, expected), shapes)
        for parameter, piece, point in zip(parameters, gradient, anchor, strict=True):
            parameter.grad = piece.to(device)
            if prox > 0:
                parameter.grad.add_(parameter.detach() - point, alpha=prox * job.pull)
        if also is not None:
            also(parameters, anchor)
        optimizer.step()
    return to_vector(local) - job.start


def privacy_of(training: Training) -> RecordPrivacy:
    """What the training asks for. Raises ValueError if that is nothing."""
    if training.privacy is None:
        raise ValueError("no privacy was asked of this training")
    return training.privacy


def _records(local: nn.Module, job: Job, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x, y and the factor of each record's summed loss: its weight, over how many of its targets count."""
    device = next(local.parameters()).device
    batch, weights = job.batch(index)
    if batch.y.is_floating_point():
        counted = torch.ones(len(batch.y), dtype=torch.int64)
    else:
        counted = (batch.y != IGNORED).flatten(1).sum(1) if batch.y.ndim > 1 else (batch.y != IGNORED).long()
    scale = counted.clamp(min=1).reciprocal() if weights is None else weights / counted.clamp(min=1)
    return batch.x.to(device), batch.y.to(device), scale.float().to(device)
