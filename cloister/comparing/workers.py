"""Cells of a comparison in worker processes: each loads the comparison's file by itself."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ..fl.runs.comparison import Comparison
from ..fl.runs.comparison_cells import places
from ..fl.runs.results_folder import Row
from ..fl.runs.scenario import NoField, described
from ..grids.workers import Crew, Task, crew_of
from ..protocol import Plain
from ..scenario_file import load_comparison, with_settings
from .cell import play_cell

REPLACED = {"algorithm": "methods", "protection": "protections", "seed": "seeds"}
"""Fields of a data set's scenario in whose place a comparison has its own."""


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
        for setting in self.settings:
            comparison = _with(comparison, setting)
        return replace(comparison, seeds=self.seeds or comparison.seeds)

    def bench(self) -> "Bench":
        return Bench(self.load(), self.data)


def _with(comparison: Comparison, setting: str) -> Comparison:
    """The comparison with its scenarios changed. Raises ValueError where that changes nothing that is played."""
    data = comparison.data
    name = next((name for name in data if setting.startswith(f"data.{name}.")), None)
    inner = setting if name is None else setting.removeprefix(f"data.{name}.")
    try:
        changed = {n: with_settings(scenario, [inner]) if name in (None, n) else scenario for n, scenario in data.items()}
    except NoField as error:
        wanted = setting.removeprefix("data.").partition("=")[0].partition(".")[0]
        if name is not None or not setting.startswith("data."):
            raise
        close = get_close_matches(wanted, data, 1)
        meant = f"; did you mean {close[0]!r}" if close else ""
        raise ValueError(
            f"--set {setting}: no data are named {wanted!r}{meant}; there are: {', '.join(data)}; else {error}"
        ) from None
    found = replace(comparison, data=changed)
    field = inner.partition("=")[0].partition(".")[0].strip()
    if field in REPLACED and not (field == "algorithm" and _algorithms(found) != _algorithms(comparison)):
        raise ValueError(
            f"--set {setting} changes nothing: a comparison has {REPLACED[field]} of its own in place of the {field}"
        )
    return found


def _algorithms(comparison: Comparison) -> list[Any]:
    """What every method plays on each data set, as records say it; a method may take it from the scenario."""
    found: list[Any] = []
    for data, method in places(comparison):
        try:
            found.append(described(comparison.without_attack(data, method, 0, Plain(), comparison.seeds[0]).algorithm))
        except ValueError:  # refused: its cells will say why
            found.append(None)
    return found


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
