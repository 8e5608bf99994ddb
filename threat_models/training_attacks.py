"""Attacks on a member's training: ascent, constrain-and-scale, projected descent, Neurotoxin, and fragmentation.

The loop is that of `fl.clients.training.train_one` (same minibatches, optimizer and order of parameters) with an objective, a
change of the gradient and a projection after each step.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ..fl.clients.training import Job, check, mean_loss, minibatches
from ..fl.field_ranges import need_least, need_numbers
from ..fl.models.draws import own_draws
from ..fl.models.vector import load_vector, names_and_shapes, pieces_of, to_vector, trainable
from ..protocol.view.answers import Vector
from .knowledge import Situation

Objective = Callable[[Tensor, Tensor], Tensor]
"""Of the mean loss of a minibatch and the parameters minus the start, one flat tensor (d,) with its gradient."""
AfterStep = Callable[[list[nn.Parameter], list[Tensor]], None]
"""Told of the parameters and of what they started from; changes the parameters in place."""
Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""Of a module on a minibatch: inputs and labels, on the module's device."""


def cross_entropy(module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The loss that clients train with."""
    return mean_loss(module(x), y)


def trained(situation: Situation, objective: Objective, after_step: AfterStep, loss: Loss = cross_entropy) -> Vector:
    """The update of SGD on the objective: float32 (d,). Parameters that the loss does not reach stay exactly as they are."""
    job = Job(situation.member, situation.start, situation.examples, situation.training_seed)
    check(job)
    training = situation.training
    local = deepcopy(situation.module).train()
    load_vector(local, job.start)
    parameters = list(trainable(local).values())
    anchors = [parameter.detach().clone() for parameter in parameters]
    device = parameters[0].device
    optimizer = torch.optim.SGD(
        parameters, lr=training.lr_in(situation.round), momentum=training.momentum, weight_decay=training.weight_decay
    )
    with own_draws(job.seed):
        for index in minibatches(job, training):
            batch = job.examples.take(index)
            optimizer.zero_grad()
            moved = torch.cat([(p - a).flatten() for p, a in zip(parameters, anchors, strict=True)])
            torch.autograd.backward(objective(loss(local, batch.x.to(device), batch.y.to(device)), moved))
            optimizer.step()
            with torch.no_grad():
                after_step(parameters, anchors)
    return to_vector(local) - job.start


def nothing(parameters: list[nn.Parameter], anchors: list[Tensor], /) -> None:
    """No projection."""


def into_ball(radius: float) -> AfterStep:
    """The nearest parameters within `radius` of where they started."""

    def project(parameters: list[nn.Parameter], anchors: list[Tensor]) -> None:
        square = sum(float(((p - a).double() ** 2).sum()) for p, a in zip(parameters, anchors, strict=True))
        if square > radius**2:
            for parameter, anchor in zip(parameters, anchors, strict=True):
                parameter.sub_(anchor).mul_(radius / square**0.5).add_(anchor)

    return project


def bounded(vector: Vector, bound: float) -> Vector:
    """The vector, cut to this norm."""
    norm = float(np.linalg.norm(vector))
    return vector if norm <= bound else vector * np.float32(bound / norm)


@dataclass(frozen=True, slots=True)
class GradientAscent:
    """Trains with the negative loss (Shejwalkar et al. 2022). radius: the parameters are kept within it; inf for no bound."""

    radius: float = inf

    def __post_init__(self) -> None:
        need_least(self, 0, "radius", endless=True)

    def __call__(self, situation: Situation, /) -> Vector:
        return trained(situation, lambda loss, moved: -loss, into_ball(self.radius) if self.radius < inf else nothing)


@dataclass(frozen=True, slots=True)
class ConstrainAndScale:
    """Minimises alpha L_class + (1 - alpha) L_anomaly, then scales (Bagdasaryan et al. 2020, section 3, algorithm 1).

    L_anomaly, which has a gradient: |w - w_t|^2, or 1 - cos(w, w_t). scale: of the update; bound: norm of the result.
    """

    alpha: float = 0.7
    anomaly: Literal["distance", "cosine"] = "distance"
    scale: float = 1.0
    bound: float = inf

    def __post_init__(self) -> None:
        need_numbers(self, "scale")
        need_least(self, 0, "bound", endless=True)
        if not 0 <= self.alpha <= 1 or self.anomaly not in ("distance", "cosine"):
            raise ValueError('alpha is from 0 to 1, and anomaly is "distance" or "cosine"')

    def __call__(self, situation: Situation, /) -> Vector:
        device = next(situation.module.parameters()).device
        start = torch.from_numpy(situation.start.copy()).to(device)

        def objective(loss: Tensor, moved: Tensor) -> Tensor:
            if self.anomaly == "distance":
                anomaly = (moved**2).sum()
            else:
                anomaly = 1 - functional.cosine_similarity(start + moved, start, dim=0)
            return self.alpha * loss + (1 - self.alpha) * anomaly

        return bounded(np.float32(self.scale) * trained(situation, objective, nothing), self.bound)


@dataclass(frozen=True, slots=True)
class ProjectedDescent:
    """Keeps the parameters within `radius` of the start during training (Sun et al. 2019), then scales the update."""

    radius: float
    scale: float = 1.0

    def __post_init__(self) -> None:
        need_least(self, 0, "radius", endless=True)
        need_numbers(self, "scale")

    def __call__(self, situation: Situation, /) -> Vector:
        return np.float32(self.scale) * trained(situation, lambda loss, moved: loss, into_ball(self.radius))


@dataclass(frozen=True, slots=True)
class Neurotoxin:
    """Trains only the coordinates outside of the top `ratio` by absolute value of the last aggregate (Zhang et al. 2022).

    The aggregate is what the global model changed by since members last opened it; without one, all coordinates are trained.
    bound: norm of the result.
    """

    ratio: float = 0.1
    bound: float = inf
    looks_back: ClassVar[bool] = True

    def __post_init__(self) -> None:
        need_least(self, 0, "bound", endless=True)
        if not 0 <= self.ratio < 1:
            raise ValueError(f"ratio is from 0 to below 1, not {self.ratio}")

    def __call__(self, situation: Situation, /) -> Vector:
        if situation.previous is None:
            return bounded(trained(situation, lambda loss, moved: loss, nothing), self.bound)
        used = most_used(situation.start - situation.previous, self.ratio)
        device = next(situation.module.parameters()).device
        shapes = names_and_shapes(situation.module)
        masks = [piece.to(device).bool() for piece in pieces_of(used.astype(np.float32), shapes)]

        def leave_used(parameters: list[nn.Parameter], anchors: list[Tensor]) -> None:
            for parameter, anchor, mask in zip(parameters, anchors, masks, strict=True):
                parameter.copy_(torch.where(mask, anchor, parameter))

        return bounded(trained(situation, lambda loss, moved: loss, leave_used), self.bound)


def most_used(aggregate: Vector, ratio: float) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Whether a coordinate is among the `ratio` of them with the largest absolute values: bool (d,). Ties go to the first."""
    count = round(ratio * len(aggregate))
    used = np.zeros(len(aggregate), dtype=bool)
    used[np.argsort(-np.abs(aggregate), kind="stable")[:count]] = True
    return used
