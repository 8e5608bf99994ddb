"""The server of the masked sum: it relays sealed shares, adds masked inputs as they come, and opens one sum.

Spec: specs/masked_sum.md. Phases: Advertising -> Sharing -> Accepting -> Summing -> Agreeing -> Unmasking
-> Unmasked, one Deadline each; from each of them to NoSum. Whoever has not answered by a stage's deadline has dropped out.
"""

from typing import Any

from ..core.errors import ProtocolError
from ..drivers.roles import Deadline, Effect, Event, Received
from ..wire.codec import Envelope
from .messages import Accepted, MaskedInput, MaskKeys, Reveal, SealedShares, SurvivorSignature
from .server_opening import add, ask, open_sum, show_survivors, take_reveal, take_signature
from .server_phases import (
    Accepting,
    Advertising,
    Agreeing,
    NoSum,
    Sharing,
    Summing,
    Unmasked,
    Unmasking,
    to_client,
)
from .server_setup import relay, settle, show_keys, take_accepted, take_keys, take_shares
from .terms import Plan

__all__ = ["Advertising", "NoSum", "Unmasked", "propose", "server_step"]


def propose(plan: Plan) -> tuple[Effect, ...]:
    """The server's first move: the proposal to every client on the roster."""
    proposal = plan.proposal
    return tuple(to_client(plan, client, proposal) for client in plan.session.roster)


def server_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The server's role. Raises ProtocolError blaming the client for what is misplaced, repeated, malformed or unsigned."""
    match state, event:
        case Advertising(), Received(Envelope(message=MaskKeys() as keys, sender=client)):
            return take_keys(state, client, keys), ()
        case Advertising(), Deadline():
            return show_keys(state)
        case Sharing(), Received(Envelope(message=SealedShares() as shares, sender=client)):
            return take_shares(state, client, shares), ()
        case Sharing(), Deadline():
            return relay(state)
        case Accepting(), Received(Envelope(message=Accepted(dealers=dealers), sender=client)):
            return take_accepted(state, client, dealers), ()
        case Accepting(), Deadline():
            return settle(state)
        case Summing(), Received(Envelope(message=MaskedInput(vector=vector), sender=client)):
            return add(state, client, vector), ()
        case Summing(), Deadline():
            return show_survivors(state)
        case Agreeing(), Received(Envelope(message=SurvivorSignature() as said, sender=client)):
            return take_signature(state, client, said), ()
        case Agreeing(), Deadline():
            return ask(state)
        case Unmasking(), Received(Envelope(message=Reveal() as reveal, sender=client)):
            return take_reveal(state, client, reveal), ()
        case Unmasking(), Deadline():
            return open_sum(state), ()
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")
