"""Encryptions whose randomness is told: the same bytes whenever they are made again, of values that everybody may know.

The library draws its randomness from the operating system, or from a generator that it is given: then it makes what it makes of a
ciphertext that nobody can foresee, from the seed. Who knows the seed reads the values, and who does not know it beforehand makes
no keys that serve for this ciphertext and not for others: it has the form of all others. (A public key times a small polynomial
encrypts, too, and has not: keys were made that serve for it alone.)
"""

import struct
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .ckks_bytes import unwrapped, varint, wrapped
from .ckks_contexts import ciphertexts_of, read_numbers, terms_of
from .ckks_parameters import CkksParameters
from .prg import keystream

Numbers = NDArray[np.uint64]
SEED_WORDS = 8
"""Of 64 bits: what the library's generator begins with."""


def told_chunks(context: Any, parameters: CkksParameters, values: NDArray[np.float64], seed: bytes) -> tuple[Any, ...]:
    """The library's ciphertexts of `values`, float64 (length,), whose randomness follows from the seed, 32 bytes. context: its
    own, with the public key.
    """
    seal = import_module("tenseal.sealapi")  # here, so that who needs none of it does not load it
    starts = range(0, len(values), parameters.slots)
    words = np.frombuffer(keystream(seed, 8 * SEED_WORDS * len(starts)), np.uint64).reshape(len(starts), SEED_WORDS)
    terms, chunks = terms_of(parameters), []
    for at, drawn in zip(starts, words, strict=True):
        part = values[at : at + parameters.slots]
        terms.set_random_generator(seal.Blake2xbPRNGFactory(drawn.tolist()))  # which begins anew for each ciphertext
        own = seal.SEALContext(terms, True, seal.SEC_LEVEL_TYPE.TC128)
        plain, made = seal.Plaintext(), seal.Ciphertext()
        seal.CKKSEncoder(own).encode(part.tolist(), 2.0**parameters.scale_bits, plain)
        seal.Encryptor(own, context.public_key().data).encrypt(plain, made)
        chunks.append(chunk_of(context, parameters, read_numbers(made).reshape(2, -1, parameters.degree), len(part)))
    return tuple(chunks)


def chunk_of(context: Any, parameters: CkksParameters, numbers: Numbers, size: int) -> Any:
    """The library's ciphertext of `size` values with these two polynomials, uint64 (2, primes, degree)."""
    import tenseal  # here, so that who needs none of it does not load it

    objects, layout = ciphertexts_of(parameters, 0)
    made = objects.made_of(np.ascontiguousarray(numbers), layout)
    return tenseal.ckks_vector_from(context, wrapped(1, varint(size)) + wrapped(2, made) + behind(parameters))


def numbers_of(chunk: Any, parameters: CkksParameters) -> Numbers:
    """The two polynomials of such a ciphertext, to be changed."""
    objects, layout = ciphertexts_of(parameters, 0)
    _, rest = unwrapped(memoryview(chunk.serialize()), 1)
    inner, _ = unwrapped(rest, 2)
    return objects.numbers(inner, layout).reshape(2, -1, parameters.degree).copy()


def behind(parameters: CkksParameters) -> bytes:
    """What stands behind a ciphertext: its scale."""
    return b"\x19" + struct.pack("<d", 2.0**parameters.scale_bits)
