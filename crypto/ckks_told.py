"""Encryptions whose randomness is told: the same bytes whenever they are made again, of values that everybody may know.

The library draws its randomness from the operating system and takes none. But a public key is itself an encryption of zero, and
a small polynomial times it is one, too: `(b r + m, a r)` encrypts m for the key (b, a). Who knows r reads m, and who does not
know r beforehand makes no keys that serve for this ciphertext and not for others.
"""

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .ckks_bytes import unwrapped, varint, wrapped
from .ckks_contexts import ciphertexts_of, primes_of, public_key_of
from .ckks_parameters import CkksParameters
from .prg import keystream

Numbers = NDArray[np.uint64]
SMALL = 2.0**-35
"""The slots of r are at most this: some hundreds of its coefficients are 1 or -1, and the error is that of the library itself."""


def told_chunks(context: Any, parameters: CkksParameters, values: NDArray[np.float64], seed: bytes) -> tuple[Any, ...]:
    """The library's ciphertexts of `values`, float64 (length,), whose randomness follows from the seed, 32 bytes. context: its
    own, with the public key.
    """
    key = public_key_of(context, parameters)[:, :-1]  # without the prime that no ciphertext has
    primes = np.array(primes_of(parameters), dtype=object)[:, None]
    zero = chunk_of(context, parameters, key, parameters.slots)

    def encoded(of: NDArray[np.float64]) -> Any:
        """The polynomial with these slots: what they add to the first one of a ciphertext."""
        padded = np.concatenate([of, np.zeros(parameters.slots - len(of))])
        return (numbers_of(zero + padded.tolist(), parameters)[0].astype(object) - key[0]) % primes

    starts = range(0, len(values), parameters.slots)
    words = np.frombuffer(keystream(seed, 8 * parameters.slots * len(starts)), np.uint64).reshape(len(starts), -1)
    chunks = []
    for at, drawn in zip(starts, words, strict=True):
        part = values[at : at + parameters.slots]
        made = key.astype(object) * encoded(SMALL * (drawn / 2.0**63 - 1)) % primes
        made[0] = (made[0] + encoded(part)) % primes
        chunks.append(chunk_of(context, parameters, made.astype(np.uint64), len(part)))
    return tuple(chunks)


def chunk_of(context: Any, parameters: CkksParameters, numbers: Numbers, size: int) -> Any:
    """The library's ciphertext of `size` values with these two polynomials, uint64 (2, primes, degree)."""
    import tenseal  # here, so that who needs none of it does not load it

    objects, layout = ciphertexts_of(parameters, 0)
    made = objects.made_of(np.ascontiguousarray(numbers), layout)
    return tenseal.ckks_vector_from(context, wrapped(1, varint(size)) + wrapped(2, made) + behind(parameters))


def numbers_of(chunk: Any, parameters: CkksParameters) -> Numbers:
    """The two polynomials of such a ciphertext."""
    objects, layout = ciphertexts_of(parameters, 0)
    _, rest = unwrapped(memoryview(chunk.serialize()), 1)
    inner, _ = unwrapped(rest, 2)
    return objects.numbers(inner, layout).reshape(2, -1, parameters.degree)


def behind(parameters: CkksParameters) -> bytes:
    """What stands behind a ciphertext: its scale."""
    return b"\x19" + struct.pack("<d", 2.0**parameters.scale_bits)
