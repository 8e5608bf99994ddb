"""Figures of a run: curves over rounds and traffic as SVG, similarity matrices as tiny PNGs, the tree of splits as geometry.

Colours are names until the browser shows them: matplotlib draws with placeholder colours and the finished SVG refers to the
style sheet's variables instead, so that one figure fits a light and a dark page.
"""

import base64
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import matplotlib as mpl
import numpy as np
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray
from PIL import Image

HUES = 8
COUNTS = ("round", "runs", "attackers")
"""Of axes, what there are only whole numbers of."""
WIDE, NARROW = 880, 380
MATRIX_PIXELS = 160
INK, MUTED, GRID, SURFACE, FIRST_HUE = 1, 2, 3, 4, 16
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "report",
    "font.family": "sans-serif",
    "path.simplify_threshold": 0.3,
}
PHONE = 320
"""What a phone shows of a section, in pixels."""
_TREE_BOX, _TREE_GAP = (172, 66), (40, 12)
_SMALL_BOX, _SMALL_GAP, _SMALL_FROM = (130, 50), (20, 5), 13


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
    ranges that are drawn as a bar at every point.
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


@dataclass(frozen=True, slots=True)
class Matrix:
    """A similarity matrix ready to be drawn in a unit square.

    light, dark: PNG data URIs. edges: where one child ends, in (0, 1). strips: (start, length, hue) of runs of one group.
    """

    light: str
    dark: str
    edges: tuple[float, ...]
    spans: tuple[tuple[str, float, float], ...]
    strips: tuple[tuple[float, float, int], ...]


@dataclass(frozen=True, slots=True)
class Box:
    """One node of the drawn tree, in pixels; `parts` are (start, length, hue) of its planted groups as shares of 1."""

    name: str
    x: float
    y: float
    parts: tuple[tuple[float, float, int], ...]


@dataclass(frozen=True, slots=True)
class Tree:
    """The drawn tree: its size in pixels, its boxes and, for each box but the roots, the path of the edge from its parent."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    edges: tuple[str, ...]
    box: tuple[int, int]
    crowded: bool


def colour(slot: int) -> str:
    """The placeholder colour that becomes the style sheet's variable of `slot`."""
    return f"#0102{slot:02x}"


def hue(index: int | None) -> str:
    """The placeholder of the index-th group colour (eight, then again from the first), or of plain ink for None."""
    return colour(INK if index is None else FIRST_HUE + index % HUES)


def curves(chart: Chart, width: int) -> Markup:
    """The chart as inline SVG of `width` pixels."""
    height = 330 if width >= WIDE else 280
    widest = max((len(line.name) for line in chart.thick), default=0)
    figure, axes = _axes(width, height, right=min(max(64, 18 + 8 * widest), width // 4) if chart.thick else 14)
    tips: list[tuple[str, int | None]] = []
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


def traffic(rounds: NDArray[np.float64], up: NDArray[np.float64], down: NDArray[np.float64], width: int) -> Markup:
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


def matrix(values: NDArray[np.float64], children: Mapping[str, int], hues: Sequence[int]) -> Matrix:
    """A picture of cosines in [-1, 1], float64, shape (clients, clients), whose rows come child by child.

    `children` gives each child's size in row order, `hues` each row's group. More than 160 clients are averaged in blocks, never
    across two children. A value that is not finite is drawn as a gap.
    """
    sizes = list(children.values())
    if sum(sizes) != len(values) or len(hues) != len(values):
        raise ValueError(
            f"{len(values)} rows, but {sum(sizes)} members of children and {len(hues)} groups; give one of each a row"
        )
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
    blocks = [max(1, round(size * min(1.0, MATRIX_PIXELS / len(values)))) for size in sizes]
    parts = [
        p for a, b, n in zip(starts, starts[1:], blocks, strict=False) for p in np.array_split(np.arange(a, b), min(n, b - a))
    ]
    if len(parts) < len(values):
        values = np.stack([values[part].mean(axis=0) for part in parts])
        values = np.stack([values[:, part].mean(axis=1) for part in parts], axis=1)
    index = np.where(np.isfinite(values), np.rint((np.clip(values, -1, 1) + 1) * 127), 255).astype(np.uint8)
    total = len(parts)
    bounds = np.concatenate([[0], np.cumsum([min(n, s) for n, s in zip(blocks, sizes, strict=True)])]) / total
    where = np.concatenate([np.linspace(a, b, s, endpoint=False) for a, b, s in zip(bounds, bounds[1:], sizes, strict=False)])
    spans = tuple((name, float(a), float(b)) for name, a, b in zip(children, bounds, bounds[1:], strict=False))
    strips = tuple(_runs(np.append(where, 1.0), hues))
    return Matrix(_png(index, dark=False), _png(index, dark=True), tuple(float(b) for b in bounds[1:-1]), spans, strips)


def tree(parents: Mapping[str, str | None], parts: Mapping[str, Sequence[tuple[int, int]]]) -> Tree:
    """The tree of `parents` drawn from left to right, leaves below each other in the order of their names.

    From 13 leaves on the boxes are smaller. A parent that is not itself a node makes its child a root. `parts` gives each node's
    (hue, members) in the order in which they are drawn.
    """
    children = _children(parents)
    crowded = len(parents) - len(children) + 1 >= _SMALL_FROM
    (wide, high), (gap_x, gap_y) = (_SMALL_BOX, _SMALL_GAP) if crowded else (_TREE_BOX, _TREE_GAP)
    spots: dict[str, tuple[float, float]] = {}
    edges: list[str] = []
    leaves = 0

    def place(name: str, depth: int) -> float:
        nonlocal leaves
        below = [place(child, depth + 1) for child in children.get(name, [])]
        if not below:
            leaves += 1
        y = (below[0] + below[-1]) / 2 if below else (leaves - 1) * (high + gap_y)
        x = depth * (wide + gap_x)
        spots[name] = (x, y)
        for end in below:
            middle = x + wide + gap_x / 2
            path = f"M{x + wide:.0f} {y + high / 2:.0f}C{middle:.0f} {y + high / 2:.0f} {middle:.0f} {end + high / 2:.0f}"
            edges.append(f"{path} {x + wide + gap_x:.0f} {end + high / 2:.0f}")
        return y

    for root in children.get(None, []):
        place(root, 0)
    boxes = tuple(Box(name, x, y, tuple(_shares(parts.get(name, [])))) for name, (x, y) in spots.items())
    width = max((x for x, _ in spots.values()), default=0) + wide
    return Tree(width, max(1, leaves) * (high + gap_y) - gap_y, boxes, tuple(edges), (wide, high), crowded)


def outline(parents: Mapping[str, str | None], parts: Mapping[str, Sequence[tuple[int, int]]]) -> Tree:
    """The same tree for a phone: each node below its parent, a little to the right of it, all within `PHONE` pixels."""
    children = _children(parents)
    (wide, high), gap = _TREE_BOX, _TREE_GAP[1]
    rows: list[tuple[str, int]] = []

    def place(name: str, depth: int) -> None:
        rows.append((name, depth))
        for child in children.get(name, []):
            place(child, depth + 1)

    for root in children.get(None, []):
        place(root, 0)
    step = min(24.0, (PHONE - wide) / max(1, *(depth for _, depth in rows), 1))
    spots = {name: (step * depth, float(k * (high + gap))) for k, (name, depth) in enumerate(rows)}
    edges = []
    for name, (x, y) in spots.items():
        for child in children.get(name, []):
            end_x, end_y = spots[child]
            edges.append(f"M{x + step / 2:.1f} {y + high:.0f}V{end_y + high / 2:.0f}H{end_x:.1f}")
    boxes = tuple(Box(name, x, y, tuple(_shares(parts.get(name, [])))) for name, (x, y) in spots.items())
    width = max((x for x, _ in spots.values()), default=0) + wide
    return Tree(width, max(1, len(rows)) * (high + gap) - gap, boxes, tuple(edges), (wide, high), crowded=False)


def _children(parents: Mapping[str, str | None]) -> dict[str | None, list[str]]:
    """The nodes below each, in the order of their names; roots below None."""
    children: dict[str | None, list[str]] = {}
    for name, parent in sorted(parents.items()):
        children.setdefault(parent if parent in parents and parent != name else None, []).append(name)
    return children


def byte_words(count: float) -> str:
    """A number of bytes in words: 1500 is "1.5 kB"."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(count) < 999.5 or unit == "TB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" or abs(count) >= 99.95 else f"{count:.3g} {unit}"


def _shares(parts: Sequence[tuple[int, int]]) -> Iterable[tuple[float, float, int]]:
    total, start = sum(size for _, size in parts) or 1, 0
    for tint, size in parts:
        yield start / total, size / total, tint % HUES
        start += size


def _runs(bounds: NDArray[np.float64], hues: Sequence[int]) -> Iterable[tuple[float, float, int]]:
    start = 0
    for i in range(1, len(hues) + 1):
        if i == len(hues) or hues[i] != hues[start]:
            yield float(bounds[start]), float(bounds[i] - bounds[start]), hues[start] % HUES
            start = i


@cache
def _palette(dark: bool) -> bytes:
    stops = (
        ["#ffab5e", "#8a4a1c", "#1d2329", "#1f5c8a", "#7cc4ff"]
        if dark
        else ["#8f3b00", "#e08a45", "#f5f4f1", "#5b9fd0", "#0a4a80"]
    )
    table = LinearSegmentedColormap.from_list("similarity", stops)(np.linspace(0, 1, 255))[:, :3]
    gap = [0.45, 0.45, 0.45]
    return (np.vstack([table, gap]) * 255).round().astype(np.uint8).tobytes()


def _png(index: NDArray[np.uint8], *, dark: bool) -> str:
    rows, columns = index.shape
    image = Image.frombytes("P", (columns, rows), index.tobytes())
    image.putpalette(_palette(dark))
    out = io.BytesIO()
    image.save(out, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


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
    axes.set_xlabel(name, color=colour(MUTED), fontsize=12)


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
