"""A scenario's run whose clients are elsewhere: this process is the coordinator, and has none of their data, keys or computers.

Rounds, run folder and report are those of a simulation. Killed at any moment, it goes on from its journal, with nothing lost.
Scores are of the scenario's own data: what it is told by clients are the messages of its protection, and nothing else.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cbor2

from ...crypto.entropy import RootedEntropy
from ...protocol.core.errors import Refused
from ...protocol.core.halt import Halt, Halted
from ...protocol.links.dialled import LONGEST_PAUSE
from ...protocol.links.listener import Listener
from ...protocol.links.terms import Limits, Run
from ...protocol.masked.protection import Masked
from ...protocol.parts.clients import Clients
from ...protocol.pki.standing import Standing
from ...protocol.uploaded.plain import Plain
from ...protocol.view.answers import Vector
from ...protocol.view.functionality import Functionality
from ...protocol.work.journalled import Journalled
from ...protocol.work.linked import Linked, LinkedClient
from ...protocol.work.maker import Maker
from ...protocol.work.uploads import to_bytes
from .experiment import Round, run
from .parties import Parties
from .run_folder import RunFolder
from .scenario import Scenario, described
from .served_journal import ServedJournal
from .vitals import COUNTED, Control, Watched

SERVED = (Masked, Plain)
"""Protections under which the server owns the models, so that it can score them, and which have one server."""
SPARE_BYTES = 16 << 20
"""Of a client's answer, beside what it says of each coordinate."""


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a coordinator listens, and how. wait: seconds until so many clients are there as `least`, None for all of them;
    without them the run does not begin.

    standing: the coordinator's own; None without certificates. told: when it listens, of the port. control: of whoever operates
    it.
    """

    address: str
    standing: Standing | None
    limits: Limits = field(default_factory=Limits)
    wait: float = 120.0
    least: int | None = None
    told: Callable[[int], object] = field(default=lambda port: None, repr=False)
    control: Control = field(default_factory=Control)


class Hosts:
    """Where clients are: behind a listener's links, whose words are journalled. listening: begins the links. run: the run's name.

    entropy, and who is enrolled: as in the journal. round: that is played, or is next. listener: None before there is one.
    """

    def __init__(
        self,
        journal: ServedJournal,
        clients: tuple[int, ...],
        run: bytes,
        listening: Callable[["Hosts"], Listener],
        halt: Halt | None = None,
    ) -> None:
        self.run, self.entropy, self.round = run, RootedEntropy(journal.root), 0
        self.listener: Listener | None = None
        self.words = Journalled(journal.setup, lambda: listening(self), halt)
        self.linked = Linked(self.words, clients, journal.enrolled)
        self._journal = journal

    def __call__(self, maker: Maker) -> Mapping[int, LinkedClient]:
        """All clients."""
        return self.linked(maker)

    def admit(self, view: Any) -> None:
        """See `Hosts` of simulation.py."""
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

    def finished(self, models: Mapping[int, Vector]) -> None:
        """The run is over: hand each client its model."""
        for client, model in models.items():
            self.linked.post(client, "final", to_bytes(model))
        for _ in self.linked.heard():
            pass
        self.words.begin()  # also where all have answered: they are to be told that it is over


def check_served(scenario: Scenario[Any]) -> None:
    """Raise Refused for what clients in processes of their own cannot do yet, naming what would."""
    if not isinstance(scenario.protection, SERVED):
        kinds = " or ".join(kind.__name__ for kind in SERVED)
        raise Refused(f"{scenario.protection!r} is not played between processes yet; use {kinds}")
    for there, what in (
        (Functionality.PAIRS in scenario.algorithm.needs, "comparing pairs of clients"),
        (getattr(scenario.algorithm, "in_slots", None) is not None, "clients that weigh models by their own data"),
        (scenario.adversary is not None, "an adversary, who is simulated"),
        (scenario.training.privacy is not None, "training with noise, which each client accounts for itself"),
    ):
        if there:
            raise Refused(f"{what} is not played between processes yet; simulate it with `cloister run`")


def greeting_of(parties: Parties, drawn: bytes) -> Callable[[int], bytes]:
    """What a client is told when it is there: what was drawn to name the run, who else is in it, and what its model must be."""
    setup, population = parties.setup, parties.population
    known = hashlib.sha256(b"".join(map(to_bytes, (setup.initial, *setup.others)))).digest()
    about = [drawn, list(setup.clients), list(population.shape), population.classes, known, repr(parties.scenario.protection)]
    return lambda client: cbor2.dumps([client, *about])


def serve(scenario: Scenario[Any], out: Path, listening: Listening, data: Path | None = None) -> Iterator[Round]:
    """Play the scenario's rounds with clients over links, yielding after each; the run folder is complete when it ends.

    Where the folder has the journal of a run that is not over, this goes on with it. The folder holds link.json beside what a
    simulation's does: bytes on links, who was absent, who was displaced. Raises Refused for what cannot be played so, ValueError
    where clients are missing or not in the directory, and for a journal that cannot be gone on from, OSError for an address that
    cannot be listened at, Halted where `listening.control` stopped it.
    """
    check_served(scenario)
    resumed = ServedJournal.there(out)
    if not resumed and (out / "scenario.json").exists():
        raise ValueError(f"{out} holds a run that is over, or a simulation; choose another --out")
    parties = Parties(scenario, data)
    clients, standing = parties.setup.clients, listening.standing
    directory = None if standing is None else standing.directory
    fresh = None if directory is None or resumed else directory.enrolled(clients)
    journal = ServedJournal(out, described(scenario), fresh)
    if (journal.enrolled is None) != (directory is None):
        journal.close()
        raise ValueError(
            f"the run in {out} was begun {'without' if directory else 'with'} certificates; resume it as it was begun"
        )
    name = journal.run if directory is None else directory.run_of(journal.run)
    control = listening.control
    hosts = Hosts(journal, clients, name, lambda hosts: _started(parties, listening, journal, hosts, resumed), control.halt)
    watched = Watched(hosts, len(clients), scenario.rounds, journal.life)
    control.vitals = watched.vitals
    over = done = False
    try:
        for played in run(scenario, out, data, (out / "scenario.json").exists(), hosts=hosts):
            watched.played = played
            yield played
        over = done = True
        if resumed and hosts.listener is not None:  # who waits for the coordinator is to be told that it is over
            with suppress(Halted):
                hosts.listener.wait_for(len(parties.setup.clients), min(listening.wait, LONGEST_PAUSE + 5.0))
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


def _started(parties: Parties, listening: Listening, journal: ServedJournal, hosts: Hosts, resumed: bool) -> Listener:
    """The links, when a word is to be heard. Raises ValueError where clients are missing that must be there, Halted."""
    clients, words = parties.setup.clients, hosts.words
    most = min(listening.limits.most, SPARE_BYTES + 32 * len(parties.setup.initial))
    about = Run(journal.run, journal.life, words.numbers, words.answered, words.settled)
    listener = Listener(
        listening.address,
        clients,
        greeting_of(parties, journal.run),
        listening.standing,
        replace(listening.limits, most=most),
        about,
        listening.wait if resumed else 0.0,
        listening.control.halt,
    )
    port = listener.start()
    hosts.listener = listener
    listening.told(port)
    if resumed:
        return listener
    least = len(clients) if listening.least is None else min(listening.least, len(clients))
    there = listener.wait_for(least, listening.wait)
    if len(there) < least:
        missing, needed = sorted(set(clients) - set(there)), "all of them" if least == len(clients) else f"at least {least}"
        raise ValueError(f"after {listening.wait:g} s clients {missing} are not there, and the run begins with {needed}")
    return listener


def _write_link(out: Path, listener: Listener, hosts: Hosts, life: int) -> None:
    """What the links of this life of the coordinator carried."""
    if (out / "scenario.json").exists():
        counted = {name: getattr(listener, name) for name in COUNTED}
        absent = {str(client): times for client, times in sorted(hosts.linked.absent.items())}
        RunFolder(out).write_json("link.json", counted | {"unanswered": absent, "late": hosts.linked.late, "life": life})
