"""The keys of the encrypted sum and scores: made by one client, tagged and sealed for all of them, relayed by the server.

Spec: specs/encrypted.md. Clients hold one group seed (group_seed.py), the server does not. The tag stops a server that would
have clients encrypt under a key of its own; the seal keeps the secret key from it. A client keeps no key between messages:
whoever is asked to open something is sent the sealed key with it, so any client can take the place of another.
Server phases of a key session: AskingKey -> Keyed or Shortfall. The client's part is in client.py.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

import cbor2
import numpy as np
from numpy.typing import NDArray

from ...crypto.ckks import PRODUCTS, SUMS, EncryptingContext, PublicContext
from ...crypto.ckks_contexts import InvalidContext
from ...crypto.ckks_parameters import CkksParameters
from ...crypto.ckks_secret import SecretContext
from ...crypto.envelope import InvalidSeal, open_sealed, seal
from ...crypto.prg import derive_key
from ..core.errors import ProtocolError
from ..core.session import SERVER, Session
from ..drivers.roles import Awaiting, Deadline, Effect, Event, Received, Send
from ..wire.codec import Envelope
from .messages import EncryptedSumRequest, KeyRequest, OfferedKey, SketchRequest

PROTOCOL = "encrypted key"
TRIES = 8
"""Clients that are asked, one after the other, before a session fails."""
CHOSEN = "a public key of which no half follows from its name"
Purpose = Literal["sums", "slots", "products"]
PARAMETERS: Mapping[str, CkksParameters] = MappingProxyType({"sums": SUMS, "slots": SUMS, "products": PRODUCTS})


@dataclass(frozen=True, slots=True)
class KeyName:
    """What a key is for. round, name: of the one session that uses it; 0 and "all" for a key of the whole run."""

    run: bytes
    purpose: Purpose
    round: int
    name: str

    @property
    def parameters(self) -> CkksParameters:
        return PARAMETERS[self.purpose]

    def session(self, roster: tuple[int, ...]) -> Session:
        """The session in which the key is made, by the lowest client of the roster that answers."""
        return Session(f"{PROTOCOL}/{self.purpose}", self.run, self.round, self.name, roster, 1)

    def context(self, holder: int, public: bytes) -> bytes:
        """What its tag and its seal are bound to. public: SHA-256 of the public key, so that no two keys share one."""
        return cbor2.dumps([self.purpose, self.run, self.round, self.name, holder, public], canonical=True)

    def label(self, holder: int) -> bytes:
        """What the half of its public key that nobody chooses follows from, if this client makes it."""
        return cbor2.dumps([self.purpose, self.run, self.round, self.name, holder], canonical=True)


def hash_of(encrypting: bytes) -> bytes:
    return hashlib.sha256(encrypting).digest()


def tag_of(seed: bytes, context: bytes) -> bytes:
    """32 bytes that only holders of the seed can make."""
    return derive_key(seed, "ckks public key", context)


def _sealing_key(seed: bytes, context: bytes) -> bytes:
    return derive_key(seed, "ckks secret key", context)


def sealed_secret(seed: bytes, context: bytes, secret: bytes) -> bytes:
    """A secret key for the holders of the seed. The context holds the hash of the public key, so each key seals once."""
    return seal(_sealing_key(seed, context), secret, context)


def offer(seed: bytes, name: KeyName, me: int, secret: SecretContext) -> OfferedKey:
    """A client's fresh key, for the server to relay, of whose public half one polynomial is that of the name."""
    secret = secret.under(name.label(me))
    encrypting = secret.encrypting_bytes()
    context = name.context(me, hash_of(encrypting))
    evaluating = secret.public_bytes() if name.parameters.multiplies else b""
    return OfferedKey(encrypting, evaluating, tag_of(seed, context), sealed_secret(seed, context, secret.secret_bytes()))


def checked_key(seed: bytes, name: KeyName, asked: EncryptedSumRequest | SketchRequest) -> EncryptingContext:
    """The public key that a client is to encrypt under, which some client made for this, and whose secret key opens what it
    encrypts and is not open itself. Raises ProtocolError blaming the server for another one, and the maker for one of no use.
    """
    holder, public = asked.holder, hash_of(asked.encrypting)
    if not hmac.compare_digest(asked.tag, tag_of(seed, name.context(holder, public))):
        raise ProtocolError(f"a public key without its maker's tag: client {holder} made it so, or no client made it", SERVER)
    try:
        key = EncryptingContext.from_bytes(asked.encrypting, name.parameters)
    except InvalidContext as error:
        raise ProtocolError(f"a key that cannot be used: {error}", holder) from None
    if not key.follows(name.label(holder)):
        raise ProtocolError(f"a key that cannot be used: {CHOSEN}", holder)
    if not key.hides or not opened_secret(seed, name, holder, public, asked.sealed).errs:
        raise ProtocolError("a key that cannot be used: a public key that hides nothing", holder)
    return key


def opened_secret(seed: bytes, name: KeyName, holder: int, public: bytes, sealed: bytes) -> SecretContext:
    """The secret key that a client sealed. Raises ProtocolError blaming the server for what does not open, and the client for a
    key that is none, or not that of its public key.
    """
    context = name.context(holder, public)
    try:
        secret = open_sealed(_sealing_key(seed, context), sealed, context)
    except InvalidSeal:
        raise ProtocolError("a sealed key that does not open", SERVER) from None
    try:
        key = SecretContext.from_secret_bytes(secret, name.parameters)
    except InvalidContext as error:
        raise ProtocolError(f"a key that cannot be used: {error}", holder) from None
    if hash_of(key.encrypting_bytes()) != public or not key.fits:
        raise ProtocolError("a sealed key that does not open what its public key encrypts", holder)
    return key


# --- the server's role ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RelayedKey:
    """A key as the server holds it: public, and sealed. holder: who made it."""

    name: KeyName
    holder: int
    public: PublicContext
    encrypting: bytes = field(repr=False)
    tag: bytes
    sealed: bytes = field(repr=False)

    @property
    def hash(self) -> bytes:
        return hash_of(self.encrypting)

    @property
    def packed(self) -> NDArray[np.uint8]:
        """To be kept by the server: all of it but the name."""
        evaluating = self.public.to_bytes() if self.name.parameters.multiplies else b""
        data = cbor2.dumps([self.holder, self.encrypting, evaluating, self.tag, self.sealed])
        return np.frombuffer(data, np.uint8)

    @classmethod
    def unpacked(cls, name: KeyName, kept: NDArray[np.uint8]) -> "RelayedKey":
        """The same again. Raises ProtocolError for what cannot be a key."""
        holder, *offered = cbor2.loads(kept.tobytes())
        return _relayed(name, holder, OfferedKey(*offered))


@dataclass(frozen=True, slots=True)
class AskingKey:
    """The server while the first clients of `order`, up to number `asked`, may offer a key; without one, of the roster."""

    name: KeyName
    session: Session
    order: tuple[int, ...] = ()
    asked: int = 0

    @property
    def makers(self) -> tuple[int, ...]:
        """Whom it asks at most, one after the other."""
        return (self.order or self.session.roster)[:TRIES]


@dataclass(frozen=True, slots=True)
class Keyed:
    """The server with a key to relay. asked: who was asked for one, and may send another, late."""

    session: Session
    key: RelayedKey
    asked: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The end without an answer. stage: where it fell under what it needs; have of need were there.

    shown: whose inputs are in a sum that members were sent and told nothing of. asked: who was asked, one after the other, and
    gave nothing.
    """

    session: Session
    stage: str
    have: int
    need: int
    shown: tuple[int, ...] = ()
    asked: tuple[int, ...] = ()


def ask(state: AskingKey) -> tuple[Effect, ...]:
    """The server's first move: one client is asked for a key."""
    s = state.session
    request = KeyRequest(*s.fields)
    return (Send(Envelope(s.digest, SERVER, state.makers[state.asked], request)),)


def server_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The server's role. Raises ProtocolError blaming the client for a key that is not what it should be."""
    match state, event:
        case AskingKey(), Received(Envelope(message=OfferedKey() as offered, sender=client)):
            if client not in state.makers[: state.asked + 1]:
                raise ProtocolError("a key from a client that was not asked", client)
            return Keyed(state.session, _relayed(state.name, client, offered), state.makers[: state.asked + 1]), ()
        case Keyed(), Received(Envelope(message=OfferedKey(), sender=client)) if client in state.asked:
            return state, ()  # asked as another was late, and not needed
        case AskingKey(), Deadline():
            following = state.asked + 1
            if following == len(state.makers):
                return Shortfall(state.session, "key", 0, 1, asked=state.makers), ()
            state = replace(state, asked=following)
            return state, (Awaiting("key", (state.makers[following],)), *ask(state))
        case ((Keyed() | Shortfall()), Deadline()):
            return state, ()
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def _relayed(name: KeyName, client: int, offered: OfferedKey) -> RelayedKey:
    multiplies = name.parameters.multiplies
    if bool(offered.evaluating) != multiplies:
        raise ProtocolError("keys for products where none belong, or none where they do", client)
    try:
        encrypting = EncryptingContext.from_bytes(offered.encrypting, name.parameters)
        public = PublicContext.from_bytes(offered.evaluating if multiplies else offered.encrypting, name.parameters)
    except InvalidContext as error:
        raise ProtocolError(f"a key that cannot be used: {error}", client) from None
    if public.encrypting().to_bytes() != encrypting.to_bytes():  # what is encrypted under the one is multiplied by the others
        raise ProtocolError("keys for products that belong to another public key", client)
    if not encrypting.follows(name.label(client)):
        raise ProtocolError(f"a key that cannot be used: {CHOSEN}", client)
    if multiplies and not public.can_multiply:
        raise ProtocolError("keys for products that no product can be made with", client)
    return RelayedKey(name, client, public, offered.encrypting, offered.tag, offered.sealed)
