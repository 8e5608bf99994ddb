"""The runs that an audit needs of one seed: the audited one, the same in clear, and the attacker's own of either kind."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np

from ...fl.runs.scenario import Scenario
from ...protocol.uploaded.plain import Plain
from .experiment import Evidence
from .kept import NOTHING_KEPT, Kept
from .made_up import MadeUp
from .observer import SERVER_ALONE, Observer, server_and
from .own_run import SHADOW, own_run, ways_of
from .recorded import Recorded
from .recorder import Recorder, again
from .truth import Matrix, Truth
from .view import CorruptView

READINGS = 6
"""How often meters are read in the audited run."""
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
        clear, ways = isinstance(scenario.protection, Plain) and scenario.training.privacy is None, ways_of(scenario)
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
            if one == seed:
                played.append(kept.run(name, this, partial(_played, this, data, readings, over)))
                continue
            found, way = own_run(this, name, kept, lambda of: _played(of, data, 0, over), ways)
            played.append(found)
            ways = ways[ways.index(way) :]  # in clear likewise
        yield Stage(seed, replace(scenario, seed=seed), data, *played)


def _played(scenario: Scenario, data: Path | None, readings: int, over: Callable[[], object]) -> Recorded:
    recorder = Recorder(scenario, data, readings=readings)
    for _ in recorder.rounds():
        over()
    return recorder.recorded


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
