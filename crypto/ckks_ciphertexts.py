"""Ciphertexts of real vectors: their bytes, sums and inner products. No secret key is needed for any of it.

`context` is the library's own, with the public key.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .ckks_bytes import UnexpectedBytes, unwrapped, varint, wrapped
from .ckks_contexts import ciphertexts_of
from .ckks_parameters import CkksParameters
from .ckks_told import behind, told_chunks

_PREFIX_BYTES = 4


class InvalidCiphertext(ValueError):
    """The bytes are not ciphertexts of this length under these parameters."""


class Uncomputable(ValueError):
    """A product cannot be computed with the keys that were sent for it."""


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


def encrypted(context: Any, parameters: CkksParameters, values: ArrayLike) -> EncryptedVector:
    """As `PublicContext.encrypt` of `ckks`. Raises ValueError."""
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


def read_vector(context: Any, parameters: CkksParameters, data: bytes, length: int, *, level: int) -> EncryptedVector:
    """Ciphertexts of `length` values after `level` multiplications. Raises InvalidCiphertext."""
    import tenseal  # here, so that who needs none of it does not load it

    slots = parameters.slots
    sizes = [min(slots, length - start) for start in range(0, length, slots)]
    objects, layout = ciphertexts_of(parameters, level)
    end = behind(parameters)
    chunks = []
    for part, size in zip(_split(data, len(sizes), parameters.ciphertext_bytes), sizes, strict=True):
        try:
            told, rest = unwrapped(memoryview(part), 1)
            inner, rest = unwrapped(rest, 2)
            if told != varint(size) or rest != end:
                raise UnexpectedBytes("a ciphertext of another length or scale")
            chunk = tenseal.ckks_vector_from(context, wrapped(1, varint(size)) + wrapped(2, objects.read(inner, layout)) + end)
        except (ValueError, RuntimeError):
            raise InvalidCiphertext("bytes are not a ciphertext of these parameters") from None
        if chunk.ciphertext()[0].is_transparent():
            raise InvalidCiphertext("a ciphertext that anybody can read")
        chunks.append(chunk)
    return EncryptedVector(parameters, length, tuple(chunks))


def add(vectors: Sequence[EncryptedVector], /) -> EncryptedVector:
    """The encrypted sum of vectors of one length; needs no key."""
    if not vectors or len({(vector.parameters, vector.length) for vector in vectors}) != 1:
        raise ValueError("a sum needs one or more encrypted vectors of the same length and parameters")
    if len(vectors) == 1:
        return vectors[0]
    try:
        return _added(vectors)
    except RuntimeError:  # made to cancel each other: the library refuses what has no randomness left
        return _added([_hidden(vectors[0], _seed_of(vectors, b"sum")), *vectors[1:]])


def _added(vectors: Sequence[EncryptedVector]) -> EncryptedVector:
    first, second, *others = vectors
    totals = tuple(a + b for a, b in zip(first.chunks, second.chunks, strict=True))
    for vector in others:
        for total, chunk in zip(totals, vector.chunks, strict=True):
            total.add_(chunk)
    return EncryptedVector(first.parameters, first.length, totals)


def _hidden(vector: EncryptedVector, seed: bytes) -> EncryptedVector:
    """The same values under other randomness, that follows from the seed: an encryption of zeros is added."""
    parameters, context = vector.parameters, vector.chunks[0].context()
    zeros = told_chunks(context, parameters, np.zeros(vector.length), seed)
    return EncryptedVector(parameters, vector.length, tuple(a + b for a, b in zip(vector.chunks, zeros, strict=True)))


def _seed_of(vectors: Sequence[EncryptedVector], what: bytes) -> bytes:
    """Who plays its messages again comes to the same, and whoever made the vectors cannot have made them for it."""
    return hashlib.sha256(b"".join([what, *(hashlib.sha256(vector.to_bytes()).digest() for vector in vectors)])).digest()


def inner_product(left: EncryptedVector, right: EncryptedVector, /) -> EncryptedVector:
    """The encrypted inner product, one value, of two fresh vectors of one length; needs no secret key.

    Error at `PRODUCTS`: below 3e-7 |x| |z| + 1e-4 for up to 20,000 values; the constant is a bias that depends on the key, so
    scale vectors up to norms of about 100. Time: about 10 ms for each 4096 values. Raises Uncomputable.
    """
    if left.parameters != right.parameters or left.length != right.length:
        raise ValueError("an inner product needs two encrypted vectors of the same length and parameters")
    if not left.parameters.multiplies:
        raise ValueError("these parameters cannot multiply; encrypt under PRODUCTS")
    try:
        return _product(left, right)
    except (ValueError, RuntimeError):  # made so that the product has no randomness left, or the keys do not serve
        try:
            return _product(*(_hidden(x, _seed_of([left, right], what)) for x, what in ((left, b"left"), (right, b"right"))))
        except (ValueError, RuntimeError):
            raise Uncomputable("the keys for products do not serve") from None


def _product(left: EncryptedVector, right: EncryptedVector) -> EncryptedVector:
    products = [a * b for a, b in zip(left.chunks, right.chunks, strict=True)]
    scalars = [product.sum() for product in products]
    total = scalars[0]
    for scalar in scalars[1:]:
        total.add_(scalar)
    return EncryptedVector(left.parameters, 1, (total,))
