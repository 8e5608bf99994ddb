"""How a coordinator begins to listen: what clients are told first, how long their answers may be, and for whom it waits."""

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import cbor2

from ...protocol.core.session import SECOND_SERVER
from ...protocol.encrypted.protection import Encrypted
from ...protocol.links.listener import Listener
from ...protocol.links.pauses import LONGEST_PAUSE
from ...protocol.links.terms import NEVER_BEGAN, CoordinatorRun, Limits
from ...protocol.pki.names import name_of
from ...protocol.pki.standing import Standing
from ...protocol.two_servers.helper import Welcome
from ...protocol.two_servers.protection import TwoServer
from ...protocol.two_servers.run import max_bytes
from ...protocol.work.uploads import to_bytes
from .agreement import terms_of
from .linked_hosts import LinkedHosts, who_left
from .other_terms import OtherTerms
from .parties import Parties
from .scenario import Scenario
from .served_journal import ServedJournal
from .too_few import HELPERS
from .vitals import Control

log = logging.getLogger("cloister.serving")
SPARE_BYTES, COORDINATE_BYTES = 16 << 20, 32
"""Of a client's answer: beside what it says of each coordinate, and of each, in every slot."""
ENCRYPTED_SPARE_BYTES, ENCRYPTED_COORDINATE_BYTES = 32 << 20, 80
"""The same of ciphertexts, and the keys that products of them need."""


NO_SECOND = "none answers before it reaches the second server: see that it does, by its own log"
"""Of clients of which none has answered yet, in a run with a second server."""
SETTLED = 3.0
"""Seconds without another client after which a run begins with those that are there, where they are enough: whoever comes a
round later is told from the others by the difference of two sums.
"""


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a coordinator listens, and how. wait: seconds until so many clients are there as `least`, None for all of them;
    without them the run does not begin.

    standing: the coordinator's own; None without certificates. told: when it listens, of the port. control: of whoever operates
    it. scores: whether clients are asked how well they predict, also where the scenario's own data would tell.
    """

    address: str
    standing: Standing | None
    limits: Limits = field(default_factory=Limits)
    wait: float = 120.0
    least: int | None = None
    told: Callable[[int], object] = field(default=lambda port: None, repr=False)
    control: Control = field(default_factory=Control)
    scores: bool = False


def helpers_of(scenario: Scenario[Any]) -> tuple[int, ...]:
    """Who must be there beside clients before the run begins. The dealer only where updates are compared; it may come later."""
    if not isinstance(scenario.protection, TwoServer):
        return ()
    return HELPERS if any(need.startswith("gram") for need in scenario.algorithm.needs) else (SECOND_SERVER,)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a coordinator has to know of its run to listen, without the data and models that it was found by. clients: of the run.
    most: bytes that an answer may have. greeting: what a client is told when it is there, by the name that was drawn for the run.
    """

    scenario: Scenario[Any] = field(repr=False)
    clients: tuple[int, ...]
    most: int
    greeting: Callable[[bytes], Callable[[int], bytes]] = field(repr=False)

    @classmethod
    def of(cls, parties: Parties) -> "Expected":
        setup, how = parties.setup, parties.scenario.protection
        most = longest(parties)
        if isinstance(how, TwoServer):  # whose answers have a row for each update that is compared
            most += max_bytes(how.terms(len(setup.initial)), 2 * len(setup.clients))
        return cls(parties.scenario, setup.clients, most, greetings_of(parties))


def greetings_of(parties: Parties) -> Callable[[bytes], Callable[[int], bytes]]:
    """By what was drawn to name the run, what a client is told when it is there: that, who else is in it, and what its model
    must be. Holds neither data nor models.
    """
    setup, population, how = parties.setup, parties.population, repr(parties.scenario.protection)
    clients, d = setup.clients, len(setup.initial)
    known = hashlib.sha256()
    for vector in (setup.initial, *setup.others):
        known.update(to_bytes(vector))
    about = [list(clients), list(population.shape), population.classes, known.digest(), how, dict(terms_of(parties.scenario))]

    def of(drawn: bytes) -> Callable[[int], bytes]:
        def greeting(party: int) -> bytes:
            return cbor2.dumps([party, drawn, *about]) if party >= 0 else Welcome(party, drawn, clients, d, how).data

        return greeting

    return of


def greeting_of(parties: Parties, drawn: bytes) -> Callable[[int], bytes]:
    """Of a run that this names, what a client is told when it is there."""
    return greetings_of(parties)(drawn)


def longest(parties: Parties) -> int:
    """Bytes that a client's answer may have."""
    setup = parties.setup
    encrypted = isinstance(parties.scenario.protection, Encrypted)
    spare, each = (ENCRYPTED_SPARE_BYTES, ENCRYPTED_COORDINATE_BYTES) if encrypted else (SPARE_BYTES, COORDINATE_BYTES)
    slots = 1 if parties.weighing is None else 1 + len(setup.others)
    shown = 0 if setup.embedders is None else 16 * setup.embedders.rows * (setup.embedders.d + setup.embedders.inputs)
    return spare + each * slots * len(setup.initial) + shown


def started(
    expected: Expected,
    listening: Listening,
    journal: ServedJournal,
    hosts: LinkedHosts,
    others: OtherTerms,
) -> Listener:
    """The links, when a word is to be heard. Raises ValueError where clients are missing that must be there, Halted."""
    clients, words = expected.clients, hosts.words
    helpers, most = helpers_of(expected.scenario), min(listening.limits.most, expected.most)
    about = CoordinatorRun(journal.run, journal.life, words.numbers, words.answered, words.settled)
    listener = Listener(
        listening.address,
        (*clients, *HELPERS) if helpers else clients,
        expected.greeting(journal.run),
        listening.standing,
        replace(listening.limits, most=most),
        about,
        listening.wait if words.settled else 0.0,
        listening.control.halt,
        others.note,
    )
    port = listener.start()
    hosts.listener = listener
    listening.told(port)
    if words.settled:  # an answer was heard: the run has begun
        return listener
    least = len(clients) if listening.least is None else min(listening.least, len(clients))
    if advice := _without_revoked(listening.standing, clients, least):
        log.warning("too few can come", extra={"why": advice})
    log.info("waits for clients", extra={"least": least, "of": len(clients), "seconds": listening.wait})
    there = [party for party in listener.wait_for(least, listening.wait) if party >= 0]
    if len(there) < least:
        missing, needed = sorted(set(clients) - set(there)), "all of them" if least == len(clients) else f"at least {least}"
        left = who_left(listener)
        listener.stop(why=NEVER_BEGAN)
        why = f"after {listening.wait:g} s clients {missing} are not there, and the run begins with {needed}"
        instead = "give --wait more seconds, or --least for a run that begins without them"
        raise ValueError(f"{why}{left}: {_without_revoked(listening.standing, clients, least) or instead}")
    while len(there) < len(clients):
        before, there = len(there), [party for party in listener.wait_for(len(there) + 1, SETTLED) if party >= 0]
        if len(there) <= before:
            break
    wait_for_helpers(expected.scenario, listener, listening.wait)
    return listener


def wait_for_somebody(listener: Listener, clients: int, seconds: float, second: bool = False) -> None:
    """Raise ConnectionError where none of so many clients is there for so long, or none of those that are answers what it owes.
    Not where all were revoked.

    Without any, as where the coordinator's network or clock is at fault, or its patience is shorter than their work, rounds take
    no time, and all would be over when clients are back. When one is, the others have as long as their ends pause at most.

    second: whether clients begin only once they reach a second server.
    """
    if _clients_of(listener) or len(listener.barred()) >= clients:
        return
    slow = [party for party in listener.present() if party >= 0]
    log.warning("all are behind with their answers" if slow else "nobody is there", extra={"waits_seconds": seconds})
    listener.wait_for(1, seconds)
    if not _clients_of(listener):
        slow = [party for party in listener.present() if party >= 0]
        none = f"none of the {len(slow)} that are there has answered" if slow else f"no client is there{who_left(listener)}"
        more = ", with more --patience if clients need longer" if slow else ""
        none += f" ({NO_SECOND})" if slow and second else ""
        raise ConnectionError(f"after {seconds:g} s {none}: rounds would be played in vain; start this again then{more}")
    listener.wait_for(clients - len(listener.barred()), min(seconds, LONGEST_PAUSE + 5.0))


def wait_for_more(listener: Listener, clients: int, seconds: float) -> None:
    """Raise ConnectionError where fewer than so many clients are there after so long: the run cannot begin, and may later."""
    if len(there := _clients_of(listener)) >= clients:
        return
    log.warning("too few are there to begin", extra={"there": there, "need": clients, "waits_seconds": seconds})
    listener.wait_for(clients, seconds)
    if len(there := _clients_of(listener)) < clients:
        left = who_left(listener)
        why = f"after {seconds:g} s {len(there)} clients are there, and {clients} must be for the run's secret seed{left}"
        raise ConnectionError(f"{why}: those that are there wait; bring more, and give the same command again")


def _clients_of(listener: Listener) -> list[int]:
    """Of a run, who are there and are not behind with their answers, without its servers."""
    return [party for party in listener.ready() if party >= 0]


def _without_revoked(standing: Standing | None, clients: Sequence[int], least: int) -> str:
    """What to do where so few clients have a certificate that is not revoked that the run cannot begin; else empty."""
    gone = [] if standing is None else [i for i in clients if standing.took_back(i)]
    if (left := len(clients) - len(gone)) >= least:
        return ""
    names, many = ", ".join(map(name_of, gone)), len(gone) != 1
    of = f"the certificate{'s' * many} of {names} {'are' if many else 'is'} revoked, so at most {left} of {len(clients)} can come"
    return f"{of}: begin without by --least {left}, or give {'them others' if many else 'it another'} by `cloister keys rotate`"


def wait_for_helpers(scenario: Scenario[Any], listener: Listener, seconds: float) -> None:
    """Raise ConnectionError where one is away for so long: without it a round would be in vain."""
    needed = helpers_of(scenario)
    if gone := {i: why for i, why in listener.left().items() if i in needed}:
        said = "; ".join(f"{name_of(i)} left: {why}" for i, why in gone.items())
        raise ConnectionError(f"{said}: start it by what all agree on, then this again")
    away = [i for i in needed if i not in listener.wait_for(0, seconds, needed)] if needed else []
    if lost := [why for i, why in listener.lost().items() if i in away]:
        again = "with that folder the same commands go on, and without it this run cannot: begin another, all with other folders"
        raise ConnectionError(f"{'; '.join(lost)}; {again}")
    if away:
        names = " and ".join(map(name_of, away))
        raise ConnectionError(f"after {seconds:g} s {names} not there; start what is missing, then this again")
