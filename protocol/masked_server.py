"""The server of the masked sum: it relays sealed shares, adds masked inputs as they come, and opens one sum.

Spec: specs/masked_sum.md. Phases: Advertising -> Sharing -> Summing -> Agreeing -> Unmasking -> Summed, one Deadline each;
from each of them to Failed. Whoever has not answered by a stage's deadline has dropped out.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..crypto.agreement import AgreementKey, UnusableKey, check_public
from ..crypto.identity import BadSignature, verify
from ..crypto.shamir import BadDealer, MaskKeyShare, NotRecovered, Recovered, SelfSeedShare, combine_all
from .errors import ProtocolError
from .masked_messages import (
    MaskedInput,
    MaskKeys,
    NeighbourKeys,
    RelayedShares,
    Reveal,
    SealedShares,
    Survivors,
    SurvivorSignature,
    UnmaskRequest,
)
from .masked_terms import Dealt, Plan, Ring, masked, sign_of, survivors_digest
from .messages import Envelope
from .roles import Awaiting, Deadline, Effect, Event, Received, Send
from .session import SERVER, Session


@dataclass(frozen=True, slots=True)
class Advertising:
    """The server while keys arrive."""

    plan: Plan
    keys: Mapping[int, MaskKeys] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Sharing:
    """The server while sealed shares arrive. holders: per client that was shown keys, whose."""

    plan: Plan
    keys: Mapping[int, MaskKeys] = field(repr=False)
    holders: Mapping[int, tuple[int, ...]] = field(repr=False)
    shares: Mapping[int, SealedShares] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Summing:
    """The server while masked inputs are added and forgotten. dealt: the clients that may send one. total: ring (length,)."""

    plan: Plan
    keys: Mapping[int, MaskKeys] = field(repr=False)
    dealt: Mapping[int, Dealt] = field(repr=False)
    total: Ring = field(repr=False)
    alive: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Agreeing:
    """The server while signatures on the survivor set `alive` arrive."""

    plan: Plan
    keys: Mapping[int, MaskKeys] = field(repr=False)
    dealt: Mapping[int, Dealt] = field(repr=False)
    total: Ring = field(repr=False)
    alive: tuple[int, ...]
    signatures: Mapping[int, bytes] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Revealed:
    """What a client handed in: of each neighbour one share."""

    seeds: Mapping[int, SelfSeedShare] = field(repr=False)
    keys: Mapping[int, MaskKeyShare] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Unmasking:
    """The server while shares arrive. asked: the clients that were sent enough signatures."""

    plan: Plan
    keys: Mapping[int, MaskKeys] = field(repr=False)
    dealt: Mapping[int, Dealt] = field(repr=False)
    total: Ring = field(repr=False)
    alive: tuple[int, ...]
    asked: frozenset[int]
    revealed: Mapping[int, Revealed] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Summed:
    """The end: total, ring (length,), is the sum of the inputs of `clients`. bad: clients that handed in bad shares."""

    session: Session
    total: Ring = field(repr=False)
    clients: tuple[int, ...]
    bad: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """The end without a sum. stage: where it fell under a threshold; have of need were there. blame: who is guilty, if anyone.

    client: whose neighbours were too few, None where all clients count.
    """

    session: Session
    stage: str
    have: int
    need: int
    client: int | None = None
    blame: tuple[int, ...] = ()


def propose(plan: Plan) -> tuple[Effect, ...]:
    """The server's first move: the proposal to every client on the roster."""
    proposal = plan.proposal
    return tuple(_send(plan, client, proposal) for client in plan.session.roster)


def server_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The server's role. Raises ProtocolError blaming the client for what is misplaced, repeated, malformed or unsigned."""
    match state, event:
        case Advertising(), Received(Envelope(message=MaskKeys() as keys, sender=client)):
            return _take_keys(state, client, keys), ()
        case Advertising(), Deadline():
            return _show_keys(state)
        case Sharing(), Received(Envelope(message=SealedShares() as shares, sender=client)):
            return _take_shares(state, client, shares), ()
        case Sharing(), Deadline():
            return _relay(state)
        case Summing(), Received(Envelope(message=MaskedInput(vector=vector), sender=client)):
            return _add(state, client, vector), ()
        case Summing(), Deadline():
            return _show_survivors(state)
        case Agreeing(), Received(Envelope(message=SurvivorSignature(signature=signature), sender=client)):
            return _take_signature(state, client, signature), ()
        case Agreeing(), Deadline():
            return _ask(state)
        case Unmasking(), Received(Envelope(message=Reveal() as reveal, sender=client)):
            return _take_reveal(state, client, reveal), ()
        case Unmasking(), Deadline():
            return _open(state), ()
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def _send(plan: Plan, client: int, message: Any) -> Send:
    return Send(Envelope(plan.session.digest, SERVER, client, message))


def _expect(client: int, expected: Collection[int], heard: Collection[int], what: str) -> None:
    if client not in expected:
        raise ProtocolError(f"{what} from a client that was not asked", client)
    if client in heard:
        raise ProtocolError(f"{what} a second time in one session", client)


def _verified(plan: Plan, client: int, signature: bytes, purpose: str, content: bytes) -> None:
    try:
        verify(plan.enrolled[client], signature, purpose, plan.binding, content)
    except (BadSignature, KeyError):
        raise ProtocolError("a signature that is not the client's in this session", client) from None


def _short(plan: Plan, stage: str, clients: Collection[int]) -> Failed | None:
    """The failure, if fewer clients than the session's threshold are left."""
    have, need = len(clients), plan.session.threshold
    return Failed(plan.session, stage, have, need) if have < need else None


def _core(plan: Plan, clients: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """The clients that keep t neighbours among themselves, with those neighbours. The others are as good as dropped."""
    left = set(clients)
    near = {client: [i for i in plan.graph.neighbours(client) if i in left] for client in left}
    while alone := [client for client in left if sum(i in left for i in near[client]) < plan.terms.threshold]:
        left.difference_update(alone)
    return {client: tuple(i for i in near[client] if i in left) for client in sorted(left)}


# --- stage 1: keys ---------------------------------------------------------------------------------------------------------


def _take_keys(state: Advertising, client: int, keys: MaskKeys) -> Advertising:
    _expect(client, state.plan.session.roster, state.keys, "keys")
    _verified(state.plan, client, keys.signature, "masked sum keys", keys.mask_public + keys.seal_public)
    try:
        check_public(keys.mask_public)
        check_public(keys.seal_public)
    except UnusableKey:
        raise ProtocolError("a key that nothing can be agreed on with", client) from None
    return replace(state, keys={**state.keys, client: keys})


def _show_keys(state: Advertising) -> tuple[Sharing | Failed, tuple[Effect, ...]]:
    plan = state.plan
    holders = _core(plan, state.keys)
    if failed := _short(plan, "advertise", holders):
        return failed, ()
    effects: list[Effect] = [Awaiting("share")]
    for client, near in holders.items():
        keys = [state.keys[i] for i in near]
        shown = (tuple(k.mask_public for k in keys), tuple(k.seal_public for k in keys), tuple(k.signature for k in keys))
        effects.append(_send(plan, client, NeighbourKeys(near, *shown)))
    return Sharing(plan, state.keys, holders), tuple(effects)


# --- stage 2: shares -------------------------------------------------------------------------------------------------------


def _take_shares(state: Sharing, client: int, shares: SealedShares) -> Sharing:
    _expect(client, state.holders, state.shares, "shares")
    try:
        dealt = Dealt.decode(state.plan, client, shares.dealing)
    except ValueError as error:
        raise ProtocolError(f"a dealing that cannot be: {error}", client) from None
    if dealt.seed.holders != state.holders[client]:
        raise ProtocolError("shares for other clients than the neighbours that were shown", client)
    _verified(state.plan, client, shares.signature, "masked sum dealing", shares.dealing)
    return replace(state, shares={**state.shares, client: shares})


def _relay(state: Sharing) -> tuple[Summing | Failed, tuple[Effect, ...]]:
    plan = state.plan
    core = _core(plan, state.shares)
    if failed := _short(plan, "share", core):
        return failed, ()
    places = {dealer: {holder: at for at, holder in enumerate(state.holders[dealer])} for dealer in core}
    effects: list[Effect] = [Awaiting("mask")]
    for client, dealers in core.items():
        dealings = tuple(state.shares[dealer].dealing for dealer in dealers)
        sealed = tuple(state.shares[dealer].sealed[places[dealer][client]] for dealer in dealers)
        effects.append(_send(plan, client, RelayedShares(dealers, dealings, sealed)))
    dealt = {client: Dealt.decode(plan, client, state.shares[client].dealing) for client in core}
    return Summing(plan, state.keys, dealt, plan.terms.zeros()), tuple(effects)


# --- stage 3: masked inputs ------------------------------------------------------------------------------------------------


def _add(state: Summing, client: int, data: bytes) -> Summing:
    terms = state.plan.terms
    _expect(client, state.dealt, state.alive, "an input")
    if len(data) != terms.input_bytes:
        raise ProtocolError(f"an input of {len(data)} bytes where {terms.input_bytes} belong", client)
    vector = np.frombuffer(data, np.dtype(terms.dtype).newbyteorder("<"))
    return replace(state, total=state.total + vector, alive=(*state.alive, client))


def _show_survivors(state: Summing) -> tuple[Agreeing | Failed, tuple[Effect, ...]]:
    plan, alive = state.plan, tuple(sorted(state.alive))
    if failed := _short(plan, "mask", alive) or _unrecoverable(plan, "mask", state.dealt, alive, alive):
        return failed, ()
    sends = (_send(plan, client, Survivors(alive)) for client in alive)
    return Agreeing(plan, state.keys, state.dealt, state.total, alive), (Awaiting("agree"), *sends)


def _needed(plan: Plan, dealt: Iterable[int], alive: tuple[int, ...]) -> tuple[int, ...]:
    """The clients whose self seed (alive) or mask key (dropped, but masked with by somebody alive) is needed."""
    living = set(alive)
    return tuple(i for i in dealt if i in living or not living.isdisjoint(plan.graph.neighbours(i)))


def _unrecoverable(
    plan: Plan, stage: str, dealt: Mapping[int, Dealt], alive: tuple[int, ...], holders: Collection[int]
) -> Failed | None:
    """The failure, if a needed secret has fewer than t holders left."""
    left = set(holders)
    for client in _needed(plan, dealt, alive):
        have = sum(holder in left for holder in dealt[client].seed.holders)
        if have < plan.terms.threshold:
            return Failed(plan.session, stage, have, plan.terms.threshold, client)
    return None


# --- stage 4: agreement on the survivors -----------------------------------------------------------------------------------


def _take_signature(state: Agreeing, client: int, signature: bytes) -> Agreeing:
    _expect(client, state.alive, state.signatures, "a signature")
    _verified(state.plan, client, signature, "masked sum survivors", survivors_digest(state.alive))
    return replace(state, signatures={**state.signatures, client: signature})


def _ask(state: Agreeing) -> tuple[Unmasking | Failed, tuple[Effect, ...]]:
    plan, t = state.plan, state.plan.terms.threshold
    signed = {
        client: [i for i in plan.graph.neighbours(client) if i in state.signatures and i in state.dealt]
        for client in state.signatures
    }
    asked = {client: tuple(near[:t]) for client, near in signed.items() if len(near) >= t}
    if failed := _unrecoverable(plan, "agree", state.dealt, state.alive, asked):
        return failed, ()
    sends = (
        _send(plan, client, UnmaskRequest(near, tuple(state.signatures[i] for i in near)))
        for client, near in sorted(asked.items())
    )
    unmasking = Unmasking(plan, state.keys, state.dealt, state.total, state.alive, frozenset(asked))
    return unmasking, (Awaiting("unmask"), *sends)


# --- stages 5 and 6: shares, and the sum -----------------------------------------------------------------------------------


def _take_reveal(state: Unmasking, client: int, reveal: Reveal) -> Unmasking:
    _expect(client, state.asked, state.revealed, "shares")
    near = {i for i in state.plan.graph.neighbours(client) if i in state.dealt}
    alive = near & set(state.alive)
    if not set(reveal.alive) <= alive or not set(reveal.dropped) <= near - alive:
        raise ProtocolError("shares of the wrong kind, or of clients that are not neighbours", client)
    try:
        seeds = {i: SelfSeedShare.decode(share) for i, share in zip(reveal.alive, reveal.seeds, strict=True)}
        keys = {i: MaskKeyShare.decode(share) for i, share in zip(reveal.dropped, reveal.keys, strict=True)}
    except ValueError as error:
        raise ProtocolError(f"a share that cannot be: {error}", client) from None
    if any(share.holder != client for share in (*seeds.values(), *keys.values())):
        raise ProtocolError("a share that another client holds", client)
    return replace(state, revealed={**state.revealed, client: Revealed(seeds, keys)})


def _open(state: Unmasking) -> Summed | Failed:
    """Recover the self seeds of the survivors and the mask keys of the dropped; take their masks off."""
    plan, living = state.plan, set(state.alive)
    answers = tuple(state.revealed.values())
    if failed := _unrecoverable(plan, "unmask", state.dealt, state.alive, state.revealed):
        return failed
    dropped = tuple(i for i in _needed(plan, state.dealt, state.alive) if i not in living)
    seeds = combine_all((state.dealt[i].seed, [r.seeds[i] for r in answers if i in r.seeds]) for i in state.alive)
    keys = combine_all((state.dealt[i].key, [r.keys[i] for r in answers if i in r.keys]) for i in dropped)
    outcomes = {**dict(zip(state.alive, seeds, strict=True)), **dict(zip(dropped, keys, strict=True))}
    bad = tuple(sorted({holder for outcome in outcomes.values() for holder in outcome.bad}))
    for client, outcome in outcomes.items():
        if isinstance(outcome, BadDealer):
            return Failed(plan.session, "unmask", 0, plan.terms.threshold, client, (client,))
        if isinstance(outcome, NotRecovered):
            good = sum(client in r.seeds or client in r.keys for r in answers) - len(outcome.bad)
            return Failed(plan.session, "unmask", good, plan.terms.threshold, client, outcome.bad)
    secrets = {client: outcome.secret for client, outcome in outcomes.items() if isinstance(outcome, Recovered)}
    masks = [(plan.self_mask_key(i, secrets[i]), -1) for i in state.alive]
    for client in dropped:
        key = AgreementKey(secrets[client])
        if key.public != state.keys[client].mask_public:
            return Failed(plan.session, "unmask", 0, 1, client, (client,))
        near = [i for i in plan.graph.neighbours(client) if i in living]
        pairs = key.agree(((state.keys[i].mask_public, plan.pair(client, i)) for i in near), "pair mask")
        masks += [(pair, -sign_of(i, client)) for pair, i in zip(pairs, near, strict=True)]
    return Summed(plan.session, masked(state.total, masks), state.alive, bad)
