"""DP-SGD of many clients' multilayer perceptrons at once, as `dp_sgd.py` does it for one, without any single record's gradient.

Of one record a linear layer's gradient is delta x^T, whose norm is |delta| |x|: so norms over all layers follow from what the
backward pass has anyway (Goodfellow 2015, arXiv:1510.01799), and the sum of clipped gradients is one product with each record's
delta scaled by its clip. Norms, scales and sums are in float64.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from .dp_sgd import Draw, draws, noisy_mean, privacy_of
from .stacked import Pull, Stack, stacked
from .training import Job, Training

Layers = Sequence[tuple[Stack, Stack | None]]


def train_stacked_privately(
    layers: Sequence[nn.Linear],
    jobs: Sequence[Job],
    training: Training,
    round: int,
    device: torch.device,
    pull: Pull | None = None,
) -> list[NDArray[np.float32]]:
    """The update of every job, as `train_privately` gives it. The jobs must be sorted by falling number of steps."""
    privacy = privacy_of(training)
    training = replace(training, prox=training.prox_in(round))
    anchored = training.prox > 0 or pull is not None
    stacks = stacked(layers, jobs, training, device, anchored)
    prox, decay = stacks[0][0].prox.clone(), stacks[0][0].decay.clone()
    drifts, lr = anchored or training.weight_decay > 0, training.lr_in(round)
    expected = [privacy.expected(len(job.examples), training.batch) for job in jobs]
    todo = [draws(job, training) for job in jobs]
    steps = [privacy.steps(len(job.examples), training.epochs, training.batch) for job in jobs]
    with torch.no_grad():
        for step in range(steps[0]):
            active = sum(count > step for count in steps)
            drawn = [next(of) for of in todo[:active]]
            still = [(weight.first(active), bias.first(active) if bias else None) for weight, bias in stacks]
            parts = [part for pair in still for part in pair if part is not None]
            if pull is not None:
                more = pull(parts)
                torch.add(prox[:active], more[0].view(-1, 1, 1), out=parts[0].prox)
                torch.add(decay[:active], more[1].view(-1, 1, 1), out=parts[0].decay)
            totals = sums(still, *batch_of(jobs[:active], drawn, device), privacy.clip).cpu().numpy()
            noisy = np.stack(
                [noisy_mean(t, of.noise, privacy, n) for t, of, n in zip(totals, drawn, expected[:active], strict=True)]
            )
            descend(parts, torch.from_numpy(noisy).to(device), training.momentum, lr, drifts)
    values = [part.value.flatten(1) for pair in stacks for part in pair if part is not None]
    trained = torch.cat(values, 1).cpu().numpy()
    return [local - job.start for local, job in zip(trained, jobs, strict=True)]


def batch_of(jobs: Sequence[Job], drawn: Sequence[Draw], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """What was sampled, side by side: x (k, b, in), labels (k, b, 1) and the weight of each loss (k, b, 1), 0 where filled up."""
    most = max(1, max(len(of.index) for of in drawn))
    width = jobs[0].examples.x[0].numel()
    x, labels = torch.zeros(len(jobs), most, width), torch.zeros(len(jobs), most, 1, dtype=torch.int64)
    share = torch.zeros(len(jobs), most, 1)
    for k, (job, of) in enumerate(zip(jobs, drawn, strict=True)):
        if count := len(of.index):
            batch, weights = job.batch(of.index)
            x[k, :count], labels[k, :count, 0] = batch.x.flatten(1), batch.y
            share[k, :count, 0] = 1.0 if weights is None else weights
    return x.to(device), labels.to(device), share.to(device)


def sums(layers: Layers, x: Tensor, labels: Tensor, share: Tensor, clip: float) -> Tensor:
    """The sums of clipped gradients at the layers' values: float64 (k, d). Arguments as of `stacked.step`."""
    inputs = [x]
    for weight, bias in layers:
        out = inputs[-1] @ weight.value.mT if bias is None else torch.baddbmm(bias.value, inputs[-1], weight.value.mT)
        inputs.append(out.relu_() if len(inputs) < len(layers) else out)
    delta = torch.softmax(inputs.pop(), dim=2)
    delta.scatter_add_(2, labels, torch.full_like(share, -1.0)).mul_(share)
    deltas: list[Tensor] = []
    for number, ((weight, _), below) in reversed(list(enumerate(zip(layers, inputs, strict=True)))):
        deltas.insert(0, delta)
        delta = (delta @ weight.value).mul_(below > 0) if number > 0 else delta
    squares = torch.zeros(share.shape[:2], dtype=torch.float64, device=share.device)
    for (_, bias), delta, below in zip(layers, deltas, inputs, strict=True):
        squares += _squares(delta) * (_squares(below) + (bias is not None))
    finite = squares.isfinite()
    scale = torch.where(finite, clip / squares.sqrt().clamp(min=clip), 0.0).unsqueeze(2)
    found: list[Tensor] = []
    for (_, bias), delta, below in zip(layers, deltas, inputs, strict=True):
        kept, under = delta.double(), below.double()
        if not bool(finite.all()):  # 0 times what is not finite is not 0
            kept, under = (part.where(finite.unsqueeze(2), 0.0) for part in (kept, under))
        kept = kept * scale
        found.append((kept.mT @ under).flatten(1))
        if bias is not None:
            found.append(kept.sum(1))
    return torch.cat(found, 1)


def descend(parts: Sequence[Stack], gradient: Tensor, momentum: float, lr: float, drifts: bool) -> None:
    """One step of SGD in place; decay and pull use the value before it. gradient: float32 (k, d), in the order of the parts."""
    start = 0
    for part in parts:
        size = part.value[0].numel()
        by = gradient[:, start : start + size].view_as(part.value)
        start += size
        if drifts:
            by = by + part.value * part.decay + (part.value - part.anchor) * part.prox
        if momentum:
            by = part.velocity.mul_(momentum).add_(by)
        part.value.add_(by, alpha=-lr)


def _squares(values: Tensor) -> Tensor:
    """Of every record: float64 (k, b)."""
    return values.double().square().sum(2)
