"""The JSON files of LEAF (Caldas et al. 2018): FEMNIST, Shakespeare, the synthetic set, or your own in that form.

A file is an object with `users`, `num_samples` and `user_data`, which has for each user `x`, a list of inputs, and `y`, labels.
Inputs are lists of numbers, or texts of one length, of which the label is the next letter. A text's target is that letter alone,
as LEAF scores it; the targets before it are padding that no loss counts.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..clients.losses import IGNORED
from .gathered import check_finite, divided, examples_of
from .paths import nothing_at, one_path
from .population import Source


@dataclass(frozen=True, slots=True)
class LeafClients:
    """A loader of LEAF's files; see `from_leaf`."""

    path: str
    test: str | None = None
    shape: tuple[int, ...] | None = None
    classes: int | None = None
    test_share: float = 0.2
    instead: ClassVar[str] = "from_leaf reads the files that it names"

    def __call__(self, folder: Path | None, /) -> Source:
        """folder: not used. Raises ValueError of one line for what does not fit."""
        path = Path(self.path)
        train, test = _users(path), {} if self.test is None else _users(Path(self.test))
        missing = sorted(train.keys() ^ test.keys()) if self.test is not None else []
        if missing:
            raise ValueError(f"user {missing[0]!r} is not in both of {self.path} and {self.test}")
        letters = _letters([*train.values(), *test.values()], self.path)
        x, y, whose = _records(train, letters, self.shape, self.path)
        classes = self._classes([of["y"] for of in (*train.values(), *test.values())], letters)
        if self.test is None:
            return divided(path.stem, x, y, whose, classes, self.test_share)
        names, (x_test, y_test, theirs) = sorted(train), _records(test, letters, self.shape, self.test)
        place = {name: i for i, name in enumerate(names)}
        if empty := [name for name in names if name not in whose or name not in theirs]:
            raise ValueError(f"user {empty[0]!r} has no records in one of {self.path} and {self.test}")
        parts = examples_of(x, y, [place[i] for i in whose]), examples_of(x_test, y_test, [place[i] for i in theirs])
        return Source(path.stem, *parts, classes, tuple(names))

    def _classes(self, labels: Sequence[Sequence[Any]], letters: Mapping[str, int]) -> int:
        if letters:
            return len(letters)
        most = max((int(label) for of in labels for label in of), default=-1) + 1
        least = min((int(label) for of in labels for label in of), default=0)
        if least < 0 or (self.classes is not None and most > self.classes):
            raise ValueError(
                f"labels of {self.path} go from {least} to {most - 1}, where there are {self.classes or most} classes"
            )
        return self.classes or most


def from_leaf(
    path: str | Path,
    *,
    test: str | Path | None = None,
    shape: tuple[int, ...] | None = None,
    classes: int | None = None,
    test_share: float = 0.2,
) -> LeafClients:
    """LEAF's JSON files, a client for each user: a file, or a folder of .json files. Labels are whole numbers from 0, or letters.

    test: file or folder of the users' test data; None to hold out a share. shape: of an input, (1, 28, 28) for FEMNIST; None for
    a vector. classes: how many labels there are, 62 for FEMNIST; None: those seen.
    """
    instead = "a .json file, or a folder of them"
    tested = None if test is None else one_path(test, "from_leaf", instead)
    return LeafClients(one_path(path, "from_leaf", instead), tested, shape, classes, test_share)


def _users(path: Path) -> dict[str, Any]:
    """x and y by user, of all files. Raises ValueError for what is not of LEAF's form."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not path.exists():
        raise ValueError(nothing_at(path))
    if not files:
        raise ValueError(f"there is no .json file at {path}")
    found: dict[str, Any] = {}
    for file in files:
        try:
            of = json.loads(file.read_text(encoding="utf-8"))
            users = {str(user): of["user_data"][user] for user in of["users"]}
            sizes = {user: (len(data["x"]), len(data["y"])) for user, data in users.items()}
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{file} is not of LEAF's form (users, num_samples, user_data with x and y): {error!r}") from None
        if wrong := [user for user, (x, y) in sizes.items() if x != y]:
            raise ValueError(f"user {wrong[0]!r} of {file} has {sizes[wrong[0]][0]} inputs and {sizes[wrong[0]][1]} labels")
        if twice := sorted(found.keys() & users.keys()):
            raise ValueError(f"user {twice[0]!r} of {file} is in a file before it, too")
        found |= users
    return found


def _letters(users: Sequence[Mapping[str, Any]], where: str) -> dict[str, int]:
    """The number of each letter, in their order, where inputs are texts; empty where they are numbers."""
    first = next((entry for of in users for entry in of["x"]), None)
    if not isinstance(first, str):
        return {}
    texts = [text for of in users for part in ("x", "y") for text in of[part]]
    if not all(isinstance(text, str) for text in texts) or any(len(label) != 1 for of in users for label in of["y"]):
        raise ValueError(f"inputs of {where} are texts, and the label of each has to be one letter, the next")
    return {letter: k for k, letter in enumerate(sorted(set("".join(texts))))}


def _records(
    users: Mapping[str, Any], letters: Mapping[str, int], shape: tuple[int, ...] | None, where: str
) -> tuple[NDArray[Any], NDArray[np.int64], list[str]]:
    """Inputs, targets and whose they are."""
    whose = [user for user, of in users.items() for _ in of["y"]]
    inputs, labels = ([entry for of in users.values() for entry in of[part]] for part in ("x", "y"))
    if not inputs:
        raise ValueError(f"{where} holds no records")
    if len({len(entry) for entry in inputs}) > 1:
        raise ValueError(f"inputs of {where} are not all of one length")
    if letters:
        x = np.array([[letters[letter] for letter in text] for text in inputs], np.int64)
        y = np.full(x.shape, IGNORED, np.int64)
        y[:, -1] = [letters[label] for label in labels]
        return x, y, whose
    try:
        values, targets = np.array(inputs, np.float32), np.array([int(label) for label in labels], np.int64)
        values = values if shape is None else values.reshape(len(values), *shape)
    except (TypeError, ValueError) as error:
        raise ValueError(f"records of {where} are not numbers and labels: {error}") from None
    check_finite(where, values)
    return values, targets, whose
