"""Chameleon: the encoder learns to see poisoned images as images of the target class, then the classifier follows (5.5)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ..fl.emd.embedding import LAST_LINEAR
from ..fl.field_ranges import need_above, need_numbers, need_whole
from ..fl.models.vector import trainable
from ..fl.runs.simulation import seed_of
from ..protocol.view.answers import Vector
from .knowledge import Situation
from .label_attacks import check_among, check_class, labels_alone
from .training_attacks import AfterStep, bounded, nothing, trained


@dataclass(frozen=True, slots=True)
class Chameleon:
    """Trains the encoder with a supervised contrastive loss, then the last linear layer alone (Dai and Li 2023).

    For durability: an image with the trigger is moved to its peers with the label that the attacker wants, away from its peers
    with the label that it had. Stage one is `contrastive_epochs` of `contrastive_loss` over the poisoned examples, stage two
    `classifier_epochs` of cross entropy on the encoder as it is then; None: as many as the clients'. Examples are poisoned by
    `Adversary.data`, whose label y* is `target`. encoder_lr: of stage one; None for the clients' rate. scale: of the update;
    bound: norm of the result.

    The loss, its temperature, the epochs of stage one and the weight are those of the authors' code for a pixel trigger
    (github.com/ybdai7/Chameleon-durable-backdoor), which weights anchors of the target class with 6. Not as there: learning rates
    do not fall within a round, the factor on similarities to peers of the old class is left out (it is 1 there), and the norm is
    bounded at the end instead of after each step.
    """

    target: int = 0
    weight: float = 6.0
    temperature: float = 0.07
    contrastive_epochs: int = 10
    encoder_lr: float | None = None
    classifier_epochs: int | None = None
    scale: float = 1.0
    bound: float = inf

    def __post_init__(self) -> None:
        need_numbers(self, "scale")
        need_above(self, 0, "temperature", "weight", "encoder_lr")
        need_above(self, 0, "bound", endless=True)
        need_whole(self, 1, "contrastive_epochs", "classifier_epochs")
        check_class("target", self.target)

    def __call__(self, situation: Situation, /) -> Vector:
        check_among(self, situation.classes)
        labels_alone(situation.examples)
        head, training = head_of(situation.module), situation.training
        first = replace(training, epochs=self.contrastive_epochs, lr=self.encoder_lr or training.lr)
        second = training if self.classifier_epochs is None else replace(training, epochs=self.classifier_epochs)
        seed = seed_of(situation.training_seed, "encoder")

        def contrastive(local: nn.Module, x: Tensor, y: Tensor) -> Tensor:
            return contrastive_loss(features(local, head, x), y, self.temperature, self.target, self.weight)

        adapted = replace(situation, training=first, training_seed=seed)
        encoder = trained(adapted, lambda loss, moved: loss, nothing, contrastive)
        frozen = replace(situation, training=second, start=situation.start + encoder)
        classifier = trained(frozen, lambda loss, moved: loss, all_but(head, situation.module))
        return bounded(np.float32(self.scale) * (encoder + classifier), self.bound)


def contrastive_loss(features: Tensor, y: Tensor, temperature: float, target: int, weight: float) -> Tensor:
    """Supervised contrastive loss (Khosla et al. 2020, L_out) of a minibatch: features (n, D), labels int64 (n,).

    With z the features on the unit sphere and P(i) the other examples with the label of i, the mean over all n anchors of
    -w_i / |P(i)| sum over p in P(i) of log(exp(z_i z_p / temperature) / sum over a other than i of exp(z_i z_a / temperature)).
    w_i: `weight` for anchors of the target class, else 1. An anchor without any p counts 0.
    """
    z = functional.normalize(features, dim=1)
    others = ~torch.eye(len(y), dtype=torch.bool, device=y.device)
    positive = (y[:, None] == y[None, :]) & others
    peers = positive.sum(1)
    anchors = peers > 0
    if not bool(anchors.any()):
        return 0 * z.sum()
    similar = z @ z.T / temperature
    log_share = similar - torch.logsumexp(similar.masked_fill(~others, -inf), dim=1, keepdim=True)
    of_anchor = -torch.where(positive, log_share, 0.0).sum(1)[anchors] / peers[anchors]
    weights = torch.where(y[anchors] == target, weight, 1.0)
    return (weights * of_anchor).sum() / len(y)


def head_of(module: nn.Module) -> str:
    """The name of the last linear layer. Raises ValueError where the head is something else."""
    name = LAST_LINEAR.head_of(module)
    if not isinstance(module.get_submodule(name), nn.Linear):
        raise ValueError(f"the model's head {name!r} is no linear layer; take a model that ends with one")
    return name


def features(module: nn.Module, head: str, x: Tensor) -> Tensor:
    """What the head is given when the module works on x: (n, D)."""
    seen: list[Tensor] = []
    keep: Callable[[nn.Module, tuple[Tensor, ...]], None] = lambda _, inputs: seen.append(inputs[0])  # noqa: E731
    hook = module.get_submodule(head).register_forward_pre_hook(keep)
    try:
        module(x)
    finally:
        hook.remove()
    if len(seen) != 1 or seen[0].ndim != 2:
        raise ValueError(f"the model's last linear layer {head!r} does not take one vector an input, once")
    return seen[0]


def all_but(head: str, module: nn.Module) -> AfterStep:
    """Puts all parameters but the head's back to what they started from, after each step."""
    held = [not name.startswith(f"{head}.") for name in trainable(module)]

    def hold(parameters: list[nn.Parameter], anchors: list[Tensor]) -> None:
        for parameter, anchor, kept in zip(parameters, anchors, held, strict=True):
            if kept:
                parameter.copy_(anchor)

    return hold
