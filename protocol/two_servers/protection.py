"""Two servers: clients share their updates between two servers that do not collude; the first learns sums and inner products.

Protocol: specs/two_servers.md. Whatever is asked, is asked about the update that was shared, so no client can be two-faced; and
Gram questions are answered on projections that are drawn after the upload, so none can aim beside them.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..view.functionality import Functionality
from ..view.protection import Setup
from .terms import ShareTerms

if TYPE_CHECKING:
    from .view import TwoServerView


@dataclass(frozen=True, slots=True)
class TwoServer:
    """Updates are shared between two servers that must not collude, nor the dealer of random triples with either.

    max_norm: largest norm of an update; a client whose update exceeds it sits out and says so. The fixed point's step is a
    fraction of it. k: inner products are those of random projections to k coordinates (even), exact where updates have at
    most k. floor: fewest honest clients in a sum, held by the second server too. corrupt: clients of the run, at most, that pool
    what they know with the first server; 0: the first server alone. What is summed or compared of one session started from one
    model: clients tell the second server a hash of what came to them, and it takes only what more than half of them have.

    Slots are answered in one upload, where max_norm is that of each vector in a slot. Both servers learn how many chose each
    slot, neither who did; the second opens to the first the sums of those that `floor` clients chose, and checks that they did.
    """

    max_norm: float = 64.0
    k: int = 4096
    floor: int = 3
    corrupt: int = 0

    def __post_init__(self) -> None:
        self.terms(1)

    @property
    def gives(self) -> frozenset[Functionality]:
        given = {Functionality.SUMS, Functionality.CHOICE, Functionality.SLOTS, Functionality.REVISION}
        compared = {Functionality.GRAM, Functionality.GRAM_ORIGIN, Functionality.GRAM_EDGE, Functionality.GRAM_RECALL}
        return frozenset(given | compared | {Functionality.GRAM_REMEMBER})

    def open(self, setup: Setup, /) -> "TwoServerView":
        from .view import TwoServerView

        return TwoServerView(setup, self)

    def terms(self, length: int) -> ShareTerms:
        """Of updates of so many coordinates. Raises ValueError, which says what to change."""
        return ShareTerms(length, self.k, self.max_norm, self.floor, self.corrupt)
