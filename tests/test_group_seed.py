"""The seed exchange: all clients get one seed, the server gets nothing, and whoever tampers is found out."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.crypto.entropy import OsEntropy, SimulatedEntropy
from cloister.crypto.identity import Identity
from cloister.crypto.sealing import InvalidSeal, SealingKey
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.drivers.in_process import InProcess
from cloister.protocol.drivers.roles import Deadline, Party, Received
from cloister.protocol.parts.group_seed import PROTOCOL, Leading, Relaying, Seeded, Waiting, agree, client_step, join, server_step
from cloister.protocol.wire.messages import Advertise, Envelope, Roster, SealedSeed, Task, decode, encode

LIMIT = 1 << 20
ENTROPY = SimulatedEntropy(11)
IDS = (2, 5, 6, 9)
IDENTITIES = {i: Identity.from_secret(bytes([i] * 32)) for i in IDS}
ENROLLED = {i: identity.public for i, identity in IDENTITIES.items()}


def session(roster=IDS, run=bytes(16)):
    return Session(PROTOCOL, run, 0, "all", tuple(roster), len(roster))


class Exchange:
    """The exchange over the driver with the parties in reach, as `agree` plays it."""

    def __init__(self, tap=None, of=None, seed=b"\x07" * 32, keys=1):
        of = session() if of is None else of
        self.network = InProcess(tap, max_bytes=LIMIT, record=True)
        self.parties, hellos = {}, []
        for i in of.roster:
            state, hello = join(of, i, bytes([50 * keys + i] * 32), seed, IDENTITIES[i], ENROLLED)
            self.parties[i] = Party(i, state, client_step)
            hellos.append((i, hello))
        self.relay = Party(SERVER, Relaying(of), server_step)
        self.network.run(self.parties, {of.digest: self.relay}, hellos, lambda _: iter(()), lambda *_: None)

    def seeds(self):
        return {i: p.state.seed for i, p in self.parties.items() if isinstance(p.state, Seeded)}


def alter(kind, change, receiver=None):
    """A tap that changes the messages of one kind (on their way to one receiver)."""

    def tap(frame):
        if frame.kind != kind or receiver not in (None, frame.receiver):
            return [frame]
        envelope = decode(frame.data, frame.sender, LIMIT)
        return [replace(frame, data=encode(replace(envelope, message=change(envelope.message))))]

    return tap


# --- what holds -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(IDS), min_size=1, max_size=4, unique=True))
@settings(max_examples=20)
def test_all_clients_get_the_leaders_seed(roster):
    exchange = Exchange(of=session(sorted(roster)))
    assert exchange.seeds() == dict.fromkeys(sorted(roster), b"\x07" * 32)
    assert not exchange.network.faults
    assert exchange.network.messages == 3 * len(roster) - 1


def test_agree_is_a_function_of_session_and_entropy():
    seed, network = agree(session(range(20)), ENTROPY)
    assert len(seed) == 32
    assert agree(session(range(20)), ENTROPY)[0] == seed
    assert agree(session(range(20)), SimulatedEntropy(12))[0] != seed
    assert agree(session(range(3)), OsEntropy())[0] != agree(session(range(3)), OsEntropy())[0]
    assert not network.faults
    assert network.messages == 20 + 1 + 2 * 19


def test_the_server_never_holds_the_seed_or_a_key():
    frames = []
    seed, _ = agree(session(range(12)), ENTROPY, lambda f: frames.append(f) or [f])
    seen = b"".join(frame.data for frame in frames)
    secrets = [seed, *(ENTROPY.secret(f"{what} {i}", 32) for what in ("identity", "sealing key") for i in range(12))]
    for secret in secrets:
        for n in range(len(secret) - 7):  # not even eight bytes of one, forwards or backwards
            assert secret[n : n + 8] not in seen
            assert secret[n : n + 8][::-1] not in seen
    assert any(ENTROPY.secret("group seed", 32) == s for s in secrets)


def test_what_the_server_sees_opens_with_no_key_but_the_members():
    exchange = Exchange()
    sent = [f for f in exchange.network.frames if f.kind == "SealedSeed" and f.sender != SERVER]
    frames = [decode(f.data, f.sender, LIMIT).message for f in sent]
    contexts = {i: session().digest + (2).to_bytes(4, "big") + i.to_bytes(4, "big") for i in IDS[1:]}
    for message in frames:
        for i in IDS[1:]:
            key = SealingKey(bytes([50 + i] * 32))
            for context in contexts.values():
                if i == message.member and context == contexts[i]:
                    assert key.open(message.public, message.sealed, context) == b"\x07" * 32
                    continue
                with pytest.raises(InvalidSeal):
                    key.open(message.public, message.sealed, context)


def test_no_state_prints_a_secret():
    exchange = Exchange()
    states = [join(session(), i, bytes([i] * 32), bytes([77] * 32), IDENTITIES[i], ENROLLED)[0] for i in IDS]
    states += [party.state for party in exchange.parties.values()]
    assert {type(state) for state in states} == {Leading, Waiting, Seeded}
    for state in states:
        for secret in (bytes([77] * 32), b"\x07" * 32, bytes([2] * 32), bytes([5] * 32)):
            assert repr(secret)[2:-1] not in repr(state)


# --- a server that cheats -------------------------------------------------------------------------------------------------

SPY = SealingKey(bytes([200] * 32))
SPY_IDENTITY = Identity.from_secret(bytes([201] * 32))


def spys(_=None):
    return Advertise(SPY.public, SPY_IDENTITY.sign(PROTOCOL, session().digest, SPY.public))


@pytest.mark.parametrize("victim", range(4))
@pytest.mark.parametrize("signed", ["by itself", "by the client for its old key"])
def test_a_server_that_swaps_a_clients_key_is_found_out(victim, signed):
    def swap(roster):
        signature = spys().signature if signed == "by itself" else roster.signatures[victim]
        publics, signatures = list(roster.publics), list(roster.signatures)
        publics[victim], signatures[victim] = SPY.public, signature
        return Roster(tuple(publics), tuple(signatures))

    exchange = Exchange(alter("Roster", swap))
    assert not exchange.seeds()
    assert [(f.blame, f.reason) for f in exchange.network.faults] == [
        (SERVER, f"the key shown for client {IDS[victim]} is not signed by it")
    ]
    assert not any(f.kind == "SealedSeed" for f in exchange.network.frames)  # the leader sealed nothing to anybody


def test_agree_raises_when_an_advertised_key_is_swapped():
    def tap(frame):
        if frame.kind == "Advertise" and frame.sender == 3:
            return [replace(frame, data=encode(Envelope(session(range(5)).digest, 3, SERVER, spys())))]
        return [frame]

    with pytest.raises(ProtocolError, match="client 3 is not signed by it") as failure:
        agree(session(range(5)), ENTROPY, tap)
    assert failure.value.blame == SERVER


def test_a_server_cannot_give_a_member_a_seed_of_its_own():
    context = session().digest + (2).to_bytes(4, "big") + (5).to_bytes(4, "big")

    def own_key(sealed):
        return SealedSeed(5, SPY.public, spys().signature, SPY.seal(SealingKey(bytes([55] * 32)).public, bytes(32), context))

    def own_key_leaders_signature(sealed):
        return replace(own_key(sealed), signature=sealed.signature)

    def leaders_key(sealed):
        return replace(sealed, sealed=own_key(sealed).sealed)

    for change in (own_key, own_key_leaders_signature, leaders_key):
        exchange = Exchange(alter("SealedSeed", change, receiver=5))
        assert set(exchange.seeds()) == {2, 6, 9}
        assert len(exchange.network.faults) == 1
        assert exchange.network.faults[0].blame == SERVER


@pytest.mark.parametrize("member", [6, 9])
def test_a_seal_for_one_member_is_dead_at_another(member):
    kept = {}

    def tap(frame):
        if frame.kind != "SealedSeed" or frame.sender != SERVER:
            return [frame]
        kept[frame.receiver] = decode(frame.data, SERVER, LIMIT)
        if frame.receiver != member:
            return [frame]
        for relabelled in (kept[5].message.member, member):
            message = replace(kept[5].message, member=relabelled)
            return [replace(frame, data=encode(Envelope(session().digest, SERVER, member, message)))]
        return []

    exchange = Exchange(tap)
    assert member not in exchange.seeds()
    assert [f.blame for f in exchange.network.faults] == [SERVER]


@pytest.mark.parametrize("other", [session(run=b"\x01" * 16), session(roster=(2, 5, 6))], ids=["another run", "another roster"])
def test_replay_in_another_session_fails(other):
    """All that was said in one session, replayed in another under that session's name, with the same keys."""
    recorded = {}

    def record(frame):
        recorded[frame.kind, frame.sender, frame.receiver] = decode(frame.data, frame.sender, LIMIT)
        return [frame]

    Exchange(record)

    def replay(frame):
        old = recorded[frame.kind, frame.sender, frame.receiver]
        message = old.message
        if isinstance(message, Roster):
            message = Roster(message.publics[: len(other.roster)], message.signatures[: len(other.roster)])
        return [replace(frame, data=encode(replace(old, session=other.digest, message=message)))]

    for kind, stopped in (("Advertise", other.roster), ("Roster", other.roster), ("SealedSeed", other.roster[1:])):
        exchange = Exchange(lambda f, kind=kind: replay(f) if f.kind == kind else [f], of=other)
        assert not set(exchange.seeds()) & set(stopped)
        assert exchange.network.faults

    exchange = Exchange(lambda f: [replace(f, data=encode(recorded[f.kind, f.sender, f.receiver]))], of=other)
    assert not exchange.seeds()


def test_replay_of_an_earlier_exchange_of_the_same_session_fails():
    """After a restart keys are fresh, so seals of the first attempt do not open."""
    old = [f for f in Exchange().network.frames if f.kind == "SealedSeed"]
    seals = iter(old)
    exchange = Exchange(
        lambda f: [replace(f, data=next(seals).data)] if f.kind == "SealedSeed" else [f],
        seed=bytes(32),
        keys=2,
    )
    assert exchange.seeds() == {2: bytes(32)}
    assert [(f.blame, f.reason) for f in exchange.network.faults] == [(SERVER, "the sealed seed does not open")] * 3


@pytest.mark.parametrize("kind", ["Advertise", "Roster", "SealedSeed"])
def test_lost_messages_raise(kind):
    lost = []

    def tap(frame):
        if frame.kind == kind and not lost:
            lost.append(frame)
            return []
        return [frame]

    with pytest.raises(ProtocolError, match="did not receive the group seed: a message was lost"):
        agree(session(range(5)), ENTROPY, tap)


def test_altered_bytes_raise_or_change_nothing():
    seed, _ = agree(session(range(3)), ENTROPY)
    total = []
    agree(session(range(3)), ENTROPY, lambda f: total.append(len(f.data)) or [f])
    for number, size in enumerate(total):
        for at in range(0, size, 3):

            def tap(frame, number=number, at=at):
                if frame.number != number:
                    return [frame]
                return [replace(frame, data=frame.data[:at] + bytes([frame.data[at] ^ 1]) + frame.data[at + 1 :])]

            with pytest.raises(ProtocolError):
                agree(session(range(3)), ENTROPY, tap)
    assert agree(session(range(3)), ENTROPY, lambda f: [f, f])[0] == seed  # duplicates are nothing


# --- clients that cheat, and the phases -----------------------------------------------------------------------------------


def test_a_client_that_signs_an_unusable_key_is_blamed():
    def low_order(_):
        return Advertise(bytes(32), IDENTITIES[6].sign(PROTOCOL, session().digest, bytes(32)))

    def tap(frame):
        return alter("Advertise", low_order)(frame) if frame.sender == 6 else [frame]

    exchange = Exchange(tap)
    assert not exchange.seeds()
    assert [(f.blame, f.reason) for f in exchange.network.faults] == [(6, "a key that nothing can be sealed to")]


def test_illegal_messages_raise_and_change_nothing():
    of = session()
    leader, hello = join(of, 2, bytes([1] * 32), bytes([3] * 32), IDENTITIES[2], ENROLLED)
    member, _ = join(of, 5, bytes([2] * 32), bytes([3] * 32), IDENTITIES[5], ENROLLED)
    seal = SealedSeed(5, bytes(32), bytes(64), bytes(48))
    roster = Roster((bytes(32),) * 4, (bytes(64),) * 4)
    task = Task("group seed", bytes(16), 0, "all", IDS, 1, "update", ("init",), b"")
    short = Roster((bytes(32),) * 3, (bytes(64),) * 4)
    relaying = Relaying(of, {2: hello.envelope.message})
    seeded = Seeded(bytes(32))

    def event(message, sender=SERVER, of=of):
        return Received(Envelope(of.digest, sender, 5, message))

    illegal = [
        (client_step, leader, event(short), SERVER),
        (client_step, leader, event(roster), SERVER),
        (client_step, leader, event(seal), SERVER),
        (client_step, leader, event(task), SERVER),
        (client_step, leader, event(roster, sender=6), 6),
        (client_step, leader, event(roster, of=session(run=b"\x01" * 16)), SERVER),
        (client_step, member, event(roster), SERVER),
        (client_step, member, event(seal), SERVER),
        (client_step, member, event(seal, sender=2), 2),
        (client_step, member, event(seal, of=session((2, 5))), SERVER),
        (client_step, seeded, event(seal), SERVER),
        (client_step, seeded, event(roster), SERVER),
        (server_step, relaying, event(hello.envelope.message, 2), 2),
        (server_step, relaying, event(hello.envelope.message, 3), 3),
        (server_step, relaying, event(seal, 5), 5),
        (server_step, relaying, event(replace(seal, member=3), 2), 2),
        (server_step, relaying, event(roster, 2), 2),
        (server_step, relaying, event(task, 2), 2),
    ]
    for step, state, said, blame in illegal:
        party = Party(0, state, step)
        with pytest.raises(ProtocolError) as failure:
            party.handle(said)
        assert failure.value.blame == blame
        assert party.state is state
    for state in (leader, member, seeded):
        with pytest.raises(ValueError, match="out of place"):
            client_step(state, Deadline())
    assert server_step(relaying, Deadline()) == (relaying, ())


def test_a_client_that_was_not_enrolled_gets_nothing():
    enrolled = {i: ENROLLED[i] for i in IDS if i != 6}
    hellos = [join(session(), i, bytes([i] * 32), bytes(32), IDENTITIES[i], enrolled) for i in IDS]
    roster = Roster(tuple(h.envelope.message.public for _, h in hellos), tuple(h.envelope.message.signature for _, h in hellos))
    with pytest.raises(ProtocolError, match="client 6 is not signed"):
        client_step(hellos[0][0], Received(Envelope(session().digest, SERVER, 2, roster)))
