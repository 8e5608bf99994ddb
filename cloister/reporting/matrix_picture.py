"""Similarity matrices as tiny PNGs."""

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from numpy.typing import NDArray
from PIL import Image

from .hues import HUES

MATRIX_PIXELS = 160


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


def draw_matrix(values: NDArray[np.float64], children: Mapping[str, int], hues: Sequence[int]) -> Matrix:
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
