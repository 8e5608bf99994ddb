"""Ed25519 identities: who a party is, enrolled once, and its signature on what it says.

A signature covers a purpose and a context as well as the content, so a signature for one use is dead in every other.
"""

from dataclasses import dataclass, field
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SIGNATURE_BYTES = 64
PUBLIC_KEY_BYTES = 32


def _signed(purpose: str, context: bytes, content: bytes) -> bytes:
    head = b"cloister/v1/signature/" + purpose.encode()
    return b"".join(len(part).to_bytes(8, "big") + part for part in (head, context, content))


@dataclass(frozen=True, slots=True)
class Identity:
    """A party's signing key. Its 32-byte public half is what others enrol."""

    secret: bytes = field(repr=False)

    @classmethod
    def from_secret(cls, secret: bytes) -> Self:
        """From 32 secret bytes. Raises ValueError for another length."""
        Ed25519PrivateKey.from_private_bytes(secret)
        return cls(secret)

    @property
    def public(self) -> bytes:
        return Ed25519PrivateKey.from_private_bytes(self.secret).public_key().public_bytes_raw()

    def sign(self, purpose: str, context: bytes, content: bytes) -> bytes:
        """A 64-byte signature on (purpose, context, content)."""
        return Ed25519PrivateKey.from_private_bytes(self.secret).sign(_signed(purpose, context, content))


class BadSignature(ValueError):
    """The signature is not this identity's on this content."""


def verify(public: bytes, signature: bytes, purpose: str, context: bytes, content: bytes) -> None:
    """Return if `public` signed exactly this. Raises BadSignature; there is nothing to check afterwards."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _signed(purpose, context, content))
    except (InvalidSignature, ValueError):
        raise BadSignature("a signature does not verify") from None
