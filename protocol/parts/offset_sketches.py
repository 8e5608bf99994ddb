"""The server of sketches behind an offset: one from each client, 8 bytes a number, kept as they came.

Spec: specs/sketch.md. Phases: CollectingSketches -> SketchesCollected. The client's role is that of upload_client.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...crypto.offset_sketch import Words
from ..core.errors import ProtocolError
from ..core.session import Session
from ..drivers.roles import Deadline, Effect, Event, Received
from ..wire.codec import Envelope
from ..wire.messages import OffsetSketched


def to_words(sketch: Words) -> bytes:
    """uint64 as little-endian bytes."""
    return sketch.astype("<u8", copy=False).tobytes()


def from_words(data: bytes) -> Words:
    """Little-endian bytes as uint64. Raises ValueError if they are not whole words."""
    return np.frombuffer(data, dtype="<u8").astype(np.uint64, copy=False)


@dataclass(frozen=True, slots=True)
class CollectingSketches:
    """The server while sketches arrive. length: of a sketch."""

    session: Session
    length: int
    received: Mapping[int, Words] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class SketchesCollected:
    """The server after the deadline: the survivors' sketches, ascending."""

    session: Session
    received: Mapping[int, Words] = field(repr=False)


def server_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The server's role. Raises ProtocolError blaming the client for a sketch that is misplaced, repeated or malformed."""
    match state, event:
        case CollectingSketches(), Received(Envelope(message=OffsetSketched() as sketched, sender=client)):
            if client not in state.session.roster:
                raise ProtocolError("a sketch from outside the roster", client)
            if client in state.received:
                raise ProtocolError("a second sketch in one session", client)
            if len(sketched.words) != 8 * state.length:
                raise ProtocolError(f"a sketch of {len(sketched.words)} bytes where {8 * state.length} belong", client)
            return replace(state, received={**state.received, client: from_words(sketched.words)}), ()
        case CollectingSketches(), Deadline():
            return SketchesCollected(state.session, dict(sorted(state.received.items()))), ()
        case SketchesCollected(), Received(Envelope(message=OffsetSketched(), sender=client)):
            raise ProtocolError("a sketch after the deadline", client)
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")
