"""Scores: a server asks clients how well they predict, and each says so or not. Spec: specs/scores.md.

Server phases: CollectingScores -> ScoresCollected. The client's half is in work/participant.py: it says so once a round, and by
`Setup.scorer` alone.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..core.errors import ProtocolError
from ..core.session import Session
from ..drivers.roles import Deadline, Effect, Event, Received
from ..view.work import LocalScore
from ..wire.codec import Envelope
from ..wire.scores import Score

PROTOCOL = "scores"
NOTHING = Score(0)
"""What a client says that does not tell."""


@dataclass(frozen=True, slots=True)
class CollectingScores:
    """The server while clients answer. asked: how many models each was asked about. told: what clients said."""

    session: Session
    asked: Mapping[int, int]
    told: Mapping[int, Score] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScoresCollected:
    """The server after the deadline."""

    session: Session
    told: Mapping[int, Score]


def server_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """Raises ProtocolError blaming the client for what it was not asked."""
    match state, event:
        case CollectingScores(), Received(Envelope(message=Score() as score, sender=client)):
            if client not in state.asked or score.which >= state.asked[client]:
                raise ProtocolError("a score that it was not asked for", client)
            if client in state.told:
                raise ProtocolError("a second score", client)
            return replace(state, told={**state.told, client: score}), ()
        case CollectingScores(), Deadline():
            return ScoresCollected(state.session, state.told), ()
        case ScoresCollected(), Received(Envelope(message=Score(), sender=client)):
            raise ProtocolError("a score after the deadline", client)
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def score_of(found: LocalScore | None) -> Score:
    """What a client says of what it found; None: nothing."""
    if found is None:
        return NOTHING
    loss = found.loss if np.isfinite(found.loss) and found.loss > 0 else 0.0 if found.loss <= 0 else np.inf
    return Score(found.targets, found.right, struct.pack(">d", loss), found.which)
