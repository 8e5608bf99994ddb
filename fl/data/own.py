"""A client's own data, for a client that is not simulated: a CSV file, or a folder of images by label."""

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..fields_at_fault import about
from .held_out import by_place
from .looking import SHOWN, look
from .pictures import IMAGES, picture
from .population import Client, Examples, Population, Source
from .spelling import HEADLESS, are_no_names, nearest
from .table import LARGEST, difference, finite_number, lines_of, number_in, opened


@dataclass(frozen=True, slots=True)
class TableSchema:
    """What the scenario's own table says that every client's has. columns: the inputs, in order. label: the column to learn.

    kinds: its values, in the order of the classes.
    """

    columns: tuple[str, ...]
    label: str
    kinds: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of an input."""
        return (len(self.columns),)

    @property
    def plain(self) -> dict[str, Any]:
        """By name, as JSON has it."""
        return {"label": self.label, "columns": list(self.columns), "labels": list(self.kinds)}


@dataclass(frozen=True, slots=True)
class ImageSchema:
    """What the scenario says of every client's images. shape: of an input, (channels, height, width). kinds: the labels, by which
    folders are named, in the order of the classes.
    """

    shape: tuple[int, ...]
    kinds: tuple[str, ...]

    @property
    def plain(self) -> dict[str, Any]:
        """By name, as JSON has it."""
        return {"shape": list(self.shape), "labels": list(self.kinds)}


Schema = TableSchema | ImageSchema


@dataclass(frozen=True, slots=True)
class OwnData:
    """A loader of what lies at `path`, for a model of inputs of this shape and so many classes.

    agreed: the columns of a CSV file, which are found by name, in any order; none may be missing or more, and labels are in its
    words. Without it a CSV file has one example a line, its numbers in the order of the input and its label, from 0, in the last
    column; a first line that is not numbers is passed over. A folder has a folder of .png or .jpg images for each label, named by
    it where labels are agreed, else by its number; they are resized (bicubic) and scaled to [0, 1]. test_share: held
    out to score models by, by the places of records alone (`held_out.by_place`).
    """

    path: Path
    shape: tuple[int, ...]
    classes: int
    test_share: float = 0.2
    agreed: Schema | None = None

    def __call__(self, folder: Path | None) -> Source:
        """Raises ValueError of one line for data that do not fit. folder: not used."""
        with about(""):  # it is a file of the client's own that is at fault, and no line of the scenario's
            return self._source()

    def _source(self) -> Source:
        x, y = self._table() if self.path.is_file() else self._pictures()
        if not len(y):
            raise ValueError(f"{self.path} holds no examples")
        if y.min() < 0 or y.max() >= self.classes:
            raise ValueError(f"{self.path} has labels from {y.min()} to {y.max()}, where the model knows 0 to {self.classes - 1}")
        train, test = by_place(np.zeros(len(y), np.int64), self.test_share)
        if not len(train) or not len(test):
            raise ValueError(f"{self.path} holds too few examples to hold out a share of {self.test_share} of them")
        every = Examples(torch.from_numpy(x), torch.from_numpy(y))
        return Source("own", every.take(torch.from_numpy(train)), every.take(torch.from_numpy(test)), self.classes)

    def _table(self) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        if isinstance(self.agreed, ImageSchema):
            raise ValueError(f"{self.path} is a file, and images were agreed on: give a folder with {_homes(self.agreed)} in it")
        if self.agreed is not None:
            return self._by_name(self.agreed)
        wide, rows = math.prod(self.shape) + 1, []
        with opened(self.path) as file:
            for number, line in enumerate(csv.reader(file), 1):
                if not line:
                    continue
                try:
                    rows.append([number_in(cell) for cell in line])
                except ValueError:
                    if rows or number > 1:
                        raise ValueError(f"line {number} of {self.path} is not numbers alone") from None
                    continue
                if len(rows[-1]) != wide:
                    raise ValueError(
                        f"line {number} of {self.path} has {len(rows[-1])} columns, where the model takes {wide - 1} numbers"
                        " and a label"
                    )
        table = np.array(rows, dtype=np.float64).reshape(-1, wide)
        labels = table[:, -1]
        if not np.isfinite(table).all() or (labels != labels.astype(np.int64)).any():
            raise ValueError(f"{self.path} has numbers that are not finite, or labels that are not whole numbers")
        if (np.abs(table) > LARGEST).any():
            raise ValueError(f"{self.path} has numbers that are too large; bring columns to one scale")
        return table[:, :-1].astype(np.float32).reshape(-1, *self.shape), labels.astype(np.int64)

    def _by_name(self, agreed: TableSchema) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The table's rows in the agreed order of columns, labels as the agreed numbers."""
        wanted, codes = (*agreed.columns, agreed.label), {kind: code for code, kind in enumerate(agreed.kinds)}
        x, y = list[list[float]](), list[int]()
        lines = lines_of(self.path)
        _, there = next(lines)
        found = difference(wanted, there)
        if found and are_no_names(there):  # whose values are nobody's to read in an error
            raise ValueError(f"{self.path} begins with a row of numbers{HEADLESS}")
        if found:
            raise ValueError(
                f"{self.path} has other columns than was agreed: its first line {found}; it is to name {', '.join(wanted)}"
            )
        for number, cells in lines:
            row = dict(zip(there, cells, strict=True))
            where = f"line {number} of {self.path}"
            try:
                x.append([finite_number(row[name], f"{where}: column {name!r}") for name in agreed.columns])
                y.append(_code_of(row[agreed.label], codes, f"{where}: {agreed.label}"))
            except ValueError as error:
                raise ValueError(f"{error}{_faults_in(self.path, agreed)}") from None
        return np.array(x, np.float32).reshape(-1, *self.shape), np.array(y, np.int64)

    def _pictures(self) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        if not self.path.is_dir():
            raise ValueError(f"there is no file or folder {self.path}")
        if len(self.shape) != 3 or self.shape[0] not in (1, 3):
            raise ValueError(f"the model takes inputs of shape {self.shape}, which are not images; give a CSV file")
        found = [
            (path, self._label_of(home))
            for home in sorted(home for home in self.path.iterdir() if home.is_dir())
            for path in sorted(home.iterdir())
            if path.suffix.lower() in IMAGES
        ]
        x = np.empty((len(found), *self.shape), np.float32)
        for row, (path, _) in enumerate(found):
            x[row] = picture(path, self.shape)
        return x, np.array([label for _, label in found], np.int64)

    def _label_of(self, home: Path) -> int:
        """Of the images in this folder, by its name."""
        if isinstance(self.agreed, ImageSchema):
            return _code_of(home.name, {kind: code for code, kind in enumerate(self.agreed.kinds)}, f"{home}: its name, a label,")
        if not (home.name.isascii() and home.name.isdecimal()):
            raise ValueError(
                f"{home} is named by no number, and this scenario has labels by number, from 0 to {self.classes - 1}; labels in"
                " words are agreed on by data.agreed_images(shape=..., labels=[...], clients=...)"
            )
        return int(home.name)


def _homes(agreed: ImageSchema) -> str:
    """The folders that there are to be."""
    return " and ".join(f"{kind}/" for kind in agreed.kinds[:SHOWN])


def _code_of(kind: str, codes: Mapping[str, int], where: str) -> int:
    """The number of a label in words. Raises ValueError of one line for one that was not agreed."""
    if kind in codes:
        return codes[kind]
    if not kind:
        raise ValueError(f"{where} is empty; fill it in, or leave the row out")
    meant = nearest(kind, tuple(codes))
    raise ValueError(
        f"{where} is {kind!r}, none of those agreed: {', '.join(codes)}" + (f"; is {meant!r} meant?" if meant else "")
    )


def _faults_in(path: Path, agreed: TableSchema) -> str:
    """How many cells are at fault, where there are more than one, and in which columns; none of what is in them."""
    found = look(path, agreed.label)
    by = {column.name: column.missing + column.others for column in found.columns}
    by[agreed.label] = sum(count for kind, count in found.labels.items() if kind not in agreed.kinds)
    if sum(by.values()) < 2:
        return ""
    named = [f"{name} ({count})" for name, count in by.items() if count]
    more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
    return f"; {sum(by.values())} cells are at fault: {', '.join(named[:SHOWN])}{more}"


@dataclass(frozen=True, slots=True)
class Alone:
    """A partition of one client, which has all."""

    client: int

    def __call__(self, source: Source, rng: np.random.Generator) -> Population:
        """rng: not used."""
        mine = Client(self.client, source.train, source.test)
        return Population({self.client: mine}, {self.client: 0}, source.classes, source.shape)
