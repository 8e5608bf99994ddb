"""A client of a run that another process coordinates: its own data, computer, journal, and record of what it told whom.

The scenario's file says what the client does and what it agrees to; the coordinator says who else takes part, out of those that
the authority's directory lists. Where they differ in what a client relies on (the protection, the first models, who is who), it
does not take part.
"""

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import cbor2

from ...protocol.core.errors import Refused
from ...protocol.drivers.journal import InFile
from ...protocol.links.dialled import Dialled
from ...protocol.links.terms import LinkRevoked
from ...protocol.two_servers.aside import Aside
from ...protocol.two_servers.protection import TwoServer
from ...protocol.work.driving import LINK, seen_in
from ...protocol.work.said import Said
from ..data.agreed import agreed_on
from ..data.own import OwnData
from .agreement import differences, terms_of, to_text
from .declines import why_declined
from .greeting import Greeting
from .held_alone import folder_may_be
from .member import JOURNAL, LOG, MODEL, Member, OwnRecord, lines_of
from .scenario import Scenario

log = logging.getLogger("cloister.joining")
LAST_TRIES = 15.0
"""Seconds in which a client that has its final model tries to tell the coordinator so, which may be gone for good."""
ITS_OWN = "for a reason that its own log and record have"
"""What a coordinator is told of a client that leaves over anything but the terms: words of its data and machine are its own."""
NO_SECOND = "it does not reach the second server, or is not let in there, as its own log says"
"""The same of one that could not begin."""


class NotReached(ConnectionError):
    """The second server is not there for this client."""


def join(
    scenario: Scenario[Any],
    link: Dialled,
    folder: Path,
    *,
    own: Path | None = None,
    data: Path | None = None,
    aside: Aside | None = None,
    tells: bool = True,
) -> Iterator[Said]:
    """Take part until the run is over, yielding what was said to each word.

    folder: of this client, mode 0700: its journal, from which it goes on after a crash, its record and its final model. own: its
    data; None for its share of the scenario's. data: folder of data sets. aside: its link to a second server, where the run has
    one. tells: whether it says how well it predicts, where it is asked. Where the run is over (`is_over`), nothing is said; who
    was killed when it had its model says that it has it, and ends likewise where nobody is there any more. Raises Refused, also
    where the coordinator says of others what the directory does not; LinkRefused, LinkRevoked, ConnectionError and ValueError.
    """
    if isinstance(scenario.protection, TwoServer) and aside is None:
        raise Refused("under TwoServer a client has a link to a second server too: give --second HOST:PORT, where that listens")
    if aside is not None and not isinstance(scenario.protection, TwoServer):
        of = type(scenario.protection).__name__
        raise Refused(f"--second is for TwoServer alone: this scenario's protection is {of}, which has no second server")
    if link.standing is None and aside is not None:
        raise Refused("two servers are two by their certificates: TwoServer is played with --keys alone")
    folder_may_be(folder, "client's own record")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if is_over(folder):
        return
    if is_handed(folder):
        link.give_up_after(LAST_TRIES)
    record = OwnRecord(folder / LOG)
    record.alone()
    record.add(started=True)
    link.noted = record.connected
    if aside is not None:
        aside.link.noted = record.connected_aside
    try:
        if own is not None and (found := agreed_on(scenario.data)) is not None:
            OwnData(own, found.shape, len(found.kinds), agreed=found)(None)  # what is wrong with it, before anybody hears
        ours = terms_of(scenario)
        link.terms = to_text(ours)
        greeting = Greeting.of(link.start(seen_in(InFile(folder / JOURNAL))))
        member = Member(scenario, greeting, folder, own=own, data=data, standing=link.standing, tells=tells, record=record)
        level = logging.INFO if own is not None else logging.WARNING
        log.log(level, "trains on", extra={"data": member.trains_on, "records": member.records})
        if member.other_data:
            why = "it joined this run with others before; what was learned of those stays in the models"
            log.warning("other data than before", extra={"why": why})
        if differ := differences(greeting.terms, ours):
            record.add(differs=differ)
            log.warning("the coordinator's scenario differs", extra={"fields_there_and_here": differ})
        if aside is not None:
            _start(aside, link, greeting.drawn)
        sat_out = set[str]()
        for number, word in link.words():
            answer = member.said(word)
            sat_out |= _declined(answer, sat_out)
            if aside is not None:
                # Before the journal has the word: a kill here loses this client's update, and gives no key twice, since its round
                # is spent already. The other way round it would be lost likewise.
                aside.check()
                aside.followed(answer.told, [frame for _, frame in answer.aside])
            member.journal.put({LINK: cbor2.dumps(astuple(replace(link.seen, number=number)))})  # so that it is answered once
            link.answer(number, answer.data)
            answer = replace(answer, data=b"", told=b"", aside=(), final=())
            del word  # vectors, of which none is kept while the next word is waited for
            yield answer
            if answer.word == "enrol" and answer.refused and not member.enrolled:
                raise Refused(f"this client leaves: {answer.refused[0][1]}")
        record.add(ended=True, **({"why": link.why} if link.why else {}))
    except Exception as error:
        if isinstance(error, ConnectionError) and not isinstance(error, LinkRevoked) and is_handed(folder):
            record.add(ended=True)
            log.warning(
                "the run is over", extra={"why": f"this client has its final model, and nothing more is to be had: {error}"}
            )
            return
        _tell(link, record, error)
        record.left(error)
        raise
    except BaseException:
        record.left()
        raise
    finally:
        link.stop()
        if aside is not None:
            aside.stop()
        record.close()


def _tell(link: Dialled, record: OwnRecord, error: Exception) -> None:
    """The coordinator, that this client takes no further part, and why: of the terms, which it knows, in words. It is in the
    record, too.
    """
    why = str(error) if isinstance(error, Refused) else NO_SECOND if isinstance(error, NotReached) else ITS_OWN
    if link.leave(why):
        with suppress(OSError):  # of a disk that is full
            record.add(revealed=[{"what": "Leaving", "bytes": len(why.encode())}], to="coordinator", said=why)


def _declined(answer: Said, before: Collection[str]) -> set[str]:
    """Why it sat out, where that is not one of those of before; it is logged."""
    if not answer.declined or answer.declined in before:
        return set()
    log.warning("declined", extra={"round": answer.round, "why": why_declined(answer.declined)})
    return {answer.declined}


def is_handed(folder: Path) -> bool:
    """Whether the client of this folder has the model that it was handed when its run was over."""
    return any(map(_handed, lines_of(folder / LOG))) and (folder / MODEL).is_file()


def _handed(line: Mapping[str, Any]) -> bool:
    return (line.get("received") or {}).get("what") == "final" or line.get("told") == "final"


def is_over(folder: Path, client: int | None = None) -> bool:
    """Whether the client of this folder took part to the end of its run, and has its model.

    Not where it was handed none: a run that the coordinator ended early may go on. client: whose the folder is to be. Raises
    ValueError for one of another client.
    """
    ended = handed = False
    whose = None
    for found in lines_of(folder / LOG):
        ended = (ended or "ended" in found) and "joined" not in found
        whose = found.get("client", whose) if "joined" in found else whose
        handed = handed or _handed(found)
    if client is not None and whose not in (None, client):
        raise ValueError(f"{folder} is the folder of client {whose}, and this is client {client}: give its own as --folder")
    return ended and handed and (folder / MODEL).is_file()


def _start(aside: Aside, link: Dialled, drawn: bytes) -> None:
    """The link to the second server. Where the run is over meanwhile, which the coordinator says, there is nothing to be had.

    Raises NotReached, LinkRevoked, Refused.
    """
    try:
        with link.waiting():
            aside.start(drawn, link)
    except LinkRevoked:
        raise
    except ConnectionError as error:
        if link.over:
            return
        if not link.ended.is_set():
            raise NotReached(str(error)) from error
        try:  # what ended the link to the coordinator, for which nobody waited any more for the second server
            for _ in link.words():
                pass
        except LinkRevoked:
            raise
        except ConnectionError as other:
            raise NotReached(f"{error}; meanwhile the coordinator's ended: {other}") from other
        raise NotReached(str(error)) from error
