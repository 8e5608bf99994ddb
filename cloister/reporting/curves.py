"""Curves over rounds, and traffic, as SVG."""

import io
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from .byte_words import byte_words
from .hues import GRID, HUES, INK, MUTED, SURFACE, colour, hue

COUNTS = ("round", "runs", "attackers")
"""Of axes, what there are only whole numbers of."""
WIDE, NARROW = 880, 380
LETTERS, LINE = 9.0, 16 / 72
"""Of an axis' name: how many fit into an inch of the drawing's width, and how high a line is, inches."""
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "report",
    "font.family": "sans-serif",
    "path.simplify_threshold": 0.3,
}


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A curve over rounds: float64 x and y of one shape (points,), NaN where nothing was measured; `hue` None is plain ink."""

    name: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    hue: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """The range low..high of many curves over rounds, float64, shape (points,)."""

    name: str
    x: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    hue: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Curves that share one pair of axes. `marks` are the rounds of splits; `unit` is "percent", "points" (of 100),
    "plain" or "log".

    axis: what x counts; whole numbers if there are no others of it. ticks: where it is labelled; empty for even steps. whiskers:
    ranges that are drawn as a bar at every point. shaded: ranges of x that are not to be compared with the rest.
    """

    name: str
    thin: Sequence[Line] = ()
    thick: Sequence[Line] = ()
    dashed: Sequence[Line] = ()
    bands: Sequence[Band] = ()
    marks: Sequence[float] = ()
    unit: str = "plain"
    axis: str = "round"
    ticks: Sequence[float] = ()
    whiskers: Sequence[Band] = ()
    shaded: Sequence[tuple[float, float]] = ()


def draw_curves(chart: Chart, width: int) -> Markup:
    """The chart as inline SVG of `width` pixels."""
    height = 330 if width >= WIDE else 280
    widest = max((len(line.name) for line in chart.thick), default=0)
    figure, axes = _axes(width, height, right=min(max(64, 18 + 8 * widest), width // 4) if chart.thick else 14)
    tips: list[tuple[str, int | None]] = []
    for low, high in chart.shaded:
        axes.axvspan(low, high, color=colour(MUTED), alpha=0.18, linewidth=0, zorder=0.5)
    for mark in chart.marks:
        axes.axvline(mark, color=colour(MUTED), linewidth=1, linestyle=(0, (2, 3)), zorder=1)
    for band in chart.bands:
        area = axes.fill_between(band.x, band.low, band.high, color=hue(band.hue), alpha=0.16, linewidth=0, zorder=1.5)
        area.set_gid(f"tip{len(tips)}")
        tips.append((band.name, band.hue))
    for bar in chart.whiskers:
        axes.vlines(bar.x, bar.low, bar.high, colors=hue(bar.hue), linewidth=1.3, alpha=0.75, zorder=1.8)
    for line in chart.thin:
        _plot(axes, line, tips, linewidth=1.1, alpha=0.5, zorder=2)
    for line in chart.dashed:
        _plot(axes, line, tips, linewidth=1.3, alpha=0.8, linestyle=(0, (4, 2)), zorder=2.5)
    for line in chart.thick:
        (artist,) = _plot(axes, line, tips, linewidth=3, zorder=3, solid_capstyle="round")
        artist.set_path_effects([withStroke(linewidth=5.5, foreground=colour(SURFACE))])
    if chart.unit == "log":
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 300 * low else (1,)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(NullLocator())
    if chart.unit in ("percent", "points"):
        low, high = axes.get_ylim()
        middle, half = (low + high) / 2, max(high - low, 0.08) / 2
        axes.set_ylim(middle - half, middle + half)
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        sign = " %" if chart.unit == "percent" else ""
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f}{sign}"))
    _x_axis(axes, [line.x for line in (*chart.thin, *chart.thick, *chart.dashed)], chart.axis, chart.ticks)
    _end_labels(axes, chart.thick, height)
    return _svg(figure, f"{chart.name}-{width}", tips)


def draw_traffic(rounds: NDArray[np.float64], up: NDArray[np.float64], down: NDArray[np.float64], width: int) -> Markup:
    """Bytes a round as inline SVG: what clients sent above the line, what they received below it; all of shape (rounds,)."""
    height = 200
    figure, axes = _axes(width, height, right=14)
    axes.fill_between(rounds, 0, up, step="mid", color=hue(0), alpha=0.8, linewidth=0)
    axes.fill_between(rounds, 0, -down, step="mid", color=hue(1), alpha=0.8, linewidth=0)
    if len(rounds) == 1:
        axes.bar(rounds, up, color=hue(0), width=0.4)
        axes.bar(rounds, -down, color=hue(1), width=0.4)
    axes.axhline(0, color=colour(INK), linewidth=1)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: byte_words(abs(value))))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    _x_axis(axes, [rounds], "round")
    return _svg(figure, f"traffic-{width}", [])


def _axes(width: int, height: int, *, right: int) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width / 72, height / 72), dpi=72)
    FigureCanvasSVG(figure)
    axes = figure.add_axes((58 / width, 40 / height, 1 - (58 + right) / width, 1 - 54 / height))
    axes.set_facecolor("none")
    figure.patch.set_visible(False)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(colour(MUTED))
    axes.grid(axis="y", color=colour(GRID), linewidth=1)
    axes.tick_params(colors=colour(MUTED), labelsize=12, length=0, pad=6, which="both")
    axes.set_axisbelow(True)
    axes.margins(y=0.06)
    return figure, axes


def _plot(axes: Axes, line: Line, tips: list[tuple[str, int | None]], **style: Any) -> list[Line2D]:
    lonely = int(np.isfinite(line.y).sum()) == 1
    drawn = axes.plot(line.x, line.y, color=hue(line.hue), marker="o" if lonely else None, **style)
    drawn[0].set_gid(f"tip{len(tips)}")
    tips.append((line.name, line.hue))
    return drawn


def _x_axis(axes: Axes, xs: Sequence[NDArray[np.float64]], name: str, ticks: Sequence[float] = ()) -> None:
    points = np.concatenate(xs) if xs else np.zeros(0)
    if len(points):
        low, high = points.min(), points.max()
        axes.set_xlim(low - 0.5 * (low == high), high + 0.5 * (low == high))
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=name in COUNTS, min_n_ticks=1))
    if ticks:
        axes.set_xticks(list(ticks), [f"{tick:g}" for tick in ticks])
        axes.margins(x=0.02)
        axes.set_xlim(auto=True)
        axes.autoscale(axis="x")
    figure = axes.get_figure()
    lines = textwrap.wrap(name, max(20, round(LETTERS * figure.get_figwidth()))) if isinstance(figure, Figure) else [name]
    if isinstance(figure, Figure) and len(lines) > 1:  # room below, taken from the curves
        box, more = axes.get_position(), LINE * (len(lines) - 1) / figure.get_figheight()
        axes.set_position((box.x0, box.y0 + more, box.width, box.height - more))
    axes.set_xlabel("\n".join(lines), color=colour(MUTED), fontsize=12)


def _end_labels(axes: Axes, lines: Sequence[Line], height: int) -> None:
    """Names the curves that live to the last round beside their ends, pushed apart so that no two names overlap."""
    ends = [(line, np.flatnonzero(np.isfinite(line.y))) for line in lines]
    last = max((line.x[seen[-1]] for line, seen in ends if len(seen)), default=0)
    alive = [(line, line.y[seen[-1]]) for line, seen in ends if len(seen) and line.x[seen[-1]] == last]
    if len(alive) > 12:
        return
    pixels = sorted(((axes.transData.transform((last, y))[1], line) for line, y in alive), key=lambda pair: pair[0])
    floor = -np.inf
    spots = []
    for y, line in pixels:
        floor = max(y, floor + 15)
        spots.append((floor, line))
    lifted = np.mean([spot - y for (spot, _), (y, _) in zip(spots, pixels, strict=True)]) if spots else 0.0
    over = max(lifted, max((y for y, _ in spots), default=0) - (height - 12))
    for y, line in spots:
        at = axes.transAxes.inverted().transform((0, y - over))[1]
        axes.text(
            1.012,
            at,
            line.name,
            transform=axes.transAxes,
            va="center",
            color=hue(line.hue),
            fontsize=13,
            fontweight="bold",
            parse_math=False,
        )


def _svg(figure: Figure, name: str, tips: Sequence[tuple[str, int | None]]) -> Markup:
    """The figure as SVG to be put into a page: own ids, no prologue, no size, variables for colours, `tips` as hover texts."""
    out = io.StringIO()
    with mpl.rc_context(_SETTINGS):
        figure.savefig(out, format="svg", transparent=True)
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'<svg [^>]*viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" aria-hidden="true" focusable="false">', text, count=1)
    text = text.replace("xlink:href", "href")
    text = re.sub(r"#0102([0-9a-f]{2})", lambda m: f"var(--c{int(m[1], 16)})", text)
    text = re.sub(r'<g id="tip(\d+)">', lambda m: _tip(*tips[int(m[1])]), text)
    text = re.sub(r'(\bid="|href="#|url\(#)', lambda m: m[1] + name + "-", text)
    return Markup(text)  # noqa: S704 - matplotlib's own output; the only foreign text in it is escaped above


def _tip(title: str, hue: int | None) -> str:
    group = "" if hue is None else f" hue{hue % HUES}"
    return f'<g class="curve{group}"><title>{escape(title)}</title>'
