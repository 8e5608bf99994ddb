"""Cells of an evaluation in worker processes: each loads the evaluation's file by itself."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..fl.runs.origin import commit
from ..fl.runs.results_folder import Row
from ..grids.workers import Crew, crew_of
from ..kept_source import source_of
from ..scenario_file import load_evaluation
from ..threat_models.cell import play_cell
from ..threat_models.evaluation import Cell, Evaluation
from ..threat_models.evaluation_folder import EvaluationFolder

Task = tuple[Cell, Row | None]
"""A cell, and the line of its attack-free run."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an evaluation comes from: the file, changes of its scenario, its seeds if they are others, and the data folder."""

    where: str
    settings: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    data: Path | None = None

    @property
    def about(self) -> dict[str, Any]:
        """For the record, by which `cloister rerun` plays it again."""
        return source_of(self.where) | {"settings": list(self.settings), "commit": commit()}

    def load(self) -> Evaluation:
        """The evaluation. Raises ValueError of one line."""
        evaluation = load_evaluation(self.where, self.settings, self.data)
        return replace(evaluation, seeds=self.seeds) if self.seeds else evaluation


@dataclass(frozen=True, slots=True)
class Bench:
    """What a process needs to play cells."""

    evaluation: Evaluation
    folder: EvaluationFolder
    data: Path | None

    def play(self, task: Task) -> Row:
        cell, clean = task
        return play_cell(self.evaluation, cell, clean, self.folder, self.data)


def crew(
    origin: Origin, evaluation: Evaluation, folder: EvaluationFolder, workers: int | None, engine: str = "local"
) -> AbstractContextManager[Crew]:
    """`workers` processes, or this one where it is 1; all must have the folder. Leaving early ends them at once."""
    return crew_of(Bench(evaluation, folder, origin.data), partial(_bench, origin, folder.path.absolute()), workers, engine)


def _bench(origin: Origin, folder: Path) -> Bench:
    return Bench(origin.load(), EvaluationFolder(folder), origin.data)
