"""The second server or the dealer in a process of its own: how it is greeted, its role, and its journal.

It says nothing before what it must not forget is in the journal: rounds and numbers that are spent, keys of updates that the
first server has it keep beyond their round, and the last word that it took. Other keys are in none: a crash loses their updates.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import cbor2

from ..core.errors import ProtocolError, Refused
from ..core.session import RUN_BYTES, SERVER
from ..drivers.journal import InFile, Journal
from ..drivers.roles import Effect, Event, Party, Persist, Received, Refusal, Send, mark_of
from ..links.dialled import Dialled
from ..pki.names import name_of
from ..pki.standing import Standing
from ..wire.codec import Buffer, Envelope, decode, encode, plain_in
from ..wire.messages import MESSAGES as WORK
from ..work.driving import BEGUN, BY_BYTES, LINK, MOST_BYTES, Followed, seen_in
from .messages import MESSAGES as SHARES
from .protection import TwoServer
from .slot_messages import MESSAGES as SLOTS

KINDS = {**WORK, **SHARES, **SLOTS}
JOURNAL = "journal"
_LIFE, _BY = "life", "by"


@dataclass(frozen=True, slots=True)
class Welcome:
    """What a coordinator says first to the second server and to the dealer. drawn: for this run. length: of an update.
    protection: how it prints.
    """

    party: int
    drawn: bytes
    clients: tuple[int, ...]
    length: int
    protection: str

    @property
    def data(self) -> bytes:
        """As it is sent."""
        return cbor2.dumps([self.party, self.drawn, list(self.clients), self.length, self.protection])

    @classmethod
    def of(cls, data: bytes) -> "Welcome":
        """Raises Refused."""
        try:
            party, drawn, clients, length, protection = plain_in(data)
            found = cls(party, drawn, tuple(map(int, clients)), length, protection)
        except (TypeError, ValueError):
            raise Refused("what the coordinator says first is not a greeting: all parties need the same release") from None
        right = [type(item) for item in (party, drawn, length, protection)] == [int, bytes, int, str]
        if not right or len(found.drawn) != RUN_BYTES or sorted(set(found.clients)) != list(found.clients):
            raise Refused("what the coordinator says first does not add up")
        return found

    def check(self, party: int, how: TwoServer) -> None:
        """Raises Refused where the coordinator plays by other terms than this party agrees to, or takes it for another."""
        if self.party != party:
            raise Refused(f"the coordinator takes {name_of(party)} for another party")
        if self.protection != repr(how):
            raise Refused(f"the coordinator plays {self.protection:.300}, where this party agrees to {how!r}")


@dataclass(frozen=True, slots=True)
class HelperFolder:
    """What a party's folder has. spent: what its role persisted. life: of its process, counted from 1."""

    journal: Journal
    standing: Standing
    spent: Mapping[str, bytes]
    life: int


@contextmanager
def place(folder: Path) -> Iterator[Journal]:
    """A party's own folder, which this process alone uses. Raises ValueError where another one does."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"another process uses {folder}") from None
        yield InFile(folder / JOURNAL)
    finally:
        os.close(lock)


def welcomed(link: Dialled, journal: Journal, party: int, how: TwoServer) -> Welcome:
    """Connect to the coordinator. Raises Refused, LinkRefused, ConnectionError."""
    found = Welcome.of(link.start(seen_in(journal)))
    found.check(party, how)
    return found


def begun(journal: Journal, standing: Standing, run: bytes) -> HelperFolder:
    """Go on from the journal, or begin it: a party that was in this run before does not begin it anew. Raises Refused, OSError
    of a disk that is full: then nothing was said yet, and the run may be entered later. The journal has it first: who is killed
    before the keys folder notes it enters when it is back.
    """
    entries = journal.read()
    of = cbor2.dumps([standing.party, run])
    if entries.get(BEGUN, of) != of:
        raise Refused("this folder is of another run or party: give each run a folder of its own")
    by = entries.get(_BY, b"") if BEGUN in entries else os.urandom(BY_BYTES)
    life = int.from_bytes(entries.get(_LIFE, b""), "big") + 1
    journal.put({BEGUN: of, _BY: by, _LIFE: life.to_bytes(4, "big")})
    if by:  # also of a journal from before: its party may have been killed before it did. Earlier releases have none, and had
        try:
            standing.enter(run, by)
        except Refused:
            journal.replace(entries)  # the folder is as good for another run as it was
            raise
    spent = {key: entry for key, entry in entries.items() if key not in (BEGUN, _BY, _LIFE, LINK)}
    return HelperFolder(journal, standing, spent, life)


@dataclass(frozen=True, slots=True)
class HandledWord:
    """A word of the coordinator's, and what it led to. what: kind of message, as far as it is one."""

    what: str
    followed: Followed


class Helper:
    """A party's role, with bytes in and bytes out."""

    def __init__(self, role: Party, journal: Journal) -> None:
        self.role = role
        self._journal = journal

    def read(self, sender: int, data: bytes) -> Envelope:
        """What came over the link of this party. Raises ProtocolError."""
        envelope = decode(data, sender, MOST_BYTES, KINDS)
        if (envelope.sender, envelope.receiver) != (sender, self.role.id):
            raise ProtocolError("a message that names other parties than its link", sender)
        return envelope

    def take(self, sender: int, data: bytes, found: Followed) -> None:
        """Advance by it; what follows is added to what was found."""
        try:
            self._feed(Received(self.read(sender, data), mark_of(data)), found)
        except ProtocolError as error:
            found.refused.append((error.blame, error.reason))

    def _feed(self, event: Event, found: Followed) -> None:
        effects: tuple[Effect, ...] = self.role.handle(event)
        for effect in effects:
            match effect:
                case Send(envelope):
                    found.sent.append((envelope.receiver, type(envelope.message).__name__, encode(envelope)))
                case Persist(key, value):
                    self._journal.put({key: value})
                case Refusal(blame, reason):
                    found.refused.append((blame, reason))


def frame_in(word: Buffer) -> bytes:
    """The coordinator's frame in a word of its; it says nothing else to such a party. Raises ProtocolError."""
    try:
        what, sender, data = plain_in(word)
    except (TypeError, ValueError):
        raise ProtocolError("a word that is none", SERVER) from None
    if (what, sender) != ("frame", SERVER) or type(data) is not bytes:
        raise ProtocolError("a word that is not the coordinator's to say", SERVER)
    return data


def answer(link: Dialled, kept: HelperFolder, number: int, found: Followed) -> None:
    """Give it, once the journal knows that the word was taken."""
    kept.journal.put({LINK: cbor2.dumps(astuple(replace(link.seen, number=number)))})
    here = [message for message in found.sent if message[0] == SERVER]
    link.answer(number, cbor2.dumps([here, [], found.refused]))
