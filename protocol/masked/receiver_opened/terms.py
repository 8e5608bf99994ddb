"""What a receiver-opened sum is agreed on, the mask that hides it from the server, and the policy that a client holds it against.

Spec: specs/receiver_opened.md, sections Terms and Keys.
"""

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb, fsum, isfinite
from typing import Self

import cbor2
import numpy as np
from numpy.typing import NDArray

from ....crypto.fixed_point import FixedPoint, Floats, Rounding
from ....crypto.masks import add_masks
from ...core.session import Session
from ...parts.gate import TOLERANCE, Rules
from ...parts.leverage import Row, with_losses
from ...view.answers import MOST_WEIGHT
from ..terms import PROTOCOL as SUM_PROTOCOL
from ..terms import Ring, SumTerms, decode_weights, encode_weights
from .messages import OpeningOffer

PROTOCOL = "receiver opened"
RECEIVER_KEY = "receiver opened receiver key"
SENDER_KEY = "receiver opened sender key"
"""What signatures are for."""
Words = NDArray[np.uint32]
MOST_COALITIONS = 5000
"""Sets of receivers that one opening is checked for."""
FLOAT32 = 2.0**-24
"""Half a step of float32, which the receiver's sum is rounded to, relative to the number."""


@dataclass(frozen=True, slots=True)
class ReceiverSum:
    """One weighted sum for one receiver. Public to its senders and its receiver. Raises ValueError for what cannot be.

    session: its roster are the senders, which the receiver is not one of: what it knows itself it adds itself. weights: the row,
    real numbers other than 0 in the roster's order. ring_bits: of the masked sum underneath. d, bits, clip: as in `FixedPoint`.
    model: SHA-256 of the model that the updates belong to. update: digest of the work session that they were made in. own: the
    receiver's weight of its own update, which it adds itself.

    A sender scales its vector by its weight's share of the largest, so that all bits serve the vector, and counts itself once.

    The sum is in Z_M, M = 2^mask_bits: senders mask modulo M, and the masked sum adds the results, which are below M, without
    wrapping around in its own larger ring. M is 2^32 in the ring of 64 bits, and in that of 32 bits as much as the roster leaves.
    """

    session: Session
    receiver: int
    weights: tuple[float, ...]
    ring_bits: int
    d: int
    bits: int
    clip: float
    model: bytes
    update: bytes
    own: float = 0.0

    def __post_init__(self) -> None:
        roster = self.session.roster
        if self.receiver in roster:
            raise ValueError("the receiver is not one of the senders; it adds its own update itself")
        if len(self.weights) != len(roster) or not all(isfinite(w) and w != 0 for w in self.weights):
            raise ValueError("a row has one finite weight other than 0 for each sender; leave out who has none")
        if not 1 / MOST_WEIGHT <= self.largest <= MOST_WEIGHT:
            raise ValueError(f"the largest weight of a row is within {1 / MOST_WEIGHT:.1e} and {MOST_WEIGHT:.1e}")
        if self.ring_bits not in (32, 64):
            raise ValueError(f"ring_bits is 32 or 64, not {self.ring_bits}")
        if not isfinite(self.own):
            raise ValueError("the receiver's own weight is not finite")
        _ = self.grid
        if self.bits > (finest := most_bits(self.ring_bits, len(roster))):
            raise ValueError(
                f"{len(roster)} senders of {self.bits} bits could wrap around modulo 2^{self.mask_bits}; "
                f"lower bits to {finest}" + (", or take ring_bits=64" if self.ring_bits == 32 else "")
            )

    @property
    def largest(self) -> float:
        """The largest |weight|."""
        return max(map(abs, self.weights))

    @property
    def mask_bits(self) -> int:
        return mask_bits(self.ring_bits, len(self.session.roster))

    @property
    def grid(self) -> FixedPoint:
        """Of a sender's scaled vector."""
        return FixedPoint(32, self.bits, self.clip, len(self.session.roster), 1)

    def error(self, senders: int, rounding: Rounding) -> float:
        """Bound on the error of each coordinate of what is learned of this many senders, its rounding to float32 included."""
        return senders * (self.grid.error(rounding) + self.clip * FLOAT32)

    @property
    def length(self) -> int:
        """Ring elements of an input."""
        return self.d + 1

    @property
    def row(self) -> dict[int, float]:
        """The weight of each sender."""
        return dict(zip(self.session.roster, self.weights, strict=True))

    @property
    def binding(self) -> bytes:
        """32 bytes, the context of every signature and mask: the session's digest and all other fields."""
        row, clip, own = encode_weights(self.session.roster, self.row), struct.pack(">d", self.clip), struct.pack(">d", self.own)
        fields = [self.receiver, row, self.ring_bits, self.d, self.bits, clip, self.model, self.update, own]
        terms = cbor2.dumps(fields, canonical=True)
        return hashlib.sha256(b"cloister/v1/receiver opened" + self.session.digest + hashlib.sha256(terms).digest()).digest()

    def pair(self, sender: int, sender_public: bytes, receiver_public: bytes) -> bytes:
        """The context of the key of a sender's mask."""
        return self.binding + sender.to_bytes(4, "big") + self.receiver.to_bytes(4, "big") + sender_public + receiver_public

    @property
    def sum_protocol(self) -> str:
        """The name of the masked sum underneath, which belongs to this opening alone."""
        return f"{SUM_PROTOCOL}/opened {self.binding.hex()[:40]}"

    def sum_session(self, senders: tuple[int, ...]) -> Session:
        """The masked sum's session among the senders whose keys arrived."""
        s = self.session
        return Session(self.sum_protocol, s.run, s.round, s.cluster, senders, s.threshold)

    def sum_terms(self, neighbours: int, threshold: int, graph_seed: bytes) -> SumTerms:
        """The masked sum's terms: its inputs are any elements below M."""
        bits, weight = (16, 2**16 + 1) if self.mask_bits == 32 else (self.mask_bits, 1)  # (2^bits - 1) weight = M - 1
        return SumTerms(self.ring_bits, self.length, bits, self.clip, weight, neighbours, threshold, graph_seed, self.model)

    def blinded(self, vector: Floats, sender: int, rounding: Rounding, key: bytes) -> Ring:
        """A sender's input to the masked sum: its scaled encoding plus the mask of its key modulo M. Shape (length,).

        Raises ValueError for a vector that `FixedPoint.encode` does not take, or that is beyond the clip before it is scaled.
        """
        if not float(np.abs(vector).max()) <= self.clip:
            raise ValueError(f"a coordinate is beyond {self.clip}")
        scaled = vector.astype(np.float64) * (self.row[sender] / self.largest)
        words = self.grid.encode(scaled, 1, rounding).ring.astype(np.uint32, copy=False)
        add_masks(words, [(key, 1)])
        words &= np.uint32(2**self.mask_bits - 1)
        return words if self.ring_bits == 32 else words.astype(np.uint64)

    def reduced(self, total: Ring) -> Words:
        """The masked sum's total modulo M: what the receiver needs of it."""
        return (total & total.dtype.type(2**self.mask_bits - 1)).astype(np.uint32)

    def unblinded(self, total: Words, keys: Sequence[bytes]) -> NDArray[np.float32]:
        """The sum of x_i a_i / largest under the masks of these keys, shape (d,).

        Raises ValueError for a total that is not under exactly them.
        """
        words = total.copy()
        add_masks(words, [(key, -1) for key in keys])
        words &= np.uint32(2**self.mask_bits - 1)
        read = self.grid.decode(words)
        if read.weight != len(keys):
            raise ValueError(f"it counts {read.weight} senders, not {len(keys)}")
        return (read.mean.astype(np.float64) * len(keys)).astype(np.float32)

    def weight(self, survivors: Sequence[int]) -> float:
        """Of the mean of these senders, and of the receiver's own update."""
        row = self.row
        return fsum([*(row[i] for i in survivors), self.own])

    @classmethod
    def offered(cls, offer: OpeningOffer) -> Self:
        """What an offer offers. Raises ValueError."""
        o = offer
        clip, own = struct.unpack(">2d", o.clip + o.own)
        weights = tuple(decode_weights(o.roster, o.weights).values())
        return cls(o.session, o.opener, weights, o.ring_bits, o.d, o.bits, clip, o.model, o.update, own)

    @property
    def offer(self) -> OpeningOffer:
        weights = encode_weights(self.session.roster, self.row)
        return OpeningOffer(
            *self.session.fields,
            self.receiver,
            weights,
            self.ring_bits,
            self.d,
            self.bits,
            struct.pack(">d", self.clip),
            self.model,
            self.update,
            struct.pack(">d", self.own),
        )


def mask_bits(ring_bits: int, senders: int) -> int:
    """The largest b <= 32 for which the masked sum can add this many elements below 2^b in its ring."""
    return 32 if ring_bits == 64 else min(31, ((2**32 - 1) // senders + 1).bit_length() - 1)


def most_bits(ring_bits: int, senders: int) -> int:
    """The most bits of a sender's encoding, up to 31, whose sum does not wrap around modulo M."""
    return min(31, (((1 << mask_bits(ring_bits, senders)) - 1) // senders + 1).bit_length() - 1)


@dataclass(frozen=True, slots=True)
class OpeningPolicy:
    """What a client insists on, as a sender and as a receiver.

    floor, corrupt: as in `Rules`, of the senders that do not collude with the receiver. Any `corrupt` receivers may put their
    sums together. colluding: groups of clients that it takes for one. max_length: elements that it will mask or open.
    """

    floor: int
    colluding: tuple[frozenset[int], ...] = ()
    max_length: int = 2**28
    corrupt: int = 0

    def __post_init__(self) -> None:
        if self.floor < 2:
            raise ValueError("a sum of one client is its input: the floor is 2 or more")

    @property
    def rules(self) -> Rules:
        return Rules(self.floor, self.corrupt)

    def group(self, receiver: int) -> frozenset[int]:
        """The receiver and who colludes with it, also by way of others: groups with a common client are one."""
        found, before = frozenset({receiver}), frozenset[int]()
        while found != before:
            before, found = found, found.union(*(group for group in self.colluding if not group.isdisjoint(found)))
        return found

    def reveals(self, opening: ReceiverSum, earlier: Sequence[ReceiverSum]) -> bool:
        """Whether the opening could show its receiver's group what fewer than `floor` of the others sent.

        earlier: openings of the same updates. Dropouts change rows: a sum may be of any senders down to its threshold, and of
        others than another sum of the same updates. What is held against the floor is the worst of it.
        """
        return self._shown(self.group(opening.receiver), opening, earlier) > 1 / self.rules.least + TOLERANCE

    def reveals_to_corrupt(self, opening: ReceiverSum, earlier: Sequence[ReceiverSum]) -> bool:
        """Whether the opening and earlier ones could show so much to up to `corrupt` receivers that put theirs together.

        Those that are corrupt and no receivers may be among the senders: the floor is of the rest. With more such sets of
        receivers than MOST_COALITIONS it could.
        """
        own = self.group(opening.receiver)
        others = sorted({other.receiver for other in earlier} - own)
        sizes = range(1, min(self.corrupt - 1, len(others)) + 1)
        if sum(comb(len(others), size) for size in sizes) > MOST_COALITIONS:
            return True
        for size in sizes:
            most = 1 / (max(self.floor, 1) + self.corrupt - size - 1) + TOLERANCE
            for chosen in combinations(others, size):
                if self._shown(own.union(*map(self.group, chosen)), opening, earlier) > most:
                    return True
        return False

    def _shown(self, group: frozenset[int], opening: ReceiverSum, earlier: Sequence[ReceiverSum]) -> float:
        """The largest leverage that clients outside of the group could have in what its receivers are told."""
        theirs = [*(other for other in earlier if other.receiver in group), opening]
        rows = tuple(tuple((i, w) for i, w in each.row.items() if i not in group) for each in theirs)
        return _with_losses(rows, sum(len(each.session.roster) - each.session.threshold for each in theirs))


@lru_cache(1 << 14)
def _with_losses(rows: tuple[tuple[tuple[int, float], ...], ...], lost: int) -> float:
    """Kept, as all clients of a process hold the same rows against their floors."""
    found: list[Row] = [dict(row) for row in rows]
    return with_losses(found, lost)
