"""Tries in worker processes: each loads the file by itself and is sent named numbers, never code."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..grids.workers import Crew, crew_of
from ..scenario_file import load_poisoning
from ..shipped import file_and_name
from ..threat_models.evaluation_folder import EvaluationFolder
from ..threat_models.knowledge import Level
from ..threat_models.search.own import own_attacks
from ..threat_models.search.play import Bench
from ..threat_models.search.space import Space, check_named
from ..threat_models.search.who import differ, population_of
from .defence import Subject, subject_of

KIND = "search"
RECORDS = 10
"""That backdoors are tried on."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a defended scenario comes from, and what of the space is searched. only: names of attacks, or FILE.py:NAME of one's
    own. partition: one of the evaluation's, by name; None for its first, or the scenario's own. backdoors: none else is sought.
    """

    where: str
    against: str | None = None
    settings: tuple[str, ...] = ()
    data: Path | None = None
    knows: Level = Level.INSIDER
    only: tuple[str, ...] = ()
    fixed: tuple[tuple[str, str], ...] = ()
    partition: str | None = None
    backdoors: bool = False

    def subject(self) -> Subject:
        """Loads the file. Raises ValueError of one line."""
        return subject_of(self.where, self.against, self.settings, self.partition)

    def space(self) -> Space:
        """Loads the file, and the data, to see whether it may matter which clients attack. Raises ValueError of one line."""
        return space_of(self.subject(), self.knows, self.only, dict(self.fixed), self.data, backdoors=self.backdoors)

    def bench(self, folder: Path) -> Bench:
        return Bench(self.space(), EvaluationFolder(folder, KIND), self.data)


def space_of(
    subject: Subject,
    knows: Level,
    only: Sequence[str],
    fixed: Mapping[str, str],
    data: Path | None,
    given: Mapping[str, Any] | None = None,
    backdoors: bool = False,
) -> Space:
    """What can be tried against it: attacks of this package, those of its evaluation's file, and files of attacks that are named.

    given: others by name, from Python. backdoors: whether nothing else is sought. Raises ValueError of one line.
    """
    files = {name: load_poisoning(name) for name in only if is_file_name(name)}
    named = [file_and_name(name)[2] or "attack" if name in files else name for name in only]
    own, aside = ({}, {}) if subject.evaluation is None else own_attacks(subject.evaluation, tuple(named))
    own = {
        **own,
        **dict(zip([n for n, o in zip(named, only, strict=True) if o in files], files.values(), strict=True)),
        **(given or {}),
    }
    scenario = subject.scenario
    check_named(named, {**own, **({} if subject.evaluation is None else subject.evaluation.attacks)})
    population = population_of(scenario, data)
    train = next(iter(population.clients.values())).train
    if train.y.is_floating_point():
        raise ValueError("a search is for what is lost of accuracy, and the scenario's targets are numbers")
    records = train.take(torch.arange(min(RECORDS, len(train)))), population.classes
    clients = population.clients
    space = Space(scenario, knows, tuple(named), differ(clients), fixed, own, backdoors, records, len(clients))
    space.left_out.update(aside)
    return space


def is_file_name(name: str) -> bool:
    """Whether an attack is named by the file that it is in."""
    return name.partition(":")[0].endswith(".py")


def crew(origin: Origin, bench: Bench, workers: int | None, engine: str = "local") -> AbstractContextManager[Crew]:
    """`workers` processes, or this one where it is 1; all must have the folder. Leaving early ends them at once."""
    return crew_of(bench, partial(origin.bench, bench.folder.path.absolute()), workers, engine)
