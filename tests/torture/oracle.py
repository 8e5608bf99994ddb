"""What must hold, whatever happened: told from all that was said and answered, and never from what a party believes."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import cbor2
import numpy as np

from cloister.protocol.core.errors import Fault, ProtocolError
from cloister.protocol.core.link import Frame
from cloister.protocol.core.session import SECOND_SERVER, SERVER
from cloister.protocol.messages import decode
from cloister.protocol.work.driving import SITS_OUT, TWICE

from .machine import Sent, is_followed
from .opened import openable
from .questions import Answered, update_of
from .schedule import Event, Garble, Lie, Schedule

MOST_BYTES = 1 << 26
ONCE = frozenset(
    [
        "Ready",
        "MaskKeys",
        "SealedShares",
        "Accepted",
        "MaskedInput",
        "SurvivorSignature",
        "Reveal",
        "Upload",
        "KeyShare",
        "ExplicitShare",
        "Withheld",
        "EncryptedInput",
        "SumOpened",
        "PairKey",
        "PairClouds",
    ]
)
"""What a client says once in a session, and after a crash not at all in sessions that it was in."""
LATE = (
    "is out of place at",
    "of another session",
    "after the deadline",
    "that was not asked",
    "that is not there",
    "that is not open for",
)
"""Words about a message that came when its stage was over: it says nothing against who sent it."""
NO_BLAME = (
    "it lacks the seed",
    "is not held here",
    "a round that is over",
    "no work that",
    "already answered",
    "already taken",
    TWICE,
    SITS_OUT,
)


@dataclass(slots=True)
class Seen:
    """Of one run. said: by clients' programs. frames: at the coordinator. touched: those that a fate befell. arrived: answers,
    and whether they were late. answers: what it was told. means: (answer, client, by what it moved its model). signed: by
    client and session, the survivors that it signed. calm: the round without faults, -1 for none.
    """

    schedule: Schedule
    members: tuple[int, ...]
    said: list[Sent] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    touched: list[Frame] = field(default_factory=list)
    arrived: list[tuple[int, bytes, bool]] = field(default_factory=list)
    answers: list[Answered] = field(default_factory=list)
    means: list[tuple[Answered, int, Any]] = field(default_factory=list)
    signed: dict[tuple[int, bytes], set[tuple[int, ...]]] = field(default_factory=dict)
    faults: Sequence[Fault] = ()
    setup_faults: int = 0
    seated: tuple[int, ...] = ()
    lives: dict[int, int] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    calm: int = -1

    @property
    def honest(self) -> frozenset[int]:
        """Clients that do not help the server."""
        return frozenset(self.members) - {self.schedule.colluder}


def broken(seen: Seen, happened: Sequence[Event]) -> list[str]:
    """What did not hold, each in a line; nothing of a run in order."""
    found = [*_twice(seen), *_signed(seen), *_wrong_sums(seen), *_wrong_pairs(seen), *_opened(seen), *_blamed(seen, happened)]
    found += [*_survivors(seen), *_unread(seen), *_misdirected(seen), *_calm(seen, happened)]
    return list(dict.fromkeys(found))


def session_of(data: bytes, client: int) -> bytes:
    """The digest of the session that a client's message is of; empty for one that is none."""
    try:
        return bytes(decode(data, client, MOST_BYTES).session)
    except ProtocolError:
        return b""


# --- answers ------------------------------------------------------------------------------------------------------------------


def _twice(seen: Seen) -> Iterable[str]:
    """A client that says two different things in one session, or says anything in it in two lives; that answers a pair twice."""
    words: dict[tuple[int, bytes, str], set[bytes]] = defaultdict(set)
    lives: dict[tuple[int, bytes], set[int]] = defaultdict(set)
    pairs: dict[tuple[int, str], set[bytes]] = defaultdict(set)
    clusters = _clusters(seen)
    for sent in seen.said:
        if sent.client not in seen.honest or sent.kind not in ONCE:
            continue
        session = session_of(sent.data, sent.client)
        words[sent.client, session, sent.kind].add(sent.data)
        lives[sent.client, session].add(sent.life)
        if sent.kind == "PairClouds":
            pairs[sent.client, clusters.get(session, "")].add(sent.data)
    for (client, _, kind), different in words.items():
        if len(different) > 1:
            yield f"client {client} sent two different {kind} in one session"
    for (client, _), of in lives.items():
        if len(of) > 1:
            yield f"client {client} answers in a session that it was in before its crash"
    for (client, pair), different in pairs.items():
        if len(different) > 1:
            yield f"client {client} released {len(different)} clouds for the pair {pair}"


def _signed(seen: Seen) -> Iterable[str]:
    """A client that signs two survivor sets in one session, or one of fewer than the floor."""
    for (client, _), sets in seen.signed.items():
        if client not in seen.honest:
            continue
        if len(sets) > 1:
            yield f"client {client} signed {len(sets)} survivor sets in one session"
        if any(len(seen.honest.intersection(alive)) < seen.schedule.floor for alive in sets):
            yield f"client {client} signed survivors that are fewer than the floor"


def _clusters(seen: Seen) -> dict[bytes, str]:
    """Of sessions of pairs: whose."""
    if seen.schedule.protection != "pairs":
        return {}
    envelopes = (decode(frame.data, SERVER, MOST_BYTES) for frame in seen.frames if frame.kind == "PairOffer")
    return {envelope.session: envelope.message.cluster for envelope in envelopes}


def _wrong_sums(seen: Seen) -> Iterable[str]:
    named = [(answer, answer.clients, answer.mean, "the server's") for answer in seen.answers if answer.accepts is None]
    named += [(answer, answer.clients, mean, f"client {client}'s") for answer, client, mean in seen.means]
    for answer, clients, mean, whose in named:
        if mean is None:
            continue
        right = np.mean([update_of(i, answer.round) for i in clients], axis=0)
        if not set(clients) <= seen.honest and any(
            isinstance(e, Garble) and e.kind == "MaskedInput" for e in seen.schedule.events
        ):
            continue  # whoever helps the server may put in what it likes
        if (off := float(np.abs(mean - right).max())) > 1e-3:
            yield f"{whose} sum of {clients} in round {answer.round} is off by {off:.3g}"


def _wrong_pairs(seen: Seen) -> Iterable[str]:
    for answer in seen.answers:
        for (a, b), accepts in (answer.accepts or {}).items():
            if accepts != (a % 2 == b % 2):
                yield f"clients {a} and {b} are said to be {'alike' if accepts else 'unlike'} in round {answer.round}"


# --- secrets ------------------------------------------------------------------------------------------------------------------


def _opened(seen: Seen) -> Iterable[str]:
    """Sums that were published, and those that can be opened from all that was said: of too few, or that differ in too few."""
    least = seen.schedule.floor
    sums: dict[int, list[frozenset[int]]] = defaultdict(list)
    for answer in seen.answers:
        if answer.accepts is None and answer.clients:
            sums[answer.round].append(frozenset(answer.clients))
    if seen.schedule.protection == "masked":
        for round, of in openable(seen.said, seen.frames, seen.schedule.colluder).items():
            sums[round] += of
    for round, of in sums.items():
        for one in of:
            if 0 < len(one & seen.honest) < least:
                yield f"a sum of {sorted(one)} alone can be opened in round {round}"
            for other in of:
                if 0 < len((one ^ other) & seen.honest) < least:
                    yield f"sums of {sorted(one)} and of {sorted(other)} can be opened in round {round}"


def _misdirected(seen: Seen) -> Iterable[str]:
    """What one of two servers must not be sent."""
    for sent in seen.said:
        if (sent.kind == "KeyShare" and sent.receiver != SECOND_SERVER) or (
            sent.kind == "ExplicitShare" and sent.receiver != SERVER
        ):
            yield f"client {sent.client} sent its {sent.kind} to the wrong server"


# --- who is in, and who is blamed ---------------------------------------------------------------------------------------------


def _survivors(seen: Seen) -> Iterable[str]:
    """Whose input came in time is in the sum, and nobody whose input came late; of masked sums, and of sums by two servers."""
    kind = {"masked": "MaskedInput", "two servers": "ExplicitShare"}.get(seen.schedule.protection)
    if kind is None or any(isinstance(event, Lie) for event in seen.schedule.events):
        return
    there: dict[bytes, dict[int, bool]] = defaultdict(dict)
    for client, data, late in seen.arrived:
        plain = cbor2.loads(data)
        for _, _, frame in (entry for entry in (plain[0] if is_followed(plain) else ()) if entry[1] == kind):
            session = session_of(frame, client)
            there[session][client] = there[session].get(client, False) or not late
    shown = {}
    for frame in seen.frames:
        if frame.kind in ("Survivors", "Agreed"):
            envelope = decode(frame.data, frame.sender, MOST_BYTES)
            shown[envelope.session] = envelope.message.alive if frame.kind == "Survivors" else envelope.message.clients
    touched = {party for frame in seen.touched for party in (frame.sender, frame.receiver)}
    for session, alive in shown.items():
        for client, in_time in there[session].items():
            if client in alive and not in_time and client in seen.honest:
                yield f"client {client} is in a sum though its {kind} was late"
            if kind == "MaskedInput" and in_time and client not in alive and client in seen.honest and client not in touched:
                yield f"client {client} is not in a sum though its {kind} came in time"
        if strangers := set(alive) - there[session].keys():
            yield f"clients {sorted(strangers)} are in a sum without a {kind}"


def _blamed(seen: Seen, happened: Sequence[Event]) -> Iterable[str]:
    """An honest party on record with more than that a message of its came out of its time."""
    lies = any(isinstance(event, Lie) for event in happened)
    for fault in seen.faults[seen.setup_faults :]:
        if fault.blame not in seen.honest and fault.blame >= 0:
            continue
        if fault.blame < 0:
            continue
        if fault.rejected and any(word in fault.reason for word in NO_BLAME):
            continue
        if any(word in fault.reason for word in LATE) and not fault.rejected:
            continue
        if lies or (seen.schedule.early and seen.lives.get(fault.blame, 1) > 1):
            continue  # killed before the run had begun, it may have said who it is and not be that any more
        yield f"client {fault.blame}, who is honest, is blamed: {fault.reason}"


def _unread(seen: Seen) -> Iterable[str]:
    """A sum that holds what no inputs have, where nobody lies."""
    schedule = seen.schedule
    if schedule.colluder is None and not any(isinstance(event, Lie) for event in schedule.events):
        for fault in seen.faults[seen.setup_faults :]:
            if "cannot be read" in fault.reason or "is out of range" in fault.reason:
                yield f"a sum cannot be read: {fault.reason}"


def _calm(seen: Seen, happened: Sequence[Event]) -> Iterable[str]:
    """When nothing happens any more, everybody is there again."""
    if seen.calm < 0 or seen.schedule.early:
        return
    of = [answer for answer in seen.answers if answer.round == seen.calm]
    if seen.schedule.protection == "pairs":
        if not of:
            yield "nobody was compared in the calm round"
        return
    if seen.schedule.protection == "encrypted":
        return
    if not of or any(answer.clients != seen.members for answer in of):
        yield f"the calm round has sums of {[answer.clients for answer in of]}"
