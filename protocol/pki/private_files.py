"""Files that their owner alone may read, written whole or not at all."""

import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_BYTES = 1 << 27
"""Of a file that is read: above any directory."""


def make_folder(folder: Path) -> None:
    """With its parents, mode 0700; of one that is there the mode stays.

    Raises ValueError if others may write to it: they could put their own keys in the place of ours.
    """
    if not folder.is_dir():
        folder.mkdir(parents=True, mode=0o700)
        folder.chmod(0o700)
    if folder.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ValueError(f"others may write to {folder}: chmod 700 {folder}")


def write(path: Path, content: bytes, force: bool = False, durable: bool = True) -> None:
    """Mode 0600; after a crash the file has the old content, or the new, or is not there.

    durable: it is on disk when this returns. Raises FileExistsError, in words, if it exists and not `force`.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600), "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        if force:
            beside.replace(path)
        else:
            try:
                os.link(beside, path)  # fails where a name is taken, which a replacement would not
            except FileExistsError:
                raise FileExistsError(f"{path} exists already, and is not written over without --force") from None
    finally:
        beside.unlink(missing_ok=True)
    if not durable:
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read(path: Path, secret: bool = False, most: int = MOST_BYTES) -> bytes:
    """At most `most` bytes. secret: raises ValueError, with what to do, for a file that others than its owner may read or write.

    Raises ValueError for what is no file, or longer. The file that is checked is the one that is read.
    """
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"there is no file {path}") from None
    about = os.fstat(opened)
    if not stat.S_ISREG(about.st_mode):
        os.close(opened)
        raise ValueError(f"{path} is no file")
    with open(opened, "rb") as file:
        if secret and about.st_mode & 0o077:
            raise ValueError(f"others may read {path}, which is secret: chmod 600 {path}")
        if secret and os.geteuid() != 0 and about.st_uid not in (0, os.geteuid()):
            raise ValueError(f"{path} is secret, and belongs to another user: chown {os.geteuid()} {path}")
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{path} is longer than {most} bytes")
    return content


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One process at a time changes this folder. Raises ValueError if another does, or it is none."""
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    lock = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"another command changes {folder} at this moment; try again when it is done") from None
        yield
    finally:
        os.close(lock)


def copy(source: Path, target: Path) -> None:
    """The same content in a file of its own, whatever was there before: `cp` from one name of a file to another of it fails."""
    write(target, source.read_bytes(), force=True)
