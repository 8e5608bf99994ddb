"""What came out of a comparison, read from its folder: verdict, tables, a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..fl.runs.results_folder import Row
from ..tables_out import as_html, as_text, frame_of, tidy, write_rows
from .data import Found, read_comparison
from .lines import block_lines
from .notes import fits, fits_words
from .report import write_comparison_report
from .texts import as_json, terminal
from .verdict import headline

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison that was played, or a part of it. folder: its own; report.html there is the page about it."""

    folder: Path

    @property
    def verdict(self) -> str:
        """Who is better, as far as seeds can tell, in words; no verdict before every cell is there."""
        return headline(self._found)

    @property
    def summary(self) -> dict[str, Any]:
        """name, scale, verdict, and lines: each method on each data set under each protection, numbers and words."""
        found = as_json(self._found)
        return {name: found[name] for name in ("name", "scale", "verdict", "lines")}

    @property
    def cells(self) -> list[dict[str, Any]]:
        """A row for each run: data, method, protection, attack (None without), seed, status, reason, and its numbers."""
        return tidy(_without_matrix(row) for rows in self._found.cells.values() for row in rows)

    @property
    def report(self) -> Path:
        """The page, written if it is not there."""
        path = self.folder / "report.html"
        return path if path.is_file() else write_comparison_report(self.folder)

    def frame(self) -> Any:
        """`cells` as a data frame. Raises ImportError where pandas is not installed."""
        return frame_of(self.cells)

    def write(self, path: str | Path) -> Path:
        """`cells` as a file: .parquet, .arrow or .feather (extra `arrow`), or .csv. Raises ValueError for another."""
        return write_rows(self.cells, path)

    def plot(self, data: str | None = None, protection: str | None = None) -> "Figure":
        """Mean accuracy of each method, with its 95 % interval over seeds, of two seeds from one to the other.

        data, protection: by name; None for the first. Raises ValueError for what is not there.
        """
        from ..picture import Picture

        found = self._found
        block = (found.data[0] if data is None else data, found.protections[0] if protection is None else protection)
        if block not in found.blocks:
            raise ValueError(f"there is no {block[0]!r} under {block[1]!r}; there are: {', '.join(map(str, found.blocks))}")
        spots = [(line.method, line.numbers["accuracy"]) for line in block_lines(found, *block)]
        known = [(name, spot) for name, spot in spots if spot is not None][::-1]
        figure = Picture(figsize=(7.2, 1.2 + 0.35 * len(known)), layout="constrained")
        axes = figure.subplots()
        ends = [spot.ends() if spot.tells else (spot.least, spot.most) for _, spot in known]
        bars = [[100 * (spot.mean - low), 100 * (high - spot.mean)] for (_, spot), (low, high) in zip(known, ends, strict=True)]
        means = [100 * spot.mean for _, spot in known]
        axes.errorbar(means, [name for name, _ in known], xerr=[*zip(*bars, strict=True)] or None, fmt="o")
        axes.margins(y=0.15)
        over = (
            "95 % intervals of the mean over seeds" if any(spot.tells for _, spot in known) else "from the worst seed to the best"
        )
        label = f"mean accuracy over clients without attack, at the end of the last round, %\n{over}; higher is better"
        axes.set(xlabel=label, title=f"{found.about['name']}: {block[0]} under {block[1]}")
        return figure

    @property
    def _found(self) -> Found:
        return read_comparison(self.folder)

    def _tables(self, found: Found) -> "Sequence[Table]":
        return [terminal(found, *block) for block in found.blocks]

    def _lines(self, found: Found) -> list[str]:
        return [line for line in (headline(found), fits_words(found, fits(found))) if line] + [f"report  {self.report}"]

    def __str__(self) -> str:
        found = self._found
        return as_text(self._tables(found), self._lines(found))

    def _repr_html_(self) -> str:
        found = self._found
        return as_html(self._tables(found), self._lines(found))


def _without_matrix(row: Row) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != "matrix"}
