"""A word that the server says to many alike is encoded once and built once, where all of them are in one process.

Their frames are the same bytes but for the receiver. What `decode` checks of such a frame it checked when the first one came, but
for its size, its receiver, and that it is the same; and messages are immutable, so that all may hold one.
"""

from contextlib import suppress
from dataclasses import dataclass, field

import cbor2

from ..core.session import VERSION
from .codec import Buffer, Envelope, Kinds, decode, encode, head_at, head_of


@dataclass(frozen=True, slots=True)
class _Last:
    """An envelope of a server for a client, and its encoding up to the receiver and behind it."""

    envelope: Envelope
    before: bytes = field(repr=False)
    after: memoryview = field(repr=False)

    def same(self, other: Envelope) -> bool:
        """Whether the other is the same but for its receiver."""
        of = self.envelope
        return other.message is of.message and (other.session, other.sender) == (of.session, of.sender)

    def receiver_in(self, data: bytes) -> int | None:
        """The receiver in a frame that is the same but for it; None of any other. Raises ValueError where it is no number."""
        if not (data.startswith(self.before) and data.endswith(self.after)):
            return None
        major, receiver, behind = head_at(data, len(self.before))
        return receiver if major == 0 and behind + len(self.after) == len(data) else None


class ToMany:
    """The last such word that was encoded, and the last that was decoded."""

    def __init__(self) -> None:
        self._encoded: _Last | None = None
        self._decoded: _Last | None = None

    def encode(self, envelope: Envelope) -> bytes:
        """As `codec.encode`."""
        last = self._encoded
        if last is not None and envelope.receiver >= 0 and last.same(envelope):
            return b"".join((last.before, head_of(0, envelope.receiver), last.after))
        data = encode(envelope)
        if envelope.sender < 0 <= envelope.receiver:
            self._encoded = _parted(envelope, data)
        return data

    def decode(self, data: Buffer, link: int, max_bytes: int, kinds: Kinds) -> Envelope:
        """As `codec.decode`, with the same kinds as before."""
        last = self._decoded
        if last is not None and last.envelope.sender == link and type(data) is bytes and len(data) <= max_bytes:
            with suppress(ValueError):
                if (receiver := last.receiver_in(data)) is not None:
                    return Envelope(last.envelope.session, link, receiver, last.envelope.message)
        envelope = decode(data, link, max_bytes, kinds)
        if envelope.sender == link < 0 <= envelope.receiver and type(data) is bytes:
            self._decoded = _parted(envelope, data)
        return envelope


def _parted(envelope: Envelope, data: bytes) -> _Last:
    """data: as `encode` makes it."""
    before = len(cbor2.dumps((VERSION, envelope.session, envelope.sender)))  # a short list's head is one byte, however long
    return _Last(envelope, data[:before], memoryview(data)[head_at(data, before)[2] :])
