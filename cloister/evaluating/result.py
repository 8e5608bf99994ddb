"""What came out of an evaluation, read from its folder: verdict, tables, a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..tables_out import as_html, as_text, frame_of, write_rows
from .broken_down import BrokenDown
from .data import Grid, read_grid
from .report import write_evaluation_report
from .summaries import defence_rows
from .tables import bounds_words, grid_json, grid_table, reasons
from .texts import cell_rows
from .verdict import sentences, verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

SIDE = 0.2
"""Of the distance of two strengths, over which the defences at one lie side by side in a picture."""
LEGEND = "defence; bars: all seeds;\nhollow: without attack"
NARROW = 10.0
"""Points of accuracy that a picture shows at least."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """An evaluation that was played, or a part of it. folder: its own; report.html there is the page about it."""

    folder: Path

    @property
    def verdict(self) -> str:
        """What holds and what breaks, in words; no verdict before every cell is there."""
        return verdict(self._grid)

    @property
    def summary(self) -> dict[str, Any]:
        """name, verdict, bounds, and found: of each defence at each strength and under each protection, what is found, harm and
        backdoors, against what, and accuracy without attack, without the attackers' data and under the worst one.
        """
        found = grid_json(self._grid)
        return {"name": found["name"], "verdict": self.verdict, "bounds": found["bounds"], "found": found["found"]}

    @property
    def cells(self) -> list[dict[str, Any]]:
        """A row for each cell: attack and strength (None without attack), defence, protection, partition, seed, status;
        verdict, lost and gained of this run and the finding over all seeds (None without attack); reason, and all its numbers,
        accuracy.late for instance. table.csv in the folder holds the same.
        """
        return cell_rows(self._grid)

    @property
    def breakdown(self) -> BrokenDown | None:
        """The breakdown searches in the folder, if there were any."""
        return BrokenDown(self.folder) if (self.folder / "breakdown.json").is_file() else None

    @property
    def report(self) -> Path:
        """The page, written if it is not there."""
        path = self.folder / "report.html"
        return path if path.is_file() else write_evaluation_report(self.folder)

    @property
    def defences(self) -> list[dict[str, Any]]:
        """A row for each defence at each strength under each protection on each partition: finding, accuracy without attack,
        without the attackers' data and under the worst one, what is lost to it and what a backdoor gains, with intervals.
        summary.csv in the folder holds the same.
        """
        return defence_rows(self._grid)

    def frame(self, of: str = "cells") -> Any:
        """`cells`, or `defences`, as a data frame. Raises ValueError for another name, ImportError without pandas."""
        return frame_of(self._chosen(of))

    def _chosen(self, rows: str) -> list[dict[str, Any]]:
        if rows not in ("cells", "defences"):
            raise ValueError(f'there are rows of "cells" and "defences", not of {rows!r}')
        return self.cells if rows == "cells" else self.defences

    def write(self, path: str | Path, rows: str = "cells") -> Path:
        """`cells`, or `defences`, as a file: .parquet, .arrow or .feather (extra `arrow`), or .csv. Raises ValueError for another
        kind or name.
        """
        return write_rows(self._chosen(rows), path)

    def plot(self, protection: str | None = None) -> "Figure":
        """Accuracy of loyal clients over the strength of each defence's worst attack: mean over seeds, with what all seeds lie
        between, and beside it, hollow, that of the same clients without attack. protection: by name; None for the first. Raises
        ValueError for one that is not there.
        """
        from ..fl.near_names import listed
        from ..picture import Picture

        grid = self._grid
        name = grid.protections[0] if protection is None else protection
        if name not in grid.protections:
            raise ValueError(f"there is no protection {name!r}; there are: {listed(grid.protections)}")
        figure = Picture(figsize=(7.2, 4.0), layout="constrained")
        axes = figure.subplots()
        apart = min((b - a for a, b in pairwise(sorted(grid.strengths))), default=1.0)
        for k, defence in enumerate(grid.defences):
            worst = [(s, grid.worst_attack(defence, s, name)) for s in sorted(grid.strengths)]
            spots = [(s, grid.attacked(a, defence, s, name)) for s, a in worst if a is not None]
            known = [(s, spot) for s, spot in spots if spot is not None]
            loyal = [(s, grid.clean_of_loyal(a, defence, s, name)) for s, a in worst if a is not None]
            clean = [(s, spot.mean) for s, spot in loyal if spot is not None]
            if not known:  # refused, for instance
                continue
            aside = apart * SIDE * (k - (len(grid.defences) - 1) / 2) / max(1, len(grid.defences))  # else one hides another
            at, means = [s + aside for s, _ in known], [100 * spot.mean for _, spot in known]
            ends = [[100 * (spot.mean - spot.least) for _, spot in known], [100 * (spot.most - spot.mean) for _, spot in known]]
            bar = axes.errorbar(at, means, yerr=ends, marker="o", capsize=3, label=defence)
            places, levels, colour = [s + aside for s, _ in clean], [100 * mean for _, mean in clean], bar.lines[0].get_color()
            axes.plot(places, levels, marker="o", linestyle="none", markerfacecolor="none", color=colour)
        axes.margins(y=0.1)
        low, high = axes.get_ylim()
        if high - low < NARROW:  # differences of a point are no landscape
            axes.set_ylim((low + high - NARROW) / 2, (low + high + NARROW) / 2)
        title = f"{grid.about['name']}, under {name}"
        axes.set(
            xlabel=str(grid.about["strength"]),
            ylabel="accuracy under the attack that leaves least, %\n(higher is better)",
            title=title,
        )
        axes.set_xticks(sorted(grid.strengths))
        axes.legend(frameon=False, title=LEGEND, loc="center left", bbox_to_anchor=(1, 0.5))
        return figure

    @property
    def _grid(self) -> Grid:
        return read_grid(self.folder)

    def _tables(self, grid: Grid) -> "Sequence[Table]":
        return [grid_table(grid, protection) for protection in grid.protections]

    def _lines(self, grid: Grid) -> list[str]:
        said = sentences(grid)
        return [
            *(line for p in grid.protections for line in reasons(grid, p)),
            bounds_words(grid),
            *(line for first, others in said.places for line in (first, *(f"- {one}" for one in others))),
            *said.notes,
            f"report  {self.report}",
        ]

    def __str__(self) -> str:
        grid = self._grid
        return as_text(self._tables(grid), self._lines(grid))

    def _repr_html_(self) -> str:
        grid = self._grid
        return as_html(self._tables(grid), self._lines(grid))
