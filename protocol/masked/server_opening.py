"""The server's last stages of a masked sum: it adds inputs, has their survivors agreed on, and opens one sum.

Spec: specs/masked_sum.md.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from ...crypto.agreement import AgreementKey
from ...crypto.shamir import BadDealer, MaskKeyShare, NotRecovered, Recovered, SelfSeedShare, combine_all
from ..core.errors import ProtocolError
from ..drivers.roles import Awaiting, Effect
from .messages import Reveal, Survivors, SurvivorSignature, UnmaskRequest
from .server_phases import (
    WAITING_BYTES,
    Agreeing,
    Masks,
    NoSum,
    Reached,
    Revealed,
    Summing,
    Unmasked,
    Unmasking,
    check_signature,
    expect,
    to_client,
    too_few,
)
from .terms import Plan, masked, sign_of, survivors_and_head


def add(state: Summing, client: int, data: bytes | memoryview) -> Summing:
    """Stage 4: add an input to the sum of the others and forget it."""
    terms = state.plan.terms
    expect(client, state.masks.dealt, state.alive, "an input")
    if len(data) != terms.input_bytes:
        raise ProtocolError(f"an input of {len(data)} bytes where {terms.input_bytes} belong", client)
    state = replace(state, alive=(*state.alive, client), waiting=(*state.waiting, data))
    return state if len(state.waiting) * terms.input_bytes < WAITING_BYTES else state.added()


def show_survivors(state: Summing) -> tuple[Agreeing | NoSum, tuple[Effect, ...]]:
    """Stage 4, end: whose inputs are in the sum is settled."""
    plan, alive = state.plan, tuple(sorted(state.alive))
    if failed := too_few(plan, "mask", alive) or _unrecoverable(plan, "mask", state.masks, alive, set(alive)):
        return replace(failed, reached=Reached(tuple(state.masks.dealt))), ()
    sends = (to_client(plan, client, Survivors(alive)) for client in alive)
    return Agreeing(plan, state.masks, state.added().total, alive), (Awaiting("agree", alive), *sends)


def _needed(plan: Plan, masks: Masks, alive: tuple[int, ...]) -> tuple[int, ...]:
    """The clients whose self seed (alive) or mask key (dropped, but masked with by somebody alive) is needed."""
    living = set(alive)
    return tuple(i for i in masks.dealt if i in living or not living.isdisjoint(plan.graph.neighbours(i)))


def _unrecoverable(plan: Plan, stage: str, masks: Masks, alive: tuple[int, ...], left: Collection[int]) -> NoSum | None:
    """The failure, if a needed secret has fewer than t holders of good shares left."""
    for client in _needed(plan, masks, alive):
        have = sum(holder in left for holder in masks.holders[client])
        if have < plan.terms.threshold:
            return NoSum(plan.session, stage, have, plan.terms.threshold, client)
    return None


def take_signature(state: Agreeing, client: int, said: SurvivorSignature) -> Agreeing:
    """Stage 5: a signature on the survivor set."""
    expect(client, state.alive, state.signatures, "a signature")
    check_signature(state.plan, client, said.signature, "masked sum survivors", survivors_and_head(state.alive, said.head))
    return replace(state, signatures={**state.signatures, client: said})


def ask(state: Agreeing) -> tuple[Unmasking | NoSum, tuple[Effect, ...]]:
    """Stage 5, end: show each signer enough signatures of its neighbours."""
    plan, t = state.plan, state.plan.terms.threshold
    signed = {client: [i for i in plan.graph.neighbours(client) if i in state.signatures] for client in state.signatures}
    asked = {client: tuple(near[:t]) for client, near in signed.items() if len(near) >= t}
    if failed := _unrecoverable(plan, "agree", state.masks, state.alive, asked):
        return replace(failed, reached=Reached(tuple(state.masks.dealt), state.alive)), ()
    sends = (
        to_client(plan, client, _signed(near, [state.signatures[i] for i in near])) for client, near in sorted(asked.items())
    )
    unmasking = Unmasking(plan, state.masks, state.total, state.alive, frozenset(asked))
    return unmasking, (Awaiting("unmask", tuple(sorted(asked))), *sends)


def _signed(near: tuple[int, ...], said: Sequence[SurvivorSignature]) -> UnmaskRequest:
    return UnmaskRequest(near, tuple(s.signature for s in said), tuple(s.head for s in said))


def take_reveal(state: Unmasking, client: int, reveal: Reveal) -> Unmasking:
    """Stage 6: shares of the right kinds, which follow from the survivor set."""
    expect(client, state.asked, state.revealed, "shares")
    near = {i for i in state.plan.graph.neighbours(client) if i in state.masks.dealt}
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


def open_sum(state: Unmasking) -> Unmasked | NoSum:
    """Stage 6, end: the sum, or why there is none."""
    return replace(_opened(state), reached=Reached(tuple(state.masks.dealt), state.alive, tuple(sorted(state.revealed))))


def _opened(state: Unmasking) -> Unmasked | NoSum:
    """Recover the self seeds of the survivors and the mask keys of the dropped; take their masks off."""
    plan, masks, living = state.plan, state.masks, set(state.alive)
    answers = tuple(state.revealed.values())
    if failed := _unrecoverable(plan, "unmask", state.masks, state.alive, state.revealed):
        return failed
    dropped = tuple(i for i in _needed(plan, masks, state.alive) if i not in living)
    seeds = combine_all((masks.dealt[i].seed, [r.seeds[i] for r in answers if i in r.seeds]) for i in state.alive)
    keys = combine_all((masks.dealt[i].key, [r.keys[i] for r in answers if i in r.keys]) for i in dropped)
    outcomes = {**dict(zip(state.alive, seeds, strict=True)), **dict(zip(dropped, keys, strict=True))}
    bad = tuple(sorted({holder for outcome in outcomes.values() for holder in outcome.bad}))
    for client, outcome in outcomes.items():
        if isinstance(outcome, BadDealer):
            return NoSum(plan.session, "unmask", 0, plan.terms.threshold, client, (client,))
        if isinstance(outcome, NotRecovered):
            good = sum(client in r.seeds or client in r.keys for r in answers) - len(outcome.bad)
            return NoSum(plan.session, "unmask", good, plan.terms.threshold, client, outcome.bad)
    secrets = {client: outcome.secret for client, outcome in outcomes.items() if isinstance(outcome, Recovered)}
    taken_off = [(plan.self_mask_key(i, secrets[i]), -1) for i in state.alive]
    for client in dropped:
        key = AgreementKey(secrets[client])
        if key.public != masks.keys[client].mask_public:
            return NoSum(plan.session, "unmask", 0, 1, client, (client,))
        near = [i for i in plan.graph.neighbours(client) if i in living]
        pairs = key.agree(((masks.keys[i].mask_public, plan.pair(client, i)) for i in near), "pair mask")
        taken_off += [(pair, -sign_of(i, client)) for pair, i in zip(pairs, near, strict=True)]
    return Unmasked(plan.session, masked(state.total, taken_off), state.alive, bad)
