"""The secret key of CKKS, and what it decrypts: what a key holder has, and no server.

Whoever holds the secret key reads every ciphertext; if all clients hold it (the usual pattern of federated learning), the server
and any one client read every update. And CKKS is not secure once exact decryptions are shown to somebody who holds ciphertexts
(Li and Micciancio 2021): two decrypted real vectors give the server the secret key. Decryptions therefore stay with the key
holder; `Decrypted` hands out rounded values and bits only, which is a measure against that attack and no proof, so even these are
sent back only where the protocol discloses them. Use one key per round.
"""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .ckks import ERROR, MOST_DIGITS, SUMS, PublicContext
from .ckks_ciphertexts import EncryptedVector, encrypted, read_vector
from .ckks_common import with_common_half
from .ckks_contexts import (
    InvalidContext,
    key_primes_of,
    new_context,
    public_key_of,
    read_context,
    secret_key_of,
    serialised,
)
from .ckks_parameters import CkksParameters
from .ntt import coefficients


@dataclass(frozen=True, slots=True, eq=False)
class Decrypted:
    """Decrypted values, which come out rounded or as bits: their low digits carry the secret key."""

    _values: NDArray[np.float64] = field(repr=False)

    def __len__(self) -> int:
        return len(self._values)

    def rounded(self, digits: int) -> NDArray[np.float64]:
        """float64, shape (length,): the values rounded to so many decimals. Raises ValueError above `MOST_DIGITS`."""
        if digits > MOST_DIGITS:
            raise ValueError(f"{digits} decimals would show the encryption's noise; take at most {MOST_DIGITS}")
        return np.round(self._values, digits)

    def at_least(self, threshold: float) -> NDArray[np.bool_]:
        """bool, shape (length,): which values reach the threshold."""
        return self._values >= threshold


@dataclass(frozen=True, slots=True, eq=False)
class SecretContext:
    """The secret key with its public context: what the key holder has, and nobody else should."""

    parameters: CkksParameters
    _context: Any = field(repr=False)

    @classmethod
    def generate(cls, parameters: CkksParameters = SUMS, /) -> Self:
        """A fresh key from the operating system. Raises ValueError for parameters below 128 bits of security."""
        context = new_context(parameters)
        if parameters.multiplies:
            context.generate_galois_keys()
        return cls(parameters, context)

    def under(self, label: bytes, /) -> Self:
        """The same secret key with another public one, half of which follows from the label (`ckks_common`). Some 200 ms."""
        return type(self)(self.parameters, with_common_half(self._context, self.parameters, label))

    def public(self) -> PublicContext:
        """The public half, rebuilt from bytes so that it shares nothing with the secret key."""
        return PublicContext.from_bytes(self.public_bytes(), self.parameters)

    def public_bytes(self) -> bytes:
        """The bytes of the public half, with the keys that products need."""
        return serialised(self._context, products=self.parameters.multiplies)

    def encrypting_bytes(self) -> bytes:
        """The bytes of the public key alone."""
        return serialised(self._context, products=False)

    def secret_bytes(self) -> bytes:
        """The secret key, for sealing to another key holder. Whoever has these bytes reads every ciphertext."""
        return bytes(self._context.serialize(True, True, self.parameters.multiplies, self.parameters.multiplies))

    @classmethod
    def from_secret_bytes(cls, data: bytes, parameters: CkksParameters, /) -> Self:
        """The context of another key holder's `secret_bytes`, to open things: no keys for products. Raises InvalidContext."""
        if len(data) > parameters.secret_bytes:
            raise InvalidContext("bytes are not a secret context")
        return cls(parameters, read_context(data, parameters, secret=True, again=False))

    @property
    def fits(self) -> bool:
        """Whether the secret key opens what its public key encrypts, in every place and no less exactly than it should: keys that
        somebody put together need not. Some 10 ms.
        """
        values = np.where(np.arange(self.parameters.slots) % 2, -1.0, 1.0)
        opened = self.decrypt(encrypted(self._context, self.parameters, values))
        return bool((np.abs(opened._values - values) < ERROR).all())

    @property
    def errs(self) -> bool:
        """Whether secret and error are small integers, the same modulo each prime, and spread as the library draws them (each of
        -1, 0, 1 in a third of the places, a binomial of deviation 3.24, 12 % zeros): else who has the public key divides by a
        prime at which it is open, or solves the places without an error. An honest key fails once in some 10^9. Some .2 s.
        """
        b, a = public_key_of(self._context, self.parameters).astype(object)
        s = secret_key_of(self._context, self.parameters).astype(object)
        primes = key_primes_of(self.parameters)
        secret = coefficients(s, primes)
        error = coefficients((b + a * s) % np.array(primes, dtype=object)[:, None], primes)
        if (secret != secret[0]).any() or (error != error[0]).any() or np.abs(secret[0]).max() > 1 or np.abs(error[0]).max() > 21:
            return False
        thirds = [float((secret[0] == value).mean()) for value in (-1, 0, 1)]
        deviation, zeros = float(error[0].astype(np.float64).std()), float((error[0] == 0).mean())
        return min(thirds) > 0.3 and max(thirds) < 0.367 and 2.9 < deviation < 3.6 and 0.095 < zeros < 0.15

    def read(self, data: bytes, length: int, /) -> EncryptedVector:
        """Fresh or summed ciphertexts of `length` values. Raises InvalidCiphertext."""
        return read_vector(self._context, self.parameters, data, length, level=0)

    def read_product(self, data: bytes, /) -> EncryptedVector:
        """One inner product. Raises InvalidCiphertext."""
        return read_vector(self._context, self.parameters, data, 1, level=1)

    def decrypt(self, encrypted: EncryptedVector, /) -> Decrypted:
        """The values, for the key holder alone."""
        if encrypted.parameters != self.parameters:
            raise ValueError("the ciphertext has other parameters than the key")
        key = self._context.secret_key()
        return Decrypted(np.concatenate([np.asarray(chunk.decrypt(key), dtype=np.float64) for chunk in encrypted.chunks]))
