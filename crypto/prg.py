"""Pseudorandom bytes from a key: HKDF-SHA256 to derive keys, AES-256-CTR to stretch them.

Every bit of a key reaches the cipher. A key is used for one stream and no other: derive one key per purpose and context.
"""

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

KEY_BYTES = 32
_DOMAIN = b"cloister/v1/"


def derive_key(secret: bytes, purpose: str, context: bytes) -> bytes:
    """A 32-byte key for one `purpose` in one `context` (usually a session digest), by HKDF-SHA256 (RFC 5869).

    Raises ValueError for a secret under 128 bits.
    """
    if len(secret) < 16:
        raise ValueError(f"a secret of {8 * len(secret)} bits is too short; use 128 bits or more")
    info = _DOMAIN + purpose.encode() + b"\x00" + context
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(secret)


def keystream(key: bytes, size: int) -> bytes:
    """`size` bytes of AES-256-CTR keystream from counter 0.

    The counter starts at zero because each key is stretched exactly once; derive another key for another stream.
    """
    if len(key) != KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(key)}")
    return Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor().update(bytes(size))


def random_uint64(key: bytes, count: int) -> NDArray[np.uint64]:
    """uint64, shape (count,): the keystream read as little-endian words."""
    return np.frombuffer(keystream(key, 8 * count), dtype="<u8").astype(np.uint64, copy=False)


def random_permutation(key: bytes, count: int) -> NDArray[np.int64]:
    """int64, shape (count,): a permutation of range(count), uniform up to the cipher.

    Sorts independent 64-bit words; two of them collide with probability below count^2 / 2^65 (1e-7 at count = 1.6 million),
    and the stable sort then keeps their order.
    """
    return np.argsort(random_uint64(key, count), kind="stable")


def random_signs(key: bytes, count: int) -> NDArray[np.float32]:
    """float32, shape (count,): independent fair values -1 and +1."""
    bits = np.unpackbits(np.frombuffer(keystream(key, (count + 7) // 8), dtype=np.uint8), count=count)
    return np.float32(1) - np.float32(2) * bits.astype(np.float32)
