"""The seed exchange: clients agree on a secret seed that the server relays but cannot read (CFL Algorithm 5, line 3).

Spec: specs/group_seed.md. Every client advertises a signed one-session key; the leader (the lowest id) seals one fresh seed
to each. The server sees public keys, signatures and sealed seeds. Clients know each other's identities beforehand, so a
server that swaps keys is found out. Phases: Joining -> Waiting -> Seeded at a member, Joining -> Leading -> Seeded at the leader.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...crypto.entropy import Entropy
from ...crypto.identity import BadSignature, Identity, verify
from ...crypto.sealing import InvalidSeal, SealingKey
from ..core.errors import ProtocolError
from ..core.link import Tap
from ..core.session import SERVER, Session
from ..drivers.in_process import InProcess
from ..drivers.roles import Deadline, Effect, Event, Learned, Party, Received, Send, Worked
from ..wire.messages import HEAD_BYTES, Advertise, Envelope, Roster, SealedSeed, Task

PROTOCOL = "group seed"
SEED_BYTES = 32


@dataclass(frozen=True, slots=True)
class Waiting:
    """A member that has advertised its key and waits for the seed."""

    session: Session
    me: int
    key: SealingKey
    enrolled: Mapping[int, bytes] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Leading:
    """The leader, which waits for the advertised keys. seed: fresh, 32 bytes, its own choice."""

    session: Session
    me: int
    key: SealingKey
    identity: Identity
    enrolled: Mapping[int, bytes] = field(repr=False)
    seed: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Seeded:
    """A client that holds the seed."""

    seed: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Relaying:
    """The server: collects what clients advertise until all have, then relays the leader's seals."""

    session: Session
    heard: Mapping[int, Advertise] = field(default_factory=dict)


def join(
    session: Session, me: int, secret: bytes, seed: bytes, identity: Identity, enrolled: Mapping[int, bytes]
) -> tuple[Any, Effect]:
    """A client's first state and its signed key. secret: 32 bytes for the key; seed: 32 bytes that only the leader uses."""
    key = SealingKey(secret)
    advertise = Advertise(key.public, identity.sign(PROTOCOL, session.digest, key.public))
    send = Send(Envelope(session.digest, me, SERVER, advertise))
    if me == session.roster[0]:
        return Leading(session, me, key, identity, enrolled, seed), send
    return Waiting(session, me, key, enrolled), send


def client_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """A client's role. Raises ProtocolError for keys, signatures or seals that are not what they should be."""
    match state, event:
        case ((Leading() | Waiting()), Received(Envelope(sender=sender) as envelope)) if (
            sender != SERVER or envelope.session != state.session.digest
        ):
            raise ProtocolError("a message of another session or not from the server", sender)
        case Leading(), Received(Envelope(message=Roster() as roster, sender=sender)):
            if len(roster.publics) != len(state.session.roster) or len(roster.signatures) != len(state.session.roster):
                raise ProtocolError("keys do not match the roster", sender)
            return Seeded(state.seed), tuple(_seals(state, roster, sender))
        case Waiting(), Received(Envelope(message=SealedSeed() as sealed, sender=sender)):
            leader = state.session.roster[0]
            _check(state, leader, sealed.public, sealed.signature, sender)
            if sealed.member != state.me:
                raise ProtocolError("a seed for another member", sender)
            try:
                return Seeded(state.key.open(sealed.public, sealed.sealed, _context(state.session, leader, state.me))), ()
            except InvalidSeal:
                raise ProtocolError("the sealed seed does not open", sender) from None
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def _seals(state: Leading, roster: Roster, sender: int) -> Iterator[Effect]:
    mine = state.identity.sign(PROTOCOL, state.session.digest, state.key.public)
    seals = []
    for member, public, signature in zip(state.session.roster, roster.publics, roster.signatures, strict=True):
        _check(state, member, public, signature, sender)
        if member != state.me:
            try:
                sealed = state.key.seal(public, state.seed, _context(state.session, state.me, member))
            except InvalidSeal:
                raise ProtocolError("a key that nothing can be sealed to", member) from None
            seals.append(SealedSeed(member, state.key.public, mine, sealed))
    return (Send(Envelope(state.session.digest, state.me, SERVER, seal)) for seal in seals)


def _check(state: Waiting | Leading, member: int, public: bytes, signature: bytes, sender: int) -> None:
    try:
        verify(state.enrolled[member], signature, PROTOCOL, state.session.digest, public)
    except (BadSignature, KeyError):
        raise ProtocolError(f"the key shown for client {member} is not signed by it", sender) from None


def _context(session: Session, sender: int, receiver: int) -> bytes:
    return session.digest + sender.to_bytes(4, "big") + receiver.to_bytes(4, "big")


def server_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The server's role: it relays and learns no secret."""
    match state, event:
        case Relaying(), Received(Envelope(message=Advertise() as advertise, sender=client)):
            if client not in state.session.roster or client in state.heard:
                raise ProtocolError("a key from outside the roster, or a second one", client)
            heard = {**state.heard, client: advertise}
            if len(heard) < len(state.session.roster):
                return replace(state, heard=heard), ()
            order = [heard[i] for i in state.session.roster]
            roster = Roster(tuple(a.public for a in order), tuple(a.signature for a in order))
            leader = state.session.roster[0]
            return replace(state, heard=heard), (Send(Envelope(state.session.digest, SERVER, leader, roster)),)
        case Relaying(), Received(Envelope(message=SealedSeed() as sealed, sender=client)):
            if client != state.session.roster[0] or sealed.member not in state.session.roster:
                raise ProtocolError("a sealed seed from outside its place", client)
            return state, (Send(Envelope(state.session.digest, SERVER, sealed.member, sealed)),)
        case _, Deadline():
            return state, ()
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at the relay", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at the relay")


def agree(session: Session, entropy: Entropy, tap: Tap | None = None) -> tuple[bytes, InProcess]:
    """Play the exchange in one process and return the seed that all clients hold, with the network that carried it.

    Identities are made and enrolled here, as a simulation does. Raises ProtocolError if any client ends without the seed.
    """
    identities = {i: Identity.from_secret(entropy.secret(f"identity {i}", 32)) for i in session.roster}
    enrolled = {i: identity.public for i, identity in identities.items()}
    seed = entropy.secret("group seed", SEED_BYTES)
    network = InProcess(tap, max_bytes=HEAD_BYTES + 120 * len(session.roster))
    parties, hellos = {}, []
    for i in session.roster:
        with network.timed(i):
            state, hello = join(session, i, entropy.secret(f"sealing key {i}", 32), seed, identities[i], enrolled)
        parties[i] = Party(i, state, client_step)
        hellos.append((i, hello))
    relay = Party(SERVER, Relaying(session), server_step)
    network.run(parties, {session.digest: relay}, hellos, _no_work, _no_lesson)
    for i, party in parties.items():
        if not isinstance(party.state, Seeded):
            reasons = "; ".join(f.reason for f in network.faults) or "a message was lost"
            blame = network.faults[0].blame if network.faults else SERVER
            raise ProtocolError(f"client {i} did not receive the group seed: {reasons}", blame)
    return seed, network


def _no_work(_: list[tuple[int, Task]]) -> Iterator[tuple[int, Worked]]:
    return iter(())


def _no_lesson(_: int, __: Learned) -> None:
    raise ValueError("nothing is published in a seed exchange")
