"""A view for EMD-CFL whose answers are written down: no protocol, no training."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cloister.protocol.pairs.question import PairAnswers
from cloister.protocol.view.answers import BelowFloor, Model, Sum, Updates


def never(round: int, a: int, b: int) -> bool:
    """Nothing is lost."""
    return False


@dataclass
class Scripted:
    """A view whose models are numbers: client i moves its by i; clients with the same remainder by `groups` accept each other.

    refuses: directions that do not, all the same. loses: which pairs come to nothing, of (round, a, b).
    """

    floor: int = 1
    refuses: tuple[tuple[int, int], ...] = ()
    groups: int = 3
    loses: Callable[[int, int, int], bool] = never

    @property
    def least(self) -> int:
        return self.floor

    def __post_init__(self) -> None:
        self.models = {"init": 0.0}
        self.means: dict[str, float] = {}
        self.asked: list[tuple[int, int]] = []

    def train(self, round: int, work: Any) -> Any:
        return {c: Updates(f"{c}@{round}", c, round, a.participants, a.members) for c, a in work.items()}

    def _sum(self, name: str, of: Any) -> Any:
        if len(of) < self.floor:
            return BelowFloor(name, tuple(of), self.floor)
        name = f"{name} {len(self.means)}"
        weight = sum(10.0 + i for i in of)
        self.means[name] = sum((10.0 + i) * i for i in of) / weight
        return Sum(name, "server", tuple(of), weight, 0.0)

    def sums(self, updates: Updates, weights: Any) -> Any:
        return {name: self._sum(name, [i for i in w.of if i in updates.clients]) for name, w in weights.items()}

    def train_and_sum(self, round: int, work: Any, weights: Any) -> Any:
        return {name: self._sum(name, list(w.of)) for name, w in weights.items()}

    def train_alone(self, round: int, models: Any) -> Any:
        trained = {i: Model(f"{i} alone@{round}") for i in models}
        self.models |= {trained[i].name: self.models[model.name] + i for i, model in models.items()}
        return trained

    def advance(self, model: Model, mean: Sum) -> Model:
        name = f"{model.name}>{mean.name}"
        self.models[name] = self.models[model.name] + self.means[mean.name]
        return Model(name)

    def merge(self, models: Any) -> Model:
        name = "+".join(m.name for m in models)
        self.models[name] = sum(self.models[m.name] * w for m, w in models.items()) / sum(models.values())
        return Model(name)

    def pairs(self, round: int, work: Any, updates: Any, question: Any) -> PairAnswers:
        self.asked += question.pairs
        answered = [(a, b) for a, b in question.pairs if not self.loses(round, a, b)]
        both = [*answered, *((b, a) for a, b in answered)]
        return PairAnswers({(a, b): a % self.groups == b % self.groups and (a, b) not in self.refuses for a, b in both}, ())
