"""Sums and inner products of encrypted real vectors: CKKS (Cheon et al. 2017) by TenSEAL, with the key kept in another type.

What is here is public: a context encrypts, and reads ciphertexts that were added and multiplied (`ckks_ciphertexts`); it cannot
hold the secret key (`ckks_secret`), and refuses bytes that bring one along. The library draws its own randomness from the
operating system, so ciphertexts never repeat: compare decryptions. What this does not protect from is said in `ckks_secret`.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .ckks_ciphertexts import EncryptedVector, Uncomputable, encrypted, inner_product, read_vector
from .ckks_common import common_half
from .ckks_contexts import InvalidContext, new_context, public_key_of, read_context, serialised
from .ckks_parameters import CkksParameters
from .ckks_told import chunk_of, numbers_of, told_chunks

MOST_DIGITS = 8
"""Decimals that a decryption may be rounded to: below them is the noise of the encryption, which carries the key."""
ERROR = 2.5e-8
"""Bound on the error of an encrypted value at the parameters of this module: the largest of 4,096 values is a third of it."""
SUMS = CkksParameters(8192, (60, 40, 40), 40)
"""The parameters of NVFlare: sums only."""
PRODUCTS = CkksParameters(8192, (60, 40, 60), 40)
"""One multiplication: inner products below 2^19, of vectors of norm below 724."""


def _loaded(data: bytes, parameters: CkksParameters, limit: int, products: bool) -> Any:
    """The library's context in `data`, which holds a public key and no secret one. Raises InvalidContext."""
    if len(data) > limit:
        raise InvalidContext(f"a public context has at most {limit} bytes, not {len(data)}")
    return read_context(data, parameters, products=products)


@lru_cache(maxsize=4)
def _of_nobody(parameters: CkksParameters) -> Any:
    """A context whose key nothing is encrypted for."""
    return new_context(parameters)


@dataclass(frozen=True, slots=True, eq=False)
class EncryptingContext:
    """The public key alone, for whoever encrypts and does no more: 0.4 MB, where the keys for products have 19 MB."""

    parameters: CkksParameters
    _context: Any = field(repr=False)

    @classmethod
    def from_bytes(cls, data: bytes, parameters: CkksParameters, /) -> Self:
        """The public key in `data`. Raises InvalidContext for other parameters, or bytes that hold a secret key.

        A public key proves nothing about who holds its secret: take it only from bytes that were authenticated.
        """
        return cls(parameters, _loaded(data, parameters, parameters.encrypting_bytes, False))

    def to_bytes(self) -> bytes:
        return serialised(self._context, products=False)

    def follows(self, label: bytes, /) -> bool:
        """Whether the half of the key that nobody is to choose is that of the label: the same of the same bytes. Some 10 ms."""
        found = public_key_of(self._context, self.parameters)[1]
        return np.array_equal(found, common_half(self.parameters, label))

    @property
    def hides(self) -> bool:
        """Whether what the key encrypts stays closed to whoever has no key: under zeros anybody reads it. For whoever is about to
        encrypt, some 20 ms. Whoever makes a key may still choose one that others know, and no look at it tells; and one at the
        border passes once and not again, so that nothing that has to repeat may hang on it.
        """
        values, other = np.where(np.arange(self.parameters.slots) % 2, -1.0, 1.0), _of_nobody(self.parameters)
        numbers = numbers_of(self.encrypt(values).chunks[0], self.parameters)
        if not numbers[1].any():
            return False
        numbers[1] = 0  # so that every key opens what the first polynomial shows of itself
        opened = chunk_of(other, self.parameters, numbers, self.parameters.slots).decrypt(other.secret_key())
        return bool((np.abs(np.asarray(opened) - values) > 1).all())

    def encrypt(self, values: ArrayLike, /) -> EncryptedVector:
        """As `PublicContext.encrypt`."""
        return encrypted(self._context, self.parameters, values)


@dataclass(frozen=True, slots=True, eq=False)
class PublicContext:
    """The public key, and the keys that products need: what a server holds."""

    parameters: CkksParameters
    _context: Any = field(repr=False)

    @classmethod
    def from_bytes(cls, data: bytes, parameters: CkksParameters, /) -> Self:
        """The context in `data`. Raises InvalidContext for other parameters, missing keys, or bytes that hold a secret key."""
        return cls(parameters, _loaded(data, parameters, parameters.context_bytes, parameters.multiplies))

    def to_bytes(self) -> bytes:
        return serialised(self._context, products=self.parameters.multiplies)

    @property
    def can_multiply(self) -> bool:
        """Whether an inner product of full ciphertexts can be computed, whatever it opens to: the same of the same bytes. Some
        100 ms.
        """
        try:
            ones = self.encrypt_with(np.ones(self.parameters.slots) / self.parameters.slots, bytes(32))
            inner_product(ones, ones)
        except (Uncomputable, ValueError, RuntimeError):  # the library refuses what has no randomness
            return False
        return True

    def encrypting(self) -> EncryptingContext:
        """The public key alone."""
        return EncryptingContext(self.parameters, self._context)

    def encrypt(self, values: ArrayLike, /) -> EncryptedVector:
        """Encrypts real numbers, shape (length,), with an error below `ERROR` a value.

        Raises ValueError for values that are not finite, and, where products are possible, for a norm above
        sqrt(`product_limit`): its inner products could wrap round.
        """
        return encrypted(self._context, self.parameters, values)

    def encrypt_with(self, values: NDArray[np.float64], seed: bytes, /) -> EncryptedVector:
        """Encrypts real numbers that are no secret, float64 (length,), with randomness that follows from the seed, 32 bytes: so
        who plays its messages again makes the same again. Error as of `encrypt`; some 50 ms for each ciphertext.
        """
        return EncryptedVector(self.parameters, len(values), told_chunks(self._context, self.parameters, values, seed))

    def read(self, data: bytes, length: int, /) -> EncryptedVector:
        """Fresh or summed ciphertexts of `length` values. Raises InvalidCiphertext; lengths are checked before anything else."""
        return read_vector(self._context, self.parameters, data, length, level=0)

    def read_product(self, data: bytes, /) -> EncryptedVector:
        """One inner product. Raises InvalidCiphertext."""
        return read_vector(self._context, self.parameters, data, 1, level=1)
