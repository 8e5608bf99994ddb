"""Receiver-opened sums: each receiver gets the plain weighted mean of the survivors, and the server's part of it is noise."""

import re
from dataclasses import fields, replace
from itertools import combinations_with_replacement, product
from pathlib import Path

import numpy as np
import pytest

import cloister.protocol
from cloister.crypto.agreement import AgreementKey
from cloister.crypto.entropy import SimulatedEntropy
from cloister.crypto.fixed_point import Nearest
from cloister.crypto.identity import SigningKey
from cloister.protocol.core.errors import ProtocolError, Refused
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.drivers.roles import Deadline, Party, Persist, Received, Send
from cloister.protocol.masked.receiver_opened.client import blinded_input, member_step
from cloister.protocol.masked.receiver_opened.messages import (
    MESSAGES,
    OpenedTotal,
    OpeningOffer,
    ReceiverKey,
    SenderKey,
)
from cloister.protocol.masked.receiver_opened.run import Cast, members_of, receiver_opened
from cloister.protocol.masked.receiver_opened.server import (
    CollectingSenders,
    Inviting,
    NotOpened,
    SendersAgreed,
    forward,
    invite,
    server_step,
)
from cloister.protocol.masked.receiver_opened.terms import PROTOCOL, RECEIVER_KEY, OpeningPolicy, ReceiverSum, most_bits
from cloister.protocol.masked.server import Unmasked
from cloister.protocol.masked.sum import Plan, SumPolicy, parties_of
from cloister.protocol.messages import decode
from cloister.protocol.parts.leverage import largest
from cloister.protocol.parts.members import Members
from cloister.protocol.wire.codec import Envelope, encode

from .masked_sum_session import KINDS, MODEL, RUN, changing, charter_of, flipped

pytestmark = pytest.mark.sweeps

D = 4
STAGES = ("SenderKey", *KINDS)


def update_in(round):
    """The digest of a round's work session."""
    return bytes([round]) * 32


UPDATES = {update_in(round): (round, MODEL) for round in range(10)}


def opening_of(receiver, clients=(1, 2, 3, 4, 5), threshold=3, round=0, weights=None, **changes):
    senders = tuple(i for i in clients if i != receiver)
    session = Session(PROTOCOL, RUN, round, f"for {receiver}", senders, threshold)
    weights = weights or tuple(40 + (3 * i + receiver) % 7 for i in senders)
    size = {"ring_bits": 32, "d": D, "bits": 12, "clip": 1.0, "model": MODEL, "update": update_in(round)} | changes
    return ReceiverSum(session, receiver, weights, **size)


def vector(client):
    return np.random.default_rng(client).uniform(-1, 1, D).astype(np.float32)


class Play:
    """Openings of one round, played. At the end: `played`, and `frames` of all networks."""

    def __init__(self, openings, tap=None, seed=0, policy=None, vectors=vector):
        self.openings = openings
        clients = tuple(sorted({i for o in openings for i in (o.receiver, *o.session.roster)}))
        entropy = SimulatedEntropy(seed)
        self.identities = Members.enrol(clients, entropy)
        self.members = members_of(self.identities, RUN, policy or OpeningPolicy(2), entropy, UPDATES)
        sums = SumPolicy(min_cohort=2, unheld=frozenset({"opened"}))
        self.charter = charter_of(self.identities.enrolled, sums)
        parties = parties_of(self.identities, self.charter, MODEL, sums, entropy)
        self.cast = Cast(self.members, parties, self.identities.enrolled)
        self.ends = {}
        self.played = receiver_opened(openings, self.cast, self.plan, lambda i, _: (vectors(i), Nearest()), tap, record=True)
        self.frames = [frame for network in self.played.networks for frame in network.frames]

    def plan(self, opening, senders):
        k = len(senders) - 1
        return Plan.of(opening.sum_session(senders), opening.sum_terms(k, k // 2 + 1, bytes(32)), self.charter)

    def check(self, vectors=vector):
        """Every sum that a receiver learned is the plain one of its survivors."""
        for opening in self.openings:
            got = self.played.opened.get(opening.receiver)
            if got is not None:
                row = opening.row
                plain = sum(row[i] / opening.largest * vectors(i).astype(float) for i in got.survivors)
                assert np.abs(got.total - plain).max() <= opening.error(len(got.survivors), Nearest())
                assert len(got.survivors) >= opening.session.threshold
        return self.played.opened

    def totals(self):
        """What the server forwards: the masked sums, by receiver."""
        found = {f.receiver: decode(f.data, SERVER, 1 << 30).message for f in self.frames if f.kind == "OpenedTotal"}
        return {i: np.frombuffer(m.total, "<u4") for i, m in found.items()}


def losing(fates):
    """A network on which client i is silent from STAGES[fates[i]] on."""
    return lambda frame: [] if frame.kind in STAGES[fates.get(frame.sender, 9) :] else [frame]


# --- the ideal functionality -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ring_bits", [32, 64])
def test_every_receiver_gets_its_own_weighted_sum(ring_bits):
    play = Play([opening_of(i, ring_bits=ring_bits) for i in range(1, 6)])
    assert set(play.check()) == {1, 2, 3, 4, 5}
    assert not play.played.faults
    totals = [got.total.tobytes() for got in play.played.opened.values()]
    assert len(set(totals)) == 5
    assert all(not party.state.phases for party in play.members.values())  # keys are forgotten


@pytest.mark.parametrize("threshold", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_every_pattern_of_dropouts_gives_the_survivors_mean_or_nothing(threshold):
    """Three senders, each silent from one of six stages on, or never: 7^3 patterns, for threshold 3 up to their order."""
    opening = opening_of(9, (1, 2, 3, 9), threshold, weights=(2.0, -2.0, 2.0))
    outcomes = set()
    for pattern in product(range(7), repeat=3) if threshold == 2 else combinations_with_replacement(range(7), 3):
        fates = {i: stage for i, stage in zip((1, 2, 3), pattern, strict=True) if stage < 6}
        play = Play([opening], losing(fates))
        opened = play.check()
        assert not play.played.faults
        alive = [i for i in (1, 2, 3) if fates.get(i, 9) > STAGES.index("MaskedInput")]
        if opened:
            assert list(opened[9].survivors) == alive
        if len(alive) < threshold:
            assert not opened
        if all(stage in (0, 6) for stage in pattern):  # who never sends a key is not on the roster, and costs nothing
            assert bool(opened) == (len(alive) >= threshold)
        outcomes.add(bool(opened))
    assert outcomes == {True, False}


def test_receivers_that_drop_out_or_whose_frames_are_lost_do_not_stop_the_others():
    openings = [opening_of(i) for i in (1, 2, 3)]
    assert set(Play(openings, changing("ReceiverKey", lambda m, f: None, senders={2})).check()) == {1, 3}
    assert set(Play(openings, changing("OpenedTotal", lambda m, f: None, receivers={3})).check()) == {1, 2}


def test_the_largest_inputs_do_not_wrap():
    for ring_bits, bits in ((32, 28), (64, 30)):
        opening = opening_of(9, (1, 2, 3, 4, 9), bits=bits, ring_bits=ring_bits, weights=(16.0,) * 4)
        for sign in (-1, 1):
            play = Play([opening], vectors=lambda _, sign=sign: np.full(D, sign, np.float32))
            assert play.played.opened[9].total.tolist() == [4 * sign] * D
    with pytest.raises(ValueError, match=r"modulo 2\^30; lower bits to 28, or take ring_bits=64"):
        opening_of(9, (1, 2, 3, 4, 9), bits=29)
    with pytest.raises(ValueError, match="could wrap around modulo"):
        opening_of(9, (1, 2, 3, 4, 9), bits=31, ring_bits=64)


@pytest.mark.parametrize("weights", [(1.75, 2.5, -2.25, 2.0), (-1.0,) * 4, (2.0**199, 1.1 * 2.0**199, -(2.0**199), 2.0**199)])
def test_weights_are_real_numbers_of_either_sign(weights):
    play = Play([opening_of(9, (1, 2, 3, 4, 9), 4, weights=weights, ring_bits=64, bits=30)])
    assert set(play.check()) == {9}


@pytest.mark.parametrize("weights", [(1e-3, 2.5, -7.25, 1e-9), (2.0**199, 1.0, -(2.0**190), 3.0), (1.0, 1e-12, 1e-12, 1e-12)])
def test_a_row_in_which_one_outweighs_the_others_is_refused_by_everybody(weights):
    for me in (1, 9):
        with pytest.raises(ProtocolError, match="could show client 9"):
            offered(member(me), opening_of(9, (1, 2, 3, 4, 9), 4, weights=weights))


def test_rows_that_cannot_be_are_refused():
    for weights in ((1.0, 0.0, 1.0), (1.0, float("nan"), 1.0), (1.0, float("inf"), 1.0), (2.0**201, 1.0, 1.0), (1.0, 1.0)):
        with pytest.raises(ValueError, match="weight"):
            opening_of(9, (1, 2, 3, 9), weights=weights)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 100, 5000])
@pytest.mark.parametrize("ring_bits", [32, 64])
def test_the_finest_grid_is_the_last_that_does_not_wrap(n, ring_bits):
    opening = opening_of(10**6, tuple(range(n)), 1, weights=(1.0,) * n, bits=2, ring_bits=ring_bits)
    bits = most_bits(ring_bits, n)
    assert n * (2**bits - 1) < 2**opening.mask_bits
    assert bits == 31 or n * (2 ** (bits + 1) - 1) >= 2**opening.mask_bits


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 1000, 20000])
@pytest.mark.parametrize("ring_bits", [32, 64])
def test_the_masked_sum_takes_exactly_what_is_masked(n, ring_bits):
    """Elements up to M - 1 are inputs of the masked sum, and n of them do not wrap around in its ring."""
    opening = opening_of(10**6, tuple(range(n)), 1, weights=(1,) * n, bits=2, ring_bits=ring_bits)
    modulus = 2**opening.mask_bits
    sums = opening.sum_terms(1, 1, bytes(32))
    assert sums.largest == modulus - 1
    assert n * sums.largest < 2**ring_bits
    assert opening.mask_bits == 32 or opening.mask_bits == 31 or n * (2 * modulus - 1) >= 2**32


# --- what the server sees --------------------------------------------------------------------------------------------------


def chi_square(tops, cells):
    counts = np.bincount(tops, minlength=cells)
    return float(((counts - counts.mean()) ** 2).sum() / counts.mean())


@pytest.mark.parametrize("ring_bits", [32, 64])
def test_what_the_server_opens_is_uniform_modulo_m_whatever_was_sent(ring_bits):
    """16384 words of constant vectors: top bytes of the forwarded total, and of its sum with itself; 255 degrees of freedom."""
    d = 16384
    opening = opening_of(9, (1, 2, 3, 9), d=d, ring_bits=ring_bits)
    play = Play([opening], vectors=lambda _: np.full(d, 0.5, np.float32))
    total = play.totals()[9]
    assert opening.mask_bits == (30 if ring_bits == 32 else 32)
    assert 160 < chi_square(total >> (opening.mask_bits - 8), 256) < 370  # both tails below 1e-5
    assert 160 < chi_square(total & 255, 256) < 370
    plain = np.full(d, 0.5 * sum(opening.weights) / opening.largest)
    assert play.played.opened[9].total == pytest.approx(plain, abs=opening.error(3, Nearest()))


def test_the_integer_that_the_server_opens_has_one_distribution_for_all_inputs():
    """It is a sum of integers below M, not a sum modulo M. Exact, for M = 8 and three senders: every mask, every input."""
    modulus = 8
    masks = np.array(list(product(range(modulus), repeat=3)))
    seen = {
        tuple(np.bincount(((masks + inputs) % modulus).sum(axis=1), minlength=3 * modulus))
        for inputs in product(range(modulus), repeat=3)
    }
    assert len(seen) == 1


def test_runs_with_other_inputs_differ_for_the_server_by_inputs_under_masks_alone():
    """Under the same secrets every frame but masked inputs and totals is equal; the totals differ as the inputs' sums do."""
    opening = opening_of(9, (1, 2, 3, 9))
    runs = [Play([opening], vectors=v) for v in (vector, lambda i: vector(i + 50))]
    for a, b in zip(runs[0].frames, runs[1].frames, strict=True):
        assert (a.kind, a.sender, a.receiver, len(a.data)) == (b.kind, b.sender, b.receiver, len(b.data))
        assert a.data == b.data or a.kind in ("MaskedInput", "OpenedTotal")
    sums = []
    for shift in (0, 50):
        scaled = [vector(i + shift).astype(float) * (opening.row[i] / opening.largest) for i in (1, 2, 3)]
        encodings = [opening.grid.encode(x, 1, Nearest()).ring for x in scaled]
        sums.append(sum(encodings).astype(np.uint32))
    modulus = np.uint32(2**opening.mask_bits - 1)
    masks = [(run.totals()[9] - total) & modulus for run, total in zip(runs, sums, strict=True)]
    assert (masks[0] == masks[1]).all()
    assert masks[0].any()
    other = Play([opening], seed=1)
    assert not (((other.totals()[9] - sums[0]) & modulus) == masks[0]).any()  # fresh secrets, fresh masks


def test_no_one_else_derives_a_mask():
    """The key of a mask needs one of two secrets, and is bound to the session, the row, the sender and the receiver."""
    opening, keys = opening_of(9, (1, 2, 3, 9)), [AgreementKey(bytes([i + 1]) * 32) for i in range(3)]

    def key(mine, other, where=opening, sender=1):
        (found,) = keys[mine].agree([(keys[other].public, where.pair(sender, keys[0].public, keys[1].public))], "opened mask")
        return found

    assert key(0, 1) == key(1, 0)
    changed = [
        opening_of(9, (1, 2, 3, 9), round=1),
        opening_of(9, (1, 2, 3, 9), weights=(1, 2, 4)),
        opening_of(8, (1, 2, 3, 8), weights=opening.weights),
        replace(opening, model=bytes(32)),
        replace(opening, update=update_in(1)),
        replace(opening, bits=11),
        replace(opening, d=D + 1),
    ]
    others = {key(0, 1, where) for where in changed} | {key(2, 1), key(0, 2), key(0, 1, sender=2)}
    assert len(others) == 10
    assert key(0, 1) not in others


# --- a server that cheats --------------------------------------------------------------------------------------------------


def spy_key(purpose, message, frame, opening):
    """A key of the server's own, under a signature of the server's own."""
    key = AgreementKey(b"\x55" * 32)
    return type(message)(key.public, SigningKey.from_secret(b"\x66" * 32).sign(purpose, opening.binding, key.public))


def test_a_swapped_receiver_key_is_found_by_every_sender():
    opening = opening_of(9, (1, 2, 3, 9))
    for change in (
        lambda m, f: spy_key(RECEIVER_KEY, m, f, opening),
        lambda m, f: replace(m, public=flipped(m.public)),
        lambda m, f: replace(m, signature=flipped(m.signature)),
    ):
        play = Play([opening], changing("ReceiverKey", change, senders={SERVER}))
        assert not play.played.opened
        assert [(f.blame, f.reason) for f in play.played.faults] == [
            (SERVER, "the key shown for client 9 is not signed by it in this session")
        ] * 3
        assert not [f for f in play.frames if f.kind == "MaskedInput"]


def test_a_key_of_another_session_is_found():
    """The receiver's key of round 0, shown in round 1: signatures are bound to the session and its row."""
    first = Play([opening_of(9, (1, 2, 3, 9))])
    (old,) = [f for f in first.frames if f.kind == "ReceiverKey" and f.sender == 9]
    message = decode(old.data, 9, 1 << 20).message
    for second in (opening_of(9, (1, 2, 3, 9), round=1), opening_of(9, (1, 2, 3, 9), weights=(5, 5, 5))):
        play = Play([second], changing("ReceiverKey", lambda m, f: message, senders={SERVER}))
        assert {f.reason for f in play.played.faults} == {"the key shown for client 9 is not signed by it in this session"}


def test_the_receiver_opens_only_what_the_survivors_keys_and_weights_fit():
    def without_last(m, f):
        return replace(m, survivors=m.survivors[:-1], publics=m.publics[:-1], signatures=m.signatures[:-1])

    cases = {
        "the key shown for client 1 is not signed by it": lambda m, f: replace(m, publics=m.publics[1:] + m.publics[:1]),
        "the key shown for client 2 is not signed": lambda m, f: replace(
            m, signatures=(m.signatures[0], flipped(m.signatures[1]), *m.signatures[2:])
        ),
        "a sum that is not these survivors'": without_last,
        "a sum of 2 where 3 are needed": lambda m, f: without_last(without_last(m, f), f),
        "strangers or of another length": lambda m, f: replace(m, total=m.total[4:]),
        "with strangers": lambda m, f: replace(m, survivors=(*m.survivors[:-1], 77)),
        "that is not these survivors'": lambda m, f: replace(m, total=m.total[:-4] + flipped(m.total[-4:])),
    }
    for reason, change in cases.items():
        play = Play([opening_of(9, (1, 2, 3, 4, 9))], changing("OpenedTotal", change))
        assert not play.played.opened, reason
        (fault,) = play.played.faults
        assert fault.blame == SERVER
        assert re.search(reason, fault.reason)


def test_a_replayed_total_is_learned_once_and_nobodys_fault():
    play = Play([opening_of(9, (1, 2, 3, 9))], lambda frame: [frame, frame] if frame.kind == "OpenedTotal" else [frame])
    assert 9 in play.check()
    assert not play.played.faults


def test_every_frame_sent_twice_changes_nothing():
    play = Play([opening_of(i, (1, 2, 3, 4)) for i in (1, 2)], lambda frame: [frame, frame])
    assert set(play.check()) == {1, 2}
    assert not play.played.faults


def test_different_rows_for_different_senders_open_nothing():
    """The server shows senders 1 and 2 one row, sender 3 and the receiver another: keys of the one do not verify in the other."""
    opening, other = (opening_of(9, (1, 2, 3, 9), weights=w) for w in ((1, 1, 1), (9, 1, 1)))
    play = Play([opening], changing("OpeningOffer", lambda m, f: other.offer, receivers={1, 2}))
    assert not play.played.opened
    assert {f.blame for f in play.played.faults} == {SERVER}


# --- what clients take -----------------------------------------------------------------------------------------------------


def member(me, policy=None, **given):
    identities = Members.enrol((1, 2, 3, 4, 5, 6, 9, 10), SimulatedEntropy(0))
    parties = members_of(identities, RUN, policy or OpeningPolicy(2), SimulatedEntropy(0), UPDATES)
    return replace(parties[me].state, **given)


def offered(state, opening, digest=None):
    envelope = Envelope(digest or opening.session.digest, SERVER, state.me, opening.offer)
    return member_step(state, Received(envelope))


ALL = (1, 2, 3, 4, 5, 6)


def test_offers_against_the_policy_are_refused_before_a_key_exists():
    good = opening_of(9, ALL)
    for me in (1, 9):
        for change, reason in [
            ({"session": replace(good.session, protocol="uploads/update")}, "another protocol"),
            ({"session": replace(good.session, run=bytes(16))}, "another run"),
            ({"model": bytes(32)}, "another model"),
            ({"update": update_in(1)}, "an update of another round"),
            ({"session": replace(good.session, threshold=1)}, "fewer than 2"),
            ({"session": replace(good.session, roster=(*good.session.roster[:-1], 8))}, "not enrolled"),
            ({"d": 2**28}, "longer than"),
        ]:
            with pytest.raises(ProtocolError, match=reason):
                offered(member(me), replace(good, **change))
        with pytest.raises(ProtocolError, match="another session's digest"):
            offered(member(me), good, bytes(32))
    with pytest.raises(ProtocolError, match="does not hold"):
        offered(member(1), replace(good, update=update_in(99)))
    offered(member(9), replace(good, update=update_in(99)))  # the receiver sends nothing of it
    with pytest.raises(ProtocolError, match="for others"):
        offered(member(10), good)
    envelope = Envelope(good.session.digest, SERVER, 1, replace(good.offer, opener=3))
    with pytest.raises(ProtocolError, match="an offer that cannot be"):
        member_step(member(1), Received(envelope))
    with pytest.raises(ProtocolError, match="not the server's"):
        member_step(member(1), Received(Envelope(good.session.digest, 3, 1, good.offer)))


def test_the_threshold_holds_the_floor():
    for threshold, floor, fine in ((3, 3, True), (2, 3, False), (4, 4, True), (4, 5, False)):
        for me in (1, 9):
            state = member(me, OpeningPolicy(floor))
            if fine:
                offered(state, opening_of(9, ALL, threshold, weights=(1,) * 6))
            else:
                with pytest.raises(ProtocolError, match=f"fewer than {floor}"):
                    offered(state, opening_of(9, ALL, threshold))


def test_there_is_one_row_for_a_receiver_in_a_round_also_after_a_restart():
    first = opening_of(9, ALL)
    again = opening_of(9, ALL[:5], weights=(1, 2, 3, 4, 5))
    for me in (1, 9):
        state, effects = offered(member(me), first)
        assert isinstance(effects[0], Persist)
        for later in (state, member_step(state, Deadline())[0]):
            with pytest.raises(ProtocolError, match="round already taken"):
                offered(later, again)
        offered(state, opening_of(9, ALL, round=1))
        key, value = effects[0].key, int.from_bytes(effects[0].value, "big")
        assert key == "next round opened by 9"
        restarted = member(me, next_round={9: value}, since=value)
        for opening in (again, opening_of(10, (*ALL, 9))):
            assert offered(restarted, opening) == (restarted, ())
        offered(restarted, opening_of(10, (*ALL, 9), round=value))
    later, _ = offered(member(1), opening_of(9, ALL, round=2))
    assert offered(later, opening_of(10, ALL, round=1)) == (later, ())


def test_rows_of_receivers_that_collude_are_held_against_the_floor_together():
    """Weights (1 1 1 1 1 1) and (1 1 1 1 1 2): the difference is one client's update, for who has both sums."""
    one = opening_of(9, ALL, 6, weights=(1,) * 6)
    two = opening_of(10, ALL, 6, weights=(1, 1, 1, 1, 1, 2))
    spread = opening_of(10, ALL, 6, weights=(1, 1, 2, 2, 3, 3))
    together = OpeningPolicy(2, colluding=(frozenset({9, 10}),))
    apart = OpeningPolicy(2, colluding=(frozenset({5, 9}),))
    for policy, second, fine in [(together, two, False), (apart, two, True), (together, spread, True)]:
        state, _ = offered(member(1, policy), one)
        if fine:
            offered(state, second)
        else:
            with pytest.raises(ProtocolError, match="could show client 10 what fewer than 2"):
                offered(state, second)
    state, _ = offered(member(1, together), one)
    offered(state, opening_of(10, ALL, 6, weights=(1,) * 6))
    with pytest.raises(ProtocolError, match="could show"):  # equal rows tell nothing, until somebody drops out of one sum
        offered(state, opening_of(10, ALL, 5, weights=(1,) * 6))
    for threshold, fine in ((6, True), (5, False)):  # alone the rows leave 5/12 to a client, without two clients more than half
        state, _ = offered(member(1, together), opening_of(9, ALL, threshold, weights=(1,) * 6))
        if fine:
            offered(state, replace(spread, session=replace(spread.session, threshold=threshold)))
        else:
            with pytest.raises(ProtocolError, match="could show"):
                offered(state, replace(spread, session=replace(spread.session, threshold=threshold)))


def test_groups_with_a_common_client_are_one():
    """9 and 10 both tell 11, who is no receiver: whoever is asked about last, it has both sums."""
    policy = OpeningPolicy(2, colluding=(frozenset({9, 11}), frozenset({10, 11})))
    assert policy.group(9) == policy.group(10) == {9, 10, 11}
    assert policy.group(1) == {1}
    state, _ = offered(member(1, policy), opening_of(9, ALL, 6, weights=(1,) * 6))
    with pytest.raises(ProtocolError, match="could show client 10 what fewer than 2"):
        offered(state, opening_of(10, ALL, 6, weights=(1, 1, 1, 1, 1, 2)))


def test_a_colluding_sender_does_not_count_towards_the_floor():
    policy = OpeningPolicy(3, colluding=(frozenset({9, 1, 2}),))
    with pytest.raises(ProtocolError, match="fewer than 3"):
        offered(member(3, policy), opening_of(9, ALL, 4))
    with pytest.raises(ProtocolError, match="fewer than 3"):
        offered(member(3, policy), opening_of(9, ALL, 4, weights=(1,) * 6))
    offered(member(3, policy), opening_of(9, ALL, 5, weights=(1,) * 6))


@pytest.mark.long
def test_the_margin_for_dropouts_is_sound():
    """Two rows of twelve, each pattern of survivors that the thresholds allow: whatever passes keeps the floor."""
    policy = OpeningPolicy(2, colluding=(frozenset({29, 30}),))
    senders, passed = tuple(range(1, 13)), 0
    patterns = [c for c in product((0, 1), repeat=12) if sum(c) >= 10]
    for weights in ((1,) * 11 + (2,), tuple(range(1, 13)), (1, -1) * 6, (1,) * 4 + (2,) * 4 + (3,) * 4):
        for threshold in (10, 11, 12):
            one, two = (opening_of(r, senders, threshold, weights=w) for r, w in ((29, (1,) * 12), (30, weights)))
            if policy.reveals(two, [one]):
                continue
            passed += 1
            allowed = [c for c in patterns if sum(c) >= threshold]
            for kept in product(allowed, allowed):
                rows = [
                    {i: w * k for (i, w), k in zip(o.row.items(), c, strict=True)} for o, c in zip((one, two), kept, strict=True)
                ]
                assert largest(rows) <= 1 / 2 + 1e-6
    assert passed >= 5


def test_an_input_is_blinded_for_its_own_masked_sum_alone():
    opening = opening_of(9, (1, 2, 3, 9))
    state, _ = offered(member(1), opening)
    with pytest.raises(Refused, match="has taken no offer"):
        blinded_input(state, opening.sum_session((1, 2, 3)), vector(1), Nearest())
    receiver, effects = offered(member(9), opening)
    key = effects[1].envelope.message
    state, effects = member_step(state, Received(Envelope(opening.session.digest, SERVER, 1, key)))
    assert isinstance(effects[0].envelope.message, SenderKey)
    ring = blinded_input(state, opening.sum_session((1, 2, 3)), vector(1), Nearest())
    assert ring.shape == (D + 1,)
    right = opening.sum_session((1, 2, 3))
    for wrong in (
        opening.session,
        replace(right, threshold=2),
        replace(right, round=1),
        replace(right, roster=(2, 3, 4)),
        replace(right, roster=(1, 2, 3, 4)),
        opening_of(9, (1, 2, 3, 9), weights=(1, 1, 1)).sum_session((1, 2, 3)),
    ):
        with pytest.raises(Refused, match="has taken no offer"):
            blinded_input(state, wrong, vector(1), Nearest())
    with pytest.raises(ValueError, match="4 coordinates"):
        blinded_input(state, right, np.zeros(D + 1, np.float32), Nearest())
    low = Envelope(opening.session.digest, SERVER, 1, key)
    with pytest.raises(ProtocolError, match="out of place at Blinding"):
        member_step(state, Received(low))
    assert "mask_key" not in repr(state)
    assert "secret=" not in repr(receiver)


# --- the server ------------------------------------------------------------------------------------------------------------


def keys_of(opening):
    """The receiver's and the senders' signed keys."""
    receiver, effects = offered(member(opening.receiver), opening)
    shown, keys = effects[1].envelope.message, {}
    for i in opening.session.roster:
        state, _ = offered(member(i), opening)
        _, sends = member_step(state, Received(Envelope(opening.session.digest, SERVER, i, shown)))
        keys[i] = sends[0].envelope.message
    return receiver, shown, keys


def test_the_server_takes_one_signed_key_of_each_and_blames_others():
    opening = opening_of(9, (1, 2, 3, 9))
    enrolled = member(1).enrolled
    _, shown, keys = keys_of(opening)
    server = Party(SERVER, Inviting(opening, enrolled), server_step)

    def say(sender, message):
        return server.handle(Received(Envelope(opening.session.digest, sender, SERVER, message)))

    def refused(sender, message, reason):
        before = server.state
        with pytest.raises(ProtocolError, match=reason) as failure:
            say(sender, message)
        assert failure.value.blame == sender
        assert server.state is before

    refused(1, shown, "another client")
    refused(9, replace(shown, signature=bytes(64)), "not the client's")
    low = bytes(32)
    signed = ReceiverKey(low, member(9).identity.sign(RECEIVER_KEY, opening.binding, low))
    refused(9, signed, "low order")
    refused(1, keys[1], "out of place")
    say(9, shown)
    assert say(9, shown) == ()
    other = AgreementKey(bytes([9]) * 32).public
    another = ReceiverKey(other, member(9).identity.sign(RECEIVER_KEY, opening.binding, other))
    refused(9, another, "a second one")
    effects = server.handle(Deadline())
    assert [e.envelope.receiver for e in effects if isinstance(e, Send)] == [1, 2, 3]
    refused(9, keys[1], "a stranger")
    refused(2, keys[1], "not the client's")
    for i in (1, 2, 3):
        say(i, keys[i])
        assert say(i, keys[i]) == ()
        refused(i, replace(keys[i], signature=bytes(64)), "a second one")
    server.handle(Deadline())
    assert isinstance(server.state, SendersAgreed)
    assert server.state.senders == (1, 2, 3)
    with pytest.raises(ValueError, match="another session"):
        forward(server.state, Unmasked(opening.session, opening.sum_terms(2, 2, bytes(32)).zeros(), (1, 2, 3), ()))


def test_too_few_keys_end_with_the_stage_and_the_numbers():
    opening = opening_of(9, (1, 2, 3, 9))
    assert server_step(Inviting(opening, {}), Deadline())[0] == NotOpened(opening, "receiver", 0, 1)
    assert server_step(CollectingSenders(opening, {}), Deadline())[0] == NotOpened(opening, "senders", 0, 3)
    assert len(invite(opening)) == 4


# --- messages --------------------------------------------------------------------------------------------------------------


def test_every_message_of_a_session_has_one_encoding_and_its_schema():
    play = Play([opening_of(9, (1, 2, 3, 9))])
    seen = set()
    for frame in play.played.networks[0].frames:
        envelope = decode(frame.data, frame.sender, 1 << 20)
        assert encode(envelope) == frame.data
        seen.add(type(envelope.message))
        for cut in (len(frame.data) - 1, len(frame.data) // 2, 3):
            with pytest.raises(ProtocolError):
                decode(frame.data[:cut], frame.sender, 1 << 20)
    assert seen == set(MESSAGES.values())
    schema = (Path(cloister.protocol.__file__).parent / "wire" / "messages.cddl").read_text()
    rules = re.findall(r"^[a-z-]+ = \[\n  version: 2, [^\n]*, kind: (8\d),\n(.*?)^\]", schema, re.M | re.S)
    found = {int(kind): re.findall(r"^  (\w+):", body, re.M) for kind, body in rules}
    assert found == {m.kind: [f.name for f in fields(m)] for m in MESSAGES.values()}


def test_fields_out_of_range_do_not_decode():
    offer = opening_of(9, (1, 2, 3, 9)).offer
    total = OpenedTotal((1, 2), (bytes(32),) * 2, (bytes(64),) * 2, bytes(8))
    changes = [
        (offer, {"weights": bytes(16)}),
        (offer, {"weights": bytes(25)}),
        (offer, {"roster": (3, 2, 1)}),
        (offer, {"opener": -1}),
        (offer, {"clip": bytes(7)}),
        (offer, {"d": 0}),
        (offer, {"model": bytes(31)}),
        (offer, {"update": bytes(33)}),
        (total, {"survivors": (2, 1)}),
        (total, {"publics": (bytes(32),)}),
        (total, {"signatures": (bytes(64), bytes(63))}),
        (total, {"total": bytes(6)}),
        (SenderKey(bytes(32), bytes(64)), {"public": bytes(31)}),
        (ReceiverKey(bytes(32), bytes(64)), {"signature": bytes(65)}),
    ]
    for message, change in changes:
        with pytest.raises(ValueError):
            replace(message, **change)
    assert OpeningOffer.kind == 80


def test_every_flipped_bit_decodes_exactly_or_not_at_all():
    play = Play([opening_of(9, (1, 2, 3, 9))])
    frames = {frame.kind: frame.data for frame in play.played.networks[0].frames}
    assert len(frames) == 4
    for data in frames.values():
        for at, bit in product(range(len(data)), range(8)):
            other = data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]
            try:
                envelope = decode(other, 7, 1 << 12)
            except ProtocolError:
                continue
            assert encode(envelope) == other


def test_altered_bytes_open_no_wrong_mean():
    """One byte of each frame is changed, at four places: no crash, and no wrong mean but through a liar's input or total."""
    opening = opening_of(9, (1, 2, 3, 9))
    clean = Play([opening])
    for victim in clean.played.networks[0].frames:
        for part in (40, len(victim.data) // 2, len(victim.data) - 70, len(victim.data) - 1):

            def tap(frame, victim=victim, at=part % len(victim.data)):
                if (frame.number, frame.kind, frame.sender) != (victim.number, victim.kind, victim.sender):
                    return [frame]
                return [replace(frame, data=frame.data[:at] + bytes([frame.data[at] ^ 0x41]) + frame.data[at + 1 :])]

            play = Play([opening], tap)
            if victim.kind != "OpenedTotal":
                play.check()
