"""The library's own contexts: parameters with the keys that belong to them, made anew or read from bytes that somebody sent."""

import struct
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .ckks_bytes import Layout, Objects, UnexpectedBytes, unwrapped, wrapped
from .ckks_parameters import CkksParameters

_PARAMETERS, _PUBLIC, _SECRET = 1, 2, 3  # fields of a context
_KEY, _RELINEARISATION, _ROTATIONS = 1, 4, 5  # fields within the public one; the secret one has the first alone
_REGENERATED = b"\x10\x01\x18\x01"  # behind a secret key: keys for products are made of it


class InvalidContext(ValueError):
    """The bytes are not a context of these parameters."""


def new_context(parameters: CkksParameters) -> Any:
    """A context with a fresh key. Raises ValueError for parameters below 128 bits of security."""
    import tenseal  # here, so that who needs none of it does not load it

    context = tenseal.context(
        tenseal.SCHEME_TYPE.CKKS, parameters.degree, coeff_mod_bit_sizes=list(parameters.modulus_bits), n_threads=1
    )
    context.global_scale = 2**parameters.scale_bits
    return context


def read_context(
    data: bytes, parameters: CkksParameters, *, products: bool = False, secret: bool = False, again: bool = True
) -> Any:
    """The context in `data`: a public key, and with it what is asked for and nothing else. Raises InvalidContext.

    products: the keys that they need. secret: the secret key. again: whether keys for products are made of it. The library sees
    no bytes but those that it would write itself for some keys of these parameters (`ckks_bytes`).
    """
    import tenseal  # here, so that who needs none of it does not load it

    written = _written(parameters)
    if not data.startswith(written.head):
        raise InvalidContext("the context has other parameters, or another version of TenSEAL made it")
    try:
        public, rest = unwrapped(memoryview(data)[len(written.head) :], _PUBLIC)
        if rest and not secret:
            raise InvalidContext("bytes hold a secret key; ask for the public context and replace the key")
        fields = [written.head, wrapped(_PUBLIC, written.public(public, products))]
        if secret:
            fields.append(wrapped(_SECRET, written.secret(rest, again)))
        return tenseal.context_from(b"".join(fields), n_threads=1)
    except InvalidContext:
        raise
    except (ValueError, RuntimeError, MemoryError, OverflowError):
        raise InvalidContext("bytes are not a context") from None


def serialised(context: Any, *, products: bool) -> bytes:
    """The public part of a context. products: with the keys that they need."""
    return bytes(
        context.serialize(save_public_key=True, save_secret_key=False, save_galois_keys=products, save_relin_keys=products)
    )


def public_key_of(context: Any, parameters: CkksParameters) -> NDArray[np.uint64]:
    """Both polynomials of the public key, as the library keeps them: uint64 (2, primes, degree), an encryption of zero."""
    written = _written(parameters)
    public, _ = unwrapped(memoryview(serialised(context, products=False))[len(written.head) :], _PUBLIC)
    key, _ = unwrapped(public, _KEY)
    return written.objects.numbers(key, written.public_key).reshape(2, len(parameters.modulus_bits), parameters.degree)


def secret_key_of(context: Any, parameters: CkksParameters) -> NDArray[np.uint64]:
    """The secret key, as the library keeps it: uint64 (primes, degree)."""
    written = _written(parameters)
    _, rest = unwrapped(memoryview(bytes(context.serialize(True, True, False, False)))[len(written.head) :], _PUBLIC)
    inner, _ = unwrapped(rest, _SECRET)
    key, _ = unwrapped(inner, _KEY)
    return written.objects.numbers(key, written.secret_key).reshape(len(parameters.modulus_bits), parameters.degree)


def new_public_key(context: Any, parameters: CkksParameters, numbers: NDArray[np.uint64]) -> Any:
    """A context with the same secret key and this public one, uint64 (2, primes, degree); keys for products are made anew."""
    written, products = _written(parameters), parameters.multiplies
    data = memoryview(bytes(context.serialize(True, True, products, products)))[len(written.head) :]
    public, secret = unwrapped(data, _PUBLIC)
    _, behind = unwrapped(public, _KEY)
    key = wrapped(_KEY, written.objects.made_of(np.ascontiguousarray(numbers), written.public_key))
    return read_context(written.head + wrapped(_PUBLIC, key + bytes(behind)) + bytes(secret), parameters, secret=True)


@lru_cache(maxsize=4)
def key_primes_of(parameters: CkksParameters) -> tuple[int, ...]:
    """The primes of keys: those of ciphertexts, and the last one, by which what is encrypted is divided."""
    import_module("tenseal.sealapi")  # so that what the library returns has types

    data = new_context(parameters).seal_context().data.key_context_data()
    return tuple(int(prime.value()) for prime in data.parms().coeff_modulus())


def primes_of(parameters: CkksParameters) -> tuple[int, ...]:
    """The primes of ciphertexts that were not multiplied yet."""
    return key_primes_of(parameters)[:-1]


@lru_cache(maxsize=8)
def ciphertexts_of(parameters: CkksParameters, level: int) -> tuple[Objects, Layout]:
    """How ciphertexts after so many multiplications must look."""
    written, data = _written(parameters), new_context(parameters).seal_context().data.first_context_data()
    for _ in range(level):
        data = data.next_context_data()
    primes = len(parameters.modulus_bits) - 1 - level
    return written.objects, written.objects.ciphertext(data.parms_id(), primes, 2.0**parameters.scale_bits)


def terms_of(parameters: CkksParameters) -> Any:
    """The library's own form of the parameters, for what it does below contexts. New each time, as it can be changed."""
    seal = import_module("tenseal.sealapi")
    terms = seal.EncryptionParameters(seal.SCHEME_TYPE.CKKS)
    terms.set_poly_modulus_degree(parameters.degree)
    terms.set_coeff_modulus(seal.CoeffModulus.Create(parameters.degree, list(parameters.modulus_bits)))
    return terms


def read_numbers(of: Any) -> NDArray[np.uint64]:
    """The coefficients of one of the library's objects: uint64, in one row."""
    array = of.dyn_array()
    return np.array([array.at(k) for k in range(array.size())], dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class _Written:
    """What the library writes into contexts of one choice of parameters: what each begins with, what stands behind a public key
    and behind a secret one, and how its objects look.
    """

    head: bytes
    scale: bytes
    regenerated: bytes
    objects: Objects
    public_key: Layout
    secret_key: Layout
    relinearisation: Layout
    rotations: Layout

    def public(self, data: memoryview, products: bool) -> bytes:
        """As `data`, uncompressed. Raises UnexpectedBytes, and InvalidContext for keys that are missing."""
        if data in (b"", self.scale):
            raise InvalidContext("a context without a public key")
        key, rest = unwrapped(data, _KEY)
        if rest[: len(self.scale)] != self.scale:
            raise InvalidContext("the context has other parameters")
        found, rest = wrapped(_KEY, self.objects.read(key, self.public_key)) + self.scale, rest[len(self.scale) :]
        if products and not rest:
            raise InvalidContext("the public context lacks keys that its parameters need")
        kinds = {_RELINEARISATION: self.relinearisation, _ROTATIONS: self.rotations} if products else {}
        for number, layout in kinds.items():
            keys, rest = unwrapped(rest, number)
            found += wrapped(number, self.objects.read(keys, layout))
        if rest:
            raise UnexpectedBytes("bytes behind the keys")
        return found

    def secret(self, data: memoryview, again: bool) -> bytes:
        """The same of the field with the secret key. again: whether keys for products are made of it."""
        inner, rest = unwrapped(data, _SECRET)
        key, behind = unwrapped(inner, _KEY)
        if rest or behind != self.regenerated:
            raise UnexpectedBytes("bytes behind the secret key")
        return wrapped(_KEY, self.objects.read(key, self.secret_key)) + self.regenerated * again


@lru_cache(maxsize=4)
def _written(parameters: CkksParameters) -> _Written:
    """By a context that is made for it."""
    context = new_context(parameters)
    told, rest = unwrapped(memoryview(context.serialize(False, False, False, False)), _PARAMETERS)
    scale, rest = unwrapped(rest, _PUBLIC)
    if rest or scale[-8:] != struct.pack("<d", 2.0**parameters.scale_bits):
        raise ImportError("this version of TenSEAL writes contexts otherwise than Cloister reads them")
    objects = Objects((told[3], told[4]), parameters.degree)
    parms, primes = context.seal_context().data.key_parms_id(), len(parameters.modulus_bits)
    return _Written(
        wrapped(_PARAMETERS, bytes(told)),
        bytes(scale),
        _REGENERATED if parameters.multiplies else b"",
        objects,
        objects.ciphertext(parms, primes, 1.0),
        objects.secret_key(parms, primes),
        objects.relinearisation(parms, primes),
        objects.rotations(parms, primes),
    )
