"""The clients of a run, as the parts of its view reach them in one process."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from ...crypto.identity import Verify
from ..core.errors import Fault
from ..drivers.roles import Effect
from ..view.answers import Memory, Remembered, Snapshot, Traffic, Vector
from ..view.protection import Setup
from ..work.client import InProcessClient
from ..work.far import Far
from ..work.maker import SEED, WORK, MadeOnce, Maker
from ..work.participant import Participant

Welcome = Callable[[Sequence[int]], list[Fault]]
"""How newcomers come to hold the seed of a run that has begun; what was refused."""


STRANGER = "it was not enrolled when the run began, or with another identity: it can take part in the next run"


def nothing_to_share(newcomers: Sequence[int]) -> list[Fault]:
    """Of a run whose clients share no seed."""
    return []


SILENT = "it was asked to train by itself, and did not answer"
UNMADE = "it made no model by itself: it was not ready, or its own log and record say why"
_ALONE = {True: "", False: UNMADE, None: SILENT}
"""By what a client that is elsewhere says of a model that it was to make by itself; it tells nobody more of it."""


class Clients:
    """The clients of a run, each an object of its own. enrolled: their public identities, by what they sign for. seated: who is
    ready for the run. welcome: how others come to be.
    """

    def __init__(self, setup: Setup, maker: Maker) -> None:
        self._setup = setup
        self._shared = MadeOnce(setup.verify, setup.exchange)
        made = setup.hosts(maker) if setup.hosts else {i: InProcessClient(i, setup, maker, self._shared) for i in setup.clients}
        self.all: Mapping[int, InProcessClient] = made
        self.enrolled: dict[str, dict[int, bytes]] = {}
        self.welcome: Welcome = nothing_to_share
        self._strangers: set[int] = set()
        for i, client in self.all.items():
            for use, public in (client.public or {}).items():
                self.enrolled.setdefault(use, {})[i] = public
        self.ahead(self.all, "enrol", self.enrolled)
        self.seated = {i for i, client in self.all.items() if client.enrol(self.enrolled)}
        self._told = set(self.seated)

    def of(self, name: str) -> Mapping[int, Any]:
        """Their roles of this name."""
        return {i: client.roles[name] for i, client in self.all.items()}

    @cached_property
    def parties(self) -> Mapping[int, Participant]:
        """Their roles of work."""
        return self.of(WORK)

    @property
    def verify(self) -> Verify:
        """How signatures are checked."""
        return self._shared.verify

    def model(self, client: int, name: str) -> Vector | None:
        """A model that this client holds, for whoever measures a simulation."""
        return self.all[client].model(name)

    def train_alone(
        self, round: int, starts: Mapping[int, tuple[str, Vector | None]], names: Mapping[int, str]
    ) -> Mapping[int, str]:
        """Each trains by itself and holds what it made by its name; why it has no model, or empty.

        starts: see `InProcessClient.alone`.
        """
        if self._setup.hosts is not None:
            return {i: _ALONE[self.all[i].train_alone(round, *starts[i], names[i])] for i in starts}
        asked = {i: self.all[i].alone(round, *starts[i]) for i in sorted(starts)}
        jobs = {i: job for i, job in asked.items() if job is not None}
        trained = self._setup.workers(list(jobs.values()))  # together: their computers are one
        return dict.fromkeys(starts, UNMADE) | {i: self.all[i].keep(names[i], jobs[i], work) for i, work in trained}

    def draw(self, what: str, session: bytes) -> None:
        """What each client draws for itself for a session, and one for all where they are in one process."""
        if (drawn := self._shared.draws.get(what)) is not None:
            drawn(session)

    def admit(self) -> list[Fault]:
        """Between rounds: who is elsewhere, was not ready for the run and is there now takes part from here on; what was refused.

        An identity that others rely on is one of the first enrolment. Who was not in it waits for another run, unless clients
        share no seed: then none relies on another's.
        """
        newcomers, refused = self.enrol_missing(self.welcome is not nothing_to_share)
        if newcomers:
            refused += self.welcome(newcomers)
            self.seated |= {i for i in newcomers if self.all[i].begin()}
        return refused

    def enrol_missing(self, sharing: bool) -> tuple[list[int], list[Fault]]:
        """Who is not ready for the run is told who is who, if it was not yet: these, and what was refused. See `admit`.

        sharing: whether clients share a seed.
        """
        newcomers: list[int] = []
        refused: list[Fault] = []
        waiting = sorted(self.all.keys() - self.seated)
        self.ahead(waiting, "begin")
        for i in waiting:
            client = self.all[i]
            if client.begin():  # it was ready, and could not say so
                self.seated.add(i)
                continue
            public = client.public
            known = {use: of[i] for use, of in self.enrolled.items() if i in of}
            if public is not None and known != public and (known or sharing):
                refused += [] if i in self._strangers else [Fault(i, STRANGER)]
                self._strangers.add(i)
            elif public is not None:
                for use, key in public.items():
                    self.enrolled.setdefault(use, {})[i] = key
                if i not in self._told and client.enrol(self.enrolled):  # nobody takes it a second time
                    self._told.add(i)
                newcomers.append(i)
        return newcomers, refused

    # --- exchanges of seeds -----------------------------------------------------------------------------------------------

    def hello(self, client: int, name: str = SEED) -> tuple[Effect, ...]:
        """What it says first. name: of its role in the exchange."""
        return self.all[client].hello(name)

    def begin(self) -> tuple[int, ...]:
        """The exchange is over: who holds the seed, and is ready for the run."""
        self.ahead(self.all, "begin")
        self.seated = {i for i, client in self.all.items() if client.begin()}
        return tuple(sorted(self.seated))

    def left_out(self, name: str = SEED) -> list[tuple[int, int, str]]:
        """Who did not seal to whom, and why."""
        self.ahead(self.all, "left out", name)
        return [(i, blame, reason) for i, client in self.all.items() for blame, reason in client.left_out(name)]

    def holders(self, name: str) -> tuple[int, ...]:
        """Who holds the seed."""
        self.ahead(self.all, "holds", name)
        return tuple(sorted(i for i, client in self.all.items() if client.holds(name)))

    def ahead(self, clients: Iterable[int], *words: Any) -> None:
        """All of them are asked this now. Those that are elsewhere hear it together: who hangs is waited for once."""
        for client in (self.all[i] for i in clients):
            if isinstance(client, Far):
                client.ahead(*words)

    # --- keeping ----------------------------------------------------------------------------------------------------------

    def retire(self, models: set[str], remembered: Mapping[str, Remembered]) -> None:
        """See `Part`. That a round is over clients are told (`Handles.over`)."""

    def save(self) -> Snapshot:
        """See `Part`."""
        return Snapshot({}, {}, {}, Traffic(), clients={i: client.save() for i, client in self.all.items()})

    def restore(self, snapshot: Snapshot, remembered: Iterable[Remembered]) -> None:
        """See `Part`."""
        for i, client in self.all.items():
            client.restore(snapshot.clients.get(i, Memory()))
