"""The attacker's own run: of the scenario with another seed, and of made-up clients where clients have their own data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from ...fl.data.natural import Natural
from ...fl.data.population import Client, Examples, Population, Source
from ...fl.data.skew import Dirichlet
from ...fl.runs.lost_round import NothingLearned
from ...fl.runs.scenario import Scenario
from .kept import Kept
from .recorded import Recorded

SHADOW = 1000
"""Added to the seed of a run for the attacker's own, and once more for each further one."""
TIMES = 3
"""How often it is played anew with another seed, at most, where too few sums come of it."""


@dataclass(frozen=True, slots=True)
class Way:
    """again: how often it was played before. evenly: whether all of its made-up clients have as many records."""

    again: int = 0
    evenly: bool = False


def ways_of(scenario: Scenario) -> tuple[Way, ...]:
    """In which it is played, one after the other until one is a run: clients that are made up may have too much of every sum, or
    too few records, and what comes of a small floor or few clients in a slot is by chance.
    """
    sizes = (False, True) if isinstance(scenario.partition, Natural) else (False,)
    return tuple(Way(again, evenly) for again in range(TIMES) for evenly in sizes)


def own_run(
    scenario: Scenario, name: str, kept: Kept, play: Callable[[Scenario], Recorded], ways: Sequence[Way]
) -> tuple[Recorded, Way]:
    """The run, and in which way it was played. scenario: with its seed. name: in the audit's folder. Raises NothingLearned where
    no way comes to anything, and ValueError where held-out records do not do.
    """
    natural = isinstance(scenario.partition, Natural)
    whose = "the attacker's own run" + ", of clients that are made up of what yours hold out" * natural
    words, refused = "", False
    for way in ways:
        this = replace(scenario, seed=scenario.seed + way.again * SHADOW)
        if natural:
            this = replace(this, partition=HeldOut(this.training.batch, way.evenly))
        called = f"{name}{', evenly' * way.evenly}{f', time {way.again + 1}' * bool(way.again)}"
        try:
            return kept.run(called, this, lambda this=this: play(this)), way  # type: ignore[misc]
        except NothingLearned as error:
            words, refused = error.words, error.refused
        except ValueError as error:
            if not natural:
                raise
            if way.evenly:
                raise ValueError(f"in {whose}: {error}; a larger test_share may help") from error
    raise NothingLearned(f"{whose} came to nothing, {len(ways)} times played anew: {words}", refused)


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Clients of the attacker's own, where clients have their own data whatever the seed is: as many, of what all hold out to
    score by, dealt with skewed labels. None of it was trained on.

    batch: records of one step. Where batches would leave one record of a client, which a `BatchNorm` cannot take, that one is
    left out, or there twice if it is the only one. even: all have as many records as the run's clients in the mean, some of
    them several times: where numbers of records that differ much, or are small beside what a client may claim, come to no sum.
    """

    batch: int
    even: bool = False

    def __call__(self, source: Source, rng: np.random.Generator, /) -> Population:
        pool = Examples(source.test.x, source.test.y)
        dealt = Dirichlet(clients=len(source.clients), alpha=0.5, shared_test=True)(
            Source(source.name, pool, pool, source.classes), rng
        )
        clients = dealt.clients
        if self.even:
            size = torch.arange(max(1, len(source.train) // len(clients)))
            clients = {i: replace(client, train=client.train.take(size % len(client.train))) for i, client in clients.items()}
        return replace(dealt, clients={i: self._in_batches(client) for i, client in clients.items()})

    def _in_batches(self, client: Client) -> Client:
        size = len(client.train)
        if size > 1 and size % self.batch != 1:
            return client
        return replace(client, train=client.train.take(torch.arange(size - 1) if size > 1 else torch.zeros(2, dtype=torch.int64)))
