"""Sums and inner products of encrypted real vectors: CKKS (Cheon et al. 2017) by TenSEAL, with the key kept in another type.

`SecretContext` holds the secret key, `PublicContext` cannot: it encrypts, adds and multiplies, and refuses bytes that bring a
key along. The library draws its own randomness from the operating system, so ciphertexts never repeat: compare decryptions.

What this is not. Whoever holds the secret key reads every ciphertext; if all clients hold it (the usual pattern of federated
learning), the server and any one client read every update. And CKKS is not secure once exact decryptions are shown to somebody
who holds ciphertexts (Li and Micciancio 2021): two decrypted real vectors give the server the secret key. Decryptions
therefore stay with the key holder; `Decrypted` hands out rounded values and bits only, which is a measure against that attack
and no proof, so even these are sent back only where the protocol discloses them. Use one key per round.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

MOST_DIGITS = 8
"""Decimals that a decryption may be rounded to: below them is the noise of the encryption, which carries the key."""
_SLACK_BYTES = 4096
_PREFIX_BYTES = 4


class InvalidCiphertext(ValueError):
    """The bytes are not ciphertexts of this length under these parameters."""


class InvalidContext(ValueError):
    """The bytes are not a public context of these parameters."""


@dataclass(frozen=True, slots=True)
class CkksParameters:
    """degree: of the ring; half of it are the values in one ciphertext. modulus_bits: sizes of its primes, the last one for
    key switching. scale_bits: fixed-point bits of a value. The library refuses what is below 128 bits of security.
    """

    degree: int
    modulus_bits: tuple[int, ...]
    scale_bits: int

    @property
    def slots(self) -> int:
        return self.degree // 2

    @property
    def multiplies(self) -> bool:
        """Whether inner products can be computed: a level to spend, and a last prime that keeps key switching exact.

        With a last prime below the others the noise of key switching is of the order of the result, without a warning.
        """
        return len(self.modulus_bits) > 2 and self.modulus_bits[-1] >= max(self.modulus_bits)

    @property
    def product_limit(self) -> float:
        """Inner products reach at most this magnitude before they wrap round."""
        return float(2.0 ** (self.modulus_bits[0] - self.scale_bits - 1))

    @property
    def _polynomial_bytes(self) -> int:
        return self.degree * 8

    @property
    def ciphertext_bytes(self) -> int:
        """An upper bound on the bytes of one ciphertext."""
        return 2 * (len(self.modulus_bits) - 1) * self._polynomial_bytes + _SLACK_BYTES

    @property
    def context_bytes(self) -> int:
        """An upper bound on the bytes of a public context: its public key and its keys for products."""
        levels = len(self.modulus_bits)
        switching_key = 2 * levels * (levels - 1) * self._polynomial_bytes
        switching_keys = 2 * self.degree.bit_length() if self.multiplies else 0
        return (switching_keys * switching_key) + self.encrypting_bytes

    @property
    def encrypting_bytes(self) -> int:
        """An upper bound on the bytes of a public key alone."""
        return 2 * len(self.modulus_bits) * self._polynomial_bytes + 4 * _SLACK_BYTES

    @property
    def secret_bytes(self) -> int:
        """An upper bound on the bytes of a secret key with its public key."""
        return 2 * self.encrypting_bytes


SUMS = CkksParameters(8192, (60, 40, 40), 40)
"""The parameters of NVFlare: sums only."""
PRODUCTS = CkksParameters(8192, (60, 40, 60), 40)
"""One multiplication: inner products below 2^19, of vectors of norm below 724."""


@lru_cache(maxsize=4)
def _fingerprint(parameters: CkksParameters) -> tuple[int, ...]:
    """The library's hash of the encryption parameters."""
    return _parameters_of(_new_context(parameters))


def _parameters_of(context: Any) -> tuple[int, ...]:
    return tuple(context.seal_context().data.key_parms_id())


def _new_context(parameters: CkksParameters) -> Any:
    import tenseal  # here, so that who needs none of it does not load it

    context = tenseal.context(
        tenseal.SCHEME_TYPE.CKKS, parameters.degree, coeff_mod_bit_sizes=list(parameters.modulus_bits), n_threads=1
    )
    context.global_scale = 2**parameters.scale_bits
    return context


@dataclass(frozen=True, slots=True, eq=False)
class EncryptedVector:
    """A real vector of `length` values in ciphertexts of `slots` values each."""

    parameters: CkksParameters
    length: int
    chunks: tuple[Any, ...] = field(repr=False)

    def to_bytes(self) -> bytes:
        """Every ciphertext after its length in 4 bytes, little-endian."""
        parts = [chunk.serialize() for chunk in self.chunks]
        return b"".join(len(part).to_bytes(_PREFIX_BYTES, "little") + part for part in parts)


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


def _split(data: bytes, count: int, limit: int) -> list[bytes]:
    """The `count` length-prefixed parts of `data`, none above `limit` bytes. Nothing is parsed before all lengths fit."""
    parts, at = [], 0
    for _ in range(count):
        size = int.from_bytes(data[at : at + _PREFIX_BYTES], "little")
        end = at + _PREFIX_BYTES + size
        if size > limit or end > len(data):
            raise InvalidCiphertext("a ciphertext has the wrong length")
        parts.append(data[at + _PREFIX_BYTES : end])
        at = end
    if at != len(data):
        raise InvalidCiphertext("a ciphertext has the wrong length")
    return parts


def _read(context: Any, parameters: CkksParameters, data: bytes, length: int, *, level: int) -> EncryptedVector:
    """Ciphertexts of `length` values after `level` multiplications."""
    import tenseal  # here, so that who needs none of it does not load it

    slots = parameters.slots
    sizes = [min(slots, length - start) for start in range(0, length, slots)]
    primes = len(parameters.modulus_bits) - 1 - level
    chunks = []
    for part, size in zip(_split(data, len(sizes), parameters.ciphertext_bytes), sizes, strict=True):
        try:
            chunk = tenseal.ckks_vector_from(context, part)
        except (ValueError, RuntimeError):
            raise InvalidCiphertext("bytes are not a ciphertext of these parameters") from None
        inner = chunk.ciphertext()
        well_formed = chunk.size() == size and len(inner) == 1 and inner[0].size() == 2
        if not well_formed or inner[0].coeff_modulus_size() != primes or inner[0].scale != 2.0**parameters.scale_bits:
            raise InvalidCiphertext("bytes are not a ciphertext of these parameters")
        chunks.append(chunk)
    return EncryptedVector(parameters, length, tuple(chunks))


def _loaded(data: bytes, parameters: CkksParameters, limit: int) -> Any:
    """The library's context in `data`, which holds a public key and no secret one. Raises InvalidContext."""
    import tenseal  # here, so that who needs none of it does not load it

    if len(data) > limit:
        raise InvalidContext(f"a public context has at most {limit} bytes, not {len(data)}")
    try:
        context = tenseal.context_from(data, n_threads=1)
        scale = context.global_scale
    except (ValueError, RuntimeError):
        raise InvalidContext("bytes are not a public context") from None
    if context.has_secret_key() or context.is_private():
        raise InvalidContext("bytes hold a secret key; ask for the public context and replace the key")
    if _parameters_of(context) != _fingerprint(parameters) or scale != 2.0**parameters.scale_bits:
        raise InvalidContext("the public context has other parameters")
    if not context.has_public_key():
        raise InvalidContext("the public context lacks keys that its parameters need")
    return context


def _encrypt(context: Any, parameters: CkksParameters, values: ArrayLike) -> EncryptedVector:
    import tenseal  # here, so that who needs none of it does not load it

    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1 or not len(vector) or not np.isfinite(vector).all():
        raise ValueError(f"expected a vector of finite numbers, got shape {vector.shape}")
    largest = math.sqrt(parameters.product_limit) if parameters.multiplies else 2.0**parameters.scale_bits
    size = float(np.linalg.norm(vector)) if parameters.multiplies else float(np.abs(vector).max())
    if size > largest:
        raise ValueError(f"values are too large to encrypt: {size:.3g} is above {largest:.3g}; scale them down")
    slots = parameters.slots
    chunks = (tenseal.ckks_vector(context, vector[at : at + slots]) for at in range(0, len(vector), slots))
    return EncryptedVector(parameters, len(vector), tuple(chunks))


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
        return cls(parameters, _loaded(data, parameters, parameters.encrypting_bytes))

    def to_bytes(self) -> bytes:
        return _serialised(self._context, products=False)

    def encrypt(self, values: ArrayLike, /) -> EncryptedVector:
        """As `PublicContext.encrypt`."""
        return _encrypt(self._context, self.parameters, values)


def _serialised(context: Any, *, products: bool) -> bytes:
    return bytes(
        context.serialize(save_public_key=True, save_secret_key=False, save_galois_keys=products, save_relin_keys=products)
    )


@dataclass(frozen=True, slots=True, eq=False)
class PublicContext:
    """The public key, and the keys that products need: what a server holds."""

    parameters: CkksParameters
    _context: Any = field(repr=False)

    @classmethod
    def from_bytes(cls, data: bytes, parameters: CkksParameters, /) -> Self:
        """The context in `data`. Raises InvalidContext for other parameters, missing keys, or bytes that hold a secret key."""
        context = _loaded(data, parameters, parameters.context_bytes)
        if parameters.multiplies and not (context.has_galois_keys() and context.has_relin_keys()):
            raise InvalidContext("the public context lacks keys that its parameters need")
        return cls(parameters, context)

    def to_bytes(self) -> bytes:
        return _serialised(self._context, products=self.parameters.multiplies)

    def encrypting(self) -> EncryptingContext:
        """The public key alone."""
        return EncryptingContext(self.parameters, self._context)

    def encrypt(self, values: ArrayLike, /) -> EncryptedVector:
        """Encrypts real numbers, shape (length,), with an error below 2e-8 a value at the parameters of this module.

        Raises ValueError for values that are not finite, and, where products are possible, for a norm above
        sqrt(`product_limit`): its inner products could wrap round.
        """
        return _encrypt(self._context, self.parameters, values)

    def read(self, data: bytes, length: int, /) -> EncryptedVector:
        """Fresh or summed ciphertexts of `length` values. Raises InvalidCiphertext; lengths are checked before anything else."""
        return _read(self._context, self.parameters, data, length, level=0)

    def read_product(self, data: bytes, /) -> EncryptedVector:
        """One inner product. Raises InvalidCiphertext."""
        return _read(self._context, self.parameters, data, 1, level=1)


@dataclass(frozen=True, slots=True, eq=False)
class SecretContext:
    """The secret key with its public context: what the key holder has, and nobody else should."""

    parameters: CkksParameters
    _context: Any = field(repr=False)

    @classmethod
    def generate(cls, parameters: CkksParameters = SUMS, /) -> Self:
        """A fresh key from the operating system. Raises ValueError for parameters below 128 bits of security."""
        context = _new_context(parameters)
        if parameters.multiplies:
            context.generate_galois_keys()
        return cls(parameters, context)

    def public(self) -> PublicContext:
        """The public half, rebuilt from bytes so that it shares nothing with the secret key."""
        return PublicContext.from_bytes(self.public_bytes(), self.parameters)

    def public_bytes(self) -> bytes:
        """The bytes of the public half, with the keys that products need."""
        return _serialised(self._context, products=self.parameters.multiplies)

    def encrypting_bytes(self) -> bytes:
        """The bytes of the public key alone."""
        return _serialised(self._context, products=False)

    def secret_bytes(self) -> bytes:
        """The secret key, for sealing to another key holder. Whoever has these bytes reads every ciphertext."""
        return bytes(self._context.serialize(True, True, self.parameters.multiplies, self.parameters.multiplies))

    @classmethod
    def from_secret_bytes(cls, data: bytes, parameters: CkksParameters, /) -> Self:
        """The context of another key holder's `secret_bytes`. Raises InvalidContext."""
        import tenseal  # here, so that who needs none of it does not load it

        if len(data) > 2 * parameters.context_bytes:
            raise InvalidContext("bytes are not a secret context")
        try:
            context = tenseal.context_from(data, n_threads=1)
        except (ValueError, RuntimeError):
            raise InvalidContext("bytes are not a secret context") from None
        if not context.has_secret_key() or _parameters_of(context) != _fingerprint(parameters):
            raise InvalidContext("bytes are not a secret context of these parameters")
        return cls(parameters, context)

    def read(self, data: bytes, length: int, /) -> EncryptedVector:
        """Fresh or summed ciphertexts of `length` values. Raises InvalidCiphertext."""
        return _read(self._context, self.parameters, data, length, level=0)

    def read_product(self, data: bytes, /) -> EncryptedVector:
        """One inner product. Raises InvalidCiphertext."""
        return _read(self._context, self.parameters, data, 1, level=1)

    def decrypt(self, encrypted: EncryptedVector, /) -> Decrypted:
        """The values, for the key holder alone."""
        if encrypted.parameters != self.parameters:
            raise ValueError("the ciphertext has other parameters than the key")
        key = self._context.secret_key()
        return Decrypted(np.concatenate([np.asarray(chunk.decrypt(key), dtype=np.float64) for chunk in encrypted.chunks]))


def add(vectors: Sequence[EncryptedVector], /) -> EncryptedVector:
    """The encrypted sum of vectors of one length; needs no key."""
    if not vectors or len({(vector.parameters, vector.length) for vector in vectors}) != 1:
        raise ValueError("a sum needs one or more encrypted vectors of the same length and parameters")
    first, *others = vectors
    if not others:
        return first
    totals = tuple(a + b for a, b in zip(first.chunks, others[0].chunks, strict=True))
    for vector in others[1:]:
        for total, chunk in zip(totals, vector.chunks, strict=True):
            total.add_(chunk)
    return EncryptedVector(first.parameters, first.length, totals)


def inner_product(left: EncryptedVector, right: EncryptedVector, /) -> EncryptedVector:
    """The encrypted inner product, one value, of two fresh vectors of one length; needs no secret key.

    Error at `PRODUCTS`: below 3e-7 |x| |z| + 1e-4 for up to 20,000 values; the constant is a bias that depends on the key, so
    scale vectors up to norms of about 100. Time: about 10 ms for each 4096 values.
    """
    if left.parameters != right.parameters or left.length != right.length:
        raise ValueError("an inner product needs two encrypted vectors of the same length and parameters")
    if not left.parameters.multiplies:
        raise ValueError("these parameters cannot multiply; encrypt under PRODUCTS")
    products = [a * b for a, b in zip(left.chunks, right.chunks, strict=True)]
    scalars = [product.sum() for product in products]
    total = scalars[0]
    for scalar in scalars[1:]:
        total.add_(scalar)
    return EncryptedVector(left.parameters, 1, (total,))
