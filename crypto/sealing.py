"""Sealing a secret to one receiver: X25519 agreement, HKDF-SHA256, ChaCha20-Poly1305.

The context (session, sender, receiver) enters the key and is authenticated, so a sealed secret opens nowhere else.
Opening fails in one flat way and never says why.
"""

from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from .agreement import KeyExchange, exchange_keys
from .prg import derive_key

PUBLIC_KEY_BYTES = 32
OVERHEAD_BYTES = 16


class InvalidSeal(ValueError):
    """The sealed secret is not for this key and context."""


@dataclass(frozen=True, slots=True)
class SealingKey:
    """A one-session X25519 key. exchange: how it agrees on what it seals with."""

    secret: bytes = field(repr=False)
    exchange: KeyExchange = field(default=exchange_keys, repr=False, compare=False)
    _private: X25519PrivateKey = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_private", X25519PrivateKey.from_private_bytes(self.secret))  # a base point multiplication

    @property
    def public(self) -> bytes:
        return self._private.public_key().public_bytes_raw()

    def between(self, peer: bytes) -> "Channel":
        """What seals to, and opens from, the holder of `peer`. Raises InvalidSeal when that is not a usable public key."""
        try:
            return Channel(self.exchange(self._private, peer))
        except ValueError:
            raise InvalidSeal("cannot seal to this key") from None

    def seal(self, peer: bytes, content: bytes, context: bytes) -> bytes:
        """`content` for the holder of `peer`, 16 bytes longer; see `Channel.seal`. Raises InvalidSeal for an unusable key."""
        return self.between(peer).seal(content, context)

    def open(self, peer: bytes, sealed: bytes, context: bytes) -> bytes:
        """The content that `peer` sealed to this key in this context. Raises InvalidSeal."""
        try:
            return self.between(peer).open(sealed, context)
        except InvalidSeal:
            raise InvalidSeal("a sealed secret does not open") from None


@dataclass(frozen=True, slots=True)
class Channel:
    """Two keys' agreed secret: what each seals the other opens. A context names sender and receiver, so ways do not mix."""

    agreed: bytes = field(repr=False)

    def _cipher(self, context: bytes) -> ChaCha20Poly1305:
        return ChaCha20Poly1305(derive_key(self.agreed, "seal", context))

    def seal(self, content: bytes, context: bytes) -> bytes:
        """`content`, 16 bytes longer. One content per (key pair, context): the nonce is fixed."""
        # The key is fresh for every (pair, context) and seals once, so the zero nonce is never used twice under a key.
        return self._cipher(context).encrypt(bytes(12), content, context)

    def open(self, sealed: bytes, context: bytes) -> bytes:
        """The content that was sealed in this context. Raises InvalidSeal."""
        try:
            return self._cipher(context).decrypt(bytes(12), sealed, context)
        except (InvalidTag, ValueError):
            raise InvalidSeal("a sealed secret does not open") from None
