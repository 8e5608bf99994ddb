"""The second server and the dealer, each a process of its own with keys, a journal and links of its own.

Both dial the coordinator, which is the first server. Clients and the dealer dial the second server: what they have for it passes
nobody else. Who is who is in every certificate, and in the directory that all parties hold. Spec: specs/two_servers.md,
"Deployment".
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...crypto.entropy import OsEntropy
from ..core.errors import ProtocolError, Refused
from ..core.session import DEALER, SECOND_SERVER, SERVER
from ..drivers.roles import Party
from ..links.dialled import Dialled
from ..links.listener import Listener
from ..links.pauses import LONGEST_PAUSE
from ..links.terms import CoordinatorRun, Limits
from ..pki.standing import Standing
from ..wire.codec import Buffer
from ..wire.messages import Task
from ..work.driving import Followed
from ..work.uploads import Policy
from .aside import Aside
from .dealer import DealerState, dealer_step
from .gathered import OpenQuestions, numbers_of
from .helper import HandledWord, Helper, HelperFolder, answer, begun, frame_in, place, welcomed
from .messages import GramQuestion, Held, Opening
from .protection import TwoServer
from .run import MOST_ROWS
from .second import second_step
from .second_state import CollectingKeys, Second, restored
from .terms import ShareTerms

MOST_SAID = 1 << 16
"""Bytes of what a client or the dealer has for the second server."""
log = logging.getLogger("cloister.second")


@dataclass(frozen=True, slots=True)
class ListeningAside:
    """Where the second server listens. limits: of its links; `patience` is also how long it waits for a key that is said to be
    there. told: when it listens, of the port.
    """

    address: str
    limits: Limits = field(default_factory=Limits)
    told: Callable[[int], object] = field(default=lambda port: None, repr=False)


def second_server(how: TwoServer, link: Dialled, folder: Path, listening: ListeningAside) -> Iterator[HandledWord]:
    """Play the second server until the run is over, yielding what was said to each word of the first.

    how: by which this party holds the first server to the floor; what that says of it must be the same. folder: of this party,
    mode 0700: its journal, from which it goes on. Raises Refused, Untrusted, LinkRefused, ConnectionError, OSError, ValueError.
    """
    with place(folder) as journal:
        standing = _standing(link, SECOND_SERVER)
        try:
            welcome = welcomed(link, journal, SECOND_SERVER, how)
            parties = (*welcome.clients, DEALER)
            standing.directory.enrolled(welcome.clients)
            run = standing.directory.run_of(welcome.drawn)
            kept = begun(journal, standing, run)
            fresh = Second(run, how.terms(welcome.length), Policy(min_cohort=1), OsEntropy())
            helper = Helper(Party(SECOND_SERVER, restored(fresh, kept.spent), second_step), journal)
            numbers = numbers_of(kept.life, parties)
            about = CoordinatorRun(welcome.drawn, kept.life, numbers)
            limits = replace(listening.limits, most=MOST_SAID)
            back = LONGEST_PAUSE + limits.back if kept.life > 1 else 0.0  # clients that knew the life before are on their way
            listener = Listener(listening.address, parties, lambda party: welcome.drawn, standing, limits, about, back)
            listening.told(listener.start())
        except BaseException as error:
            _leave(link, error)
            raise
        gathered = OpenQuestions(listener, numbers, limits.patience)
        try:
            for number, word in link.words():
                told = _second(helper, gathered, word)
                answer(link, kept, number, told.followed)
                yield told
        finally:
            listener.stop(link.over)
            link.stop()


def _second(helper: Helper, gathered: OpenQuestions, word: Buffer) -> HandledWord:
    """A word of the first server's. What concerns keys or a triple waits for those that are said to be there."""
    found = Followed()
    try:
        frame = frame_in(word)
        envelope = helper.read(SERVER, frame)
    except ProtocolError as error:
        found.refused.append((error.blame, error.reason))
        return HandledWord("", found)
    session, message = envelope.session, envelope.message
    due = message.clients if isinstance(message, Held) else (DEALER,) if isinstance(message, Opening) else ()
    for party, data in gathered.arrived(session, due):
        helper.take(party, data, found)
    if isinstance(message, Held):
        _say_left_out(helper, session, message)
    known = len(found.refused)
    helper.take(SERVER, frame, found)
    if isinstance(message, Task) and isinstance(helper.role.state.sessions.get(session), CollectingKeys):
        gathered.ask(session, message.roster)
    if isinstance(message, GramQuestion) and len(found.refused) == known:
        gathered.ask(session, (DEALER,))
    return HandledWord(type(message).__name__, found)


def _say_left_out(helper: Helper, session: bytes, held: Held) -> None:
    """Clients whose keys are here, and of whom the first server says that it holds nothing: it, or their links, lost them."""
    receiving = helper.role.state.sessions.get(session)
    if isinstance(receiving, CollectingKeys) and (left := sorted(receiving.keys.keys() - set(held.clients))):
        log.warning("left out by the coordinator", extra={"clients": left, "round": receiving.session.round})


def dealer(how: TwoServer, link: Dialled, aside: Aside, folder: Path) -> Iterator[HandledWord]:
    """Play the dealer until the run is over, yielding what was said to each word of the first server.

    aside: its link to the second server, which gets its half of each triple there. Raises as `second_server` does.
    """
    with place(folder) as journal:
        standing = _standing(link, DEALER)
        try:
            welcome = welcomed(link, journal, DEALER, how)
            kept = begun(journal, standing, standing.directory.run_of(welcome.drawn))
            helper = Helper(Party(DEALER, _dealing(kept, how.terms(welcome.length)), dealer_step), journal)
            with link.waiting():
                aside.start(welcome.drawn)
        except BaseException as error:
            _leave(link, error)
            raise
        try:
            for number, word in link.words():
                aside.check()
                found, frame, what = Followed(), b"", ""
                try:
                    frame = frame_in(word)
                    what = type(helper.read(SERVER, frame).message).__name__
                    helper.take(SERVER, frame, found)
                except ProtocolError as error:
                    found.refused.append((error.blame, error.reason))
                aside.followed(frame, [data for receiver, _, data in found.sent if receiver == SECOND_SERVER])
                answer(link, kept, number, found)
                yield HandledWord(what, found)
        finally:
            aside.stop()
            link.stop()


def _leave(link: Dialled, error: BaseException) -> None:
    """End the link; the coordinator hears why this party takes no part, where it is by what all agreed on."""
    if isinstance(error, Refused):
        link.leave(str(error))
    link.stop()


def _dealing(kept: HelperFolder, terms: ShareTerms) -> DealerState:
    return DealerState(terms, MOST_ROWS, OsEntropy(), int.from_bytes(kept.spent.get("next question", b""), "big"))


def _standing(link: Dialled, party: int) -> Standing:
    """Raises Refused."""
    if link.standing is None:
        raise Refused("two servers are two by their certificates: there is no run of theirs without keys")
    if link.standing.party != party:
        raise Refused("the keys are of another party")
    return link.standing
