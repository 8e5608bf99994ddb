"""Your own data, whose clients are there already: CSV files, data frames, data sets of torch, folders of images.

Each function makes a loader for a `Scenario`'s `data`, which then needs no partition. A share of every label of every client is
held out to score models by; which one depends on the order of the records alone. Labels may be any values: classes are the
distinct ones in order, and where they are 0, 1, 2, .. they stay what they are. With `numbers` labels are numbers to be predicted,
a regression; scale them to about 1, as inputs, since steps are of one length whatever the unit.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from .gathered import NO_NUMBER, Given, as_float32, check_finite, check_labels, examples_of, in_order, source_of
from .own import ImageSchema, TableSchema
from .paths import nothing_at, one_path, seen
from .pictures import IMAGES, picture
from .population import Source
from .spelling import check_columns
from .table import difference, finite_number, lines_of

Rows = Sequence[Sequence[float]]


class Dataset(Protocol):
    """Of torch: pairs of an input and a label."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> tuple[Any, Any]: ...


Read = tuple[tuple[str, ...], list[list[float]], list[Hashable], list[str]]
"""Names of the inputs; inputs, labels and clients of the rows."""


@dataclass(frozen=True, slots=True)
class CsvClients:
    """A loader of CSV files; see `from_csv`."""

    path: str
    label: str = "label"
    client: str | None = None
    test_share: float = 0.2
    numbers: bool = False
    without: tuple[str, ...] = ()
    instead: ClassVar[str] = "from_csv reads the files that it names"

    def __call__(self, folder: Path | None, /) -> Source:
        """folder: not used. Raises ValueError of one line for what does not fit."""
        columns, x, y, whose = self._all()
        found = source_of(Path(self.path).stem, np.array(x, np.float32), y, whose, self.test_share, numbers=self.numbers)
        return replace(found, columns=columns)

    def _all(self) -> Read:
        """Of all files."""
        path = Path(self.path)
        if path.is_dir():
            files = sorted(file for file in seen(path) if file.suffix.lower() == ".csv")
            if not files:
                raise ValueError(f"{path} holds no .csv file; give a folder with one for each client, or one file")
        elif path.is_file():
            files = [path]
            if self.client is None:
                raise ValueError(f"{path} is one file: name the column that says whose a row is, from_csv(..., client=COLUMN)")
        else:
            raise ValueError(nothing_at(path))
        columns: tuple[str, ...] = ()
        x, y, whose = list[list[float]](), list[Hashable](), list[str]()
        for file in files:
            found = self._read(file, columns)
            columns = columns or found[0]
            x += found[1]
            y += found[2]
            whose += found[3]
        return columns, x, y, whose

    def agreed(self) -> TableSchema | None:
        """What a client's own table has to have; None where labels are numbers. Raises ValueError as reading does."""
        if self.numbers:
            return None
        columns, _, kinds, _ = self._all()
        return TableSchema(columns, self.label, tuple(map(str, in_order({*kinds}))))

    def _read(self, file: Path, known: tuple[str, ...]) -> Read:
        """Names of the inputs; inputs, labels and clients of its rows."""
        lines = lines_of(file)
        _, names = next(lines)
        check_columns(str(file), {"label": self.label, "client": self.client}, names, "from_csv")
        if missing := [name for name in self.without if name not in names]:
            raise ValueError(f"{file} has no column {missing[0]!r}, which `without` leaves out; it has {', '.join(names)}")
        columns = tuple(name for name in names if name not in (self.label, self.client, *self.without))
        if not columns:
            raise ValueError(f"{file} has no column that is an input: there is nothing to learn from")
        if known and {*columns} == {*known}:
            columns = known  # in another order
        if known and columns != known:
            raise ValueError(f"{file} has other columns than the files before: it {difference(known, columns)}")
        x, y, whose = list[list[float]](), list[Hashable](), list[str]()
        label = _target if self.numbers else _text
        for number, cells in lines:
            row = dict(zip(names, cells, strict=True))
            x.append([_number(row[name], file, number, name) for name in columns])
            y.append(label(row[self.label], file, number, self.label))
            whose.append(file.stem if self.client is None else _text(row[self.client], file, number, self.client))
        if not x:
            raise ValueError(f"{file} has a header and no rows")
        return columns, x, y, whose


@dataclass(frozen=True, slots=True)
class FolderClients:
    """A loader of images; see `from_folders`."""

    path: str
    shape: tuple[int, int, int]
    test_share: float = 0.2
    instead: ClassVar[str] = "from_folders reads the images that it names"

    def __call__(self, folder: Path | None, /) -> Source:
        """folder: not used. Raises ValueError of one line for what does not fit."""
        path, found = Path(self.path), self._all()
        x = np.stack([picture(image, self.shape) for image, _, _ in found])
        return source_of(path.name, x, [label for _, label, _ in found], [whose for _, _, whose in found], self.test_share)

    def agreed(self) -> ImageSchema:
        """What a client's own folder has to have. Raises ValueError as reading does."""
        return ImageSchema(self.shape, tuple(in_order({label for _, label, _ in self._all()})))

    def _all(self) -> list[tuple[Path, str, str]]:
        """Images, each with its label and whose it is."""
        path = Path(self.path)
        if not path.is_dir():
            wrong = f"{path} is a file; give a folder with one for each client" if path.exists() else nothing_at(path)
            raise ValueError(wrong)
        found = [
            (image, kind.name, home.name)
            for home in sorted(seen(path))
            if home.is_dir()
            for kind in sorted(seen(home))
            if kind.is_dir()
            for image in sorted(seen(kind))
            if image.suffix.lower() in IMAGES
        ]
        if not found:
            raise ValueError(
                f"{path} holds no images; it has a folder for each client, and in it one for each label, with images"
            )
        return found


def from_csv(
    path: str | Path,
    *,
    label: str = "label",
    client: str | None = None,
    without: Iterable[str] | None = None,
    numbers: bool = False,
    test_share: float = 0.2,
) -> CsvClients:
    """CSV files with a header: a folder with one for each client, named by it, or one file with a column that says whose a row
    is.

    label: the column to learn. client: the column of the client's name. without: columns that are left out, such as numbers of
    patients. numbers: the label is a number, to be predicted. All other columns are inputs, and numbers. Raises ValueError where
    `without` is a text, or names the label.
    """
    without = () if without is None else without if isinstance(without, str) else tuple(sorted(map(str.strip, without)))
    if isinstance(without, str):
        raise ValueError(f"without is a list of columns that are no inputs: without=[{without!r}]")
    if label in without:
        raise ValueError(f"without leaves out {label!r}, which is to be learned")
    instead = "a folder with a file for each client, or one file with a column that says whose a row is, client=COLUMN"
    return CsvClients(one_path(path, "from_csv", instead), label, client, test_share, numbers, without)


def from_folders(path: str | Path, *, shape: tuple[int, int, int], test_share: float = 0.2) -> FolderClients:
    """Images PATH/CLIENT/LABEL/IMAGE, .png or .jpg, resized to `shape` (channels 1 or 3, height, width), in [0, 1]."""
    check_shape(shape)
    return FolderClients(one_path(path, "from_folders", "a folder with one for each client"), shape, test_share)


def check_shape(shape: tuple[int, int, int]) -> None:
    """Raises ValueError for what is no shape of images."""
    if len(shape) != 3 or shape[0] not in (1, 3) or min(shape) < 1:
        raise ValueError(f"shape is (channels, height, width) with 1 or 3 channels, as (1, 32, 32), not {shape}")


def from_dataframe(
    frame: Any, *, label: str, client: str, numbers: bool = False, name: str = "data frame", test_share: float = 0.2
) -> Given:
    """A data frame of pandas, or of anything with `columns` and `frame[column]`: a row is a record.

    label: the column to learn. client: the column of the client's name. numbers: the label is a number, to be predicted. All
    other columns are inputs, and numbers.
    """
    if not hasattr(frame, "columns"):
        raise ValueError(f"from_dataframe takes a data frame, with columns, not a {type(frame).__name__}")
    check_columns("the data frame", {"label": label, "client": client}, list(frame.columns), "from_dataframe")
    columns = [column for column in frame.columns if column not in (label, client)]
    if twice := [column for column, times in Counter(frame.columns).items() if times > 1]:
        raise ValueError(f"the data frame has two columns {twice[0]!r}; give each a name of its own, or leave one out")
    if not columns:
        raise ValueError(f"the data frame has no column beside {label!r} and {client!r}: there is nothing to learn from")
    x = np.column_stack([_inputs(frame, column) for column in columns])
    for column in (label, client):
        if empty := [row for row, cell in enumerate(frame[column], 1) if _missing(cell)]:
            raise ValueError(f"column {column!r} of the data frame is empty in record {empty[0]}; fill it in, or leave it out")
    whose = [str(whose) for whose in frame[client]]
    found = source_of(name, x, list(frame[label]), whose, test_share, numbers=numbers)
    return Given.of(replace(found, columns=tuple(map(str, columns))))


def _records(client: Any, of: Any) -> Any:
    """Arrays of inputs and of labels as records; anything else as it is. Raises ValueError where they are not of one length."""
    if not isinstance(of, tuple) or len(of) != 2 or not all(getattr(part, "ndim", 0) for part in of) or of[1].ndim != 1:
        return of
    if len(of[0]) != len(of[1]):
        raise ValueError(f"client {client!r} has {len(of[0])} inputs and {len(of[1])} labels")
    return list(zip(*of, strict=True))


def from_datasets(
    clients: Mapping[Any, Dataset],
    *,
    test: Mapping[Any, Dataset] | None = None,
    classes: int | None = None,
    name: str = "data sets",
    test_share: float = 0.2,
) -> Given:
    """Data sets of torch, sequences of (input, label), or (inputs, labels) of two arrays, by client; inputs are tensors or arrays
    of one shape, labels whole numbers.

    test: what each client's models are scored on; None to hold out a share. classes: how many labels there are; None: those seen.
    """
    for what, given in (("clients", clients), ("test", test)):
        if given is not None and not isinstance(given, Mapping):
            raise ValueError(f"{what} are a dict of data sets by client, {{'a': ..., 'b': ...}}, not a {type(given).__name__}")
    if test is not None and test.keys() != clients.keys():
        raise ValueError("clients and test have to name the same clients")
    if len({str(client) for client in clients}) < len(clients):
        raise ValueError("two clients have one name, as text")
    clients, test = {i: _records(i, of) for i, of in clients.items()}, test and {i: _records(i, of) for i, of in test.items()}
    for client, of in (*clients.items(), *(test or {}).items()):
        if not hasattr(of, "__len__") or not hasattr(of, "__getitem__"):
            raise ValueError(f"the records of client {client!r} cannot be counted and indexed; give list(...) of them")
    whose = [str(client) for client, of in clients.items() for _ in range(len(of))]
    x, y = _stacked(clients)
    seen = y.max(initial=-1) + 1
    if empty := [client for client, of in clients.items() if not len(of)]:
        raise ValueError(f"client {empty[0]!r} of {name} has no records; leave it out")
    if test is None:
        return Given.of(source_of(name, x, y.tolist(), whose, test_share, classes or int(seen)))
    x_test, y_test = _stacked(test)
    count = classes or int(max(seen, y_test.max(initial=-1) + 1))
    names = tuple(str(client) for client in clients)
    place = {client: i for i, client in enumerate(names)}
    for labels in (y, y_test):
        check_labels(labels, count)
    check_finite(name, np.concatenate([x, x_test]))
    theirs = [str(client) for client, of in test.items() for _ in range(len(of))]
    if missing := [client for client in names if client not in whose or client not in theirs]:
        raise ValueError(f"client {missing[0]!r} of {name} has no records to train on, or none to score models by")
    parts = (examples_of(x, y, [place[i] for i in whose]), examples_of(x_test, y_test, [place[i] for i in theirs]))
    return Given.of(Source(name, *parts, count, names))


def _stacked(clients: Mapping[Any, Dataset]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    x, y = list[NDArray[np.float32]](), list[int]()
    for client, records in clients.items():
        for index in range(len(records)):
            try:
                if isinstance(found := records[index], Mapping):
                    raise ValueError(f"it is a mapping of {', '.join(map(str, found))}; give pairs, (input, label)")
                entry, label = found
                x.append(as_float32(entry.detach() if isinstance(entry, Tensor) else entry))
                y.append(int(label))
            except (TypeError, ValueError) as error:
                raise ValueError(f"record {index} of client {client!r} is not numbers and a label: {error}") from None
    if len({entry.shape for entry in x}) > 1:
        raise ValueError(f"inputs have several shapes: {', '.join(map(str, sorted({entry.shape for entry in x})[:3]))}")
    return np.stack(x) if x else np.empty((0, 0), np.float32), np.array(y, np.int64)


def _inputs(frame: Any, column: Any) -> NDArray[np.float32]:
    """A column of a data frame. Raises ValueError of one line, by its name, where it is not numbers alone."""
    hint = "columns beside label and client are inputs, and have to be numbers"
    if np.asarray(frame[column]).dtype.kind in "mM":
        raise ValueError(f"column {column!r} of the data frame has dates or times; {hint}, such as days since an event")
    try:
        found = as_float32(frame[column])
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {column!r} of the data frame: {error}; {hint}") from None
    if (wrong := np.flatnonzero(~np.isfinite(found))).size:
        row, more = int(wrong[0]), f", and in {wrong.size - 1} more" if wrong.size > 1 else ""
        raise ValueError(
            f"column {column!r} of the data frame is {NO_NUMBER} in record {row + 1}{more}; fill it in, or leave it out"
        )
    return found


def _missing(cell: Any) -> bool:
    """Whether a cell is None, NaN, or what else a frame has for nothing: none of these is equal to itself."""
    try:
        return cell is None or bool(cell != cell)
    except (TypeError, ValueError):
        return True


def _number(cell: str, file: Path, line: int, column: str) -> float:
    place, so = f"line {line} of {file}: column {column!r}", f"inputs are numbers: leave it out, without=[{column!r}], or"
    return finite_number(_text(cell, file, line, column), place, f"{so} make it a column of 0 and 1 for each of its values")


def _target(cell: str, file: Path, line: int, column: str) -> float:
    place = f"line {line} of {file}: the label {column!r}"
    return finite_number(_text(cell, file, line, column), place, "with numbers=True labels are numbers to be predicted")


def _text(cell: str, file: Path, line: int, column: str) -> str:
    if not cell:
        raise ValueError(f"line {line} of {file}: column {column!r} is empty; fill it in, or leave the row out")
    return cell
