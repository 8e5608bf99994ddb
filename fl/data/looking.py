"""A look at a client's own data before anything is agreed or connected: rows, columns, labels, and what is wrong with them.

Nothing of a single record is in it but the words of labels.
"""

import csv
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from PIL import Image

from .pictures import IMAGES
from .table import check_commas, number_in, opened

SHOWN = 8
"""Files that are named."""
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "-"})
"""How files say, in whatever case, that a value is not there."""


CODES = frozenset({999.0, 9999.0, 99999.0})
"""By which they say it in columns of numbers, with either sign."""


@dataclass(slots=True)
class Column:
    """Of a table. missing: cells without a value. others: cells with what is no finite number. constant: whether all numbers in
    it are one.
    """

    name: str
    missing: int = 0
    others: int = 0
    least: float = math.inf
    most: float = -math.inf

    @property
    def constant(self) -> bool:
        return self.least == self.most

    @property
    def code(self) -> float:
        """The least or the most of it, where it is what programs write for a value that is not there; else 0."""
        return next((end for end in (self.least, self.most) if abs(end) in CODES), 0.0)

    def take(self, cell: str) -> None:
        """Another cell of it."""
        if cell.strip().lower() in MISSING:
            self.missing += 1
            return
        try:
            value = number_in(cell)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            self.others += 1
            return
        self.least, self.most = min(self.least, value), max(self.most, value)


@dataclass(frozen=True, slots=True)
class Look:
    """What was found. label: the column that is taken for the labels; empty of images. labels: how often each is there.

    ragged: rows with another number of cells than the first.
    sizes: of images, how many of each (width, height); unreadable: files that are none.
    """

    rows: int
    columns: tuple[Column, ...] = ()
    label: str = ""
    labels: Mapping[str, int] = field(default_factory=dict)
    ragged: int = 0
    sizes: Mapping[tuple[int, int], int] = field(default_factory=dict)
    unreadable: int = 0


def look(path: Path, label: str | None = None) -> Look:
    """At a CSV file, or a folder of images by label. label: the column of labels; None for the one called so, or the last.

    Raises ValueError of one line for what is neither.
    """
    if path.is_file():
        return _table(path, label)
    if path.is_dir():
        return _images(path)
    raise ValueError(f"there is no file or folder {path}")


def _table(path: Path, label: str | None) -> Look:
    with opened(path) as file:
        lines = csv.reader(file, skipinitialspace=True)
        first = next((line for line in lines if line), None)
        if first is None:
            raise ValueError(f"{path} is empty")
        check_commas(path, first)
        headed = not all(map(_number, first))
        names = [name.strip() for name in first] if headed else [f"column {k + 1}" for k in range(len(first))]
        wanted = label or "label"
        if headed and label is not None and label not in names:
            raise ValueError(f"{path} has no column {label!r}, which is to be learned; it has: {', '.join(names)}")
        at = names.index(wanted) if wanted in names else len(names) - 1
        columns, labels, rows, ragged = [Column(name) for name in names], Counter[str](), 0, 0
        for cells in chain([] if headed else [first], (line for line in lines if line)):
            rows += 1
            if len(cells) != len(names):
                ragged += 1
                continue
            labels[cells[at].strip()] += 1
            for k, cell in enumerate(cells):
                if k != at:
                    columns[k].take(cell)
    inputs = tuple(column for k, column in enumerate(columns) if k != at)
    return Look(rows, inputs, names[at], dict(sorted(labels.items())), ragged)


def _images(path: Path) -> Look:
    labels, sizes, unreadable = Counter[str](), Counter[tuple[int, int]](), 0
    for home in sorted(home for home in path.iterdir() if home.is_dir()):
        for image in sorted(one for one in home.iterdir() if one.suffix.lower() in IMAGES):
            labels[home.name] += 1
            try:
                with Image.open(image, formats=("PNG", "JPEG")) as found:
                    sizes[found.size] += 1
            except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
                unreadable += 1
    if not labels:
        if tables := sorted(one.name for one in path.iterdir() if one.is_file() and one.suffix.lower() == ".csv"):
            more = f" and {len(tables) - SHOWN} more" if len(tables) > SHOWN else ""
            which = f"for example {path / tables[0]}" if tables[1:] else f"{path / tables[0]}"
            raise ValueError(
                f"{path} is a folder of {', '.join(tables[:SHOWN])}{more}, and a client gives one file of its own: {which}"
            )
        raise ValueError(f"{path} holds no images; it has a folder for each label, with .png or .jpg images")
    return Look(sum(labels.values()), labels=dict(labels), sizes=dict(sizes.most_common()), unreadable=unreadable)


def _number(cell: str) -> bool:
    try:
        number_in(cell)
    except ValueError:
        return False
    return True
