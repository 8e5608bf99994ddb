"""Seals that come late while a run's seed is agreed on: of who was asked before, and of attempts before."""

import random

import pytest

from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER
from cloister.protocol.drivers.roles import Deadline, Received, Send
from cloister.protocol.seeding.group_seed import Relay
from cloister.protocol.seeding.messages import SealedSeed
from cloister.protocol.seeding.server import CollectingSeedKeys, Open, Room, Sealing, SeedUnshared

from .seed_attempts import Deployment, go_on


class ByHand:
    """An attempt of four whose words are brought one at a time."""

    def __init__(self, world):
        self.world = world
        self.relay = Relay(Room(world.session, world.enrolled, before=world.before, again=True))

    def hear(self, effects):
        """The server hears this, in order; what it says."""
        return [word for effect in effects for word in self.sent(self.relay.handle(Received(effect.envelope)))]

    def deadline(self):
        return self.sent(self.relay.handle(Deadline()))

    def hello(self, *clients):
        """What the server says at each."""
        return [word for i in clients for word in self.hear(self.says(i, None))]

    def says(self, client, envelope):
        """What a client says to a word; it is stored."""
        said = []
        joiner = self.world.up[client]
        for effect in joiner.hello() if envelope is None else joiner.handle(Received(envelope)):
            if isinstance(effect, Send):
                said.append(effect)
            else:
                self.world.stored[client][effect.key] = effect.value
        return said

    def play(self, sends):
        """Each word is answered, and each answer heard, until nothing is said."""
        due = list(sends)
        while due:
            word = due.pop(0).envelope
            assert word.receiver != SERVER
            due += self.hear(self.says(word.receiver, word))

    @staticmethod
    def sent(effects):
        return [effect for effect in effects if isinstance(effect, Send)]


def started():
    world = Deployment(4)
    for i in range(4):
        world.start(i)
    return world


def only_to(client, answer):
    return [s for s in answer if isinstance(s.envelope.message, SealedSeed) and s.envelope.message.member == client]


@pytest.mark.parametrize("cheats", [False, True], ids=["it is slow, and another's key is late", "it cheats"])
def test_seals_that_come_when_another_was_asked_since_split_nobody(cheats):
    """The other was asked as three could sign whatever it draws. Had they come to these, in the way that words come over links,
    of four two and two were bound for good: by one client that is slow, or by one that waits with a seal for one other.
    """
    world = started()
    by_hand = ByHand(world)
    (to_lead,) = by_hand.hello(*range(4)) if cheats else by_hand.hello(*range(3)) or by_hand.deadline()
    late = by_hand.says(0, to_lead.envelope)
    if not cheats:
        by_hand.hello(3)
    (then,) = by_hand.deadline()
    assert then.envelope.receiver == 1
    first = by_hand.hear(only_to(2, late) if cheats else late)
    second = by_hand.hear(by_hand.says(1, then.envelope))
    by_hand.play([*first, *second])
    by_hand.play(by_hand.deadline())
    world.before = by_hand.relay.before
    assert world.can_have_most() >= world.session.threshold
    assert not world.before.shown
    assert go_on(world, random.Random(0), 0.0, 2, back=1.0)
    assert len(world.seeds) == 1


def test_seals_of_an_attempt_before_are_late_and_no_fault_in_any_phase_of_the_next():
    """Of a leader whose answer came when nobody waited for it any more: its seals are under a key that nobody has now."""
    world = started()
    by_hand = ByHand(world)
    (to_lead,) = by_hand.hello(*range(4))
    late = by_hand.says(0, to_lead.envelope)
    while not isinstance(by_hand.relay.state, SeedUnshared):
        by_hand.deadline()
    world.before = by_hand.relay.before
    assert 0 in world.before.in_vain
    seals = [said for said in late if isinstance(said.envelope.message, SealedSeed)]
    by_hand, phases = ByHand(world), []

    def hears_late():
        phases.append(type(by_hand.relay.state))
        assert by_hand.hear(seals) == []

    hears_late()
    by_hand.hello(1, 2, 3)
    hears_late()
    lead = by_hand.deadline()
    hears_late()
    by_hand.play(lead)
    by_hand.play(by_hand.deadline())
    hears_late()
    assert set(phases) == {CollectingSeedKeys, Sealing, Open}
    assert not by_hand.relay.before.shown


def test_a_seal_that_nobody_asked_for_is_a_fault_where_there_was_no_attempt_before():
    world = started()
    by_hand = ByHand(world)
    (to_lead,) = by_hand.hello(*range(4))
    seals = only_to(2, by_hand.says(0, to_lead.envelope))
    with pytest.raises(ProtocolError, match="SealedSeed is out of place at CollectingSeedKeys"):
        ByHand(world).hear(seals)
