"""Sums into K slots with the choice hidden: each client adds its vector to a slot of its own choice (IFCA, FedEM).

Spec: specs/slots.md. A client's input to the masked sum is K weighted vectors, zeros where it did not choose. The server learns
the K sums and the K weights, and nothing of who chose what. A first masked sum, of the K counts alone, finds the slots that
enough clients chose; whoever chose another sends zeros in the second, so that staying out does not show either.
"""

import hashlib
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import cbor2
import numpy as np

from ...crypto.fixed_point import FixedPoint, Floats, Nearest, Stochastic, WeightedMean
from ...crypto.prg import derive_key
from ..core.errors import OF_NO_COUNTS, OF_NO_WEIGHT, OF_NO_ZEROS, Refused
from ..core.session import Session
from .server import Unmasked
from .terms import Ring

MAX_SLOTS = 64
COUNTING = "masked sum/slot counts"
"""The protocol of the first session."""
COUNTS = {"ring_bits": 32, "bits": 2, "clip": 1.0, "max_weight": 1}
"""The terms of the first session, whose length is K: a client's elements are 0 or 1."""


@dataclass(frozen=True, slots=True, eq=False)
class Weighted:
    """What a client adds to a slot. vector: float32 or float64, shape (d,). weight: 1 .. max_weight."""

    vector: Floats = field(repr=False)
    weight: int


@dataclass(frozen=True, slots=True)
class SlotLayout:
    """K slots of d coordinates. grid: proves that no slot's sum wraps around, each being a sum of `grid.clients` at most.

    floor: fewest clients whose vectors are in a sum that is opened. corrupt: clients that may count themselves and add nothing.
    """

    count: int
    d: int
    grid: FixedPoint
    floor: int
    corrupt: int

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MAX_SLOTS or self.d < 1:
            raise ValueError(f"there are 1 to {MAX_SLOTS} slots of at least one coordinate")
        if self.floor < 2 or self.corrupt < 0:
            raise ValueError("a sum of one client is its input: the floor is 2 or more, and corrupt is counted from 0")

    @property
    def length(self) -> int:
        """Ring elements of an input: per slot d weighted levels, then the weight."""
        return self.count * (self.d + 1)

    def encode(self, chosen: Mapping[int, Weighted], opened: frozenset[int], rounding: Nearest | Stochastic) -> Ring:
        """A client's input to the second session, shape (length,): zeros but in the slots that are both chosen and opened.

        Raises ValueError for a slot that is not there, a vector of another length or what `FixedPoint.encode` refuses.
        """
        if not all(0 <= slot < self.count for slot in chosen):
            raise ValueError(f"slots are numbered 0 to {self.count - 1}")
        ring = np.zeros((self.count, self.d + 1), self.grid.dtype)
        for slot, addend in chosen.items():
            if addend.vector.shape != (self.d,) or addend.weight < 1:
                raise ValueError(f"a slot takes a vector of {self.d} coordinates with a weight of at least 1")
            if slot in opened:
                ring[slot] = self.grid.encode(addend.vector, addend.weight, _for_slot(rounding, slot)).ring
        return cast(Ring, ring.ravel())

    def encode_count(self, chosen: Mapping[int, Weighted]) -> Ring:
        """A client's input to the first session: uint32, shape (K,), 1 in the slots that it chose."""
        ring = np.zeros(self.count, np.uint32)
        ring[list(chosen)] = 1
        return ring

    def decode(self, summed: Unmasked, opened: frozenset[int]) -> tuple[WeightedMean | None, ...]:
        """Per slot its weighted mean, None where it was not opened.

        Raises ValueError for what a client with a made-up input causes: values where zeros belong, or sums out of range.
        """
        if summed.total.shape != (self.length,) or summed.total.dtype != self.grid.dtype:
            raise ValueError(f"a total holds {self.length} elements of {self.grid.dtype.__name__}")
        totals = summed.total.reshape(self.count, self.d + 1)
        if any(totals[slot].any() for slot in range(self.count) if slot not in opened):
            raise ValueError(OF_NO_ZEROS)
        return tuple(self.grid.decode(totals[slot]) if slot in opened else None for slot in range(self.count))

    def amiss(self, slot: int, mean: WeightedMean, chose: int, lost: int) -> str:
        """Why the weight of a slot's sum cannot be that of its choosers; empty where it can. lost: clients that were counted and
        are not in the sum, of whom each may have chosen it.
        """
        if max(1, chose - lost) <= mean.weight <= chose * self.grid.max_weight:
            return ""
        return f"slot {slot} has a weight that no {chose} {OF_NO_WEIGHT}"

    def decode_counts(self, summed: Unmasked) -> tuple[int, ...]:
        """How many clients chose each slot. Raises ValueError for what no sum of counts can be."""
        total = summed.total
        if total.shape != (self.count,) or total.dtype != np.uint32 or int(total.max()) > len(summed.clients):
            raise ValueError(f"{len(summed.clients)} clients {OF_NO_COUNTS}")
        return tuple(total.tolist())

    def margin(self, counted: int, threshold: int) -> int:
        """How many of a slot's choosers may be missing from its sum: who may drop out above the second threshold, and liars."""
        return counted - threshold + self.corrupt

    def opened(self, counts: Sequence[int], counted: int, threshold: int) -> frozenset[int]:
        """The slots whose sums rest on at least `floor` clients, whoever of the `counted` drops out down to the threshold."""
        least = self.floor + self.margin(counted, threshold)
        return frozenset(slot for slot, n in enumerate(counts) if n >= least)

    def protocol(self, counting: Session, opened: frozenset[int]) -> str:
        """The name of the second session: the open slots, and a digest of the parameters and of the session that counted.

        All keys and signatures depend on it: clients that are shown other open slots share no mask.
        """
        grid = self.grid
        fields = [self.count, self.d, grid.ring_bits, grid.bits, struct.pack(">d", grid.clip), grid.clients, grid.max_weight]
        digest = hashlib.sha256(cbor2.dumps([*fields, self.floor, self.corrupt, counting.digest], canonical=True)).hexdigest()
        return f"masked sum/slots {sum(1 << slot for slot in opened):x} {digest[:30]}"

    def summing(self, counting: Session, summed: Unmasked, threshold: int, cluster: str) -> tuple[Session, frozenset[int]]:
        """The server's second session among the clients that were counted, with the open slots.

        Raises Refused if no slot reaches the floor: nothing is summed then.
        """
        counts = self.decode_counts(summed)
        opened = self.opened(counts, len(summed.clients), threshold)
        if not opened:
            least = self.floor + self.margin(len(summed.clients), threshold)
            raise Refused(f"no slot was chosen by {least} clients, the floor and those who may yet drop out: {list(counts)}")
        protocol = self.protocol(counting, opened)
        return Session(protocol, counting.run, counting.round, cluster, summed.clients, threshold), opened

    def joined(self, counting: Session, counted: tuple[int, ...], session: Session) -> frozenset[int]:
        """The open slots of a second session that is proposed to a client. counted: the survivors that it signed in the first.

        Raises Refused for other parameters, for a session among others than those counted, or if the open slots could not
        all have been chosen by enough of them.
        """
        word = session.protocol.removeprefix("masked sum/slots ").split(" ")[0]
        if not (0 < len(word) <= MAX_SLOTS // 4 and set(word) <= set("0123456789abcdef")):
            raise Refused(f"{session.protocol!r} is no session of slots")
        bits = int(word, 16)
        opened = frozenset(slot for slot in range(bits.bit_length()) if bits >> slot & 1)
        if not opened or max(opened) >= self.count or session.protocol != self.protocol(counting, opened):
            raise Refused("the session's slots are not those that were counted")
        if session.roster != counted or (session.run, session.round) != (counting.run, counting.round):
            raise Refused("the session is not among the clients that were counted")
        if self.floor + self.margin(len(counted), session.threshold) > len(counted):
            raise Refused(f"with a threshold of {session.threshold} no slot can be sure of {self.floor} clients; raise it")
        return opened


def _for_slot(rounding: Nearest | Stochastic, slot: int) -> Nearest | Stochastic:
    """A rounding whose key is used for this slot alone."""
    if isinstance(rounding, Nearest):
        return rounding
    return Stochastic(derive_key(rounding.key, "slot rounding", slot.to_bytes(4, "big")))


def integer_shares(weights: Sequence[float], total: int) -> tuple[int, ...]:
    """Soft weights over slots as whole numbers that add up to `total` (a client's part of the sum), by largest remainders.

    Raises ValueError for weights that are negative, not finite or all zero. A share of 0 leaves its slot unchosen.
    """
    if total < 1 or not weights or not all(0 <= w < math.inf for w in weights) or not 0 < math.fsum(weights) < math.inf:
        raise ValueError("soft weights are finite, none negative and not all zero, and add up to at least 1")
    whole = math.fsum(weights)
    exact = [w / whole * total for w in weights]
    shares = [math.floor(x) for x in exact]
    order = sorted(range(len(weights)), key=lambda k: (shares[k] - exact[k], k))
    for k in order[: total - sum(shares)]:
        shares[k] += 1
    return tuple(shares)
