"""The client of the masked sum: it masks one input, and helps to open the sum of one survivor set.

Spec: specs/masked_sum.md. Phases: Idle -> Advertised -> Shared -> Working -> Masked -> Signed -> Idle; a Deadline leads back to
Idle from everywhere. The round is stored as spent before the first message, so a client that restarts takes no further part
in a session that it was in: it sends one input and one answer per session, or none.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..crypto.agreement import AgreementKey, UnusableKey
from ..crypto.entropy import Entropy
from ..crypto.identity import BadSignature, Identity, verify
from ..crypto.prg import derive_key
from ..crypto.sealing import InvalidSeal, SealingKey
from ..crypto.shamir import SHARE_BYTES, BadShare, MaskKeyShare, SelfSeedShare, check_share, split
from .errors import ProtocolError
from .masked_messages import (
    MaskedInput,
    MaskKeys,
    NeighbourKeys,
    Proposal,
    RelayedShares,
    Reveal,
    SealedShares,
    Survivors,
    SurvivorSignature,
    UnmaskRequest,
)
from .masked_span import GivenUpdates
from .masked_terms import NO_UPDATE, PROTOCOL, Dealt, Plan, Policy, encode_dealing, masked, sign_of, survivors_digest
from .messages import Envelope, Task
from .roles import Deadline, Effect, Event, Perform, Persist, Received, Send, Worked
from .session import SERVER


@dataclass(frozen=True, slots=True)
class Idle:
    """A client between sessions. model: SHA-256 of the model that it holds. entropy: where a session's secret comes from.

    enrolled: the identities of all clients, known beforehand. next_round: the earliest round it still takes part in, per
    protocol name ("masked sum/..."), as persisted. given: the updates that it gave to sums, as persisted.
    """

    me: int
    run: bytes
    policy: Policy
    identity: Identity
    enrolled: Mapping[int, bytes] = field(repr=False)
    entropy: Entropy = field(repr=False)
    model: bytes
    next_round: Mapping[str, int] = field(default_factory=dict)
    given: GivenUpdates = field(default_factory=GivenUpdates, repr=False)


@dataclass(frozen=True, slots=True)
class Secrets:
    """A client's secrets of one session, each 32 bytes."""

    self_seed: bytes = field(repr=False)
    mask: AgreementKey
    seal: SealingKey


@dataclass(frozen=True, slots=True)
class Advertised:
    """A client that has advertised its keys."""

    idle: Idle
    plan: Plan
    secrets: Secrets


@dataclass(frozen=True, slots=True)
class Shared:
    """A client that has shared its secrets. mask_publics, seal_publics: keys of the neighbours that advertised."""

    idle: Idle
    plan: Plan
    secrets: Secrets
    mask_publics: Mapping[int, bytes]
    seal_publics: Mapping[int, bytes]


@dataclass(frozen=True, slots=True)
class Held:
    """Both shares of a neighbour's secrets; one of them, at most, will be handed out."""

    seed: SelfSeedShare
    key: MaskKeyShare


@dataclass(frozen=True, slots=True)
class Working:
    """A client that will mask with the neighbours `masking`. held: good shares, of all of them or of fewer."""

    idle: Idle
    plan: Plan
    secrets: Secrets
    masking: Mapping[int, bytes]
    held: Mapping[int, Held] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Masked:
    """A client that has sent its input, and has forgotten its own secrets."""

    idle: Idle
    plan: Plan
    neighbours: tuple[int, ...]
    held: Mapping[int, Held] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Signed:
    """A client that has signed the survivor set `alive`, which decides what it will hand out."""

    idle: Idle
    plan: Plan
    neighbours: tuple[int, ...]
    held: Mapping[int, Held] = field(repr=False)
    alive: tuple[int, ...]


def client_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The client's role. Raises ProtocolError for messages against its policy, out of order or not what they should be."""
    match state, event:
        case _, Received(Envelope(sender=sender)) if sender != SERVER:
            raise ProtocolError("a message that is not the server's", sender)
        case Idle(), Received(Envelope(message=Proposal() as proposal, session=session)):
            return _join(state, session, proposal)
        case Idle(), Deadline():
            return state, ()
        case ((Advertised() | Shared() | Working() | Masked() | Signed()), Deadline()):
            return state.idle, ()
        case ((Advertised() | Shared() | Working() | Masked() | Signed()), Received(Envelope(session=session))) if (
            session != state.plan.session.digest
        ):
            raise ProtocolError("a message of another session", SERVER)
        case Advertised(), Received(Envelope(message=NeighbourKeys() as keys)):
            return _share(state, keys)
        case Shared(), Received(Envelope(message=RelayedShares() as relayed)):
            return _receive(state, relayed)
        case Working(), Worked(vector=vector):
            return _mask(state, vector)
        case Masked(), Received(Envelope(message=Survivors() as survivors)):
            return _sign(state, survivors.alive)
        case Signed(), Received(Envelope(message=UnmaskRequest() as request)):
            return _reveal(state, request)
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def _stored(idle: Idle, given: GivenUpdates) -> tuple[Persist, ...]:
    return () if given == idle.given else (Persist("given updates", given.encode()),)


def _send(plan: Plan, me: int, message: Any) -> Send:
    return Send(Envelope(plan.session.digest, me, SERVER, message))


def _join(state: Idle, digest: bytes, proposal: Proposal) -> tuple[Advertised, tuple[Effect, ...]]:
    """Stage 0 and 1: check the terms, spend the round, advertise two keys."""
    try:
        plan = Plan.proposed(proposal, state.enrolled)
    except ValueError as error:
        raise ProtocolError(f"a proposal that cannot be: {error}", SERVER) from None
    session = plan.session
    problems = {
        "a proposal under another session's digest": session.digest != digest,
        "a proposal of another run": session.run != state.run,
        "a proposal of another protocol": session.protocol.partition("/")[0] != PROTOCOL,
        "a proposal for others": state.me not in session.roster,
        "a proposal for a round already taken": session.round < state.next_round.get(session.protocol, 0),
        "a proposal about an update of a round gone by": plan.terms.update != NO_UPDATE and session.round < state.given.round,
        "a proposal for another model than the one received": plan.terms.model != state.model,
        "a roster with a client that is not enrolled": any(i not in state.enrolled for i in session.roster),
    }
    for reason in (*(r for r, found in problems.items() if found), *state.policy.problems(session, plan.terms)):
        raise ProtocolError(reason, SERVER)
    try:
        state.given.at(session.round).giving(plan, state.policy.min_survivors)
    except ValueError as error:
        raise ProtocolError(str(error), SERVER) from None
    spent = Persist(f"next round {session.protocol}", (session.round + 1).to_bytes(4, "big"))
    spent_rounds = {**state.next_round, session.protocol: session.round + 1}
    idle = replace(state, next_round=spent_rounds, given=state.given.at(session.round))
    root = state.entropy.secret(f"masked sum {state.me} {plan.binding.hex()}", 32)
    seed, mask, seal = (derive_key(root, purpose, plan.binding) for purpose in ("self seed", "mask key", "sealing key"))
    secrets = Secrets(seed, AgreementKey(mask), SealingKey(seal))
    publics = secrets.mask.public, secrets.seal.public
    keys = MaskKeys(*publics, state.identity.sign("masked sum keys", plan.binding, b"".join(publics)))
    return Advertised(idle, plan, secrets), (spent, _send(plan, state.me, keys))


def _share(state: Advertised, keys: NeighbourKeys) -> tuple[Shared, tuple[Effect, ...]]:
    """Stage 2: check the neighbours' keys, share both secrets among them."""
    me, plan, secrets = state.idle.me, state.plan, state.secrets
    if not set(keys.neighbours) <= set(plan.graph.neighbours(me)):
        raise ProtocolError("keys of clients that are not neighbours", SERVER)
    if len(keys.neighbours) < plan.terms.threshold:
        raise ProtocolError(f"keys of {len(keys.neighbours)} neighbours where {plan.terms.threshold} are needed", SERVER)
    publics = zip(keys.neighbours, keys.mask_publics, keys.seal_publics, keys.signatures, strict=True)
    for neighbour, mask_public, seal_public, signature in publics:
        try:
            verify(plan.enrolled[neighbour], signature, "masked sum keys", plan.binding, mask_public + seal_public)
        except BadSignature:
            raise ProtocolError(f"the keys shown for client {neighbour} are not signed by it", SERVER) from None
    terms = (plan.terms.threshold, keys.neighbours, plan.dealt_by(me))
    seed = split(SelfSeedShare, secrets.self_seed, *terms)
    key = split(MaskKeyShare, secrets.mask.secret, *terms)
    dealing = encode_dealing(seed, key)
    digest = hashlib.sha256(dealing).digest()
    sealed = []
    for seed_share, key_share, public in zip(seed.shares, key.shares, keys.seal_publics, strict=True):
        content = seed_share.encode() + key_share.encode() + digest
        try:
            sealed.append(secrets.seal.seal(public, content, plan.sealed(me, seed_share.holder)))
        except InvalidSeal:
            raise ProtocolError("a key that nothing can be sealed to", seed_share.holder) from None
    signature = state.idle.identity.sign("masked sum dealing", plan.binding, dealing)
    mask_publics = dict(zip(keys.neighbours, keys.mask_publics, strict=True))
    seal_publics = dict(zip(keys.neighbours, keys.seal_publics, strict=True))
    shared = Shared(state.idle, plan, secrets, mask_publics, seal_publics)
    return shared, (_send(plan, me, SealedShares(dealing, tuple(sealed), signature)),)


def _receive(state: Shared, relayed: RelayedShares) -> tuple[Working, tuple[Effect, ...]]:
    """Stage 2, end: keep the good shares. A dealer of a bad one is masked with like the others, but not answered for."""
    plan = state.plan
    if not set(relayed.dealers) <= set(state.mask_publics):
        raise ProtocolError("shares of clients whose keys were not shown", SERVER)
    if len(relayed.dealers) < plan.terms.threshold:
        raise ProtocolError(f"shares of {len(relayed.dealers)} neighbours where {plan.terms.threshold} are needed", SERVER)
    held = {}
    for dealer, dealing, sealed in zip(relayed.dealers, relayed.dealings, relayed.sealed, strict=True):
        try:
            held[dealer] = _opened(state, dealer, dealing, sealed)
        except (InvalidSeal, BadShare, ValueError):  # its dealer's fault or the server's; the other holders will do
            continue
    s = plan.session
    task = Task(s.protocol, s.run, s.round, s.cluster, s.roster, s.threshold, PROTOCOL, plan.terms.model.hex(), b"")
    masking = {dealer: state.mask_publics[dealer] for dealer in relayed.dealers}
    return Working(state.idle, plan, state.secrets, masking, held), (Perform(task),)


def _opened(state: Shared, dealer: int, dealing: bytes, sealed: bytes) -> Held:
    """The shares from one dealer. Raises InvalidSeal, BadShare or ValueError."""
    me, plan = state.idle.me, state.plan
    content = state.secrets.seal.open(state.seal_publics[dealer], sealed, plan.sealed(dealer, me))
    dealt = Dealt.decode(plan, dealer, dealing)
    if content[2 * SHARE_BYTES :] != hashlib.sha256(dealing).digest():
        raise ValueError("the dealing is not the one that the dealer sealed")
    seed = SelfSeedShare.decode(content[:SHARE_BYTES])
    key = MaskKeyShare.decode(content[SHARE_BYTES : 2 * SHARE_BYTES])
    if seed.holder != me or key.holder != me:
        raise ValueError("shares of another holder")
    check_share(dealt.seed, seed)
    check_share(dealt.key, key)
    return Held(seed, key)


def _mask(state: Working, vector: Any) -> tuple[Masked, tuple[Effect, ...]]:
    """Stage 3: y = x + PRG(b_i) + sum over neighbours of +-PRG(s_ij) (Bonawitz et al. 2017, fig. 4, round 2).

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
    data = y.astype(y.dtype.newbyteorder("<"), copy=False).tobytes()
    given = state.idle.given.giving(plan, state.idle.policy.min_survivors)
    masked_state = Masked(replace(state.idle, given=given), plan, tuple(state.masking), state.held)
    return masked_state, (*_stored(state.idle, given), _send(plan, me, MaskedInput(data)))


def _sign(state: Masked, alive: tuple[int, ...]) -> tuple[Signed, tuple[Effect, ...]]:
    """Stage 4: sign the one survivor set that it is shown, unless its sum and earlier ones show what too few clients sent."""
    me, plan = state.idle.me, state.plan
    if not set(alive) <= set(plan.session.roster) or me not in alive:
        raise ProtocolError("a survivor set with strangers or without this client", SERVER)
    if len(alive) < plan.session.threshold:
        raise ProtocolError(f"a survivor set of {len(alive)} where {plan.session.threshold} are needed", SERVER)
    try:
        given = state.idle.given.signing(plan, alive, state.idle.policy.min_survivors)
    except ValueError as error:
        raise ProtocolError(str(error), SERVER) from None
    signature = state.idle.identity.sign("masked sum survivors", plan.binding, survivors_digest(alive))
    signed = Signed(replace(state.idle, given=given), plan, state.neighbours, state.held, alive)
    return signed, (*_stored(state.idle, given), _send(plan, me, SurvivorSignature(signature)))


def _reveal(state: Signed, request: UnmaskRequest) -> tuple[Idle, tuple[Effect, ...]]:
    """Stage 5: if t neighbours signed the same set, one share of each neighbour: alive or dropped by that set, never both."""
    plan, alive = state.plan, frozenset(state.alive)
    if not set(request.signers) <= alive & set(state.neighbours):
        raise ProtocolError("signatures of clients that are not neighbours in the survivor set", SERVER)
    if len(request.signers) < plan.terms.threshold:
        raise ProtocolError(f"{len(request.signers)} neighbours signed where {plan.terms.threshold} are needed", SERVER)
    digest = survivors_digest(state.alive)
    for signer, signature in zip(request.signers, request.signatures, strict=True):
        try:
            verify(plan.enrolled[signer], signature, "masked sum survivors", plan.binding, digest)
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
    return state.idle, (_send(plan, state.idle.me, reveal),)
