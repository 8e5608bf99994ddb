"""The report of an evaluation: one HTML page, made from the evaluation's folder alone, that needs nothing from anywhere else."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..fl.runs.results_folder import write
from ..grids.known import known_words
from ..reporting.page import environment, write_page
from ..reporting.run_data import flat
from ..tables_out import csv_of
from ..threat_models.broken import broken_words, points
from . import summaries, texts
from .cells import METRICS, MORE, details, headed
from .data import Grid, read_grid
from .heat import backdoors, heat_maps
from .panels import (
    backdoor_courses,
    breakdowns,
    command,
    curves,
    defences,
    late_words,
    learned,
    nobody_loyal,
    refusals,
    tiles,
)
from .tables import NOT_PLAYED
from .texts import cell_rows
from .verdict import sentences


def write_evaluation_report(folder: Path) -> Path:
    """Writes `folder`/table.csv, table.md, summary.csv, summary.md and report.html, finished or not; the path of the last."""
    grid = read_grid(folder)
    write(folder / "table.csv", csv_of(cell_rows(grid)).encode())
    write(folder / "table.md", texts.markdown(grid).encode())
    write(folder / "summary.csv", summaries.csv_text(grid).encode())
    write(folder / "summary.md", summaries.markdown(grid).encode())
    return write_page(folder, render(grid))


def render(grid: Grid) -> str:
    """The page as text. Everything that comes from the evaluation is escaped by the template."""
    template = environment(Path(__file__).parent).get_template("evaluate.html.j2")
    about = grid.about
    return template.render(
        kind="evaluation",
        grid=grid,
        title=str(about["name"]),
        said=sentences(grid),
        tiles=tiles(grid),
        defences=_played({p: defences(grid, p) for p in grid.protections}),
        first_searched=bool(grid.breakdown) and bool(grid.breakdown["results"]) and grid.unplayed > 0,
        maps=heat_maps(grid),
        backdoors=backdoors(grid),
        curves=curves(grid),
        breakdowns=breakdowns(grid),
        late=late_words(grid),
        courses=backdoor_courses(grid),
        known=known_words(about),
        broken=broken_words(grid.bounds),
        bounds={name: points(value) for name, value in asdict(grid.bounds).items()},
        command=command(grid),
        nobody_loyal=nobody_loyal(grid),
        refusals=refusals(grid),
        learned=learned(grid),
        details=details(grid),
        metrics=["lost, points", *(headed(name, share) for name, _, share in METRICS)],
        more=[name for name, _ in MORE],
        repeat=[*flat(about["scenario"])],
        attacks=[*flat(about["attacks"])],
        rules=[*flat(about["defences"])],
        machine=[*flat(about.get("versions", {})), *flat(about.get("machine", {}))],
    )


def _played(of: Mapping[str, list[dict[str, Any]]]) -> Mapping[str, list[dict[str, Any]]]:
    """Tables by place, without those in which nothing was played yet, if there are others."""
    return {p: rows for p, rows in of.items() if any(row["found"] or row["instead"] != NOT_PLAYED for row in rows)} or of
