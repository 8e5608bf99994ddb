"""Tries in worker processes: each loads the file by itself and is sent named numbers, never code."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..grids.workers import Crew, crew_of
from ..threat_models.evaluation_folder import EvaluationFolder
from ..threat_models.knowledge import Level
from ..threat_models.search.play import Bench
from ..threat_models.search.space import Space
from ..threat_models.search.who import clients_of, differ
from .defence import defended

KIND = "search"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a defended scenario comes from, and what of the space is searched. share: of the evaluations that are averaged."""

    where: str
    against: str | None = None
    settings: tuple[str, ...] = ()
    data: Path | None = None
    knows: Level = Level.INSIDER
    only: tuple[str, ...] = ()
    share: float = 0.25
    fixed: tuple[tuple[str, str], ...] = ()

    def space(self) -> Space:
        """Loads the file, and the data, to see whether it may matter which clients attack. Raises ValueError of one line."""
        scenario = defended(self.where, self.against, self.settings)
        return Space(scenario, self.knows, self.only, differ(clients_of(scenario, self.data)), dict(self.fixed))

    def bench(self, folder: Path) -> Bench:
        return Bench(self.space(), EvaluationFolder(folder, KIND), self.share, self.data)


def crew(origin: Origin, bench: Bench, workers: int | None, engine: str = "local") -> AbstractContextManager[Crew]:
    """`workers` processes, or this one where it is 1; all must have the folder. Leaving early ends them at once."""
    return crew_of(bench, partial(origin.bench, bench.folder.path.absolute()), workers, engine)
