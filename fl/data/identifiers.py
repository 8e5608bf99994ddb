"""Columns of a table that number its rows, and are perhaps no inputs."""

import torch
from torch import Tensor

from .population import Source

FEWEST = 10
"""Rows of every client, from which on a column that numbers them is no chance."""
WIDEST = 1000
"""Columns of a table, above which they are not looked at one by one."""


def numbered_rows(source: Source) -> list[str]:
    """A line where a column of a table numbers each client's rows, from anywhere on and in any order; none of other data."""
    x = source.train.x
    if x.ndim != 2 or not x.is_floating_point() or x.shape[1] > WIDEST or not source.clients or source.train.topic is None:
        return []
    columns = list(range(x.shape[1]))
    for client in range(len(source.clients)):
        parts = [of.x[of.topic == client] for of in (source.train, source.test) if of.topic is not None]
        rows = torch.cat(parts)
        columns = [k for k in columns if len(rows) >= FEWEST and _numbers(rows[:, k])]
        if not columns:
            return []
    found = [_name(source, k) for k in columns]
    which = "which are inputs here: are they identifiers?" if len(found) > 1 else "which is an input here: is it an identifier?"
    number = f"{', '.join(found)} of {source.name} number{'s' * (len(found) == 1)} the rows of each client"
    return [f"{number}, {which} Leave it out (from_csv: without)"]


def _numbers(column: Tensor) -> bool:
    """Whether whole numbers follow each other without a gap, each once."""
    low, high = column.min(), column.max()
    return bool((column == column.round()).all()) and float(high - low) == len(column) - 1 == len(set(column.tolist())) - 1


def _name(source: Source, k: int) -> str:
    return repr(source.columns[k]) if source.columns else f"column {k} of the inputs"
