"""The report of a search: one HTML page, made from the search's folder alone, that needs nothing from anywhere else."""

from pathlib import Path
from typing import Any

import numpy as np

from ..fl.runs.results_folder import Row, write
from ..grids.known import known_words
from ..grids.spread import in_points
from ..reporting.curves import NARROW, WIDE, Chart, Line, draw_curves
from ..reporting.headings import Tile
from ..reporting.page import environment, write_page
from ..reporting.run_data import flat, time_words
from ..tables_out import csv_of
from ..threat_models.broken import points
from ..threat_models.search.found import Point
from .data import Search, curve, found_words, read_search
from .points import figures_words, markdown, no_break, played_by, point_rows, shown, unplayed_words, with_interval
from .tables import as_given_words, break_words, failed_words, point_json, verdict
from .words import said

WORST_SHOWN = 30
LEAST = 0.01
"""Of a bound, below which a point is not shown among the worst: it did nothing."""


def write_search_report(folder: Path) -> Path:
    """Writes `folder`/table.csv, table.md and report.html, finished or not, and returns the path of the last."""
    search = read_search(folder)
    words = (
        *filter(None, [failed_words(search)]),
        verdict(search),
        f"Broken is a defence where {break_words(search)}.",
        *known_words(search.about),
    )
    write(folder / "table.csv", csv_of(point_rows(search)).encode())
    write(folder / "table.md", markdown(search, words).encode())
    return write_page(folder, render(search))


def render(search: Search) -> str:
    """The page as text. Everything that comes from the search is escaped by the template."""
    about = search.about
    template = environment(Path(__file__).parent, Path(__file__).parent.parent / "evaluating").get_template("attack.html.j2")
    return template.render(
        kind="search",
        title=f"{about['name']}: {about['defence']} attacked",
        verdict=verdict(search),
        tiles=tiles(search),
        search=search,
        about=about,
        shown=[row | {name: with_interval(row, name) for name in ("loss", "gained")} for row in shown(search)],
        broken=break_words(search),
        figures=figures_words(shown(search)),
        curve=[row | {"found": found_words(row)} for row in curve(search)],
        not_played=failed_words(search),
        known=known_words(about),
        charts=charts(search),
        worst=[point_json(p) for p in sorted(search.played, key=lambda p: -p.severity)[:WORST_SHOWN] if p.severity >= LEAST],
        attacks=by_attack(search),
        failed=search.failed,
        untried=unplayed_words(search).strip(),
        as_given=as_given_words(search),
        found=search.found,
        repeat=[*flat(about["scenario"])],
        machine=[*flat(about.get("versions", {})), *flat(about.get("machine", {}))],
    )


def tiles(search: Search) -> list[Tile]:
    """The numbers of the headline."""
    about, cheapest = search.about, search.found.get("cheapest")
    none = "nothing to take" if search.nothing else "none found" if search.played else "not known"
    attackers = none if cheapest is None else f"{cheapest['attackers']} of {about['clients']}"
    of = "clients that attack" if cheapest else f"by {played_by(search)}" if search.played else "no point was played"
    if (one := search.unsettled) is not None:
        attackers, of = f"{one.attackers} of {about['clients']}", "so far: the search was stopped"
    worst = max(search.played, key=lambda p: p.loss, default=None)
    failed = len(search.points) - len(search.played)
    return [
        Tile("cheapest break", attackers, of),
        Tile("worst loss", in_points(None if worst is None else worst.loss), _worst_words(search, worst)),
        Tile("points tried", f"{len(search.points)}", f"{failed} could not be played" if failed else "none failed"),
        Tile("runs", f"{len(search.rows)}", _budget(about)),
        Tile("time", time_words(search.seconds), "of one core"),
    ]


def _worst_words(search: Search, point: Point | None) -> str:
    """What the worst loss is of, and whether that is a break."""
    if point is None:
        return "points of accuracy"
    by = f"points of accuracy, by {point.attackers} attacker{'s' * (point.attackers != 1)}"
    return f"{by}; {no_break(search, point) or 'a break'}"


def _budget(about: Row) -> str:
    limits = [f"{about['runs']} runs"] if about["runs"] else []
    limits += [f"{about['minutes']:g} CPU minute{'s' * (about['minutes'] != 1)}"] if about["minutes"] else []
    return f"budget {' and '.join(limits)}"


def charts(search: Search) -> list[dict[str, Any]]:
    """How the worst that was found grows: with the number of attackers, and with the runs that were spent."""
    rows, steps = [row for row in curve(search) if row["loss"] is not None], search.growth()
    bounds, found = search.sought.bounds, []
    if len(rows) > 1 and search.sought.goal != "backdoor":
        x = np.array([r["attackers"] for r in rows], dtype=np.float64)
        y = np.array([r["loss"] for r in rows], dtype=np.float64)
        line, bound = Line("worst loss of any point", x, y, 1), Line(_bound(bounds.loss), x, np.full(len(x), bounds.loss), 0)
        chart = Chart(name="cost", thin=[line], dashed=[bound], unit="points", axis="attackers", ticks=list(x))
        found.append(_panel("Worst loss found, in points of accuracy, by number of attackers", chart))
    if len(steps) > 1:
        ends = [*(run for run, *_ in steps[1:]), len(search.rows)]  # up to which each was the worst that was known
        runs = np.array([x for (run, *_), end in zip(steps, ends, strict=True) for x in (run, end)], dtype=np.float64)
        severity = np.array([s[1] for s in steps for _ in range(2)])
        one = Line("the bound, above which it breaks the defence there", runs, np.ones(len(runs)), 0)
        chart = Chart(name="runs", thin=[Line("worst so far", runs, severity, 1)], dashed=[one], axis="runs")
        place = search.seed_searched if len(search.about["seeds"]) == 1 else f"any of {search.seed_searched}"
        title = f"Worst so far on {place}, as a multiple of the bound that it comes nearest to, by runs spent"
        found.append(_panel(title, chart))
    return found


def _bound(loss: float) -> str:
    return f"the bound, {points(loss)}, above which is a break if it holds on every seed"


def _panel(title: str, chart: Chart) -> dict[str, Any]:
    legend = [(line.name, line.hue, line in chart.dashed) for line in (*chart.thin, *chart.dashed)]
    return {"title": title, "chart": _both(chart), "id": chart.name, "legend": legend}


def _both(chart: Chart) -> tuple[Any, ...]:
    return tuple(draw_curves(chart, width) for width in (WIDE, NARROW))


def by_attack(search: Search) -> list[dict[str, Any]]:
    """Of every attack how much was tried, and the worst of it."""
    names = dict.fromkeys(str(p.numbers["attack"]) for p in search.played)
    rows = []
    for name in names:
        tried = [p for p in search.played if p.numbers["attack"] == name]
        top = max(tried, key=lambda p: p.severity)
        rates = [h.success for p in tried for h in p.seen if h.success is not None]
        rows.append(
            {
                "attack": name,
                "points": len(tried),
                "loss": max(p.loss for p in tried),
                "success": max(rates, default=None),
                "attackers": top.attackers,
                "at": said(top.numbers),
            }
        )
    return sorted(rows, key=lambda row: -row["loss"])
