"""Two servers, a dealer and a few clients, for the tests: their updates, their questions, and a network that loses or changes."""

from dataclasses import replace

import numpy as np

from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol.core.session import SECOND_SERVER, Session
from cloister.protocol.drivers.in_process import InProcess
from cloister.protocol.drivers.roles import Worked
from cloister.protocol.messages import MESSAGES, decode
from cloister.protocol.two_servers.run import client_parties, collect, forget, gram, helper_parties, max_bytes, sums
from cloister.protocol.two_servers.terms import ShareTerms
from cloister.protocol.wire.codec import Envelope, encode
from cloister.protocol.work.uploads import Policy

RUN = bytes(range(16))
LIMIT = 1 << 24


class Play:
    """Clients 1, 3, 5, ... whose updates follow from `seed`, one session a round."""

    def __init__(self, n, tap=None, *, length=9, width=64, max_norm=16.0, floor=3, seed=0, updates=None, record=False):
        self.roster = tuple(range(1, 2 * n, 2))
        self.entropy = SimulatedEntropy(seed)
        self.terms = ShareTerms(length, width, max_norm, floor)
        rng = np.random.default_rng(seed)
        self.updates = updates or {i: rng.standard_normal(length).astype(np.float32) for i in self.roster}
        self.network = InProcess(tap, kinds=MESSAGES, max_bytes=max_bytes(self.terms, 2 * n), record=record)
        self.clients = client_parties(self.roster, RUN, self.terms, Policy(), self.entropy)
        self.helpers = helper_parties(RUN, self.terms, Policy(), self.entropy)
        self.model = bytes(4 * length)
        self.collected = {}
        self.number = 0

    @property
    def parties(self):
        return {**self.clients, **self.helpers}

    @property
    def second(self):
        return self.helpers[SECOND_SERVER].state

    def session(self, round=0):
        return Session("two servers/update", RUN, round, "root", self.roster, 1)

    def upload(self, round=0, roster=None):
        """One round's uploads; returns the survivors."""
        session = self.session(round) if roster is None else replace(self.session(round), roster=roster)

        def perform(tasks):
            return ((i, Worked(self.updates[i], 10 + i)) for i, _ in tasks)

        task = (session, "update", ("init",), self.model)
        (found,) = collect(self.network, self.parties, self.terms, [task], perform)
        self.collected[round] = found
        return tuple(found.received)

    def rows(self, clients=None, round=0):
        found = self.collected[round]
        return [((found.session.digest, i), found.received[i][0]) for i in clients or found.received]

    def gram(self, rows=None, number=None):
        number = self._number(number)
        return gram(self.network, self.parties, self.terms, RUN, number, rows or self.rows(), self.entropy)

    def sum(self, weights, round=0, number=None):
        """weights: whole numbers by client."""
        found = self.collected[round]
        shares = [(i, q, found.received[i][0]) for i, q in sorted(weights.items())]
        return sums(self.network, self.parties, self.terms, RUN, self._number(number), found.session.digest, shares)

    def forget(self, rows=(), number=None):
        forget(self.network, self.helpers, RUN, self._number(number), [row for row, _ in rows])

    def whole(self, clients):
        """The encodings, as Python's integers."""
        return np.stack([self.terms.encode(self.updates[i]) for i in clients]).astype(object)

    def reasons(self):
        return [fault.reason for fault in self.network.faults]

    def _number(self, number):
        if number is None:
            self.number += 1
            return self.number - 1
        return number


def losing(kinds, senders=None):
    """A network that loses messages of these kinds."""
    return lambda frame: [] if frame.kind in kinds and (senders is None or frame.sender in senders) else [frame]


def changing(kind, change, senders=None):
    """A network that applies `change` to the messages of one kind."""

    def tap(frame):
        if frame.kind != kind or (senders is not None and frame.sender not in senders):
            return [frame]
        envelope = decode(frame.data, frame.sender, LIMIT)
        return [replace(frame, data=encode(Envelope(envelope.session, frame.sender, frame.receiver, change(envelope.message))))]

    return tap


def flipped(data, at=0):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
