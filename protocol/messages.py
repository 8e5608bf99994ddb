"""What parties send: frozen dataclasses with one deterministic CBOR encoding (RFC 8949; schema in messages.cddl).

The bytes that are sent are the bytes that are counted and recorded. Decoding checks the size and the shape before it builds
anything, refuses maps, tags, indefinite lengths and any encoding but the deterministic one, and checks every field.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, ClassVar, get_args

from .choosing.messages import ChoosingMessage
from .encrypted.messages import EncryptedMessage
from .errors import ProtocolError
from .masked.messages import MaskedMessage
from .message_fields import DIGEST_BYTES, MOST_SAMPLES, integer, octets, text, words
from .pairs.messages import PairMessage
from .receiver_opened.messages import ReceiverOpenedMessage
from .session import DEALER, MAX_ID, MAX_ROSTER, RUN_BYTES, VERSION
from .two_servers.messages import TwoServerMessage
from .two_servers.slot_messages import SlotMessage

HEAD_BYTES = 4096 + 5 * MAX_ROSTER
"""Room for everything in a message but its vector."""
MAX_FIELDS = 23
MAX_ITEMS = 2 * MAX_ROSTER
Buffer = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Task:
    """Server to client: take part in this session and do this work.

    work: "update" or "gradient", or a sketch of either. model: name of the model to start from, or of the work to sketch.
    vector: that model as little-endian float32, empty where clients own it. The session's fields ride along so that the
    client can check them against its policy.
    """

    kind: ClassVar[int] = 1
    protocol: str
    run: bytes
    round: int
    cluster: str
    roster: tuple[int, ...]
    threshold: int
    work: str
    model: str
    vector: bytes = field(repr=False)

    def __post_init__(self) -> None:
        text(self.protocol, 64, "protocol")
        octets(self.run, RUN_BYTES, RUN_BYTES, "run")
        integer(self.round, 0, 2**31 - 1, "round")
        text(self.cluster, 256, "cluster")
        if not isinstance(self.roster, tuple) or not 0 < len(self.roster) <= MAX_ROSTER:
            raise ValueError("roster is not a list of clients")
        for client in self.roster:
            integer(client, 0, MAX_ID, "client")
        integer(self.threshold, 1, MAX_ROSTER, "threshold")
        text(self.work, 32, "work")
        text(self.model, 256, "model")
        words(self.vector, 0, "vector")


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
class Advertise:
    """Client to server: a one-session X25519 key, signed by the client's identity."""

    kind: ClassVar[int] = 4
    public: bytes
    signature: bytes

    def __post_init__(self) -> None:
        octets(self.public, 32, 32, "public key")
        octets(self.signature, 64, 64, "signature")


@dataclass(frozen=True, slots=True)
class Roster:
    """Server to the leader: the keys and signatures that the clients advertised, in the order of the session's roster."""

    kind: ClassVar[int] = 5
    publics: tuple[bytes, ...]
    signatures: tuple[bytes, ...]

    def __post_init__(self) -> None:
        for name, values, size in (("public keys", self.publics, 32), ("signatures", self.signatures, 64)):
            if not isinstance(values, tuple) or not 0 < len(values) <= MAX_ROSTER:
                raise ValueError(f"{name} are not a list")
            for value in values:
                octets(value, size, size, name)


@dataclass(frozen=True, slots=True)
class SealedSeed:
    """Leader to one client, relayed by the server: the seed sealed to the client's key, with the leader's signed key."""

    kind: ClassVar[int] = 6
    member: int
    public: bytes
    signature: bytes
    sealed: bytes = field(repr=False)

    def __post_init__(self) -> None:
        integer(self.member, 0, MAX_ID, "member")
        octets(self.public, 32, 32, "public key")
        octets(self.signature, 64, 64, "signature")
        octets(self.sealed, 48, 48, "sealed seed")


@dataclass(frozen=True, slots=True)
class Ready:
    """Client to server: the work is done, and stays here."""

    kind: ClassVar[int] = 7


Message = (
    Task
    | Upload
    | Mean
    | Advertise
    | Roster
    | SealedSeed
    | Ready
    | ChoosingMessage
    | MaskedMessage
    | TwoServerMessage
    | SlotMessage
    | EncryptedMessage
    | ReceiverOpenedMessage
    | PairMessage
)
_SHORT_HEADS = tuple(bytes([head]) for head in range(256))
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
    pieces: list[Buffer] = []
    _put(_items(envelope), pieces)
    return b"".join(pieces)  # joined once: cbor2 would copy a vector several times


def _put(value: Any, pieces: list[Buffer]) -> None:
    """Append the deterministic CBOR of an integer, a string of bytes or text, or a tuple of them."""
    kind = type(value)
    if kind is int:
        pieces.append(_item_head(0, value) if value >= 0 else _item_head(1, -1 - value))
    elif kind is bytes or kind is memoryview:
        pieces += (_item_head(2, len(value)), value)
    elif kind is str:
        encoded = value.encode()
        pieces += (_item_head(3, len(encoded)), encoded)
    else:
        pieces.append(_item_head(4, len(value)))
        for item in value:
            _put(item, pieces)


def _item_head(major: int, argument: int) -> bytes:
    """The shortest head."""
    if argument < 24:
        return _SHORT_HEADS[major << 5 | argument]
    log = 0 if argument < 1 << 8 else 1 if argument < 1 << 16 else 2 if argument < 1 << 32 else 3
    return _SHORT_HEADS[major << 5 | 24 + log] + argument.to_bytes(1 << log, "big")


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


def _check_shape(data: bytes) -> None:
    """Refuse, before anything is built, all but one short list of integers, strings and flat lists of at most MAX_ITEMS."""
    major, left, at = _head(data, 0)
    if major != 4 or left > MAX_FIELDS:
        raise ValueError("not a message of this version")
    listed = nested = 0  # items in inner lists so far; items left of the current one
    while left:
        major, argument, at = _head(data, at)
        left -= 1
        if major in (2, 3):
            at += argument
        elif major == 4:
            listed += argument
            if nested or listed > MAX_ITEMS:
                raise ValueError("a list is nested or too long")
            left, nested = left + argument, argument + 1
        elif major > 4:
            raise ValueError("maps, tags, floats and simple values are not part of any message")
        nested = max(nested - 1, 0)


def _built(data: bytes, at: int, lent: bool = False) -> tuple[Any, int]:
    """The item at this offset of data of the right shape, lists as tuples, and the offset behind it.

    Strings of bytes are copied once or, where `lent`, are a view of the data. Raises ValueError for data that end early.
    """
    major, argument, at = _head(data, at)
    match major:
        case 0:
            return argument, at
        case 1:
            return -1 - argument, at
        case 4:
            items = []
            for _ in range(argument):
                item, at = _built(data, at)
                items.append(item)
            return tuple(items), at
    content = memoryview(data)[at : at + argument] if lent else data[at : at + argument]
    if len(content) != argument:
        raise ValueError("it ends early")
    return (str(content, "utf-8") if major == 3 else content), at + argument


def first_items(data: bytes, count: int) -> tuple[Any, ...]:
    """The first items of an encoded envelope, from its version on: for whoever looks at frames without taking them in."""
    items, _ = _several(data, _head(data, 0)[2], count)
    return items


def _several(data: bytes, at: int, count: int, lent: bool = False) -> tuple[tuple[Any, ...], int]:
    items = []
    for _ in range(count):
        item, at = _built(data, at, lent)
        items.append(item)
    return tuple(items), at


def decode(data: bytes, link: int, max_bytes: int) -> Envelope:
    """The envelope in `data`, which came over the link of party `link`. Allocates no more than a few times `max_bytes`.

    A message whose class says that its vector is `lent` holds a view of `data` instead of a copy. Raises ProtocolError
    blaming `link` for anything but the deterministic encoding of a well-formed message.
    """
    if len(data) > max_bytes:
        raise ProtocolError(f"a message of {len(data)} bytes is over the limit of {max_bytes}", link)
    try:
        _check_shape(data)
        _, count, at = _head(data, 0)
        if count < 5:
            raise ValueError("not a message of this version")
        (version, session, sender, receiver, kind), at = _several(data, at, 5)
        if version != VERSION:
            raise ValueError("not a message of this version")
        if type(kind) is not int or kind not in _KINDS:
            raise ValueError("unknown kind of message")
        body, at = _several(data, at, count - 5, getattr(_KINDS[kind], "lent", False))
        if at != len(data):
            raise ValueError("something follows it")
        envelope = Envelope(session, sender, receiver, _KINDS[kind](*body))
    except (ValueError, TypeError, OverflowError) as error:
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise ProtocolError(f"a message does not decode: {reason}", link) from None
    return envelope
