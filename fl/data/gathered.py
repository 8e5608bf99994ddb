"""Records of many clients, gathered and divided: what each client trains on, and what its models are scored by."""

import hashlib
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from .held_out import by_place
from .population import Examples, Source
from .spelling import check_spelling, said_of_decimals

NO_NUMBER = "missing, not finite or above 3.4e38"
"""What a number of 32 bits is not."""


@dataclass(frozen=True, slots=True)
class Given:
    """A loader of what is in memory. clients, examples: how many. digest: SHA-256 of names, inputs and labels, by which a run
    that is gone on with knows its data again.
    """

    name: str
    clients: int
    examples: int
    digest: str
    source: Source = field(compare=False, repr=False)
    instead: ClassVar[str] = "the scenario's data are in memory"

    def __call__(self, folder: Path | None, /) -> Source:
        """folder: not used."""
        return self.source

    @classmethod
    def of(cls, source: Source) -> "Given":
        """These data."""
        digest = hashlib.sha256(repr((source.name, source.clients, source.classes)).encode())
        for part in (source.train, source.test):
            digest.update(part.x.contiguous().numpy().tobytes())
            digest.update(part.y.contiguous().numpy().tobytes())
        return cls(source.name, len(source.clients), len(source.train) + len(source.test), digest.hexdigest(), source)


def source_of(
    name: str,
    x: NDArray[np.float32],
    y: Sequence[Hashable],
    whose: Sequence[str],
    test_share: float,
    classes: int | None = None,
    *,
    numbers: bool = False,
) -> Source:
    """These records, a share of each client's held out (`held_out.by_place`). classes: None where labels are any values. numbers:
    labels are numbers.

    Raises ValueError for inputs that are not finite, and for a client without records to train or to score by.
    """
    if not len(y):
        raise ValueError(f"{name} holds no records")
    check_finite(name, x)
    targets: NDArray[Any]
    words: tuple[str, ...] = ()
    if numbers:
        targets, count = _numbers(name, y), 1
    elif classes is None:
        check_spelling(name, y, dict(zip(y, whose, strict=True)))
        kinds = in_order(set(y))
        codes = {kind: code for code, kind in enumerate(kinds)}
        targets = np.array([codes[kind] for kind in y], np.int64)
        count, words = len(kinds), tuple(map(str, kinds))
    else:
        targets, count = np.array(y, np.int64), classes
        check_labels(targets, count)
    if 2 * count > len(y) and (why := said_of_decimals(words)):
        raise ValueError(f"{len(y)} records of {name} have {count} labels; {why}")
    return replace(divided(name, x, targets, whose, count, test_share), labels=words)


def divided(
    name: str,
    x: NDArray[Any],
    targets: NDArray[Any],
    whose: Sequence[str],
    classes: int,
    test_share: float,
) -> Source:
    """These records, a share of each client's held out, by their places alone.

    Raises ValueError for a client without records to train or to score by.
    """
    names = tuple(in_order(set(whose)))
    place = {client: i for i, client in enumerate(names)}
    clients = np.array([place[client] for client in whose], np.int64)
    train, test = by_place(clients, test_share)
    for kept, what in ((train, "train on"), (test, "score models by")):
        if missing := [names[i] for i in np.setdiff1d(np.arange(len(names)), clients[kept])]:
            raise ValueError(
                f"client {missing[0]!r} of {name} has too few records to {what}"
                f"{_least_words(test_share)}; give it more, leave it out, or join it with another"
            )
    every = examples_of(x, targets, clients)
    return Source(name, every.take(torch.from_numpy(train)), every.take(torch.from_numpy(test)), classes, names)


def _least_words(test_share: float) -> str:
    """How many are enough with this share, in brackets; empty where that is not to be said."""
    for count in range(1, 101):
        if all(len(kept) for kept in by_place(np.zeros(count, np.int64), test_share)):
            return f" (with test_share={test_share:g}, {count} are enough)"
    return ""


def _numbers(name: str, y: Sequence[Any]) -> NDArray[np.float32]:
    try:
        found = as_float32([float(value) for value in y])
    except (TypeError, ValueError) as error:
        raise ValueError(f"labels of {name} are to be numbers: {error}") from None
    if not np.isfinite(found).all():
        row = int(np.flatnonzero(~np.isfinite(found))[0])
        raise ValueError(f"record {row + 1} of {name} has a label that is {NO_NUMBER}; leave it out")
    return found


def as_float32(values: Any) -> NDArray[np.float32]:
    """As numbers of 32 bits; those that are larger are infinite, and told by whoever looks for such."""
    with np.errstate(over="ignore"):
        return np.asarray(values, np.float32)


def examples_of(x: NDArray[Any], y: NDArray[Any], whose: Sequence[int] | NDArray[np.int64]) -> Examples:
    """As tensors. whose: the position of each record's client."""
    return Examples(torch.from_numpy(np.ascontiguousarray(x)), torch.from_numpy(y), torch.from_numpy(np.asarray(whose, np.int64)))


def check_finite(name: str, x: NDArray[np.float32]) -> None:
    """Raises ValueError for inputs that are not."""
    if not np.isfinite(x).all():
        row = int(np.flatnonzero(~np.isfinite(x.reshape(len(x), -1)).all(1))[0])
        raise ValueError(f"record {row + 1} of {name} has an input that is {NO_NUMBER}; fill it in, or leave it out")


def check_labels(labels: NDArray[np.int64], classes: int) -> None:
    """Raises ValueError for labels outside of 0 to classes - 1."""
    if len(labels) and labels.min() < 0:
        raise ValueError(f"there is a label {labels.min()}: labels are whole numbers from 0 on")
    if len(labels) and (labels.min() < 0 or labels.max() >= classes):
        raise ValueError(f"labels go from {labels.min()} to {labels.max()}, where there are {classes} classes, from 0")


def in_order(values: Iterable[Any]) -> list[Any]:
    """Numbers by their size, also where they are texts of numbers, and those of one size ("0", "00") as text; others as text."""
    values = list(values)
    try:
        if any(isnan(float(value)) for value in values):  # of no size, so that their order would be by chance
            return sorted(values, key=str)
        return sorted(values, key=lambda value: (float(value), str(value)))
    except (TypeError, ValueError):
        return sorted(values, key=str)
