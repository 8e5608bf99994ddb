"""A folder that one process writes at a time. What a process held is free once it has ended, however it did."""

import fcntl
import os
from pathlib import Path
from weakref import WeakValueDictionary, finalize

GO_ON = "--resume (resume=True in Python)"
ANOTHER = "choose another folder by --out (out= in Python)"
OTHERWISE_READ = f"was played with: they were edited, or are drawn anew with each reading; {ANOTHER}"
"""What may be done about a folder that is not free, or not of these data, in the words of both commands and Python."""
HOLD = {
    "run": "scenario.json",
    "evaluation": "evaluation.json",
    "comparison": "comparison.json",
    "search": "search.json",
    "audit": "audit.json",
    "client's own record": "join.jsonl",
}
"""What a folder may hold, and a file by which that is known."""
_held = WeakValueDictionary[tuple[int, int], "FolderLock"]()  # by the folder's place on its disk: those that this process writes


class FolderLock:
    """A folder that no other process writes while somebody has this."""

    def __init__(self, lock: int) -> None:
        finalize(self, os.close, lock)


def folder_may_be(path: Path, kind: str) -> None:
    """Raise ValueError of one line where a file stands in a folder's place or above it, or where it holds something of another
    kind of `HOLD`: its report would take the place of the one that is there.
    """
    for place in (path, *path.parents):
        if place.exists() and not place.is_dir():
            raise ValueError(f"{place}: a folder is to be there or above it, and a file is; {ANOTHER}")
    if other := [what for what, file in HOLD.items() if what != kind and (path / file).exists()]:
        raise ValueError(f"{path} holds {'an' if other[0][0] in 'aeiou' else 'a'} {other[0]} already; {ANOTHER}")


def held_alone(path: Path) -> FolderLock:
    """The folder, which has to be there. Raises ValueError of one line where another process plays in it."""
    lock = os.open(path, os.O_RDONLY)
    place = (of := os.fstat(lock)).st_dev, of.st_ino
    if (known := _held.get(place)) is not None:
        os.close(lock)
        return known
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise ValueError(f"another process plays in {path}; wait for it, or {ANOTHER}") from None
    return _held.setdefault(place, FolderLock(lock))
