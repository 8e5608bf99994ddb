"""The library's own contexts: parameters with the keys that belong to them, made anew or read from bytes that somebody sent."""

from functools import lru_cache
from typing import Any

from .ckks_parameters import CkksParameters

_PARAMETERS, _PUBLIC, _SECRET = 0x0A, 0x12, 0x1A  # tags of a context's three fields, as protobuf has them, in this order


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


def read_context(data: bytes, parameters: CkksParameters) -> Any:
    """The context in `data`. Raises InvalidContext.

    What the library reads, it builds, and says only then what it was: 1 GB for 152 bytes of other parameters. So bytes that do
    not begin with these ones, or that could name any again, are refused before it sees them.
    """
    import tenseal  # here, so that who needs none of it does not load it

    head = _head(parameters)
    if data[: len(head)] != head:
        raise InvalidContext("the context has other parameters, or another version of TenSEAL made it")
    if _past(_past(len(head), _PUBLIC, data), _SECRET, data) != len(data):
        raise InvalidContext("bytes are not a context")
    try:
        context = tenseal.context_from(data, n_threads=1)
        scale = context.global_scale
    except (ValueError, RuntimeError, MemoryError, OverflowError):
        raise InvalidContext("bytes are not a context") from None
    if _parameters_of(context) != _fingerprint(parameters) or scale != 2.0**parameters.scale_bits:
        raise InvalidContext("the context has other parameters")
    return context


def serialised(context: Any, *, products: bool) -> bytes:
    """The public part of a context. products: with the keys that they need."""
    return bytes(
        context.serialize(save_public_key=True, save_secret_key=False, save_galois_keys=products, save_relin_keys=products)
    )


def _past(at: int, tag: int, data: bytes) -> int:
    """Where a field with this tag that begins at `at` ends; `at` itself where another is there, or none."""
    if data[at : at + 1] != bytes([tag]):
        return at
    size = shift = 0
    for place in range(at + 1, min(at + 6, len(data))):
        size |= (data[place] & 0x7F) << shift
        shift += 7
        if data[place] < 0x80:
            return place + 1 + size
    return len(data) + 1


@lru_cache(maxsize=4)
def _head(parameters: CkksParameters) -> bytes:
    """How the bytes of each context of these parameters begin: with the parameters."""
    data = bytes(new_context(parameters).serialize(False, False, False, False))
    if data[:1] != bytes([_PARAMETERS]) or data[1] >= 0x80:
        raise ImportError("this version of TenSEAL writes contexts otherwise than Cloister reads them")
    return data[: 2 + data[1]]


@lru_cache(maxsize=4)
def _fingerprint(parameters: CkksParameters) -> tuple[int, ...]:
    """The library's hash of the encryption parameters."""
    return _parameters_of(new_context(parameters))


def _parameters_of(context: Any) -> tuple[int, ...]:
    return tuple(context.seal_context().data.key_parms_id())
