"""Words to clients and their answers, as they are on a link, and what a coordinator remembers of each client that owes some."""

import asyncio
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest

from ..pki.names import name_of
from .flow import PIECE_BYTES, SMALL_BYTES, Flow, nothing

WORD, ANSWER = struct.Struct(">QQ"), struct.Struct(">Q")
"""Heads: a word's number and that of the last one that no answer is due to any more; the number of the word answered."""
FORGOTTEN = 1 << 63
"""With the number of a word: it was answered, and the answer is not kept any more."""


@dataclass(frozen=True, slots=True)
class Heard:
    """An answer to a word. data: None of a client that is absent. late: it came when nobody waited any more. free: to be called
    when it is done with.
    """

    client: int
    number: int
    data: bytes | memoryview | None = field(repr=False)
    late: bool = False
    free: Callable[[], None] = field(default=nothing, repr=False)


@dataclass(slots=True)
class Owed:
    """A word without an answer. parts: what it is together, shared with other words as far as they are alike. own: bytes of those
    that are not.
    """

    parts: tuple[bytes, ...] = field(repr=False)
    own: int
    since: float
    sent: bool = False

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(map(len, self.parts))


@dataclass(slots=True)
class Peer:
    """What is known of a client. until: when it may be back, after a lost connection. expired: the words that it was given up on,
    until it has answered the newest of them; each answer may come once.

    barred: it was sent away, or left, and nothing is waited for. revoked: for good. left: why it left, in its own words, unless
    it is back. leave: ends its stream, with a code and words.
    """

    id: int
    owed: dict[int, Owed] = field(default_factory=dict)
    number: int = 0
    boot: bytes = b""
    flow: Flow | None = None
    moved: float = 0.0
    until: float = 0.0
    expired: set[int] = field(default_factory=set)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    certificate: bytes = b""
    barred: bool = False
    revoked: bool = False
    left: str = ""
    leave: Callable[[str, str], None] | None = None

    @property
    def who(self) -> dict[str, int | str]:
        """For the log: a client by its number, a second server or dealer by its name."""
        return {"client": self.id} if self.id >= 0 else {"party": name_of(self.id)}

    @property
    def settled(self) -> int:
        """Up to which number no answer is due."""
        return min(self.owed, default=self.number + 1) - 1


def parts_of(data: bytes, last: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """A long word's parts. Those that the last long word has too are that word's: a model for a thousand clients is here once."""
    cuts = (0, *range(SMALL_BYTES, len(data), PIECE_BYTES), len(data))
    found = zip_longest(last[: len(cuts) - 1], pairwise(cuts), fillvalue=b"")
    alike = ((old, len(old) == end - begin and data.startswith(old, begin), begin, end) for old, (begin, end) in found)
    return tuple(old if same else data[begin:end] for old, same, begin, end in alike)


def behind_head(data: bytes | bytearray, head: struct.Struct) -> bytes | memoryview:
    """What is behind the head of a message: of a long one a view, which copies nothing."""
    behind = memoryview(data).toreadonly()[head.size :]
    return behind if len(data) > SMALL_BYTES else bytes(behind)
