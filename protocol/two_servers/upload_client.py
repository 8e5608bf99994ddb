"""The client of an upload to two servers: it shares its update between them.

Spec: specs/two_servers.md, steps 1 to 3. Phases: IdleSharer -> OwingShares -> IdleSharer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...crypto.additive import share
from ...crypto.entropy import Entropy
from ...crypto.pedersen import BLINDING_BYTES, COMMITMENT_BYTES, pedersen
from ..core.errors import ProtocolError
from ..core.session import SECOND_SERVER, SERVER, Session
from ..drivers.roles import Deadline, Effect, Event, Perform, Persist, Received, Send, Worked
from ..wire.codec import Envelope
from ..wire.messages import Task
from ..work.uploads import Policy
from .messages import ExplicitShare, KeyShare, Withheld
from .one_model import started_from
from .slot_messages import SlotKey, SlotShare
from .slot_terms import SharedSlots
from .terms import ShareTerms, TooLarge
from .upload import admitted, is_old, slots_of, to_words


@dataclass(frozen=True, slots=True)
class IdleSharer:
    """A client between sessions. next_round: the earliest round it still takes part in, per kind of work, as persisted.

    entropy: where the keys of its shares come from; each is of one session.
    """

    me: int
    run: bytes
    terms: ShareTerms
    policy: Policy
    entropy: Entropy = field(repr=False)
    next_round: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OwingShares:
    """A client that has taken a task and owes the servers its shares. model: what its work starts from, as `started_from` gives
    it. slots: what they are about, if it is slots.
    """

    idle: IdleSharer
    session: Session
    model: bytes
    slots: SharedSlots | None


def client_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The client's role. Raises ProtocolError blaming the server for a task against its policy or out of order."""
    match state, event:
        case IdleSharer(run=run, next_round=spent), Received(Envelope(message=Task() as task, sender=sender)) if is_old(
            task, sender, run, spent
        ):
            return state, ()
        case IdleSharer(), Received(Envelope(message=Task() as task) as envelope):
            session = admitted(envelope, task, state.run, state.policy, state.next_round)
            if state.me not in session.roster:
                raise ProtocolError("a task for others", envelope.sender)
            model = started_from(task, state.terms.length)
            idle = replace(state, next_round={**state.next_round, task.work: task.round + 1})
            stored = Persist(f"next round {task.work}", (task.round + 1).to_bytes(4, "big"))
            return OwingShares(idle, session, model, slots_of(task, state.terms)), (stored, Perform(task))
        case OwingShares(), Worked(vector=vector, samples=samples):
            return state.idle, _shares(state, vector, samples)
        case OwingShares(), Deadline():
            return state.idle, ()
        case IdleSharer(), Deadline():
            return state, ()
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def _shares(state: OwingShares, vector: NDArray[np.float32], samples: int) -> tuple[Effect, ...]:
    """Both shares of the update, or word to the server that there are none."""
    idle, digest = state.idle, state.session.digest
    slots = state.slots
    terms, binding = (slots.terms, slots.binding(state.session)) if slots else (idle.terms, idle.terms.binding(state.session))
    try:
        encoded = terms.encode(vector)
    except TooLarge:
        return (Send(Envelope(digest, idle.me, SERVER, Withheld(binding))),)
    key = idle.entropy.secret(f"two servers {idle.me} {binding.hex()}", 32)
    explicit, _ = share(encoded, terms.radius, key)
    if slots:
        blinding = idle.entropy.secret(f"two servers {idle.me} slots {binding.hex()}", BLINDING_BYTES)
        counts = slots.committed(explicit.values[: slots.count].tolist(), blinding)
        commitment = pedersen(counts, int.from_bytes(blinding, "big")).to_bytes(COMMITMENT_BYTES, "big")
        slot_key = SlotKey(binding, key, commitment, state.model)
        return (
            Send(Envelope(digest, idle.me, SECOND_SERVER, slot_key)),
            Send(Envelope(digest, idle.me, SERVER, SlotShare(binding, to_words(explicit.values), blinding))),
        )
    return (
        Send(Envelope(digest, idle.me, SECOND_SERVER, KeyShare(binding, key, state.model))),
        Send(Envelope(digest, idle.me, SERVER, ExplicitShare(binding, to_words(explicit.values), samples))),
    )
