"""Attempts at a run's seed, one after another: none splits the clients for good, and cheaters end up last, or outside."""

import random
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER
from cloister.protocol.drivers.roles import Send
from cloister.protocol.masked.protection import Masked
from cloister.protocol.parts.clients import Clients
from cloister.protocol.seeding.attempts import Before
from cloister.protocol.seeding.choosing import AttemptSoFar, next_sealer
from cloister.protocol.seeding.messages import Advertise, Roster, SealedSeed, SeedTag
from cloister.protocol.seeding.terms import session_of, signed_tag
from cloister.protocol.view.protection import Setup
from cloister.protocol.wire.codec import Envelope

from .seed_attempts import IDENTITIES, Deployment, go_on
from .torture.questions import INITIAL, workers


@pytest.mark.long
@given(st.integers(0, 2**32), st.integers(3, 7), st.sampled_from((0.05, 0.15, 0.3)))
@settings(max_examples=60, deadline=None)
def test_kills_at_any_word_of_any_attempt_leave_a_tag_that_most_can_have_and_one_seed(number, clients, rate):
    """And with everybody there and not killed any more, the run begins, with the seed that some held before, if any did."""
    rng, world = random.Random(number), Deployment(clients)
    go_on(world, rng, rate, rng.randint(1, 6))
    assert world.can_have_most() >= world.session.threshold
    assert not world.before.lost(world.session)
    assert not world.before.shown, "nobody cheated"
    assert go_on(world, rng, 0.0, 2, back=1.0)
    assert len(world.seeds) == 1


def started(world):
    for i in world.session.roster:
        world.start(i)
    return world


@pytest.mark.parametrize("again", [True, False], ids=["another may follow", "as though it were the last attempt"])
def test_two_leaders_that_are_killed_when_they_have_signed_split_the_others_only_where_no_attempt_may_follow(again):
    """So it was for every attempt. The fifth and the sixth word ask somebody to lead."""
    world = started(Deployment(4, again=again))
    assert world.attempt(lambda client, number: "after" if number in (5, 6) else "") == []
    assert len({value for stored in world.stored.values() for value in stored.values()}) == (2 if again else 3)
    assert (world.can_have_most() >= world.session.threshold) == again
    assert go_on(world, random.Random(0), 0.0, 3, back=1.0) == again
    assert world.before.lost(world.session) == (not again)


@pytest.mark.parametrize("forgets", [False, True], ids=["clients store what they signed", "they do not"])
def test_one_seed_is_the_work_of_what_clients_store(forgets):
    """Who is killed when most have signed, and before it hears so, comes back. Words 9 to 12 say that most have. A coordinator
    that remembers finds out who forgot; one that does not has two seeds.
    """
    world = started(Deployment(4, forgets=forgets))
    assert world.attempt(lambda client, number: "before" if number in (10, 11, 12) else "") == [0]
    known = world.before
    for remembered in (known, Before()):
        world.up.clear()
        world.before = remembered
        assert go_on(world, random.Random(0), 0.0, 1, back=1.0) == (not forgets or remembered != known)
        assert (world.before.shown == {0, 1, 2, 3}) == (forgets and remembered == known)
    assert len(world.seeds) == (2 if forgets else 1)


# --- clients that cheat ---------------------------------------------------------------------------------------------------


def silent_leader(joiner, word, effects):
    """Is there, and seals nothing."""
    return [] if word is not None and isinstance(word.message, Roster) else _sent(effects)


def silent_at_last(joiner, word, effects):
    """Is there, leads, and signs nothing."""
    return [effect for effect in _sent(effects) if not isinstance(effect.envelope.message, SeedTag)]


def claims(joiner, word, effects):
    """Says that it holds what nobody does."""
    tag = bytes([joiner.id]) * 32
    said = Send(Envelope(joiner.session, joiner.id, SERVER, signed_tag(IDENTITIES[joiner.id], joiner.session, tag)))
    return [said, *_sent(effects)] if word is None else []


def claims_alike(joiner, word, effects):
    """Says that it holds what nobody does, the same as others."""
    said = Send(Envelope(joiner.session, joiner.id, SERVER, signed_tag(IDENTITIES[joiner.id], joiner.session, bytes(32))))
    return [said, *_sent(effects)] if word is None else []


def garbles(joiner, word, effects):
    """Seals what opens to nobody."""
    return [_with(effect, sealed=bytes(48)) if _is_seal(effect) else effect for effect in _sent(effects)]


def for_one(joiner, word, effects):
    """Seals what opens to one member alone."""
    found, seals = [], 0
    for effect in _sent(effects):
        seals += _is_seal(effect)
        found.append(_with(effect, sealed=bytes(48)) if _is_seal(effect) and seals > 1 else effect)
    return found


def two_secrets(joiner, word, effects):
    """Names another secret to each member."""
    return [
        _with(effect, tag=bytes([effect.envelope.message.member]) * 32) if _is_seal(effect) else effect
        for effect in _sent(effects)
    ]


def false_key(joiner, word, effects):
    """Signs its key falsely."""
    return [
        _with(effect, signature=bytes(64)) if isinstance(effect.envelope.message, Advertise) else effect
        for effect in _sent(effects)
    ]


def another_tag(joiner, word, effects):
    """Signs another tag in every attempt."""
    tag = random.Random(repr(joiner.state.member.key.public)).randbytes(32)
    said = Send(Envelope(joiner.session, joiner.id, SERVER, signed_tag(IDENTITIES[joiner.id], joiner.session, tag)))
    return [said, *_sent(effects)] if word is None else []


def _sent(effects):
    return [effect for effect in effects if isinstance(effect, Send)]


def _is_seal(effect):
    return isinstance(effect.envelope.message, SealedSeed)


def _with(effect, **fields):
    return Send(replace(effect.envelope, message=replace(effect.envelope.message, **fields)))


SHOWN = {two_secrets, false_key, another_tag}
"""What the coordinator sees by itself."""
CHEATS = (silent_leader, silent_at_last, claims, claims_alike, garbles, for_one, two_secrets, false_key, another_tag)


@pytest.mark.parametrize("who", [(0, 1, 2), (4, 5, 6)], ids=["the lowest", "the highest"])
@pytest.mark.parametrize("cheat", CHEATS)
def test_three_of_seven_that_cheat_do_not_keep_the_others_from_a_seed(cheat, who):
    """Whatever they do, if they all do it: each honest client is needed, and holds the seed after some attempts."""
    world = Deployment(7, dict.fromkeys(who, cheat))
    for i in range(7):
        world.start(i)
    for _ in range(12):
        holders = world.attempt()
        if len(holders) == 4:
            break
    assert holders == [i for i in range(7) if i not in who], world.faults
    assert len(world.seeds) == 1
    assert world.before.shown <= set(who)
    assert cheat is not false_key or world.before.shown == set(who)


@pytest.mark.long
@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_three_of_seven_that_cheat_each_in_its_way_blame_nobody_else_and_split_no_seed(number):
    """Honest clients are killed, too. That it begins is not said: three can bind honest ones to tags of their own."""
    rng = random.Random(number)
    who = rng.sample(range(7), 3)
    world = Deployment(7, {i: rng.choice(CHEATS) for i in who})
    go_on(world, rng, rng.choice((0.0, 0.1)), 8)
    assert len(world.seeds) <= 1
    assert world.before.shown <= set(who)
    assert {blame for blame, _ in world.faults} <= {SERVER, *who}


@pytest.mark.parametrize("cheat", sorted(SHOWN, key=lambda cheat: cheat.__name__))
def test_who_was_shown_to_cheat_is_not_asked_in_the_next_attempt_unless_too_few_would_be_left(cheat):
    world = Deployment(7, dict.fromkeys((0, 1, 2), cheat))
    for i in range(7):
        world.start(i)
    for _ in range(4):
        if not world.before.shown:
            world.before = replace(world.before, in_vain=dict.fromkeys((3, 4, 5, 6), 9))  # so that they are asked first
            world.attempt()
    shown = world.before.shown
    assert shown
    before = world.words
    world.attempt(lambda client, number: "before")
    assert world.words - before == 7 - len(shown)
    assert world.relay.room.left_out == shown
    crowded = replace(world.before, shown=frozenset(range(4)))
    assert replace(world.relay.room, before=crowded).left_out == frozenset(), "of seven four must hold it"


@dataclass
class Tries:
    """A `Setup.gathered`."""

    told: list = field(default_factory=list)
    most: int = 12

    def __call__(self, clients, why):
        self.told.append((clients, why))
        if len(self.told) >= self.most:
            raise ConnectionError(why)


def opened(tap, tries):
    """A run of seven clients in one process, whose seed is agreed on until it is held."""
    setup = Setup(bytes(16), INITIAL, tuple(range(7)), workers, SimulatedEntropy(7), tap=tap, gathered=tries)
    return Masked(floor=2).open(setup)


def test_a_run_begins_when_leaders_that_fell_silent_were_each_asked_and_says_who_they_are():
    tries = Tries()
    view = opened(lambda frame: [] if frame.kind == "SealedSeed" and frame.sender in (0, 1, 2) else [frame], tries)
    assert view.harness.part(Clients).seated == set(range(7))
    why = "0 of 7 clients hold the group seed, 4 must: clients [0, 1, 2] were asked for it in vain; clients [0] and [1] and [2] "
    assert tries.told == 2 * [(4, f"{why}are bound to different ones")], "each is asked again for what it holds, then another"


def test_three_that_sign_nothing_stop_nobody_and_four_that_do_end_it_by_name():
    """Most must answer: there is no seed without them, and nothing shows whether they would not or could not."""

    def mute(*clients):
        return lambda frame: [] if frame.kind == "SeedTag" and frame.sender in clients else [frame]

    assert opened(mute(0, 1, 2), Tries()).harness.part(Clients).seated
    why = r"0 of 7 clients hold the group seed, 4 must: clients \[0, .*6\] were asked for it in vain"
    with pytest.raises(ConnectionError, match=why):
        opened(mute(0, 1, 2, 3), Tries())


def test_a_run_whose_seed_nobody_can_agree_on_any_more_ends_at_once_and_says_so(monkeypatch):
    monkeypatch.setattr(Before, "lost", lambda self, session: True)
    tries = Tries()
    why = r"in vain; clients \[0\] and \[1\] and \[2\] are bound to different ones, so that none can have most any more"
    with pytest.raises(ProtocolError, match=why):
        opened(lambda frame: [] if frame.kind == "SealedSeed" and frame.sender in (0, 1, 2) else [frame], tries)
    assert tries.told == []


def test_false_signatures_are_blamed_by_name_in_what_the_coordinator_says():
    def tap(frame):
        if frame.kind == "SeedTag" and frame.sender in (3, 4, 5, 6):
            return [replace(frame, data=frame.data[:-1] + bytes([frame.data[-1] ^ 1]))]
        return [frame]

    tries = Tries(most=2)
    with pytest.raises(ConnectionError) as ended:
        opened(tap, tries)
    for i in (3, 4, 5, 6):
        assert f"client {i}: a tag that is not signed by an enrolled client" in str(ended.value)


# --- whom the server asks -------------------------------------------------------------------------------------------------

FOUR = session_of("all", bytes(16), range(4))
A, B = bytes([1] * 32), bytes([2] * 32)


def choice(tags=None, got=None, given=None, asked=(), in_vain=None, there=range(4)):
    return AttemptSoFar(FOUR, set(there), tags or {}, got or {}, given or {}, asked, in_vain or {})


@pytest.mark.parametrize(
    ("known", "asked"),
    [
        (choice(), (0, frozenset())),
        (choice(in_vain={0: 1, 1: 1}), (2, frozenset())),
        (choice(there=(0, 1)), None),
        (choice(asked=(0,)), (1, frozenset())),
        (choice(asked=(0, 1)), None),  # each of them may have signed a tag of its own
        (choice({2: A}), (2, frozenset({2}))),
        (choice({2: A}, in_vain={2: 1}), (2, frozenset({2}))),
        (choice({2: A}, in_vain={2: 2}), (1, frozenset())),  # in the order that is drawn
        (choice({0: A, 1: A}, {3: {A}}, {0: A}, (0,)), (1, frozenset({0, 1}))),
        (choice({0: A}, {1: {A}, 2: {A}, 3: {A}}, {0: A}, (0,)), None),  # some may have signed it, and cannot say so yet
        (choice({0: A, 1: B}), (0, frozenset({0}))),
        (choice({0: A, 1: B}, {2: {A}, 3: {B}}), None),
        (choice({0: A, 1: A, 2: B}), (0, frozenset({0, 1}))),
        (choice({0: A, 1: A, 2: B, 3: B}), None),
    ],
)
def test_nobody_is_asked_by_whom_tags_could_be_split(known, asked):
    assert next_sealer(known, again=True) == asked


def test_in_the_last_attempt_who_said_no_tag_is_taken_to_have_signed_none():
    known = choice({0: A}, {1: {A}, 2: {A}, 3: {A}}, {0: A}, (0,))
    assert next_sealer(known, again=False) == (1, frozenset())


def test_a_session_is_lost_when_no_tag_can_have_most_any_more():
    assert not Before().lost(FOUR)
    assert not Before({0: A, 1: B}).lost(FOUR)
    assert Before({0: A, 1: A, 2: B, 3: B}).lost(FOUR)
    assert Before({0: A, 1: B}).then({2: A, 3: B}, (0, 1)).behind() == ((0, 2), (1, 3))
    assert Before().then({}, (0, 1)).then({}, (1,)).in_vain == {0: 1, 1: 2}


@pytest.mark.parametrize("cheat", [silent_leader, silent_at_last, garbles])
def test_twenty_of_41_with_the_lowest_numbers_that_cheat_cost_few_attempts(cheat):
    """After the first, others are asked in an order that is drawn: lowest first took 13 where leaders were silent."""
    world = Deployment(41, dict.fromkeys(range(20), cheat))
    for i in range(41):
        world.start(i)
    for _ in range(4):
        holders = world.attempt()
        if set(range(20, 41)) <= set(holders):
            break
    assert set(range(20, 41)) <= set(holders), world.faults
