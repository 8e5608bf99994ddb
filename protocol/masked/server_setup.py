"""The server's first stages of a masked sum: keys, sealed shares, and who is to mask with whom. Spec: specs/masked_sum.md."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from ...crypto.agreement import UnusableKey, check_public
from ..core.errors import ProtocolError
from ..drivers.roles import Awaiting, Effect
from .messages import MaskKeys, MaskWith, NeighbourKeys, RelayedShares, SealedShares
from .server_phases import (
    Accepting,
    Advertising,
    Masks,
    NoSum,
    Sharing,
    Summing,
    check_signature,
    expect,
    to_client,
    too_few,
)
from .terms import Dealt, Plan


def take_keys(state: Advertising, client: int, keys: MaskKeys) -> Advertising:
    """Stage 1: signed keys that something can be agreed on with."""
    expect(client, state.plan.session.roster, state.keys, "keys")
    check_signature(state.plan, client, keys.signature, "masked sum keys", keys.mask_public + keys.seal_public)
    try:
        check_public(keys.mask_public)
        check_public(keys.seal_public)
    except UnusableKey:
        raise ProtocolError("a key that nothing can be agreed on with", client) from None
    return replace(state, keys={**state.keys, client: keys})


def show_keys(state: Advertising) -> tuple[Sharing | NoSum, tuple[Effect, ...]]:
    """Stage 1, end: show each client the keys of its neighbours."""
    plan = state.plan
    holders = _core(plan, dict.fromkeys(state.keys, state.keys))
    if failed := too_few(plan, "advertise", holders):
        return failed, ()
    effects: list[Effect] = [Awaiting("share", tuple(sorted(holders)))]
    for client, near in holders.items():
        keys = [state.keys[i] for i in near]
        shown = (tuple(k.mask_public for k in keys), tuple(k.seal_public for k in keys), tuple(k.signature for k in keys))
        effects.append(to_client(plan, client, NeighbourKeys(near, *shown)))
    return Sharing(plan, state.keys, holders), tuple(effects)


def take_shares(state: Sharing, client: int, shares: SealedShares) -> Sharing:
    """Stage 2: a signed dealing among exactly the neighbours that were shown."""
    expect(client, state.holders, state.shares, "shares")
    try:
        dealt = Dealt.decode(state.plan, client, shares.dealing)
    except ValueError as error:
        raise ProtocolError(f"a dealing that cannot be: {error}", client) from None
    if dealt.seed.holders != state.holders[client]:
        raise ProtocolError("shares for other clients than the neighbours that were shown", client)
    check_signature(state.plan, client, shares.signature, "masked sum dealing", shares.dealing)
    return replace(state, shares={**state.shares, client: shares})


def relay(state: Sharing) -> tuple[Accepting | NoSum, tuple[Effect, ...]]:
    """Stage 2, end: hand each client what its neighbours sealed to it."""
    plan = state.plan
    core = _core(plan, dict.fromkeys(state.shares, state.shares))
    if failed := too_few(plan, "share", core):
        return failed, ()
    places = {dealer: {holder: at for at, holder in enumerate(state.holders[dealer])} for dealer in core}
    effects: list[Effect] = [Awaiting("accept", tuple(sorted(core)))]
    for client, dealers in core.items():
        dealings = tuple(state.shares[dealer].dealing for dealer in dealers)
        sealed = tuple(state.shares[dealer].sealed[places[dealer][client]] for dealer in dealers)
        effects.append(to_client(plan, client, RelayedShares(dealers, dealings, sealed)))
    dealt = {client: Dealt.decode(plan, client, state.shares[client].dealing) for client in core}
    return Accepting(plan, state.keys, dealt, core), tuple(effects)


def take_accepted(state: Accepting, client: int, dealers: tuple[int, ...]) -> Accepting:
    """Stage 3: whose shares a client found good. Whom it leaves out, it complains about; nobody else can tell who is right."""
    expect(client, state.near, state.accepted, "acceptance")
    if not set(dealers) <= set(state.near[client]):
        raise ProtocolError("good shares of clients whose shares were not relayed", client)
    return replace(state, accepted={**state.accepted, client: dealers})


def settle(state: Accepting) -> tuple[Summing | NoSum, tuple[Effect, ...]]:
    """Stage 3, end: leave out dealers that fewer than t holders could help; tell the others whom to mask with."""
    plan, accepted = state.plan, {client: frozenset(dealers) for client, dealers in state.accepted.items()}
    core = _core(plan, accepted)
    if failed := too_few(plan, "accept", core):
        return failed, ()
    holders = {client: tuple(i for i in near if client in accepted[i]) for client, near in core.items()}
    masks = Masks({i: state.keys[i] for i in core}, {i: state.dealt[i] for i in core}, holders)
    sends = (to_client(plan, client, MaskWith(near)) for client, near in core.items())
    return Summing(plan, masks, plan.terms.zeros()), (Awaiting("mask", tuple(sorted(core))), *sends)


def _core(plan: Plan, vouching: Mapping[int, Collection[int]]) -> dict[int, tuple[int, ...]]:
    """The clients that t neighbours among themselves vouch for, with all their neighbours among themselves.

    vouching: for each client, whom it vouches for. The others are as good as dropped.
    """
    left = set(vouching)
    near = {client: plan.graph.neighbours(client) for client in left}
    vouched = {client: [i for i in near[client] if i in left and client in vouching[i]] for client in left}
    while alone := [client for client in left if sum(i in left for i in vouched[client]) < plan.terms.threshold]:
        left.difference_update(alone)
    return {client: tuple(i for i in near[client] if i in left) for client in sorted(left)}
