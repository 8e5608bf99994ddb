"""The messages of sums into slots under two servers, in the order in which they are said.

Spec: specs/slots.md; schema: messages.cddl. Ring elements are little-endian uint64, other whole numbers big-endian.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from ...crypto.pedersen import BLINDING_BYTES, COMMITMENT_BYTES
from ..wire.fields import DIGEST_BYTES, MAX_VECTOR_BYTES, by_kind, clients, integer, octets
from .messages import MAX_QUESTION, ring

MOST_SLOTS = 64
COUNT_BYTES = 20
"""Bytes of a sum of up to 2^32 numbers of 128 bits: a ring element, and 64 bits above it that hide how often a sum wraps."""
BLINDINGS_BYTES = BLINDING_BYTES + 4
"""Bytes of a sum of up to 2^32 blindings."""


@dataclass(frozen=True, slots=True)
class SlotShare:
    """Client to server: what `ExplicitShare` holds, of counts and rows, and the blinding of its commitment to the counts."""

    kind: ClassVar[int] = 55
    binding: bytes
    vector: bytes = field(repr=False)
    blinding: bytes = field(repr=False)

    def __post_init__(self) -> None:
        octets(self.binding, DIGEST_BYTES, DIGEST_BYTES, "binding")
        ring(self.vector, "vector")
        octets(self.blinding, BLINDING_BYTES, BLINDING_BYTES, "blinding")


@dataclass(frozen=True, slots=True)
class SlotKey:
    """Client to second server: the key that its share is stretched from, a commitment to the counts in the server's share, and
    SHA-256 of the slots' models, one after the other, that its work started from.
    """

    kind: ClassVar[int] = 56
    binding: bytes
    key: bytes = field(repr=False)
    commitment: bytes = field(repr=False)
    model: bytes

    def __post_init__(self) -> None:
        octets(self.binding, DIGEST_BYTES, DIGEST_BYTES, "binding")
        octets(self.key, 32, 32, "key")
        octets(self.commitment, COMMITMENT_BYTES, COMMITMENT_BYTES, "commitment")
        octets(self.model, DIGEST_BYTES, DIGEST_BYTES, "model")


@dataclass(frozen=True, slots=True)
class SlotsAgreed:
    """Second server to server: whose shares both hold, and what these clients committed to, in the same order."""

    kind: ClassVar[int] = 59
    clients: tuple[int, ...]
    commitments: bytes = field(repr=False)

    def __post_init__(self) -> None:
        clients(self.clients, 0, "clients")
        size = COMMITMENT_BYTES * len(self.clients)
        octets(self.commitments, size, size, "commitments")


@dataclass(frozen=True, slots=True)
class SlotQuestion:
    """Server to second server: open the slots of this session that enough clients chose.

    counts: for each slot, 20 bytes: the sum, without wrap, of what all survivors but `without` committed to. blinding: the sum of
    their blindings. without: survivors whose commitment is not to what they sent to the server.
    """

    kind: ClassVar[int] = 57
    number: int
    source: bytes
    counts: bytes = field(repr=False)
    blinding: bytes = field(repr=False)
    without: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        clients(self.without, 0, "without")
        integer(self.number, 0, MAX_QUESTION, "number")
        octets(self.source, DIGEST_BYTES, DIGEST_BYTES, "source")
        octets(self.counts, COUNT_BYTES, COUNT_BYTES * MOST_SLOTS, "counts")
        if len(self.counts) % COUNT_BYTES:
            raise ValueError(f"counts are not of whole numbers of {COUNT_BYTES} bytes")
        octets(self.blinding, BLINDINGS_BYTES, BLINDINGS_BYTES, "blinding")


@dataclass(frozen=True, slots=True)
class SlotAnswer:
    """Second server to server: its share of the counts, and of the rows of the open slots, one after the other."""

    kind: ClassVar[int] = 58
    counts: bytes = field(repr=False)
    rows: bytes = field(repr=False)

    def __post_init__(self) -> None:
        octets(self.counts, 8, 8 * MOST_SLOTS, "counts")
        octets(self.rows, 0, MAX_VECTOR_BYTES, "rows")
        if len(self.counts) % 8 or len(self.rows) % 8:
            raise ValueError("shares are not of whole 8-byte words")


MESSAGES = by_kind(SlotShare, SlotKey, SlotsAgreed, SlotQuestion, SlotAnswer)
