"""Where the clients of a run are that is served: behind a listener's links, and what they say is journalled."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...crypto.entropy import RootedEntropy
from ...protocol.core.halt import Halt
from ...protocol.links.listener import Listener
from ...protocol.parts.clients import Clients
from ...protocol.parts.models import Models
from ...protocol.pki.names import name_of
from ...protocol.view.answers import Vector
from ...protocol.work.journalled import Journalled
from ...protocol.work.linked import Linked, LinkedClient, LinkedHelper
from ...protocol.work.maker import Maker
from .served_journal import ServedJournal
from .too_few import HELPERS, Rests, ready_of

MOST_LEFT = 3
"""Parties that a line says left, and why."""
NOT_THERE, NOT_IN_TIME = "was not there", "did not answer in time"


class LinkedHosts:
    """Where clients are: behind a listener's links, whose words are journalled. listening: begins the links. run: the run's name.
    due: told how few clients a sum may have, waits while fewer are there, and raises where a second server or dealer that the run
    needs, or every client, is away, and stays away; more: where fewer clients than so many are there, and do not come, or where
    attempts at the run's seed, of which it is told why the last came to nothing, are to end.

    scores: as in `Listening`. entropy, and who is enrolled: as in the journal. round: that is played, or is next. listener: None
    before there is one. unanswered: how often each did not answer in time, when the first round of this life began. perhaps: of
    `Linked.without`, those that were sent a model and may have it, as they were there and gave no answer to it.
    """

    def __init__(
        self,
        journal: ServedJournal,
        clients: tuple[int, ...],
        run: bytes,
        listening: Callable[["LinkedHosts"], Listener],
        due: Callable[[int], None] = lambda fewest: None,
        more: Callable[[int, str], None] = lambda clients, why: None,
        halt: Halt | None = None,
        scores: bool = False,
    ) -> None:
        self.run, self.entropy, self.round, self.scores = run, RootedEntropy(journal.root), 0, scores
        self.listener: Listener | None = None
        self.unanswered: dict[int, int] | None = None
        self.words = Journalled(journal.setup, lambda: listening(self), halt)
        self.linked = Linked(self.words, clients, journal.enrolled)
        self.perhaps: tuple[int, ...] = ()
        self._journal = journal
        self._due, self._more = due, more
        self._absent: Mapping[int, int] = {}  # as `unanswered`, when this round began
        self._rests, self._clients = Rests(), clients

    def __call__(self, maker: Maker) -> Mapping[int, LinkedClient]:
        """All clients."""
        return self.linked(maker)

    def helpers(self) -> Mapping[int, LinkedHelper]:
        """The second server and the dealer."""
        return {party: self.linked.helper(party) for party in HELPERS}

    def gathered(self, clients: int, why: str) -> None:
        """See `Setup`. Raises ConnectionError. Attempts that the journal has are made without a pause, and are not counted."""
        if not self.words.replaying:
            self.words.begin()
            self._more(clients, why)

    def missed(self) -> Mapping[int, str]:
        """See `Hosts` of hosts.py."""
        here = () if self.listener is None else self.listener.present()
        now = (party for party, times in self.linked.absent.items() if times > self._absent.get(party, 0))
        return {party: NOT_IN_TIME if party in here else NOT_THERE for party in now}

    def admit(self, view: Any) -> None:
        """See `Hosts` of hosts.py. Raises ConnectionError."""
        missed = self.missed().keys() & {*HELPERS}
        self._absent = dict(self.linked.absent)
        models = view.harness.part(Models)
        learned = any(not name.startswith("init") for name in {*models.held, *models.handles.known})
        self._rests.before(view.record, missed, learned)
        if not self.words.replaying:
            self.words.begin()
            self._due(view.record.least)
            if self.listener is not None:  # else a run would be over while one that stands still is looked after
                self._rests.rest(self.listener, self._clients)
        for fault in view.harness.part(Clients).admit():
            view.record.fault(fault.blame, fault.reason)

    def begin(self, round: int, view: Any) -> None:
        """See `Hosts` of hosts.py. Raises Diverged, and ValueError where the journal does not go on from there, or where
        no client is ready for the run; ConnectionError where those that are there do not answer.
        """
        self.linked.settle()
        self.round = round
        clients = view.harness.part(Clients)
        if round == 0 and not clients.seated:
            self._seat(clients, view)
            self.linked.settle()
        if round == 0 and not clients.seated:
            left = "" if self.listener is None else who_left(self.listener)
            also = " (one that does not reach the second server is not ready)" if hasattr(view, "helpers") else ""
            raise ValueError(f"no client is ready for the run{left}: each party says why where it was started{also}")
        self.words.switch(self._journal.of(round, [self.words.save(), self.linked.save(), sorted(clients.seated)]))
        words, linked, seated = self.words.first
        self.words.restore(words)
        self.linked.restore(linked)
        clients.seated = set(seated)
        if self.unanswered is None:
            self.unanswered = dict(self.linked.absent)

    def _seat(self, clients: Clients, view: Any) -> None:
        """Nobody was ready in time: who still owes its first answer, as where it does not reach the second server yet, is waited
        for. Not where somebody has answered and is not ready, or all have left. Raises ConnectionError.
        """
        asked = self.listener is not None  # in this life
        while not clients.seated:
            if not self.words.replaying:
                self.words.begin()
                if self.listener is None or (asked and ready_of(self.listener)):
                    return
                if {*self._clients} <= {*self.listener.left(), *self.listener.barred()}:
                    return
                self._due(0)
                asked = True
            for fault in clients.admit():
                view.record.fault(fault.blame, fault.reason)

    def finished(self, models: Mapping[int, Sequence[Vector | str]]) -> None:
        """The run is over: hand each client its model, or say which of those that it holds it is."""
        there = self._there()
        self.linked.finish(models)
        self.words.begin()  # also where all have answered: they are to be told that it is over
        there |= self._there()
        self.perhaps = tuple(i for i in self.linked.without or () if i in models and i in there)

    def _there(self) -> set[int]:
        return set() if self.listener is None else {*self.listener.present()}


def who_left(listener: Listener) -> str:
    """Parties that said why they take no further part, with it, as a part of a line; empty where there are none."""
    return "".join(f"; {name_of(i)} left: {why}" for i, why in list(listener.left().items())[:MOST_LEFT])
