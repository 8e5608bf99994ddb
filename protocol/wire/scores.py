"""How well clients' models do: asked of each, which says so or not. Spec: specs/scores.md."""

import math
import struct
from dataclasses import dataclass, field
from typing import ClassVar

from .fields import MOST_SAMPLES, by_kind, integer, octets
from .messages import MAX_MODELS
from .recipes import names

MOST_ROUND = (1 << 31) - 1
FLOAT32 = (2 - 2**-23) * 2.0**127
NOT_SAID = struct.pack(">d", 0.0)


@dataclass(frozen=True, slots=True)
class Evaluate:
    """Server to client: say how well you predict with these models, now that so many rounds are over.

    models: names, of one model, or of all those that the client weighs for itself.
    """

    kind: ClassVar[int] = 33
    rounds: int
    models: tuple[str, ...]

    def __post_init__(self) -> None:
        integer(self.rounds, 1, MOST_ROUND, "rounds")
        names(self.models, "models")
        if len(self.models) > MAX_MODELS:
            raise ValueError(f"models are more than {MAX_MODELS} names")


@dataclass(frozen=True, slots=True)
class Score:
    """Client to server: of its own test records. targets: how many there are; 0 where it does not say. right: how many of them
    it predicts. loss: the mean cross entropy in nats, big-endian float64, infinite where it is not a number.

    which: the place of the model that it goes by most.
    """

    kind: ClassVar[int] = 34
    targets: int
    right: int = 0
    loss: bytes = field(default=NOT_SAID)
    which: int = 0

    def __post_init__(self) -> None:
        integer(self.targets, 0, MOST_SAMPLES, "targets")
        integer(self.right, 0, self.targets, "right")
        octets(self.loss, 8, 8, "loss")
        integer(self.which, 0, MAX_MODELS - 1, "which")
        if math.isnan(self.nats) or math.copysign(1.0, self.nats) < 0:
            raise ValueError("loss is no number of 0 or more")
        if not self.targets and (self.loss != NOT_SAID or self.which):
            raise ValueError("a score of no targets says nothing else")

    @property
    def nats(self) -> float:
        """The loss; infinite above the largest float32, which no model gives and by which a mean over clients would overflow."""
        loss = float(struct.unpack(">d", self.loss)[0])
        return loss if loss <= FLOAT32 or math.isnan(loss) else math.inf

    @property
    def said(self) -> bool:
        """Whether the client says how well it does."""
        return self.targets > 0


MESSAGES = by_kind(Evaluate, Score)
