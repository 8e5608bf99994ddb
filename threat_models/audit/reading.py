"""Numbers out of frames: what a corrupt party decodes of the messages that it sent and received."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...crypto.offset_sketch import LARGEST
from ...protocol.core.errors import ProtocolError
from ...protocol.core.link import Frame
from ...protocol.parts.offset_sketches import from_words
from ...protocol.two_servers.messages import ExplicitShare
from ...protocol.view.account import kind_of, source_of
from ...protocol.view.answers import COMPUTED, OFFSET_SKETCHES, SKETCHES, Vector, Work
from ...protocol.wire.codec import Envelope, decode
from ...protocol.wire.messages import OffsetSketched, Task, Upload
from ...protocol.work.uploads import from_bytes, usable
from .view import CorruptView

Words = NDArray[np.uint64]
Instance = tuple[int, Work, int]
"""One update: round, kind of work, client."""


@dataclass(frozen=True, slots=True, eq=False)
class Uploaded:
    """A vector that a client uploaded, as it came: float32. session: the digest of the session that it was made in."""

    session: bytes
    vector: Vector = field(repr=False)
    samples: int


@dataclass(frozen=True, slots=True, eq=False)
class SketchSet:
    """Sketches that can be compared. made: the session in which the sketched work was made, by its digest. kind: of that work.

    raw: float64 (k,) by client, about the origin; words: uint64 (k,) by client, behind an offset. One of them is empty.
    """

    round: int
    kind: Work
    made: bytes
    raw: Mapping[int, NDArray[np.float64]] = field(default_factory=dict, repr=False)
    words: Mapping[int, Words] = field(default_factory=dict, repr=False)


def messages(view: CorruptView, *kinds: type) -> Iterator[tuple[Frame, Envelope]]:
    """The frames with messages of these kinds, opened; those that the network spoilt are left out."""
    names = {kind.__name__ for kind in kinds}
    for frame in view.frames:
        if frame.kind in names and any(frame.data):
            with suppress(ProtocolError):
                yield frame, decode(frame.data, frame.sender, len(frame.data), view.public.kinds)


def sessions(view: CorruptView) -> dict[bytes, Task]:
    """What clients were asked for, by the session's digest."""
    if not view.tasks:
        for _, envelope in messages(view, Task):
            view.tasks.setdefault(envelope.session, envelope.message)
    return view.tasks


def uploads(view: CorruptView) -> dict[Instance, Uploaded]:
    """Updates as they were uploaded, clear or transformed; what the server does not take is none."""
    tasks, found = sessions(view), dict[Instance, Uploaded]()
    for frame, envelope in messages(view, Upload):
        task, message = tasks.get(envelope.session), envelope.message
        if task is not None and task.work in COMPUTED:
            key, vector = (task.round, kind_of(task.work), frame.sender), from_bytes(message.vector)
            if usable(vector):
                found[key] = Uploaded(envelope.session, vector, message.samples)
    return found


def samples(view: CorruptView) -> dict[int, int]:
    """How many samples each client says that it has, where that is sent in clear: beside an update, or a share of one."""
    tasks, found = sessions(view), dict[int, int]()
    for frame, envelope in messages(view, Upload, ExplicitShare):
        task = tasks.get(envelope.session)
        if isinstance(envelope.message, ExplicitShare) or (task is not None and task.work in COMPUTED):
            found[frame.sender] = envelope.message.samples
    return found


def sketch_sets(view: CorruptView) -> list[SketchSet]:
    """Every set of sketches that a server was sent, in order."""
    tasks = sessions(view)
    made = {(t.cluster, t.round, kind_of(t.work)): digest for digest, t in tasks.items() if t.work in COMPUTED}
    sets: dict[bytes, SketchSet] = {}
    for frame, envelope in messages(view, Upload, OffsetSketched):
        task = tasks.get(envelope.session)
        if task is None or task.work not in {*SKETCHES, *OFFSET_SKETCHES}:
            continue
        try:
            source = source_of(task.models[0])
        except ValueError:
            continue  # a retained update, by a handle of its own
        if source not in made:
            continue
        one = sets.setdefault(envelope.session, SketchSet(source[1], source[2], made[source], {}, {}))
        message = envelope.message
        if isinstance(message, OffsetSketched):
            one.words[frame.sender] = from_words(message.words)  # type: ignore[index]
        else:
            one.raw[frame.sender] = from_bytes(message.vector).astype(np.float64)  # type: ignore[index]
    return list(sets.values())


def opened(words: Words, offset: Words, step: float) -> NDArray[np.float64] | None:
    """S x of words behind a known offset: float64 (k,); None where they are out of range."""
    steps = (words - offset).view(np.int64)
    found = np.asarray(steps * step, np.float64)
    return found if bool((np.abs(steps) <= LARGEST).all()) else None
