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
    x, whose = source.train.x, source.train.topic
    if x.ndim != 2 or not x.is_floating_point() or x.shape[1] > WIDEST or not source.clients or whose is None:
        return []
    every, whose = (
        torch.cat([x, source.test.x]),
        torch.cat([whose, source.test.topic]) if source.test.topic is not None else whose,
    )
    if len(every) != len(whose):
        return []
    parts = [every[whose == client] for client in range(len(source.clients))]
    found = [_name(source, k) for k in range(x.shape[1]) if all(len(p) >= FEWEST and _numbers(p[:, k]) for p in parts)]
    if not found:
        return []
    which = "which are inputs here: are they identifiers?" if len(found) > 1 else "which is an input here: is it an identifier?"
    return [f"{', '.join(found)} of {source.name} number{'s' * (len(found) == 1)} the rows of each client, {which} Leave it out"]


def _numbers(column: Tensor) -> bool:
    """Whether whole numbers follow each other without a gap, each once."""
    low, high = column.min(), column.max()
    return bool((column == column.round()).all()) and float(high - low) == len(column) - 1 == len(set(column.tolist())) - 1


def _name(source: Source, k: int) -> str:
    return repr(source.columns[k]) if source.columns else f"column {k} of the inputs"
