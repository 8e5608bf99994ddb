"""A client's role in the seed exchange. Spec: specs/group_seed.md.

Phases: Waiting -> HoldingSecret -> Seeded. A client that is asked for seals while it waits leads: it hands out a secret of its
own. It signs the tag of one secret, ever; a second one that it is given it takes only once the signatures of most clients say
so. Two seeds cannot both have those, so no two clients are Seeded with different ones. What it signed, and the secret, it
stores: when the exchange is begun again it says so before its key, and that secret is what it hands out.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...crypto.identity import BadSignature, SigningKey, Verify, verify
from ...crypto.sealing import InvalidSeal, SealingKey
from ..core.errors import ProtocolError
from ..core.session import SERVER, Session
from ..drivers.roles import Effect, Event, Persist, Received, Send
from ..wire.codec import Envelope
from . import terms
from .messages import Advertise, Roster, SealedSeed, SeedQuorum

MOST_REASONS = 1024


@dataclass(frozen=True, slots=True)
class SeedMember:
    """Who a client is in a session. enrolled: everybody's identity, which it knew before; of newcomers, too."""

    session: Session
    me: int
    key: SealingKey
    identity: SigningKey
    enrolled: Mapping[int, bytes] = field(repr=False)
    verify: Verify = field(default=verify, repr=False, compare=False)
    digest: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", self.session.digest)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A client that has advertised its key. secret: 32 bytes, which it hands out if it is named the leader.

    signed: the tag that it signed in an earlier attempt or life, empty if none; then the secret is that one, if it has it. shown:
    what most clients signed, if it has been told.
    """

    member: SeedMember
    secret: bytes = field(repr=False)
    signed: bytes = b""
    shown: SeedQuorum | None = None


@dataclass(frozen=True, slots=True)
class HoldingSecret:
    """A client that holds a secret and does not know that most do. other: the latest other one that it was given.

    answered: whom it has sealed the secret to, with the key of each. left_out: why not to others, as (blame, reason),
    `MOST_REASONS` at most.
    """

    member: SeedMember
    secret: bytes = field(repr=False)
    signed: bytes = b""
    shown: SeedQuorum | None = None
    other: bytes | None = field(default=None, repr=False)
    answered: frozenset[tuple[int, bytes]] = frozenset()
    left_out: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Seeded:
    """A client that knows that most clients hold its secret. It seals it to newcomers, once to each key."""

    member: SeedMember
    secret: bytes = field(repr=False)
    answered: frozenset[tuple[int, bytes]] = frozenset()
    left_out: tuple[tuple[int, str], ...] = ()

    @property
    def seed(self) -> bytes:
        """32 bytes, the same at every client of the session that is seeded."""
        return terms.seed_of(self.secret, self.member.digest)


def join(member: SeedMember, secret: bytes, signed: bytes = b"") -> tuple[Waiting, Send]:
    """A client's first state and its signed key. Raises ValueError for a threshold of no more than half of the roster.

    signed: the tag that it stored in an earlier attempt at this session, if any: it signs no other before most clients have.
    """
    terms.check(member.session)
    said = terms.advertise(member.identity, member.digest, member.key.public)
    return Waiting(member, secret, signed), _say(member, said)


def still_holds(state: Waiting) -> tuple[Send, ...]:
    """What a client says before its key where it holds the secret of the tag that it signed: that tag, again."""
    member = state.member
    return (_say(member, terms.signed_tag(member.identity, member.digest, state.signed)),) if _holds(state) else ()


def client_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """A client's role. Raises ProtocolError for seals, signatures and tags that are not what they should be."""
    match state, event:
        case ((Waiting() | HoldingSecret() | Seeded()), Received(Envelope(sender=sender, session=session))) if (
            sender != SERVER or session != state.member.digest
        ):
            raise ProtocolError("a message of another session or not from the server", sender)
        case Waiting(member, secret, signed, None), Received(Envelope(message=Roster() as roster)):
            held, seals = _seal(HoldingSecret(member, secret, signed), roster)
            held, tag = _settled(held)
            return held, (*seals, *tag)
        case ((HoldingSecret() | Seeded()), Received(Envelope(message=Roster() as roster))):
            return _seal(state, roster)
        case Waiting(member, secret, signed, shown), Received(Envelope(message=SealedSeed() as sealed)):
            opened = _opened(member, sealed)
            if _holds(state):  # from an attempt before
                return _settled(HoldingSecret(member, secret, signed, shown, opened))
            return _settled(HoldingSecret(member, opened, signed, shown))
        case HoldingSecret(member, secret), Received(Envelope(message=SealedSeed() as sealed)):
            opened = _opened(member, sealed)
            known = sealed.tag == terms.tag_of(secret, member.digest)  # then its tag may have been lost
            return _settled(state if known else replace(state, other=opened))
        case Seeded(), Received(Envelope(message=SealedSeed())):
            return state, ()  # from a second holder that was asked
        case ((Waiting(member) | HoldingSecret(member)), Received(Envelope(message=SeedQuorum() as quorum))):
            try:
                terms.check_quorum(member.enrolled, quorum, member.session, member.verify)
            except BadSignature:
                raise ProtocolError("most clients are said to hold a seed that they did not sign", SERVER) from None
            if isinstance(state, HoldingSecret):
                return _settled(replace(state, shown=quorum))
            if _holds(state):  # from an attempt before
                return _settled(HoldingSecret(member, state.secret, state.signed, quorum))
            return replace(state, shown=quorum), ()
        case Seeded(member, secret), Received(Envelope(message=SeedQuorum(tag=tag))) if tag == terms.tag_of(
            secret, member.digest
        ):
            return state, ()  # it signed the tag in an attempt before, too
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def _say(member: SeedMember, message: Any) -> Send:
    return Send(Envelope(member.digest, member.me, SERVER, message))


def _holds(state: Waiting) -> bool:
    """Whether its secret is the one whose tag it signed in an attempt before."""
    return bool(state.signed) and state.signed == terms.tag_of(state.secret, state.member.digest)


def _settled(state: HoldingSecret) -> tuple[HoldingSecret | Seeded, tuple[Effect, ...]]:
    """With the secret that most hold, where that is known. Before, sign the tag of the first one, unless another was signed."""
    member, shown = state.member, state.shown
    if shown is None:
        tag = terms.tag_of(state.secret, member.digest)
        return (replace(state, signed=tag), _signed(member, tag, state.secret)) if state.signed in (b"", tag) else (state, ())
    for secret in (state.secret, state.other):
        if secret is not None and terms.tag_of(secret, member.digest) == shown.tag:
            told = () if state.signed == shown.tag else _signed(member, shown.tag, secret)
            answered = state.answered if secret == state.secret else frozenset()
            return Seeded(member, secret, answered, state.left_out), told
    return state, ()


def _signed(member: SeedMember, tag: bytes, secret: bytes) -> tuple[Effect, ...]:
    """What is signed is stored first, with its secret: where all were gone who have that, the tag would bind for nothing."""
    stored = Persist(f"{terms.TAGS} {member.digest.hex()}", tag + secret)
    return stored, _say(member, terms.signed_tag(member.identity, member.digest, tag))


def _seal(state: Any, roster: Roster) -> tuple[Any, tuple[Effect, ...]]:
    """Seal the secret to every key in the roster that has not had it from here, and leave out whose key is not in order."""
    member: SeedMember = state.member
    digest, tag = member.digest, terms.tag_of(state.secret, member.digest)
    mine = terms.advertise(member.identity, digest, member.key.public)
    seals, left_out = {}, []
    lives = Counter(client for client, _ in state.answered)
    for client, said in roster.advertised().items():
        if client == member.me or (client, said.public) in state.answered or lives[client] >= terms.LIVES:
            continue
        try:
            terms.check_key(member.enrolled, client, said, digest, member.verify)
            sealed = member.key.seal(said.public, state.secret, terms.context(digest, member.me, client, tag))
            seals[client, said.public] = _say(member, SealedSeed(client, member.me, mine.public, mine.signature, tag, sealed))
        except BadSignature:
            left_out.append((SERVER, f"the key shown for client {client} is not signed by it"))
        except InvalidSeal:
            left_out.append((client, "a key that nothing can be sealed to"))
    reasons = tuple(dict.fromkeys((*state.left_out, *left_out)))[:MOST_REASONS]
    return replace(state, answered=state.answered | seals.keys(), left_out=reasons), tuple(seals.values())


def _opened(member: SeedMember, sealed: SealedSeed) -> bytes:
    digest, sealer = member.digest, sealed.sealer
    if sealed.member != member.me or sealer == member.me:
        raise ProtocolError("a seed for another member", SERVER)
    said = Advertise(sealed.public, sealed.signature)
    try:
        terms.check_key(member.enrolled, sealer, said, digest, member.verify)
        secret = member.key.open(sealed.public, sealed.sealed, terms.context(digest, sealer, member.me, sealed.tag))
    except BadSignature:
        raise ProtocolError(f"the key shown for client {sealer} is not signed by it", SERVER) from None
    except InvalidSeal:
        raise ProtocolError("the sealed seed does not open", SERVER) from None
    if terms.tag_of(secret, digest) != sealed.tag:
        raise ProtocolError("the sealed seed is not the one that it is named", sealer)
    return secret
