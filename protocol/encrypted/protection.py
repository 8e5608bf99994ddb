"""Encryption under a key that the clients share: the server adds and compares ciphertexts, and owns no model.

Clients hold their updates. A sum is one session of the encrypted sum (specs/encrypted.md) among the clients that it is about; its
members open it. Inner products are of encrypted secret sketches: one client opens them and says rounded cosines and norms.
Whoever has the seed that all clients share opens every ciphertext: server and any one client together read every update.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...crypto.ckks import MOST_DIGITS
from ..parts.gate import Rules
from ..view.functionality import Functionality
from ..view.protection import Setup
from ..work.sketch_keys import Keys

if TYPE_CHECKING:
    from .view import EncryptedView


@dataclass(frozen=True, slots=True)
class Encrypted:
    """Clients encrypt under a key that they share; the server adds and multiplies what it cannot read.

    k: measurements of an update that a sketch has, at most half of its coordinates (fewer are taken then); up to 4096 cost
    the same. digits: decimals of the cosines and of the logarithms of norms that the server is told. keys: "run" for one
    sketch and one key for sketches, so that updates of different rounds compare; "session" for one per (round, cluster).
    Keys of sums are always new. floor: fewest honest clients in a sum, counted by the clients that open it. As many clients that
    lie together as the floor can have nothing come of a run: take a floor above the number that may.
    corrupt: clients of the run, at most, that pool what they know with one who sees a sum; 0: that one alone.

    Slots are answered in one sum, opened in two steps: counts, which members tell the server, then those slots that `floor`
    clients chose, by the server's count and by each member's own. Whoever holds the key could open more.
    """

    k: int = 1024
    digits: int = 3
    keys: Keys = "run"
    floor: int = 3
    corrupt: int = 0

    def __post_init__(self) -> None:
        if self.keys not in ("run", "session"):
            raise ValueError(f'keys is "run" or "session", not {self.keys!r}')
        if self.floor < 2:
            raise ValueError(f"floor is at least 2, not {self.floor}: a sum of one update is that update")
        if self.k < 1 or not 1 <= self.digits <= MOST_DIGITS // 2:
            raise ValueError(f"k is at least 1, and digits are 1 to {MOST_DIGITS // 2}: more would show the encryption's noise")
        _ = self.rules

    @property
    def rules(self) -> Rules:
        return Rules(self.floor, self.corrupt)

    @property
    def gives(self) -> frozenset[Functionality]:
        given = {Functionality.SUMS, Functionality.GRAM, Functionality.GRAM_ORIGIN}
        given |= {Functionality.CHOICE, Functionality.SLOTS, Functionality.PERSONAL_SUMS}
        across = {Functionality.GRAM_EDGE, Functionality.GRAM_RECALL, Functionality.GRAM_REMEMBER}
        return frozenset(given | across if self.keys == "run" else given)

    def open(self, setup: Setup, /) -> "EncryptedView":
        from .view import EncryptedView

        return EncryptedView(setup, self)
