"""What every client of a run holds to sketch with: keys that the server lacks.

`SketchSecret` draws one sketch for a whole run, or one for each session, from a seed that is kept. `RatchetedKeys` draw one for
each session from a chain that moves on with every round and forgets what was before: whoever joins later, or hands over what
it holds, opens no earlier sketch. What must compare later clients with a split keeps that session's key, and no other.
"""

import hashlib
from typing import Literal

from ...crypto.offset_sketch import OffsetSketch, step_of
from ...crypto.prg import derive_key
from ...crypto.projection import TwoStage, error_of
from ..core.errors import Refused

Keys = Literal["run", "session"]
SINGLE = "a sketch of updates with a single coordinate would be those; ask for sums alone, or use TwoServer"


def public_of(run: bytes) -> bytes:
    """What names the public projection of a run."""
    return hashlib.sha256(b"cloister/v1/public projection" + run).digest()


class SketchSecret:
    """The seed, and the sketches drawn from it. The last few are kept drawn.

    keys: "run" for one sketch that compares updates of all rounds, "session" for one per (round, cluster).
    """

    KEPT = 4

    def __init__(self, seed: bytes, run: bytes, keys: Keys, d: int, rows: int) -> None:
        self.keys: Keys = keys
        self._seed = seed
        self._run = run
        self._d = d
        self._rows = rows
        self._drawn: dict[bytes, TwoStage] = {}

    def __call__(self, session: bytes) -> TwoStage:
        """The sketch of the updates that were made in the session with this digest. Raises Refused for updates of one number."""
        if self._d < 2:
            raise Refused(SINGLE)
        context = self._run if self.keys == "run" else session
        if context not in self._drawn:
            if len(self._drawn) >= self.KEPT:
                del self._drawn[next(iter(self._drawn))]
            secret = derive_key(self._seed, "sketch", context)
            self._drawn[context] = TwoStage.draw(public_of(self._run), secret, self._d, self._rows).held()
        return self._drawn[context]


class RatchetedKeys:
    """A chain of keys, one a round, of which only the latest is held. radius: bound on the norm of what is sketched.

    The same session key serves sketches about the origin or behind an offset, never both of one update.
    """

    keys: Keys = "session"

    def __init__(self, seed: bytes, run: bytes, d: int, rows: int, radius: float) -> None:
        self._chain = derive_key(seed, "sketch chain", run)
        self._run = run
        self._d = d
        self._rows = rows
        self._radius = radius
        self._round = 0
        self._drawn: dict[bytes, OffsetSketch] = {}

    @property
    def rows(self) -> int:
        return self._rows

    @property
    def error(self) -> float:
        """Standard deviation of an inner product relative to the norms, at most."""
        return error_of(self._d, self._rows)

    @property
    def step(self) -> float:
        """Of the fixed point behind offsets; public."""
        return step_of(self._radius)

    def advance(self, round: int) -> None:
        """Forget the keys of all rounds before this one."""
        if round > self._round:
            self._drawn.clear()
        while self._round < round:
            self._chain = derive_key(self._chain, "next sketch chain", b"")
            self._round += 1

    def key(self, session: bytes) -> bytes:
        """The key of the session with this digest, 32 bytes, in the present round."""
        return derive_key(self._chain, "sketch", session)

    def offset(self, session: bytes, part: int = 0) -> OffsetSketch:
        """The offset sketch of the session with this digest, in the present round; parts differ in the offset alone."""
        if session not in self._drawn:
            self._drawn[session] = self.of_key(self.key(session))
        return self._drawn[session].part(part)

    def of_key(self, key: bytes) -> OffsetSketch:
        """The offset sketch of a key that was kept. Raises Refused for updates of one number."""
        if self._d < 2:
            raise Refused(SINGLE)
        return OffsetSketch.draw(public_of(self._run), key, self._d, self._rows, self._radius)

    def __call__(self, session: bytes) -> TwoStage:
        """The same session's sketch about the origin."""
        return self.offset(session).sketch


SketchKeys = SketchSecret | RatchetedKeys
