"""A coordinator that crashes at any moment, over clients that live on: in one process, on a link that a test makes.

A client's end of the link does what links/taken_words.py does with numbers; nothing is sent but by the coordinator's journal.
"""

import random
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from cloister.crypto.entropy import KeptEntropy, RootedEntropy
from cloister.fl.runs.greeting import maker_of
from cloister.protocol.core.halt import Halt, Halted
from cloister.protocol.drivers.event_log import EventLog
from cloister.protocol.drivers.journal import InMemory
from cloister.protocol.parts.clients import Clients
from cloister.protocol.view.answers import Assignment, Model, Sum, Weights
from cloister.protocol.view.protection import Setup
from cloister.protocol.work.driving import Driven
from cloister.protocol.work.journalled import Journalled
from cloister.protocol.work.linked import Linked
from cloister.protocol.work.said import said

from .test_away import INITIAL, MEMBERS, RUN, judge, mine, nobody, update_of


class Crash(BaseException):
    """The coordinator is gone."""


@dataclass
class Moments:
    """Counts moments, and crashes at one."""

    at: int = -1
    seen: int = 0
    halt: Halt = field(default_factory=Halt)

    def __call__(self):
        self.seen += 1
        if self.seen == self.at:
            self.comes()

    def comes(self):
        raise Crash


class Halting(Moments):
    """The coordinator is asked to stop at one."""

    def comes(self):
        self.halt.asked = True


@dataclass
class End:
    """A client and its end of the link. every: what it ever answered, by number. twice: numbers with two answers."""

    driven: Driven
    taken: int = 0
    given: dict = field(default_factory=dict)
    every: dict = field(default_factory=dict)
    words: dict = field(default_factory=dict)
    gone: bool = False
    twice: Counter = field(default_factory=Counter)

    def told(self, number, settled, data):
        """Its answer; None of one that is not kept, or of a client that is away."""
        if self.gone:
            return None
        assert self.words.setdefault(number, data) == data, "two words under one number"
        for old in [n for n in self.given if n <= settled]:
            del self.given[old]
        if number > self.taken:
            self.taken = number
            self.given[number] = said(self.driven, data).data
        answer = self.given.get(number)
        if answer is not None and self.every.setdefault(number, answer) != answer:
            self.twice[number] += 1
        return answer


@dataclass(frozen=True)
class Told:
    client: int
    number: int
    data: bytes | None
    late: bool = False


class Link:
    """A `Numbered`: hands words to ends, in an order that it draws, each client's as they came. absent: share of words that are
    given up, and whose answer comes late, if at all."""

    def __init__(self, ends, moment, draw):
        self.ends, self.moment, self.draw, self.absent = ends, moment, draw, 0.0
        self.owed, self.late, self.journal = {}, [], None

    def post(self, client, data, number):
        self.moment()
        self.owed.setdefault(client, {})[number] = data
        self.moment()

    def heard(self):
        self.moment()
        client = self.draw.choice(sorted(self.owed))
        number = min(self.owed[client])
        settled = min(number - 1, self.journal.settled.get(client, 0))
        data = self.owed[client].pop(number)
        if not self.owed[client]:
            del self.owed[client]
        answer = self.ends[client].told(number, settled, data)
        if self.draw.random() < self.absent:
            self.late.append(Told(client, number, answer, late=True))
            return Told(client, number, None)
        return Told(client, number, answer)

    def heard_already(self):
        self.moment()
        return self.late.pop() if self.late and self.draw.random() < 0.5 else None

    def done_with(self, answer):
        self.moment()


class TornLog(EventLog):
    """Crashes beside what it writes. durable: bytes that were synced."""

    def __init__(self, path, moment=lambda: None):
        super().__init__(path)
        self.moment, self.durable = moment, self._whole

    def append(self, data):
        self.moment()
        super().append(data)
        self.moment()

    def sync(self):
        super().sync()
        self.durable = self._path.stat().st_size
        self.moment()


class Play:
    """A run of two rounds under a protection, whose coordinator may crash. folder: of its log. power: whether a crash also loses
    what was not synced, to a byte that is drawn."""

    rounds = 2

    def __init__(self, protection, folder, seed=0, absent=0.0, power=False):
        self.before = lambda round: None  # the test's, before each round
        self.protection, self.path, self.power, self.absent = protection, folder / "log", power, absent
        self.draw = random.Random(seed)
        EventLog.begun(self.path, b"\x00").close()
        self.journals = {i: InMemory() for i in MEMBERS}
        self.ends = {i: End(self.driven(i)) for i in MEMBERS}

    def driven(self, client):
        """A life of a client."""
        setup = replace(mine(client), entropy=KeptEntropy(), checks_once=False)
        return Driven(client, setup, maker_of(self.protection), self.journals[client])

    def restart(self, client):
        """A client goes on from its journal, and keeps no answer of before."""
        self.ends[client].driven = self.driven(client)
        self.ends[client].given.clear()

    def life(self, moment):
        """One life of the coordinator: the models of its rounds, and whom each was about."""
        log = TornLog(self.path, moment)
        link = Link(self.ends, moment, self.draw)

        def begun():
            return link

        words = link.journal = Journalled(log, begun, moment.halt)
        try:
            setup = Setup(RUN, INITIAL, MEMBERS, nobody, RootedEntropy(bytes(32)), None, judge, hosts=Linked(words, MEMBERS))
            view = self.protection.open(setup)
            link.absent = self.absent  # a run begins with everybody
            model, found = Model("init"), []
            for round in range(self.rounds):
                self.before(round)
                view.record.faults.extend(view.harness.part(Clients).admit())
                updates = view.train(round, {"root": Assignment(model, MEMBERS, MEMBERS)})["root"]
                mean = view.sums(updates, {"m": Weights(dict.fromkeys(updates.clients, 1.0))})["m"]
                if not isinstance(mean, Sum):
                    found.append(None)
                    continue
                model = view.advance(model, mean)
                expected = np.mean([update_of(i, round) for i in mean.clients], axis=0)
                found.append((mean.clients, view.harness.observe(model), expected))
                view.harness.retire([Model("init"), model], [])
            setup.hosts.settle()
            return found
        except Crash:
            if self.power:
                whole = self.path.stat().st_size
                with open(self.path, "r+b") as file:
                    file.truncate(self.draw.randint(log.durable, whole))
            raise
        finally:
            log.close()

    def lives(self, *crashes, moments=Moments):
        """Lives that crash at these moments, each counted from its beginning, and one that does not. How it ended."""
        for at in crashes:
            try:
                return self.life(moments(at))
            except (Crash, Halted):
                pass
        return self.life(Moments())


def check(found):
    """Each sum is right of those that it names."""
    before = INITIAL
    for ended in found:
        if ended is not None:
            _, model, expected = ended
            assert np.allclose(model - before, expected, atol=1e-3)
            before = model
