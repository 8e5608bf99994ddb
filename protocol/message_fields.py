"""Checks of single fields of messages. Each raises ValueError that names the field."""

from itertools import pairwise

from ..crypto.identity import SIGNATURE_BYTES
from .session import MAX_ID, MAX_ROSTER

DIGEST_BYTES = 32
MAX_VECTOR_BYTES = 1 << 32


def integer(value: object, low: int, high: int, name: str) -> None:
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{name} is not an integer from {low} to {high}")


def octets(value: object, low: int, high: int, name: str) -> None:
    if type(value) is not bytes or not low <= len(value) <= high:
        raise ValueError(f"{name} is not {low} to {high} bytes")


def words(value: object, low: int, name: str) -> None:
    """At least `low` whole words of 4 bytes."""
    octets(value, 4 * low, MAX_VECTOR_BYTES, name)
    if isinstance(value, bytes) and len(value) % 4:
        raise ValueError(f"{name} is not a whole number of 4-byte words")


def text(value: object, high: int, name: str) -> None:
    if type(value) is not str or not 0 < len(value) <= high:
        raise ValueError(f"{name} is not a text of 1 to {high} characters")


def clients(value: object, low: int, name: str) -> None:
    """Ascending client ids, each once."""
    if not isinstance(value, tuple) or not low <= len(value) <= MAX_ROSTER:
        raise ValueError(f"{name} is not a list of at least {low} clients")
    for client in value:
        integer(client, 0, MAX_ID, name)
    if any(a >= b for a, b in pairwise(value)):
        raise ValueError(f"{name} lists clients in ascending order, each once")


def each(value: object, count: int, low: int, high: int, name: str) -> None:
    """`count` byte strings of `low` to `high` bytes."""
    if not isinstance(value, tuple) or len(value) != count:
        raise ValueError(f"{name} is not a list of {count}")
    for item in value:
        octets(item, low, high, name)


def signature(value: object) -> None:
    octets(value, SIGNATURE_BYTES, SIGNATURE_BYTES, "signature")
