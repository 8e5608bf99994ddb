"""What clients sketch with: public terms, and keys that every client of a run holds and the server lacks.

`SketchSecret` draws one sketch for a whole run, or one for each session, from a seed that is kept. `RatchetedKeys` draw one for
each session from a chain that moves on with every round and forgets what was before: whoever joins later, or hands over what
it holds, opens no earlier sketch. What must compare later clients with a split keeps that session's key, and no other.
"""

import hashlib
from dataclasses import dataclass
from typing import Literal

from ...crypto.offset_sketch import OffsetSketch, step_of
from ...crypto.prg import derive_key
from ...crypto.projection import TwoStage, error_of
from ..core.errors import Refused

Keys = Literal["run", "session"]


@dataclass(frozen=True, slots=True)
class SketchTerms:
    """Public, of a run. keys: "run" for one sketch that compares updates of all rounds, "session" for one per (round, cluster).

    d: coordinates of an update. rows: measurements of it. radius: bound on the norm of what is sketched behind an offset.
    """

    keys: Keys
    run: bytes
    d: int
    rows: int
    radius: float = 0.0

    @property
    def public(self) -> bytes:
        """What names the public projection of the run."""
        return hashlib.sha256(b"cloister/v1/public projection" + self.run).digest()

    @property
    def error(self) -> float:
        """Standard deviation of an inner product relative to the norms, at most."""
        return error_of(self.d, self.rows)

    @property
    def step(self) -> float:
        """Of the fixed point behind offsets."""
        return step_of(self.radius)

    def check(self) -> None:
        """Raises Refused for updates of one number."""
        if self.d < 2:
            raise Refused("a sketch of updates with a single coordinate would be those; ask for sums alone, or use TwoServer")


class SketchSecret:
    """The seed, and the sketches drawn from it. The last few are kept drawn."""

    KEPT = 4

    def __init__(self, seed: bytes, terms: SketchTerms) -> None:
        self.terms = terms
        self._seed = seed
        self._drawn: dict[bytes, TwoStage] = {}

    def __call__(self, session: bytes) -> TwoStage:
        """The sketch of the updates that were made in the session with this digest. Raises Refused for updates of one number."""
        terms = self.terms
        terms.check()
        context = terms.run if terms.keys == "run" else session
        if context not in self._drawn:
            if len(self._drawn) >= self.KEPT:
                del self._drawn[next(iter(self._drawn))]
            secret = derive_key(self._seed, "sketch", context)
            self._drawn[context] = TwoStage.draw(terms.public, secret, terms.d, terms.rows).held()
        return self._drawn[context]


class RatchetedKeys:
    """A chain of keys, one a round, of which only the latest is held.

    The same session key serves sketches about the origin or behind an offset, never both of one update.
    """

    def __init__(self, seed: bytes, terms: SketchTerms) -> None:
        self.terms = terms
        self._chain = derive_key(seed, "sketch chain", terms.run)
        self._round = 0
        self._drawn: dict[bytes, OffsetSketch] = {}

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

    def offset(self, session: bytes) -> OffsetSketch:
        """The offset sketch of the updates made in the session with this digest, in the present round."""
        return self.of_key(self.key(session))

    def recalled(self, session: bytes) -> OffsetSketch:
        """The offset sketch of what this session recalls: those of one round differ in the offset alone."""
        return self.of_key(derive_key(self._chain, "recalled sketch", b"")).part(session)

    def of_key(self, key: bytes) -> OffsetSketch:
        """The offset sketch of a key. Raises Refused for updates of one number."""
        terms = self.terms
        terms.check()
        if key not in self._drawn:
            self._drawn[key] = OffsetSketch.draw(terms.public, key, terms.d, terms.rows, terms.radius)
        return self._drawn[key]

    def __call__(self, session: bytes) -> TwoStage:
        """The same session's sketch about the origin."""
        return self.offset(session).sketch


SketchKeys = SketchSecret | RatchetedKeys
