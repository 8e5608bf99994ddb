"""The seed exchange: clients get one seed or none, the server gets nothing, whoever is silent or cheats stops only itself."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.crypto.entropy import OsEntropy, SimulatedEntropy
from cloister.crypto.identity import SigningKey
from cloister.crypto.sealing import InvalidSeal, SealingKey
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.drivers.in_process import InProcess
from cloister.protocol.drivers.roles import Awaiting, Deadline, Party, Persist, Received, Send
from cloister.protocol.messages import MESSAGES, decode
from cloister.protocol.seeding import terms
from cloister.protocol.seeding.client import HoldingSecret, Seeded, SeedMember, Waiting, client_step, join
from cloister.protocol.seeding.group_seed import PROTOCOL, agree, session_of, welcome
from cloister.protocol.seeding.messages import Advertise, Roster, SealedSeed, SeedQuorum, SeedTag
from cloister.protocol.seeding.server import CollectingSeedKeys, Open, Room, Sealing, SeedUnshared, gather, server_step
from cloister.protocol.wire.codec import Envelope, encode
from cloister.protocol.wire.messages import Task

LIMIT = 1 << 20
ENTROPY = SimulatedEntropy(11)
IDS = (2, 5, 6, 9)
IDENTITIES = {i: SigningKey.from_secret(bytes([i] * 32)) for i in range(16)}
ENROLLED = {i: identity.public for i, identity in IDENTITIES.items()}
KINDS = ("Advertise", "Roster", "SealedSeed", "SeedTag", "SeedQuorum")
LEFT = "the key shown for client {} is not signed by it"


def session(roster=IDS, run=bytes(16), use="all"):
    return session_of(use, run, roster)


def member(of, i, key=50):
    return SeedMember(of, i, SealingKey(bytes([key + i] * 32)), IDENTITIES[i], ENROLLED)


def secret(i):
    """What client i hands out if it leads."""
    return bytes([100 + i] * 32)


def seed(i, of=None):
    return terms.seed_of(secret(i), (of or session()).digest)


class Exchange:
    """The exchange over the driver with the parties in reach, as `agree` plays it. clients: those that join."""

    def __init__(self, tap=None, of=None, keys=50, clients=None):
        self.of = of = session() if of is None else of
        self.network = InProcess(tap, kinds=MESSAGES, max_bytes=LIMIT, record=True)
        self.parties = {}
        self.relay = Party(SERVER, gather(Room(of, ENROLLED)), server_step)
        self.join(of.roster if clients is None else clients, keys)

    def join(self, clients, keys=50):
        hellos = []
        for i in clients:
            state, hello = join(member(self.of, i, keys), secret(i))
            self.parties[i] = Party(i, state, client_step)
            hellos.append((i, hello))
        self.network.run(self.parties, {self.of.digest: self.relay}, hellos, lambda _: iter(()), lambda *_: None)

    def seeds(self):
        return {i: p.state.seed for i, p in self.parties.items() if isinstance(p.state, Seeded)}

    def faults(self):
        return [(f.blame, f.reason) for f in self.network.faults]

    def left_out(self):
        return [reason for p in self.parties.values() for reason in getattr(p.state, "left_out", ())]

    def frames(self, kind, down=False):
        return [f for f in self.network.frames if f.kind == kind and (f.sender == SERVER) == down]


def alter(kind, change, receiver=None, sender=None):
    """A tap that changes the messages of one kind (on their way to one receiver, or from one sender)."""

    def tap(frame):
        if frame.kind != kind or receiver not in (None, frame.receiver) or sender not in (None, frame.sender):
            return [frame]
        envelope = decode(frame.data, frame.sender, LIMIT)
        return [replace(frame, data=encode(replace(envelope, message=change(envelope.message))))]

    return tap


def event(message, sender=SERVER, of=None):
    return Received(Envelope((of or session()).digest, sender, 5, message))


# --- what holds -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(IDS), min_size=1, max_size=4, unique=True))
@settings(max_examples=20)
def test_all_clients_get_the_leaders_seed(roster):
    exchange = Exchange(of=session(roster))
    assert exchange.seeds() == dict.fromkeys(sorted(roster), seed(min(roster), exchange.of))
    assert not exchange.network.faults
    assert exchange.network.messages == 5 * len(roster) - 1
    assert isinstance(exchange.relay.state, Open)


def test_agree_is_a_function_of_session_and_entropy():
    agreed = agree(session(range(20)), ENTROPY)
    assert len(agreed.seed) == 32
    assert agreed.holders == tuple(range(20))
    assert agree(session(range(20)), ENTROPY).seed == agreed.seed
    assert agree(session(range(20)), SimulatedEntropy(12)).seed != agreed.seed
    assert agree(session(range(3)), OsEntropy()).seed != agree(session(range(3)), OsEntropy()).seed
    assert not agreed.network.faults
    assert agreed.network.messages == 5 * 20 - 1


def test_the_server_never_holds_the_seed_or_a_key():
    frames = []
    of = session(range(12))
    agreed = agree(of, ENTROPY, lambda f: frames.append(f) or [f])
    seen = b"".join(frame.data for frame in frames)
    members = [party.state.member for party in agreed.parties.values()]
    secrets = {agreed.seed, *(party.state.secret for party in agreed.parties.values())}
    secrets |= {m.key.secret for m in members} | {m.identity.secret for m in members}
    assert len(secrets) == 2 + 2 * 12
    for value in secrets:
        for n in range(len(value) - 7):  # not even eight bytes of one, forwards or backwards
            assert value[n : n + 8] not in seen
            assert value[n : n + 8][::-1] not in seen
    assert terms.tag_of(agreed.parties[0].state.secret, of.digest) in seen


def test_what_the_server_sees_opens_with_no_key_but_the_members():
    exchange = Exchange()
    frames = [decode(f.data, f.sender, LIMIT).message for f in exchange.frames("SealedSeed")]
    contexts = {i: terms.context(session().digest, 2, i, frames[0].tag) for i in IDS[1:]}
    assert len(frames) == 3
    for message in frames:
        for i in IDS[1:]:
            for name, context in contexts.items():
                if i == message.member and name == i:
                    assert SealingKey(bytes([50 + i] * 32)).open(message.public, message.sealed, context) == secret(2)
                    continue
                with pytest.raises(InvalidSeal):
                    SealingKey(bytes([50 + i] * 32)).open(message.public, message.sealed, context)


def test_no_state_prints_a_secret():
    states = [join(member(session(), i), secret(i))[0] for i in IDS]
    states += [HoldingSecret(member(session(), i), secret(2), other=secret(5)) for i in IDS]
    states += [party.state for party in Exchange().parties.values()]
    assert {type(state) for state in states} == {Waiting, HoldingSecret, Seeded}
    for state in states:
        for value in (*map(secret, IDS), seed(2), *(bytes([n] * 32) for i in IDS for n in (i, 50 + i))):
            assert repr(value)[2:-1] not in repr(state)
    assert repr(secret(2))[2:-1] not in repr(agree(session(), OsEntropy()))


@pytest.mark.parametrize("threshold", [1, 2])
def test_a_threshold_that_two_seeds_could_reach_is_refused(threshold):
    of = replace(session(), threshold=threshold)
    with pytest.raises(ValueError, match="more than half"):
        agree(of, ENTROPY)
    with pytest.raises(ValueError, match="more than half"):
        join(member(of, 2), secret(2))


# --- who is silent --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("silent", IDS)
def test_one_client_whose_messages_of_a_kind_are_lost_or_late_stops_nobody(silent, kind, late):
    def tap(frame):
        lost = frame.kind == kind and silent in (frame.sender, frame.receiver)
        return ([replace(frame, late=True)] if late else []) if lost else [frame]

    exchange = Exchange(tap)
    seeds = exchange.seeds()
    assert len(set(seeds.values())) == 1
    assert seeds.keys() >= set(IDS) - {silent}
    assert not exchange.network.faults
    assert not exchange.left_out()


@pytest.mark.parametrize("said", range(6))
def test_a_leader_that_falls_silent_after_any_of_its_messages_is_followed_by_another(said):
    sent = []

    def tap(frame):
        if 2 in (frame.sender, frame.receiver):
            sent.extend([frame] * (frame.sender == 2))
            return [frame] if len(sent) <= said else []
        return [frame]

    exchange = Exchange(tap)
    seeds = exchange.seeds()
    assert seeds.keys() >= {5, 6, 9}
    leader = 5 if said < 2 else 2  # once a member holds its seed, that member hands it on
    assert set(seeds.values()) == {seed(leader)}
    assert not exchange.network.faults


@pytest.mark.parametrize(("silent", "opens"), [(2, True), (3, False)])
def test_so_many_leaders_may_fall_silent_and_no_more(silent, opens):
    of = session(range(8))

    def tap(frame):
        return [] if frame.sender in range(silent) and frame.kind != "Advertise" else [frame]

    exchange = Exchange(tap, of)
    assert len(exchange.frames("Roster", down=True)) <= 2 * terms.ATTEMPTS
    if opens:
        assert exchange.seeds() == dict.fromkeys(range(8), seed(silent, of))
        return
    assert exchange.relay.state == SeedUnshared("seal", 0, 5)
    assert not exchange.seeds()
    why = r"0 of 8 clients hold the group seed, 5 must: clients \[0, 1, 2\] were asked for it in vain"
    with pytest.raises(ProtocolError, match=why):
        agree(of, ENTROPY, tap)


def test_clients_that_signed_different_tags_are_named_where_none_can_have_most_any_more():
    """As tags of the first two are late, the third is asked to lead; a second attempt would end likewise."""
    late = []

    def tap(frame):
        if frame.kind == "SealedSeed" and frame.sender == SERVER and frame.receiver in (2, 3):
            return [] if decode(frame.data, SERVER, LIMIT).message.sealer in (0, 1) else [frame]
        if frame.kind == "SeedTag" and frame.sender in (0, 1):
            late.append(frame)
            return []
        return [frame, *late] if frame.kind == "SeedTag" and frame.sender == 3 else [frame]

    why = r"0 of 4 clients hold the group seed, 3 must: .*clients \[0, 1\] and \[2, 3\] are bound to different ones"
    with pytest.raises(ProtocolError, match=why):
        agree(session(range(4)), ENTROPY, tap)


@given(st.sets(st.integers(0, 6)))
@settings(max_examples=30, deadline=None)
def test_it_opens_when_more_than_half_are_there(absent):
    of = session(range(7))

    def tap(frame):
        return [] if absent & {frame.sender, frame.receiver} else [frame]

    if len(absent) > 3:
        with pytest.raises(ProtocolError, match=f"0 of 7 clients hold the group seed, {of.threshold} must"):
            agree(of, ENTROPY, tap)
        return
    agreed = agree(of, ENTROPY, tap)
    assert agreed.holders == tuple(i for i in range(7) if i not in absent)
    assert [(f.blame, f.reason) for f in agreed.network.faults] == [
        (i, f"client {i} lacks the group seed") for i in sorted(absent)
    ]


@pytest.mark.long
@given(st.integers(0, 2**32), st.floats(0, 0.6))
@settings(max_examples=100, deadline=None)
def test_whatever_is_lost_no_two_clients_have_two_seeds(number, share):
    rng = random.Random(number)
    fates = ([], "pass", "twice", "late")
    weights = (share / 2, 1 - share, share / 4, share / 4)

    def tap(frame):
        fate = rng.choices(fates, weights)[0]
        return {"pass": [frame], "twice": [frame, frame], "late": [replace(frame, late=True)]}.get(fate or "", [])

    exchange = Exchange(tap, session(range(6)))
    seeds = exchange.seeds()
    assert len(set(seeds.values())) <= 1
    assert isinstance(exchange.relay.state, Open) or not seeds
    assert not exchange.left_out()


@pytest.mark.long
def test_duplicates_are_nothing_and_altered_bytes_stop_one_client_at_most():
    of = session(range(3))
    sizes = []
    right = agree(of, ENTROPY, lambda f: sizes.append(len(f.data)) or [f]).seed
    assert agree(of, ENTROPY, lambda f: [f, f]).seed == right
    for number, size in enumerate(sizes):
        for at in range(0, size, 7):

            def tap(frame, number=number, at=at):
                if frame.number != number:
                    return [frame]
                return [replace(frame, data=frame.data[:at] + bytes([frame.data[at] ^ 1]) + frame.data[at + 1 :])]

            agreed = agree(of, ENTROPY, tap)
            assert len(agreed.holders) >= 2
            assert agreed.network.faults or agreed.holders == of.roster  # a leader does not look at its own key in a roster
            assert all(agreed.seed == agreed.parties[i].state.seed for i in agreed.holders)


# --- clients that cheat ---------------------------------------------------------------------------------------------------

SPY = SealingKey(bytes([200] * 32))
SPY_IDENTITY = SigningKey.from_secret(bytes([201] * 32))


def spys(of=None):
    return terms.advertise(SPY_IDENTITY, (of or session()).digest, SPY.public)


@pytest.mark.parametrize("cheat", IDS)
@pytest.mark.parametrize("how", ["signature", "key", "another's"])
def test_a_client_with_a_bad_signature_is_left_out_and_blamed(cheat, how):
    def change(said):
        if how == "another's":
            return terms.advertise(IDENTITIES[7], session().digest, said.public)
        return replace(said, signature=bytes(64)) if how == "signature" else replace(said, public=SPY.public)

    exchange = Exchange(alter("Advertise", change, sender=cheat))
    others = [i for i in IDS if i != cheat]
    assert exchange.seeds() == dict.fromkeys(others, seed(others[0]))
    assert exchange.faults() == [(cheat, "a key that is not signed by an enrolled client")]


def test_a_client_that_signs_an_unusable_key_is_left_out_and_blamed():
    low = terms.advertise(IDENTITIES[6], session().digest, bytes(32))
    exchange = Exchange(alter("Advertise", lambda _: low, sender=6))
    assert exchange.seeds() == dict.fromkeys((2, 5, 9), seed(2))
    assert set(exchange.left_out()) == {(6, "a key that nothing can be sealed to")}
    assert not exchange.network.faults

    of = session(range(5))

    def tap(frame):
        if frame.kind == "Advertise" and frame.sender == 3:
            state = agree(of, ENTROPY).parties[3].state
            low = terms.advertise(state.member.identity, of.digest, bytes(32))
            return [replace(frame, data=encode(Envelope(of.digest, 3, SERVER, low)))]
        return [frame]

    agreed = agree(of, ENTROPY, tap)
    assert agreed.holders == (0, 1, 2, 4)
    found = [(f.blame, f.reason) for f in agreed.network.faults]
    assert found == [(3, "a key that nothing can be sealed to"), (3, "client 3 lacks the group seed")]


def test_a_client_with_an_unusable_key_that_leads_is_followed_by_another():
    low = terms.advertise(IDENTITIES[2], session().digest, bytes(32))
    exchange = Exchange(alter("Advertise", lambda _: low, sender=2))
    seeds = exchange.seeds()
    assert seeds.keys() >= {5, 6, 9}
    assert len(set(seeds.values())) == 1


def test_a_leader_that_gives_everybody_another_secret_is_found_out_and_the_first_that_was_given_is_handed_on():
    of = session()
    keys = {i: SealingKey(bytes([50 + i] * 32)) for i in IDS}

    def own(sealed):
        other = bytes([sealed.member] * 32)
        tag = terms.tag_of(other, of.digest)
        content = keys[2].seal(keys[sealed.member].public, other, terms.context(of.digest, 2, sealed.member, tag))
        return replace(sealed, tag=tag, sealed=content)

    exchange = Exchange(alter("SealedSeed", own, sender=2))
    first = terms.seed_of(bytes([5] * 32), of.digest)
    assert exchange.seeds() == dict.fromkeys(IDS, first)
    assert set(exchange.faults()) == {
        (2, "seals of two secrets, of which it can have one"),
        (2, "a tag of another secret than that of its seals"),
    }

    def misnamed(sealed):
        content = keys[2].seal(keys[5].public, bytes(32), terms.context(of.digest, 2, 5, sealed.tag))
        return replace(sealed, sealed=content)

    state, _ = join(member(of, 5), secret(5))
    (sealed,) = [decode(f.data, 2, LIMIT).message for f in Exchange().frames("SealedSeed") if f.data.find(b"\x05") >= 0][:1]
    with pytest.raises(ProtocolError, match="not the one that it is named") as failure:
        client_step(state, event(misnamed(sealed)))
    assert failure.value.blame == 2


# --- a server that cheats -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("victim", range(4))
@pytest.mark.parametrize("signed", ["by itself", "by the client for its old key"])
def test_a_server_that_swaps_a_clients_key_is_found_out(victim, signed):
    def swap(roster):
        if IDS[victim] not in roster.members:
            return roster
        at = roster.members.index(IDS[victim])
        signature = spys().signature if signed == "by itself" else roster.keys[at][32:]
        return replace(roster, keys=(*roster.keys[:at], SPY.public + signature, *roster.keys[at + 1 :]))

    exchange = Exchange(alter("Roster", swap))
    assert set(exchange.left_out()) == ({(SERVER, LEFT.format(IDS[victim]))} if victim else set())
    assert exchange.seeds() == {i: seed(2) for i in IDS if i != IDS[victim] or not victim}
    sealed = [decode(f.data, f.sender, LIMIT).message for f in exchange.frames("SealedSeed")]
    assert all(message.member != IDS[victim] for message in sealed)


def test_a_server_that_advertises_a_key_of_its_own_for_a_client_gets_nothing():
    of = session()
    leader = Party(2, join(member(of, 2), secret(2))[0], client_step)
    said = spys()
    effects = leader.handle(event(Roster((5, 15), (said.public + said.signature,) * 2)))
    assert [type(e.envelope.message) for e in effects if isinstance(e, Send)] == [SeedTag]
    assert leader.state.left_out == ((SERVER, LEFT.format(5)), (SERVER, LEFT.format(15)))


def test_a_server_cannot_give_a_member_a_seed_of_its_own():
    tag = terms.tag_of(bytes(32), session().digest)
    context = terms.context(session().digest, 2, 5, tag)

    def own_key(_):
        sealed = SPY.seal(SealingKey(bytes([55] * 32)).public, bytes(32), context)
        return SealedSeed(5, 2, SPY.public, spys().signature, tag, sealed)

    def own_key_leaders_signature(sealed):
        return replace(own_key(sealed), signature=sealed.signature)

    def leaders_key(sealed):
        return replace(sealed, sealed=own_key(sealed).sealed)

    def not_enrolled(sealed):
        return replace(own_key(sealed), sealer=99)

    for change in (own_key, own_key_leaders_signature, leaders_key, not_enrolled):
        exchange = Exchange(alter("SealedSeed", change, receiver=5))
        assert set(exchange.seeds()) == {2, 6, 9}
        assert {blame for blame, _ in exchange.faults()} == {SERVER}


def test_a_seal_for_one_member_is_dead_at_another():
    seals = {m.member: m for m in (decode(f.data, 2, LIMIT).message for f in Exchange().frames("SealedSeed"))}
    for i in (6, 9):
        state, _ = join(member(session(), i), secret(i))
        for wrong in (seals[5], replace(seals[5], member=i), replace(seals[i], sealer=5), replace(seals[i], tag=bytes(32))):
            with pytest.raises(ProtocolError) as failure:
                client_step(state, event(wrong))
            assert failure.value.blame == SERVER
        assert isinstance(client_step(state, event(seals[i]))[0], HoldingSecret)


@pytest.mark.parametrize(
    "other", [session(run=b"\x01" * 16), session((2, 5, 6)), session(use="pairs")], ids=["run", "roster", "use"]
)
def test_replay_in_another_session_fails(other):
    """All that was said in one session, replayed in another under that session's name, with the same keys."""
    recorded = {}

    def record(frame):
        recorded[frame.kind, frame.sender, frame.receiver] = decode(frame.data, frame.sender, LIMIT)
        return [frame]

    Exchange(record)

    def replay(frame):
        old = recorded.get((frame.kind, frame.sender, frame.receiver))
        return [] if old is None else [replace(frame, data=encode(replace(old, session=other.digest)))]

    for kind in KINDS:
        exchange = Exchange(lambda f, kind=kind: replay(f) if f.kind == kind else [f], of=other)
        assert exchange.network.faults or exchange.left_out()
        stopped = {"Roster": set(other.roster[1:]), "SealedSeed": set(other.roster[1:])}.get(kind, set(other.roster))
        assert not set(exchange.seeds()) & stopped
    exchange = Exchange(
        lambda f: [replace(f, data=encode(old))] if (old := recorded.get((f.kind, f.sender, f.receiver))) else [], of=other
    )
    assert not exchange.seeds()


def test_replay_of_an_earlier_exchange_of_the_same_session_fails():
    """After a restart keys are fresh, so seals of the first attempt do not open."""
    old = {f.receiver: f.data for f in Exchange().frames("SealedSeed", down=True)}
    exchange = Exchange(
        lambda f: [replace(f, data=old[f.receiver])] if f.kind == "SealedSeed" and f.receiver in old else [f], keys=60
    )
    assert not exchange.seeds().keys() & {5, 6, 9}
    assert set(exchange.faults()) == {(SERVER, "the sealed seed does not open")}


def quorum(i, signers, of=None):
    of = of or session()
    tag = terms.tag_of(secret(i), of.digest)
    return SeedQuorum(tag, signers, tuple(terms.signed_tag(IDENTITIES[k], of.digest, tag).signature for k in signers))


@pytest.mark.parametrize(
    "wrong",
    [
        quorum(2, (2, 5)),
        quorum(2, (2, 5, 7)),  # enrolled, but not of the roster
        replace(quorum(2, (2, 5, 6)), members=(2, 5, 9)),
        replace(quorum(2, (2, 5, 6)), tag=terms.tag_of(secret(5), session().digest)),
        quorum(2, (2, 5, 6), session(run=b"\x01" * 16)),
    ],
    ids=["too few", "a stranger", "another's name", "another tag", "another session"],
)
def test_a_member_believes_no_one_but_most_of_the_roster(wrong):
    party = Party(5, HoldingSecret(member(session(), 5), secret(2)), client_step)
    with pytest.raises(ProtocolError) as failure:
        party.handle(event(wrong))
    assert failure.value.blame == SERVER
    assert isinstance(party.state, HoldingSecret)
    assert party.handle(event(quorum(5, (2, 5, 6)))) == ()  # of a secret that it lacks
    assert isinstance(party.state, HoldingSecret)
    party.handle(event(quorum(2, (2, 5, 6))))
    assert party.state.seed == seed(2)


def test_a_server_that_names_two_leaders_gives_nobody_a_seed():
    """Half of the clients hold one secret and half another: neither half is a quorum, with whatever signatures there are."""
    parties = {i: Party(i, join(member(session(), i), secret(i))[0], client_step) for i in IDS}
    said = {i: terms.advertise(IDENTITIES[i], session().digest, p.state.member.key.public) for i, p in parties.items()}
    tags = {}
    for leader, follower in ((2, 6), (5, 9)):
        request = Roster((follower,), (said[follower].public + said[follower].signature,))
        for effect in parties[leader].handle(event(request)):
            match effect:
                case Send(Envelope(message=SealedSeed() as sealed)):
                    (tags[follower],) = [
                        e.envelope.message for e in parties[follower].handle(event(sealed)) if isinstance(e, Send)
                    ]
                case Send(Envelope(message=SeedTag() as tag)):
                    tags[leader] = tag
    assert {i: t.tag for i, t in tags.items()} == {i: quorum(2 if i in (2, 6) else 5, (2,)).tag for i in IDS}
    for i in IDS:
        for signers in ((2, 6), (5, 9), (2, 5, 6), (2, 5, 6, 9)):
            with pytest.raises(ProtocolError, match="did not sign"):
                parties[i].handle(event(SeedQuorum(tags[i].tag, signers, tuple(tags[k].signature for k in signers))))
        assert isinstance(parties[i].state, HoldingSecret)


@given(st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
@pytest.mark.long
def test_a_server_that_says_anything_to_anybody_never_splits_the_clients(number):
    """It names any client the leader at any time, brings any seal, and shows any tag as signed; clients restart."""
    rng = random.Random(number)
    of = session(range(5))
    parties = {i: Party(i, join(member(of, i), secret(i))[0], client_step) for i in of.roster}
    said = {i: terms.advertise(IDENTITIES[i], of.digest, p.state.member.key.public) for i, p in parties.items()}
    seals, tags, stored, seen = [], {}, {}, set()
    for _ in range(60):
        i = rng.choice(of.roster)
        match rng.randrange(4):
            case 0 if rng.random() < 0.4:
                members = tuple(sorted(rng.sample(of.roster, rng.randint(1, 5))))
                message = Roster(members, tuple(said[k].public + said[k].signature for k in members))
            case 1 if seals:
                message = rng.choice(seals)
                i = message.member
            case 2 if tags:
                tag, signed = rng.choice(list(tags.items()))
                signers = tuple(sorted(signed))[: rng.randint(1, 5)]
                message = SeedQuorum(tag, signers, tuple(signed[k] for k in signers))
            case 3 if rng.random() < 0.1:
                tag, held = stored.get(i, b"")[:32], stored.get(i, b"")[32:]
                state, hello = join(member(of, i, rng.choice((50, 60))), held or secret(5 + i), tag)
                parties[i] = Party(i, state, client_step)
                said[i] = hello.envelope.message
                continue
            case _:
                continue
        try:
            effects = parties[i].handle(event(message, of=of))
        except ProtocolError:
            continue
        for effect in effects:
            match effect:
                case Persist(_, value):
                    stored[i] = value
                case Send(Envelope(message=SealedSeed() as sealed)):
                    seals.append(sealed)
                case Send(Envelope(message=SeedTag() as tag)):
                    tags.setdefault(tag.tag, {})[i] = tag.signature
        if isinstance(parties[i].state, Seeded):
            seen.add(parties[i].state.seed)
    assert len(seen) <= 1
    assert {type(p.state) for p in parties.values()} <= {Waiting, HoldingSecret, Seeded}


# --- newcomers ------------------------------------------------------------------------------------------------------------


def test_clients_that_were_absent_or_are_new_are_welcomed_and_who_was_is_told():
    of = session(range(8))
    gone = {3}
    agreed = agree(of, ENTROPY, lambda f: [] if gone & {f.sender, f.receiver} else [f])
    assert agreed.holders == (0, 1, 2, 4, 5, 6, 7)
    first = welcome(agreed, [3], ENTROPY)
    assert not first.disclosures  # gone still
    gone.clear()
    faults = len(agreed.network.faults)
    found = welcome(first.agreed, [3, 20, 30, 5], ENTROPY)
    assert found.agreed.holders == (0, 1, 2, 3, 4, 5, 6, 7, 20, 30)
    assert {party.state.seed for party in found.agreed.parties.values()} == {agreed.seed}
    assert [(d.recipient, d.client, d.about) for d in found.disclosures] == [
        *(("clients", i, found.agreed.holders) for i in (3, 20, 30)),
        ("server", None, (3, 20, 30)),
    ]
    assert len(agreed.network.faults) == faults
    again = welcome(found.agreed, [40], OsEntropy())
    assert again.agreed.holders == (*found.agreed.holders, 40)
    assert again.agreed.seed == agreed.seed


def test_the_next_holder_is_asked_when_one_is_silent_and_no_more_than_three():
    exchange = Exchange()
    for silent, newcomer in ((1, 10), (2, 11), (3, 12)):
        dumb = IDS[:silent]
        exchange.network._tap = lambda f, dumb=dumb: [] if f.sender in dumb else [f]
        exchange.join([newcomer])
        assert (newcomer in exchange.seeds()) == (silent < terms.ATTEMPTS)
    requests = [f.receiver for f in exchange.frames("Roster", down=True)][1:]
    assert requests == [2, 5, 2, 5, 6, 2, 5, 6]
    assert not exchange.network.faults
    assert not exchange.relay.state.waiting


def test_each_holder_answers_a_key_of_a_newcomer_once_and_the_server_asks_three():
    exchange = Exchange()
    lost = []

    def tap(frame):
        if frame.kind == "SealedSeed" and frame.sender == SERVER and len(lost) < 2:
            lost.append(frame)
            return []
        return [frame]

    exchange.network._tap = tap
    exchange.join([10])
    assert exchange.seeds()[10] == seed(2)
    seals = [decode(f.data, f.sender, LIMIT).message for f in exchange.frames("SealedSeed")]
    assert [m.sealer for m in seals if m.member == 10] == [2, 5, 6]
    key = terms.advertise(IDENTITIES[10], session().digest, exchange.parties[10].state.member.key.public)
    assert exchange.parties[2].handle(event(Roster((10,), (key.public + key.signature,)))) == ()


@pytest.mark.parametrize("gone", [6, 10], ids=["left out", "a newcomer"])
def test_a_client_that_was_killed_while_holders_sealed_to_it_is_welcomed_with_its_next_key(gone):
    """Three were asked in vain, and of four clients there are no others."""
    exchange = Exchange(lambda f: [] if f.receiver == gone else [f])
    exchange.join([gone])
    assert gone not in exchange.seeds()
    asked = [f.receiver for f in exchange.frames("Roster", down=True)]
    exchange.network._tap = None
    exchange.join([gone], keys=70)
    assert exchange.seeds()[gone] == seed(2)
    assert [f.receiver for f in exchange.frames("Roster", down=True)] == [*asked, 2]
    assert not exchange.network.faults


def test_who_seals_late_to_a_key_of_before_is_not_blamed_and_not_heard():
    """When the newest key has its seal on the way."""
    exchange, late = Exchange(), []

    def tap(frame):
        if frame.kind == "SealedSeed" and frame.sender != SERVER:
            late.append(frame)
            return []
        return [frame]

    exchange.network._tap = tap
    exchange.join([10])
    assert [frame.sender for frame in late] == [2, 5, 6]
    exchange.network._tap = lambda f: [*late, f] if f.kind == "SealedSeed" and f.sender == 9 else [f]
    exchange.join([10], keys=70)
    assert exchange.seeds()[10] == seed(2)
    assert [blame for blame, _ in exchange.faults()] == []


@pytest.mark.parametrize("tries", [1, 2, 20])
def test_who_came_while_no_holder_was_there_has_the_seed_soon_after_they_are_back(tries):
    """What they were asked for meanwhile was lost: their seals counted as such for that in each round, and none was passed on."""
    exchange = Exchange()
    exchange.network._tap = lambda f: [] if f.kind == "Roster" and f.sender == SERVER else [f]
    for life in range(tries):
        exchange.join([10], keys=70 + life)
    assert 10 not in exchange.seeds()
    exchange.network._tap = None
    for life in range(2):
        exchange.join([10], keys=200 + life)
    assert exchange.seeds()[10] == seed(2)
    assert [blame for blame, _ in exchange.faults()] == []


def test_a_client_that_comes_again_and_again_is_welcomed_so_often():
    exchange = Exchange()
    for life in range(terms.LIVES):
        exchange.join([10], keys=70 + life)
        assert exchange.seeds()[10] == seed(2)
    exchange.join([10], keys=200)
    assert exchange.faults() == [(10, "a client that was answered often enough")]
    assert 10 not in exchange.seeds()
    key = terms.advertise(IDENTITIES[10], session().digest, SPY.public)
    assert exchange.parties[2].handle(event(Roster((10,), (key.public + key.signature,)))) == ()
    assert len(exchange.relay.state.lives) == 1


def test_a_newcomer_may_be_shown_the_quorum_before_the_seal():
    exchange = Exchange()
    held = []

    def tap(frame):
        if frame.kind == "SealedSeed" and frame.receiver == 10:
            held.append(frame)
            return []
        if frame.kind == "SeedQuorum" and frame.receiver == 10 and held:
            return [frame, held.pop()]
        return [frame]

    exchange.network._tap = tap
    exchange.join([10])
    assert exchange.seeds()[10] == seed(2)
    assert exchange.relay.state.holders == {*IDS, 10}
    assert not exchange.network.faults


def test_a_newcomer_that_is_not_enrolled_gets_nothing_from_server_or_holder():
    exchange = Exchange()
    said = spys()
    with pytest.raises(ProtocolError, match="not signed by an enrolled client") as failure:
        exchange.relay.handle(event(said, 77))
    assert failure.value.blame == 77
    with pytest.raises(ProtocolError, match="not signed by an enrolled client"):
        exchange.relay.handle(event(said, 10))
    for name in (77, 10):
        assert exchange.parties[5].handle(event(Roster((name,), (said.public + said.signature,)))) == ()
        assert exchange.parties[5].state.left_out[-1] == (SERVER, LEFT.format(name))
    assert not exchange.relay.state.waiting


def test_a_newcomer_believes_the_quorum_and_not_the_holder_that_seals():
    of = session()
    state, _ = join(member(of, 10), secret(10))
    newcomer = Party(10, state, client_step)
    holder = Party(7, HoldingSecret(member(of, 7), secret(7)), client_step)
    said = terms.advertise(IDENTITIES[10], of.digest, state.member.key.public)
    (sent,) = holder.handle(event(Roster((10,), (said.public + said.signature,))))
    newcomer.handle(event(sent.envelope.message))
    newcomer.handle(event(quorum(2, (2, 5, 6))))
    assert isinstance(newcomer.state, HoldingSecret)
    sealer = SealingKey(bytes([55] * 32))
    tag = terms.tag_of(secret(2), of.digest)
    sealed = sealer.seal(state.member.key.public, secret(2), terms.context(of.digest, 5, 10, tag))
    signature = terms.advertise(IDENTITIES[5], of.digest, sealer.public).signature
    newcomer.handle(event(SealedSeed(10, 5, sealer.public, signature, tag, sealed)))
    assert newcomer.state.seed == seed(2)


def test_a_client_that_lost_its_state_signs_no_second_secret_before_most_have():
    of = session()
    signed = terms.tag_of(secret(2), of.digest)
    keys = {i: SealingKey(bytes([50 + i] * 32)) for i in IDS}
    tag = terms.tag_of(secret(5), of.digest)
    said = terms.advertise(IDENTITIES[5], of.digest, keys[5].public)
    sealed = keys[5].seal(keys[6].public, secret(5), terms.context(of.digest, 5, 6, tag))
    party = Party(6, join(member(of, 6), secret(6), signed)[0], client_step)
    assert party.handle(event(SealedSeed(6, 5, said.public, said.signature, tag, sealed))) == ()
    stored, sent = party.handle(event(quorum(5, (2, 5, 9))))
    assert (stored.value, sent.envelope.message.tag) == (tag + secret(5), tag)
    assert party.state.seed == seed(5)


# --- the phases -----------------------------------------------------------------------------------------------------------


def test_illegal_messages_raise_and_change_nothing():
    of = session()
    waiting, hello = join(member(of, 2), secret(2))
    said = hello.envelope.message
    holding, seeded = HoldingSecret(member(of, 5), secret(2)), Seeded(member(of, 5), secret(2))
    seal = SealedSeed(5, 2, bytes(32), bytes(64), bytes(32), bytes(48))
    roster = Roster((2,), (bytes(96),))
    task = Task("group seed", bytes(16), 0, "all", IDS, 1, "update", ("init",), b"")
    room = Room(of, ENROLLED)
    gathering, sealing = CollectingSeedKeys(room, {2: said}), Sealing(room, {2: said}, (2,))
    opened = Open(room, quorum(2, (2, 5, 6)), frozenset({2, 5, 6}))
    tag = SeedTag(bytes(32), bytes(64))
    illegal = [
        (client_step, waiting, event(seal), SERVER),
        (client_step, waiting, event(quorum(2, (2, 5))), SERVER),
        (client_step, replace(waiting, shown=quorum(5, (2, 5, 6))), event(roster), SERVER),
        (client_step, waiting, event(task), SERVER),
        (client_step, waiting, event(roster, 6), 6),
        (client_step, waiting, event(roster, of=session(run=b"\x01" * 16)), SERVER),
        (client_step, holding, event(seal), SERVER),
        (client_step, holding, event(seal, 2), 2),
        (client_step, holding, event(seal, of=session((2, 5))), SERVER),
        (client_step, seeded, event(quorum(5, (2, 5, 6))), SERVER),
        (client_step, seeded, event(roster, 6), 6),
        (client_step, seeded, event(task), SERVER),
        (server_step, gathering, event(said, 2), 2),
        (server_step, gathering, event(said, 3), 3),
        (server_step, gathering, event(seal, 2), 2),
        (server_step, gathering, event(tag, 2), 2),
        (server_step, sealing, event(said, 2), 2),
        (server_step, sealing, event(seal, 5), 5),
        (server_step, sealing, event(seal, 2), 2),
        (server_step, sealing, event(replace(seal, member=2, sealer=5), 2), 2),
        (server_step, sealing, event(tag, 2), 2),
        (server_step, sealing, event(tag, 5), 5),
        (server_step, sealing, event(roster, 2), 2),
        (server_step, opened, event(seal, 2), 2),
        (server_step, opened, event(tag, 2), 2),
        (server_step, opened, event(task, 2), 2),
    ]
    for step, state, happened, blame in illegal:
        party = Party(0, state, step)
        with pytest.raises(ProtocolError) as failure:
            party.handle(happened)
        assert failure.value.blame == blame
        assert party.state is state
    for state in (waiting, holding, seeded):
        with pytest.raises(ValueError, match="out of place"):
            client_step(state, Deadline())
    assert client_step(seeded, event(seal)) == client_step(seeded, event(quorum(2, (2, 5, 6)))) == (seeded, ())
    assert server_step(opened, Deadline()) == (opened, ())
    failed = SeedUnshared("seal", 1, 3)
    assert server_step(failed, event(said, 2)) == server_step(failed, Deadline()) == (failed, ())
    assert Awaiting("seal", IDS) in server_step(replace(gathering, heard=dict.fromkeys(IDS, said)), Deadline())[1]


# --- labels ---------------------------------------------------------------------------------------------------------------


class Labels:
    """Entropy of the operating system that gives no label twice."""

    def __init__(self):
        self.drawn = set()

    def secret(self, label, size):
        assert label not in self.drawn
        self.drawn.add(label)
        return OsEntropy().secret(label, size)

    lasting = secret


def test_every_draw_says_for_whom_and_what_it_is_and_no_label_is_drawn_twice():
    entropy = Labels()
    agreed = agree(session(range(4)), entropy, lambda f: [] if 3 in (f.sender, f.receiver) else [f])
    welcome(welcome(agreed, [3, 9], entropy).agreed, [3, 10], entropy)
    assert all(session(range(4)).digest.hex() in label and " of client " in label for label in entropy.drawn)
    agree(session(range(4), use="pairs"), entropy)


def test_seeds_of_two_sessions_differ_in_a_simulation_too():
    run, clients = bytes(16), range(4)
    uses = ("permuted", "masked", "encrypted", "pairs")
    seeds = {agree(session_of(use, run, clients), ENTROPY).seed for use in uses}
    seeds |= {agree(session_of("pairs", bytes([1] * 16), clients), ENTROPY).seed, agree(session(range(5)), ENTROPY).seed}
    assert len(seeds) == 6
    digests = [session_of(use, run, clients).digest for use in uses]
    assert len({f(secret(0), d) for d in digests for f in (terms.seed_of, terms.tag_of)}) == 8  # of one secret, too
    assert {session_of(use, run, clients).protocol for use in uses} == {PROTOCOL}
    assert isinstance(session_of("masked", run, clients), Session)
    assert Advertise.kind == 4
