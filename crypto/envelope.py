"""Sealing one content under a key that a group shares: ChaCha20-Poly1305 (RFC 8439), 16 bytes longer.

Opening fails in one flat way and never says why. Beside it `sealing`, for one receiver's public key.
"""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from .sealing import OVERHEAD_BYTES, InvalidSeal

__all__ = ["OVERHEAD_BYTES", "InvalidSeal", "open_sealed", "seal"]


def seal(key: bytes, content: bytes, context: bytes) -> bytes:
    """`content` for whoever holds the 32-byte `key`. One content per key, ever: the nonce is fixed, so derive a key for each."""
    return ChaCha20Poly1305(key).encrypt(bytes(12), content, context)


def open_sealed(key: bytes, sealed: bytes, context: bytes) -> bytes:
    """The content that was sealed under this key in this context. Raises InvalidSeal."""
    try:
        return ChaCha20Poly1305(key).decrypt(bytes(12), sealed, context)
    except (InvalidTag, ValueError):
        raise InvalidSeal("a sealed secret does not open") from None
