"""What the parties of a deployment agree on of their tables, where no party has another's: names, and no records."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from .gathered import in_order, source_of
from .given import CsvClients
from .own import TableSchema
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

    def __call__(self, folder: Path | None, /) -> Source:
        """folder: not used."""
        whose = [str(client) for client in range(self.clients) for _ in self.labels for _ in range(OF_EACH)]
        y = [kind for _ in range(self.clients) for kind in self.labels for _ in range(OF_EACH)]
        x = np.random.default_rng(0).standard_normal((len(y), len(self.columns))).astype(np.float32)
        return source_of("agreed columns", x, y, whose, 1 / OF_EACH)

    def agreed(self) -> TableSchema:
        """What a client's own table has to have."""
        return TableSchema(self.columns, self.label, tuple(in_order(self.labels)))


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
    for what, names in (("columns", columns), ("labels", labels)):
        if isinstance(names, str) or not isinstance(names, Sequence):
            raise ValueError(f"{what} are a list, as [{str(names)!r}, ...], not {type(names).__name__}")
        if twice := [name for name in names if [str(one) for one in names].count(str(name)) > 1]:
            raise ValueError(f"{str(twice[0])!r} is twice among the {what}")
    if not columns or not all(isinstance(name, str) and name for name in columns):
        raise ValueError("columns are the names of the inputs, as a table's first line has them, and at least one")
    if label in columns:
        raise ValueError(f"{label!r} is to be learned, and cannot be among the columns, which are inputs")
    if len(labels) < 2 or not all(str(name) for name in labels):
        raise ValueError("labels are the values of the column to learn, and at least two, none of them empty")
    if not isinstance(clients, int) or clients < 1:
        raise ValueError(f"clients is how many take part, 1 or more, not {clients!r}")
    return AgreedColumns(tuple(columns), label, tuple(map(str, labels)), clients)


def made_up(data: object) -> str:
    """That a simulation of these data says nothing, and what would; empty where they are no made-up rows."""
    if not isinstance(data, AgreedColumns):
        return ""
    return (
        "the rows of agreed_columns are made up, and nothing is learned from them: simulate with records that you have,"
        f' --set \'data=from_csv("FOLDER", label="{data.label}")\''
    )


def agreed_table(data: Any) -> TableSchema | None:
    """What a client's own table has to have, where a scenario's data say so. Raises ValueError."""
    if isinstance(data, AgreedColumns):
        return data.agreed()
    return data.agreed() if isinstance(data, CsvClients) and Path(data.path).exists() else None
