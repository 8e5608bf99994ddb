"""The distances of a run that compared clients two by two: who accepts whom, how clearly, and where the tolerance lies."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from .curves import NARROW, WIDE, Chart, Line, draw_curves
from .hues import HUES
from .matrices import VALUES_SHOWN
from .matrix_picture import draw_matrix
from .run_data import Run, client_ids, final_clusters, number, sorted_ids

Matrix = NDArray[np.float64]
TINT = 0.35
"""Strength of the colour of a decision without a distance, where others have one; it is twice that where none has."""


def distances_panel(run: Run, hues: Mapping[str, int]) -> dict[str, Any] | None:
    """The matrix of W - tau in the order of the clusters at the end, and all pairs in order; None if none was compared.

    Row: the client that compares. Column: whose data arrive. Positive colours: below eps.
    """
    named = {name: sorted_ids(ids) for name, ids in final_clusters(run).items()}
    compared = [pair for line in run.pairs for pair in line.get("pairs") or () if isinstance(pair, list) and len(pair) == 4]
    known = {str(i) for pair in compared for i in pair[:2]}
    if not known:
        return None
    placed = {i for ids in named.values() for i in ids}
    rest = sorted_ids({*known, *client_ids(run)} - placed)
    order = [i for ids in named.values() for i in ids] + rest
    sizes = {name: len(ids) for name, ids in named.items() if ids} | ({"none": len(rest)} if rest else {})
    row = {i: r for r, i in enumerate(order)}
    excess, accepts = np.full((2, len(order), len(order)), np.nan)
    for i, j, edge, value in compared:
        if str(i) != str(j) and isinstance(edge, bool):
            accepts[row[str(i)], row[str(j)]] = edge
            excess[row[str(i)], row[str(j)]] = number(value)
    eps = next((e for line in reversed(run.pairs) if math.isfinite(e := number(line.get("eps")))), math.nan)
    decided = np.isfinite(accepts) & np.isfinite(accepts.T) & np.triu(np.ones_like(accepts, np.bool_), 1)
    both, either = np.minimum(accepts, accepts.T), np.maximum(accepts, accepts.T)
    lost = sum(len(line.get("lost") or ()) for line in run.pairs)
    edge_of_page = [hues.get(run.kin.get(i, ""), HUES - 1) for i in order]
    names = [run.name_of(i) for i in order]
    return {
        "eps": eps,
        "clients": len(order),
        "sizes": sizes,
        "pairs": int(decided.sum()),
        "joined": int((both[decided] == 1).sum()),
        "one_sided": int((both[decided] < either[decided]).sum()),
        "lost": lost,
        "undecided": math.comb(len(order), 2) - int(decided.sum()),
        "measured": bool(np.isfinite(excess).any()),
        "unmeasured": int((np.isfinite(accepts) & ~np.isfinite(excess)).sum()),
        "picture": draw_matrix(shades(excess, accepts, eps), sizes, edge_of_page),
        "shown": {"ids": names, "cells": _words(excess, accepts)} if len(order) <= VALUES_SHOWN else None,
        "curve": _curve(np.maximum(excess, excess.T)[decided], eps),
    }


def shades(excess: Matrix, accepts: Matrix, eps: float) -> Matrix:
    """From 1, farthest below eps, over 0 at eps to -1, farthest above; NaN where nothing was decided. A client joins itself."""
    measured = np.isfinite(excess) & np.isfinite(eps)
    shades: Matrix = (2 * accepts - 1) * (TINT if measured.any() else 2 * TINT)
    margin = eps - excess[measured]
    below, above = (max(float(side.max(initial=0.0)), 1e-12) for side in (margin, -margin))
    shades[measured] = np.where(margin > 0, margin / below, margin / above)
    np.fill_diagonal(shades, 1.0)
    return shades


def _words(excess: Matrix, accepts: Matrix) -> list[list[str | None]]:
    """What a reader is told of each cell."""

    def said(value: float, edge: float) -> str | None:
        if math.isnan(edge):
            return None
        word = "accepted" if edge else "refused"
        return f"{word}, without a distance" if math.isnan(value) else f"{value:.4g}, {word}"

    cells = [[said(*of) for of in zip(*rows, strict=True)] for rows in zip(excess.tolist(), accepts.tolist(), strict=True)]
    for i, line in enumerate(cells):
        line[i] = "the same client"
    return cells


def _curve(mutual: Matrix, eps: float) -> Sequence[Markup]:
    """All pairs by the larger excess of both sides, wide and narrow; nothing without two of them, or without eps."""
    values = np.sort(mutual[np.isfinite(mutual)])
    if len(values) < 2 or not math.isfinite(eps):
        return ()
    x = np.arange(1.0, len(values) + 1)
    tolerance = Line(f"eps {eps:.3g}", x[[0, -1]], np.array([eps, eps]))
    chart = Chart(name="distances", thick=[Line("W \u2212 \u03c4", x, values)], dashed=[tolerance], axis="pairs in order")
    return [draw_curves(chart, width) for width in (WIDE, NARROW)]
