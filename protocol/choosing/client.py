"""The client of a choice: it tries the models that it is offered on its own data, and names the one that serves it best.

Spec: specs/choosing.md. Phases: IdleChooser -> OwingChoice -> IdleChooser. A choice is a report: nothing ties it to the client's
data, and a client that lies about it is not found out.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.errors import ProtocolError
from ..core.session import SERVER, Session
from ..drivers.roles import Deadline, Effect, Event, Judge, Judged, Persist, Received, Send
from ..wire.codec import Envelope
from .messages import KIND, PROTOCOL, Choice, Offer


@dataclass(frozen=True, slots=True)
class ChoosingPolicy:
    """What a client insists on. max_models: most models in an offer: a choice among k tells log2(k) bits about its data."""

    max_models: int = 256


@dataclass(frozen=True, slots=True)
class IdleChooser:
    """A client between offers. next_round: the earliest round in which it still chooses; never twice in a round.

    length: coordinates of a model. holds: whether it holds a model of this name; None where models come with the offer.
    """

    me: int
    run: bytes
    policy: ChoosingPolicy
    length: int
    holds: Callable[[str], bool] | None = field(repr=False)
    next_round: int = 0


@dataclass(frozen=True, slots=True)
class OwingChoice:
    """A client that has taken an offer of `count` models and owes the server its choice."""

    idle: IdleChooser
    session: Session
    count: int


def client_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The client's role. Raises ProtocolError blaming the server for an offer against its policy or out of order."""
    match state, event:
        case ((IdleChooser() | OwingChoice()), Received(Envelope(message=Offer() as offer, sender=sender))) if _old(
            state, offer, sender
        ):
            return state, ()
        case IdleChooser(), Received(Envelope(message=Offer() as offer) as envelope):
            session = _checked(state, envelope, offer)
            idle = replace(state, next_round=offer.round + 1)
            stored = Persist(f"next round {KIND}", (offer.round + 1).to_bytes(4, "big"))
            return OwingChoice(idle, session, len(offer.names)), (stored, Judge(offer))
        case OwingChoice(), Judged(index):
            if not 0 <= index < state.count:
                raise ValueError(f"a choice of model {index} among {state.count}")
            return state.idle, (Send(Envelope(state.session.digest, state.idle.me, SERVER, Choice(index))),)
        case OwingChoice(), Deadline():
            return state.idle, ()
        case IdleChooser(), Deadline():
            return state, ()
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def _old(state: IdleChooser | OwingChoice, offer: Offer, sender: int) -> bool:
    """Whether an offer is of a round before the latest that the client chose in: late, or sent again, and no fault."""
    idle = state if isinstance(state, IdleChooser) else state.idle
    return sender == SERVER and offer.run == idle.run and offer.round + 1 < idle.next_round


def _checked(state: IdleChooser, envelope: Envelope, offer: Offer) -> Session:
    try:
        session = offer.session
    except ValueError as error:
        raise ProtocolError(f"an offer without a valid session: {error}", envelope.sender) from None
    holds = state.holds
    problems = {
        "an offer that is not the server's": envelope.sender != SERVER,
        "an offer under another session's digest": session.digest != envelope.session,
        "an offer of another run": offer.run != state.run,
        "an offer of another protocol": offer.protocol != PROTOCOL,
        "an offer for others": state.me not in offer.roster,
        "an offer for a round already answered": offer.round < state.next_round,
        f"an offer of more than the policy's {state.policy.max_models} models": len(offer.names) > state.policy.max_models,
        "an offer without its models": holds is None and not offer.vectors,
        "an offer of a model of another length": holds is None and any(len(v) != 4 * state.length for v in offer.vectors),
        "an offer of the server's models where clients own them": holds is not None and bool(offer.vectors),
        "an offer of a model that is not held here": holds is not None and not all(map(holds, offer.names)),
    }
    for reason, found in problems.items():
        if found:
            raise ProtocolError(reason, envelope.sender)
    return session
