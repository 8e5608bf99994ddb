"""What one party stores before anything that follows from it is sent, so that it goes on from there after a crash.

Entries by key, the latest of each. In a file they are kept by SQLite, synced with every change, and read by their owner alone.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

LEAST_ROOM = 1 << 16
"""Bytes: with fewer on its disk SQLite may not say that it is full."""
NO_ROOM = "no room is left there: make some, and give the same command again"
NOT_WRITABLE = (
    "let the user that this command runs as read and write it, and its folder (owner, permissions, a disk that is mounted to be"
    " read alone), and give the same command again"
)
DAMAGED = (
    "it is damaged, and this party cannot go on with this run: an older copy in its place is refused. Keep the folder, and"
    " take part in the next run, with a new folder"
)
_WHAT_HELPS = {
    "readonly": NOT_WRITABLE,
    "unable to open": NOT_WRITABLE,
    "malformed": DAMAGED,
    "not a database": DAMAGED,
    "disk I/O": f"where its disk is in order, {DAMAGED}",
    "locked": "another process has it open: stop that one first",
}
"""By a part of what SQLite says."""


class Journal(Protocol):
    """Where a party stores."""

    def put(self, entries: Mapping[str, bytes], /) -> None:
        """All of these or, if a crash comes before it returns, none."""
        ...

    def replace(self, entries: Mapping[str, bytes], /, *, but: frozenset[str] = frozenset()) -> None:
        """These in the place of everything but the keys of `but`, likewise."""
        ...

    def read(self) -> dict[str, bytes]:
        """All entries."""
        ...


class InMemory:
    """A journal that lasts as long as its process."""

    def __init__(self) -> None:
        self._entries: dict[str, bytes] = {}

    def put(self, entries: Mapping[str, bytes], /) -> None:
        """See `Journal`."""
        self._entries.update(entries)

    def replace(self, entries: Mapping[str, bytes], /, *, but: frozenset[str] = frozenset()) -> None:
        """See `Journal`."""
        self._entries = {key: entry for key, entry in self._entries.items() if key in but} | dict(entries)

    def read(self) -> dict[str, bytes]:
        """See `Journal`."""
        return dict(self._entries)


class InFile:
    """A journal in a file, which is made with mode 0600. Raises OSError, with one line, for a file that is none, that cannot be
    written, or whose disk is full.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        except (PermissionError, IsADirectoryError) as error:
            what = DAMAGED if isinstance(error, IsADirectoryError) else NOT_WRITABLE
            raise OSError(f"the journal {path}: {error.strerror}; {what}") from error
        with self._in_words():
            self._file = sqlite3.connect(path, isolation_level=None)
            self._file.execute("PRAGMA journal_mode = WAL")
            self._file.execute("PRAGMA synchronous = FULL")
            self._file.execute("CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, entry BLOB NOT NULL)")

    def put(self, entries: Mapping[str, bytes], /) -> None:
        """See `Journal`."""
        if entries:
            with self._in_words(), self._file:
                self._file.execute("BEGIN")
                self._file.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", entries.items())

    def replace(self, entries: Mapping[str, bytes], /, *, but: frozenset[str] = frozenset()) -> None:
        """See `Journal`."""
        with self._in_words(), self._file:
            self._file.execute("BEGIN")
            gone = [(key,) for (key,) in self._file.execute("SELECT key FROM entries") if key not in but]
            self._file.executemany("DELETE FROM entries WHERE key = ?", gone)
            self._file.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", entries.items())

    def read(self) -> dict[str, bytes]:
        """See `Journal`."""
        with self._in_words():
            return dict(self._file.execute("SELECT key, entry FROM entries"))

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            full = "full" in str(error) or shutil.disk_usage(self._path.parent).free < LEAST_ROOM
            what = NO_ROOM if full else next((words for of, words in _WHAT_HELPS.items() if of in str(error)), "")
            raise OSError(f"the journal {self._path}: {error}{'; ' * bool(what)}{what}") from error
