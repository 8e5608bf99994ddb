"""The half of a public key that nobody chooses: in a key (b, a), with b = e - a s, the polynomial a follows from a label.

Whoever makes a key could choose an a under which ciphertexts lie open to all, in some places or in all (a multiple of the prime
that they are divided by), or one that makes the server's ciphertexts unlike the clients'. As random as a hash makes it, it leaves
the secret key and a small error to choose: what is open then is open to whoever knows, or can guess, one of the two.
"""

import hashlib
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .ckks_contexts import key_primes_of, new_public_key, read_numbers, secret_key_of, terms_of
from .ckks_parameters import CkksParameters
from .prg import keystream

Numbers = NDArray[np.uint64]


def common_half(parameters: CkksParameters, label: bytes) -> Numbers:
    """a, as the library keeps it: uint64 (primes, degree), uniform modulo each prime, by rejection. label: of any length."""
    degree, rows = parameters.degree, []
    for place, prime in enumerate(key_primes_of(parameters)):
        seed = hashlib.sha256(b"cloister ckks public key" + bytes([place]) + hashlib.sha256(label).digest()).digest()
        mask, blocks, found = (1 << prime.bit_length()) - 1, 2, np.zeros(0, np.uint64)
        while len(found) < degree:
            drawn = np.frombuffer(keystream(seed, 8 * degree * blocks), np.uint64) & np.uint64(mask)
            found, blocks = drawn[drawn < prime], 2 * blocks
        rows.append(found[:degree])
    return np.stack(rows)


def with_common_half(context: Any, parameters: CkksParameters, label: bytes) -> Any:
    """The library's context with the same secret key and a public key of the label, whose error is drawn anew."""
    seal = import_module("tenseal.sealapi")  # here, so that who needs none of it does not load it
    own, zero = seal.SEALContext(terms_of(parameters), True, seal.SEC_LEVEL_TYPE.TC128), seal.Ciphertext()
    seal.Encryptor(own, context.secret_key().data).encrypt_zero_symmetric(own.key_parms_id(), zero)
    first, second = read_numbers(zero).reshape(2, len(parameters.modulus_bits), -1).astype(object)
    s = secret_key_of(context, parameters).astype(object)
    primes = np.array(key_primes_of(parameters), dtype=object)[:, None]
    a = common_half(parameters, label)
    b = (first + (second - a) * s) % primes
    return new_public_key(context, parameters, np.stack([b.astype(np.uint64), a]))
