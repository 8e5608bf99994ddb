"""Data sets of Hugging Face's `datasets` (extra `huggingface`), by client. The package is needed only to load one by its name."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from .gathered import Given, source_of
from .pictures import pixels_of


def from_hugging_face(
    dataset: Any,
    *,
    label: str,
    client: str,
    inputs: str | Sequence[str] | None = None,
    shape: tuple[int, int, int] | None = None,
    numbers: bool = False,
    split: str = "train",
    name: str | None = None,
    test_share: float = 0.2,
) -> Given:
    """A data set of `datasets`: a row is a record.

    dataset: the data set itself, or a name or folder that `datasets.load_dataset` is given, with this split. label: the column to
    learn. client: the column of the client's name. inputs: columns of numbers or of lists of numbers, or one of images, which
    are resized to `shape` (channels 1 or 3, height, width) and scaled to [0, 1]; None for all other columns. numbers: the label
    is a number, to be predicted. Raises ValueError of one line for what does not fit, or where `datasets` is not installed.
    """
    called = name or (dataset if isinstance(dataset, str) else "data set")
    if isinstance(dataset, str):
        dataset = _loaded(dataset, split)
    there = getattr(dataset, "column_names", None)
    if not isinstance(there, list | tuple):
        raise ValueError(f"{called} has several splits: give one of them, dataset['train'] for instance")
    given = [inputs] if isinstance(inputs, str) else inputs
    columns = [column for column in there if column not in (label, client)] if given is None else list(given)
    for wanted in (label, client, *columns):
        if wanted not in there:
            raise ValueError(f"{called} has no column {wanted!r}; it has: {', '.join(there)}")
    if not columns:
        raise ValueError(f"{called} has no column of inputs beside {label!r} and {client!r}")
    x = np.concatenate([_column(dataset[column], column, shape, len(columns) > 1) for column in columns], axis=1)
    if shape is not None and x.shape[1:] != shape:
        x = _shaped(x, shape)
    whose = [str(whose) for whose in dataset[client]]
    return Given.of(source_of(called, x, list(dataset[label]), whose, test_share, numbers=numbers))


def _loaded(name: str, split: str) -> Any:
    try:
        import datasets
    except ImportError:
        raise ValueError("data sets by name need Hugging Face's datasets: pip install 'cloister[huggingface]'") from None
    return datasets.load_dataset(name, split=split)


def _column(entries: Any, name: str, shape: tuple[int, int, int] | None, flat: bool) -> NDArray[np.float32]:
    """float32 (n, ...); (n, k) where it stands beside other columns. Raises ValueError for what are no numbers or images."""
    rows = list(entries)
    if rows and isinstance(rows[0], Image.Image):
        if shape is None:
            raise ValueError(f"column {name!r} has images: give their shape, (3, 32, 32) for instance")
        try:
            found = np.stack([pixels_of(row, shape) for row in rows])
        except ValueError as error:
            raise ValueError(f"an image of column {name!r}: {error}") from None
    else:
        try:
            found = np.array([np.asarray(row, np.float32) for row in rows], np.float32)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"column {name!r} is no input of numbers, all of one length: {error}; name others by inputs="
            ) from None
    return found.reshape(len(rows), -1) if flat or found.ndim < 2 else found


def _shaped(x: NDArray[np.float32], shape: tuple[int, int, int]) -> NDArray[np.float32]:
    try:
        return x.reshape(len(x), *shape)
    except ValueError:
        raise ValueError(f"inputs of shape {x.shape[1:]} cannot be given the shape {shape}") from None
