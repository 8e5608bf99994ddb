"""The secret key of CKKS from two decryptions (Li and Micciancio 2021), although only real parts are handed out.

Adversary: a server that holds two ciphertexts, sums that it made itself among them, and is sent their decryptions in full
precision: of real vectors that fill all slots. Side information: none. A protocol that returns decryptions rounded well above the
encryption's noise, or no decryptions, gives it nothing to start from; that is no proof, see `flooding_bits`.

Let p be the encrypted polynomial with its noise, and p* the same at the inverse of X. The decoded real parts are the slots of
(p + p*) / 2, and p + p* has integer coefficients: encoding twice the decryption and rounding gives it exactly. At index i and at
N - 1 - i, SEAL's order, it is c0_i + c1_i s_i + c0_i' + c1_i' s_i': two ciphertexts are two equations for two unknowns.
"""

import math
from collections.abc import Sequence

import numpy as np

from ...crypto.ckks import MOST_DIGITS
from ...crypto.ckks_secret import SecretContext
from .ckks_ring import Ciphertext, Integers, Values, coefficients, decoded, encoded, values_of


def recovered_key(ciphertexts: Sequence[Ciphertext], decrypted: Sequence[Values]) -> Integers | None:
    """The secret key's coefficients, each -1, 0 or 1, shape (N,); None where what was decrypted does not give it.

    ciphertexts: two, of one key. decrypted: of each, what the key's holder said, float64 (N / 2,). That all N coefficients are
    so small cannot be chance: the attack knows by itself whether it succeeded.
    """
    first, second = ciphertexts
    prime, n = first.prime, len(first.c0)
    half = np.arange(n // 2)
    other = n - 1 - half
    rights = []
    for ciphertext, values in zip((first, second), decrypted, strict=True):
        real = values_of(encoded(2 * values, ciphertext.scale), prime)
        rights.append((real[half] - ciphertext.c0[half] - ciphertext.c0[other]) % prime)
    a, b, c, d = first.c1[half], first.c1[other], second.c1[half], second.c1[other]
    determinant = (a * d - b * c) % prime
    if any(x == 0 for x in determinant):
        return None
    inverse = np.array([pow(int(x), -1, prime) for x in determinant], dtype=object)
    key = np.zeros(n, dtype=object)
    key[half] = (d * rights[0] - b * rights[1]) * inverse % prime
    key[other] = (a * rights[1] - c * rights[0]) * inverse % prime
    found = coefficients(key, prime)
    return found if max(abs(x) for x in found) <= 1 else None


def opened(ciphertext: Ciphertext, key: Integers) -> Values:
    """What a ciphertext of this key holds, float64 (N / 2,): anybody's, once the key is known."""
    prime = ciphertext.prime
    clear = (ciphertext.c0 + ciphertext.c1 * values_of(key, prime)) % prime
    return decoded(coefficients(clear, prime), ciphertext.scale)


def opened_by_client(key: SecretContext, ciphertexts: bytes, length: int) -> Values:
    """What another client sent encrypted, float64 (length,): no attack is needed where all clients hold one key.

    Adversary: the server, or whoever else has the ciphertexts, with any one client. Side information: none.
    """
    return key.decrypt(key.read(ciphertexts, length)).rounded(MOST_DIGITS)


def flooding_bits(sigma_added: float, sigma_ckks: float, queries: int) -> float:
    """Bits of statistical security that noise added to decryptions gives: s of sigma_added = sqrt(12 q) 2^(s/2) sigma_ckks.

    Li, Micciancio, Schultz and Sorrell (2022), as OpenFHE states it for its mode NOISE_FLOODING_DECRYPT, without the factor
    sqrt(2n) of the paper's corollary 2. sigma_ckks: standard deviation of the encryption's own noise in the same units. queries:
    decryptions that the adversary is given. OpenFHE advises at least 30 bits. Raises ValueError for what is not positive.
    """
    if not (sigma_added > 0 and sigma_ckks > 0 and queries >= 1):
        raise ValueError("deviations are above 0, and there is one query at least")
    return 2 * math.log2(sigma_added / sigma_ckks) - math.log2(12 * queries)
