"""The messages of a receiver-opened sum, in the order in which they are said.

Spec: specs/receiver_opened.md; schema: messages.cddl.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from ...core.session import MAX_ID
from ...wire.fields import (
    DIGEST_BYTES,
    MAX_VECTOR_BYTES,
    SessionFields,
    by_kind,
    clients,
    each,
    integer,
    octets,
    signature,
    words,
)


@dataclass(frozen=True, slots=True)
class OpeningOffer(SessionFields):
    """Server to the opener and to the senders, which are the roster: what will be summed for whom (see `ReceiverSum`).

    clip: a binary64, big-endian. weights: 8 such bytes each, in the order of the roster. update: digest of the work session whose
    updates are summed. own: the opener's weight of its own, a binary64.
    """

    kind: ClassVar[int] = 80
    opener: int
    weights: bytes
    ring_bits: int
    d: int
    bits: int
    clip: bytes
    model: bytes
    update: bytes
    own: bytes

    def __post_init__(self) -> None:
        SessionFields.__post_init__(self)
        integer(self.opener, 0, MAX_ID, "opener")
        octets(self.weights, 8 * len(self.roster), 8 * len(self.roster), "weights")
        integer(self.ring_bits, 32, 64, "ring bits")
        integer(self.d, 1, MAX_VECTOR_BYTES // 8, "d")
        integer(self.bits, 2, 31, "bits")
        octets(self.clip, 8, 8, "clip")
        octets(self.model, DIGEST_BYTES, DIGEST_BYTES, "model")
        octets(self.update, DIGEST_BYTES, DIGEST_BYTES, "update")
        octets(self.own, 8, 8, "own weight")


@dataclass(frozen=True, slots=True)
class ReceiverKey:
    """Opener to server, and on to every sender: a one-session X25519 key, signed by the opener's identity."""

    kind: ClassVar[int] = 81
    public: bytes
    signature: bytes

    def __post_init__(self) -> None:
        octets(self.public, 32, 32, "public key")
        signature(self.signature)


@dataclass(frozen=True, slots=True)
class SenderKey:
    """Sender to server: a one-session X25519 key, signed by the sender's identity."""

    kind: ClassVar[int] = 82
    public: bytes
    signature: bytes

    def __post_init__(self) -> None:
        octets(self.public, 32, 32, "public key")
        signature(self.signature)


@dataclass(frozen=True, slots=True)
class OpenedTotal:
    """Server to the opener: the sum under the survivors' masks, little-endian uint32, and what those masks follow from."""

    kind: ClassVar[int] = 83
    survivors: tuple[int, ...]
    publics: tuple[bytes, ...]
    signatures: tuple[bytes, ...]
    total: bytes = field(repr=False)

    def __post_init__(self) -> None:
        clients(self.survivors, 1, "survivors")
        each(self.publics, len(self.survivors), 32, 32, "public keys")
        each(self.signatures, len(self.survivors), 64, 64, "signatures")
        words(self.total, 1, "total")


MESSAGES = by_kind(OpeningOffer, ReceiverKey, SenderKey, OpenedTotal)
