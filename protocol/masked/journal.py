"""The journal of a masked sum's server: what it stores before it sends, so that it goes on where it crashed.

Spec: specs/masked_sum.md, section Journal. `journalled_step` is `server_step` with a Persist before all else that an event leads
to: the message that was taken, or the number of stages that ended. The state follows from these. Inputs are not kept each: their
running total and whose they are is stored twice in a session. So the journal has the size of one input and small messages, the
bytes written that of two, and no secret is in it that the server's memory does not hold. A simulation that does not crash takes
`server_step`.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.session import SERVER
from ..drivers.roles import Deadline, Effect, Event, Persist, Received, Send
from ..parts.charter import Charter
from ..wire.codec import Envelope, decode, encode
from .messages import MESSAGES, Accepted, MaskedInput, MaskKeys, Proposal, Reveal, SealedShares, SurvivorSignature
from .server import propose, server_step
from .server_phases import Accepting, Advertising, Agreeing, NoSum, Sharing, Summing, Unmasked, Unmasking
from .terms import Plan

_STAGES = (MaskKeys, SealedShares, Accepted, MaskedInput, SurvivorSignature, Reveal)
"""What clients answer in each stage."""


def start(plan: Plan) -> tuple[Advertising, tuple[Effect, ...]]:
    """The server's first state and moves: it stores the proposal, then sends it."""
    stored = Persist(_key(plan.session.digest, "proposal"), encode(Envelope(plan.session.digest, SERVER, SERVER, plan.proposal)))
    return Advertising(plan), (stored, *propose(plan))


def journalled_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The server's role with a journal: `server_step`, and before its effects the entries from which the step follows.

    An input is stored with others, in the running total, when half of those that mask have sent theirs and at the deadline.
    """
    digest = state.plan.session.digest
    stored: tuple[Persist, ...] = ()
    if isinstance(state, Summing) and isinstance(event, Deadline):
        state = state.added()
        stored = (_total(state),) if len(state.alive) > _half(state) else ()
    after, effects = server_step(state, event)
    match event:
        case Received(Envelope(message=MaskedInput())):
            after = replace(after, marks=(*after.marks, event.mark))
            if len(after.alive) == _half(after):
                after = after.added()
                stored = (_total(after),)
        case Received(Envelope(sender=client, message=message) as envelope):
            stored = (Persist(_key(digest, f"{type(message).__name__} {client}"), encode(envelope)),)
        case _:
            stored = (*stored, Persist(_key(digest, "stages"), bytes([_stage(state) + 1])))
    return after, (*stored, *effects)


def resume(session: bytes, journal: Mapping[str, bytes], charter: Charter) -> tuple[Any, tuple[Effect, ...]]:
    """The state of the session of this digest after a crash, and what is to be sent (again) to clients that did not answer yet.

    journal: all that was persisted. charter: of the run. What was settled stays settled: the survivor set is stored
    before it is shown, so that a server that comes back asks for the same kind of share of each client. A message that was
    not stored is lost, unless its sender's driver sends it again; clients ignore what they are sent a second time, and the server
    what it stored, if its party is told (`taken`). Raises ValueError for a journal without this session's proposal, and for a
    broken one.
    """
    entries = _entries(session, journal)
    if "proposal" not in entries:
        raise ValueError("the journal has no proposal of this session: nothing was sent, so start it anew")
    proposal = _message(entries["proposal"], SERVER)
    if not isinstance(proposal.message, Proposal):
        raise ValueError("the journal's proposal is none")
    plan = Plan.proposed(proposal.message, charter)
    state, effects = Advertising(plan), propose(plan)
    ended = entries.get("stages", b"\0")[0]
    while not isinstance(state, Unmasked | NoSum):
        stage = _stage(state)
        if isinstance(state, Summing):
            state = _with_total(state, entries.get("total"))
        else:
            for message in _answers(entries, _STAGES[stage].__name__):
                state, _ = server_step(state, Received(message))
        if stage == ended:
            answered = _answered(state)
            return state, tuple(e for e in effects if not (isinstance(e, Send) and e.envelope.receiver in answered))
        state, effects = server_step(state, Deadline())
    return state, ()


def taken(session: bytes, journal: Mapping[str, bytes]) -> Iterator[tuple[bytes, int, bytes]]:
    """What the session of this digest had taken and stored, for the party that goes on: a duplicate of it is nobody's fault."""
    for key, value in _entries(session, journal).items():
        if key.startswith(tuple(f"{kind.__name__} " for kind in _STAGES)):
            yield session, int(key.partition(" ")[2]), hashlib.sha256(value).digest()
        elif key == "total":
            count = int.from_bytes(value[:4], "big")
            for at, client in enumerate(np.frombuffer(value, ">u4", count, 4).tolist()):
                yield session, client, value[4 + 4 * count + 32 * at :][:32]


def _entries(session: bytes, journal: Mapping[str, bytes]) -> dict[str, bytes]:
    prefix = _key(session, "")
    return {key.removeprefix(prefix): value for key, value in journal.items() if key.startswith(prefix)}


def _half(state: Summing) -> int:
    return (len(state.masks.dealt) + 1) // 2


def _key(session: bytes, name: str) -> str:
    return f"masked sum {session.hex()} {name}"


def _stage(state: Any) -> int:
    return (Advertising, Sharing, Accepting, Summing, Agreeing, Unmasking).index(type(state))


def _answered(state: Any) -> frozenset[int]:
    match state:
        case Advertising(keys=answers) | Sharing(shares=answers) | Accepting(accepted=answers):
            return frozenset(answers)
        case Summing(alive=answers) | Agreeing(signatures=answers) | Unmasking(revealed=answers):
            return frozenset(answers)
    raise ValueError(f"{type(state).__name__} is not a stage")


def _answers(entries: Mapping[str, bytes], kind: str) -> Iterator[Envelope]:
    """The stored messages of this kind, by client."""
    clients = sorted(int(key.removeprefix(f"{kind} ")) for key in entries if key.startswith(f"{kind} "))
    return (_message(entries[f"{kind} {client}"], client) for client in clients)


def _message(data: bytes, sender: int) -> Envelope:
    return decode(data, sender, len(data), MESSAGES)


def _total(state: Summing) -> Persist:
    """How many inputs were added, whose (4 bytes each, in order of arrival), their marks, and their total, little-endian."""
    clients = np.array([len(state.alive), *state.alive], ">u4").tobytes()
    total = state.total.astype(state.plan.terms.wire, copy=False)
    entry = b"".join((clients, *state.marks, total.data.cast("B")))
    return Persist(_key(state.plan.session.digest, "total"), entry)


def _with_total(state: Summing, stored: bytes | None) -> Summing:
    if stored is None:
        return state
    count = int.from_bytes(stored[:4], "big")
    start = 4 + 36 * count
    if len(stored) != start + state.plan.terms.input_bytes:
        raise ValueError("the journal's total has not the length of an input and its clients")
    alive = tuple(np.frombuffer(stored, ">u4", count, 4).tolist())
    marks = tuple(stored[at : at + 32] for at in range(4 + 4 * count, start, 32))
    return replace(
        state, total=state.total + np.frombuffer(stored, state.plan.terms.wire, offset=start), alive=alive, marks=marks
    )
