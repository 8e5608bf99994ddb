"""Secure aggregation: the server learns sums, by the masked sum, and noisy inner products of differences, by secret sketches.

Clients hold their updates. A sum is one session of the masked sum (specs/masked_sum.md) among the clients that it is about,
with their sample counts inside. Inner products come from sketches (parts/sketches.py, parts/offsets.py), uploaded when they are
asked for. The server owns the models: it knows the sums.
"""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING

from ...crypto.fixed_point import FixedPoint
from ..parts.gate import Rules
from ..view.functionality import Functionality
from ..view.protection import Setup
from ..work.sketch_keys import Keys
from .noise import Noise

if TYPE_CHECKING:
    from .view import MaskedView


def measurements(sketch: int, d: int) -> int:
    """Numbers that a sketch of an update of d coordinates has, where `Masked.sketch` is this."""
    return min(sketch, max(d // 2, 1))


@dataclass(frozen=True, slots=True)
class Masked:
    """Clients add masks that cancel in the sum; similarities come from secret sketches.

    sketch: measurements of an update that a sketch has, at most half of its coordinates (fewer are taken then). keys: "session"
    for sketches of differences under keys that are forgotten with their round; "run" for one secret sketch about the origin, so
    that updates of all rounds compare: beside published sums it tells the server most of every update. floor: fewest
    clients in a sum, held by clients too. clip: largest absolute coordinate of an update; a client whose update exceeds it
    sits out and says so. max_samples: likewise for its number of samples, in sums that count them. ring_bits: 32 or 64.
    corrupt: clients of the run, at most, that collude with the server and tell it all they know; 0: the server alone. A sum then
    needs floor + corrupt clients, and more where so many could be gone that the others are too few (5 for floor=3, corrupt=1,
    and 4 with dropped=0.1). dropped: largest share of a sum's clients that drops out. noise: what the
    clients add to every sum, so that all sums of a run together are differentially private for a client; a client is in one
    sum a round then, with uniform weights. Updates are scaled down to noise.l2 and not held against clip. Sketches and choices
    have no noise, and are not given beside it unless noise.acknowledge names them.
    slot_spare: clients that may drop out between the counts and the sums of slots. A slot is opened if as many clients chose it
    as the floor, these, and the corrupt together. colluding: groups of clients that may put their personal sums together, which
    are then refused where they would show too much, with the share dropped of a sum's clients left out at most. Of
    receivers in no group no more than `corrupt` may collude: their sums are checked in all sets of as many.
    """

    sketch: int = 64
    keys: Keys = "session"
    floor: int = 3
    clip: float = 4.0
    max_samples: int = 10_000
    ring_bits: int = 32
    corrupt: int = 0
    dropped: float = 0.25
    noise: Noise | None = None
    slot_spare: int = 1
    colluding: tuple[frozenset[int], ...] = ()

    def __post_init__(self) -> None:
        if self.keys not in ("run", "session"):
            raise ValueError(f'keys is "run" or "session", not {self.keys!r}')
        if self.rules.floor < 2:
            raise ValueError(f"floor is at least 2, not {self.floor}: a sum of one update is that update")
        for name, least in (("sketch", 1), ("max_samples", 1), ("slot_spare", 0)):
            if not isinstance(value := getattr(self, name), Integral) or value < least:
                raise ValueError(f"{name} is a whole number, {least} or more, not {value!r}")
        if not isinstance(self.dropped, Real) or not 0 <= self.dropped < 0.5:
            raise ValueError(f"dropped is a share from 0 to below 0.5, not {self.dropped!r}: sums are opened by more than half")
        FixedPoint.finest(self.ring_bits, self.clip, self.rules.least, 1)

    @property
    def rules(self) -> Rules:
        return Rules(self.floor, self.corrupt)

    @property
    def gives(self) -> frozenset[Functionality]:
        given = {Functionality.SUMS, Functionality.GRAM, Functionality.CHOICE, Functionality.PAIRS, Functionality.REVISION}
        given |= set() if self.noise else {Functionality.SLOTS, Functionality.PERSONAL_SUMS}
        given |= {Functionality.GRAM_ORIGIN, Functionality.GRAM_EDGE, Functionality.GRAM_RECALL}
        across = {Functionality.GRAM_REMEMBER, Functionality.GRAM_HISTORY}
        return frozenset(given | across if self.keys == "run" else given)

    def open(self, setup: Setup, /) -> "MaskedView":
        from .view import MaskedView

        return MaskedView(setup, self)
