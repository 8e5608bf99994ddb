"""The server's role in the seed exchange: it relays, keeps the time, and learns no secret. Spec: specs/group_seed.md.

Phases: CollectingSeedKeys -> Sealing -> Open, or SeedUnshared. A deadline ends CollectingSeedKeys with those that are there. In
Sealing one client after another is asked to seal to the rest, until most hold one seed: `choosing` says who. Open takes
newcomers: holders are asked to seal it to them.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...crypto.identity import BadSignature, Verify, verify
from ..core.errors import ProtocolError
from ..core.session import SERVER, Session
from ..drivers.roles import Awaiting, Deadline, Effect, Event, Received, Send
from ..wire.codec import Envelope
from . import terms
from .attempts import Before, Shown
from .choosing import AttemptSoFar, most_behind, next_sealer
from .messages import Advertise, Roster, SealedSeed, SeedQuorum, SeedTag

ADVERTISE, SEAL = "advertise", "seal"
"""Stages in which an exchange may end without a seed: before and after somebody was asked to lead."""


@dataclass(frozen=True, slots=True)
class Room:
    """What the server knows from the start. enrolled: identities, newcomers' too; nobody else's keys are passed on. before: what
    it knows of attempts before. again: whether another may follow, so that in this one it splits no tags.
    """

    session: Session
    enrolled: Mapping[int, bytes] = field(repr=False)
    verify: Verify = field(default=verify, repr=False, compare=False)
    before: Before = field(default=Before(), repr=False)
    again: bool = False
    digest: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", self.session.digest)

    @property
    def left_out(self) -> frozenset[int]:
        """Who was shown to cheat in attempts before, unless too few would be left."""
        shown = self.before.shown
        return shown if len(set(self.session.roster) - shown) >= self.session.threshold else frozenset()

    def owed_seals(self, client: int) -> bool:
        """Whether it may have been asked for seals in an attempt before, which come late."""
        return client in self.before.in_vain or bool(self.before.agreed)


@dataclass(frozen=True, slots=True)
class CollectingSeedKeys:
    """Collects keys until the whole roster has advertised, or time is up. tags: of who holds a secret from an attempt before."""

    room: Room
    heard: Mapping[int, Advertise] = field(default_factory=dict)
    tags: Mapping[int, SeedTag] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sealing:
    """Waits for tags. asked: whom it asked for seals, in order. relayed: (sealer, member) of the seals that it passed on. given:
    the tag of a sealer's seals, by sealer.
    """

    room: Room
    heard: Mapping[int, Advertise]
    asked: tuple[int, ...]
    tags: Mapping[int, SeedTag] = field(default_factory=dict)
    relayed: frozenset[tuple[int, int]] = frozenset()
    given: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Open:
    """Most clients hold one seed. quorum: their signatures. holders: all that are known to hold it.

    waiting: who advertised and is not known to hold it. asked: whom it asked to seal to each of those, `ATTEMPTS` at most.
    led: whom it asked to seal to all before; what they still send is late and no fault. lives: to how many keys of each a seal
    was passed on. handed: to the newest key of whom one was.
    due: by (sealer, member), seals that were asked for and did not come, the last of which is to the member's newest key. late:
    of these, who sent one while it owed several: what it owes still when the member comes again was lost.
    """

    room: Room
    quorum: SeedQuorum
    holders: frozenset[int]
    waiting: Mapping[int, Advertise] = field(default_factory=dict)
    asked: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    relayed: frozenset[tuple[int, int]] = frozenset()
    led: tuple[int, ...] = ()
    lives: Mapping[int, int] = field(default_factory=dict)
    due: Mapping[tuple[int, int], int] = field(default_factory=dict)
    late: frozenset[tuple[int, int]] = frozenset()
    handed: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class SeedUnshared:
    """Too few hold one seed, and there is nobody else to ask. have: of so many clients it was known; need: the threshold.

    before: what it knows of this attempt and those before.
    """

    stage: str
    have: int
    need: int
    before: Before = field(default=Before(), compare=False)


def gather(room: Room) -> CollectingSeedKeys:
    """The server's first state. Raises ValueError for a threshold of no more than half of the roster."""
    terms.check(room.session)
    return CollectingSeedKeys(room)


def server_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The server's role. Raises ProtocolError for what was not asked, and Shown for what is not signed by whom it comes from, and
    whatever else no honest client says.
    """
    match state, event:
        case SeedUnshared(), _:
            return state, ()
        case ((CollectingSeedKeys() | Sealing()), Received(Envelope(sender=client))) if client in state.room.left_out:
            return state, ()
        case CollectingSeedKeys(), Received(Envelope(message=Advertise() as said, sender=client)):
            heard = _hear(state.room, state.heard, client, said)
            state = replace(state, heard=heard)
            return _name(state) if heard.keys() >= set(state.room.session.roster) - state.room.left_out else (state, ())
        case CollectingSeedKeys(), Received(Envelope(message=SeedTag() as tag, sender=client)):
            return _tagged(state, client, tag), ()
        case CollectingSeedKeys(room), Received(Envelope(message=SealedSeed(), sender=client)) if room.owed_seals(client):
            return state, ()
        case CollectingSeedKeys(), Deadline():
            return _name(state)
        case Sealing(), Received(Envelope(message=Advertise() as said, sender=client)):
            return replace(state, heard=_hear(state.room, state.heard, client, said)), ()
        case Sealing(), Received(Envelope(message=SealedSeed() as sealed, sender=client)):
            return _pass_on(state, client, sealed)
        case Sealing(), Received(Envelope(message=SeedTag() as tag, sender=client)):
            return _count(state, client, tag)
        case Sealing(), Deadline():
            return _next(state)
        case Open(), Received(Envelope(message=Advertise() as said, sender=client)):
            _check_key(state.room, client, said)
            if state.lives.get(client, 0) >= terms.LIVES:
                raise ProtocolError("a client that was answered often enough", client)
            lost = {pair for pair in state.late if pair[1] == client}
            owed = {pair: seals for pair, seals in state.due.items() if pair not in lost}
            came = replace(
                state, asked={**state.asked, client: ()}, due=owed, late=state.late - lost, handed=state.handed - {client}
            )
            return _ask(replace(came, waiting={**state.waiting, client: said}), [client])
        case Open(), Received(Envelope(message=SealedSeed() as sealed, sender=client)):
            wanted = sealed.member in state.waiting and sealed.tag == state.quorum.tag
            if (due := state.due.get((client, sealed.member), 0)) and sealed.sealer == client:
                pair = client, sealed.member
                left = replace(state, due={**state.due, pair: due - 1}, late=state.late | ({pair} if due > 1 else set()))
                newest = due == 1 and client in state.asked.get(sealed.member, ())  # else to a key that the member has no more
                told = (sealed, state.quorum) if wanted and newest else ()
                return _handed(left, pair[1:] if told else ()), tuple(_to(state.room, sealed.member, m) for m in told)
            if client not in state.led and state.room.owed_seals(client):
                return state, ()
            state, passed = _relay(state, client, sealed, client in state.led, wanted)
            state = _handed(state, [sealed.member for _ in passed])
            return state, (*passed, *(_to(state.room, sealed.member, state.quorum) for _ in passed))
        case Open(), Received(Envelope(message=SeedTag() as tag, sender=client)):
            _check_tag(state.room, client, tag)
            if tag.tag != state.quorum.tag:
                return state, ()  # the seed of a leader that fell silent: it is waiting for the other one
            rest = {i: said for i, said in state.waiting.items() if i != client}
            return replace(state, holders=state.holders | {client}, waiting=rest), (_to(state.room, client, state.quorum),)
        case Open(), Deadline():
            return _ask(state, sorted(state.waiting))
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def _to(room: Room, client: int, message: Any) -> Send:
    return Send(Envelope(room.digest, SERVER, client, message))


def _request(room: Room, sealer: int, heard: Mapping[int, Advertise], members: Iterable[int]) -> Send:
    members = tuple(sorted(members))
    return _to(room, sealer, Roster(members, tuple(heard[i].public + heard[i].signature for i in members)))


def _check_key(room: Room, client: int, said: Advertise) -> None:
    try:
        terms.check_key(room.enrolled, client, said, room.digest, room.verify)
    except BadSignature:
        raise Shown("a key that is not signed by an enrolled client", client) from None


def _check_tag(room: Room, client: int, said: SeedTag) -> None:
    try:
        terms.check_tag(room.enrolled, client, said, room.digest, room.verify)
    except BadSignature:
        raise Shown("a tag that is not signed by an enrolled client", client) from None


def _hear(room: Room, heard: Mapping[int, Advertise], client: int, said: Advertise) -> Mapping[int, Advertise]:
    if client in heard:
        raise ProtocolError("a second key", client)
    _check_key(room, client, said)
    return {**heard, client: said}


def _pass_on(state: Sealing, client: int, sealed: SealedSeed) -> tuple[Any, tuple[Send, ...]]:
    """A seal of who was asked for it, of the one secret that it has. One to a key of an attempt before is late."""
    asked = client in state.asked and sealed.member in state.heard and sealed.sealer == client
    key = state.heard.get(client)
    old = key is None or sealed.public != key.public
    if old and ((asked and key is not None) or state.room.owed_seals(client)):
        return state, ()
    if asked and key is not None and sealed.signature != key.signature:
        raise Shown("a seal under a key that it did not sign", client)
    said = state.tags.get(client)
    if asked and sealed.tag != state.given.get(client, said.tag if said is not None else sealed.tag):
        raise Shown("seals of two secrets, of which it can have one", client)
    given = {**state.given, client: sealed.tag}
    last = state.asked[-1] if state.asked else client
    of_last = given.get(last, state.tags[last].tag if last in state.tags else b"")
    if asked and client != last and sealed.tag != of_last:  # late: whom it asked since relies on who had no other seal then
        return replace(state, given=given), ()
    left, passed = _relay(state, client, sealed, asked, sealed.member not in state.tags)
    return replace(left, given=given), passed


def _relay(state: Any, client: int, sealed: SealedSeed, known: bool, wanted: bool) -> tuple[Any, tuple[Send, ...]]:
    """Pass a seal on, one of each sealer to each member, unless the member holds the seed by now."""
    if not known or sealed.sealer != client or (client, sealed.member) in state.relayed:
        raise ProtocolError("a seal that was not asked for", client)
    if not wanted:
        return state, ()
    return replace(state, relayed=state.relayed | {(client, sealed.member)}), (_to(state.room, sealed.member, sealed),)


def _name(state: CollectingSeedKeys) -> tuple[Any, tuple[Effect, ...]]:
    """Ask the lowest client of the roster that is there to lead; it draws the seed. Where some hold one from an attempt before,
    it is theirs.
    """
    session = state.room.session
    there = sorted(state.heard.keys() & set(session.roster))
    if len(there) < session.threshold:
        before = state.room.before.then({i: said.tag for i, said in state.tags.items()}, ())
        return SeedUnshared(ADVERTISE, len(there), session.threshold, before), ()
    return _next(Sealing(state.room, state.heard, (), state.tags))


def _tagged(state: Any, client: int, tag: SeedTag) -> Any:
    """With its tag. Who holds a secret says it before its key, when the exchange is begun again, and once more when it leads."""
    _check_tag(state.room, client, tag)
    before = state.room.before
    earlier, said = before.signed.get(client, tag.tag), state.tags.get(client)
    if said is not None and said.tag not in (tag.tag, earlier) and tag.tag == earlier:
        return state  # late, of an attempt before, after which it signed what most had
    if tag.tag != before.agreed and (tag.tag != earlier or (said is not None and said.tag != tag.tag)):
        raise Shown("a second tag", client)
    return replace(state, tags={**state.tags, client: tag})


def _count(state: Sealing, client: int, tag: SeedTag) -> tuple[Any, tuple[Effect, ...]]:
    if state.given.get(client, tag.tag) != tag.tag:
        raise Shown("a tag of another secret than that of its seals", client)
    state = _tagged(state, client, tag)
    supporters = most_behind({i: said.tag for i, said in state.tags.items()}, state.room.session)
    return _open(state, supporters) if supporters >= state.heard.keys() else (state, ())


def _next(state: Sealing) -> tuple[Any, tuple[Effect, ...]]:
    """Time is up. If most hold one seed, open. Else ask a holder to seal to the rest, or another client to lead."""
    room, heard, tags = state.room, state.heard, {i: said.tag for i, said in state.tags.items()}
    session, most = room.session, most_behind(tags, room.session)
    have = len(most & set(session.roster))
    if have >= session.threshold:
        return _open(state, most)
    got: dict[int, set[bytes]] = defaultdict(set)
    for sealer, member in state.relayed:
        got[member].add(state.given[sealer])
    found = None
    if len(state.asked) < terms.ATTEMPTS:
        found = next_sealer(
            AttemptSoFar(session, heard.keys(), tags, got, state.given, state.asked, room.before.in_vain), room.again
        )
    if found is None:
        return SeedUnshared(SEAL, have, session.threshold, room.before.then(tags, state.asked)), ()
    sealer, has_it = found
    first = not (state.asked or tags)  # it is in its own roster then
    request = _request(room, sealer, heard, heard.keys() if first else heard.keys() - (has_it or {sealer}))
    return replace(state, asked=(*state.asked, sealer)), (
        request,
        Awaiting("seal", tuple(sorted(heard.keys() - state.tags.keys()))),
    )


def _handed(state: Open, members: Iterable[int]) -> Open:
    new = {i: state.lives.get(i, 0) + 1 for i in members if i not in state.handed}
    return replace(state, lives={**state.lives, **new}, handed=state.handed | new.keys())


def _open(state: Sealing, supporters: frozenset[int]) -> tuple[Open, tuple[Effect, ...]]:
    session = state.room.session
    signers = tuple(sorted(supporters & set(session.roster)))[: session.threshold]
    quorum = SeedQuorum(state.tags[signers[0]].tag, signers, tuple(state.tags[i].signature for i in signers))
    waiting = {i: said for i, said in state.heard.items() if i not in supporters}
    answered: dict[int, tuple[int, ...]] = dict.fromkeys(waiting, ())
    for sealer, member in sorted(state.relayed):
        if member in answered:
            answered[member] += (sealer,)
    opened = Open(state.room, quorum, supporters, waiting, answered, state.relayed, state.asked)
    told = tuple(_to(state.room, i, quorum) for i in sorted(supporters))
    opened, requests = _ask(opened, sorted(waiting))
    return opened, (*told, *requests)


def _ask(state: Open, newcomers: Iterable[int]) -> tuple[Open, tuple[Effect, ...]]:
    """Ask for each newcomer the lowest holder that was not asked for it before; who was asked for often enough is given up."""
    of: dict[int, list[int]] = defaultdict(list)
    waiting, asked, due = dict(state.waiting), dict(state.asked), dict(state.due)
    for newcomer in newcomers:
        before = asked.get(newcomer, ())
        helpers = state.holders - {newcomer, *before}
        if len(before) >= terms.ATTEMPTS or not helpers:
            del waiting[newcomer]
            continue
        helper = min(helpers, key=lambda i: (due.get((i, newcomer), 0), i))  # who owes one of before may be away
        of[helper].append(newcomer)
        asked[newcomer] = (*before, helper)
        due[helper, newcomer] = due.get((helper, newcomer), 0) + 1
    requests = tuple(_request(state.room, helper, waiting, of[helper]) for helper in sorted(of))
    return replace(state, waiting=waiting, asked=asked, due=due), (
        *requests,
        *([Awaiting("welcome", tuple(sorted(of)))] if requests else []),
    )
