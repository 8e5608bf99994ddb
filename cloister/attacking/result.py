"""What came out of a search for a break, read from its folder: verdict, points, a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..tables_out import as_html, as_text, frame_of, write_rows
from .data import Search, curve, read_search
from .points import point_rows
from .report import write_search_report
from .tables import break_words, curve_table, failed_words, points_table, search_json, verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table


@dataclass(frozen=True, slots=True)
class Attacked:
    """A search that was played, or a part of it. folder: its own; report.html there is the page about it."""

    folder: Path

    @property
    def verdict(self) -> str:
        """What broke the defence, or how much was tried in vain, in words."""
        return verdict(self._search)

    @property
    def summary(self) -> dict[str, Any]:
        """name, defence, verdict, when it is broken, runs, points, cheapest break (None for none), worst point, curve over
        cost.
        """
        found = search_json(self._search)
        kept = ("name", "defence", "verdict", "broken", "bounds", "runs", "points", "seconds", "curve")
        return {name: found[name] for name in kept} | {name: found.get(name) for name in ("cheapest", "worst")}

    @property
    def points(self) -> list[dict[str, Any]]:
        """A row for each point that was played, the most severe first: attackers, share, strength, schedule, loss and gained with
        their intervals, verdict, seconds. table.csv in the folder holds the same.
        """
        return point_rows(self._search)

    @property
    def report(self) -> Path:
        """The page, written if it is not there."""
        path = self.folder / "report.html"
        return path if path.is_file() else write_search_report(self.folder)

    def frame(self) -> Any:
        """`points` as a data frame. Raises ImportError where pandas is not installed."""
        return frame_of(self.points)

    def write(self, path: str | Path) -> Path:
        """`points` as a file: .parquet, .arrow or .feather (extra `arrow`), or .csv. Raises ValueError for another."""
        return write_rows(self.points, path)

    def plot(self) -> "Figure":
        """Loss of every point that was played over the number of attackers, and the largest of each number."""
        from matplotlib.ticker import MaxNLocator

        from ..picture import Picture

        search = self._search
        figure = Picture(figsize=(7.2, 4.6), layout="constrained")
        axes = figure.subplots()
        played = search.played
        losses = [100 * p.loss for p in played]
        axes.scatter([p.attackers for p in played], losses, s=12, alpha=0.5, label="points that were played")
        rows = [row for row in curve(search) if row["loss"] is not None]
        axes.plot([row["attackers"] for row in rows], [100 * row["loss"] for row in rows], marker="o", label="the largest")
        bound = "the bound, above which is a break if it holds on every seed"
        axes.axhline(100 * search.sought.bounds.loss, linestyle="--", color="gray", label=bound)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if len({p.attackers for p in played}) == 1:
            axes.set_xlim(played[0].attackers - 1, played[0].attackers + 1)
        title = f"{search.about['defence']} attacked, on {search.about['name']}"
        axes.set(xlabel="attackers", ylabel="accuracy lost by loyal clients,\npoints; higher is worse", title=title)
        figure.legend(loc="outside lower center", frameon=False)
        return figure

    @property
    def _search(self) -> Search:
        return read_search(self.folder)

    def _lines(self, search: Search) -> list[str]:
        return [
            *filter(None, [failed_words(search)]),
            f"Broken is a defence where {break_words(search)}.",
            verdict(search),
            f"report  {self.report}",
        ]

    def _tables(self, search: Search) -> "Sequence[Table]":
        return [points_table(search), curve_table(search)]

    def __str__(self) -> str:
        search = self._search
        return as_text(self._tables(search), self._lines(search))

    def _repr_html_(self) -> str:
        search = self._search
        return as_html(self._tables(search), self._lines(search))
