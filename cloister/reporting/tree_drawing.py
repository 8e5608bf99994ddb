"""The tree of splits as geometry: from left to right, or as an outline for a phone."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .hues import HUES

PHONE = 320
"""What a phone shows of a section, in pixels."""
_TREE_BOX, _TREE_GAP = (172, 66), (40, 12)
_SMALL_BOX, _SMALL_GAP, _SMALL_FROM = (130, 50), (20, 5), 13


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


def draw_tree(parents: Mapping[str, str | None], parts: Mapping[str, Sequence[tuple[int, int]]]) -> Tree:
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


def draw_outline(parents: Mapping[str, str | None], parts: Mapping[str, Sequence[tuple[int, int]]]) -> Tree:
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


def _shares(parts: Sequence[tuple[int, int]]) -> Iterable[tuple[float, float, int]]:
    total, start = sum(size for _, size in parts) or 1, 0
    for tint, size in parts:
        yield start / total, size / total, tint % HUES
        start += size
