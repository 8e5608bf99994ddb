"""The phases of a masked sum's server, and what more than one of its stages checks. The steps: server.py."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...crypto.identity import BadSignature
from ...crypto.shamir import MaskKeyShare, SelfSeedShare
from ..core.errors import ProtocolError
from ..core.session import SERVER, Session
from ..drivers.roles import Send
from ..wire.codec import Envelope
from .messages import MaskKeys, SealedShares, SurvivorSignature
from .terms import Dealt, Plan, Ring

WAITING_BYTES = 1 << 22
_BLOCK = 1 << 14  # ring elements that stay in cache while all inputs are added to them


@dataclass(frozen=True, slots=True)
class Advertising:
    """The server while keys arrive."""

    plan: Plan
    keys: Mapping[int, MaskKeys] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Sharing:
    """The server while sealed shares arrive. holders: per client that was shown keys, whose."""

    plan: Plan
    keys: Mapping[int, MaskKeys] = field(repr=False)
    holders: Mapping[int, tuple[int, ...]] = field(repr=False)
    shares: Mapping[int, SealedShares] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Accepting:
    """The server while clients say whose shares were good. near: per client that was sent shares, whose. dealt: by dealer."""

    plan: Plan
    keys: Mapping[int, MaskKeys] = field(repr=False)
    dealt: Mapping[int, Dealt] = field(repr=False)
    near: Mapping[int, tuple[int, ...]] = field(repr=False)
    accepted: Mapping[int, tuple[int, ...]] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Masks:
    """Who masks, and what takes the masks off. holders: per client that masks, who has good shares of its secrets: t or more."""

    keys: Mapping[int, MaskKeys] = field(repr=False)
    dealt: Mapping[int, Dealt] = field(repr=False)
    holders: Mapping[int, tuple[int, ...]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Summing:
    """The server while masked inputs are added and forgotten. total: ring (length,), of the inputs of `alive` but those waiting.

    waiting: inputs as they came, little-endian, added in one pass once they have `WAITING_BYTES`.
    marks: of these inputs' messages, in the order of `alive`, where a journal is kept.
    """

    plan: Plan
    masks: Masks
    total: Ring = field(repr=False)
    alive: tuple[int, ...] = ()
    waiting: tuple[bytes | memoryview, ...] = field(default=(), repr=False)
    marks: tuple[bytes, ...] = field(default=(), repr=False)

    def added(self) -> "Summing":
        """The same with nothing waiting."""
        if not self.waiting:
            return self
        total, (first, *others) = np.empty_like(self.total), [np.frombuffer(data, self.plan.terms.wire) for data in self.waiting]
        for start in range(0, len(total), _BLOCK):
            block = total[start : start + _BLOCK]
            np.add(self.total[start : start + _BLOCK], first[start : start + _BLOCK], out=block)
            for vector in others:
                np.add(block, vector[start : start + _BLOCK], out=block)
        return replace(self, total=total, waiting=())


@dataclass(frozen=True, slots=True)
class Agreeing:
    """The server while signatures on the survivor set `alive` arrive."""

    plan: Plan
    masks: Masks
    total: Ring = field(repr=False)
    alive: tuple[int, ...]
    signatures: Mapping[int, SurvivorSignature] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Revealed:
    """What a client handed in: of each neighbour one share."""

    seeds: Mapping[int, SelfSeedShare] = field(repr=False)
    keys: Mapping[int, MaskKeyShare] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Unmasking:
    """The server while shares arrive. asked: the clients that were sent enough signatures."""

    plan: Plan
    masks: Masks
    total: Ring = field(repr=False)
    alive: tuple[int, ...]
    asked: frozenset[int]
    revealed: Mapping[int, Revealed] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Reached:
    """How far clients came, as the server knows it. asked: who was asked for an input. alive: the survivor set that was shown;
    empty if none was. agreed: whose shares came, after it saw that others signed it too."""

    asked: tuple[int, ...] = ()
    alive: tuple[int, ...] = ()
    agreed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Unmasked:
    """The end: total, ring (length,), is the sum of the inputs of `clients`. bad: clients that handed in bad shares."""

    session: Session
    total: Ring = field(repr=False)
    clients: tuple[int, ...]
    bad: tuple[int, ...]
    reached: Reached = Reached()


@dataclass(frozen=True, slots=True)
class NoSum:
    """The end without a sum. stage: where it fell under a threshold; have of need were there. blame: who is guilty, if anyone.

    client: whose neighbours were too few, None where all clients count.
    """

    session: Session
    stage: str
    have: int
    need: int
    client: int | None = None
    blame: tuple[int, ...] = ()
    reached: Reached = Reached()


def to_client(plan: Plan, client: int, message: Any) -> Send:
    """The effect that sends a client the server's message of this session."""
    return Send(Envelope(plan.session.digest, SERVER, client, message))


def expect(client: int, expected: Collection[int], heard: Collection[int], what: str) -> None:
    """Raises ProtocolError unless the client was asked for `what` and has not answered yet."""
    if client not in expected:
        raise ProtocolError(f"{what} from a client that was not asked", client)
    if client in heard:
        raise ProtocolError(f"{what} a second time in one session", client)


def check_signature(plan: Plan, client: int, signature: bytes, purpose: str, content: bytes) -> None:
    """Raises ProtocolError unless the content is signed by the client in this session."""
    try:
        plan.verify(plan.enrolled[client], signature, purpose, plan.binding, content)
    except (BadSignature, KeyError):
        raise ProtocolError("a signature that is not the client's in this session", client) from None


def too_few(plan: Plan, stage: str, clients: Collection[int]) -> NoSum | None:
    """The failure, if fewer clients than the session's threshold are left."""
    have, need = len(clients), plan.session.threshold
    return NoSum(plan.session, stage, have, need) if have < need else None
