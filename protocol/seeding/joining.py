"""One client in the exchange of a run's seed: its role, with keys and a secret that it draws for itself."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ...crypto.entropy import Entropy
from ...crypto.identity import SigningKey, Verify, verify
from ...crypto.sealing import SealingKey
from ..core.session import Session
from ..drivers.roles import Effect, Event, Party
from ..view.answers import Memory
from ..view.protection import Setup
from ..work.maker import SEED, Exchange, Mine
from .client import HoldingSecret, Seeded, SeedMember, Waiting, client_step, join, still_holds
from .messages import MESSAGES
from .terms import PROTOCOL, SECRET_BYTES, TAG_BYTES, TAGS, seed_of, session_of, tag_of


class Joiner:
    """A client. enrolled: everybody's identity. check: how it checks signatures. It joins once at first, and again if it must.

    seed: that an earlier life of it held when the exchange was over; empty of none.
    """

    def __init__(
        self,
        session: Session,
        me: int,
        identity: SigningKey,
        enrolled: Mapping[int, bytes],
        entropy: Entropy,
        check: Verify = verify,
        seed: bytes = b"",
    ) -> None:
        self.id = me
        self._session = session
        self._identity = identity
        self._enrolled = enrolled
        self._entropy = entropy
        self._check = check
        self._seed = seed
        self._joined = 0
        self._role: Party | None = None
        self._fresh = b""  # one for all attempts
        self._before = b"", b""  # see `_bound`; of an earlier life

    @property
    def session(self) -> bytes:
        """The exchange that it is in, by its digest."""
        return self._session.digest

    @property
    def state(self) -> Any:
        """Of its role; None before it joined."""
        return None if self._role is None else self._role.state

    @property
    def seed(self) -> bytes:
        """That it holds, 32 bytes; empty if it holds none."""
        return self.state.seed if isinstance(self.state, Seeded) else b""

    @property
    def left_out(self) -> tuple[tuple[int, str], ...]:
        """Whom it did not seal to, and why, as (blame, reason)."""
        return () if self.state is None or isinstance(self.state, Waiting) else self.state.left_out

    def hello(self) -> tuple[Effect, ...]:
        """What it says first, with a fresh key. Where it holds what it signed, that is what it hands out if it leads."""
        signed, held = self._bound
        member = self._member()
        self._fresh = self._fresh or self._entropy.lasting(self._label("fresh secret 1"), SECRET_BYTES)
        state, said = join(member, held or self._fresh, signed)
        self._role = Party(self.id, state, client_step)
        return (*still_holds(state), said)

    def enrol(self, enrolled: Mapping[int, bytes]) -> None:
        """Everybody's identity, newcomers' too."""
        self._enrolled = enrolled
        if self._role is not None:
            self._role.state = replace(self.state, member=replace(self.state.member, enrolled=enrolled))

    def save(self) -> Memory:
        """The tag that it signed, and its secret."""
        signed, held = self._bound
        return Memory(0, {self._key: signed + held} if signed else {})

    def restore(self, memory: Memory) -> None:
        """Go on from what it stored. Where it held the seed, it hands that out to newcomers as before."""
        stored = memory.stored.get(self._key, b"")
        self._before = stored[:TAG_BYTES], (held := stored[TAG_BYTES:])
        if self._seed and held and seed_of(held, self._session.digest) == self._seed:
            self._role = Party(self.id, Seeded(self._member(), held), client_step)

    def _member(self) -> SeedMember:
        """With a fresh key."""
        self._joined += 1
        # Not one that lasts: another life would come with it again, and holders seal to a key once. Nor a journal full of them.
        key = SealingKey(self._entropy.secret(self._label(f"sealing key {self._joined}"), SECRET_BYTES))
        return SeedMember(self._session, self.id, key, self._identity, self._enrolled, self._check)

    @property
    def _bound(self) -> tuple[bytes, bytes]:
        """The tag that it signed, empty of none, and its secret, empty where it has it not. They bind it also when the exchange
        has ended and is begun again.
        """
        digest = self._session.digest
        match self.state:
            case Seeded(secret=secret):
                return tag_of(secret, digest), secret
            case Waiting(secret=secret, signed=signed) | HoldingSecret(secret=secret, signed=signed):
                return signed, secret if signed == tag_of(secret, digest) else b""
        return self._before

    @property
    def _key(self) -> str:
        return f"{TAGS} {self._session.digest.hex()}"

    def handle(self, event: Event) -> tuple[Effect, ...]:
        """Advance by one event and return the effects. Raises ProtocolError."""
        return () if self._role is None else self._role.handle(event)

    def _label(self, what: str) -> str:
        """Of a draw for one use by one client in one session: no two draws share it."""
        return f"{PROTOCOL} {self._session.digest.hex()} {what} of client {self.id}"


def identity_label(session: Session, client: int) -> str:
    """By what a client's identity in a session is drawn."""
    return f"{PROTOCOL} {session.digest.hex()} identity of client {client}"


def joiner_of(mine: Mine, session: Session, use: str = SEED) -> Joiner:
    """A client of a run, as it joins the exchange of a seed. use: what its identity there is for."""
    return Joiner(session, mine.id, mine.identities[use], mine.enrolled[use], mine.setup.entropy, mine.shared.verify, mine.seed)


def exchange_of(protocol: str) -> Exchange:
    """In which all clients of a run agree on its seed. protocol: what the seed is for."""
    return Exchange(partial(_session_of, protocol), identity_label, joiner_of, MESSAGES)


def _session_of(protocol: str, setup: Setup) -> Session:
    return session_of(protocol, setup.run, setup.clients)
