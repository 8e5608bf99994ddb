"""The messages of pairs, in the order in which they are said.

Spec: specs/pairs.md; schema: messages.cddl.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from ..wire.fields import MAX_VECTOR_BYTES, SessionFields, by_kind, integer, octets, signature, text, words

MAX_CHUNKS = 1 << 12
CHUNK_BYTES = 1 << 20
"""Bytes of an embedding model that are sealed at once; a chunk on the wire has a tag of 16 more."""


@dataclass(frozen=True, slots=True)
class PairOffer(SessionFields):
    """Server to the clients on the roster: what they would send, if they agree to be compared (see `PairTerms`).

    noise: clip, multiplier and reference multiplier, three binary64, big-endian.
    """

    kind: ClassVar[int] = 90
    released: str
    projection: str
    embedding: str
    target: str
    reference: str
    d: int
    p: int
    rows: int
    weights: int
    unit: str
    noise: bytes

    def __post_init__(self) -> None:
        SessionFields.__post_init__(self)
        for name in ("released", "projection", "embedding", "target", "reference", "unit"):
            text(getattr(self, name), 32, name)
        integer(self.d, 1, MAX_VECTOR_BYTES // 4, "d")
        integer(self.p, 1, MAX_VECTOR_BYTES // 4, "p")
        integer(self.rows, 1, MAX_VECTOR_BYTES // 4, "rows")
        integer(self.weights, 0, MAX_CHUNKS * CHUNK_BYTES // 4, "weights")
        octets(self.noise, 24, 24, "noise")


@dataclass(frozen=True, slots=True)
class PairKey:
    """Client to server, and on to the other client: a one-session X25519 key, signed by its client's identity."""

    kind: ClassVar[int] = 91
    public: bytes
    signature: bytes

    def __post_init__(self) -> None:
        octets(self.public, 32, 32, "public key")
        signature(self.signature)


@dataclass(frozen=True, slots=True)
class SealedEmbedding:
    """Client to server, and on to the other client: its embedding model, little-endian float32, sealed chunk by chunk."""

    kind: ClassVar[int] = 92
    chunks: tuple[bytes, ...] = field(repr=False)

    def __post_init__(self) -> None:
        _sealed(self.chunks)


@dataclass(frozen=True, slots=True)
class PairClouds:
    """Client to server: what it releases, little-endian float32, rows one after another; and its reference distance.

    own: of its own embeddings. other: of what the other client compares itself to; empty where that is the same.
    reference: binary64, big-endian.
    """

    kind: ClassVar[int] = 93
    own: bytes = field(repr=False)
    other: bytes = field(repr=False)
    reference: bytes

    def __post_init__(self) -> None:
        words(self.own, 1, "own")
        words(self.other, 0, "other")
        octets(self.reference, 8, 8, "reference")


@dataclass(frozen=True, slots=True)
class PairEdge:
    """Server to both clients: whether they are joined: 1 if each accepts the other, else 0."""

    kind: ClassVar[int] = 94
    edge: int

    def __post_init__(self) -> None:
        integer(self.edge, 0, 1, "edge")


@dataclass(frozen=True, slots=True)
class SealedCloud:
    """Client to server, and on to the other client: embeddings for it alone, little-endian float32, sealed chunk by chunk."""

    kind: ClassVar[int] = 95
    chunks: tuple[bytes, ...] = field(repr=False)

    def __post_init__(self) -> None:
        _sealed(self.chunks)


@dataclass(frozen=True, slots=True)
class PairDistance:
    """Client to server: the distance of its own embeddings to the other's, and its reference distance: binary64, big-endian."""

    kind: ClassVar[int] = 96
    distance: bytes
    reference: bytes

    def __post_init__(self) -> None:
        octets(self.distance, 8, 8, "distance")
        octets(self.reference, 8, 8, "reference")


MESSAGES = by_kind(PairOffer, PairKey, SealedEmbedding, PairClouds, PairEdge, SealedCloud, PairDistance)


def _sealed(chunks: object) -> None:
    if not isinstance(chunks, tuple) or not 0 < len(chunks) <= MAX_CHUNKS:
        raise ValueError("chunks are not a list")
    for chunk in chunks:
        octets(chunk, 17, CHUNK_BYTES + 16, "chunk")
