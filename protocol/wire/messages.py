"""What parties send: frozen dataclasses with one deterministic CBOR encoding (RFC 8949; schema in messages.cddl).

The bytes that are sent are the bytes that are counted and recorded. Decoding checks the size and the shape before it builds
anything, refuses maps, tags, indefinite lengths and any encoding but the deterministic one, and checks every field.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, get_args

import cbor2

from ..choosing.messages import ChoosingMessage
from ..core.errors import ProtocolError
from ..core.session import DEALER, MAX_ID, MAX_ROSTER, VERSION
from ..encrypted.messages import EncryptedMessage
from ..masked.messages import MaskedMessage
from ..pairs.messages import PairMessage
from ..receiver_opened.messages import ReceiverOpenedMessage
from ..seeding.messages import SeedMessage
from ..two_servers.messages import TwoServerMessage
from ..two_servers.slot_messages import SlotMessage
from .fields import DIGEST_BYTES, MOST_SAMPLES, SessionFields, integer, octets, text, words

HEAD_BYTES = 4096 + 5 * MAX_ROSTER
"""Room for everything in a message but its vector."""
MAX_FIELDS = 23
MAX_SKETCH_BYTES = 1 << 20
MAX_ITEMS = 2 * MAX_ROSTER
MAX_MODELS = 64
"""Names in one task: of as many slots as there may be."""
MAX_DISCARDED = 1024
MOST_REASON = 200
"""Characters of the reason that a client gives for sitting out."""
MOST_SHARES = 1 << 24
"""Whole numbers up to this are exact in float32."""
Buffer = bytes | memoryview
_LONG = 1 << 16


@dataclass(frozen=True, slots=True)
class Task(SessionFields):
    """Server to client: take part in this session and do this work.

    work: "update", "gradient" or "slots", or a sketch of one of the first two. models: names of the models to start from, of all
    slots, or of the work to sketch. own: the receiver's own model, which it starts from instead; empty without one. later: 1 to
    say `Ready` at once and do the work when its result is asked for. most: largest share in a slot; 0 where there are none.
    vector: the models one after the other as little-endian float32, empty where clients own them. The session's fields ride
    along so that the client can check them against its policy.
    """

    kind: ClassVar[int] = 1
    work: str
    models: tuple[str, ...]
    vector: bytes = field(repr=False)
    own: str = ""
    later: int = 0
    most: int = 0

    def __post_init__(self) -> None:
        SessionFields.__post_init__(self)
        text(self.work, 32, "work")
        if not isinstance(self.models, tuple) or not 0 < len(self.models) <= MAX_MODELS:
            raise ValueError(f"models are not a list of 1 to {MAX_MODELS} names")
        for name in (*self.models, *([self.own] if self.own != "" else ())):
            text(name, 256, "model")
        words(self.vector, 0, "vector")
        integer(self.later, 0, 1, "later")
        integer(self.most, 0, MOST_SHARES, "most")


@dataclass(frozen=True, slots=True)
class Upload:
    """Client to server: the work's result, transformed or clear, as little-endian float32; and the number of samples."""

    kind: ClassVar[int] = 2
    vector: bytes = field(repr=False)
    samples: int

    def __post_init__(self) -> None:
        words(self.vector, 1, "vector")
        integer(self.samples, 1, MOST_SAMPLES, "samples")


@dataclass(frozen=True, slots=True)
class Mean:
    """Server to client: the mean of a cluster's uploads as little-endian float32. name: the sum it answers."""

    kind: ClassVar[int] = 3
    name: str
    vector: bytes = field(repr=False)

    def __post_init__(self) -> None:
        text(self.name, 256, "name")
        words(self.vector, 1, "vector")


@dataclass(frozen=True, slots=True)
class Ready:
    """Client to server: the work is done, and stays here."""

    kind: ClassVar[int] = 7


@dataclass(frozen=True, slots=True)
class Declined:
    """Client to server: it has taken the task and sits out, for this reason."""

    kind: ClassVar[int] = 11
    reason: str

    def __post_init__(self) -> None:
        text(self.reason, MOST_REASON, "reason")


@dataclass(frozen=True, slots=True)
class OffsetSketched:
    """Client to server: the sketch of work that it holds, behind the session's offset, as little-endian uint64."""

    kind: ClassVar[int] = 10
    words: bytes = field(repr=False)

    def __post_init__(self) -> None:
        octets(self.words, 8, MAX_SKETCH_BYTES, "words")
        if len(self.words) % 8:
            raise ValueError("words are not whole words of 8 bytes")


KEY, WORK = 0, 1
"""What a client is asked to retain."""


@dataclass(frozen=True, slots=True)
class Retain:
    """Server to client: retain, beyond the round, the key of a session's sketches (KEY) or your own work of it (WORK).

    made: the session's digest. handle: what it will be asked for, and discarded, by.
    """

    kind: ClassVar[int] = 14
    what: int
    made: bytes
    handle: str

    def __post_init__(self) -> None:
        integer(self.what, KEY, WORK, "what")
        octets(self.made, DIGEST_BYTES, DIGEST_BYTES, "made")
        text(self.handle, 256, "handle")


@dataclass(frozen=True, slots=True)
class Discard:
    """Server to client: forget what you retain under these handles."""

    kind: ClassVar[int] = 15
    handles: tuple[str, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.handles, tuple) or not 0 < len(self.handles) <= MAX_DISCARDED:
            raise ValueError(f"handles are not a list of 1 to {MAX_DISCARDED}")
        for handle in self.handles:
            text(handle, 256, "handle")


Message = (
    Task
    | Upload
    | Mean
    | Ready
    | Declined
    | OffsetSketched
    | Retain
    | Discard
    | SeedMessage
    | ChoosingMessage
    | MaskedMessage
    | TwoServerMessage
    | SlotMessage
    | EncryptedMessage
    | ReceiverOpenedMessage
    | PairMessage
)
_KINDS: Mapping[int, type[Any]] = MappingProxyType({m.kind: m for m in get_args(Message)})


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message on its way. session: the session's 32-byte digest. sender, receiver: party ids, of clients from 0 on."""

    session: bytes
    sender: int
    receiver: int
    message: Message

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
    items = _items(envelope)
    if not any(map(_is_long, items)):
        return cbor2.dumps(items)  # integers, strings and lists of them: its heads are the shortest
    pieces: list[Buffer] = [_item_head(4, len(items))]
    for item in items:
        _put(item, pieces)
    return b"".join(pieces)  # joined once: cbor2 would copy a vector several times


def _is_long(item: Any) -> bool:
    """Whether this is a long string of bytes, or a list of strings of bytes with a long one."""
    if type(item) is tuple:
        return any(type(inner) is bytes and len(inner) > _LONG for inner in item)
    return type(item) is memoryview or (type(item) is bytes and len(item) > _LONG)


def _put(item: Any, pieces: list[Buffer]) -> None:
    if type(item) in (bytes, memoryview):
        pieces += (_item_head(2, len(item)), item)
    elif _is_long(item):
        pieces.append(_item_head(4, len(item)))
        for inner in item:
            _put(inner, pieces)
    else:
        pieces.append(cbor2.dumps(item))


def _item_head(major: int, argument: int) -> bytes:
    """The shortest head."""
    if argument < 24:
        return bytes([major << 5 | argument])
    log = 0 if argument < 1 << 8 else 1 if argument < 1 << 16 else 2 if argument < 1 << 32 else 3
    return bytes([major << 5 | 24 + log]) + argument.to_bytes(1 << log, "big")


def _head(data: bytes, at: int) -> tuple[int, int, int]:
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


class _Item(NamedTuple):
    """An item of a frame that is not built yet: its major type, its argument, and where its content starts and ends."""

    major: int
    argument: int
    start: int
    end: int


def _items_in(data: bytes, most: int = MAX_FIELDS) -> list[_Item]:
    """Where the first `most` items of the list in `data` are.

    Refuses, before anything is built, all but one short list of integers, strings and flat lists of at most MAX_ITEMS.
    """
    major, count, at = _head(data, 0)
    if major != 4 or not 5 <= count <= MAX_FIELDS:
        raise ValueError("not a message of this version")
    listed, items = 0, []
    for _ in range(min(count, most)):
        start = at
        major, argument, at = _head(data, at)
        if major in (2, 3):
            start, at = at, at + argument
        elif major == 4:
            listed += argument
            if listed > MAX_ITEMS:
                raise ValueError("a list is nested or too long")
            for _ in range(argument):
                inner, size, at = _head(data, at)
                if inner > 3:
                    raise ValueError("a list is nested or too long, or has in it what is not part of any message")
                at += size if inner > 1 else 0
        elif major > 4:
            raise ValueError("maps, tags, floats and simple values are not part of any message")
        if at > len(data):
            raise ValueError("it ends early")
        items.append(_Item(major, argument, start, at))
    return items


def _built(data: bytes, item: _Item, lent: bool = False) -> Any:
    """The item, a list as a tuple. Strings of bytes are copied once or, where `lent`, are a view of the data."""
    match item.major:
        case 0:
            return item.argument
        case 1:
            return -1 - item.argument
        case 4 if item.end - item.start <= _LONG:
            return tuple(cbor2.loads(data[item.start : item.end]))
        case 4:
            items, at = [], _head(data, item.start)[2]
            for _ in range(item.argument):
                major, argument, start = _head(data, at)
                at = start + argument if major > 1 else start
                items.append(_built(data, _Item(major, argument, start, at)))
            return tuple(items)
    content = memoryview(data)[item.start : item.end] if lent else data[item.start : item.end]
    return str(content, "utf-8") if item.major == 3 else content


def first_items(data: bytes, count: int) -> tuple[Any, ...]:
    """The first items of an envelope that was encoded here, from its version on: for whoever looks at frames in passing."""
    return tuple(_built(data, item) for item in _items_in(data, count))


def decode(data: bytes, link: int, max_bytes: int) -> Envelope:
    """The envelope in `data`, which came over the link of party `link`. Allocates no more than a few times `max_bytes`.

    A message whose class says that its vector is `lent` holds a view of `data` instead of a copy. Raises ProtocolError
    blaming `link` for anything but the deterministic encoding of a well-formed message.
    """
    if len(data) > max_bytes:
        raise ProtocolError(f"a message of {len(data)} bytes is over the limit of {max_bytes}", link)
    try:
        items = _items_in(data)
        version, session, sender, receiver, kind = (_built(data, item) for item in items[:5])
        if version != VERSION:
            raise ValueError("not a message of this version")
        if type(kind) is not int or kind not in _KINDS:
            raise ValueError("unknown kind of message")
        if items[-1].end != len(data):
            raise ValueError("something follows it")
        if len(items) - 5 != len(fields(_KINDS[kind])):
            raise ValueError("more or fewer fields than this kind of message has")
        lent = getattr(_KINDS[kind], "lent", False)
        envelope = Envelope(session, sender, receiver, _KINDS[kind](*(_built(data, item, lent) for item in items[5:])))
    except (ValueError, TypeError, OverflowError, cbor2.CBORDecodeError) as error:
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise ProtocolError(f"a message does not decode: {reason}", link) from None
    return envelope
