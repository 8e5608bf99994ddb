"""Masks: a 32-byte key stretched to uniform ring elements, and many of them added to a vector in place.

A mask is the key's AES-256-CTR keystream read as little-endian words, so every bit of the key counts and a mask is as
uniform as the cipher. Sums wrap around modulo 2^32 or 2^64. A key makes one mask and no other.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from .prg import KEY_BYTES

Ring = TypeVar("Ring", np.uint32, np.uint64)

_BLOCK_BYTES = 128 * 1024
_ZEROS = memoryview(bytes(_BLOCK_BYTES))
_CIPHER_BLOCK = 16
_STREAMS = 64


def mask(key: bytes, count: int, dtype: type[Ring]) -> NDArray[Ring]:
    """The mask of `key`: `count` uniform elements of Z_2^32 (np.uint32) or Z_2^64 (np.uint64)."""
    total = np.zeros(count, dtype)
    add_masks(total, [(key, 1)])
    return total


def add_masks(total: NDArray[Ring], signed_keys: Iterable[tuple[bytes, int]]) -> None:
    """Add (sign +1) or subtract (sign -1) the mask of each key to `total`, in place and modulo the ring.

    total: uint32 or uint64, shape (count,), contiguous and writeable. signed_keys: (32-byte key, sign); keys differ.
    Costs one keystream and one addition in cache per key; needs one block of keystream, whatever the sizes. Raises
    ValueError, before `total` is touched, for another array, a key of another length or used twice, or another sign.
    """
    if total.dtype not in (np.uint32, np.uint64) or total.ndim != 1 or not total.flags.c_contiguous:
        raise ValueError("masks are added to a contiguous vector of uint32 or uint64")
    keys = _checked(signed_keys)
    buffer = bytearray(_BLOCK_BYTES + _CIPHER_BLOCK)
    words = np.frombuffer(buffer, total.dtype.newbyteorder("<"), _BLOCK_BYTES // total.itemsize)
    for first in range(0, len(keys), _STREAMS):
        streams = [(_stream(key), np.add if sign == 1 else np.subtract) for key, sign in keys[first : first + _STREAMS]]
        for start in range(0, len(total), len(words)):
            block = total[start : start + len(words)]
            zeros, keystream = _ZEROS[: block.nbytes], words[: len(block)]
            for stream, add in streams:
                stream.update_into(zeros, buffer)
                add(block, keystream, out=block)


def _checked(signed_keys: Iterable[tuple[bytes, int]]) -> Sequence[tuple[bytes, int]]:
    keys = list(signed_keys)
    if any(len(key) != KEY_BYTES for key, _ in keys):
        raise ValueError(f"a mask key has {KEY_BYTES} bytes")
    if any(sign not in (1, -1) for _, sign in keys):
        raise ValueError("a mask is added (+1) or subtracted (-1)")
    if len({key for key, _ in keys}) != len(keys):
        raise ValueError("a key makes one mask; derive another key for another mask")
    return keys


def _stream(key: bytes) -> CipherContext:
    return Cipher(algorithms.AES256(key), modes.CTR(bytes(_CIPHER_BLOCK))).encryptor()
