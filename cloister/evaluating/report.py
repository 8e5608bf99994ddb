"""The report of an evaluation: one HTML page, made from the evaluation's folder alone, that needs nothing from anywhere else."""

import math
from importlib import resources
from pathlib import Path

import jinja2

from ..reporting.figures import byte_words
from ..reporting.run_data import DASH, flat, number, time_words
from .cells import METRICS, MORE, details
from .data import Grid, read_grid
from .panels import (
    backdoors,
    breakdowns,
    command,
    curves,
    defences,
    few_evaluations,
    heat_maps,
    learned,
    nobody_loyal,
    refusals,
    tiles,
)
from .verdict import verdict


def write_evaluation_report(folder: Path) -> Path:
    """Writes `folder`/report.html from the evaluation's folder, finished or not, and returns its path."""
    grid = read_grid(folder)
    page = folder / "report.html"
    unfinished = folder / "report.html.part"
    unfinished.write_text(render(grid), encoding="utf-8")
    unfinished.replace(page)
    return page


def render(grid: Grid) -> str:
    """The page as text. Everything that comes from the evaluation is escaped by the template."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(
        percent=lambda v: f"{100 * v:.1f}" if math.isfinite(v := number(v)) else DASH,
        short=lambda v: f"{v:.3g}" if math.isfinite(v := number(v)) else DASH,
        bytes=lambda v: byte_words(v) if math.isfinite(v := number(v)) else DASH,
        time=time_words,
    )
    template = environment.from_string(resources.files(__package__).joinpath("evaluate.html.j2").read_text(encoding="utf-8"))
    about = grid.about
    return template.render(
        grid=grid,
        title=str(about["name"]),
        verdict=verdict(grid),
        tiles=tiles(grid),
        defences={p: defences(grid, p) for p in grid.protections},
        maps=heat_maps(grid),
        backdoors=backdoors(grid),
        curves=curves(grid),
        breakdowns=breakdowns(grid),
        few=few_evaluations(grid),
        command=command(grid),
        nobody_loyal=nobody_loyal(grid),
        refusals=refusals(grid),
        learned=learned(grid),
        details=details(grid),
        metrics=[name for name, _, _ in METRICS],
        more=[name for name, _ in MORE],
        repeat=[*flat(about["scenario"])],
        attacks=[*flat(about["attacks"])],
        rules=[*flat(about["defences"])],
        machine=[*flat(about.get("versions", {})), *flat(about.get("machine", {}))],
    )
