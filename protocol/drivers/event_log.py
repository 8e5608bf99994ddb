"""What a party met, in order, in one file that only grows: each record is whole, or it is not there.

A record is its length, a hash and its bytes; the hash is over the one before and the bytes, so that a record stands for all
before it. What a crash tore, at whatever byte, is cut off when the file is opened: nothing that was synced, so nothing that
anything followed from, unless the file itself is damaged.
"""

import hashlib
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

HEAD = struct.Struct(">I32s")
_LONG = 1 << 16
"""Bytes of a record whose parts are written one by one, and not copied into one."""
_FIRST = hashlib.sha256(b"cloister event log").digest()


class EventLog:
    """The log at `path`, which is made with mode 0600 where there is none. cut: bytes that were torn. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.fdopen(os.open(path, os.O_CREAT | os.O_RDWR, 0o600), "r+b", buffering=0)
        self._hash, self._whole = _FIRST, 0
        for data in self._read(self._file.seek(0, os.SEEK_END)):
            self._hash = _after(self._hash, data)
            self._whole += HEAD.size + len(data)
        self.cut = self._file.seek(0, os.SEEK_END) - self._whole
        self._file.truncate(self._whole)
        self._file.seek(self._whole)
        self._dirty = True

    @classmethod
    def begun(cls, path: Path, first: bytes) -> Self:
        """A new one in the place of what is there, with this record: others see the old one or the new one."""
        partial = path.with_name(f"{path.name}.partial")
        partial.unlink(missing_ok=True)
        log = cls(partial)
        log.append(first)
        log.sync()
        log.close()
        partial.replace(path)
        sync_folder(path.parent)
        return cls(path)

    def records(self) -> Iterator[bytes]:
        """Those that were there when it was opened, one after another."""
        return self._read(self._whole)

    def append(self, *parts: bytes | memoryview) -> None:
        """Add a record: these parts together. It lasts over the end of this process, and over the machine's when it is synced."""
        size = sum(map(len, parts))
        self._hash = _after(self._hash, *parts)
        pieces: Sequence[bytes | memoryview] = (HEAD.pack(size, self._hash), *parts)
        for piece in pieces if size > _LONG else (b"".join(pieces),):
            left = memoryview(piece)
            while left:
                left = left[self._file.write(left) :]
        self._dirty = True

    def sync(self) -> None:
        """Have all records on disk."""
        if self._dirty:
            os.fsync(self._file.fileno())
            self._dirty = False

    def close(self) -> None:
        """Nothing more is added."""
        self._file.close()

    def _read(self, size: int) -> Iterator[bytes]:
        """Whole records in the first `size` bytes."""
        before, left = _FIRST, size
        with open(self._path, "rb") as file:
            while left >= HEAD.size:
                length, found = HEAD.unpack(file.read(HEAD.size))
                if (left := left - HEAD.size - length) < 0:
                    return
                data = file.read(length)
                if (before := _after(before, data)) != found:
                    return
                yield data


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on disk."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _after(before: bytes, *parts: bytes | memoryview) -> bytes:
    of = hashlib.sha256()
    for part in parts:
        of.update(part)
    return hashlib.sha256(before + of.digest()).digest()
