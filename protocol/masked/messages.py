"""The messages of the masked sum, in the order in which they are said. Spec: specs/masked_sum.md; schema: messages.cddl."""

from dataclasses import dataclass, field
from typing import ClassVar

from ...crypto.shamir import SHARE_BYTES
from ..core.session import MAX_ROSTER
from ..wire.fields import (
    DIGEST_BYTES,
    MAX_VECTOR_BYTES,
    SessionFields,
    by_kind,
    clients,
    each,
    integer,
    lent_words,
    octets,
    signature,
)

SEALED_SHARES_BYTES = 2 * SHARE_BYTES + DIGEST_BYTES + 16
COMMITTED_BYTES = 4 + 32 + 32
"""Of a dealing, per holder: its id and the commitments to its two shares."""
_MAX_DEALING = COMMITTED_BYTES * MAX_ROSTER


@dataclass(frozen=True, slots=True)
class Proposal(SessionFields):
    """Server to client: take part in this session on these terms (see `SumTerms`). clip, weights: binary64, big-endian."""

    kind: ClassVar[int] = 20
    ring_bits: int
    length: int
    bits: int
    clip: bytes
    max_weight: int
    neighbours: int
    share_threshold: int
    graph_seed: bytes
    model: bytes
    update: bytes
    weights: bytes
    times_samples: int

    def __post_init__(self) -> None:
        SessionFields.__post_init__(self)
        integer(self.ring_bits, 32, 64, "ring bits")
        integer(self.length, 1, MAX_VECTOR_BYTES // 8, "length")
        integer(self.bits, 2, 31, "bits")
        octets(self.clip, 8, 8, "clip")
        integer(self.max_weight, 1, 2**62, "max weight")
        integer(self.neighbours, 1, MAX_ROSTER, "neighbours")
        integer(self.share_threshold, 1, MAX_ROSTER, "share threshold")
        octets(self.graph_seed, 32, 32, "graph seed")
        octets(self.model, DIGEST_BYTES, DIGEST_BYTES, "model")
        octets(self.update, DIGEST_BYTES, DIGEST_BYTES, "update")
        octets(self.weights, 0, 8 * MAX_ROSTER, "weights")
        integer(self.times_samples, 0, 1, "times samples")


@dataclass(frozen=True, slots=True)
class MaskKeys:
    """Client to server: two one-session X25519 keys, signed by the client's identity."""

    kind: ClassVar[int] = 21
    mask_public: bytes
    seal_public: bytes
    signature: bytes

    def __post_init__(self) -> None:
        octets(self.mask_public, 32, 32, "mask key")
        octets(self.seal_public, 32, 32, "sealing key")
        signature(self.signature)


@dataclass(frozen=True, slots=True)
class NeighbourKeys:
    """Server to client: the keys that its neighbours advertised, in the order of `neighbours`."""

    kind: ClassVar[int] = 22
    neighbours: tuple[int, ...]
    mask_publics: tuple[bytes, ...]
    seal_publics: tuple[bytes, ...]
    signatures: tuple[bytes, ...]

    def __post_init__(self) -> None:
        clients(self.neighbours, 1, "neighbours")
        each(self.mask_publics, len(self.neighbours), 32, 32, "mask keys")
        each(self.seal_publics, len(self.neighbours), 32, 32, "sealing keys")
        each(self.signatures, len(self.neighbours), 64, 64, "signatures")


@dataclass(frozen=True, slots=True)
class SealedShares:
    """Client to server: its two secrets, shared among its neighbours. dealing: public part, signed; sealed: one per holder."""

    kind: ClassVar[int] = 23
    dealing: bytes
    sealed: tuple[bytes, ...] = field(repr=False)
    signature: bytes

    def __post_init__(self) -> None:
        octets(self.dealing, COMMITTED_BYTES, _MAX_DEALING, "dealing")
        each(self.sealed, len(self.dealing) // COMMITTED_BYTES, SEALED_SHARES_BYTES, SEALED_SHARES_BYTES, "sealed shares")
        signature(self.signature)


@dataclass(frozen=True, slots=True)
class RelayedShares:
    """Server to client: from each neighbour that shared, its dealing and the shares sealed to this client."""

    kind: ClassVar[int] = 24
    dealers: tuple[int, ...]
    dealings: tuple[bytes, ...]
    sealed: tuple[bytes, ...] = field(repr=False)

    def __post_init__(self) -> None:
        clients(self.dealers, 1, "dealers")
        each(self.dealings, len(self.dealers), COMMITTED_BYTES, _MAX_DEALING, "dealings")
        each(self.sealed, len(self.dealers), SEALED_SHARES_BYTES, SEALED_SHARES_BYTES, "sealed shares")


@dataclass(frozen=True, slots=True)
class Accepted:
    """Client to server: of the neighbours that shared, those whose shares are good."""

    kind: ClassVar[int] = 30
    dealers: tuple[int, ...]

    def __post_init__(self) -> None:
        clients(self.dealers, 0, "dealers")


@dataclass(frozen=True, slots=True)
class MaskWith:
    """Server to client: the neighbours to mask with."""

    kind: ClassVar[int] = 31
    neighbours: tuple[int, ...]

    def __post_init__(self) -> None:
        clients(self.neighbours, 1, "neighbours")


@dataclass(frozen=True, slots=True)
class MaskedInput:
    """Client to server: its vector under all its masks, as little-endian uint32 or uint64."""

    kind: ClassVar[int] = 25
    lent: ClassVar[bool] = True
    vector: bytes | memoryview = field(repr=False)

    def __post_init__(self) -> None:
        lent_words(self.vector, 1, "vector")


@dataclass(frozen=True, slots=True)
class Survivors:
    """Server to client: the clients whose inputs are in the sum. Everybody else on the roster dropped out."""

    kind: ClassVar[int] = 26
    alive: tuple[int, ...]

    def __post_init__(self) -> None:
        clients(self.alive, 1, "survivors")


@dataclass(frozen=True, slots=True)
class SurvivorSignature:
    """Client to server: its signature on the one survivor set that it was shown, and on the head of its transcript (32 bytes)."""

    kind: ClassVar[int] = 27
    signature: bytes
    head: bytes

    def __post_init__(self) -> None:
        signature(self.signature)
        octets(self.head, DIGEST_BYTES, DIGEST_BYTES, "head")


@dataclass(frozen=True, slots=True)
class UnmaskRequest:
    """Server to client: neighbours that signed the same survivor set, with their signatures and heads."""

    kind: ClassVar[int] = 28
    signers: tuple[int, ...]
    signatures: tuple[bytes, ...]
    heads: tuple[bytes, ...]

    def __post_init__(self) -> None:
        clients(self.signers, 1, "signers")
        each(self.signatures, len(self.signers), 64, 64, "signatures")
        each(self.heads, len(self.signers), DIGEST_BYTES, DIGEST_BYTES, "heads")


@dataclass(frozen=True, slots=True)
class Reveal:
    """Client to server: a self-seed share of each neighbour alive, a mask-key share of each that dropped out."""

    kind: ClassVar[int] = 29
    alive: tuple[int, ...]
    seeds: tuple[bytes, ...] = field(repr=False)
    dropped: tuple[int, ...]
    keys: tuple[bytes, ...] = field(repr=False)

    def __post_init__(self) -> None:
        clients(self.alive, 0, "survivors")
        each(self.seeds, len(self.alive), SHARE_BYTES, SHARE_BYTES, "self-seed shares")
        clients(self.dropped, 0, "dropped clients")
        each(self.keys, len(self.dropped), SHARE_BYTES, SHARE_BYTES, "mask-key shares")
        if not set(self.alive).isdisjoint(self.dropped):
            raise ValueError("a neighbour is both alive and dropped")


MESSAGES = by_kind(
    Proposal,
    MaskKeys,
    NeighbourKeys,
    SealedShares,
    RelayedShares,
    Accepted,
    MaskWith,
    MaskedInput,
    Survivors,
    SurvivorSignature,
    UnmaskRequest,
    Reveal,
)
