"""Layer-wise poisoning: only the layers on which the backdoor rests are poisoned (attack of group 5.5)."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import torch
from torch import nn

from ..fl.clients.training import EVALUATION_BATCH
from ..fl.data.population import Examples
from ..fl.models.vector import load_vector, names_and_shapes
from ..protocol.view.answers import Vector
from .alternating import poisoned_part
from .attack import DataAttack
from .knowledge import Situation
from .label_attacks import check_rate, labels_alone
from .training_attacks import nothing, trained

Rate = Callable[[Vector], float]


def layers_of(module: nn.Module) -> dict[str, slice]:
    """Where every layer lies in the vector, by the name of the submodule that holds its parameters, in the vector's order."""
    found: dict[str, slice] = {}
    at = 0
    for name, shape in names_and_shapes(module).items():
        layer, stop = name.rpartition(".")[0], at + prod(shape)
        found[layer] = slice(found[layer].start if layer in found else at, stop)
        at = stop
    return found


def critical(benign: Vector, malicious: Vector, layers: dict[str, slice], rate: Rate, share: float) -> tuple[str, ...]:
    """The layers, in the order in which they were found, that carry `share` of the malicious model's success rate.

    Layer substitution analysis (Zhuang et al. 2024, section 3): layers are ordered by how much the rate falls when the
    malicious model gets the benign layer instead, equals in the model's order; then they are put into the benign model one by
    one until its rate is enough.
    """
    full = rate(malicious)
    falls = {name: full - rate(_with(malicious, benign, at)) for name, at in layers.items()}
    chosen: list[str] = []
    built = benign
    for name in sorted(falls, key=lambda layer: -falls[layer]):
        if rate(built) >= share * full:
            break
        built = _with(built, malicious, layers[name])
        chosen.append(name)
    return tuple(chosen)


def _with(model: Vector, other: Vector, at: slice) -> Vector:
    changed = model.copy()
    changed[at] = other[at]
    return changed


@dataclass(frozen=True, slots=True)
class CriticalLayers:
    """The honest update, with those layers of a backdoored one without which the backdoor fails (Zhuang et al. 2024).

    The backdoored model is trained on from the honest one with the poisoned examples. share: of its success rate, which the
    upload must keep, judged on the member's own poisoned examples. poison: what is done to the member's examples, which come to
    it clean: leave `Adversary.data` out. The paper's scaling of the layers to the mean of the others is not done here.
    """

    poison: DataAttack
    share: float = 0.95

    def __post_init__(self) -> None:
        check_rate("share", self.share)

    def __call__(self, situation: Situation, /) -> Vector:
        poisoned = self.poison(situation)
        marked = poisoned_part(situation.examples, poisoned)
        honest = trained(situation, lambda loss, moved: loss, nothing)
        if not len(marked):
            return honest
        benign = situation.start + honest
        after = replace(situation, start=benign, examples=poisoned)
        malicious = benign + trained(after, lambda loss, moved: loss, nothing)
        layers = layers_of(situation.module)
        update = honest.copy()
        for name in critical(benign, malicious, layers, success_on(marked, situation.module), self.share):
            update[layers[name]] = malicious[layers[name]] - situation.start[layers[name]]
        return update


def success_on(marked: Examples, module: nn.Module) -> Rate:
    """The share of these examples that a model, a vector (d,), takes for their labels."""
    local, y = deepcopy(module).eval(), labels_alone(marked)
    device = next(local.parameters()).device

    def rate(model: Vector) -> float:
        load_vector(local, model)
        with torch.no_grad():
            found = [local(x.to(device)).argmax(1).cpu() for x in torch.split(marked.x, EVALUATION_BATCH)]
        return float(np.mean((torch.cat(found) == y).numpy()))

    return rate
