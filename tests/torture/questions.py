"""What the coordinator of a simulated deployment asks in a round, under each protection, and what clients work with."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from cloister.protocol import Encrypted, Masked, Plain, TwoServer
from cloister.protocol.pairs.choices import PerPair
from cloister.protocol.pairs.question import Comparing, PairQuestion
from cloister.protocol.view.answers import Assignment, BelowFloor, Model, Sum, Weights
from cloister.protocol.view.work import LocalJob, LocalWork

from .schedule import Schedule

D, ROWS, WEIGHTS = 6, 4, 4
INITIAL = np.linspace(-1, 1, D).astype(np.float32)
CHOICE = PerPair(projection="orthonormal", ratio=1.0, embedding="public", answers=1)


def protection_of(schedule: Schedule) -> Any:
    """By the schedule's name for it."""
    corrupt = 0 if schedule.colluder is None else 1
    return {
        "masked": Masked(floor=schedule.floor, sketch=2, corrupt=corrupt),
        "two servers": TwoServer(floor=schedule.floor),
        "encrypted": Encrypted(floor=schedule.floor),
        "pairs": Plain(),
    }[schedule.protection]


@lru_cache(maxsize=256)
def update_of(client: int, round: int) -> np.ndarray:
    """What a client's training comes to: float32 (D,), within -1 and 1."""
    return np.random.default_rng([client, round, 7]).uniform(-1, 1, D).astype(np.float32)


def workers(jobs: Sequence[LocalJob]) -> Iterator[tuple[int, LocalWork]]:
    """Clients' computers."""
    for job in jobs:
        yield job.client, LocalWork(update_of(job.client, job.round), 10)


@dataclass(frozen=True)
class Gap:
    """The distance between the means of two clouds."""

    span: float = 100.0
    samples: int = 1

    def moved(self, rows: int) -> float:
        """By one of so many examples."""
        return self.span / rows

    def __call__(self, source: np.ndarray, target: np.ndarray) -> float:
        return float(np.linalg.norm(source.mean(0, dtype=np.float64) - target.mean(0, dtype=np.float64)))


@dataclass(frozen=True)
class Clouds:
    """Embedders of clients of two groups, far apart: by whether their ids are even."""

    d: int = WEIGHTS
    inputs: int = WEIGHTS
    rows: int = ROWS
    by_position: bool = True

    def weights_of(self, model: np.ndarray) -> np.ndarray:
        """What embeds, of a model."""
        return model[:WEIGHTS]

    def embed(self, client: int, part: str, weights: np.ndarray | None) -> np.ndarray:
        """A client's own examples."""
        spread = np.arange(ROWS * WEIGHTS).reshape(ROWS, WEIGHTS) % (2 + client) / 16
        found: np.ndarray = (np.eye(WEIGHTS)[client % 2] * 6 + spread).astype(np.float32)
        return found

    def embed_examples(self, examples: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        """Others."""
        return examples

    def sent(self, client: int, occasion: str, honest: np.ndarray) -> np.ndarray:
        """What it shows: what it has."""
        return honest


COMPARING = Comparing(CHOICE, Gap())


@dataclass(frozen=True, slots=True)
class Answered:
    """To one question. number: of it in the round. clients: whom a sum says it is of. mean: theirs, where the server has it.

    moved: the names of the model that it moved, and of where to. accepts: of a comparison.
    """

    round: int
    number: int
    clients: tuple[int, ...] = ()
    mean: Any = None
    moved: tuple[str, str] = ("", "")
    accepts: Any = None


def ask(
    view: Any, schedule: Schedule, round: int, model: Model, members: tuple[int, ...], look: Callable[[Answered], object]
) -> tuple[Model, list[Answered]]:
    """One round: work, and sums or comparisons of it. look: at each answer, while clients have what they were sent.

    Raises Refused.
    """
    work = {"root": Assignment(model, members, members)}
    trained = view.train(round, work)
    found: list[Answered] = []
    if schedule.protection == "pairs":
        if trained:
            pairs = tuple(pairwise(members))
            answers = view.pairs(round, work, trained, PairQuestion(pairs, CHOICE, Gap(), _judge))
            found.append(Answered(round, 0, accepts=dict(answers.accepts)))
        view.harness.retire([model], [])
        return model, found
    if (updates := trained.get("root")) is None:
        return model, found
    after = model
    for number in range(1 + schedule.again):
        answer = view.sums(updates, {f"m{number}": Weights(dict.fromkeys(updates.clients, 1.0))})[f"m{number}"]
        if not isinstance(answer, Sum):
            assert isinstance(answer, BelowFloor)
            continue
        moved = view.advance(model, answer)
        after, mean = moved, None
        if answer.recipient == "server":
            mean = view.harness.observe(moved) - view.harness.observe(model)
        found.append(Answered(round, number, answer.clients, mean, (model.name, moved.name)))
        look(found[-1])
    view.harness.retire([Model("init"), after], [])
    return after, found


def _judge(directions: Any) -> dict[tuple[int, int], bool]:
    return {(of.client, of.other): Gap()(of.source, of.target) - of.reference < 2 for of in directions}
