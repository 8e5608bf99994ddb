"""The cells of a grid that are known."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from ..fl.runs.results_folder import ResultsFolder, Row

C = TypeVar("C")


class Ledger(Generic[C]):
    """Lines by key, and the folder that every new one is written to."""

    def __init__(self, folder: ResultsFolder, rows: dict[str, Row], key_of: Callable[[C], str]) -> None:
        self.folder = folder
        self.rows = rows
        self._key_of = key_of
        self._keys: dict[C, str] = {}

    def key(self, cell: C) -> str:
        if cell not in self._keys:
            self._keys[cell] = self._key_of(cell)
        return self._keys[cell]

    def line(self, cell: C) -> Row | None:
        """The cell's line, whatever became of it."""
        return self.rows.get(self.key(cell))

    def known(self, cell: C) -> Row | None:
        """The cell's line, but not that of a failure, which is tried again."""
        row = self.line(cell)
        return None if row is None or row["status"] == "failed" else row

    def aside(self, cells: Iterable[C]) -> int:
        """How many lines are of none of these cells, as they are now."""
        return len(self.rows.keys() - {self.key(cell) for cell in cells})

    def enter(self, row: Row) -> Row:
        self.rows[row["key"]] = row
        self.folder.append(row)
        return row

    def arrange(self, cells: Iterable[C]) -> None:
        """Put the file in order: these cells first, as they come, then what other grids have left, by key."""
        keys = [self.key(cell) for cell in cells]
        rest = sorted(self.rows.keys() - set(keys))
        self.folder.arrange(self.rows[key] for key in [*keys, *rest] if key in self.rows)
