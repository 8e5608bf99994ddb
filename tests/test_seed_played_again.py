"""The exchange of a run's seed, played more than once: by an honest coordinator, and by one that hopes for two seeds."""

import random
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.crypto.entropy import KeptEntropy
from cloister.crypto.identity import SigningKey
from cloister.crypto.sealing import SealingKey
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER
from cloister.protocol.drivers.journal import InMemory
from cloister.protocol.drivers.roles import Deadline, Party, Persist, Posted, Received, Send
from cloister.protocol.masked.clients import masking_clients
from cloister.protocol.masked.protection import Masked
from cloister.protocol.seeding.joining import Joiner
from cloister.protocol.seeding.messages import MESSAGES as SEED_KINDS
from cloister.protocol.seeding.messages import Roster, SealedSeed, SeedQuorum, SeedTag
from cloister.protocol.seeding.server import Room, gather, server_step
from cloister.protocol.seeding.terms import advertise, context, seed_of, session_of, signed_tag, tag_of
from cloister.protocol.view.answers import Memory
from cloister.protocol.wire.codec import Envelope, decode
from cloister.protocol.work.linked import Linked
from cloister.protocol.work.said import said

from .deployed import authority, driven_by, greeting, standing

ROSTER = (0, 1, 2, 3, 4)
SESSION = session_of("all", bytes(16), ROSTER)
IDENTITIES = {i: SigningKey.from_secret(bytes([i + 1] * 32)) for i in ROSTER}
ENROLLED = {i: identity.public for i, identity in IDENTITIES.items()}


def joiner(client, stored=None):
    found = Joiner(SESSION, client, IDENTITIES[client], ENROLLED, KeptEntropy())
    found.restore(Memory(0, stored or {}))
    return found


def play(joiners, follow=lambda client, effects: None, late=False, lost=lambda envelope: False, again=False):
    """An honest server's exchange, with whoever is there; the tags that were signed. follow: told what clients do. late: whether
    its deadlines come. lost: of a message, whether it is on its way. again: see `Room`.
    """
    relay, tags = Party(SERVER, gather(Room(SESSION, ENROLLED, again=again)), server_step), set()
    due = deque((i, effect) for i, one in joiners.items() for effect in one.hello())
    deadlines = 6 if late else 0
    while due or deadlines:
        if not due:
            deadlines -= 1
            due += ((SERVER, then) for then in relay.handle(Deadline()))
            continue
        party, effect = due.popleft()
        if party != SERVER:
            follow(party, [effect])
        if isinstance(effect, Send):
            envelope = effect.envelope
            if lost(envelope):
                continue
            if isinstance(envelope.message, SeedTag):
                tags.add((envelope.sender, envelope.message.tag))
            party = relay if envelope.receiver == SERVER else joiners[envelope.receiver]
            due += ((envelope.receiver, then) for then in party.handle(Received(envelope)))
    return tags


def test_who_holds_the_seed_signs_no_other_tag_when_the_exchange_is_played_again():
    """A coordinator would have two seeds that most clients signed, of one run, without a client that helps it."""
    joiners = {i: joiner(i) for i in ROSTER}
    first = play(joiners)
    assert len({tag for _, tag in first}) == 1
    assert len({one.seed for one in joiners.values()} - {b""}) == 1
    (seed,) = {one.seed for one in joiners.values()}
    assert play(joiners) == first, "each signs the first one again, and no other leader's"
    assert {one.seed for one in joiners.values()} == {seed}
    (tag,) = {tag for _, tag in first}
    stored = {value for one in joiners.values() for value in one.save().stored.values()}
    assert {(value[:32], seed_of(value[32:], SESSION.digest)) for value in stored} == {(tag, seed)}


def test_who_had_no_seed_gets_that_of_the_others_when_the_exchange_is_played_again_also_as_its_leader():
    """As in a run whose exchange ended with too few, for whatever was lost after they held it."""
    joiners = {i: joiner(i) for i in ROSTER}
    play({i: joiners[i] for i in ROSTER[1:]}, late=True)
    (seed,) = {one.seed for one in joiners.values()} - {b""}
    assert joiners[0].seed == b""
    play(joiners, late=True)
    assert {one.seed for one in joiners.values()} == {seed}


def test_who_holds_the_seed_keeps_it_over_its_end():
    joiners = {i: joiner(i) for i in ROSTER}
    first = play(joiners)
    (seed,) = {one.seed for one in joiners.values()}
    again = {i: joiner(i, one.save().stored) for i, one in joiners.items()}
    assert play(again) == first
    assert {one.seed for one in again.values()} == {seed}


def test_a_tag_whose_secret_was_not_stored_binds_all_the_same():
    """As of a journal that an earlier release wrote."""
    joiners = {i: joiner(i) for i in ROSTER}
    play(joiners)
    stored = {i: {key: value[:32] for key, value in one.save().stored.items()} for i, one in joiners.items()}
    assert play({i: joiner(i, stored[i]) for i in ROSTER}) == set()


def silenced(joiners, away):
    """An exchange in which these are killed when it is asked who leads."""
    play(joiners, late=True, lost=lambda sent: sent.receiver in away)


@pytest.mark.parametrize("gone", [(), (0,)], ids=["all are back", "who led is not"])
def test_an_exchange_in_which_too_many_fell_silent_ends_well_when_enough_are_back(gone):
    """With the secret of before: a fresh one could not be signed by who signed that, and neither by most."""
    joiners = {i: joiner(i) for i in ROSTER}
    silenced(joiners, {1, 2, 3})
    signed = {i: one.save().stored for i, one in joiners.items() if one.save().stored}
    assert signed.keys() == {0, 4}
    assert {one.seed for one in joiners.values()} == {b""}
    back = {i: joiner(i, signed.get(i)) for i in ROSTER if i not in gone}
    tags = play(back, late=True)
    (value,) = set(signed[4].values())
    assert tags == {(i, value[:32]) for i in back}
    assert {one.seed for one in back.values()} == {seed_of(value[32:], SESSION.digest)}


@given(st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
@pytest.mark.long
def test_whatever_was_lost_in_attempts_before_the_one_in_which_all_are_there_and_heard_ends_with_one_seed(number):
    """Unless tags were signed so that none can reach most any more, which takes losses at certain places in several attempts."""
    rng = random.Random(number)
    joiners, seen = {i: joiner(i) for i in ROSTER}, set()
    for _ in range(rng.randint(1, 4)):
        rate = rng.choice((0.1, 0.4, 0.7))
        there = {i: joiners[i] for i in rng.sample(ROSTER, rng.randint(3, 5))}
        play(there, late=True, lost=lambda sent, rate=rate: rng.random() < rate, again=rng.random() < 0.5)
        seen |= {one.seed for one in joiners.values()} - {b""}
        for i in rng.sample(ROSTER, rng.randint(0, 3)):
            joiners[i] = joiner(i, joiners[i].save().stored)
    tags = Counter(value[:32] for one in joiners.values() for value in one.save().stored.values())
    most, free = max(tags.values(), default=0), len(ROSTER) - sum(tags.values())
    play(joiners, late=True, again=rng.random() < 0.5)
    found = {one.seed for one in joiners.values()}
    assert len(found) == 1
    assert (found != {b""}) == (most + free >= SESSION.threshold)
    assert seen <= found, "who held a seed before has no other now"


@given(st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
@pytest.mark.long
def test_a_coordinator_that_begins_the_exchange_again_at_will_never_splits_the_clients(number):
    """It has clients say hello at any time, names any leader, brings any seal, shows any tag as signed; clients restart."""
    rng = random.Random(number)
    joiners, said, seals, tags = {i: joiner(i) for i in ROSTER}, {}, [], {}
    stored, seen = {i: {} for i in ROSTER}, set()

    def follow(i, effects):
        for effect in effects:
            if isinstance(effect, Persist):
                stored[i][effect.key] = effect.value
            elif isinstance(effect, Send):
                match effect.envelope.message:
                    case SealedSeed() as sealed:
                        seals.append(sealed)
                    case SeedTag() as tag:
                        tags.setdefault(tag.tag, {})[i] = tag.signature
                    case key:
                        said[i] = key

    for i in ROSTER:
        follow(i, joiners[i].hello())
    for _ in range(120):
        i = rng.choice(ROSTER)
        match rng.randrange(6):
            case 0:
                members = tuple(sorted(rng.sample(ROSTER, rng.randint(3, 5))))
                message = Roster(members, tuple(said[k].public + said[k].signature for k in members))
            case 1 | 2 if seals:
                message = rng.choice(seals[-8:])
                i = message.member
            case 3 if tags:
                tag, signed = rng.choice(list(tags.items()))
                signers = tuple(sorted(signed))
                message = SeedQuorum(tag, signers, tuple(signed[k] for k in signers))
            case 4 if rng.random() < 0.3:
                if rng.random() < 0.2:
                    joiners[i] = joiner(i, stored[i])
                follow(i, joiners[i].hello())
                continue
            case 5 if rng.random() < 0.1:
                play(joiners, follow, again=rng.random() < 0.5)
                seen |= {one.seed for one in joiners.values()} - {b""}
                continue
            case _:
                continue
        try:
            follow(i, joiners[i].handle(Received(Envelope(SESSION.digest, SERVER, i, message))))
        except ProtocolError:
            continue
        seen |= {one.seed for one in joiners.values()} - {b""}
    assert len(seen) <= 1


FOUR = session_of("all", bytes(16), range(4))
HELPS = 3
"""Of four, of whom three must hold one seed, the one that helps the coordinator. Any two sets of three have another in common."""


@given(st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
@pytest.mark.long
def test_nor_does_one_that_has_a_client_to_help_it_where_two_would_be_needed(number):
    """The helper signs every tag, and seals secrets of its own under its key; others' keys are theirs alone."""
    rng = random.Random(number)
    honest = {i: Joiner(FOUR, i, IDENTITIES[i], ENROLLED, KeptEntropy()) for i in range(3)}
    key, own = SealingKey(bytes([9] * 32)), (bytes([1] * 32), bytes([2] * 32))
    mine = advertise(IDENTITIES[HELPS], FOUR.digest, key.public)
    said, seals, tags, stored, seen = {HELPS: mine}, [], {}, {i: {} for i in honest}, set()

    def follow(i, effects):
        for effect in effects:
            if isinstance(effect, Persist):
                stored[i][effect.key] = effect.value
                continue
            match effect.envelope.message:
                case SealedSeed() as sealed:
                    seals.append(sealed)
                case SeedTag() as tag:
                    tags.setdefault(tag.tag, {})[i] = tag.signature
                case found:
                    said[i] = found

    def helped(i):
        secret = rng.choice(own)
        tag = tag_of(secret, FOUR.digest)
        sealed = key.seal(said[i].public, secret, context(FOUR.digest, HELPS, i, tag))
        return SealedSeed(i, HELPS, mine.public, mine.signature, tag, sealed)

    for i, one in honest.items():
        follow(i, one.hello())
    for _ in range(80):
        i = rng.choice(list(honest))
        match rng.randrange(5):
            case 0:
                members = tuple(sorted(rng.sample(sorted(said), 3)))
                message = Roster(members, tuple(said[k].public + said[k].signature for k in members))
            case 1:
                message = helped(i)
            case 2 if of := [sealed for sealed in seals if sealed.member == i]:
                message = rng.choice(of)
            case 3 if tags:
                tag, signed = rng.choice(list(tags.items()))
                signed = {**signed, HELPS: signed_tag(IDENTITIES[HELPS], FOUR.digest, tag).signature}
                signers = tuple(sorted(signed))
                message = SeedQuorum(tag, signers, tuple(signed[k] for k in signers))
            case 4 if rng.random() < 0.2:
                if rng.random() < 0.5:
                    honest[i] = Joiner(FOUR, i, IDENTITIES[i], ENROLLED, KeptEntropy())
                    honest[i].restore(Memory(0, stored[i]))
                follow(i, honest[i].hello())
                continue
            case _:
                continue
        with suppress(ProtocolError):
            follow(i, honest[i].handle(Received(Envelope(FOUR.digest, SERVER, i, message))))
        seen |= {one.seed for one in honest.values()} - {b""}
    assert len(seen) <= 1


def of_cheaters(roster, cheaters):
    """An exchange of these at an honest coordinator, in which the cheaters say that they hold what nobody does."""
    session = session_of("all", bytes(16), roster)
    own = {i: SigningKey.from_secret(bytes([i + 1] * 32)) for i in roster}
    enrolled = {i: identity.public for i, identity in own.items()}
    joiners = {i: Joiner(session, i, own[i], enrolled, KeptEntropy()) for i in roster}
    relay = Party(SERVER, gather(Room(session, enrolled)), server_step)
    due = [Send(Envelope(session.digest, i, SERVER, signed_tag(own[i], session.digest, bytes(32)))) for i in cheaters]
    due += [effect for one in joiners.values() for effect in one.hello()]
    for _ in range(12):
        while due:
            effect = due.pop(0)
            if isinstance(effect, Send) and (to := effect.envelope.receiver) not in cheaters:
                due += (relay if to == SERVER else joiners[to]).handle(Received(effect.envelope, b""))
        due += relay.handle(Deadline())
    return [i for i, one in joiners.items() if one.seed]


@pytest.mark.parametrize(("cheaters", "hold"), [((5, 6), [0, 1, 2, 3, 4]), ((4, 5, 6), [])], ids=["two", "three"])
def test_clients_that_say_that_they_hold_what_nobody_does_cost_an_attempt_where_they_are_three(cheaters, hold):
    """So many are asked to seal, in all: a limit of the exchange, which three silent leaders have as well."""
    assert of_cheaters(range(7), cheaters) == hold


# --- a client that is slow ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    client: int
    number: int
    data: bytes | None
    late: bool = False


class Slow:
    """Words to a client, and what is heard of them. told: the answers to each, in order, by when they come."""

    def __init__(self, *told):
        self._told, self.number, self.done = deque(told), 0, []

    def post(self, client, data):
        self.number += 1
        return self.number

    def heard(self):
        return self._told.popleft()

    def heard_already(self):
        return self._told.popleft() if self._told else None

    def done_with(self, answer):
        self.done.append(answer.number)


def first(key):
    return cbor2.dumps([[[SERVER, "Advertise", key]], [], []])


@pytest.mark.parametrize("again", [True, False], ids=["it said another", "it was not asked again in time"])
def test_of_a_slow_client_the_first_word_of_an_attempt_before_is_heard_only_while_it_stands(again):
    """Else the key of before would come as a second one, for which it was blamed."""
    slow = Answer(0, 1, first(b"before"), True)
    link = Slow(Answer(0, 1, None), slow, Answer(0, 2, first(b"now") if again else None))
    clients = Linked(link, (0,))(masking_clients(Masked(floor=2)))
    assert clients[0].hello() == ()
    assert clients[0].hello() == ((Posted(SERVER, "Advertise", b"now"),) if again else ())
    heard = list(clients[0].hosts.heard())
    assert heard == ([] if again else [(0, (Posted(SERVER, "Advertise", b"before"),))])
    assert clients[0].hosts.late == 1
    assert link.done.count(1) == 2, "its memory is free"


def test_a_client_that_is_back_has_another_key_and_its_journal_does_not_grow_by_attempts(tmp_path):
    """Also where the coordinator said that the exchange was over, in vain, which has the client store what lasts. To a key that
    it had before holders would not seal again; a coordinator that has it join without end would fill its disk.
    """
    own, journal = standing(authority(tmp_path / "pki", 2), 0), InMemory()
    shown = {use: dict(of) for use, of in own.directory.enrolled((0, 1)).items()}
    hello, begin = cbor2.dumps(["hello", "seed"]), cbor2.dumps(["begin"])
    keys, sizes = [], []
    for attempts in (1, 40):
        driven = driven_by(greeting(bytes(16), (0, 1), 0), own, journal)
        if not keys:
            assert not said(driven, cbor2.dumps(["enrol", shown])).refused
        for _ in range(attempts):
            ((_, _, frame),) = cbor2.loads(said(driven, hello).data)[0]
            keys.append(decode(frame, 0, 1 << 20, SEED_KINDS).message.public)
        assert cbor2.loads(said(driven, begin).data) is False
        sizes.append(len(b"".join(journal.read().values())))
    assert len(set(keys)) == len(keys) == 41
    assert sizes[1] == sizes[0]
