"""Bytes of CKKS that no honest client makes, written field by field: ciphertexts with polynomials of one's choice, contexts of
other parameters.
"""

import struct

import numpy as np
import tenseal
import zstandard

from cloister.crypto.ckks_bytes import varint, wrapped
from cloister.crypto.ckks_contexts import _written, new_context
from cloister.crypto.ckks_parameters import CkksParameters


def sealed(body: bytes) -> bytes:
    """With the library's header, uncompressed."""
    return struct.pack("<HBBBBHQ", 0xA15E, 16, 4, 3, 0, 0, 16 + len(body)) + body


def compressed(body: bytes) -> bytes:
    """The same, compressed."""
    data = zstandard.ZstdCompressor(level=1).compress(body)
    return struct.pack("<HBBBBHQ", 0xA15E, 16, 4, 3, 2, 0, 16 + len(data)) + data


def zeros(parameters: CkksParameters, kind: str) -> bytes:
    """An object as it must look, "public_key" or one of keys for products, with zeros for coefficients."""
    layout = getattr(_written(parameters), kind)
    return sealed(b"".join(part if isinstance(part, bytes) else bytes(part) for part in layout))


def ciphertext(
    parameters: CkksParameters, length: int, first: int = 0, second: int = 0, half: int | None = None, ntt: int = 1
) -> bytes:
    """As `EncryptedVector.to_bytes` of one ciphertext; the numbers are in every place of its two polynomials, or in one half.

    ntt: the library's flag of the form that polynomials are in.
    """
    context = new_context(parameters)
    primes = len(parameters.modulus_bits) - 1
    parms = struct.pack("<4Q", *context.seal_context().data.first_parms_id())
    polynomials = np.zeros((2, primes, parameters.degree), np.uint64)
    where = slice(None) if half is None else slice(half * parameters.degree // 2, (half + 1) * parameters.degree // 2)
    polynomials[0, :, where], polynomials[1, :, where] = first, second
    array = sealed(struct.pack("<Q", polynomials.size) + polynomials.tobytes())
    scale = 2.0**parameters.scale_bits
    body = parms + struct.pack("<BQQQdQ", ntt, 2, parameters.degree, primes, scale, 1) + array
    return carrying(parameters, length, sealed(body))


def carrying(parameters: CkksParameters, length: int, *objects: bytes) -> bytes:
    """A vector of such a length, of one or more of the library's objects."""
    part = wrapped(1, varint(length)) + b"".join(wrapped(2, one) for one in objects)
    part += b"\x19" + struct.pack("<d", 2.0**parameters.scale_bits)
    return len(part).to_bytes(4, "little") + part


def parameters_of(degree: int, bits: list[int]) -> bytes:
    """A context of such parameters, without a key: few bytes, from which the library builds much."""
    context = tenseal.context(tenseal.SCHEME_TYPE.CKKS, degree, coeff_mod_bit_sizes=bits, n_threads=1)
    context.global_scale = 2**40
    return bytes(context.serialize(False, False, False, False))


def parts_of(context: bytes) -> list[bytes]:
    """The fields of a context, as they stand: parameters, the public part, and the secret one if it is there."""
    found, at = [], 0
    while at < len(context):
        size, shift, end = 0, 0, at + 1
        while True:
            size |= (context[end] & 127) << shift
            shift, end = shift + 7, end + 1
            if context[end - 1] < 128:
                break
        found.append(context[at : end + size])
        at = end + size
    return found


def public_key(parameters: CkksParameters, first: int = 0, second: int = 0) -> bytes:
    """As `EncryptingContext.to_bytes`, with such numbers in every place of its two polynomials."""
    context = new_context(parameters)
    primes = len(parameters.modulus_bits)
    polynomials = np.zeros((2, primes, parameters.degree), np.uint64)
    polynomials[0], polynomials[1] = first, second
    array = sealed(struct.pack("<Q", polynomials.size) + polynomials.tobytes())
    parms = struct.pack("<4Q", *context.seal_context().data.key_parms_id())
    key = sealed(parms + struct.pack("<BQQQdQ", 1, 2, parameters.degree, primes, 1.0, 1) + array)
    head = parts_of(bytes(context.serialize(False, False, False, False)))[0]
    return head + wrapped(2, wrapped(1, key) + b"\x10\x07\x19" + struct.pack("<d", 2.0**parameters.scale_bits))
