"""What parties send: frozen dataclasses with one deterministic CBOR encoding (RFC 8949; schema in messages.cddl).

The bytes that are sent are the bytes that are counted and recorded. Decoding checks the size and the shape before it builds
anything, refuses maps, tags, indefinite lengths and any encoding but the deterministic one, and checks every field.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, ClassVar, get_args

from .choosing.messages import ChoosingMessage
from .encrypted.messages import EncryptedMessage
from .errors import ProtocolError
from .masked.messages import MaskedMessage
from .message_fields import DIGEST_BYTES, integer, octets, text, words
from .pairs.messages import PairMessage
from .receiver_opened.messages import ReceiverOpenedMessage
from .session import DEALER, MAX_ID, MAX_ROSTER, RUN_BYTES, VERSION
from .two_servers.messages import TwoServerMessage
from .two_servers.slot_messages import SlotMessage

HEAD_BYTES = 4096 + 5 * MAX_ROSTER
"""Room for everything in a message but its vector."""
MAX_FIELDS = 23
MAX_ITEMS = 2 * MAX_ROSTER


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
        integer(self.samples, 1, 2**40, "samples")


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
    return b"".join(_pieces(_items(envelope)))  # joined once: cbor2 would copy a vector several times


def _encodes(envelope: Envelope, data: bytes) -> bool:
    """Whether `data` is the envelope's encoding; without building it a second time."""
    at = 0
    for piece in _pieces(_items(envelope)):
        if not data.startswith(piece, at):
            return False
        at += len(piece)
    return at == len(data)


def _pieces(value: Any) -> Iterator[bytes]:
    """Deterministic CBOR of integers, byte strings, texts and tuples of them, in pieces."""
    match value:
        case int():
            yield _item_head(0, value) if value >= 0 else _item_head(1, -1 - value)
        case bytes():
            yield _item_head(2, len(value))
            yield value
        case str():
            encoded = value.encode()
            yield _item_head(3, len(encoded))
            yield encoded
        case _:
            yield _item_head(4, len(value))
            for item in value:
                yield from _pieces(item)


def _item_head(major: int, argument: int) -> bytes:
    if argument < 24:
        return bytes([major << 5 | argument])
    log = next(log for log in range(4) if argument < 1 << (8 << log))
    return bytes([major << 5 | 24 + log]) + argument.to_bytes(1 << log, "big")


def _head(data: bytes, at: int) -> tuple[int, int, int]:
    """The CBOR item head at this offset: its major type, its argument and the offset behind it."""
    if at >= len(data):
        raise ValueError("it ends early")
    major, short = data[at] >> 5, data[at] & 31
    if short < 24:
        return major, short, at + 1
    if short > 27:
        raise ValueError("indefinite lengths are not part of any message")
    behind = at + 1 + (1 << (short - 24))
    return major, int.from_bytes(data[at + 1 : behind], "big"), behind


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


def _built(data: bytes, at: int) -> tuple[Any, int]:
    """The item at this offset of data of the right shape, lists as tuples, and the offset behind it. Copies strings once."""
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
    content = data[at : at + argument]
    if len(content) != argument:
        raise ValueError("it ends early")
    return (content if major == 2 else content.decode()), at + argument


def first_items(data: bytes, count: int) -> tuple[Any, ...]:
    """The first items of an encoded envelope, from its version on: for whoever looks at frames without taking them in."""
    _, _, at = _head(data, 0)
    items = []
    for _ in range(count):
        item, at = _built(data, at)
        items.append(item)
    return tuple(items)


def decode(data: bytes, link: int, max_bytes: int) -> Envelope:
    """The envelope in `data`, which came over the link of party `link`. Allocates no more than a few times `max_bytes`.

    Raises ProtocolError blaming `link` for anything but the deterministic encoding of a well-formed message.
    """
    if len(data) > max_bytes:
        raise ProtocolError(f"a message of {len(data)} bytes is over the limit of {max_bytes}", link)
    try:
        _check_shape(data)
        items, _ = _built(data, 0)
        if len(items) < 5 or items[0] != VERSION:
            raise ValueError("not a message of this version")
        _, session, sender, receiver, kind, *body = items
        if type(kind) is not int or kind not in _KINDS:
            raise ValueError("unknown kind of message")
        envelope = Envelope(session, sender, receiver, _KINDS[kind](*body))
        if not _encodes(envelope, data):
            raise ValueError("not in the deterministic encoding")
    except (ValueError, TypeError, OverflowError) as error:
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise ProtocolError(f"a message does not decode: {reason}", link) from None
    return envelope
