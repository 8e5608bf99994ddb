"""Weights that hold sample counts, which are secret: their sum and the sum of their squares are opened before any update is.

Spec: specs/masked_sum.md, section Sample counts. From the two sums each client tells, before it gives its update, whether its own
weight is too much of what would be opened: with every sum of survivors that the second session's threshold allows, and with the
corrupt clients' claims taken away.
"""

import hashlib
import math
import struct
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ..core.errors import Refused
from ..core.session import Session
from ..parts.gate import Rules
from .server import Unmasked
from .terms import Ring

WEIGHTS = "masked sum/weights"
"""How the protocol of a first session begins."""
WEIGHED = "masked sum/by"
"""How that of a second one does: the two sums, binary32 in hex, and a digest of the first session follow."""
COARSEST = 1e-5
"""Largest share of the sum of squares that rounding may be; a leverage is above its bound by so much at most."""
_BITS = 31
_MOST: int = (1 << _BITS) - 1
LENGTH = 3
"""Ring elements of an input to the first session: a weight, its square, and the count of clients."""


@dataclass(frozen=True, slots=True)
class WeightEncoding:
    """Public. Weights are in units of the largest claim, largest |a| times max_samples: 0 to 1. clients: in the first session.

    claims: the largest weight that each of them can have, descending.
    """

    claims: tuple[float, ...]
    rules: Rules

    @property
    def clients(self) -> int:
        return len(self.claims)

    @property
    def size(self) -> tuple[int, int, int, float, int]:
        """ring_bits, length, bits, clip and max_weight of the first session's terms."""
        return 64, LENGTH, _BITS, 1.0, (2**64 - 1) // (self.clients * _MOST)

    @property
    def one(self) -> int:
        """What a weight of 1 is as a ring element: so large that no sum of them wraps around."""
        return _MOST * self.size[4]

    @property
    def error(self) -> float:
        """Bound on the error of either sum over its terms, from rounding a client's input."""
        return 1 / self.one + 2.0**-50

    def encode(self, weight: float) -> Ring:
        """A client's input to the first session: uint64 (3,). weight: its own, from 0 to 1."""
        if not 0 <= weight <= 1:
            raise ValueError(f"a weight is from 0 to 1, not {weight}")
        exact = Fraction(weight)
        return np.array([round(exact * self.one), round(exact * exact * self.one), 1], np.uint64)

    def read(self, summed: Unmasked) -> tuple[float, float]:
        """The sums of weights and of squares, in float32. Raises ValueError for a total that no such inputs have."""
        first, second, count = summed.total.tolist()
        if count != len(summed.clients):
            raise ValueError(f"the total is of {count} clients, not {len(summed.clients)}")
        return float(np.float32(first / self.one)), float(np.float32(second / self.one))

    def left(self, sums: tuple[float, float], clients: int, lost: int) -> float:
        """The least sum of squares over the honest ones of so many clients once up to `lost` more of them are gone.

        With f corrupt ones, the f + lost largest claims are taken from both sums; the sum of squares is at least what the sum of
        weights leaves for so many clients (Cauchy and Schwarz). Where nobody is corrupt the two sums together say more: the rest
        is least where all that are gone weigh the same. Returns 0 where rounding hides it.
        """
        first, second = sums
        gone = self.rules.corrupt + lost
        rest = clients - gone
        if rest < 1 or not clients * self.error <= COARSEST * second:
            return 0.0
        claims = self.claims[:gone]
        found = [second - math.fsum(a * a for a in claims), max(first - math.fsum(claims), 0.0) ** 2 / rest]
        if self.rules.corrupt == 0:
            spread = max(second - first * first / clients, 0.0)
            found.append(max(rest * first / clients - math.sqrt(spread * gone * rest / clients), 0.0) ** 2 / rest)
        return max(*found, 0.0)

    def holds(self, weight: float, sums: tuple[float, float], clients: int, threshold: int) -> bool:
        """Whether a client of this weight has at most 1 / floor of the squares, whoever is left down to the threshold."""
        left = self.left(sums, clients, clients - threshold)
        return self.rules.floor * weight * weight <= left * (1 + COARSEST) and left > 0

    def threshold(self, sums: tuple[float, float], clients: int) -> int:
        """The least threshold of a second session that no honest client should refuse, or all of the clients."""
        first, second = sums
        spread = max(second - first * first / clients, 0.0)
        most = first / clients + math.sqrt(spread * (clients - 1) / clients)
        for threshold in range(self.rules.least, clients):
            if self.holds(min(most, 1.0), sums, clients, threshold):
                return threshold
        return max(clients, self.rules.least)


def second_protocol(counting: Session, sums: tuple[float, float]) -> str:
    """The name of the second session. All keys depend on it: clients that are told other sums share no mask."""
    told = struct.pack(">2f", *sums)
    return f"{WEIGHED} {told.hex()} {hashlib.sha256(counting.digest + told).hexdigest()[:32]}"


def named(protocol: str) -> tuple[float, float]:
    """The sums in the name of a second session. Raises Refused where there are none."""
    words = protocol.removeprefix(f"{WEIGHED} ").split(" ")
    try:
        first, second = struct.unpack(">2f", bytes.fromhex(words[0]))
    except (ValueError, struct.error):
        raise Refused(f"{protocol!r} tells no sums of weights") from None
    return first, second


def told(counting: Session, signed: tuple[int, ...], session: Session) -> tuple[float, float]:
    """The sums that a second session tells a client. signed: the survivors that it signed in the first.

    Raises Refused for a session that is not among these, or not the one after it.
    """
    first, second = named(session.protocol)
    if not (math.isfinite(first) and math.isfinite(second)) or session.protocol != second_protocol(counting, (first, second)):
        raise Refused("the session is not the one after the weights were summed")
    if session.roster != signed or (session.run, session.round) != (counting.run, counting.round):
        raise Refused("the session is not among the clients whose weights were summed")
    return first, second
