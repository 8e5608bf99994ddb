"""The server's role where clients hold the models: it says what is to be made, lent and forgotten, and hears who did.

Spec: specs/owned_models.md. The client's half: work/owned.py. Phases: Moving -> Moved.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.errors import ProtocolError
from ..core.session import Session
from ..drivers.roles import Deadline, Effect, Event, Received
from ..wire.codec import Envelope
from ..wire.recipes import Holds, Lent

PROTOCOL = "owned models"


@dataclass(frozen=True, slots=True)
class Moving:
    """The server while clients do as they were told. asked: of whom a model is to be lent, by name. holding: what clients say
    that they hold. lent: by name, still sealed.
    """

    session: Session
    asked: Mapping[str, int] = field(default_factory=dict)
    holding: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    lent: Mapping[str, Lent] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Moved:
    """The server after the deadline: who holds what, and what was lent."""

    session: Session
    holding: Mapping[int, tuple[str, ...]]
    lent: Mapping[str, Lent] = field(repr=False)


def server_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """Raises ProtocolError blaming the client for what it was not asked."""
    match state, event:
        case Moving(), Received(Envelope(message=Holds(names), sender=client)):
            if client not in state.session.roster:
                raise ProtocolError("a word from outside the roster", client)
            return replace(state, holding={**state.holding, client: (*state.holding.get(client, ()), *names)}), ()
        case Moving(), Received(Envelope(message=Lent() as lent, sender=client)):
            if state.asked.get(lent.name) != client or lent.lender != client:
                raise ProtocolError("a model that it was not asked for", client)
            return replace(state, lent={**state.lent, lent.name: lent}), ()
        case Moving(), Deadline():
            return Moved(state.session, state.holding, state.lent), ()
        case Moved(), Received(Envelope(message=(Holds() | Lent()), sender=client)):
            raise ProtocolError("a word after the deadline", client)
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")
