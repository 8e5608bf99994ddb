"""The client's secrets on their way into its neighbours' hands, and theirs into its own: stages 2 and 3 of the masked sum.

Spec: specs/masked_sum.md.
"""

import hashlib

from ...crypto.identity import BadSignature
from ...crypto.sealing import InvalidSeal
from ...crypto.shamir import SHARE_BYTES, BadShare, MaskKeyShare, SelfSeedShare, check_share, split
from ..core.errors import ProtocolError
from ..core.session import SERVER
from ..drivers.roles import Effect, Perform
from ..wire.messages import Task
from .client_phases import Advertised, Checked, Masking, NeighbourShares, Shared, to_server
from .messages import Accepted, NeighbourKeys, RelayedShares, SealedShares
from .terms import PROTOCOL, Dealt, encode_dealing


def share(state: Advertised, keys: NeighbourKeys) -> tuple[Shared, tuple[Effect, ...]]:
    """Stage 2: check the neighbours' keys, share both secrets among them."""
    me, plan, secrets = state.idle.me, state.plan, state.secrets
    if not set(keys.neighbours) <= set(plan.graph.neighbours(me)):
        raise ProtocolError("keys of clients that are not neighbours", SERVER)
    if len(keys.neighbours) < plan.terms.threshold:
        raise ProtocolError(f"keys of {len(keys.neighbours)} neighbours where {plan.terms.threshold} are needed", SERVER)
    publics = zip(keys.neighbours, keys.mask_publics, keys.seal_publics, keys.signatures, strict=True)
    for neighbour, mask_public, seal_public, signature in publics:
        try:
            state.idle.verify(plan.enrolled[neighbour], signature, "masked sum keys", plan.binding, mask_public + seal_public)
        except BadSignature:
            raise ProtocolError(f"the keys shown for client {neighbour} are not signed by it", SERVER) from None
    terms = (plan.terms.threshold, keys.neighbours, plan.dealt_by(me))
    seed = split(SelfSeedShare, secrets.self_seed, *terms)
    key = split(MaskKeyShare, secrets.mask.secret, *terms)
    dealing = encode_dealing(seed, key)
    digest = hashlib.sha256(dealing).digest()
    sealed, channels = [], {}
    for seed_share, key_share, public in zip(seed.shares, key.shares, keys.seal_publics, strict=True):
        content = seed_share.encode() + key_share.encode() + digest
        try:
            channel = channels[seed_share.holder] = secrets.seal.between(public)
        except InvalidSeal:
            raise ProtocolError("a key that nothing can be sealed to", seed_share.holder) from None
        sealed.append(channel.seal(content, plan.sealed(me, seed_share.holder)))
    signature = state.idle.identity.sign("masked sum dealing", plan.binding, dealing)
    mask_publics = dict(zip(keys.neighbours, keys.mask_publics, strict=True))
    shared = Shared(state.idle, plan, secrets, mask_publics, channels)
    return shared, (to_server(plan, me, SealedShares(dealing, tuple(sealed), signature)),)


def receive(state: Shared, relayed: RelayedShares) -> tuple[Checked, tuple[Effect, ...]]:
    """Stage 3: keep the good shares, and say whose they were. A bad one may be its dealer's fault or the server's."""
    plan, me = state.plan, state.idle.me
    if not set(relayed.dealers) <= set(state.mask_publics):
        raise ProtocolError("shares of clients whose keys were not shown", SERVER)
    if len(relayed.dealers) < plan.terms.threshold:
        raise ProtocolError(f"shares of {len(relayed.dealers)} neighbours where {plan.terms.threshold} are needed", SERVER)
    held = {}
    for dealer, dealing, sealed in zip(relayed.dealers, relayed.dealings, relayed.sealed, strict=True):
        try:
            held[dealer] = _opened(state, dealer, dealing, sealed)
        except (InvalidSeal, BadShare, ValueError):
            continue
    near = {dealer: state.mask_publics[dealer] for dealer in relayed.dealers}
    return Checked(state.idle, plan, state.secrets, near, held), (to_server(plan, me, Accepted(tuple(held))),)


def _opened(state: Shared, dealer: int, dealing: bytes, sealed: bytes) -> NeighbourShares:
    """The shares from one dealer. Raises InvalidSeal, BadShare or ValueError."""
    me, plan = state.idle.me, state.plan
    content = state.channels[dealer].open(sealed, plan.sealed(dealer, me))
    dealt = Dealt.decode(plan, dealer, dealing)
    if content[2 * SHARE_BYTES :] != hashlib.sha256(dealing).digest():
        raise ValueError("the dealing is not the one that the dealer sealed")
    seed = SelfSeedShare.decode(content[:SHARE_BYTES])
    key = MaskKeyShare.decode(content[SHARE_BYTES : 2 * SHARE_BYTES])
    if seed.holder != me or key.holder != me:
        raise ValueError("shares of another holder")
    check_share(dealt.seed, seed)
    check_share(dealt.key, key)
    return NeighbourShares(seed, key)


def settle(state: Checked, neighbours: tuple[int, ...]) -> tuple[Masking, tuple[Effect, ...]]:
    """Stage 3, end: mask with these, whatever this client found of their shares, and only now do the work."""
    plan = state.plan
    if not set(neighbours) <= set(state.near):
        raise ProtocolError("a masking list with clients whose shares were not relayed", SERVER)
    if len(neighbours) < plan.terms.threshold:
        raise ProtocolError(f"{len(neighbours)} neighbours to mask with where {plan.terms.threshold} are needed", SERVER)
    task = Task(*plan.session.fields, PROTOCOL, (plan.terms.model.hex(),), b"")
    masking = {neighbour: state.near[neighbour] for neighbour in neighbours}
    held = {dealer: shares for dealer, shares in state.held.items() if dealer in masking}
    return Masking(state.idle, plan, state.secrets, masking, held), (Perform(task),)
