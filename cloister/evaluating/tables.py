"""An evaluation on the terminal, and as JSON."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from ..fl.runs.results_folder import strict
from ..grids.spread import Spread, metric, percent
from .data import Grid


def grid_table(grid: Grid, protection: str) -> Table:
    """Each defence under one protection: accuracy without attack, and under the worst attack, which is named."""
    table = Table(title=f"{grid.about['name']}, under {protection}: accuracy in %, mean over seeds ±95 %", title_justify="left")
    table.add_column("defence", no_wrap=True)
    for column in ("without attack", "worst attack", "under it", "worst seed"):
        table.add_column(column, justify="left" if column == "worst attack" else "right")
    for defence in grid.defences:
        clean, worst = clean_words(grid, defence, protection), grid.worst_of_all(defence, protection)
        if worst is None:
            table.add_row(defence, clean, without_result(grid, defence, protection)[0], "", "")
            continue
        spot = grid.attacked(worst[0], defence, worst[1], protection)
        low = f"{100 * spot.least:.1f}" if spot else "-"
        table.add_row(defence, clean, f"{worst[0]}, {grid.about['strength']} {worst[1]:g}", percent(spot), low)
    return table


def clean_words(grid: Grid, defence: str, protection: str) -> str:
    """Accuracy without attack, and whether that is of a model that nothing ever moved."""
    return percent(grid.clean(defence, protection)) + (" (never moved)" if grid.idle(defence, protection) else "")


def without_result(grid: Grid, defence: str, protection: str) -> tuple[str, str]:
    """Whether a defence without a result under a protection was refused or failed or not played yet, and the reason."""
    for spot, rows in grid.cells.items():
        for row in rows:
            if (spot.defence, spot.protection) == (defence, protection) and row["status"] != "done":
                return str(row["status"]), str(row["reason"])
    return "not played yet", ""


def reasons(grid: Grid, protection: str) -> list[str]:
    """A line for each defence that has no result under a protection, or none that means anything."""
    silent = [d for d in grid.defences if grid.worst_of_all(d, protection) is None]
    found = {d: without_result(grid, d, protection) for d in silent}
    lines = [f"{d} under {protection}: {status}: {reason}" for d, (status, reason) in found.items() if reason]
    never = {d: grid.idle(d, protection) for d in grid.defences}
    return lines + [f"{d} under {protection}: never moved without attack: {reason}" for d, reason in never.items() if reason]


def grid_json(grid: Grid) -> dict[str, Any]:
    """Per defence and protection the worst attack, and every cell's line."""
    worst = []
    for protection in grid.protections:
        for defence in grid.defences:
            found = grid.worst_of_all(defence, protection)
            spot = None if found is None else grid.attacked(found[0], defence, found[1], protection)
            worst.append(
                {
                    "defence": defence,
                    "protection": protection,
                    "clean": _plain(grid.clean(defence, protection)),
                    "attack": None if found is None else found[0],
                    "strength": None if found is None else found[1],
                    "attacked": _plain(spot),
                }
            )
    cells = [strict(row) for rows in grid.cells.values() for row in rows]
    return {"name": grid.about["name"], "worst": worst, "cells": cells}


def _plain(spot: Spread | None) -> dict[str, Any] | None:
    if spot is None:
        return None
    half = None if spot.count == 1 else spot.half
    return {"mean": spot.mean, "half": half, "least": spot.least, "most": spot.most, "seeds": spot.count}


def breakdown_table(found: Mapping[str, Any]) -> Table:
    """What searches found: the median over seeds, its interval, and whether one crossing explains what was tried."""
    drop = found["steps"]["drop"]
    table = Table(
        title=f"{found['name']}: smallest {found['strength']} that cost over {drop:g} of accuracy", title_justify="left"
    )
    table.add_column("attack")
    table.add_column("defence")
    table.add_column("protection")
    table.add_column("median over seeds", justify="right")
    table.add_column("interval of the median", justify="right")
    table.add_column("remarks")
    for one in found["results"]:
        table.add_row(one["attack"], one["defence"], one["protection"], *breakdown_words(one, found["steps"]["most"]))
    return table


def breakdown_words(one: Mapping[str, Any], most: float) -> tuple[str, str, str]:
    """Median, interval and remarks of one search over its seeds."""
    remarks = sorted({seed["reason"] for seed in one["seeds"] if seed["reason"]})
    if one["median"] is None:
        return "-", "-", "; ".join(remarks)
    of = one["median"]
    words = [f"over {most:g}" if of[k] is None else f"{of[k]:g}" for k in ("median", "low", "high")]
    if not one["single"]:
        remarks.insert(0, "not monotone")
    coverage = 100 * metric(of, "coverage")
    interval = f"{words[1]} to {words[2]} (covers it with {coverage:.1f} %)" if coverage >= 0.05 else "none: one seed"
    return words[0], interval, "; ".join(remarks)
