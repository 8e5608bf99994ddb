"""Ed25519 identities: who a party is, enrolled once, and its signature on what it says.

A signature covers a purpose and a context as well as the content, so a signature for one use is dead in every other.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SIGNATURE_BYTES = 64
PUBLIC_KEY_BYTES = 32


def _signed(purpose: str, context: bytes, content: bytes) -> bytes:
    head = b"cloister/v1/signature/" + purpose.encode()
    return b"".join(len(part).to_bytes(8, "big") + part for part in (head, context, content))


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A party's signing key. Its 32-byte public half is what others enrol.

    noted: called with the public half, a signature and what was signed, where a process remembers what it signed.
    """

    secret: bytes = field(repr=False)
    noted: Callable[[bytes, bytes, str, bytes, bytes], None] | None = field(default=None, repr=False, compare=False)
    _private: Ed25519PrivateKey = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_private", Ed25519PrivateKey.from_private_bytes(self.secret))  # a base point multiplication

    @classmethod
    def from_secret(cls, secret: bytes) -> Self:
        """From 32 secret bytes. Raises ValueError for another length."""
        return cls(secret)

    @property
    def public(self) -> bytes:
        return self._private.public_key().public_bytes_raw()

    def sign(self, purpose: str, context: bytes, content: bytes) -> bytes:
        """A 64-byte signature on (purpose, context, content)."""
        signature = self._private.sign(_signed(purpose, context, content))
        if self.noted is not None:
            self.noted(self.public, signature, purpose, context, content)
        return signature


class BadSignature(ValueError):
    """The signature is not this identity's on this content."""


class Verify(Protocol):
    """`verify`, or what stands for it."""

    def __call__(self, public: bytes, signature: bytes, purpose: str, context: bytes, content: bytes, /) -> None:
        """Raises BadSignature."""
        ...


def verify(public: bytes, signature: bytes, purpose: str, context: bytes, content: bytes) -> None:
    """Return if `public` signed exactly this. Raises BadSignature; there is nothing to check afterwards."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _signed(purpose, context, content))
    except (InvalidSignature, ValueError):
        raise BadSignature("a signature does not verify") from None


class VerifyingOnce:
    """`verify` that remembers what was right, and what was signed here: for a process in which many parties check a signature,
    each for itself. kept: signatures, by digest, of which the oldest are forgotten.
    """

    def __init__(self, kept: int = 1 << 14) -> None:
        self._right: dict[bytes, None] = {}
        self._kept = kept

    def __call__(self, public: bytes, signature: bytes, purpose: str, context: bytes, content: bytes, /) -> None:
        """See `verify`."""
        if _digest(public, signature, purpose, context, content) not in self._right:
            verify(public, signature, purpose, context, content)
            self.note(public, signature, purpose, context, content)

    def note(self, public: bytes, signature: bytes, purpose: str, context: bytes, content: bytes, /) -> None:
        """It is right."""
        self._right[_digest(public, signature, purpose, context, content)] = None
        if len(self._right) > self._kept:
            del self._right[next(iter(self._right))]


def _digest(public: bytes, signature: bytes, purpose: str, context: bytes, content: bytes) -> bytes:
    fixed = (len(public), len(signature))
    return hashlib.sha256(repr(fixed).encode() + public + signature + _signed(purpose, context, content)).digest()
