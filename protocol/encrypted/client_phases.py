"""The phases of a client of the encrypted sum and scores, the policy that it keeps, and how it joins a session once.

Spec: specs/encrypted.md. The steps: client.py.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from ...crypto.ckks import EncryptingContext
from ...crypto.projection import TwoStage
from ..core.errors import ProtocolError
from ..core.session import SERVER, Session
from ..drivers.roles import Persist
from .keys import PROTOCOL as KEY
from .keys import KeyName, Purpose
from .messages import EncryptedSum, EncryptedSumRequest, KeyRequest, OpenSlots, ScoreRequest, SketchRequest
from .scaling import Weighting
from .slots import PROTOCOL as SLOTS
from .slots import Counted, EncryptedSlots

SUM, SKETCH, SCORES = "encrypted sum", "encrypted sketch", "encrypted scores"
MOST_SPENT = 4096
"""Answers of one client in one round."""


@dataclass(frozen=True, slots=True)
class EncryptionPolicy:
    """What a client insists on. min_cohort, min_threshold: of sums. keys: "run" where sketches of different rounds may meet.

    digits: the most decimals of a score that it hands out. samples: whether sums may count samples: the total weight then tells
    the server something that is under encryption, and one that makes sums of its own reads numbers by it. clients: of the run;
    None where nobody knows.
    """

    min_cohort: int = 3
    min_threshold: int = 3
    keys: Literal["run", "session"] = "session"
    digits: int = 4
    samples: bool = False
    clients: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class IdleEncryptor:
    """A client between sessions. seed: what the clients share and the server lacks (group_seed.py).

    sketch: the secret sketch by session digest, drawn from the seed. length: coordinates of an update.
    round: the latest that it took part in; spent: what it answered there, (kind of answer, session digest; of sums, `once_of`).
    slots: what its own work for slots is, if it did any. counted: sessions of them whose counts it opened, not the sums.
    """

    me: int
    run: bytes
    policy: EncryptionPolicy
    seed: bytes = field(repr=False)
    sketch: Callable[[bytes], TwoStage] = field(repr=False)
    length: int
    round: int = 0
    spent: frozenset[tuple[str, bytes]] = frozenset()
    slots: EncryptedSlots | None = None
    counted: Mapping[bytes, Counted] = field(default_factory=dict)

    def length_of(self, session: Session) -> int:
        """Coordinates of a client's input. Raises ProtocolError for a sum that it did no work for."""
        if session.protocol == SLOTS and self.slots is not None:
            return self.slots.length
        if session.protocol != SUM:
            raise ProtocolError("a sum of an unknown kind", SERVER)
        return self.length

    def slots_of(self, count: int, most: int) -> EncryptedSlots:
        """So many slots of updates, of which it opens those that reach its own floor. most: largest share of a client in one."""
        return EncryptedSlots(count, self.length, most, max(self.policy.min_threshold, 2))

    def key(self, purpose: Purpose, session: Session) -> KeyName:
        """The key that belongs to this session: its own, or the run's."""
        if purpose == "products" and self.policy.keys == "run":
            return KeyName(self.run, purpose, 0, "all")
        purpose = "slots" if session.protocol == SLOTS else purpose  # what is encrypted for one is opened as no other
        return KeyName(self.run, purpose, session.round, session.cluster)


@dataclass(frozen=True, slots=True)
class OwingSummand:
    """A client that owes its weighted vector, encrypted under `key`."""

    idle: IdleEncryptor
    session: Session
    key: EncryptingContext
    weighting: Weighting


@dataclass(frozen=True, slots=True)
class Sketching:
    """A client that owes its sketch, encrypted under `key`."""

    idle: IdleEncryptor
    session: Session
    key: EncryptingContext


Invitation = KeyRequest | EncryptedSumRequest | SketchRequest | EncryptedSum | OpenSlots | ScoreRequest


def old(state: IdleEncryptor | OwingSummand | Sketching, asked: Invitation) -> bool:
    """Whether a message is of a round before the latest that the client took part in: late, or sent again, and no fault.

    The session of the run's key may be asked for in any round.
    """
    idle = state if isinstance(state, IdleEncryptor) else state.idle
    of_run = idle.policy.keys == "run" and (asked.protocol, asked.round, asked.cluster) == (f"{KEY}/products", 0, "all")
    return asked.run == idle.run and asked.round < idle.round and not of_run


def once_of(session: Session) -> bytes:
    """By what a sum is answered once. Its key follows from its session's name: another roster or threshold makes it no other."""
    return Session(session.protocol, session.run, session.round, session.cluster, (0,), 1).digest


def joined(
    state: IdleEncryptor, digest: bytes, asked: Invitation, protocol: str, *, member: bool = True
) -> tuple[IdleEncryptor, Session, Persist]:
    """The session of a message, checked and spent for this kind of answer. member: whether only its roster may answer."""
    try:
        session = asked.session
    except ValueError as error:
        raise ProtocolError(f"a message without a valid session: {error}", SERVER) from None
    kind = type(asked).__name__
    cohorts, known = protocol == SUM, state.policy.clients
    once = once_of(session) if cohorts else digest
    problems = {
        "a message under another session's digest": session.digest != digest,
        "a session of another run": session.run != state.run,
        "a session of another protocol": session.protocol.partition("/")[0] != protocol,
        "a session of others": member and state.me not in session.roster,
        "a session of clients that are not in the run": known is not None and not known >= set(session.roster),
        "a session already answered": (kind, once) in state.spent,
        "more sessions than one round has": len(state.spent) >= MOST_SPENT and session.round == state.round,
        f"a cohort under the policy's {state.policy.min_cohort}": cohorts and len(session.roster) < state.policy.min_cohort,
        f"a threshold under the policy's {state.policy.min_threshold}": cohorts
        and session.threshold < state.policy.min_threshold,
    }
    for reason, found in problems.items():
        if found:
            raise ProtocolError(reason, SERVER)
    spent = state.spent if session.round <= state.round else frozenset()
    idle = replace(state, round=max(state.round, session.round), spent=spent | {(kind, once)})
    return idle, session, Persist(f"spent {kind} {once.hex()}", session.round.to_bytes(4, "big"))


def weighting_of(policy: EncryptionPolicy, asked: EncryptedSumRequest | EncryptedSum) -> Weighting:
    """The weights of a sum. Raises ProtocolError for one that counts samples where none does."""
    if asked.times_samples and not policy.samples:
        raise ProtocolError("a sum that counts samples, which none of this run does", SERVER)
    numbers = struct.unpack(f">{len(asked.roster)}d", asked.weights)
    try:
        return Weighting(dict(zip(asked.roster, numbers, strict=True)), bool(asked.times_samples))
    except ValueError as error:
        raise ProtocolError(f"a sum that cannot be: {error}", SERVER) from None
