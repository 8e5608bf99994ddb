"""A scenario's run whose clients are elsewhere: this process is the coordinator, and has none of their data, keys or computers.

Rounds, run folder and report are those of a simulation. Killed at any moment, it goes on from its journal, with nothing lost.
Scores are of the scenario's own data where the server has the models; where clients own or weigh them, or where it is to be so,
clients say how well they predict, if they do (protocol/specs/scores.md). What else it is told are the messages of its protection.
"""

import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cbor2

from ...crypto.entropy import RootedEntropy
from ...protocol.core.errors import Refused
from ...protocol.core.halt import Halt, Halted
from ...protocol.core.session import DEALER, SECOND_SERVER
from ...protocol.encrypted.protection import Encrypted
from ...protocol.links.dialled import LONGEST_PAUSE
from ...protocol.links.listener import Listener
from ...protocol.links.terms import NEVER_BEGAN, CoordinatorRun, Limits
from ...protocol.masked.protection import Masked
from ...protocol.parts.clients import Clients
from ...protocol.pki.directory import Directory
from ...protocol.pki.names import name_of
from ...protocol.pki.standing import Standing
from ...protocol.two_servers.helper import Welcome
from ...protocol.two_servers.protection import TwoServer
from ...protocol.two_servers.run import max_bytes
from ...protocol.uploaded.permuted import Permuted
from ...protocol.uploaded.plain import Plain
from ...protocol.view.answers import Vector
from ...protocol.work.journalled import Journalled
from ...protocol.work.linked import Linked, LinkedClient, LinkedHelper
from ...protocol.work.maker import Maker
from ...protocol.work.uploads import to_bytes
from .agreement import terms_of
from .experiment import Round, run
from .feasibility import check_feasible
from .other_terms import OtherTerms
from .parties import Parties
from .presence import Presence
from .run_folder import RunFolder
from .scenario import Scenario, described
from .served_journal import ServedJournal
from .vitals import Control, Watched

SERVED = (Masked, Plain, Permuted, Encrypted, TwoServer)
"""Protections that are played between processes."""
SPARE_BYTES, COORDINATE_BYTES = 16 << 20, 32
"""Of a client's answer: beside what it says of each coordinate, and of each, in every slot."""
ENCRYPTED_SPARE_BYTES, ENCRYPTED_COORDINATE_BYTES = 32 << 20, 80
"""The same of ciphertexts, and the keys that products of them need."""
HELPERS = (SECOND_SERVER, DEALER)
log = logging.getLogger("cloister.serving")


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


class LinkedHosts:
    """Where clients are: behind a listener's links, whose words are journalled. listening: begins the links. run: the run's name.
    due: raises where a second server or dealer that the run needs is away, and stays away.

    scores: as in `Listening`. entropy, and who is enrolled: as in the journal. round: that is played, or is next. listener: None
    before there is one. unanswered: how often each did not answer in time, when the first round of this life began.
    """

    def __init__(
        self,
        journal: ServedJournal,
        clients: tuple[int, ...],
        run: bytes,
        listening: Callable[["LinkedHosts"], Listener],
        due: Callable[[], None] | None = None,
        halt: Halt | None = None,
        scores: bool = False,
    ) -> None:
        self.run, self.entropy, self.round, self.scores = run, RootedEntropy(journal.root), 0, scores
        self.listener: Listener | None = None
        self.unanswered: dict[int, int] | None = None
        self.words = Journalled(journal.setup, lambda: listening(self), halt)
        self.linked = Linked(self.words, clients, journal.enrolled)
        self._journal = journal
        self._due = due

    def __call__(self, maker: Maker) -> Mapping[int, LinkedClient]:
        """All clients."""
        return self.linked(maker)

    def helpers(self) -> Mapping[int, LinkedHelper]:
        """The second server and the dealer."""
        return {party: self.linked.helper(party) for party in HELPERS}

    def admit(self, view: Any) -> None:
        """See `Hosts` of simulation.py. Raises ConnectionError."""
        if self._due is not None and not self.words.replaying:
            self.words.begin()
            self._due()
        for fault in view.harness.part(Clients).admit():
            view.record.fault(fault.blame, fault.reason)

    def begin(self, round: int, view: Any) -> None:
        """See `Hosts` of simulation.py. Raises Diverged, and ValueError where the journal does not go on from there, or where
        no client is ready for the run.
        """
        self.linked.settle()
        self.round = round
        clients = view.harness.part(Clients)
        if round == 0 and not clients.seated:
            raise ValueError("no client is ready for the run: each says why where it was started")
        self.words.switch(self._journal.of(round, [self.words.save(), self.linked.save(), sorted(clients.seated)]))
        words, linked, seated = self.words.first
        self.words.restore(words)
        self.linked.restore(linked)
        clients.seated = set(seated)
        if self.unanswered is None:
            self.unanswered = dict(self.linked.absent)

    def finished(self, models: Mapping[int, Sequence[Vector | str]]) -> None:
        """The run is over: hand each client its model, or say which of those that it holds it is."""
        self.linked.finish(models)
        self.words.begin()  # also where all have answered: they are to be told that it is over


def check_served(scenario: Scenario[Any]) -> None:
    """Raise Refused for what clients in processes of their own cannot do yet, naming what would."""
    if not isinstance(scenario.protection, SERVED):
        kinds = [kind.__name__ for kind in SERVED]
        known = f"{', '.join(kinds[:-1])} or {kinds[-1]}"
        raise Refused(f"{scenario.protection!r} is not played between processes yet; use {known}")
    if scenario.adversary is not None:
        raise Refused("an adversary, who is simulated, is not played between processes; simulate it with `cloister run`")


def helpers_of(scenario: Scenario[Any]) -> tuple[int, ...]:
    """Who must be there beside clients before the run begins. The dealer only where updates are compared; it may come later."""
    if not isinstance(scenario.protection, TwoServer):
        return ()
    return HELPERS if any(need.startswith("gram") for need in scenario.algorithm.needs) else (SECOND_SERVER,)


def greeting_of(parties: Parties, drawn: bytes) -> Callable[[int], bytes]:
    """What a client is told when it is there: what was drawn to name the run, who else is in it, and what its model must be."""
    setup, population = parties.setup, parties.population
    known = hashlib.sha256(b"".join(map(to_bytes, (setup.initial, *setup.others)))).digest()
    about = [drawn, list(setup.clients), list(population.shape), population.classes, known, repr(parties.scenario.protection)]
    about.append(dict(terms_of(parties.scenario)))

    def greeting(party: int) -> bytes:
        if party >= 0:
            return cbor2.dumps([party, *about])
        return Welcome(party, drawn, setup.clients, len(setup.initial), repr(parties.scenario.protection)).data

    return greeting


def serve(scenario: Scenario[Any], out: Path, listening: Listening, data: Path | None = None) -> Iterator[Round]:
    """Play the scenario's rounds with clients over links, yielding after each; the run folder is complete when it ends.

    Where the folder has the journal of a run that is not over, this goes on with it. The folder holds link.json,
    presence.jsonl and other_terms.jsonl beside what a simulation's does: bytes on links, who was absent and when, who was
    displaced, who had another scenario. Raises Refused for what cannot be played so, ValueError where clients are missing or
    not in the directory, and for a journal that cannot be gone on from, OSError for an address that cannot be listened at, and
    where a second server or dealer is away for too long: clients wait, and the run may go on later. Raises Halted where
    `listening.control` stopped it.
    """
    check_served(scenario)
    resumed = ServedJournal.there(out)
    if not resumed and (out / "summary.json").exists() and (out / "link.json").exists():
        raise ValueError(f"the run in {out} is over: its models are in {out / 'models'}; choose another --out for the next one")
    if not resumed and (out / "scenario.json").exists():
        raise ValueError(f"{out} holds a run that was ended, or a simulation; choose another --out")
    parties = Parties(scenario, data)
    clients, standing = parties.setup.clients, listening.standing
    check_feasible(scenario, len(clients))
    directory = None if standing is None else standing.directory
    if isinstance(scenario.protection, TwoServer):
        _check_listed(directory)
    fresh = None if directory is None or resumed else directory.enrolled(clients)
    journal = ServedJournal(out, described(scenario), fresh)
    if (journal.enrolled is None) != (directory is None):
        journal.close()
        raise ValueError(
            f"the run in {out} was begun {'without' if directory else 'with'} certificates; resume it as it was begun"
        )
    name = journal.run if directory is None else directory.run_of(journal.run)
    control = listening.control

    def begin(hosts: LinkedHosts) -> Listener:
        return _started(parties, listening, journal, hosts, OtherTerms(out, terms_of(scenario), lambda: hosts.round))

    def due() -> None:
        if hosts.listener is not None:
            _wait_for_helpers(scenario, hosts.listener, listening.wait)

    hosts = LinkedHosts(journal, clients, name, begin, due if helpers_of(scenario) else None, control.halt, listening.scores)
    watched = Watched(hosts, len(clients), scenario.rounds, journal.life)
    control.vitals = watched.vitals
    over = done = False
    presence = Presence(out, clients)
    try:
        for played in run(scenario, out, data, (out / "scenario.json").exists(), hosts=hosts):
            watched.played = played
            if (listener := hosts.listener) is not None:
                presence.round(
                    played.round - 1, listener.present(), listener.barred(), hosts.linked.absent, hosts.unanswered or {}
                )
            yield played
        over = done = True
        if resumed and hosts.listener is not None:  # who waits for the coordinator is to be told that it is over
            with suppress(Halted):
                hosts.listener.wait_for(len(clients), min(listening.wait, LONGEST_PAUSE + 5.0), helpers_of(scenario))
    except OSError:
        raise  # a full disk, for example: clients wait for the next life
    except Halted:
        over = control.leave
        done = over and not journal.began
        raise
    except BaseException:
        over = True
        done = not journal.began
        raise
    finally:
        watched.running = False
        if (listener := hosts.listener) is not None:
            listener.stop(over)
            _write_link(out, listener, hosts, journal.life)
        if done:
            journal.over()
        journal.close()


def longest(parties: Parties) -> int:
    """Bytes that a client's answer may have."""
    setup = parties.setup
    encrypted = isinstance(parties.scenario.protection, Encrypted)
    spare, each = (ENCRYPTED_SPARE_BYTES, ENCRYPTED_COORDINATE_BYTES) if encrypted else (SPARE_BYTES, COORDINATE_BYTES)
    slots = 1 if parties.weighing is None else 1 + len(setup.others)
    shown = 0 if setup.embedders is None else 16 * setup.embedders.rows * (setup.embedders.d + setup.embedders.inputs)
    return spare + each * slots * len(setup.initial) + shown


def _started(
    parties: Parties,
    listening: Listening,
    journal: ServedJournal,
    hosts: LinkedHosts,
    others: OtherTerms,
) -> Listener:
    """The links, when a word is to be heard. Raises ValueError where clients are missing that must be there, Halted."""
    clients, words = parties.setup.clients, hosts.words
    most = longest(parties)
    how, helpers = parties.scenario.protection, helpers_of(parties.scenario)
    if isinstance(how, TwoServer):  # whose answers have a row for each update that is compared
        most += max_bytes(how.terms(len(parties.setup.initial)), 2 * len(clients))
    most = min(listening.limits.most, most)
    about = CoordinatorRun(journal.run, journal.life, words.numbers, words.answered, words.settled)
    listener = Listener(
        listening.address,
        (*clients, *HELPERS) if helpers else clients,
        greeting_of(parties, journal.run),
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
    there = [party for party in listener.wait_for(least, listening.wait) if party >= 0]
    if len(there) < least:
        missing, needed = sorted(set(clients) - set(there)), "all of them" if least == len(clients) else f"at least {least}"
        listener.stop(why=NEVER_BEGAN)
        why = f"after {listening.wait:g} s clients {missing} are not there, and the run begins with {needed}"
        raise ValueError(f"{why}: give --wait more seconds, or --least for a run that begins without them")
    _wait_for_helpers(parties.scenario, listener, listening.wait)
    return listener


def _wait_for_helpers(scenario: Scenario[Any], listener: Listener, seconds: float) -> None:
    """Raise ConnectionError where one is away for so long: without it a round would be in vain."""
    needed = helpers_of(scenario)
    if needed and (away := [name_of(i) for i in needed if i not in listener.wait_for(0, seconds, needed)]):
        raise ConnectionError(f"after {seconds:g} s {' and '.join(away)} not there; start what is missing, then this again")


def _check_listed(directory: Directory | None) -> None:
    """Raise Refused without certificates, or where the directory lists no second server or dealer."""
    if directory is None:
        raise Refused("two servers are two by their certificates: TwoServer is played with --keys alone")
    if away := [name_of(party) for party in HELPERS if party not in directory.entries]:
        raise Refused(f"the directory lists no {' and no '.join(away)}: make keys with `cloister keys init --two-servers`")


def _write_link(out: Path, listener: Listener, hosts: LinkedHosts, life: int) -> None:
    """What the links of this life of the coordinator carried, and who took no model."""
    if (out / "scenario.json").exists():
        linked = hosts.linked
        absent = {str(client): times for client, times in sorted(linked.absent.items())}
        found = {"unanswered": absent, "late": linked.late, "life": life}
        if linked.without is not None:
            found["without_model"] = list(linked.without)
        RunFolder(out).write_json("link.json", listener.counted | found)
