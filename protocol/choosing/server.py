"""The server of a choice: it offers models, and hears from each client which of them serves it best.

Spec: specs/choosing.md. Phases: CollectingChoices -> ChoicesCollected.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.errors import ProtocolError
from ..core.session import SERVER, Session
from ..drivers.roles import Deadline, Effect, Event, Received, Send
from ..wire.codec import Envelope
from .messages import Choice, Offer


@dataclass(frozen=True, slots=True)
class CollectingChoices:
    """The server while choices arrive. count: models in the offer. chosen: position of the model, by client."""

    session: Session
    count: int
    chosen: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChoicesCollected:
    """The server after the deadline: who chose what, clients ascending."""

    session: Session
    chosen: Mapping[int, int]


def offer(session: Session, names: Sequence[str], vectors: Sequence[bytes]) -> tuple[Effect, ...]:
    """The server's first move: the models, or their names alone, to every client on the session's roster."""
    message = Offer(*session.fields, tuple(names), tuple(vectors))
    return tuple(Send(Envelope(session.digest, SERVER, client, message)) for client in session.roster)


def server_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The server's role. Raises ProtocolError blaming the client for a choice that is misplaced, repeated or of no model."""
    match state, event:
        case CollectingChoices(), Received(Envelope(message=Choice(index), sender=client)):
            if client not in state.session.roster or client in state.chosen:
                raise ProtocolError("a choice from outside the roster, or a second one", client)
            if index >= state.count:
                raise ProtocolError(f"a choice of model {index} among {state.count}", client)
            return replace(state, chosen={**state.chosen, client: index}), ()
        case CollectingChoices(), Deadline():
            return ChoicesCollected(state.session, dict(sorted(state.chosen.items()))), ()
        case ChoicesCollected(), Received(Envelope(message=Choice(), sender=client)):
            raise ProtocolError("a choice after the deadline", client)
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")
