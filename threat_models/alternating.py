"""Alternating minimisation: a boosted step towards the poison, a step back towards looking honest (attack of group 5.5)."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ..fl.data.population import Examples
from ..fl.field_ranges import need_above, need_least
from ..fl.runs.simulation import seed_of
from ..protocol.view.answers import Vector
from .attack import DataAttack
from .knowledge import Situation
from .training_attacks import nothing, trained


def poisoned_part(clean: Examples, poisoned: Examples) -> Examples:
    """The poisoned examples whose input or label the poison changed."""
    changed = (clean.x != poisoned.x).flatten(1).any(1) | (clean.y != poisoned.y).reshape(len(clean), -1).any(1)
    return poisoned.take(torch.nonzero(changed).flatten())


@dataclass(frozen=True, slots=True)
class AlternatingMinimisation:
    """Every epoch: a pass over the poisoned examples, whose step is multiplied by `boost`, then one over the clean ones.

    Bhagoji et al. 2019, section 3.4. The clean pass minimises the loss plus rho |u - u_last|^2, u the update so far and u_last
    what the global model last changed by (0 at first); the paper has the norm without the square. poison: what is done to the
    member's own examples, which come to it clean: leave `Adversary.data` out. Where it changes none, only rho is felt.
    """

    poison: DataAttack
    boost: float = 10.0
    rho: float = 1e-4
    looks_back: ClassVar[bool] = True

    def __post_init__(self) -> None:
        need_above(self, 0, "boost")
        need_least(self, 0, "rho")

    def __call__(self, situation: Situation, /) -> Vector:
        clean = situation.examples
        marked = poisoned_part(clean, self.poison(situation))
        once = replace(situation, training=replace(situation.training, epochs=1))
        usual = np.zeros_like(situation.start) if situation.previous is None else situation.start - situation.previous
        device = next(situation.module.parameters()).device
        w = situation.start
        for epoch in range(situation.training.epochs):
            if len(marked):
                seed = seed_of(situation.training_seed, "boosted", epoch)
                step = trained(replace(once, start=w, examples=marked, training_seed=seed), lambda loss, moved: loss, nothing)
                w = w + np.float32(self.boost) * step
            away = torch.from_numpy(w - situation.start - usual).to(device)

            def stealth(loss: Tensor, moved: Tensor, away: Tensor = away) -> Tensor:
                return loss + self.rho * ((moved + away) ** 2).sum()

            seed = seed_of(situation.training_seed, "stealth", epoch)
            w = w + trained(replace(once, start=w, examples=clean, training_seed=seed), stealth, nothing)
        return w - situation.start
