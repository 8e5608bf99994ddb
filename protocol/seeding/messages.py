"""The messages of the seed exchange (specs/group_seed.md)."""

from dataclasses import dataclass, field
from typing import ClassVar

from ..core.session import MAX_ID
from ..wire.fields import by_kind, clients, each, integer, octets, signature

PUBLIC_BYTES = 32
ADVERTISED_BYTES = 96
"""Of a key and the signature on it."""


@dataclass(frozen=True, slots=True)
class Advertise:
    """Client to server: a one-session X25519 key, signed by the client's identity."""

    kind: ClassVar[int] = 4
    public: bytes
    signature: bytes

    def __post_init__(self) -> None:
        octets(self.public, PUBLIC_BYTES, PUBLIC_BYTES, "public key")
        signature(self.signature)


@dataclass(frozen=True, slots=True)
class Roster:
    """Server to whoever is to seal the seed: the clients that it is for, and what each advertised, key and signature."""

    kind: ClassVar[int] = 5
    members: tuple[int, ...]
    keys: tuple[bytes, ...]

    def __post_init__(self) -> None:
        clients(self.members, 1, "members")
        each(self.keys, len(self.members), ADVERTISED_BYTES, ADVERTISED_BYTES, "keys")

    def advertised(self) -> dict[int, Advertise]:
        """By client."""
        return {i: Advertise(k[:PUBLIC_BYTES], k[PUBLIC_BYTES:]) for i, k in zip(self.members, self.keys, strict=True)}


@dataclass(frozen=True, slots=True)
class SealedSeed:
    """A holder to one client, relayed by the server: the secret sealed to the client's key, with the holder's signed key.

    tag: names the secret that is sealed and tells nothing of it.
    """

    kind: ClassVar[int] = 6
    member: int
    sealer: int
    public: bytes
    signature: bytes
    tag: bytes
    sealed: bytes = field(repr=False)

    def __post_init__(self) -> None:
        integer(self.member, 0, MAX_ID, "member")
        integer(self.sealer, 0, MAX_ID, "sealer")
        octets(self.public, PUBLIC_BYTES, PUBLIC_BYTES, "public key")
        signature(self.signature)
        octets(self.tag, 32, 32, "tag")
        octets(self.sealed, 48, 48, "sealed seed")


@dataclass(frozen=True, slots=True)
class SeedTag:
    """Client to server: the tag of the secret that it holds, signed."""

    kind: ClassVar[int] = 12
    tag: bytes
    signature: bytes

    def __post_init__(self) -> None:
        octets(self.tag, 32, 32, "tag")
        signature(self.signature)


@dataclass(frozen=True, slots=True)
class SeedQuorum:
    """Server to client: as many signatures on one tag as a session's threshold, in the order of the members that signed."""

    kind: ClassVar[int] = 13
    tag: bytes
    members: tuple[int, ...]
    signatures: tuple[bytes, ...]

    def __post_init__(self) -> None:
        octets(self.tag, 32, 32, "tag")
        clients(self.members, 1, "members")
        each(self.signatures, len(self.members), 64, 64, "signatures")


MESSAGES = by_kind(Advertise, Roster, SealedSeed, SeedTag, SeedQuorum)
