"""Cells of a comparison in worker processes: each loads the comparison's file by itself."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..fl.runs.comparison import Comparison
from ..fl.runs.results_folder import Row
from ..grids.workers import Crew, Task, crew_of
from ..scenario_file import load_comparison, with_settings
from .cell import play_cell


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a comparison comes from: the file, changes of its scenarios, its seeds if they are others, and the data folder.

    settings: PATH=VALUE of every scenario; of one alone as data.NAME.PATH=VALUE.
    """

    where: str
    settings: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    data: Path | None = None

    @property
    def about(self) -> dict[str, Any]:
        """For the record."""
        return {"file": self.where, "settings": list(self.settings)}

    def load(self) -> Comparison:
        """The comparison. Raises ValueError of one line."""
        comparison = load_comparison(self.where)
        data = dict(comparison.data)
        for setting in self.settings:
            first, _, rest = setting.partition(".")
            name = next((name for name in data if first == "data" and rest.startswith(f"{name}.")), None)
            if name is not None:
                data[name] = with_settings(data[name], [rest.removeprefix(f"{name}.")])
            else:
                data = {name: with_settings(scenario, [setting]) for name, scenario in data.items()}
        return replace(comparison, data=data, seeds=self.seeds or comparison.seeds)

    def bench(self) -> "Bench":
        return Bench(self.load(), self.data)


@dataclass(frozen=True, slots=True)
class Bench:
    """What a process needs to play cells."""

    comparison: Comparison
    data: Path | None

    def play(self, task: Task) -> Row:
        return play_cell(self.comparison, task[0], self.data)


def crew(origin: Origin, comparison: Comparison, workers: int | None, engine: str = "local") -> AbstractContextManager[Crew]:
    """`workers` processes, or this one where it is 1. Leaving early ends them at once."""
    return crew_of(Bench(comparison, origin.data), origin.bench, workers, engine)
