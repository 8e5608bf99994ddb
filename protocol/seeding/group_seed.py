"""The seed exchange in one process: clients agree on a secret seed that the server relays but cannot read.

CFL Algorithm 5, line 3. Spec: specs/group_seed.md; roles: seeding/client.py and seeding/server.py. It opens when more than half
of the clients hold one seed, whoever is silent or cheats; whoever lacks it is welcomed later. No two clients end with two seeds.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...crypto.entropy import Entropy
from ...crypto.identity import SigningKey, Verify, verify
from ..core.errors import Fault, ProtocolError, Silent
from ..core.link import Tap
from ..core.session import SERVER, Session
from ..drivers.in_process import InProcess, no_work
from ..drivers.roles import Effect, Event, Party, Role
from ..parts.clients import Clients
from ..view.disclosure import Disclosure
from ..view.protection import Setup
from ..wire.messages import HEAD_BYTES
from ..work.maker import SEED, Maker
from .attempts import Before, Shown
from .joining import Joiner, identity_label
from .messages import MESSAGES
from .server import Open, Room, SeedUnshared, gather, server_step
from .terms import PROTOCOL, SECRET_BYTES, session_of

__all__ = ["PROTOCOL", "AgreedSeed", "Welcomed", "agree", "seat", "session_of", "welcome"]


MOST_NAMED = 8
"""Clients that a line names."""
Hello = Callable[[int], Iterable[Effect]]
"""What a client says first."""


@dataclass(frozen=True, slots=True)
class AgreedSeed:
    """How an exchange ended. holders: who holds the seed, ascending. network: what carried it; its faults name the others.

    parties: the clients' roles, and relay the server's, for `welcome`: they hold the seed, and keys that open its seals.
    Whoever forgets the seed forgets this too.
    """

    session: Session
    seed: bytes = field(repr=False)
    holders: tuple[int, ...]
    network: InProcess = field(repr=False)
    identities: Mapping[int, SigningKey] = field(repr=False)
    parties: Mapping[int, Joiner] = field(repr=False)
    relay: Party = field(repr=False)


@dataclass(frozen=True, slots=True)
class Welcomed:
    """How a welcome ended. disclosures: one for each newcomer that got the seed, and one for the server, which learns who did."""

    agreed: AgreedSeed
    disclosures: tuple[Disclosure, ...]


def seat(clients: Clients, setup: Setup, maker: Maker) -> InProcess | None:
    """Play the exchange of a run's seed, each client with what it drew for itself, and have those that hold it begin.

    Where clients are elsewhere, and too few are there at its end that hold the seed, it is begun again when `Setup.gathered` says
    so: each draws a fresh key, and what it signed before binds it. Who was shown to cheat is left out then, and who was asked to
    seal in vain is asked last. That ends when a seed is held, when no tag can have most any more, as where too few are enrolled,
    or when `gathered` raises. Returns what carried it; its faults name the clients that lack the seed. None where clients share
    none. Raises as `agree`.
    """
    if maker.exchange is None:
        return None
    session = maker.exchange.session(setup)
    before, known, opened = Before(), list[Fault](), None
    while True:
        enrolled = clients.enrolled.get(SEED, {})
        relay = Relay(Room(session, enrolled, clients.verify, before, setup.gathered is not None))
        network = _network(session, setup.tap)
        network.faults += known
        _exchanged(clients, network, relay, session, SEED)
        held, before = clients.begin(), relay.before
        opened = relay if isinstance(relay.state, Open) else opened
        if len(held) >= session.threshold or setup.gathered is None or before.lost(session) or len(enrolled) < session.threshold:
            break
        setup.gathered(session.threshold, _too_few(network.faults, relay, held))
        known = list(dict.fromkeys([*network.faults, *clients.enrol_missing(sharing=True)[1]]))
    _check(network, relay, session, held)

    welcoming = opened or relay  # who is heard late to hold the seed has it since the attempt before

    def welcome_late(newcomers: Sequence[int]) -> list[Fault]:
        late = _network(session, setup.tap)
        clients.ahead(newcomers, "hello", SEED)
        _play(late, welcoming, session, clients.of(SEED), newcomers, clients.hello)
        return late.faults

    clients.welcome = welcome_late
    return network


@dataclass(frozen=True, slots=True)
class Exchanged:
    """How an exchange in mid-run ended. before: what is known for the next one; failed: why too few hold the seed, if so."""

    before: Before
    failed: Silent | None


def exchanged(
    clients: Clients, network: InProcess, session: Session, name: str, ended: Callable[[], Sequence[int]], before: Before
) -> Exchanged:
    """Play the exchange in which clients have roles of this name, in the middle of a run. network: the run's, which knows what is
    over. ended: who holds the seed then. before: what is known of those that failed. Where this one fails, too, it may be played
    again in a later round, in which those who signed a tag hand out the secret of it.
    """
    known = len(network.faults)
    network.allow(_most_bytes(session))
    relay = Relay(Room(session, clients.enrolled[name], clients.verify, before, again=True))
    _exchanged(clients, network, relay, session, name)
    failed = None
    try:
        _check(network, relay, session, ended(), known)
    except ProtocolError as error:
        failed = Silent(error.reason, error.blame)
    return Exchanged(relay.before, failed)


class Relay(Party):
    """The server's role, and who was shown to it to cheat."""

    def __init__(self, room: Room) -> None:
        super().__init__(SERVER, gather(room), server_step)
        self.room = room
        self._shown = set(room.before.shown)

    def handle(self, event: Event) -> tuple[Effect, ...]:
        """See `Party`."""
        try:
            return super().handle(event)
        except Shown as error:
            self._shown.add(error.blame)
            raise

    @property
    def before(self) -> Before:
        """What it knows for the next attempt, when this one is over."""
        found = self.room.before
        match self.state:
            case SeedUnshared(before=before):
                found = before
            case Open(quorum=quorum, holders=holders):
                found = replace(found.then(dict.fromkeys(holders, quorum.tag), ()), agreed=quorum.tag)
        return replace(found, shown=frozenset(self._shown))


def _exchanged(clients: Clients, network: InProcess, relay: Relay, session: Session, name: str) -> None:
    there = [i for i in session.roster if i not in relay.room.left_out]
    clients.ahead(there, "hello", name)
    _play(network, relay, session, clients.of(name), there, lambda i: clients.hello(i, name))
    network.faults += _left_out(clients.left_out(name))


def agree(session: Session, entropy: Entropy, tap: Tap | None = None, *, check: Verify = verify) -> AgreedSeed:
    """Play the exchange in one process. check: how signatures are checked.

    Identities are made and enrolled here, as a simulation does. Raises ProtocolError if fewer clients hold one seed than the
    session's threshold, ValueError for a threshold that is no more than half of the roster.
    """
    identities = {i: _identity(entropy, session, i) for i in session.roster}
    enrolled = _public(identities)
    parties = {i: Joiner(session, i, identity, enrolled, entropy, check) for i, identity in identities.items()}
    network, relay = _network(session, tap), Relay(Room(session, enrolled, check))
    agreed = _joined(AgreedSeed(session, b"", (), network, identities, parties, relay), session.roster)
    _check(network, relay, session, agreed.holders)
    return agreed


def welcome(agreed: AgreedSeed, newcomers: Iterable[int], entropy: Entropy, *, check: Verify = verify) -> Welcomed:
    """Hand the seed to clients that lack it, over the network of the exchange: clients of its roster, or new ones.

    New ones are enrolled with everybody here. Those that get no seal are left out, with a fault on the network; nothing raises.
    """
    session = agreed.session
    wanted = tuple(sorted(set(newcomers) - set(agreed.holders)))
    fresh = {i: _identity(entropy, session, i) for i in wanted if i not in agreed.identities}
    identities = {**agreed.identities, **fresh}
    enrolled, relay = _public(identities), agreed.relay
    relay.state = replace(relay.state, room=replace(relay.state.room, enrolled=enrolled))
    for party in agreed.parties.values():
        party.enrol(enrolled)
    new = {i: Joiner(session, i, identity, enrolled, entropy, check) for i, identity in fresh.items()}
    agreed = _joined(replace(agreed, identities=identities, parties={**agreed.parties, **new}), wanted)
    _report(agreed.network, agreed.holders, wanted)
    welcomed = tuple(i for i in wanted if i in agreed.holders)
    words = "the seed of the run, which opens whatever it has hidden so far"
    log = [Disclosure(session.round, "clients", PROTOCOL, agreed.holders, 0, SECRET_BYTES, words, client=i) for i in welcomed]
    if welcomed:
        log.append(Disclosure(session.round, "server", PROTOCOL, welcomed, 0, 0, "which clients were welcomed to the seed"))
    return Welcomed(agreed, tuple(log))


def _identity(entropy: Entropy, session: Session, client: int) -> SigningKey:
    return SigningKey.from_secret(entropy.lasting(identity_label(session, client), SECRET_BYTES))


def _public(identities: Mapping[int, SigningKey]) -> dict[int, bytes]:
    return {i: identity.public for i, identity in identities.items()}


def _network(session: Session, tap: Tap | None) -> InProcess:
    """What carries the exchange."""
    return InProcess(tap, kinds=MESSAGES, max_bytes=_most_bytes(session))


def _most_bytes(session: Session) -> int:
    """Of one message."""
    return HEAD_BYTES + 120 * len(session.roster)


def _joined(agreed: AgreedSeed, joining: Sequence[int]) -> AgreedSeed:
    """Let these clients join, each with a fresh key, and play to the last deadline."""
    parties, network = agreed.parties, agreed.network

    known = _left_out((i, *reason) for i, party in parties.items() for reason in party.left_out)
    _play(network, agreed.relay, agreed.session, parties, joining, lambda i: parties[i].hello())
    left_out = _left_out((i, *reason) for i, party in parties.items() for reason in party.left_out)
    network.faults += [fault for fault in left_out if fault not in known]
    seeds = {i: party.seed for i, party in sorted(parties.items()) if party.seed}
    return replace(agreed, seed=next(iter(seeds.values()), b""), holders=tuple(seeds))


def _play(
    network: InProcess, relay: Party, session: Session, parties: Mapping[int, Role], joining: Iterable[int], hello: Hello
) -> None:
    hellos = []
    for i in joining:
        with network.timed(i):
            said = hello(i)
        hellos += [(i, effect) for effect in said]
    network.run(parties, {session.digest: relay}, hellos, no_work)


def _check(network: InProcess, relay: Relay, session: Session, holders: Sequence[int], known: int = 0) -> None:
    """known: faults that there were before the exchange."""
    faults = network.faults[known:]
    if len(holders) < session.threshold:
        raise ProtocolError(_too_few(faults, relay, holders), faults[0].blame if faults else SERVER)
    _report(network, holders, session.roster)


def _too_few(faults: Sequence[Fault], relay: Relay, holders: Sequence[int]) -> str:
    """Who holds no seed, and why: what was refused and by whose fault, who was asked for it in vain, who is bound to what."""
    session, before = relay.room.session, relay.before
    reasons = list(dict.fromkeys(_told(fault) for fault in faults))
    if len(reasons) > MOST_NAMED:
        reasons[MOST_NAMED:] = [f"and {len(reasons) - MOST_NAMED} more reasons"]
    if strangers := [i for i in session.roster if i not in relay.room.enrolled]:
        reasons.append(f"clients {_some(strangers)} were not there when all were told who is who, and cannot take part")
    if before.in_vain:
        reasons.append(f"clients {_some(sorted(before.in_vain))} were asked for it in vain")
    if len(behind := before.behind()) > 1:
        ends = ", so that none can have most any more" if before.lost(session) else ""
        reasons.append(f"clients {' and '.join(map(_some, behind))} are bound to different ones{ends}")
    lacking = f", and clients {_some([i for i in session.roster if i not in holders])} do not" if holders else ""
    have = f"{len(holders)} of {len(session.roster)} clients hold the group seed, {session.threshold} must{lacking}"
    return f"{have}: {'; '.join(reasons or ['messages were lost'])}"


def _told(fault: Fault) -> str:
    """A reason with the client that is at fault."""
    named = fault.blame < 0 or f"client {fault.blame} " in fault.reason
    return fault.reason if named else f"client {fault.blame}: {fault.reason}"


def _some(clients: Sequence[int]) -> str:
    """Of many, how many more there are."""
    more = len(clients) - MOST_NAMED
    return f"{list(clients[:MOST_NAMED])}{f' and {more} more' if more > 0 else ''}"


def _left_out(told: Iterable[tuple[int, int, str]]) -> list[Fault]:
    """Why clients did not seal to others, each once, with the first that says so. told: who says it, of whom, and why."""
    first: dict[tuple[int, str], int] = {}
    for by, blame, reason in told:
        first.setdefault((blame, reason), by)
    return [Fault(blame, reason, by=by if by != blame else None) for (blame, reason), by in first.items()]


def _report(network: InProcess, holders: Sequence[int], asked: Iterable[int]) -> None:
    network.faults += [Fault(i, f"client {i} lacks the group seed") for i in asked if i not in holders]
