"""Clients that hold a run's seed before enough are known to: killed then, or asked anew, they take part, and welcome others."""

import random
from collections import Counter

import cbor2
import pytest

from cloister.crypto.entropy import RootedEntropy
from cloister.protocol.drivers.event_log import EventLog
from cloister.protocol.masked.protection import Masked
from cloister.protocol.parts.clients import Clients
from cloister.protocol.view.protection import Setup
from cloister.protocol.work.journalled import Journalled
from cloister.protocol.work.linked import Linked

from .crashing import Link, Moments, Play, Told
from .test_away import INITIAL, MEMBERS, RUN, judge, nobody


class Losing(Link):
    """fate: of a word to a client, by what it is and how often it was said: "lost" on its way, its "answer lost", or neither."""

    def __init__(self, play, fate):
        super().__init__(play.ends, Moments(), random.Random(0))
        self.fate, self.said = fate, Counter()

    def heard(self):
        client = min(self.owed)
        number = min(self.owed[client])
        data = self.owed[client].pop(number)
        if not self.owed[client]:
            del self.owed[client]
        what = cbor2.loads(data)[0]
        self.said[client, what] += 1
        fate = self.fate(client, what, self.said[client, what])
        answer = None if fate == "lost" else self.ends[client].told(number, number - 1, data)
        return Told(client, number, None if fate == "answer lost" else answer)


def opened(play, fate, between):
    """The run's clients when it begins. between: done before each further attempt."""
    link, tried = Losing(play, fate), []
    link.journal = words = Journalled(EventLog(play.path), lambda: link)

    def gathered(clients, why):
        tried.append(why)
        assert len(tried) < 6, why
        between()

    hosts = Linked(words, MEMBERS)
    setup = Setup(RUN, INITIAL, MEMBERS, nobody, RootedEntropy(bytes(32)), None, judge, hosts=hosts, gathered=gathered)
    return Masked(floor=2).open(setup).harness.part(Clients), len(tried)


def seeds(play):
    return {end.driven.client.admission[1] for end in play.ends.values()} - {b""}


def test_who_held_the_seed_and_was_killed_before_others_did_takes_part_in_the_next_attempt(tmp_path):
    """Its role in the exchange was gone with its life before: two of four, and no attempt could end with a seed any more."""
    play, others = Play(Masked(floor=2), tmp_path), MEMBERS[2:]

    def killed():
        for client in MEMBERS:
            play.restart(client)

    clients, attempts = opened(play, lambda i, what, n: "lost" if (what, n) == ("begin", 1) and i in others else "", killed)
    assert (clients.seated, attempts) == (set(MEMBERS), 1)
    assert len(seeds(play)) == 1


@pytest.mark.parametrize("restarted", [False, True], ids=["all live on", "who holds it was killed"])
def test_who_lacks_the_seed_is_welcomed_though_the_last_attempt_came_to_nothing(restarted, tmp_path):
    """That enough hold it since the one before is known only then. One comes later."""
    play, late = Play(Masked(floor=2), tmp_path), MEMBERS[-1]

    def fate(client, what, number):
        if client == late:
            return "lost" if what in ("hello", "begin") and number <= 2 else ""
        if what == "hello" and number == 2:
            return "lost"
        return "answer lost" if what == "begin" and number == 1 and client != MEMBERS[0] else ""

    clients, attempts = opened(play, fate, lambda: None)
    assert (clients.seated, attempts) == (set(MEMBERS) - {late}, 1)
    if restarted:
        for client in sorted(clients.seated):
            play.restart(client)
    assert clients.admit() == []
    assert clients.seated == set(MEMBERS)
    assert len(seeds(play)) == 1
