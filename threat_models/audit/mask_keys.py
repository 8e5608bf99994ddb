"""Keys of masks in a recorded run: those that the server was revealed, those of pairs, and keys that are no client's own.

A key is a client's own if it follows from what that client alone drew. The labels under which secrets are drawn are written out
here once more: whatever a client's code makes its keys of, an audit holds them against what they should be made of.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Self

from ...crypto.agreement import AgreementKey, UnusableKey
from ...crypto.entropy import Entropy, SimulatedEntropy
from ...crypto.identity import BadSignature, verify
from ...crypto.prg import derive_key
from ...crypto.sealing import SealingKey
from ...crypto.shamir import MaskKeyShare, Recovered, SelfSeedShare, combine_all
from ...protocol.core.errors import ProtocolError
from ...protocol.core.link import Frame
from ...protocol.masked import messages as masked
from ...protocol.masked.joined import OPENED, kind_of
from ...protocol.masked.terms import Dealt, Plan
from ...protocol.parts.charter import Charter
from ...protocol.two_servers.messages import KeyShare
from ...protocol.two_servers.slot_messages import SlotKey
from ...protocol.wire.codec import Kinds, decode
from ...protocol.wire.messages import Task
from .view import MaskKey, MaskKeys

SAID = masked.MaskKeys, masked.SealedShares, masked.MaskWith, masked.Reveal
MASK = "mask key"


@dataclass(frozen=True, slots=True)
class OfRun:
    """opened: by session, keys that follow from what clients revealed to the server. pairs: by session, keys that two clients
    agreed on. A session of which they could not be told is not there. foreign: keys that are not their client's own, in words.
    """

    opened: MaskKeys = field(default_factory=dict, repr=False)
    pairs: MaskKeys = field(default_factory=dict, repr=False)
    foreign: tuple[str, ...] = ()


@dataclass(slots=True)
class _Session:
    """What was said in one masked sum: by kind of message, the first of each client, or to it."""

    plan: Plan
    said: dict[type, dict[int, Any]] = field(default_factory=lambda: {kind: {} for kind in SAID})

    def of(self, kind: type) -> dict[int, Any]:
        return self.said[kind]


@dataclass(frozen=True, slots=True)
class _Own:
    """What a client's keys in a sum are, if they follow from its own secret."""

    client: int
    self_mask: bytes = field(repr=False)
    mask: AgreementKey
    seal: SealingKey

    @classmethod
    def of(cls, plan: Plan, client: int, entropy: Entropy) -> Self:
        root = entropy.secret(f"masked sum {client} {plan.binding.hex()}", 32)
        seed, mask, seal = (derive_key(root, purpose, plan.binding) for purpose in ("self seed", "mask key", "sealing key"))
        return cls(client, plan.self_mask_key(client, seed), AgreementKey(mask), SealingKey(seal))

    def foreign(self, session: _Session, revealed: Sequence[MaskKey]) -> str:
        """Which one does not, of the client's messages and what was revealed; empty if all do."""
        said = session.of(masked.MaskKeys)[self.client]
        if said.mask_public != self.mask.public:
            return MASK
        if said.seal_public != self.seal.public:
            return "sealing key"
        own = [k.key for k in revealed if k.a == k.b == self.client]
        return "" if own in ([], [self.self_mask]) else "self mask key"


def of_sums(frames: Sequence[Frame], kinds: Kinds, charter: Charter, entropy: Entropy) -> OfRun:
    """Of masked sums under this charter, but those that a receiver opens. frames: as they came."""
    opened, pairs, foreign = dict[bytes, tuple[MaskKey, ...]](), dict[bytes, tuple[MaskKey, ...]](), list[str]()
    for digest, session in _sessions(frames, kinds, charter).items():
        if not _bound(session) or (revealed := _opened(session)) is None:
            continue
        opened[digest] = revealed
        if isinstance(entropy, SimulatedEntropy):
            own = {i: _Own.of(session.plan, i, entropy) for i in session.of(masked.MaskKeys)}
            others = {i: of.foreign(session, revealed) for i, of in own.items()}
            foreign += [f"client {i}'s {of} of round {session.plan.session.round}" for i, of in others.items() if of]
            pairs[digest] = tuple(_pairs(session, {i: of.mask for i, of in own.items() if others[i] != MASK}))
    return OfRun(opened, pairs, tuple(dict.fromkeys(foreign)))


def of_shares(frames: Sequence[Frame], kinds: Kinds, entropy: Entropy) -> OfRun:
    """Of shares between two servers: no pair has a key, and none is opened. frames: as they came."""
    tasks, sent = dict[bytes, Task](), list[tuple[int, bytes, Any]]()
    for frame, session, message in _decoded(frames, kinds, Task, KeyShare, SlotKey):
        if isinstance(message, Task):
            tasks.setdefault(session, message)
        else:
            sent.append((frame.sender, session, message))
    sessions: MaskKeys = {session: () for _, session, _ in sent} if isinstance(entropy, SimulatedEntropy) else {}
    foreign = [
        f"client {client}'s share key of round {tasks[session].round if session in tasks else -1}"
        for client, session, message in sent
        if sessions and message.key != entropy.secret(f"two servers {client} {message.binding.hex()}", 32)
    ]
    return OfRun({}, sessions, tuple(dict.fromkeys(foreign)))


def _decoded(frames: Sequence[Frame], kinds: Kinds, *wanted: type) -> Iterator[tuple[Frame, bytes, Any]]:
    names = {kind.__name__ for kind in wanted}
    for frame in frames:
        if frame.kind in names and any(frame.data):
            with suppress(ProtocolError):
                envelope = decode(frame.data, frame.sender, len(frame.data), kinds)
                yield frame, envelope.session, envelope.message


def _sessions(frames: Sequence[Frame], kinds: Kinds, charter: Charter) -> Mapping[bytes, _Session]:
    found = dict[bytes, _Session]()
    for frame, digest, message in _decoded(frames, kinds, masked.Proposal, *SAID):
        if isinstance(message, masked.Proposal):
            if digest not in found and kind_of(message.protocol) != OPENED:
                with suppress(ValueError):
                    found[digest] = _Session(Plan.proposed(message, charter))
        elif (session := found.get(digest)) is not None:
            told = isinstance(message, masked.MaskWith)
            session.of(type(message)).setdefault(frame.receiver if told else frame.sender, message)
    return found


def _bound(session: _Session) -> bool:
    """Whether what its keys are bound to is known, as their signatures say."""
    plan = session.plan
    for i, keys in session.of(masked.MaskKeys).items():
        try:
            verify(plan.enrolled[i], keys.signature, "masked sum keys", plan.binding, keys.mask_public + keys.seal_public)
        except (KeyError, BadSignature):
            return False
    return True


def _opened(session: _Session) -> tuple[MaskKey, ...] | None:
    """Of self masks of survivors, and of masks that those who dropped out share; None where shares of secrets are none."""
    try:
        return tuple(_revealed(session))
    except (ValueError, KeyError):
        return None


def _revealed(session: _Session) -> Iterator[MaskKey]:
    plan, keys, told = session.plan, session.of(masked.MaskKeys), session.of(masked.MaskWith)
    seeds, mask_keys = defaultdict[int, list[SelfSeedShare]](list), defaultdict[int, list[MaskKeyShare]](list)
    for reveal in session.of(masked.Reveal).values():
        for i, share in zip(reveal.alive, reveal.seeds, strict=True):
            seeds[i].append(SelfSeedShare.decode(share))
        for i, share in zip(reveal.dropped, reveal.keys, strict=True):
            mask_keys[i].append(MaskKeyShare.decode(share))
    dealt = {i: Dealt.decode(plan, i, of.dealing) for i, of in session.of(masked.SealedShares).items()}
    of_seeds = combine_all((dealt[i].seed, shares) for i, shares in seeds.items())
    for i, found in zip(seeds, of_seeds, strict=True):
        if isinstance(found, Recovered):
            yield MaskKey(i, i, plan.self_mask_key(i, found.secret))
    of_keys = combine_all((dealt[i].key, shares) for i, shares in mask_keys.items())
    for i, found in zip(mask_keys, of_keys, strict=True):
        near = [j for j in told[i].neighbours if j in keys] if i in told else []
        if isinstance(found, Recovered):
            agreed = AgreementKey(found.secret).agree([(keys[j].mask_public, plan.pair(i, j)) for j in near], "pair mask")
            yield from (MaskKey(min(i, j), max(i, j), key) for j, key in zip(near, agreed, strict=True))


def _pairs(session: _Session, own: Mapping[int, AgreementKey]) -> Iterator[MaskKey]:
    """Of every two clients that were told to mask with each other."""
    told = {i: set(message.neighbours) for i, message in session.of(masked.MaskWith).items()}
    for i, j in combinations(sorted(own), 2):
        if j in told.get(i, ()) and i in told.get(j, ()):
            public = session.of(masked.MaskKeys)[j].mask_public
            try:
                (key,) = own[i].agree([(public, session.plan.pair(i, j))], "pair mask")
            except UnusableKey:
                continue
            yield MaskKey(i, j, key)
