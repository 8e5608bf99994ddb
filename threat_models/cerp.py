"""CerP: a trigger that is tuned within a ball, and poisoned training near clean work and unlike other members' (5.5)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ..fl.data.population import Examples
from ..protocol.view.answers import Vector
from .a3fl import A3FL, PIXELS
from .backdoors import Backdoor
from .knowledge import Colluding, Level, Situation
from .training_attacks import Objective, nothing, trained

NEAR_ZERO = 0.1
"""Of the norm of another member's update, below which that of one's own counts as so much in their cosine."""


@dataclass(frozen=True, slots=True)
class TunedTrigger:
    """A patch that members tune together in every round against the model that they open, for `CerP` to train with.

    tuned: how, without A3FL's second model. radius: the pixels stay so near to `tuned.initial`, in the Euclidean norm over all of
    them: tuning helps the model to take the trigger, so that poisoned training moves it less. The data that members have stay as
    they are. Whoever measures success tests with `given`.
    """

    tuned: A3FL = field(default_factory=lambda: A3FL(0, 0, 3, 3, share=0.5, epochs=10, alpha=0.05, lambda0=0, initial=1.0))
    radius: float = 1.0

    def __post_init__(self) -> None:
        if self.tuned.lambda0 != 0:
            raise ValueError(f"the trigger is tuned against the opened model alone: lambda0 is 0, not {self.tuned.lambda0}")
        if not (self.radius > 0 and isfinite(self.radius)):
            raise ValueError(f"radius is above 0 and finite, not {self.radius}")

    def learn(self, situation: Situation, /) -> dict[str, Vector]:
        """The pixels of this round, float32, from those of the round before."""
        away = self.tuned.learn(situation)[PIXELS] - np.float32(self.tuned.initial)
        length = float(np.linalg.norm(away))
        near = away if length <= self.radius else away * np.float32(self.radius / length)
        return {PIXELS: np.float32(self.tuned.initial) + near}

    def __call__(self, situation: Situation, /) -> Examples:
        return situation.examples

    def given(self, learned: Mapping[str, Vector], /) -> Backdoor:
        """The backdoor with the trigger that members have now."""
        return self.tuned.given(learned)


@dataclass(frozen=True, slots=True)
class CerP:
    """Poisoned training of all members of a session with two penalties (Cerberus Poisoning, Lyu et al., AAAI 2023).

    A member minimises, as clients train, the loss on data half of which is triggered, plus closeness |u - b|^2, with u its update
    and b its own honest one, plus diversity times the mean cosine of u with the updates of other members: near clean work for
    rules that look for what is far, unlike each other for those that look for what is alike. trigger: that the adversary has as
    its data, or a backdoor that is not tuned.

    From the paper's account of its parts; the weights are ours. Members train one after the other, by id, each against those
    before it, where the paper has them all at once. A cosine with an update of nearly 0 is damped.
    """

    trigger: TunedTrigger | Backdoor
    closeness: float = 0.1
    diversity: float = 0.1
    needs: ClassVar[Level] = Level.COLLUDING
    identical: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not (self.closeness >= 0 and self.diversity >= 0 and isfinite(self.closeness + self.diversity)):
            raise ValueError(f"closeness and diversity are finite and not negative, not {self.closeness} and {self.diversity}")

    def __call__(self, coalition: Colluding, /) -> Mapping[int, Vector]:
        sent: dict[int, Vector] = {}
        for member, own in sorted(coalition.own.items()):
            backdoor = self.trigger if isinstance(self.trigger, Backdoor) else self.trigger.given(own.learned)
            poisoned = replace(own, examples=backdoor(own))
            sent[member] = trained(poisoned, self.objective(own.update, [*sent.values()]), nothing)
        return sent

    def objective(self, honest: Vector, others: Sequence[Vector]) -> Objective:
        """Of the loss and the update so far, float32 (d,), what is minimised."""

        def of(loss: Tensor, moved: Tensor) -> Tensor:
            found = loss + self.closeness * ((moved - torch.from_numpy(honest).to(moved.device)) ** 2).sum()
            cosines = [damped_cosine(moved, torch.from_numpy(other).to(moved.device)) for other in others if other.any()]
            return found + self.diversity * torch.stack(cosines).mean() if cosines else found

        return of


def damped_cosine(moved: Tensor, other: Tensor) -> Tensor:
    """Of the angle between two updates (d,), of which the first may be 0, as it is before the first step."""
    length = other.norm()
    own = moved.norm().clamp(min=NEAR_ZERO * float(length))
    cosine: Tensor = torch.dot(moved, other) / (length * own)
    return cosine
