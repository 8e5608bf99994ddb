"""Local training of a meta-model, from which one gradient step makes a client's own (Per-FedAvg: Fallah et al., NeurIPS 2020).

The gradient of F_i(w) = f_i(w - alpha grad f_i(w)) is (I - alpha Hess f_i(w)) grad f_i(w'), w' = w - alpha grad f_i(w). First
order leaves the Hessian out; Hessian-free takes its product with a vector from two gradients (the paper's FO and HF), at points
that are delta from w whatever the vector's length.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..data.population import Examples
from ..models.draws import own_draws
from ..models.vector import load_vector, to_vector, trainable
from .training import Job, Training, check, full_gradient, mean_loss, minibatches
from .ways import OneByOne, Way, played

Vector = NDArray[np.float32]
PARTS = {"first order": 2, "Hessian-free": 3}
"""Batches of a step, each of other examples."""


@dataclass(frozen=True, slots=True)
class MetaSteps:
    """An `Executor`. alpha: the step that makes a client's own model. delta: how far from w its two gradients are taken.

    Steps on w are of the training's lr, beta of the paper; momentum, decay and prox are refused. A step takes two or three
    batches, cut from one draw of as many examples; where fewer are left than batches, there is no step.
    """

    alpha: float
    kind: Literal["first order", "Hessian-free"] = "first order"
    delta: float = 1e-3

    def __post_init__(self) -> None:
        if not (0 < self.alpha < np.inf and 0 < self.delta < np.inf):
            raise ValueError(f"alpha and delta are above 0 and finite, not {self.alpha} and {self.delta}")
        if self.kind not in PARTS:
            raise ValueError(f"kind is {' or '.join(map(repr, PARTS))}, not {self.kind!r}")

    def __call__(self, module: nn.Module, jobs: Sequence[Job], training: Training, round: int, /) -> Iterator[tuple[int, Vector]]:
        return played(self.way(module, jobs, training, round), module, jobs, training, round)

    def way(self, module: nn.Module, jobs: Sequence[Job], training: Training, round: int) -> Way:
        """One client after the other. Raises ValueError where the training is not of plain gradients."""
        if training.momentum or training.weight_decay or training.prox:
            raise ValueError("meta steps are of plain gradients: leave momentum, weight_decay and prox at 0")
        if not training.plain:
            raise ValueError("meta steps are of SGD on cross entropy: leave training.loss and training.optimizer as they are")
        if training.privacy is not None:
            raise ValueError("meta steps take gradients of other gradients, which DP-SGD does not cover: leave privacy at None")
        if any(job.weights is not None for job in jobs):
            raise ValueError("meta steps are of examples that count alike: leave their weights out")
        return Way(train=OneByOne(self.train_one), chunk=max(1, len(jobs)), workers=0)

    def train_one(self, module: nn.Module, job: Job, training: Training, round: int) -> Vector:
        """The client's update, meta-model - start: float32, shape (d,)."""
        check(job)
        local, parts = deepcopy(module).train(), PARTS[self.kind]
        load_vector(local, job.start)
        w, beta = list(trainable(local).values()), training.lr_in(round)
        with own_draws(job.seed):
            for index in minibatches(job, replace(training, batch=parts * training.batch)):
                if len(index) >= parts:
                    batches = [job.examples.take(part) for part in torch.tensor_split(index, parts)]
                    added(w, self.meta_gradient(local, w, batches), -beta)
        return to_vector(local) - job.start

    def meta_gradient(self, local: nn.Module, w: Sequence[Tensor], batches: Sequence[Examples]) -> list[Tensor]:
        """An estimate of grad F_i(w), each gradient on a batch of its own. w: the module's parameters; unchanged in the end."""
        before = [tensor.detach().clone() for tensor in w]
        added(w, gradient(local, w, batches[0]), -self.alpha)
        d = gradient(local, w, batches[1])  # at w'
        restored(w, before)
        if self.kind == "first order":
            return d
        apart = []
        length = float(torch.sqrt(sum((tensor.square().sum() for tensor in d), torch.zeros(()))))
        if length == 0:
            return d
        step = self.delta / length
        drawn = torch.get_rng_state()
        for sign in (1, -1):
            torch.set_rng_state(drawn)  # the same units dropped out: what is divided by delta is the gradients' difference alone
            added(w, d, sign * step)
            apart.append(gradient(local, w, batches[2]))
            restored(w, before)
        return [g - self.alpha * (up - down) / (2 * step) for g, up, down in zip(d, *apart, strict=True)]


def adapted(module: nn.Module, job: Job, alpha: float) -> Vector:
    """A client's own model, w - alpha grad f_i(w) on all of its training data: float32, shape (d,)."""
    found: Vector = job.start - np.float32(alpha) * full_gradient(module, job)
    return found


def gradient(local: nn.Module, w: Sequence[Tensor], batch: Examples) -> list[Tensor]:
    """Of the mean loss on the batch, at the module's parameters w."""
    device = w[0].device
    loss = mean_loss(local(batch.x.to(device)), batch.y.to(device))
    return list(torch.autograd.grad(loss, list(w)))


def added(w: Sequence[Tensor], direction: Sequence[Tensor], step: float) -> None:
    """w += step times the direction, in place."""
    with torch.no_grad():
        for tensor, by in zip(w, direction, strict=True):
            tensor.add_(by, alpha=step)


def restored(w: Sequence[Tensor], before: Sequence[Tensor]) -> None:
    """w as it was, in place."""
    with torch.no_grad():
        for tensor, value in zip(w, before, strict=True):
            tensor.copy_(value)
