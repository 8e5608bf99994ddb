"""The client of the masked sum: it masks one input, and helps to open the sum of one survivor set.

Spec: specs/masked_sum.md. Phases: Idle -> Advertised -> Shared -> Checked -> Masking -> Masked -> Signed ->
Idle; a Deadline leads back to Idle from everywhere. The round is stored as spent before the first message, so a
client that restarts takes no further part in a session that it was in: it sends one input and one answer per session, or none.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ...crypto.agreement import AgreementKey, UnusableKey
from ...crypto.identity import BadSignature
from ...crypto.prg import derive_key
from ...crypto.sealing import SealingKey
from ..core.errors import ProtocolError
from ..core.session import SERVER
from ..drivers.roles import Deadline, Effect, Event, Persist, Received, Worked
from ..wire.codec import Envelope
from ..wire.messages import MOST_REASON, Declined
from .client_phases import Advertised, Checked, Idle, Masked, Masking, Secrets, Shared, Signed, to_server
from .client_shares import receive, settle, share
from .joined import MOST_JOINED, is_name, join, kind_of, rounds_held
from .messages import (
    MaskedInput,
    MaskKeys,
    MaskWith,
    NeighbourKeys,
    Proposal,
    RelayedShares,
    Reveal,
    Survivors,
    SurvivorSignature,
    UnmaskRequest,
)
from .terms import NO_UPDATE, Plan, masked, sign_of, survivors_and_head
from .transcript import KEY, Transcript

__all__ = ["Idle", "client_step"]


def client_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The client's role. Raises ProtocolError for messages against its policy, out of order or not what they should be."""
    match state, event:
        case _, Received(Envelope(sender=sender)) if sender != SERVER:
            raise ProtocolError("a message that is not the server's", sender)
        case _, Received(Envelope(message=Proposal() as proposal)) if _old(state, proposal):
            return state, ()
        case Idle(), Received(Envelope(message=Proposal() as proposal, session=session)):
            return _join(state, session, proposal)
        case Idle(), Deadline():
            return state, ()
        case ((Advertised() | Shared() | Checked() | Masking() | Masked() | Signed()), Deadline()):
            left = state.idle.left(isinstance(state, Masked | Signed))
            return left, _spent(left)
        case (
            (Advertised() | Shared() | Checked() | Masking() | Masked() | Signed()),
            Received(Envelope(session=session)),
        ) if session != state.plan.session.digest:
            raise ProtocolError("a message of another session", SERVER)
        case Advertised(), Received(Envelope(message=NeighbourKeys() as keys)):
            return share(state, keys)
        case Shared(), Received(Envelope(message=RelayedShares() as relayed)):
            return receive(state, relayed)
        case Checked(), Received(Envelope(message=MaskWith(neighbours=neighbours))):
            return settle(state, neighbours)
        case Masking(), Worked(vector=vector):
            return _mask(state, vector)
        case Masked(), Received(Envelope(message=Survivors() as survivors)):
            return _sign(state, survivors.alive)
        case Signed(), Received(Envelope(message=UnmaskRequest() as request)):
            return _reveal(state, request)
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def _old(state: Any, proposal: Proposal) -> bool:
    """Whether a proposal is of a round before the latest that the client joined a sum of: late, or sent again, and no fault."""
    idle = state if isinstance(state, Idle) else state.idle
    return proposal.run == idle.charter.run and proposal.round < idle.round


def _join(state: Idle, digest: bytes, proposal: Proposal) -> tuple[Idle | Advertised, tuple[Effect, ...]]:
    """Stage 0 and 1: check the terms, spend the round, advertise two keys; or decline what noise does not cover or pay for."""
    try:
        plan = Plan.proposed(proposal, state.charter)
    except ValueError as error:
        raise ProtocolError(f"a proposal that cannot be: {error}", SERVER) from None
    session, update = plan.session, plan.terms.update
    if not is_name(session.protocol):
        raise ProtocolError("a proposal of another protocol", SERVER)
    held = rounds_held(session.protocol, state.updates)
    problems = {
        "a proposal under another session's digest": session.digest != digest,
        "a proposal of another run": session.run != state.charter.run,
        "a proposal for others": state.me not in session.roster,
        "a proposal for a round already taken": session.round < state.next_round.get(session.protocol, 0),
        "more sums than one round has": len(state.next_round) >= MOST_JOINED and session.round == state.round,
        "a proposal for another model than the one received": plan.terms.model != state.model,
        "a proposal of a sum of no update": update == NO_UPDATE and kind_of(session.protocol) not in state.policy.unheld,
        "a proposal about an update that this client does not hold": update != NO_UPDATE and update not in held,
        "a proposal about an update of another round": held.get(update, session.round) != session.round,
        "a roster with a client that is not enrolled": any(i not in plan.enrolled for i in session.roster),
    }
    for reason in (*(r for r, found in problems.items() if found), *state.policy.problems(session, plan.terms)):
        raise ProtocolError(reason, SERVER)
    try:
        transcript = state.transcript.at(session.round)
        transcript.giving(plan, state.policy.rules)
        spending = None if state.spending is None else state.spending.joining(plan, state.next_round)
    except ValueError as error:
        raise ProtocolError(str(error), SERVER) from None
    if isinstance(spending, str):
        return state, (to_server(plan, state.me, Declined(spending[:MOST_REASON])),)
    joined, spent = join(state.next_round, session.protocol, session.round, transcript.steps)
    idle = replace(state, next_round=joined, transcript=transcript, spending=spending)
    root = state.entropy.secret(f"masked sum {state.me} {plan.binding.hex()}", 32)
    seed, mask, seal = (derive_key(root, purpose, plan.binding) for purpose in ("self seed", "mask key", "sealing key"))
    secrets = Secrets(seed, AgreementKey(mask, state.exchange), SealingKey(seal, state.exchange))
    publics = secrets.mask.public, secrets.seal.public
    keys = MaskKeys(*publics, state.identity.sign("masked sum keys", plan.binding, b"".join(publics)))
    return Advertised(idle, plan, secrets), (*_spent(idle), spent, to_server(plan, state.me, keys))


def _mask(state: Masking, vector: Any) -> tuple[Masked, tuple[Effect, ...]]:
    """Stage 4: y = x + PRG(b_i) + sum over neighbours of +-PRG(s_ij) (Bonawitz et al. 2017, fig. 4, round 2).

    Raises ValueError for a vector that is not an input under the session's terms: its sum could wrap around.
    """
    me, plan, terms = state.idle.me, state.plan, state.plan.terms
    if not isinstance(vector, np.ndarray) or vector.dtype != terms.dtype or vector.shape != (terms.length,):
        raise ValueError(f"an input is a vector of {terms.length} uint{terms.ring_bits}")
    if int(vector.max()) > terms.largest:
        raise ValueError(f"an input holds {int(vector.max())}, more than the {terms.largest} that cannot wrap around")
    try:
        pairs = state.secrets.mask.agree([(public, plan.pair(me, i)) for i, public in state.masking.items()], "pair mask")
    except UnusableKey:
        raise ProtocolError("a mask key that nothing can be agreed on with", SERVER) from None
    own = (plan.self_mask_key(me, state.secrets.self_seed), 1)
    y = masked(vector, [own, *((key, sign_of(me, i)) for key, i in zip(pairs, state.masking, strict=True))])
    sent = y.astype(terms.wire, copy=False)
    sent.flags.writeable = False
    transcript = state.idle.transcript.gave(plan, state.idle.policy.rules)
    masked_state = Masked(replace(state.idle, transcript=transcript), plan, tuple(state.masking), state.held)
    return masked_state, (_stored(transcript), to_server(plan, me, MaskedInput(sent.data.cast("B"))))


def _stored(transcript: Transcript) -> Persist:
    return Persist(KEY, transcript.entry)


def _spent(idle: Idle) -> tuple[Persist, ...]:
    return () if idle.spending is None else (idle.spending.stored,)


def _sign(state: Masked, alive: tuple[int, ...]) -> tuple[Signed, tuple[Effect, ...]]:
    """Stage 5: sign the one survivor set that it is shown, unless its sum and earlier ones show what too few clients sent."""
    me, plan = state.idle.me, state.plan
    if not set(alive) <= set(plan.session.roster) or me not in alive:
        raise ProtocolError("a survivor set with strangers or without this client", SERVER)
    if not set(alive).intersection(plan.graph.neighbours(me)) <= set(state.neighbours):
        raise ProtocolError("a survivor set with a neighbour that this client did not mask with", SERVER)
    if len(alive) < plan.session.threshold:
        raise ProtocolError(f"a survivor set of {len(alive)} where {plan.session.threshold} are needed", SERVER)
    try:
        transcript = state.idle.transcript.signed(plan, alive, state.idle.policy.rules)
    except ValueError as error:
        raise ProtocolError(str(error), SERVER) from None
    content = survivors_and_head(alive, transcript.head)
    signature = state.idle.identity.sign("masked sum survivors", plan.binding, content)
    signed = Signed(replace(state.idle, transcript=transcript), plan, state.neighbours, state.held, alive)
    return signed, (_stored(transcript), to_server(plan, me, SurvivorSignature(signature, transcript.head)))


def _reveal(state: Signed, request: UnmaskRequest) -> tuple[Idle, tuple[Effect, ...]]:
    """Stage 6: if t neighbours signed the same set, one share of each neighbour: alive or dropped by that set, never both."""
    plan, alive = state.plan, frozenset(state.alive)
    if not set(request.signers) <= alive & set(state.neighbours):
        raise ProtocolError("signatures of clients that are not neighbours in the survivor set", SERVER)
    if len(request.signers) < plan.terms.threshold:
        raise ProtocolError(f"{len(request.signers)} neighbours signed where {plan.terms.threshold} are needed", SERVER)
    for signer, signature, head in zip(request.signers, request.signatures, request.heads, strict=True):
        content = survivors_and_head(state.alive, head)
        try:
            state.idle.verify(plan.enrolled[signer], signature, "masked sum survivors", plan.binding, content)
        except BadSignature:
            raise ProtocolError(f"client {signer} did not sign this survivor set", SERVER) from None
    survived = tuple(i for i in sorted(state.held) if i in alive)
    dropped = tuple(i for i in sorted(state.held) if i not in alive)
    reveal = Reveal(
        survived,
        tuple(state.held[i].seed.encode() for i in survived),
        dropped,
        tuple(state.held[i].key.encode() for i in dropped),
    )
    spending = state.idle.spending
    idle = replace(state.idle, spending=None if spending is None else spending.agreed(len(alive)))
    return idle, (*_spent(idle), to_server(plan, idle.me, reveal))
