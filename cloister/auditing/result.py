"""What came out of an audit, read from its folder: verdict, claims, what each party could find, a picture."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..tables_out import as_html, as_text, frame_of, write_rows
from .first_words import headline, notes
from .report import claims, whole, write_audit_report
from .tables import tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Audited:
    """An audit that was played. folder: its own; report.html there is the page about it."""

    folder: Path

    @property
    def verdict(self) -> str:
        """Which claims stand, in words."""
        return headline(self._found)

    @property
    def summary(self) -> dict[str, Any]:
        """name, protection, seeds, budget, verdict; refuted: those of Cloister's claims that are; failed: rows of attacks of
        one's own that ended in an error, with the reason; not_covered: lines about claims that nothing tried, or of other runs.
        """
        found = self._found
        bad = [c for c in self.claims if (c["whose"], c["verdict"]) == ("Cloister", "refuted")]
        kept = {name: found[name] for name in ("name", "protection", "seeds")}
        broken = [{k: row[k] for k in ("observer", "experiment", "reason")} for row in found["rows"] if row.get("failed")]
        kept |= {"budget": found["budget"]["name"], "verdict": headline(found)}
        return kept | {"refuted": bad, "failed": broken, "not_covered": notes(found)}

    @property
    def claims(self) -> list[dict[str, Any]]:
        """A row for each claim and observer that it was tried against: claim, whose, verdict, witness, observer, experiment,
        bound (what is claimed, at most) and upper (what was found, at most, at 95 % one-sided; None where that says nothing).
        """
        return claims(self._found)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each experiment on each observer's view: what was found here, by the published sums alone, and of updates
        in clear; leakage from 0 (as the sums) to 1 (as in clear), its two-sided 95 % interval, and whether it means anything
        (valid); auc, of what was found here where members are told from others, else None.
        """
        found = [row for row in self._found["rows"] if row["leakage"]]
        return [{k: row[k] for k in ("observer", "experiment", "unit")} | row["leakage"] | {"auc": _area(row)} for row in found]

    @property
    def report(self) -> Path:
        """The page, written if it is not there."""
        path = self.folder / "report.html"
        return path if path.is_file() else write_audit_report(self.folder)

    def frame(self, rows: str = "rows") -> Any:
        """`rows` or `claims` as a data frame. Raises ImportError where pandas is not installed."""
        return frame_of(self._chosen(rows))

    def write(self, path: str | Path, rows: str = "rows") -> Path:
        """`rows` or `claims` as a file: .parquet, .arrow or .feather (extra `arrow`), or .csv. Raises ValueError for another."""
        return write_rows(self._chosen(rows), path)

    def plot(self, what: str = "leakage") -> "Figure":
        """ "leakage" of every experiment that means something, with its interval; how many do not stands below. Raises ValueError
        for another picture, or where none does.
        """
        if what != "leakage":
            raise ValueError(f"there is a picture of leakage, and none of {what!r}")
        from ..picture import Picture

        known = [row for row in self.rows if row["valid"]][::-1]
        if not known:
            raise ValueError("no experiment of this audit means anything: none works even in clear")
        figure = Picture(figsize=(7.2, 1.4 + 0.3 * len(known)), layout="constrained")
        axes = figure.subplots()
        names = [f"{row['experiment']}, {row['observer']}" for row in known]
        ends = [[row["value"] - row["low"] for row in known], [row["high"] - row["value"] for row in known]]
        axes.errorbar([row["value"] for row in known], range(len(known)), xerr=ends, fmt="o")
        axes.set_yticks(range(len(known)), names, fontsize=8)
        left = len(self.rows) - len(known)
        out = f"\nleft out: {left} inconclusive, whose attacks fail in clear too" if left else ""
        axes.set(xlabel=f"leakage: 0 as the sums, 1 as updates in clear; lower is better{out}", title=str(self._found["name"]))
        return figure

    def _chosen(self, rows: str) -> list[dict[str, Any]]:
        if rows not in ("rows", "claims"):
            raise ValueError(f"there are rows and claims, and no {rows!r}")
        found: list[dict[str, Any]] = getattr(self, rows)
        return found

    @property
    def _found(self) -> dict[str, Any]:
        try:
            text = (self.folder / "audit.json").read_text(encoding="utf-8")
        except OSError:
            raise ValueError(f"{self.folder} holds no audit") from None
        with whole(self.folder):
            found: dict[str, Any] = dict(json.loads(text))
        return found

    def check(self) -> None:
        """Raise ValueError of one line where the folder holds no audit, or a damaged one."""
        with whole(self.folder):
            tables(self._found)

    def __str__(self) -> str:
        with whole(self.folder):
            found = self._found
            return as_text(tables(found), self._lines(found))

    def _repr_html_(self) -> str:
        with whole(self.folder):
            found = self._found
            return as_html(tables(found), self._lines(found))

    def _lines(self, found: dict[str, Any]) -> list[str]:
        return [headline(found), *notes(found), f"report  {self.report}"]


def _area(row: Mapping[str, Any]) -> float | None:
    here = (row.get("told") or {}).get("here")
    return None if here is None else float(here["area"]["value"])
