"""The phases of a masked sum's client: what it knows in each, and no more. The steps between them: client.py."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from ...crypto.agreement import AgreementKey, KeyExchange, exchange_keys
from ...crypto.entropy import Entropy
from ...crypto.identity import SigningKey, Verify, verify
from ...crypto.sealing import Channel, SealingKey
from ...crypto.shamir import MaskKeyShare, SelfSeedShare
from ..core.session import SERVER
from ..drivers.roles import Send
from ..parts.charter import Charter
from ..wire.codec import Envelope
from .given import GivenUpdates
from .terms import Plan, SumPolicy
from .transcript import Transcript

if TYPE_CHECKING:
    from .spending import SumSpending


@dataclass(frozen=True, slots=True)
class Idle:
    """A client between sessions. model: SHA-256 of the model that it holds. entropy: where a session's secret comes from.

    transcript: what it gave and signed, under which charter. policy: no weaker than that. next_round: the earliest round it
    still takes part in, per protocol name of the latest round that it took part in (joined.py). updates: the work sessions
    whose updates it holds, by digest, and their rounds; whoever owns the client sets it, the server never. A client that
    restarts must have transcript, next_round and spending back as they were last stored (`restored`). verify: how it checks
    signatures. exchange: how it agrees on keys. spending: what it spends on noise, under a charter with noise; else None.
    """

    transcript: Transcript
    policy: SumPolicy
    identity: SigningKey
    entropy: Entropy = field(repr=False)
    model: bytes
    next_round: Mapping[str, int] = field(default_factory=dict)
    updates: Mapping[bytes, int] = field(default_factory=dict)
    verify: Verify = field(default=verify, repr=False, compare=False)
    exchange: KeyExchange = field(default=exchange_keys, repr=False, compare=False)
    spending: "SumSpending | None" = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.policy.keeps(self.charter):
            raise ValueError("a policy that asks for less than the charter")
        if (self.charter.numbers.noise is None) != (self.spending is None):
            raise ValueError("a client has a ledger of noisy sums if its charter has noise, and else none")

    @property
    def me(self) -> int:
        return self.transcript.me

    @property
    def charter(self) -> Charter:
        return self.transcript.charter

    @property
    def given(self) -> GivenUpdates:
        """The updates that it gave to sums of the latest round."""
        return self.transcript.given

    def left(self, sent: bool) -> Self:
        """Out of a session that it did not sign in. sent: whether it gave an input."""
        return self if self.spending is None else replace(self, spending=self.spending.left(sent))

    @property
    def round(self) -> int:
        """The earliest round that it joins sums of: the latest that it has joined one of."""
        return max(self.given.round, max(self.next_round.values(), default=1) - 1)


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
    """A client that has shared its secrets. mask_publics: keys of the neighbours that advertised."""

    idle: Idle
    plan: Plan
    secrets: Secrets
    mask_publics: Mapping[int, bytes]
    channels: Mapping[int, Channel] = field(repr=False)


@dataclass(frozen=True, slots=True)
class NeighbourShares:
    """Both shares of a neighbour's secrets; one of them, at most, will be handed out."""

    seed: SelfSeedShare
    key: MaskKeyShare


@dataclass(frozen=True, slots=True)
class Checked:
    """A client that has said whose shares were good. near: mask keys of the neighbours that shared. held: the good shares."""

    idle: Idle
    plan: Plan
    secrets: Secrets
    near: Mapping[int, bytes]
    held: Mapping[int, NeighbourShares] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Masking:
    """A client that will mask with the neighbours `masking`. held: good shares, of all of them or of fewer."""

    idle: Idle
    plan: Plan
    secrets: Secrets
    masking: Mapping[int, bytes]
    held: Mapping[int, NeighbourShares] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Masked:
    """A client that has sent its input, and has forgotten its own secrets."""

    idle: Idle
    plan: Plan
    neighbours: tuple[int, ...]
    held: Mapping[int, NeighbourShares] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Signed:
    """A client that has signed the survivor set `alive`, which decides what it will hand out."""

    idle: Idle
    plan: Plan
    neighbours: tuple[int, ...]
    held: Mapping[int, NeighbourShares] = field(repr=False)
    alive: tuple[int, ...]


def to_server(plan: Plan, me: int, message: Any) -> Send:
    """The effect that sends a client's message of this session."""
    return Send(Envelope(plan.session.digest, me, SERVER, message))
