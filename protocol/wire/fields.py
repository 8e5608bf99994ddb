"""Checks of single fields of messages, and the fields that several messages begin with.

Each check raises ValueError that names the field.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from operator import lt
from typing import Any

from ...crypto.identity import SIGNATURE_BYTES
from ..core.session import MAX_ID, MAX_ROSTER, RUN_BYTES, Session

DIGEST_BYTES = 32
MAX_VECTOR_BYTES = 1 << 32
MOST_SAMPLES = 1 << 40
"""Of one client."""


def by_kind(*messages: type[Any]) -> Mapping[int, type[Any]]:
    """Messages by their kind. Raises ValueError for two of one kind."""
    found = {message.kind: message for message in messages}
    if len(found) < len(messages):
        raise ValueError("two messages of one kind")
    return found


def integer(value: object, low: int, high: int, name: str) -> None:
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{name} is not an integer from {low} to {high}")


def octets(value: object, low: int, high: int, name: str) -> None:
    if type(value) is not bytes or not low <= len(value) <= high:
        raise ValueError(f"{name} is not {low} to {high} bytes")


def words(value: object, low: int, name: str) -> None:
    """At least `low` whole words of 4 bytes."""
    octets(value, 4 * low, MAX_VECTOR_BYTES, name)
    _whole(value, name)


def lent_words(value: object, low: int, name: str) -> None:
    """The same, or a read-only view of such bytes: of a vector that its owner lets go of, or of the frame that it came in."""
    if type(value) is not memoryview or not value.readonly or value.format != "B" or value.ndim != 1 or not value.contiguous:
        octets(value, 4 * low, MAX_VECTOR_BYTES, name)
    elif not 4 * low <= len(value) <= MAX_VECTOR_BYTES:
        raise ValueError(f"{name} is not {4 * low} to {MAX_VECTOR_BYTES} bytes")
    _whole(value, name)


def _whole(value: Any, name: str) -> None:
    if len(value) % 4:
        raise ValueError(f"{name} is not a whole number of 4-byte words")


def text(value: object, high: int, name: str) -> None:
    if type(value) is not str or not 0 < len(value) <= high:
        raise ValueError(f"{name} is not a text of 1 to {high} characters")


def clients(value: object, low: int, name: str) -> None:
    """Ascending client ids, each once."""
    if not isinstance(value, tuple) or not low <= len(value) <= MAX_ROSTER:
        raise ValueError(f"{name} is not a list of at least {low} clients")
    if set(map(type, value)) - {int} or (value and not 0 <= min(value) <= max(value) <= MAX_ID):
        raise ValueError(f"{name} are not integers from 0 to {MAX_ID}")
    if not all(map(lt, value, value[1:])):
        raise ValueError(f"{name} lists clients in ascending order, each once")


def each(value: object, count: int, low: int, high: int, name: str) -> None:
    """`count` byte strings of `low` to `high` bytes."""
    if not isinstance(value, tuple) or len(value) != count:
        raise ValueError(f"{name} is not a list of {count}")
    if set(map(type, value)) - {bytes} or not all(low <= size <= high for size in set(map(len, value))):
        raise ValueError(f"{name} are not {low} to {high} bytes each")


def signature(value: object) -> None:
    octets(value, SIGNATURE_BYTES, SIGNATURE_BYTES, "signature")


@dataclass(frozen=True, slots=True)
class SessionFields:
    """How a message begins that opens a session, or that is answered by clients that keep nothing of it: its session."""

    protocol: str
    run: bytes
    round: int
    cluster: str
    roster: tuple[int, ...]
    threshold: int

    def __post_init__(self) -> None:
        text(self.protocol, 64, "protocol")
        octets(self.run, RUN_BYTES, RUN_BYTES, "run")
        integer(self.round, 0, 2**31 - 1, "round")
        text(self.cluster, 256, "cluster")
        clients(self.roster, 1, "roster")
        integer(self.threshold, 1, MAX_ROSTER, "threshold")

    @property
    def session(self) -> Session:
        """Raises ValueError where the threshold is above the roster."""
        return Session(self.protocol, self.run, self.round, self.cluster, self.roster, self.threshold)
