"""What drives one client that lives by itself: bytes in and bytes out, its own work in between, and its journal.

A frame goes to the role that takes it by the kind of message, and by the session where roles are alike. What a role stores is in
the journal before anything that follows from it is handed out, and so are the round that the client takes part in and the models
that it says it holds. Started again from its journal it takes part in nothing of that round any more, and in everything after it.
At the end of a round the journal is brought to what the client keeps.
The journal has the run's seed and, where they are drawn for the run, the client's identities: it is as secret as its process.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import cbor2

from ...crypto.entropy import KeptEntropy
from ..core.errors import ProtocolError, Refused
from ..core.session import SERVER
from ..drivers.journal import Journal
from ..drivers.roles import (
    Compute,
    Computed,
    Deadline,
    Effect,
    Event,
    Judge,
    Judged,
    Learned,
    Persist,
    Received,
    Role,
    Send,
    mark_of,
)
from ..links.terms import ClientRun
from ..view.answers import Memory, Vector
from ..view.protection import Setup
from ..wire.codec import Buffer, Envelope, decode, encode
from ..wire.messages import MESSAGES, Declined, Task
from ..wire.recipes import MESSAGES as RECIPES
from ..wire.recipes import RoundOver
from ..wire.scores import MESSAGES as SCORES
from ..wire.scores import Evaluate, Score
from .client import InProcessClient
from .listed import Listed
from .maker import WORK, MadeOnce, Maker
from .participant import KNOWN, MODEL, OWN, RETAINED, SPLIT, Participant
from .uploads import from_bytes, to_bytes

BY_BYTES = 16
MOST_BYTES = 1 << 30
"""Of one frame that a client takes."""
BEGUN, SINCE, LINK, COMPUTER = "begun", "since", "link", "computer"
"""Keys of its journal: what it began the run with; the earliest round that it still takes part in; what its link knows; what its
computer keeps."""
TWICE = "a round that it took part in before it was started again: it answers in none twice"
SITS_OUT = "it was started again, and sits out what was in progress"
"""Why it takes no notice of what an earlier life of it was in the midst of. The journal has a round as spent before an answer
leaves, so a word may come again of which this life knows nothing."""
EMPTY = "score of nothing"
"""In the place of a protocol, of a score by which a client says that it does not say."""
_LASTING = frozenset({BEGUN, LINK, COMPUTER})
_VECTOR = "vector "
_BRING = ("vector", "vectors", "content", "ciphertexts", "total")
"""Fields of messages that bring a client what others made."""


@dataclass(frozen=True, slots=True)
class Followed:
    """What followed from an event. sent: (receiver, kind, frame). learned: (name, session) of what was published to it.

    refused: (blame, reason) of what it took no notice of.
    """

    sent: list[tuple[int, str, bytes]] = field(default_factory=list)
    learned: list[tuple[str, bytes]] = field(default_factory=list)
    refused: list[tuple[int, str]] = field(default_factory=list)


class Driven:
    """A client and what drives it. setup: its own, with its entropy, computers and data. listed: who is who; None: as it is told.

    heard: of the last frame, the kind of message; carried: whether it brought a model, a mean or a sum; among: of the word on a
    sum, who is in it, of a task, who is asked; declined: why it sat out, empty where it did not. asked: the round of the
    last task, counted from 0; None before the first. scored: of a frame that asks how well it predicts, the round that is over;
    else None. protocols: of what followed last, by message sent, the protocol of its
    session; empty of one that nobody proposed, EMPTY of a score that says nothing.

    Raises ValueError for a journal of another client or run, or one that could not be gone on from.
    """

    def __init__(self, id: int, setup: Setup, maker: Maker, journal: Journal, listed: Listed | None = None) -> None:
        self._setup = setup
        self._listed = listed
        own = None if listed is None else listed.identities
        self._maker = maker
        self._journal = journal
        taken = {WORK: {**MESSAGES, **RECIPES, **SCORES}, **maker.messages}
        self._roles_of = {kind: tuple(n for n, of in taken.items() if kind in of) for kinds in taken.values() for kind in kinds}
        self._kinds = {kind: message for kinds in taken.values() for kind, message in kinds.items()}
        self.heard, self.carried = "", False
        self.among: tuple[int, ...] = ()
        self.declined = ""
        self.asked: int | None = None
        self.scored: int | None = None
        self._protocols = dict[bytes, str]()  # of sessions that were proposed since the last task
        self.protocols = list[str]()
        self._since, self._held = 0, frozenset[str]()
        self._resumed = 0  # the earliest round that it took no part in yet, when it was started again
        entries = journal.read()
        for others in (LINK, COMPUTER):
            entries.pop(others, None)
        if (begun := entries.pop(BEGUN, None)) is None:
            self.client = InProcessClient(id, setup, maker, MadeOnce(setup.verify, setup.exchange), own)
            return
        try:
            of, kept, enrolled, seed = cbor2.loads(begun)
        except (TypeError, ValueError, cbor2.CBORDecodeError):
            raise ValueError("a journal whose beginning is not what a client stored") from None
        if of != [id, setup.run]:
            whose = "in this run: it is another client's, or of another run"
            instead = "give the folder that this client began this run with, or in a run that it has not begun an empty one"
            raise ValueError(f"not the journal of client {id} {whose}; {instead}")
        if not isinstance(setup.entropy, KeptEntropy):
            raise ValueError(f"client {id} has a journal, and secrets that do not last: it cannot go on from there")
        if listed is not None and enrolled and _clients(enrolled) != _clients(listed.enrolled):
            raise ValueError(
                "the coordinator names other clients of this run than when this one joined it: it goes on without this one"
            )
        if listed is not None and enrolled != listed.enrolled:
            raise ValueError("this run began with other identities than the directory has now: it goes on without this client")
        setup.entropy.kept.update(kept)
        self.client = InProcessClient(id, setup, maker, MadeOnce(setup.verify, setup.exchange), own)
        if enrolled is None:
            return
        if listed is not None:  # it may have been killed before it did
            listed.enter(self._by)
        self.client.rejoin(enrolled, seed)
        memory = memory_in(entries)
        self.client.restore(memory)
        self._resumed = memory.since

    def met(self) -> None:
        """The client says who it is: from now on its journal has its identities, if they are drawn for the run and last."""
        entropy = self._setup.entropy
        if isinstance(entropy, KeptEntropy) and self._listed is None:
            self._journal.put({BEGUN: cbor2.dumps([[self.client.id, self._setup.run], entropy.kept, None, b""])})

    def enrol(self, shown: Mapping[str, Mapping[int, bytes]]) -> None:
        """The coordinator says who is who. Raises Refused where that is not what is listed, or in a run of before, OSError where
        that cannot be kept: then nothing is said, and the run may be entered later.
        """
        if self._listed is not None:
            self._listed.check(shown)
            shown = self._listed.enrolled
        by = self._by  # in the journal from `begun` on: killed before it has entered, it enters when it is back
        self.client.enrol(shown)
        try:
            self.begun()
            if self._listed is not None:
                self._listed.enter(by)
        except (OSError, Refused):
            self.client.roles = {}  # also where its process goes on: it answers nothing that the journal does not know of
            raise

    def begun(self) -> None:
        """The client is ready for the run: its journal has what it began with from now on, if its secrets last."""
        entropy = self._setup.entropy
        if isinstance(entropy, KeptEntropy):
            begun = [[self.client.id, self._setup.run], entropy.kept, *self.client.admission]
            self._journal.put({BEGUN: cbor2.dumps(begun), **entries_of(self.client.save())})

    def arrived(self, sender: int, data: Buffer) -> Followed:
        """A frame came over the link of this party."""
        found = Followed()
        self.heard, self.carried, self.among, self.declined, self.protocols = "", False, (), "", []
        self.scored = None
        try:
            envelope = decode(data, sender, MOST_BYTES, self._kinds)
            self.heard = type(envelope.message).__name__
            self.carried = any(getattr(envelope.message, name, b"") for name in _BRING)
            self.among = among(envelope.message)
            self.scored = envelope.message.rounds - 1 if isinstance(envelope.message, Evaluate) else None
            if (envelope.sender, envelope.receiver) != (sender, self.client.id):
                raise ProtocolError("a message that names other parties than its link", sender)
            if not self.client.roles:  # it came in the middle of a round, and is told who is who before the next
                return found
            role = self._taker(envelope)
        except ProtocolError as error:
            found.refused.append((error.blame, error.reason))
            return found
        before = self._round
        self._feed(role, Received(envelope, mark_of(data)), found)
        if found.refused and self._resumed and self.asked is None:
            over = getattr(envelope.message, "round", self._resumed) < self._resumed
            found.refused[:] = [(blame, TWICE if over else f"{reason}; {SITS_OUT}") for blame, reason in found.refused]
        if (protocol := getattr(envelope.message, "protocol", "")) and not found.refused:
            self._protocols[envelope.session] = protocol
        if isinstance(envelope.message, Task) and not found.refused:
            self.asked = envelope.message.round
            self._protocols.clear()
        if self._round > before:
            self._leave(found)
        if isinstance(envelope.message, RoundOver) and not found.refused:
            self.keep()
        elif not found.refused:
            self._store()
        return found

    def keep(self) -> None:
        """Bring the journal to what the client keeps: no round is in progress."""
        memory = self.client.save()
        self._since, self._held = memory.since, held_in(memory)
        self._journal.replace(entries_of(memory), but=_LASTING)

    def restore(self, memory: Memory) -> None:
        """Go on from what whoever plays a simulation has kept of the client. Raises ValueError for what is not its own, or older
        than its journal: it would answer a second time in rounds that it took part in.
        """
        own = max(memory_in(self._journal.read()).since, self.client.save().since)
        if memory.since < own:
            raise ValueError(
                f"client {self.client.id} is asked to go back to where round {memory.since} begins, and its own journal says that"
                f" it took part up to round {own - 1}: it takes part in no round twice; begin a new run, with journals of its own"
            )
        self.client.restore(memory)
        self.keep()

    def time_is_up(self, name: str) -> Followed:
        """For the role of this name."""
        found, self.declined, self.protocols = Followed(), "", []
        self._feed(self.client.roles[name], Deadline(), found)
        return found

    def hello(self, name: str) -> Followed:
        """What it says first in the exchange in which it has this role."""
        found, self.declined, self.protocols = Followed(), "", []
        self._obey(self.client.roles[name], self.client.hello(name), found)
        return found

    @property
    def _by(self) -> bytes:
        """What names its journal; empty where its secrets do not last."""
        entropy = self._setup.entropy
        return entropy.lasting(f"entering of client {self.client.id}", BY_BYTES) if isinstance(entropy, KeptEntropy) else b""

    @property
    def _round(self) -> int:
        """The latest that it works in."""
        work = self.client.roles.get(WORK)
        return work.round if isinstance(work, Participant) else 0

    def _leave(self, found: Followed) -> None:
        """A new round has begun: what is still open in a role is of one before, whose end was lost while this client was away."""
        for name, role in self.client.roles.items():
            if name != WORK and not hasattr(role, "hello"):  # an exchange of a seed is no round's
                self._feed(role, Deadline(), found)

    def _store(self) -> None:
        """What it is about to say must outlast it: the round that it takes part in, and what it holds from now on."""
        memory = self.client.save()
        new = held_in(memory) - self._held
        if new or memory.since > self._since:
            self._since, self._held = memory.since, self._held | new
            stored = {key: entry for key, entry in memory.stored.items() if key in new}
            vectors = {key: vector for key, vector in memory.vectors.items() if key in new}
            self._journal.put(entries_of(Memory(memory.since, stored, vectors)))

    def _taker(self, envelope: Envelope) -> Role:
        """The role that takes it: by its kind and, where several take one kind, by the session that each is for."""
        for name in self._roles_of[envelope.message.kind]:
            role = self.client.roles.get(name)
            if role is not None and getattr(role, "session", envelope.session) == envelope.session:
                return role
        raise ProtocolError("a message for a session or role that is not there", envelope.sender)

    def _feed(self, role: Role, event: Event, found: Followed) -> None:
        try:
            effects = role.handle(event)
        except ProtocolError as error:
            found.refused.append((error.blame, error.reason))
            return
        except Exception as error:  # what its role did not think of ends what it was in, and not the client
            found.refused.append((SERVER, f"what this client could not take: {type(error).__name__}"))
            role.handle(Deadline())
            return
        self._obey(role, effects, found)

    def _obey(self, role: Role, effects: Iterable[Effect], found: Followed) -> None:
        for effect in effects:
            match effect:
                case Send(envelope):
                    found.sent.append((envelope.receiver, type(envelope.message).__name__, encode(envelope)))
                    empty = isinstance(envelope.message, Score) and not envelope.message.said
                    self.protocols.append(EMPTY if empty else self._protocols.get(envelope.session, ""))
                    self.declined = envelope.message.reason if isinstance(envelope.message, Declined) else self.declined
                case Persist(key, value):
                    self._journal.put({key: value})
                case Compute(job):
                    for _, work in self._setup.workers([job]):
                        self._feed(role, Computed(work), found)
                case Judge(offer):
                    chosen = None if self._setup.judge is None else self._setup.judge(offer)
                    self._feed(role, Deadline() if chosen is None else Judged(chosen), found)
                case Learned(name, session):
                    found.learned.append((name, session))


def among(message: Any) -> tuple[int, ...]:
    """Of the word on a sum, who is in it; of a task, who is asked; of any other nobody."""
    found = message.roster if isinstance(message, Task) else getattr(message, "alive", ())
    return tuple(found)


def seen_in(journal: Journal) -> ClientRun:
    """What an earlier life of the party knew of the run. Raises ValueError for a journal that is none."""
    entry = journal.read().get(LINK)
    try:
        return ClientRun() if entry is None else ClientRun(*cbor2.loads(entry))
    except (TypeError, ValueError, cbor2.CBORDecodeError):
        raise ValueError("a journal in which there is not what a party stored") from None


def _clients(enrolled: Mapping[str, Mapping[int, bytes]]) -> frozenset[int]:
    """Who is enrolled for anything."""
    return frozenset(client for of in enrolled.values() for client in of)


def held_in(memory: Memory) -> frozenset[str]:
    """Of what a client keeps, the keys of models, sketched work and keys of splits."""
    kinds = tuple(f"{kind} " for kind in (MODEL, OWN, KNOWN, RETAINED, SPLIT))
    return frozenset(key for key in (*memory.stored, *memory.vectors) if key.startswith(kinds))


def entries_of(memory: Memory) -> dict[str, bytes]:
    """What a client keeps, as entries of a journal."""
    vectors = {f"{_VECTOR}{name}": to_bytes(vector) for name, vector in memory.vectors.items()}
    return {SINCE: memory.since.to_bytes(4, "big"), **memory.stored, **vectors}


def memory_in(entries: Mapping[str, bytes]) -> Memory:
    """The same back."""
    vectors: dict[str, Vector] = {
        key.removeprefix(_VECTOR): from_bytes(entry) for key, entry in entries.items() if key.startswith(_VECTOR)
    }
    stored = {key: entry for key, entry in entries.items() if key != SINCE and not key.startswith(_VECTOR)}
    return Memory(int.from_bytes(entries.get(SINCE, b""), "big"), stored, vectors)
