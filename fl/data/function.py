"""A plain function as a data set: it is handed the data folder, and returns a `Source`, or inputs and labels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..functions import Unfit, brief, called, is_function, misfit, name_of
from .images import stratified
from .population import Examples, Source

TEST_SHARE = 0.2
"""Of every label, held out to score models by, where a function returns inputs and labels alone."""


@dataclass(frozen=True, slots=True)
class DataFunction:
    """A loader that is a function of the folder (None for where data are by default). It returns a `Source`; or inputs
    (n, ...) of numbers with labels (n,) from 0, of which a share is held out.
    """

    function: Callable[[Path | None], Any]

    def __call__(self, folder: Path | None, /) -> Source:
        found = self.function(folder)
        if isinstance(found, Source):
            return found
        if not isinstance(found, tuple | list) or len(found) != 2:
            raise Unfit(f"{called(self.function)} returned {brief(found)}; a data set is a Source, or inputs and labels: x, y")
        return _source(name_of(self.function), called(self.function), found)


def as_data(data: Any) -> Any:
    """The loader, a plain function with what it returns checked."""
    if not is_function(data):
        return data
    if wrong := misfit(data, ["folder"]):
        raise ValueError(f"data, {called(data)}, does not fit: {wrong}")
    return DataFunction(data)


def _source(name: str, of: str, found: Sequence[Any]) -> Source:
    try:
        x, y = np.asarray(found[0], np.float32), np.asarray(found[1])
    except (TypeError, ValueError):
        raise Unfit(f"{of} returned inputs that are no numbers") from None
    if x.ndim < 2 or y.shape != x.shape[:1]:
        raise Unfit(f"{of} returned inputs of shape {x.shape} and labels of shape {y.shape}; they are (n, ...) and (n,)")
    if not len(y):
        raise Unfit(f"{of} returned no examples")
    if np.issubdtype(y.dtype, np.integer) and y.min() < 0:
        raise Unfit(f"{of} returned the label {y.min()}; labels are whole numbers from 0")
    if not np.issubdtype(y.dtype, np.integer):
        raise Unfit(f"{of} returned labels of type {y.dtype}; they are whole numbers from 0")
    if not np.isfinite(x).all():
        raise Unfit(f"{of} returned inputs that are not finite, the first in example {int(np.argwhere(~np.isfinite(x))[0, 0])}")
    labels = y.astype(np.int64)
    train, test = (torch.from_numpy(part) for part in stratified(labels, TEST_SHARE))
    every = Examples(torch.from_numpy(np.ascontiguousarray(x)), torch.from_numpy(labels))
    return Source(name, every.take(train), every.take(test), int(labels.max()) + 1)
