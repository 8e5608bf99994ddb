"""One client's sketches: of the work that it holds, of updates that it was asked to retain, and beside the updates of a split.

Every key is the client's own business: of the session that its work was made in, as it took the task; of a split, where it was
told to retain it while the session was there; of a recall, of the session as it came. Spec: specs/sketch.md.
"""

from collections.abc import Mapping

import numpy as np

from ..core.errors import OF_SPLIT, ProtocolError
from ..core.session import SERVER
from ..view.answers import OFFSET_SKETCHES, Vector
from ..view.work import LocalWork
from ..wire.messages import KEY, Discard, Retain, Task
from .sketch_keys import RatchetedKeys, SketchKeys

MOST_KEYS = 4096
"""Splits whose keys a client retains."""
MOST_VECTORS = 64
"""Updates that a client retains."""


class Sketcher:
    """secret: what all clients of the run hold. kept: updates, and keys: of splits, by their handles. recalls: as in `Setup`.

    recalled: how often in the run it answered for what it keeps. Each time that is k measurements under a fresh key, of one
    update perhaps, whichever handles it is kept under; d / k of them are all of it to who has the keys.
    """

    def __init__(self, secret: SketchKeys, recalls: int | None = None) -> None:
        self.recalls = recalls
        self.recalled = 0
        self.kept: dict[str, Vector] = {}
        self.keys: dict[str, bytes] = {}
        self.secret = secret

    def advance(self, round: int) -> None:
        """Forget the keys of earlier rounds, but for those that are retained."""
        if isinstance(self.secret, RatchetedKeys):
            self.secret.advance(round)

    def retain(self, asked: Retain, held: Mapping[bytes, LocalWork]) -> None:
        """Keep a session's key, or the work that was made in it. held: work by its session's digest. Raises ProtocolError."""
        if not isinstance(self.secret, RatchetedKeys):
            raise ProtocolError("nothing is retained where one sketch serves the run", SERVER)
        if asked.what == KEY:
            if len(self.keys) >= MOST_KEYS:
                raise ProtocolError(f"more than {MOST_KEYS} splits to retain the keys of", SERVER)
            self.keys.setdefault(asked.handle, self.secret.key(asked.made))
        elif self.recalls == 0:
            raise ProtocolError("an update to keep, where this run has agreed that none is compared again", SERVER)
        elif asked.made in held:
            if len(self.kept) >= MOST_VECTORS:
                raise ProtocolError(f"more than {MOST_VECTORS} updates to retain", SERVER)
            self.kept.setdefault(asked.handle, held[asked.made].sketched)

    def discard(self, asked: Discard) -> None:
        """Forget what these handles are on."""
        for handle in asked.handles:
            self.keys.pop(handle, None)
            self.kept.pop(handle, None)

    def answer(self, task: Task, work: LocalWork | None, made: bytes) -> np.ndarray[tuple[int], np.dtype[np.generic]] | str:
        """The numbers that a task for a sketch asks for; or why there are none.

        work: what the client holds under the first name in the task, and made: the digest of its session; None, and empty, for
        what it does not hold. What it keeps under that name is told as a recall alone, and counted.
        """
        recalled = task.work == "recalled offset sketch"
        vector = self.kept.get(task.models[0]) if recalled else work.sketched if work is not None else None
        if vector is None:
            return "no work that this sketch would be of"
        if task.work not in OFFSET_SKETCHES:
            return self.secret(made).apply(vector).astype(np.float32)
        if not isinstance(self.secret, RatchetedKeys):
            return "no sketches behind offsets where one sketch serves the run"
        try:
            match task.work:
                case "recalled offset sketch" if self.recalls is not None and self.recalled >= self.recalls:
                    return f"what it keeps was compared {self.recalled} times, as often as this run has agreed on"
                case "recalled offset sketch":
                    self.recalled += 1
                    return self.secret.recalled(task.session.digest).apply(vector)
                case "edge offset sketch" if (key := self.keys.get(task.models[-1])) is not None:
                    return self.secret.of_key(key).apply(vector)
                case "edge offset sketch":
                    return OF_SPLIT
            return self.secret.offset(made).apply(vector)
        except ValueError as error:
            return str(error)
