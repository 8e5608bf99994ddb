"""Many words to one client in one message, and its answers in another: for links on which each message costs seconds.

CBOR lists. A message says which of a client's it is, so that one that comes twice is answered twice and done once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import cbor2

from ..core.errors import Refused
from ..wire.codec import plain_in

BATCH_VERSION = 1
MOST_WORDS = 1 << 16
"""In one message."""
MOST_NUMBER = 1 << 53


@dataclass(frozen=True, slots=True)
class Batch:
    """To a client. number: of the messages to it. greeting: what a coordinator says first, empty but in the first message.

    words: each with its number.
    """

    number: int
    greeting: bytes = b""
    words: tuple[tuple[int, bytes], ...] = field(default=(), repr=False)

    def encoded(self) -> bytes:
        """As bytes."""
        return cbor2.dumps([BATCH_VERSION, self.number, self.greeting, list(map(list, self.words))])

    @classmethod
    def of(cls, data: bytes) -> "Batch":
        """Raises Refused."""
        number, greeting, words = _items(data, 4)
        _check(_is_number(number) and type(greeting) is bytes and _numbered(words))
        return cls(number, greeting, tuple(map(tuple, words)))


@dataclass(frozen=True, slots=True)
class Answers:
    """Of a client. number: of the message that they are to. answers: each with the number of its word.

    refusal: why it took none of them, in words.
    """

    number: int
    answers: tuple[tuple[int, bytes], ...] = field(default=(), repr=False)
    refusal: str = ""

    def encoded(self) -> bytes:
        """As bytes."""
        return cbor2.dumps([BATCH_VERSION, self.number, list(map(list, self.answers)), self.refusal])

    @classmethod
    def of(cls, data: bytes) -> "Answers":
        """Raises Refused."""
        number, answers, refusal = _items(data, 4)
        _check(_is_number(number) and _numbered(answers) and type(refusal) is str and len(refusal) <= 1000)
        return cls(number, tuple(map(tuple, answers)), refusal)


def answered(batch: Batch, answer: Callable[[bytes], bytes]) -> Answers:
    """What a client makes of a message, word by word and in order. answer: to one word."""
    return Answers(batch.number, tuple((number, answer(word)) for number, word in batch.words))


def _items(data: bytes, count: int) -> list[Any]:
    try:
        found = plain_in(data)
    except ValueError:
        raise Refused("a message that is none") from None
    _check(type(found) is list and len(found) == count)
    _check(_is_number(found[0]))
    if found[0] != BATCH_VERSION:
        raise Refused(f"a message of version {found[0]}, where this side has {BATCH_VERSION}: all need the same release")
    return list(found[1:])


def _numbered(entries: object) -> bool:
    """Whether these are byte strings, each with a number, no number twice."""
    if type(entries) is not list or len(entries) > MOST_WORDS:
        return False
    right = all(type(e) is list and len(e) == 2 and _is_number(e[0]) and type(e[1]) is bytes for e in entries)
    return right and len({e[0] for e in entries}) == len(entries)


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value <= MOST_NUMBER


def _check(right: bool) -> None:
    if not right:
        raise Refused("a message that is none")
