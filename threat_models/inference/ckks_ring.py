"""The ring of CKKS ciphertexts as SEAL keeps it: polynomials modulo X^N + 1 and a prime q, by their values at the odd powers of
a root of unity; and the encoding of real vectors in them (Cheon et al. 2017).

Index i of a polynomial in SEAL's order is its value at psi^(2 r(i) + 1), r the reversal of the bits of i and psi the least
primitive 2N-th root of 1; so index N - 1 - i is the value at the inverse. Integers are Python's, in arrays of objects.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[Any]
"""Python integers, shape (N,)."""
Values = NDArray[np.float64]

GENERATOR = 3
"""Slot j is the value at the complex root's power GENERATOR^j."""


@dataclass(frozen=True, slots=True, eq=False)
class Ciphertext:
    """c0 + c1 s = what is encrypted, modulo the first prime alone: that of the largest, which is left at every level."""

    c0: Integers = field(repr=False)
    c1: Integers = field(repr=False)
    prime: int
    scale: float

    @classmethod
    def of(cls, chunk: Any, /) -> "Ciphertext":
        """Of TenSEAL's vector of one ciphertext, which needs no key."""
        import tenseal.sealapi  # noqa: F401 (it lets the library hand out its primes)

        found = chunk.ciphertext()[0]
        degree, primes = int(found.poly_modulus_degree()), int(found.coeff_modulus_size())
        prime = chunk.context().seal_context().data.first_context_data().parms().coeff_modulus()[0].value()
        parts = [np.array([found[at + i] for i in range(degree)], dtype=object) for at in (0, primes * degree)]
        return cls(parts[0], parts[1], int(prime), float(found.scale))


def randomness_of(chunk: Any, count: int) -> tuple[int, ...]:
    """The first numbers of c1 modulo the first prime, of TenSEAL's vector of one ciphertext."""
    import tenseal.sealapi  # noqa: F401 (as above)

    found = chunk.ciphertext()[0]
    at = int(found.coeff_modulus_size()) * int(found.poly_modulus_degree())
    return tuple(int(found[at + i]) for i in range(count))


@lru_cache(maxsize=8)
def least_root(degree: int, prime: int) -> int:
    """The least primitive 2N-th root of 1 modulo the prime."""
    base = 2
    while pow(root := pow(base, (prime - 1) // (2 * degree), prime), degree, prime) != prime - 1:
        base += 1
    square, found, power = root * root % prime, root, root
    for _ in range(degree - 1):
        power = power * square % prime
        found = min(found, power)
    return found


def coefficients(values: Integers, prime: int) -> Integers:
    """Of a polynomial in SEAL's order: integers from -q/2 to q/2, shape (N,)."""
    n = len(values)
    inverse = pow(least_root(n, prime), -1, prime)
    found = _transform(values[_reversed(n)], pow(inverse, 2, prime), prime)
    found = found * _powers(inverse, n, prime) % prime * pow(n, -1, prime) % prime
    return np.where(found > prime // 2, found - prime, found)


def values_of(polynomial: Integers, prime: int) -> Integers:
    """A polynomial of these coefficients in SEAL's order."""
    n = len(polynomial)
    root = least_root(n, prime)
    found = _transform(polynomial * _powers(root, n, prime) % prime, pow(root, 2, prime), prime)
    return found[_reversed(n)]


def encoded(slots: Values, scale: float) -> Integers:
    """The coefficients, rounded, of the polynomial whose slots, float64 (N / 2,), are these."""
    n = 2 * len(slots)
    every = np.zeros(n)
    places = _places(n)
    every[places] = every[n - 1 - places] = slots
    twist = np.exp(-1j * np.pi * np.arange(n) / n)
    found = np.real(np.fft.fft(every) / n * twist) * scale
    return np.array([int(x) for x in np.rint(found)], dtype=object)


def decoded(polynomial: Integers, scale: float) -> Values:
    """The real parts of the slots of a polynomial of these coefficients: float64 (N / 2,)."""
    n = len(polynomial)
    twist = np.exp(1j * np.pi * np.arange(n) / n)
    return np.asarray(np.real(np.fft.ifft(polynomial.astype(np.float64) / scale * twist) * n)[_places(n)])


def _places(n: int) -> NDArray[np.int64]:
    """Where slot j is among the powers 2k + 1: k."""
    powers = [pow(GENERATOR, j, 2 * n) for j in range(n // 2)]
    return np.array([(power - 1) // 2 for power in powers])


@lru_cache(maxsize=4)
def _reversed(n: int) -> NDArray[np.int64]:
    bits = n.bit_length() - 1
    return np.array([int(f"{i:0{bits}b}"[::-1], 2) for i in range(n)])


def _powers(base: int, n: int, prime: int) -> Integers:
    found, power = [], 1
    for _ in range(n):
        found.append(power)
        power = power * base % prime
    return np.array(found, dtype=object)


def _transform(values: Integers, root: int, prime: int) -> Integers:
    """sum_j values_j root^(jk) for every k, root a primitive N-th root of 1: by butterflies (Cooley and Tukey 1965)."""
    n = len(values)
    found = values[_reversed(n)]
    half = 1
    while half < n:
        steps = _powers(pow(root, n // (2 * half), prime), half, prime)
        pairs = found.reshape(-1, 2, half)
        product = pairs[:, 1] * steps % prime
        found = np.stack([(pairs[:, 0] + product) % prime, (pairs[:, 0] - product) % prime], axis=1).ravel()
        half *= 2
    return found
