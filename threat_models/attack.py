"""The shapes of attacks: callables that are handed knowledge and return what the adversary puts in place of honest work."""

from collections.abc import Mapping
from typing import Protocol

from ..fl.data.population import Examples
from ..protocol.view.answers import Vector
from .knowledge import Colluding, Level, Own, Situation
from .offers import Offered


class DataAttack(Protocol):
    """Poisons a member's training data. Draws from `data_rng`, so that the poison is the same in every round."""

    def __call__(self, situation: Situation, /) -> Examples: ...


class LearnedPoison(Protocol):
    """A data attack whose poison members learn together, which is colluding: it needs Level.COLLUDING, or more.

    In every round of the attack the first member at work learns, by its own clean data and the model that it opened; from then
    on every member is handed what was learned as `Situation.learned`.
    """

    def learn(self, situation: Situation, /) -> Mapping[str, Vector]:
        """What all members are to know instead of `situation.learned`: float32 vectors by name."""
        ...

    def __call__(self, situation: Situation, /) -> Examples: ...


class TrainingAttack(Protocol):
    """Replaces a member's training; `situation.examples` are already poisoned where the adversary poisons data."""

    def __call__(self, situation: Situation, /) -> Vector: ...


class LoneAttack(Protocol):
    """Replaces a member's upload by what the member alone knows. `needs` is Level.OWN."""

    @property
    def needs(self) -> Level: ...

    def __call__(self, own: Own, /) -> Vector: ...


class CollusiveAttack(Protocol):
    """Replaces the uploads of all members of one session. identical: whether its definition gives them all one vector."""

    @property
    def needs(self) -> Level:
        """The least level, above Level.OWN."""
        ...

    @property
    def identical(self) -> bool: ...

    def __call__(self, coalition: Colluding, /) -> Mapping[int, Vector]: ...


class LearningAttack(Protocol):
    """A collusive attack that remembers: told of every round in which members work, before it attacks or while it still waits."""

    def learn(self, coalition: Colluding, /) -> Mapping[str, Vector]:
        """What to remember, float32 vectors by name."""
        ...


class ChoiceAttack(Protocol):
    """Replaces what a member says serves it best among the models that it is offered."""

    @property
    def needs(self) -> Level:
        """The least level. At Level.OWN it is handed an `Offered`; above, what the adversary's level allows."""
        ...

    def __call__(self, offered: Offered, /) -> int:
        """A position in `offered.models`."""
        ...


UploadAttack = LoneAttack | CollusiveAttack


def looks_back(attack: object) -> bool:
    """Whether the attack reads `previous`; one that wraps another says so for it."""
    return bool(getattr(attack, "looks_back", False))
