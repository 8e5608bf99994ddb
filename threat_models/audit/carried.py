"""What stands in frames as it is: numbers of an update, found byte for byte by whoever knows them, in any field of any message.

A search for copies, and no attack's guess: it is for whoever scores, and knows no protection. Windows of some numbers side by
side are looked for, in half, single and double precision, little-endian, in what was sent in the round of the update. A copy in
other rounds, in another format or in pieces shorter than a window is not seen, nor one of numbers that were scaled before.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ...protocol.core.errors import ProtocolError
from ...protocol.core.link import Frame
from ...protocol.view.answers import COMPUTED, Vector
from ...protocol.wire.codec import decode
from ...protocol.wire.messages import Task
from .truth import Truth
from .view import CorruptView

FORMATS = ("<f4", "<f2", "<f8")
NUMBERS = 8
"""Side by side that are looked for together."""
DISTINCT = 6
"""Of those, so many differ, and none is 0."""
WINDOWS = 3
"""Of an update, so many places are looked for, evenly spaced among those that can be."""


def carried(view: CorruptView, truth: Truth) -> Iterator[str]:
    """Whose updates are copied, in words: for an observer of servers in what the client itself sent, else in all frames."""
    if view.observer.network:
        return
    sent = _by_round(view)
    for (t, kind, i), update in truth.updates.items():
        if i in view.observer.clients:
            continue
        frames = sent.get(t, {}).get(i if view.observer.servers else None, ())
        if (found := _copied(update, frames)) is not None:
            yield f"client {i}'s {kind} of round {t} is copied in a {found}"


def _by_round(view: CorruptView) -> Mapping[int, Mapping[int | None, Sequence[Frame]]]:
    """Frames since the round's first task, by who sent them, and of all."""
    found: dict[int, dict[int | None, list[Frame]]] = defaultdict(lambda: defaultdict(list))
    round = -1
    for frame in view.frames:
        if frame.kind == Task.__name__:
            try:
                task = decode(frame.data, frame.sender, len(frame.data), view.public.kinds).message
            except ProtocolError:
                continue
            round = task.round if task.work in COMPUTED else round
        if frame.sender >= 0 or not view.observer.servers:
            found[round][frame.sender].append(frame)
            found[round][None].append(frame)
    return found


def _copied(update: Vector, frames: Sequence[Frame]) -> str | None:
    """The kind of the message that has some of it; None if none does."""
    long = [frame for frame in frames if len(frame.data) >= 2 * NUMBERS]
    if not long:
        return None
    for needle in _windows(update):
        for frame in long:
            if needle in frame.data:
                return frame.kind
    return None


def _windows(update: Vector) -> Iterator[bytes]:
    """Some places of it, in each format."""
    whole = np.ascontiguousarray(update, np.float32)
    if len(whole) < NUMBERS:
        return
    starts = _places(whole)
    for dtype in map(np.dtype, FORMATS):
        with np.errstate(over="ignore"):
            rows = whole[starts[:, None] + np.arange(NUMBERS)].astype(dtype)
        yield from (row.tobytes() for row in rows if len(np.unique(row)) >= DISTINCT and np.isfinite(row).all() and row.all())


def _places(whole: NDArray[np.float32]) -> NDArray[np.int64]:
    """Where windows begin: nowhere is a 0, nor, if there are such windows, a number that half precision takes for one."""
    with np.errstate(over="ignore"):
        half = whole.astype(np.float16)
    for numbers in (half, whole):
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(numbers != 0)])
        full = np.flatnonzero(ends[NUMBERS:] - ends[:-NUMBERS] == NUMBERS)
        if len(full):
            evenly = np.unique(np.linspace(0, len(full) - 1, min(WINDOWS, len(full))).astype(np.int64))
            return np.asarray(full[evenly], np.int64)
    return np.zeros(0, np.int64)
