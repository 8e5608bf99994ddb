"""The runs that an audit needs of one seed: the audited one, the same in clear, and the attacker's own of either kind."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch

from ...fl.data.natural import Natural
from ...fl.data.population import Client, Examples, Population, Source
from ...fl.data.skew import Dirichlet
from ...fl.runs.lost_round import NothingLearned
from ...fl.runs.scenario import Scenario
from ...protocol.uploaded.plain import Plain
from .experiment import Evidence
from .kept import NOTHING_KEPT, Kept
from .made_up import MadeUp
from .observer import SERVER_ALONE, Observer, server_and
from .recorded import Recorded
from .recorder import Recorder, again
from .truth import Matrix, Truth
from .view import CorruptView

READINGS = 6
"""How often meters are read in the audited run."""
SHADOW = 1000
"""Added to the seed of a run for the attacker's own."""
PRIOR = 400
"""Deviations of updates that a prior is made of, at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """Runs of one seed, played to their end. scenario: of the audited one, with its seed; data: the folder of its data."""

    seed: int
    scenario: Scenario
    data: Path | None
    audited: Recorded
    clear: Recorded
    shadow: Recorded
    clear_shadow: Recorded
    _lessons: dict[int, dict[int, MadeUp]] = field(default_factory=dict, init=False, repr=False)

    def evidence(self, observer: Observer) -> Evidence:
        """Of the audited run."""
        return self._of(self.audited, self.shadow, observer, self.scenario)

    @property
    def plain(self) -> Evidence:
        """Of the server where nothing is hidden, and of all parties of the audited run."""
        found = self._of(self.clear, self.clear_shadow, SERVER_ALONE, in_clear(self.scenario))
        return replace(found, pooled=self.audited.seen_by(server_and(*self.audited.truth.population.clients)))

    @property
    def aggregate(self) -> Evidence:
        """Of one that is told the audited run's sums, whoever opened them, and nothing else."""
        return self._among(self.audited, self.audited.sums_alone, self.shadow, self.shadow.sums_alone)

    def less_own_part(self, observer: Observer) -> Evidence:
        """Of its clients, if they are told the same and know their own part."""
        target, shadow = (one.less_own_part(observer) for one in (self.audited, self.shadow))
        return self._among(self.audited, target, self.shadow, shadow)

    @property
    def nothing(self) -> Evidence:
        """Of one that sees no frame and is told no sum: by chance."""
        view, shadow = (CorruptView(SERVER_ALONE, one.public) for one in (self.audited, self.shadow))
        return self._among(self.audited, view, self.shadow, shadow)

    def _of(self, target: Recorded, shadow: Recorded, observer: Observer, scenario: Scenario) -> Evidence:
        found = self._among(target, target.seen_by(observer), shadow, shadow.seen_by(observer))
        released = {} if observer.network else target.released  # no model is handed to who watches links
        return replace(found, released=released, replay=partial(again, scenario, self.data))

    def _among(self, target: Recorded, view: CorruptView, shadow: Recorded, own: CorruptView) -> Evidence:
        prior = deviations(self.clear_shadow.truth, np.random.default_rng(self.seed))
        lessons = self._lessons.setdefault(id(target), {})
        return Evidence(view, own, shadow.truth, target.sums_alone, prior, lessons=lessons)


def stages(
    scenario: Scenario,
    seeds: Sequence[int],
    data: Path | None,
    recorded: Mapping[int, Recorded] = MappingProxyType({}),
    kept: Kept = NOTHING_KEPT,
    over: Callable[[], object] = lambda: None,
) -> Iterator[Stage | tuple[int, str]]:
    """Of every seed, as it is played; before it, (seed, what is being played) for whoever waits.

    In clear means without noise in training too: what attacks must find there is what a protection is measured by. recorded: by
    seed, runs of the scenario that are there already and are audited as they are. kept: runs that were played before. over:
    called after every round that is played, of any of the runs.
    """
    for seed in seeds:
        played: list[Recorded] = []
        clear, even = isinstance(scenario.protection, Plain) and scenario.training.privacy is None, False
        for words, one in (
            ("the run", seed),
            ("the run in clear", seed),
            ("the attacker's own run", seed + SHADOW),
            ("the attacker's own run in clear", seed + SHADOW),
        ):
            if clear and words.endswith("in clear"):
                played.append(played[-1])
                continue
            if not played and seed in recorded:
                played.append(recorded[seed])
                continue
            yield seed, words
            this = replace(in_clear(scenario) if words.endswith("in clear") else scenario, seed=one)
            name, readings = f"seed {seed}, {words}", 0 if played else READINGS
            if one == seed or not isinstance(this.partition, Natural):
                played.append(kept.run(name, this, partial(_played, this, data, readings, over)))
                continue
            for evenly in (True,) if even else (False, True):  # where one of those made up has too much of every sum
                dealt = replace(this, partition=HeldOut(this.training.batch, evenly))
                try:
                    one_of = kept.run(f"{name}, evenly" if evenly else name, dealt, partial(_played, dealt, data, 0, over))
                except ValueError as error:  # those made up may also have too few records
                    if not evenly:
                        continue
                    if isinstance(error, NothingLearned):
                        raise
                    whose = "in the attacker's own run, of clients that are made up of what yours hold out"
                    raise ValueError(f"{whose}: {error}; a larger test_share may help") from error
                played.append(one_of)
                even = evenly
                break
        yield Stage(seed, replace(scenario, seed=seed), data, *played)


def _played(scenario: Scenario, data: Path | None, readings: int, over: Callable[[], object]) -> Recorded:
    recorder = Recorder(scenario, data, readings=readings)
    for _ in recorder.rounds():
        over()
    return recorder.recorded


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


def in_clear(scenario: Scenario) -> Scenario:
    """The scenario without protection, nor noise in training."""
    return replace(scenario, protection=Plain(), training=replace(scenario.training, privacy=None))


def deviations(truth: Truth, rng: np.random.Generator) -> Matrix:
    """Of updates, from the mean of those of the same round and kind: float64 (m, d), PRIOR of them at most, drawn by `rng`."""
    keys = [key for key in truth.updates if key[1] == "update"]
    chosen = rng.permutation(len(keys))[:PRIOR]
    sums: dict[int, tuple[Matrix, int]] = {}
    for t, _, i in keys:
        before, count = sums.get(t, (np.zeros(len(truth.updates[t, "update", i])), 0))
        sums[t] = before + truth.updates[t, "update", i], count + 1
    rows = [truth.updates[keys[k]] - sums[keys[k][0]][0] / sums[keys[k][0]][1] for k in chosen]
    return np.array(rows, np.float64)
