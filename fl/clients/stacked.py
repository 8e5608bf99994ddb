"""Many clients' multilayer perceptrons trained at once: one batched matrix product a layer instead of one product a client.

A small model spends its time in the overhead of operations, not in arithmetic. Here the weights of k clients stand in one tensor
(k, out, in), and forward pass, backward pass and step are written out for linear layers with ReLU between them. Gradients go
straight into the momentum (or the weights), so each weight is touched as few times as possible.

Unequal clients are exact: a batch that is shorter is filled up with rows of weight 0, and clients stand in the order of falling
numbers of steps, so that those still at work are always the first ones.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..models.papers import EmbeddingAndHead
from ..models.vector import trainable
from .training import Job, Training, orders


def linear_layers(module: nn.Module) -> list[nn.Linear] | None:
    """The linear layers, first to last, if the module is (flatten,) linear, ReLU, ..., linear, and all of it is trained."""
    layers = in_order(module)
    if layers and isinstance(first := layers[0], nn.Flatten) and (first.start_dim, first.end_dim) == (1, -1):
        layers = layers[1:]
    linear = [layer for layer in layers[::2] if type(layer) is nn.Linear]
    alternating = (
        len(layers) % 2 == 1 and len(linear) == len(layers[::2]) and all(type(layer) is nn.ReLU for layer in layers[1::2])
    )
    owned = [parameter for layer in linear for parameter in layer.parameters()]
    complete = list(map(id, owned)) == [id(parameter) for parameter in trainable(module).values()]
    return linear if alternating and complete and not hooked(module) else None


def in_order(module: nn.Module) -> list[nn.Module]:
    """The layers in the order in which they are applied; a module that may not apply its children in order counts as one."""
    if type(module) not in (nn.Sequential, EmbeddingAndHead):
        return [module]
    return [layer for child in module.children() for layer in in_order(child)]


def hooked(module: nn.Module) -> bool:
    """Whether someone listens to, or changes, what passes through the module."""
    return any(part._forward_hooks or part._forward_pre_hooks or part._backward_hooks for part in module.modules())


def stackable(layers: Sequence[nn.Linear], jobs: Sequence[Job]) -> bool:
    """Whether the jobs' data are what `train_stacked` computes with: inputs as wide as the first layer, a label for each."""
    return all(
        job.examples.x.dtype == torch.float32
        and job.examples.x[0].numel() == layers[0].in_features
        and job.examples.y.ndim == 1
        and int(job.examples.y.min()) >= 0
        for job in jobs
    )


def steps(job: Job, training: Training) -> int:
    """Number of SGD steps that the job takes."""
    if training.privacy is not None:
        return training.privacy.steps(len(job.examples), training.epochs, training.batch)
    return training.epochs * -(-len(job.examples) // training.batch)


@dataclass(frozen=True, slots=True, eq=False)
class ExampleOrder:
    """Which example every client uses when. Row = position in the examples of all jobs, one job after the other.

    rows: int64 (steps, k, batch). share: float32 (steps, k, batch), the weight of the example's loss, 1 if it has none, / size
    of the minibatch, or 0 where the batch is filled up.
    active: how many clients, counted from the first, take part in each step.
    """

    rows: Tensor
    share: Tensor
    active: list[int]


def plan(jobs: Sequence[Job], training: Training) -> ExampleOrder:
    """The minibatches of all jobs side by side. The jobs must be sorted by falling number of steps."""
    counts = [steps(job, training) for job in jobs]
    batch = min(training.batch, max(len(job.examples) for job in jobs))
    rows = np.zeros((counts[0], len(jobs), batch), np.int64)
    share = np.zeros((counts[0], len(jobs), batch), np.float32)
    first = 0
    for k, job in enumerate(jobs):
        rows[:, k] = first  # filled up with an example of its own: 0 times another's that is not finite is not 0
        size, at = len(job.examples), 0
        whole, rest = divmod(size, training.batch)
        cuts = [cut for cut in ((whole, training.batch), (1, rest)) if all(cut)]  # of an epoch: so many minibatches, of this size
        for order in orders(job, training):
            used = 0
            for many, width in cuts:
                index = order[used : used + many * width].reshape(many, width)
                rows[at : at + many, k, :width] = index + first
                share[at : at + many, k, :width] = np.float32(1 / width) * (1 if job.weights is None else job.weights[index])
                at, used = at + many, used + many * width
        first += size
    active = [sum(count > step for count in counts) for step in range(counts[0])]
    return ExampleOrder(torch.from_numpy(rows), torch.from_numpy(share), active)


def batches(jobs: Sequence[Job], training: Training, device: torch.device) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """What `step` computes with, step by step: inputs, labels and weights of the clients that still are at work.

    Where every step takes all that a client has, the order within it is of no account: examples are laid side by side once.
    """
    once = all(len(job.examples) <= training.batch for job in jobs)
    todo = plan(jobs, replace(training, epochs=1) if once else training)
    x = torch.cat([job.examples.x.flatten(1) for job in jobs]).to(device)
    y = torch.cat([job.examples.y for job in jobs]).to(device)
    for active, rows, share in zip(todo.active, todo.rows.to(device), todo.share.to(device), strict=True):
        index = rows[:active].flatten()
        inputs = x.index_select(0, index).view(active, rows.shape[1], -1)
        batch = inputs, y.index_select(0, index).view(active, -1, 1), share[:active].unsqueeze(2)
        yield from repeat(batch, training.epochs if once else 1)


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """One parameter of k clients, its velocity and the value it is pulled to. Weights: (k, out, in); biases: (k, 1, out).

    What the training does not use (velocity without momentum, anchor without a pull) is the value itself. prox, decay: (k, 1, 1),
    how strongly each client is pulled to the anchor, and to 0; all of a client's parameters share them.
    """

    value: Tensor
    velocity: Tensor
    anchor: Tensor
    prox: Tensor
    decay: Tensor

    def first(self, active: int) -> "Stack":
        """The same memory, of the first clients only."""
        return Stack(*(part[:active] for part in (self.value, self.velocity, self.anchor, self.prox, self.decay)))


Pull = Callable[[Sequence[Stack]], tuple[Tensor, Tensor]]
"""Of all parameters before a step, (prox, decay), float32 (k,), beside the training's: a pull whose strength goes with them."""


@dataclass(frozen=True, slots=True, eq=False)
class Descent:
    """SGD in place: velocity = momentum * velocity + gradient; value = value - lr * velocity."""

    training: Training
    lr: float
    drifts: bool

    def __call__(self, stack: Stack, left: Tensor, right: Tensor) -> None:
        """One step where `left @ right` is the gradient of the loss; decay and pull use the value before the step."""
        momentum = self.training.momentum
        drift = stack.value * stack.decay + (stack.value - stack.anchor) * stack.prox if self.drifts else None
        if momentum:
            stack.velocity.baddbmm_(left, right, beta=momentum)
            if drift is not None:
                stack.velocity.add_(drift)
            stack.value.add_(stack.velocity, alpha=-self.lr)
        else:
            stack.value.baddbmm_(left, right, alpha=-self.lr)
            if drift is not None:
                stack.value.add_(drift, alpha=-self.lr)


def train_stacked(
    layers: Sequence[nn.Linear],
    jobs: Sequence[Job],
    training: Training,
    round: int,
    device: torch.device,
    pull: Pull | None = None,
) -> list[NDArray[np.float32]]:
    """The update of every job, as `train_one` gives it. The jobs must be sorted by falling number of steps."""
    training = replace(training, prox=training.prox_in(round))
    anchored = training.prox > 0 or pull is not None
    stacks = stacked(layers, jobs, training, device, anchored)
    descent = Descent(training, training.lr_in(round), anchored or training.weight_decay > 0)
    prox, decay = stacks[0][0].prox.clone(), stacks[0][0].decay.clone()
    with torch.no_grad():
        for inputs, labels, share in batches(jobs, training, device):
            active = len(inputs)
            still = [(weight.first(active), bias.first(active) if bias else None) for weight, bias in stacks]
            if pull is not None:
                more = pull([part for pair in still for part in pair if part is not None])
                first = still[0][0]
                torch.add(prox[:active], more[0].view(-1, 1, 1), out=first.prox)
                torch.add(decay[:active], more[1].view(-1, 1, 1), out=first.decay)
            step(still, inputs, labels, share, descent)
    values = [part.value.flatten(1) for pair in stacks for part in pair if part is not None]
    trained = torch.cat(values, 1).cpu().numpy()
    return [local - job.start for local, job in zip(trained, jobs, strict=True)]


def stacked(
    layers: Sequence[nn.Linear], jobs: Sequence[Job], training: Training, device: torch.device, anchored: bool
) -> list[tuple[Stack, Stack | None]]:
    """The start of every job as (weights, biases) of each layer, in memory of their own. anchored: whether they are pulled."""
    starts = torch.from_numpy(np.stack([job.start for job in jobs])).to(device)
    anchors = torch.from_numpy(np.stack([job.anchor for job in jobs])).to(device) if anchored else starts

    prox = torch.tensor([training.prox * job.pull for job in jobs], device=device).view(-1, 1, 1)
    decay = torch.full_like(prox, training.weight_decay)

    def cut(shape: tuple[int, int]) -> Stack:
        nonlocal starts, anchors
        size = shape[0] * shape[1]
        value, starts = starts[:, :size].reshape(-1, *shape).clone(), starts[:, size:]
        anchor, anchors = anchors[:, :size].reshape(-1, *shape), anchors[:, size:]
        velocity = torch.zeros_like(value) if training.momentum else value
        return Stack(value, velocity, anchor if anchored else value, prox, decay)

    return [
        (cut((layer.out_features, layer.in_features)), cut((1, layer.out_features)) if layer.bias is not None else None)
        for layer in layers
    ]


def step(layers: Sequence[tuple[Stack, Stack | None]], x: Tensor, labels: Tensor, share: Tensor, descent: Descent) -> None:
    """One step of k clients: forward, then backward, each layer changed once the layer below has its gradient.

    x: (k, b, in). labels: int64 (k, b, 1). share: (k, b, 1), the weight of each example in its client's loss.
    """
    inputs = [x]
    for weight, bias in layers:
        out = inputs[-1] @ weight.value.mT if bias is None else torch.baddbmm(bias.value, inputs[-1], weight.value.mT)
        inputs.append(out.relu_() if len(inputs) < len(layers) else out)
    delta = inputs.pop()
    delta.sub_(delta.amax(2, keepdim=True)).exp_()  # by hand: torch's softmax is several times slower along so short a dimension
    delta.div_(delta.sum(2, keepdim=True))
    delta.scatter_add_(2, labels, torch.full_like(share, -1.0)).mul_(share)  # gradient of the cross entropy at the logits
    ones = torch.ones_like(share).mT
    for number, ((weight, bias), below) in reversed(list(enumerate(zip(layers, inputs, strict=True)))):
        passed = (delta @ weight.value).mul_(below > 0) if number > 0 else delta
        descent(weight, delta.mT, below)
        if bias is not None:
            descent(bias, ones, delta)
        delta = passed
