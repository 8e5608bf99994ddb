"""The seed exchange in one process: clients agree on a secret seed that the server relays but cannot read.

CFL Algorithm 5, line 3. Spec: specs/group_seed.md; roles: seeding/client.py and seeding/server.py. It opens when more than half
of the clients hold one seed, whoever is silent or cheats; whoever lacks it is welcomed later. No two clients end with two seeds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ...crypto.entropy import Entropy
from ...crypto.identity import Identity, Verify, verify
from ...crypto.sealing import SealingKey
from ..core.errors import Fault, ProtocolError
from ..core.link import Tap
from ..core.session import SERVER, Session
from ..drivers.in_process import InProcess, no_work
from ..drivers.roles import Effect, Learned, Party
from ..view.disclosure import Disclosure
from ..wire.messages import HEAD_BYTES
from .client import Holding, Member, Seeded, Waiting, client_step, join
from .messages import MESSAGES
from .server import Room, gather, server_step
from .terms import PROTOCOL, SECRET_BYTES, session_of

__all__ = ["PROTOCOL", "Agreed", "Welcomed", "agree", "session_of", "welcome"]


@dataclass(frozen=True, slots=True)
class Agreed:
    """How an exchange ended. holders: who holds the seed, ascending. network: what carried it; its faults name the others.

    parties: the clients' roles, and relay the server's, for `welcome`: they hold the seed, and keys that open its seals.
    Whoever forgets the seed forgets this too. plays: how often clients joined: at first, and in every welcome.
    """

    session: Session
    seed: bytes = field(repr=False)
    holders: tuple[int, ...]
    network: InProcess = field(repr=False)
    identities: Mapping[int, Identity] = field(repr=False)
    parties: Mapping[int, Party] = field(repr=False)
    relay: Party = field(repr=False)
    plays: int = 0


@dataclass(frozen=True, slots=True)
class Welcomed:
    """How a welcome ended. disclosures: one for each newcomer that got the seed, and one for the server, which learns who did."""

    agreed: Agreed
    disclosures: tuple[Disclosure, ...]


def agree(session: Session, entropy: Entropy, tap: Tap | None = None, *, check: Verify = verify) -> Agreed:
    """Play the exchange in one process. check: how signatures are checked.

    Identities are made and enrolled here, as a simulation does. Raises ProtocolError if fewer clients hold one seed than the
    session's threshold, ValueError for a threshold that is no more than half of the roster.
    """
    identities = {i: _identity(entropy, session, i) for i in session.roster}
    network = InProcess(tap, kinds=MESSAGES, max_bytes=HEAD_BYTES + 120 * len(session.roster))
    relay = Party(SERVER, gather(Room(session, _public(identities), check)), server_step)
    agreed = _play(Agreed(session, b"", (), network, identities, {}, relay), session.roster, entropy, check)
    have, faults = len(agreed.holders), network.faults
    if have < session.threshold:
        reasons = "; ".join(dict.fromkeys(fault.reason for fault in faults)) or "messages were lost"
        reason = f"{have} of {len(session.roster)} clients hold the group seed, {session.threshold} must: {reasons}"
        raise ProtocolError(reason, faults[0].blame if faults else SERVER)
    _report(agreed, session.roster)
    return agreed


def welcome(agreed: Agreed, newcomers: Iterable[int], entropy: Entropy, *, check: Verify = verify) -> Welcomed:
    """Hand the seed to clients that lack it, over the network of the exchange: clients of its roster, or new ones.

    New ones are enrolled with everybody here. Those that get no seal are left out, with a fault on the network; nothing raises.
    """
    session = agreed.session
    wanted = tuple(sorted(set(newcomers) - set(agreed.holders)))
    fresh = {i: _identity(entropy, session, i) for i in wanted if i not in agreed.identities}
    agreed = replace(agreed, identities={**agreed.identities, **fresh})
    enrolled, relay = _public(agreed.identities), agreed.relay
    relay.state = replace(relay.state, room=replace(relay.state.room, enrolled=enrolled))
    for party in agreed.parties.values():
        party.state = replace(party.state, member=replace(party.state.member, enrolled=enrolled))
    agreed = _play(agreed, wanted, entropy, check)
    _report(agreed, wanted)
    welcomed = tuple(i for i in wanted if i in agreed.holders)
    words = "the seed of the run, which opens whatever it has hidden so far"
    log = [Disclosure(session.round, "clients", PROTOCOL, agreed.holders, 0, SECRET_BYTES, words, client=i) for i in welcomed]
    if welcomed:
        log.append(Disclosure(session.round, "server", PROTOCOL, welcomed, 0, 0, "which clients were welcomed to the seed"))
    return Welcomed(agreed, tuple(log))


def _draw(entropy: Entropy, session: Session, what: str, client: int) -> bytes:
    """32 bytes for one use by one client in one session: no label is drawn twice."""
    return entropy.lasting(f"{PROTOCOL} {session.digest.hex()} {what} of client {client}", SECRET_BYTES)


def _identity(entropy: Entropy, session: Session, client: int) -> Identity:
    return Identity.from_secret(_draw(entropy, session, "identity", client))


def _public(identities: Mapping[int, Identity]) -> dict[int, bytes]:
    return {i: identity.public for i, identity in identities.items()}


def _play(agreed: Agreed, joining: Iterable[int], entropy: Entropy, check: Verify) -> Agreed:
    """Let these clients join, each with a fresh key, and play to the last deadline."""
    session, parties, play = agreed.session, dict(agreed.parties), agreed.plays + 1
    enrolled = _public(agreed.identities)
    hellos: list[tuple[int, Effect]] = []
    known = _left_out(parties)
    for i in joining:
        earlier = parties[i].state if i in parties else None
        signed = earlier.signed if isinstance(earlier, Waiting | Holding) else b""
        with agreed.network.timed(i):
            key = SealingKey(_draw(entropy, session, f"sealing key {play}", i))
            member = Member(session, i, key, agreed.identities[i], enrolled, check)
            state, hello = join(member, _draw(entropy, session, f"fresh secret {play}", i), signed)
        parties[i] = Party(i, state, client_step)
        hellos.append((i, hello))
    agreed.network.run(parties, {session.digest: agreed.relay}, hellos, no_work, _no_lesson)
    agreed.network.faults += [fault for fault in _left_out(parties) if fault not in known]
    seeds = {i: party.state.seed for i, party in sorted(parties.items()) if isinstance(party.state, Seeded)}
    return replace(agreed, seed=next(iter(seeds.values()), b""), holders=tuple(seeds), parties=parties, plays=play)


def _left_out(parties: Mapping[int, Party]) -> list[Fault]:
    """Why clients did not seal to others, each once."""
    states = [party.state for party in parties.values() if not isinstance(party.state, Waiting)]
    return [Fault(blame, reason) for blame, reason in dict.fromkeys(reason for state in states for reason in state.left_out)]


def _report(agreed: Agreed, asked: Iterable[int]) -> None:
    agreed.network.faults += [Fault(i, f"client {i} lacks the group seed") for i in asked if i not in agreed.holders]


def _no_lesson(_: int, __: Learned) -> None:
    raise ValueError("nothing is published in a seed exchange")
