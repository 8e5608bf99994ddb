"""Keys of masks in a recorded run: those that the server was revealed, those that there should be, and what is wrong with others.

A key is a client's own if it follows from what that client alone drew (own_secrets.py).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from ...crypto.agreement import AgreementKey, UnusableKey
from ...crypto.entropy import Entropy, SimulatedEntropy
from ...crypto.identity import BadSignature, verify
from ...crypto.shamir import MaskKeyShare, Recovered, SelfSeedShare, combine_all
from ...protocol.core.errors import ProtocolError
from ...protocol.core.link import Frame
from ...protocol.core.session import SECOND_SERVER, SERVER
from ...protocol.masked import messages as masked
from ...protocol.masked.graph import agreed
from ...protocol.masked.joined import OPENED, kind_of
from ...protocol.masked.terms import Dealt, Plan
from ...protocol.parts.charter import Charter
from ...protocol.two_servers.messages import ExplicitShare, ExplicitTriple, KeyedTriple, KeyShare
from ...protocol.two_servers.slot_messages import SlotKey, SlotShare
from ...protocol.wire.codec import Kinds, decode
from ...protocol.wire.messages import OffsetSketched, Task, Upload
from .observer import NAMES
from .own_secrets import OwnSecrets
from .view import MaskKey, MaskKeys

VECTORS = frozenset({masked.MaskedInput.__name__, Upload.__name__, OffsetSketched.__name__})
HALVES = {
    **{kind.__name__: SECOND_SERVER for kind in (KeyShare, SlotKey, KeyedTriple)},
    **{kind.__name__: SERVER for kind in (ExplicitShare, SlotShare, ExplicitTriple)},
}
"""Under two servers, whose half a message of a kind is: nobody else's."""
TOLD = masked.NeighbourKeys, masked.MaskWith
SAID = masked.MaskKeys, masked.SealedShares


@dataclass(frozen=True, slots=True)
class OfRun:
    """opened: by session, keys that follow from what clients revealed to the server. keys: by session, of all masks that there
    should be. A session of which they could not be told is not there. wrong: what clients' keys are not, in words.
    """

    opened: MaskKeys = field(default_factory=dict, repr=False)
    keys: MaskKeys = field(default_factory=dict, repr=False)
    wrong: tuple[str, ...] = ()


@dataclass(slots=True)
class _Session:
    """What was said in one masked sum: by kind of message, the first of each client, or to it, and all that was revealed."""

    plan: Plan
    said: dict[type, dict[int, Any]] = field(default_factory=lambda: {kind: {} for kind in (*TOLD, *SAID)})
    reveals: list[masked.Reveal] = field(default_factory=list)

    def of(self, kind: type) -> dict[int, Any]:
        return self.said[kind]


def of_sums(sent: Sequence[Frame], came: Sequence[Frame], kinds: Kinds, charter: Charter, entropy: Entropy) -> OfRun:
    """Of masked sums under this charter, but those that a receiver opens. sent, came: frames before the network and after."""
    opened, keys, wrong = dict[bytes, tuple[MaskKey, ...]](), dict[bytes, tuple[MaskKey, ...]](), list[str]()
    sessions = _sessions(came, kinds, charter)
    said = sessions if sent == came else _sessions(sent, kinds, charter)
    spoken = _spoken(sent, kinds) if isinstance(entropy, SimulatedEntropy) else {}
    for digest, session in sessions.items():
        if not _bound(session) or (revealed := _opened(session)) is None:
            continue
        opened[digest] = revealed
        if isinstance(entropy, SimulatedEntropy):
            own = {i: OwnSecrets.of(session.plan, i, entropy) for i in session.of(masked.MaskKeys)}
            wrong += _thin(session.plan, charter)
            wrong += (w for of in own.values() for w in _wrong(of, session, said.get(digest, session), revealed))
            keys[digest] = tuple(_agreed(session, own))
            wrong += _shown(own, keys[digest], spoken.get(digest, {}))
    return OfRun(opened, keys, tuple(dict.fromkeys(wrong)))


def of_shares(frames: Sequence[Frame], kinds: Kinds, entropy: Entropy) -> OfRun:
    """Of shares between two servers: none is opened. frames: as they were sent."""
    keys, wrong = defaultdict[bytes, tuple[MaskKey, ...]](tuple), [*_astray(frames)]
    if not isinstance(entropy, SimulatedEntropy):
        return OfRun({}, {}, tuple(dict.fromkeys(wrong)))
    tasks = dict[bytes, Task]()
    for _, session, task in _decoded(frames, kinds, Task):
        tasks.setdefault(session, task)
    spoken = _spoken([frame for frame in frames if frame.receiver == SERVER], kinds)
    for frame, session, message in _decoded(frames, kinds, KeyShare, SlotKey):
        client, own = frame.sender, entropy.secret(f"two servers {frame.sender} {message.binding.hex()}", 32)
        keys[session] += (MaskKey(client, client, own),) if isinstance(message, KeyShare) else ()
        where = f"client {client}'s share key of round {tasks[session].round if session in tasks else -1}"
        if message.key != own:
            wrong.append(f"{where} is not its own")
        if own in spoken.get(session, {}).get(client, b""):
            wrong.append(f"{where} stands in what it sends to the first server")
    return OfRun({}, dict(keys), tuple(dict.fromkeys(wrong)))


def _astray(frames: Sequence[Frame]) -> Iterator[str]:
    """Halves of shares and triples that went to the wrong one of two servers."""
    for frame in frames:
        if frame.receiver in NAMES and frame.receiver != HALVES.get(frame.kind, frame.receiver):
            who = NAMES.get(frame.sender, f"client {frame.sender}")
            yield f"the {NAMES[frame.receiver]} was sent a {frame.kind} by {who}, which is the {NAMES[HALVES[frame.kind]]}'s half"


def _decoded(frames: Sequence[Frame], kinds: Kinds, *wanted: type) -> Iterator[tuple[Frame, bytes, Any]]:
    names = {kind.__name__ for kind in wanted}
    for frame in frames:
        if frame.kind in names and any(frame.data):
            with suppress(ProtocolError):
                envelope = decode(frame.data, frame.sender, len(frame.data), kinds)
                yield frame, envelope.session, envelope.message


def _sessions(frames: Sequence[Frame], kinds: Kinds, charter: Charter) -> Mapping[bytes, _Session]:
    found = dict[bytes, _Session]()
    for frame, digest, message in _decoded(frames, kinds, masked.Proposal, masked.Reveal, *TOLD, *SAID):
        if isinstance(message, masked.Proposal):
            if digest not in found and kind_of(message.protocol) != OPENED:
                with suppress(ValueError):
                    found[digest] = _Session(Plan.proposed(message, charter))
        elif (session := found.get(digest)) is None:
            continue
        elif isinstance(message, masked.Reveal):
            session.reveals.append(message)
        else:
            session.of(type(message)).setdefault(frame.receiver if isinstance(message, TOLD) else frame.sender, message)
    return found


def _spoken(frames: Sequence[Frame], kinds: Kinds) -> Mapping[bytes, Mapping[int, bytes]]:
    """What clients sent in each session, by client, but for vectors, which are tested themselves."""
    found: dict[bytes, dict[int, list[bytes]]] = defaultdict(lambda: defaultdict(list))
    for frame in frames:
        if frame.sender >= 0 and frame.kind not in VECTORS:
            with suppress(ProtocolError):
                found[decode(frame.data, frame.sender, len(frame.data), kinds).session][frame.sender].append(frame.data)
    return {session: {i: b"".join(said) for i, said in of.items()} for session, of in found.items()}


def _shown(own: Mapping[int, OwnSecrets], keys: Sequence[MaskKey], spoken: Mapping[int, bytes]) -> Iterator[str]:
    """Secrets that stand as they are in what their client sent in the session."""
    for i, of in own.items():
        pairs = ((f"mask key with client {k.b if k.a == i else k.a}", k.key) for k in keys if i in (k.a, k.b) and k.a != k.b)
        for name, secret in (*of.secrets, *pairs):
            if secret in spoken.get(i, b""):
                yield f"client {i}'s {name} of round {of.plan.session.round} stands in what it sends"


def _thin(plan: Plan, charter: Charter) -> Iterator[str]:
    """What is wrong with the masking graph, whatever clients took part in."""
    session, terms, rules = plan.session, plan.terms, charter.rules
    if charter.dropped is not None:
        with suppress(ValueError):
            own = agreed(len(session.roster), rules.corrupt, charter.dropped)
            if (terms.neighbours, terms.threshold) != (own.neighbours, own.threshold):
                numbers = f"{terms.neighbours} neighbours, {terms.threshold} of whom recover a secret"
                yield f"round {session.round} has {numbers}, where {own.neighbours} and {own.threshold} are found"
    if session.threshold < rules.least:
        yield f"round {session.round} has sums of {session.threshold}, where {rules.least} is the least"


def _wrong(own: OwnSecrets, session: _Session, said: _Session, revealed: Sequence[MaskKey]) -> Iterator[str]:
    """What is, of one client's keys and shares. said: the session as clients sent it."""
    i, t = own.client, session.plan.session.round
    public, dealt = (said.of(kind).get(i) for kind in SAID)
    shown = session.of(masked.NeighbourKeys).get(i)
    if public is not None:
        keys = list(own.foreign(public, [k.key for k in revealed if k.a == k.b == i]))
        yield from (f"client {i}'s {key} of round {t} is not its own" for key in keys)
        if not keys and shown is not None and dealt is not None and (words := own.misdealt(shown, dealt)):
            yield f"client {i}'s secrets of round {t} {words}"


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
    for reveal in session.reveals:
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


def _agreed(session: _Session, own: Mapping[int, OwnSecrets]) -> Iterator[MaskKey]:
    """Of self masks, and of every two clients of which one was told to mask with the other."""
    told = {i: set(message.neighbours) for i, message in session.of(masked.MaskWith).items()}
    yield from (MaskKey(i, i, own[i].self_mask) for i in sorted(own.keys() & told))
    publics = {i: of.mask.public for i, of in own.items()}
    for i, j in combinations(sorted(own), 2):
        if j in told.get(i, ()) or i in told.get(j, ()):
            with suppress(UnusableKey):
                (key,) = own[i].mask.agree([(publics[j], own[i].pair(j))], "pair mask")
                yield MaskKey(i, j, key)
