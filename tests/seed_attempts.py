"""Attempts at a run's seed by an honest coordinator: words to clients that have one answer each, or none where one is killed.

So it is over links: what a client says to a word is one answer, which comes whole or not at all.
"""

import random
from collections import Counter, deque
from dataclasses import dataclass, field

from cloister.crypto.entropy import KeptEntropy
from cloister.crypto.identity import SigningKey
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER
from cloister.protocol.drivers.roles import Deadline, Persist, Received, Send
from cloister.protocol.seeding.attempts import Before
from cloister.protocol.seeding.group_seed import Relay
from cloister.protocol.seeding.joining import Joiner
from cloister.protocol.seeding.server import Room
from cloister.protocol.seeding.terms import TAG_BYTES, session_of
from cloister.protocol.view.answers import Memory

DEADLINES = 8
IDENTITIES = {i: SigningKey.from_secret(bytes([i + 1] * 32)) for i in range(48)}
KILLS = ("before", "after")
"""Before a client takes a word, and when what it is to store is stored and its answer is not sent."""


@dataclass
class Deployment:
    """cheaters: what these say to a word in place of an honest client, by client: called with its joiner, the word and what an
    honest one would say. forgets: whether clients lose what they stored. again: see `Room`.
    """

    clients: int
    cheaters: dict = field(default_factory=dict)
    forgets: bool = False
    again: bool = True

    def __post_init__(self):
        self.session = session_of("all", bytes(16), range(self.clients))
        self.enrolled = {i: IDENTITIES[i].public for i in range(self.clients)}
        self.stored, self.up = {i: {} for i in range(self.clients)}, {}
        self.before, self.faults, self.seeds, self.words, self.relay = Before(), [], set(), 0, None

    def start(self, client):
        """Or start it again, from its journal."""
        self.up[client] = Joiner(self.session, client, IDENTITIES[client], self.enrolled, KeptEntropy())
        self.up[client].restore(Memory(0, {} if self.forgets else dict(self.stored[client])))

    def attempt(self, killed=lambda client, number: ""):
        """One more, with those that are up; who holds the seed then. killed: of a word by its number, one of `KILLS` or none."""
        relay = self.relay = Relay(Room(self.session, self.enrolled, before=self.before, again=self.again))
        due = deque()
        for i in self.session.roster:
            if i not in relay.room.left_out:
                due += self._said(i, None, killed)
        for _ in range(DEADLINES):
            while due:
                envelope = due.popleft().envelope
                if envelope.receiver == SERVER:
                    due += self._sent(lambda of=envelope: relay.handle(Received(of)))
                else:
                    due += self._said(envelope.receiver, envelope, killed)
            due += self._sent(lambda: relay.handle(Deadline()))
        self.before = relay.before
        holders = {i: joiner.seed for i, joiner in self.up.items() if joiner.seed and i not in self.cheaters}
        self.seeds |= set(holders.values())
        return sorted(holders)

    def begun(self, holders):
        return len(holders) >= self.session.threshold - len(self.cheaters)

    def can_have_most(self):
        """How many clients a tag could have at best, by what is stored: nobody signs another."""
        tags = Counter(value[:TAG_BYTES] for stored in self.stored.values() for value in stored.values())
        return max(tags.values(), default=0) + self.clients - sum(tags.values())

    def _sent(self, act):
        try:
            return [effect for effect in act() if isinstance(effect, Send)]
        except ProtocolError as error:
            self.faults.append((error.blame, error.reason))
            return []

    def _said(self, client, envelope, killed):
        if client not in self.up:
            return []
        self.words += 1
        joiner, when = self.up[client], killed(client, self.words)
        if when == "before":
            del self.up[client]
            return []
        try:
            effects = joiner.hello() if envelope is None else joiner.handle(Received(envelope))
        except ProtocolError as error:
            self.faults.append((error.blame, error.reason))
            effects = ()
        if client in self.cheaters:
            return self.cheaters[client](joiner, envelope, effects)
        self.stored[client] |= {effect.key: effect.value for effect in effects if isinstance(effect, Persist)}
        if when == "after":
            del self.up[client]
            return []
        return [effect for effect in effects if isinstance(effect, Send)]


def killing(rng: random.Random, rate: float):
    """Kills at random words."""
    return lambda client, number: rng.choice(KILLS) if rng.random() < rate else ""


def go_on(world: Deployment, rng: random.Random, rate: float, attempts: int, back: float = 0.8):
    """Attempts with kills at this rate, each with those that are back; whether the run has begun."""
    for number in range(attempts):
        for i in world.session.roster:
            if i not in world.up and (number == 0 or rng.random() < back):
                world.start(i)
        if len(world.up) >= world.session.threshold and world.begun(world.attempt(killing(rng, rate))):
            return True
    return False
