"""The one encoding of messages: deterministic CBOR (RFC 8949; schema in messages.cddl).

The bytes that are sent are the bytes that are counted and recorded. Decoding is handed the kinds of messages that there may be:
each protocol says which are its own (`MESSAGES`), and whoever carries frames puts them together. It checks the size and the shape
before it builds anything, refuses maps, tags, indefinite lengths and any encoding but the deterministic one, and checks every
field.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cache, lru_cache
from typing import Any

import cbor2

from ..core.errors import ProtocolError
from ..core.session import DEALER, MAX_ID, MAX_ROSTER, VERSION
from .fields import DIGEST_BYTES, integer, octets

MAX_FIELDS = 23
MAX_ITEMS = 2 * MAX_ROSTER
MOST_PLAIN = 8 * MAX_ROSTER
"""Items of what is no message: identities of all clients for a few uses are the most."""
Buffer = bytes | memoryview
Kinds = Mapping[int, type[Any]]
"""Messages by their kind."""
_LONG = 1 << 16
_DEEPEST = 4
_DEEP = 16
_SHORT = frozenset({int, str})


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message on its way. session: the session's 32-byte digest. sender, receiver: party ids, of clients from 0 on."""

    session: bytes
    sender: int
    receiver: int
    message: Any

    def __post_init__(self) -> None:
        octets(self.session, DIGEST_BYTES, DIGEST_BYTES, "session")
        integer(self.sender, DEALER, MAX_ID, "sender")
        integer(self.receiver, DEALER, MAX_ID, "receiver")


def _items(envelope: Envelope) -> tuple[Any, ...]:
    message = envelope.message
    body = (getattr(message, f.name) for f in fields(message))
    return (VERSION, envelope.session, envelope.sender, envelope.receiver, message.kind, *body)


def encode(envelope: Envelope) -> bytes:
    """The envelope's one encoding: [version, session, sender, receiver, kind, field, ...]."""
    return b"".join(encoding_of(_items(envelope)))


def encoding_of(items: Sequence[Any]) -> list[Buffer]:
    """The encoding of a list, in pieces that are joined, if at all, once: cbor2 would copy a vector several times."""
    if not any(map(_is_long, items)):
        return [cbor2.dumps(items)]  # integers, strings and lists of them: its heads are the shortest
    pieces: list[Buffer] = [head_of(4, len(items))]
    for item in items:
        _put(item, pieces)
    return pieces


def _is_long(item: Any) -> bool:
    """Whether this is a long string of bytes, or a list with one in it."""
    if type(item) in (tuple, list):
        return not _SHORT.issuperset(map(type, item)) and any(map(_is_long, item))
    return type(item) is memoryview or (type(item) is bytes and len(item) > _LONG)


def _put(item: Any, pieces: list[Buffer]) -> None:
    if type(item) in (bytes, memoryview):
        pieces += (head_of(2, len(item)), item)
    elif _is_long(item):
        pieces.append(head_of(4, len(item)))
        for inner in item:
            _put(inner, pieces)
    else:
        pieces.append(cbor2.dumps(item))


def plain_in(data: Buffer, lent: bool = False) -> Any:
    """The integers, floats, strings, truth values, None, lists and maps in `data`, which came from somebody else.

    Looked through before anything is built: tags build what they name (a regular expression, a number of a gigabyte), and many
    small items are larger than their bytes. lent: in lists, a long string of bytes is a view of `data`, which copies nothing.
    Raises ValueError.
    """
    _check_plain(data)
    if lent and len(data) > _LONG:
        with suppress(ValueError):
            found, end = _plain_at(data, 0, _DEEPEST, iter(range(MAX_ITEMS)))
            if end == len(data):
                return found
    try:
        return cbor2.loads(data)
    except (TypeError, OverflowError, cbor2.CBORDecodeError) as error:
        raise ValueError(f"nothing plain: {error!s:.120}") from None


def _check_plain(data: Buffer) -> None:
    """Raises ValueError for tags, indefinite lengths, keys that are no strings or ids, and for more items or lists in lists than
    any message has.
    """
    at, end, left = 0, len(data), MOST_PLAIN
    due = [(1, False)]  # of each list that is open, the items to come, and whether it is a map
    while due:
        count, mapped = due.pop()
        if not count:
            continue
        due.append((count - 1, mapped))
        first = data[at] if at < end else 0
        if first >> 5 == 7:  # false, true, null and floats
            if first & 31 not in (20, 21, 22, 25, 26, 27) or (mapped and count % 2 == 0):
                raise ValueError("a tag, or a value that is none of the plain ones")
            at += 1 + (0, 2, 4, 8)[max(0, (first & 31) - 24)]
        else:
            major, argument, at = head_at(data, at)
            if mapped and count % 2 == 0 and (major > 3 or (major < 2 and argument > MAX_ID)):
                raise ValueError("a key that is neither a string nor an id")
            if major == 6:
                raise ValueError("a tag, or a value that is none of the plain ones")
            if major > 3:
                left -= (count := argument * (major - 3))
                if left < 0 or len(due) > _DEEP:
                    raise ValueError("more items than any message has, or deeper")
                due.append((count, major == 5))
            elif major > 1:
                at += argument
        if at > end:
            raise ValueError("it ends early")
    if at != end:
        raise ValueError("something follows it")


def _plain_at(data: Buffer, at: int, deepest: int, left: Iterator[int]) -> tuple[Any, int]:
    """The item at this offset, and the offset behind it. left: as many more. Raises ValueError for all but lists of integers,
    strings and lists.
    """
    if next(left, None) is None:
        raise ValueError("too many items")
    major, argument, start = head_at(data, at)
    if major == 4 and deepest:
        items, at = [], start
        for _ in range(argument):
            item, at = _plain_at(data, at, deepest - 1, left)
            items.append(item)
        return items, at
    end = start + argument if major > 1 else start
    if major > 3 or end > len(data):
        raise ValueError("it is of another kind, too deep, or ends early")
    return _built(data, (major, argument, start, end), argument > _LONG), end


def head_of(major: int, argument: int) -> bytes:
    """The shortest head."""
    if argument < 24:
        return bytes([major << 5 | argument])
    log = 0 if argument < 1 << 8 else 1 if argument < 1 << 16 else 2 if argument < 1 << 32 else 3
    return bytes([major << 5 | 24 + log]) + argument.to_bytes(1 << log, "big")


def head_at(data: Buffer, at: int) -> tuple[int, int, int]:
    """The CBOR item head at this offset: its major type, its argument, the offset behind it. Taken in the shortest form alone."""
    if at >= len(data):
        raise ValueError("it ends early")
    major, short = data[at] >> 5, data[at] & 31
    if short < 24:
        return major, short, at + 1
    if short > 27:
        raise ValueError("indefinite lengths are not part of any message")
    size = 1 << (short - 24)
    argument, behind = int.from_bytes(data[at + 1 : at + 1 + size], "big"), at + 1 + size
    if argument < (24 if size == 1 else 1 << (4 * size)):
        raise ValueError("a number is not written in the shortest form")
    return major, argument, behind


_Item = tuple[int, int, int, int]
"""An item of a frame that is not built yet: its major type, its argument, and where its content starts and ends."""


def _items_in(data: Buffer, most: int = MAX_FIELDS) -> list[_Item]:
    """Where the first `most` items of the list in `data` are.

    Refuses, before anything is built, all but one short list of integers, strings and flat lists of at most MAX_ITEMS.
    """
    major, count, at = head_at(data, 0)
    if major != 4 or not 5 <= count <= MAX_FIELDS:
        raise ValueError("not a message")
    listed, items, end = 0, [], len(data)
    for _ in range(min(count, most)):
        start, first = at, data[at] if at < end else 255
        if first & 31 < 24:  # most heads are of one byte or two: not worth a call each
            major, argument, at = first >> 5, first & 31, at + 1
        elif first & 31 == 24 and at + 1 < end and data[at + 1] >= 24:
            major, argument, at = first >> 5, data[at + 1], at + 2
        else:
            major, argument, at = head_at(data, at)
        if major in (2, 3):
            start, at = at, at + argument
        elif major == 4:
            listed += argument
            if listed > MAX_ITEMS:
                raise ValueError("a list is nested or too long")
            for _ in range(argument):
                first = data[at] if at < end else 255
                if first & 31 < 24:
                    inner, size, at = first >> 5, first & 31, at + 1
                elif first & 31 == 24 and at + 1 < end and data[at + 1] >= 24:
                    inner, size, at = first >> 5, data[at + 1], at + 2
                else:
                    inner, size, at = head_at(data, at)
                if inner > 3:
                    raise ValueError("a list is nested or too long, or has in it what is not part of any message")
                at += size if inner > 1 else 0
        elif major > 4:
            raise ValueError("maps, tags, floats and simple values are not part of any message")
        if at > end:
            raise ValueError("it ends early")
        items.append((major, argument, start, at))
    return items


def _built(data: Buffer, item: _Item, lent: bool = False) -> Any:
    """The item, a list as a tuple. Strings of bytes are copied once or, where `lent`, are a view of the data."""
    major, argument, start, end = item
    if major == 0:
        return argument
    if major == 3:
        return str(data[start:end], "utf-8")
    if major == 2:
        return memoryview(data)[start:end] if lent else bytes(data[start:end])
    if major == 1:
        return -1 - argument
    if end - start <= _LONG:
        listed = bytes(data[start:end])
        return _integers(listed) if argument and data[head_at(data, start)[2]] < 32 else tuple(cbor2.loads(listed))
    items, at = [], head_at(data, start)[2]
    for _ in range(argument):
        inner, size, begins = head_at(data, at)
        at = begins + size if inner > 1 else begins
        items.append(_built(data, (inner, size, begins, at)))
    return tuple(items)


@lru_cache(maxsize=8)
def _integers(listed: bytes) -> tuple[Any, ...]:
    """A short list that begins with an integer, as rosters do: told to thousands of clients of one process, kept once."""
    return tuple(cbor2.loads(listed))


def first_items(data: Buffer, count: int) -> tuple[Any, ...]:
    """The first items of an envelope that was encoded here, from its version on: for whoever looks at frames in passing."""
    return tuple(_built(data, item) for item in _items_in(data, count))


@cache
def _fields_of(kind: Any) -> int:
    """How many a kind of message has: asked of every one that comes."""
    return len(fields(kind))


def decode(data: Buffer, link: int, max_bytes: int, kinds: Kinds) -> Envelope:
    """The envelope in `data`, which came over the link of party `link`, with a message of these kinds.

    Allocates no more than a few times `max_bytes`.

    A message whose class says that its vector is `lent` holds a view of `data` instead of a copy. Raises ProtocolError
    blaming `link` for anything but the deterministic encoding of a well-formed message.
    """
    if len(data) > max_bytes:
        raise ProtocolError(f"a message of {len(data)} bytes is over the limit of {max_bytes}", link)
    try:
        items = _items_in(data)
        version, session, sender, receiver, kind = (_built(data, item) for item in items[:5])
        if version != VERSION:
            other = version if type(version) is int else "no"
            raise ValueError(f"a message of version {other} where this is version {VERSION}: all parties need the same release")
        if type(kind) is not int or kind not in kinds:
            raise ValueError("unknown kind of message")
        if items[-1][3] != len(data):
            raise ValueError("something follows it")
        of: Any = kinds[kind]
        if len(items) - 5 != _fields_of(of):
            raise ValueError("more or fewer fields than this kind of message has")
        lent = getattr(of, "lent", False)
        envelope = Envelope(session, sender, receiver, of(*(_built(data, item, lent) for item in items[5:])))
    except (ValueError, TypeError, OverflowError, cbor2.CBORDecodeError) as error:
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise ProtocolError(f"a message does not decode: {reason}", link) from None
    return envelope
