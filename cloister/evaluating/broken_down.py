"""What came out of breakdown searches, read from their folder: the smallest strengths that break, a picture."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..tables_out import as_html, as_text, frame_of, write_rows
from .over_seeds import greatest, least_words, summed_up
from .report import write_evaluation_report
from .tables import breakdown_lines, breakdown_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class BrokenDown:
    """Breakdown searches that were played. folder: that of their evaluation; report.html there is the page about both."""

    folder: Path

    @property
    def summary(self) -> dict[str, Any]:
        """name, what strengths are, steps, bounds, and results: of each attack on each defence under each protection the median
        over seeds (median, and upper, which differs where two seeds stand in the middle) with its interval (None for none, or for
        above the greatest strength), and every seed's.
        """
        found = self._found
        return {name: found[name] for name in ("name", "strength", "steps", "bounds", "results")}

    @property
    def searches(self) -> list[dict[str, Any]]:
        """A row for each search: attack, defence, protection, seed; breaks, the smallest strength that does (None for none), by
        what (accuracy, late or at the end, backdoor, or both), holds, the one below it; single, whether all tries fit one
        crossing; reason.
        """
        names = ("attack", "defence", "protection")
        own = ("seed", "breaks", "by", "holds", "single", "reason")
        found = self._found["results"]
        return [{n: one[n] for n in names} | {n: seed[n] for n in own} for one in found for seed in one["seeds"]]

    @property
    def report(self) -> Path:
        """The page, written if it is not there."""
        path = self.folder / "report.html"
        return path if path.is_file() else write_evaluation_report(self.folder)

    def frame(self) -> Any:
        """`searches` as a data frame. Raises ImportError where pandas is not installed."""
        return frame_of(self.searches)

    def write(self, path: str | Path) -> Path:
        """`searches` as a file: .parquet, .arrow or .feather (extra `arrow`), or .csv. Raises ValueError for another."""
        return write_rows(self.searches, path)

    def plot(self) -> "Figure":
        """The smallest strength that breaks each defence by each attack, with the interval of the median over seeds."""
        from matplotlib.ticker import MaxNLocator

        from ..picture import Picture

        found = self._found
        rows = [one for one in found["results"] if one["median"] is not None][::-1]
        top = greatest(found)
        figure = Picture(figsize=(7.2, 1.4 + 0.35 * len(rows)), layout="constrained")
        axes = figure.subplots()
        for k, one in enumerate(rows):
            low, *middle, high = (
                top if one["median"][n] is None else one["median"][n] for n in ("low", "median", "upper", "high")
            )
            unbroken = one["median"]["median"] is None
            axes.plot([low, high], [k, k], color="gray")
            axes.plot(middle, [k, k], marker=">" if unbroken else "o", color="gray" if unbroken else "C0")
        axes.set_yticks(range(len(rows)), [f"{one['attack']} on {one['defence']}, {one['protection']}" for one in rows])
        if all(float(found["steps"][name]).is_integer() for name in ("least", "step")):
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        label = f"{least_words(found)} that break it\n(arrow: none up to {top:g}); higher is better"
        axes.set(xlabel=label, title=f"{found['name']}: breakdown")
        return figure

    @property
    def _found(self) -> dict[str, Any]:
        path = self.folder / "breakdown.json"
        if not path.is_file():
            raise ValueError(f"{self.folder} holds no breakdown searches")
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if "bounds" not in found:
            raise ValueError(f"{path} was written by an earlier version, which judged otherwise; search again with resume")
        return dict(summed_up(found))

    def __str__(self) -> str:
        found = self._found
        return as_text([breakdown_table(found)], [*breakdown_lines(found), f"report  {self.report}"])

    def _repr_html_(self) -> str:
        found = self._found
        return as_html([breakdown_table(found)], [*breakdown_lines(found), f"report  {self.report}"])
