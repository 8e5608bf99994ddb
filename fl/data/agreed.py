"""What the parties of a deployment agree on of their tables or images, where no party has another's: names, and no records."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from .gathered import in_order, source_of
from .given import CsvClients, FolderClients, check_shape
from .own import ImageSchema, Schema, TableSchema
from .population import Source

OF_EACH = 5
"""Rows that are made up of each label for each client: enough to hold some out."""


@dataclass(frozen=True, slots=True)
class AgreedColumns:
    """A loader of made-up rows for agreed columns; see `agreed_columns`."""

    columns: tuple[str, ...]
    label: str
    labels: tuple[str, ...]
    clients: int
    instead: ClassVar[str] = "agreed_columns makes rows up"
    records: ClassVar[str] = "the rows of agreed_columns"

    def __call__(self, folder: Path | None, /) -> Source:
        """folder: not used."""
        return _made_up("agreed columns", (len(self.columns),), self.labels, self.clients)

    def agreed(self) -> TableSchema:
        """What a client's own table has to have."""
        return TableSchema(self.columns, self.label, tuple(in_order(self.labels)))

    @property
    def own(self) -> str:
        """A loader of real ones."""
        return f'from_csv("FOLDER", label="{self.label}")'


@dataclass(frozen=True, slots=True)
class AgreedImages:
    """A loader of made-up images of agreed labels; see `agreed_images`."""

    shape: tuple[int, int, int]
    labels: tuple[str, ...]
    clients: int
    instead: ClassVar[str] = "agreed_images makes images up"
    records: ClassVar[str] = "the images of agreed_images"

    def __call__(self, folder: Path | None, /) -> Source:
        """folder: not used."""
        return _made_up("agreed images", self.shape, self.labels, self.clients)

    def agreed(self) -> ImageSchema:
        """What a client's own folder has to have."""
        return ImageSchema(self.shape, tuple(in_order(self.labels)))

    @property
    def own(self) -> str:
        """A loader of real ones."""
        return f'from_folders("FOLDER", shape={self.shape})'


MadeUp = AgreedColumns | AgreedImages


def _made_up(name: str, shape: tuple[int, ...], labels: Sequence[str], clients: int) -> Source:
    whose = [str(client) for client in range(clients) for _ in labels for _ in range(OF_EACH)]
    y = [kind for _ in range(clients) for kind in labels for _ in range(OF_EACH)]
    x = np.random.default_rng(0).standard_normal((len(y), *shape)).astype(np.float32)
    return source_of(name, x, y, whose, 1 / OF_EACH)


def agreed_columns(columns: Sequence[str], *, labels: Sequence[object], clients: int, label: str = "label") -> AgreedColumns:
    """For `cloister serve` and `cloister join`: so many clients have a CSV file each with these columns, in any order.

    columns: the inputs, numbers. label: the column to learn; labels: its values, two or more. Rows are made up, so that shapes
    are known and a model can be made; a coordinator scores nothing by them, and `cloister run` of such a scenario says nothing.
    A column of numbers to be predicted cannot be agreed on: regressions are learned in simulations alone.

    Raises ValueError of one line for names that are none, or twice there.
    """
    if not labels and not isinstance(labels, str):
        raise ValueError(
            "labels are the values of the column to learn; numbers to be predicted are learned in simulations alone, by"
            " from_csv(..., numbers=True)"
        )
    _check_names("columns", columns)
    if not columns or not all(isinstance(name, str) and name for name in columns):
        raise ValueError("columns are the names of the inputs, as a table's first line has them, and at least one")
    if label in columns:
        raise ValueError(f"{label!r} is to be learned, and cannot be among the columns, which are inputs")
    return AgreedColumns(tuple(columns), label, _checked(labels, clients, "the values of the column to learn"), clients)


def agreed_images(*, shape: tuple[int, int, int], labels: Sequence[object], clients: int) -> AgreedImages:
    """For `cloister serve` and `cloister join`: so many clients have a folder of images each, in it one for each label, by name.

    shape: of an input, (channels, height, width), with 1 or 3 channels: images are resized to it. labels: two or more. Images are
    made up, as the rows of `agreed_columns`. Raises ValueError of one line for names that are none, or twice there.
    """
    check_shape(shape)
    return AgreedImages(shape, _checked(labels, clients, "the names of the folders of images"), clients)


def _check_names(what: str, names: object) -> None:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise ValueError(f"{what} are a list, as [{str(names)!r}, ...], not {type(names).__name__}")
    if twice := [name for name in names if [str(one) for one in names].count(str(name)) > 1]:
        raise ValueError(f"{str(twice[0])!r} is twice among the {what}")


def _checked(labels: Sequence[object], clients: object, meaning: str) -> tuple[str, ...]:
    _check_names("labels", labels)
    if len(labels) < 2 or not all(str(name) for name in labels):
        raise ValueError(f"labels are {meaning}, and at least two, none of them empty")
    if not isinstance(clients, int) or clients < 1:
        raise ValueError(f"clients is how many take part, 1 or more, not {clients!r}")
    return tuple(map(str, labels))


def made_up(data: object) -> str:
    """That a simulation of these data says nothing, and what would; empty where they are not made up."""
    if not isinstance(data, MadeUp):
        return ""
    return (
        f"{data.records} are made up, and nothing is learned from them: simulate with records that you have,"
        f" --set 'data={data.own}'"
    )


def schema_of(data: object, source: Source) -> Schema | None:
    """What inputs and labels of data that were read as this source are called; None where they are not."""
    if isinstance(data, MadeUp):
        return data.agreed()
    if source.columns and source.labels:
        return TableSchema(source.columns, str(getattr(data, "label", "label")), source.labels)
    return ImageSchema(source.shape, source.labels) if isinstance(data, FolderClients) else None


def in_metadata(agreed: Schema | None) -> dict[str, str] | None:
    """What a model's file says of its inputs and outputs, in order, each as JSON; None where nothing was agreed on."""
    return None if agreed is None else {name: json.dumps(value) for name, value in agreed.plain.items()}


def agreed_on(data: Any) -> Schema | None:
    """What a client's own table or folder of images has to have, where a scenario's data say so. Raises ValueError."""
    if isinstance(data, MadeUp):
        return data.agreed()
    return data.agreed() if isinstance(data, CsvClients | FolderClients) and Path(data.path).exists() else None
