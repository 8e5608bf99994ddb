"""A3FL: a trigger that members learn, against the model that they open and against one that has unlearned it (5.5)."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np
import torch
from torch import Tensor, nn

from ..fl.clients.training import Job, mean_loss, minibatches
from ..fl.data.population import Examples
from ..fl.models.vector import load_vector
from ..fl.runs.simulation import seed_of
from ..protocol.view.answers import Vector
from .backdoors import Backdoor
from .knowledge import Situation
from .label_attacks import check_among, check_class, check_rate, labels_alone
from .training_attacks import nothing, trained
from .triggers import Patch, Pixels, check_images, put

PIXELS = "trigger"
"""What is learned: the values of `triggers.Pixels`, float32 (channels x height x width,), from 0 to 1."""


@dataclass(frozen=True, slots=True)
class A3FL:
    """BadNets with a trigger that is learned anew in every round, from that of the round before (Zhang et al. 2023).

    delta minimises the mean of L(x + delta, y*; theta) + lambda L(x + delta, y*; theta'), with theta the model that was opened
    and theta' the same trained to take triggered examples for what they are, argmin L(x + delta, y; .); lambda is lambda0
    cos(theta', theta). "+" puts delta in place of the pixels of a rectangle: row, column of its upper left corner, height,
    width. `epochs` passes over the learner's examples, each minibatch moves every pixel by alpha against the sign of its
    gradient, cut to [0, 1]; theta' is trained as clients train, for `adversarial_epochs`, at first and then after every `every`
    passes. initial: the value that all pixels start with. target: y*; share: of the examples of other classes that is triggered.

    The numbers are those of the authors' code (github.com/hfzhang31/A3FL), where too one member a round learns. Not as there:
    lambda is the paper's, where the code has the mean cosine of gradients of the convolutions; pixels are cut to the range of
    images, where it cuts normalised ones to [-2, 2]; theta' is there from the first pass, not from the second.

    Members share the trigger, so the adversary needs Level.COLLUDING. Who measures success tests with `given`.
    """

    row: int = 2
    column: int = 2
    height: int = 5
    width: int = 5
    target: int = 0
    share: float = 0.25
    epochs: int = 200
    alpha: float = 0.01
    lambda0: float = 0.01
    adversarial_epochs: int = 5
    every: int = 1
    initial: float = 0.5

    def __post_init__(self) -> None:
        check_class("target", self.target)
        check_rate("share", self.share)
        check_rate("initial", self.initial)
        if min(self.row, self.column) < 0 or min(self.height, self.width) < 1:
            raise ValueError("row and column are 0 or more, height and width at least 1")
        if self.epochs < 1 or self.adversarial_epochs < 1 or self.every < 1:
            raise ValueError("epochs, adversarial_epochs and every are at least 1")
        if not (self.alpha > 0 and self.lambda0 >= 0 and isfinite(self.alpha + self.lambda0)):
            raise ValueError(f"alpha is above 0 and lambda0 not negative, not {self.alpha} and {self.lambda0}")

    def learn(self, situation: Situation, /) -> dict[str, Vector]:
        """The trigger of this round. Models that it is held against are in evaluation mode."""
        check_among(self, situation.classes)
        labels_alone(situation.examples)
        check_images(situation.examples.x)
        device = next(situation.module.parameters()).device
        shape = (situation.examples.x.shape[1], self.height, self.width)
        before = situation.learned.get(PIXELS, np.full(int(np.prod(shape)), self.initial, np.float32))
        pixels = torch.from_numpy(before.reshape(shape).copy()).to(device)
        opened = fixed(situation.module, situation.start)
        models = [(1.0, opened)]
        for epoch in range(self.epochs):
            if epoch % self.every == 0 and self.lambda0 > 0:
                unlearned = self._unlearned(situation, pixels.cpu(), epoch)
                weight = self.lambda0 * cosine(unlearned, situation.start)
                models = [(1.0, opened), (weight, fixed(situation.module, unlearned))]
            job = Job(situation.member, situation.start, situation.examples, seed_of(situation.training_seed, "trigger", epoch))
            for index in minibatches(job, replace(situation.training, epochs=1)):
                pixels.requires_grad_()
                loss = self.objective(models, situation.examples.x[index].to(device), pixels)
                (gradient,) = torch.autograd.grad(loss, pixels)
                step = self.alpha * torch.nan_to_num(gradient.sign())
                pixels = (pixels.detach() - step).clamp(0, 1)
        return {PIXELS: pixels.cpu().numpy().ravel()}

    def objective(self, models: Sequence[tuple[float, nn.Module]], x: Tensor, pixels: Tensor) -> Tensor:
        """The sum of the models' weighted mean losses for y* on the images with these pixels (channels, height, width)."""
        triggered = put(x, pixels, self.row, self.column)
        wanted = torch.full((len(x),), self.target, device=x.device)
        return torch.stack([weight * mean_loss(model(triggered), wanted) for weight, model in models]).sum()

    def __call__(self, situation: Situation, /) -> Examples:
        if PIXELS not in situation.learned:
            raise ValueError("A3FL's trigger is learned by the harness: name it as the adversary's data, not inside of an attack")
        return self.given(situation.learned)(situation)

    def given(self, learned: Mapping[str, Vector], /) -> Backdoor:
        """The backdoor with the trigger that members have now; before they have learned any, with a grey one."""
        place = (self.row, self.column, self.height, self.width)
        if PIXELS not in learned:
            return Backdoor(Patch(*place, self.initial), self.target, self.share)
        return Backdoor(Pixels(*place, tuple(float(v) for v in learned[PIXELS])), self.target, self.share)

    def _unlearned(self, situation: Situation, pixels: Tensor, epoch: int) -> Vector:
        """theta': float32 (d,)."""
        examples = situation.examples
        stamped = replace(examples, x=put(examples.x, pixels, self.row, self.column))
        training = replace(situation.training, epochs=self.adversarial_epochs)
        seed = seed_of(situation.training_seed, "unlearned", epoch)
        after = replace(situation, examples=stamped, training=training, training_seed=seed)
        return situation.start + trained(after, lambda loss, moved: loss, nothing)


def fixed(module: nn.Module, vector: Vector) -> nn.Module:
    """A copy of the module with these parameters, in evaluation mode, of which no gradient is taken."""
    model = deepcopy(module).eval()
    load_vector(model, vector)
    return model.requires_grad_(False)


def cosine(a: Vector, b: Vector) -> float:
    """Of the angle between two models, 0 where one is zero."""
    norms = float(np.linalg.norm(a.astype(np.float64))) * float(np.linalg.norm(b.astype(np.float64)))
    return float(a.astype(np.float64) @ b.astype(np.float64)) / norms if norms > 0 else 0.0
