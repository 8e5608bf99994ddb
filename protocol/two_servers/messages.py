"""The messages of the two-server protocol, in the order in which they are said.

Spec: specs/two_servers.md; schema: messages.cddl. Ring elements are little-endian uint64. A session opens with a `Task`, to the
second server without a model.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from ..core.session import MAX_ID, MAX_ROSTER
from ..wire.fields import DIGEST_BYTES, MOST_SAMPLES, by_kind, clients, each, integer, octets, words

MAX_QUESTION = 2**62
MAX_SOURCES = 4096


def ring(value: object, name: str) -> None:
    """At least one whole ring element of 8 bytes."""
    words(value, 2, name)
    if isinstance(value, bytes) and len(value) % 8:
        raise ValueError(f"{name} is not a whole number of 8-byte words")


def rows(sources: object, counts: object, clients_: object, low: int) -> None:
    """counts[k] clients of the session sources[k], one list after the other."""
    if not isinstance(sources, tuple) or not isinstance(counts, tuple) or not len(sources) == len(counts) <= MAX_SOURCES:
        raise ValueError(f"sources and counts are not lists of one length up to {MAX_SOURCES}")
    if not isinstance(clients_, tuple) or not low <= len(clients_) <= MAX_ROSTER:
        raise ValueError(f"clients is not a list of at least {low}")
    each(sources, len(sources), DIGEST_BYTES, DIGEST_BYTES, "sources")
    for count in counts:
        integer(count, 1, MAX_ROSTER, "counts")
    for client in clients_:
        integer(client, 0, MAX_ID, "client")
    if sum(counts) != len(clients_):
        raise ValueError("counts do not add up to the number of clients")


@dataclass(frozen=True, slots=True)
class ExplicitShare:
    """Client to server: its update minus the keystream that the second server can expand; and the number of samples."""

    kind: ClassVar[int] = 40
    binding: bytes
    vector: bytes = field(repr=False)
    samples: int

    def __post_init__(self) -> None:
        octets(self.binding, DIGEST_BYTES, DIGEST_BYTES, "binding")
        ring(self.vector, "vector")
        integer(self.samples, 1, MOST_SAMPLES, "samples")


@dataclass(frozen=True, slots=True)
class KeyShare:
    """Client to second server: the key that its share is stretched from, and SHA-256 of the model that its work started from."""

    kind: ClassVar[int] = 41
    binding: bytes
    key: bytes = field(repr=False)
    model: bytes

    def __post_init__(self) -> None:
        octets(self.binding, DIGEST_BYTES, DIGEST_BYTES, "binding")
        octets(self.key, 32, 32, "key")
        octets(self.model, DIGEST_BYTES, DIGEST_BYTES, "model")


@dataclass(frozen=True, slots=True)
class Withheld:
    """Client to server: its update is not finite or exceeds max_norm, so it shares nothing."""

    kind: ClassVar[int] = 42
    binding: bytes

    def __post_init__(self) -> None:
        octets(self.binding, DIGEST_BYTES, DIGEST_BYTES, "binding")


@dataclass(frozen=True, slots=True)
class Held:
    """Server to second server: the clients whose share arrived."""

    kind: ClassVar[int] = 43
    clients: tuple[int, ...]

    def __post_init__(self) -> None:
        clients(self.clients, 0, "clients")


@dataclass(frozen=True, slots=True)
class Agreed:
    """Second server to server: of those, the clients whose key arrived and that started from one model. They are the survivors,
    for both.
    """

    kind: ClassVar[int] = 44
    clients: tuple[int, ...]

    def __post_init__(self) -> None:
        clients(self.clients, 0, "clients")


@dataclass(frozen=True, slots=True)
class GramQuestion:
    """Server to second server: the rows of a Gram question, and a commitment to its half of the coin."""

    kind: ClassVar[int] = 45
    number: int
    sources: tuple[bytes, ...]
    counts: tuple[int, ...]
    clients: tuple[int, ...]
    commitment: bytes

    def __post_init__(self) -> None:
        integer(self.number, 0, MAX_QUESTION, "number")
        rows(self.sources, self.counts, self.clients, 1)
        octets(self.commitment, 32, 32, "commitment")


@dataclass(frozen=True, slots=True)
class TripleRequest:
    """Server to dealer: a triple for this many rows."""

    kind: ClassVar[int] = 46
    number: int
    rows: int

    def __post_init__(self) -> None:
        integer(self.number, 0, MAX_QUESTION, "number")
        integer(self.rows, 1, MAX_ROSTER, "rows")


@dataclass(frozen=True, slots=True)
class KeyedTriple:
    """Dealer to second server: the keys of its half of a triple."""

    kind: ClassVar[int] = 47
    mask: bytes = field(repr=False)
    square: bytes = field(repr=False)

    def __post_init__(self) -> None:
        octets(self.mask, 32, 32, "mask")
        octets(self.square, 32, 32, "square")


@dataclass(frozen=True, slots=True)
class ExplicitTriple:
    """Dealer to server: the key of its mask, and its share of the square, row by row."""

    kind: ClassVar[int] = 48
    mask: bytes = field(repr=False)
    square: bytes = field(repr=False)

    def __post_init__(self) -> None:
        octets(self.mask, 32, 32, "mask")
        ring(self.square, "square")


@dataclass(frozen=True, slots=True)
class Coin:
    """Second server to server: its half of the coin, in the clear."""

    kind: ClassVar[int] = 49
    coin: bytes

    def __post_init__(self) -> None:
        octets(self.coin, 32, 32, "coin")


@dataclass(frozen=True, slots=True)
class Opening:
    """Server to second server: its half of the coin with the commitment's salt, and its share of X - A, row by row."""

    kind: ClassVar[int] = 50
    coin: bytes
    salt: bytes
    difference: bytes = field(repr=False)

    def __post_init__(self) -> None:
        octets(self.coin, 32, 32, "coin")
        octets(self.salt, 32, 32, "salt")
        ring(self.difference, "difference")


@dataclass(frozen=True, slots=True)
class GramAnswer:
    """Second server to server: its share of X - A and its share of X X^T, row by row."""

    kind: ClassVar[int] = 51
    difference: bytes = field(repr=False)
    gram: bytes = field(repr=False)

    def __post_init__(self) -> None:
        ring(self.difference, "difference")
        ring(self.gram, "gram")


@dataclass(frozen=True, slots=True)
class SumQuestion:
    """Server to second server: the whole-number weights of a sum over updates of one session."""

    kind: ClassVar[int] = 52
    number: int
    source: bytes
    clients: tuple[int, ...]
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        integer(self.number, 0, MAX_QUESTION, "number")
        octets(self.source, DIGEST_BYTES, DIGEST_BYTES, "source")
        clients(self.clients, 1, "clients")
        if not isinstance(self.weights, tuple) or len(self.weights) != len(self.clients):
            raise ValueError("weights are not one for each client")
        for weight in self.weights:
            integer(weight, -(2**62), 2**62, "weight")
            if weight == 0:
                raise ValueError("a weight is 0: leave the client out")


@dataclass(frozen=True, slots=True)
class SumAnswer:
    """Second server to server: its share of the sum."""

    kind: ClassVar[int] = 53
    vector: bytes = field(repr=False)

    def __post_init__(self) -> None:
        ring(self.vector, "vector")


@dataclass(frozen=True, slots=True)
class Keep:
    """Server to second server: forget everything but the keys of these clients' updates, which sums can no longer be asked of."""

    kind: ClassVar[int] = 54
    number: int
    sources: tuple[bytes, ...]
    counts: tuple[int, ...]
    clients: tuple[int, ...]

    def __post_init__(self) -> None:
        integer(self.number, 0, MAX_QUESTION, "number")
        rows(self.sources, self.counts, self.clients, 0)


MESSAGES = by_kind(
    ExplicitShare,
    KeyShare,
    Withheld,
    Held,
    Agreed,
    GramQuestion,
    TripleRequest,
    KeyedTriple,
    ExplicitTriple,
    Coin,
    Opening,
    GramAnswer,
    SumQuestion,
    SumAnswer,
    Keep,
)
