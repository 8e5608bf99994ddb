"""Polynomials that the encryption library keeps by their values, taken back to coefficients: small integers, if they are the same
modulo each prime.

The library keeps the value at psi^(2 rev(i) + 1) in place i, where psi is the least primitive root of order twice the degree and
rev turns the bits of i round (Microsoft SEAL 4, util/ntt). The way back is by Gentleman and Sande's butterflies.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.object_]


def coefficients(values: NDArray[np.uint64], primes: tuple[int, ...]) -> Integers:
    """Python integers (primes, degree), each within half its prime of 0. values: uint64 or integers (primes, degree)."""
    return np.stack([_inverse(row.astype(object), prime) for row, prime in zip(values, primes, strict=True)])


def _inverse(values: Integers, prime: int) -> Integers:
    roots, degree = _roots(prime, len(values)), len(values)
    half, apart = degree // 2, 1
    while half:
        pairs = values.reshape(half, 2, apart)
        first, second = pairs[:, 0].copy(), pairs[:, 1].copy()
        pairs[:, 0] = (first + second) % prime
        pairs[:, 1] = (first - second) * roots[half : 2 * half, None] % prime
        half, apart = half // 2, 2 * apart
    found = values * pow(degree, -1, prime) % prime
    centred: Integers = np.where(found > prime // 2, found - prime, found)
    return centred


@lru_cache(maxsize=8)
def _roots(prime: int, degree: int) -> Integers:
    """Powers of 1 / psi, in the order of bits turned round."""
    root = next(r for g in range(2, prime) if pow(r := pow(g, (prime - 1) // (2 * degree), prime), degree, prime) == prime - 1)
    power, square, least = root, root * root % prime, root
    for _ in range(degree):
        power = power * square % prime
        least = min(least, power)
    inverse, powers = pow(least, -1, prime), [1]
    for _ in range(degree - 1):
        powers.append(powers[-1] * inverse % prime)
    bits = degree.bit_length() - 1
    return np.array([powers[int(f"{i:0{bits}b}"[::-1], 2)] for i in range(degree)], dtype=object)
