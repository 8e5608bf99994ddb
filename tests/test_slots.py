"""Sums into slots: every slot is the weighted mean of who chose it, no other party learns who did, and small slots stay shut."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.crypto.entropy import SimulatedEntropy
from cloister.crypto.fixed_point import FixedPoint, Nearest, Stochastic
from cloister.protocol.core.errors import Refused
from cloister.protocol.core.session import Session
from cloister.protocol.masked.server import NoSum, Unmasked
from cloister.protocol.masked.slots import COUNTING, COUNTS, SlotLayout, Weighted, integer_shares
from cloister.protocol.masked.sum import Plan, SumPolicy, masked_sum, parties_of
from cloister.protocol.parts.members import Members

from .masked_sum_session import MODEL, RUN, charter_of, losing, terms

D = 5
GRID = FixedPoint(32, 14, 1.0, 9, 50)
ROSTER = tuple(range(1, 10))


def slots_of(count=3, floor=2, corrupt=0, grid=GRID):
    return SlotLayout(count, D, grid, floor, corrupt)


def vector(client, slot=0):
    return np.random.default_rng([client, slot]).uniform(-1, 1, D).astype(np.float32)


def hard(choices):
    """Client -> its choice, with a weight of its own."""
    return {i: {slot: Weighted(vector(i), 3 * i)} for i, slot in zip(ROSTER, choices, strict=True)}


def summed(session, count, inputs, members, entropy, tap=None, record=False):
    """One masked sum of these inputs."""
    policy = SumPolicy(unheld=frozenset({"slot", "slots"}))
    charter = charter_of(members.enrolled, policy)
    plan = Plan.of(session, terms(len(session.roster), **count), charter)
    end, network = masked_sum(plan, parties_of(members, charter, MODEL, policy, entropy), inputs, tap, record=record)
    assert not network.faults
    return end, network


def counting(threshold=7, roster=ROSTER):
    return Session(COUNTING, RUN, 0, "root", roster, threshold)


def size(slots):
    grid = slots.grid
    terms = {"ring_bits": grid.ring_bits, "bits": grid.bits, "clip": grid.clip, "max_weight": grid.max_weight}
    return {**terms, "length": slots.length}


def play(slots, choices, fates=({}, {}), spare=1, seed=0, record=False):
    """Both sessions. fates: per session, client -> stage from which it is silent. spare: dropouts that the second survives.

    Returns its end, the open slots and its network.
    """
    entropy = SimulatedEntropy(seed)
    members = Members.enrol(ROSTER, entropy)
    first = counting()
    lost = losing(fates[0])
    counts, _ = summed(first, {**COUNTS, "length": slots.count}, lambda i: slots.encode_count(choices[i]), members, entropy, lost)
    second, opened = slots.summing(first, counts, len(counts.clients) - spare, "root")

    def send(i):
        told = slots.joined(first, counts.clients, second)
        assert told == opened
        return slots.encode(choices[i], told, Nearest())

    end, network = summed(second, size(slots), send, members, entropy, losing(fates[1]), record)
    return end, opened, network


def check(slots, choices, end, opened):
    """Each open slot against plain arithmetic on the clear vectors of the survivors."""
    means = slots.decode(end, opened)
    for slot, mean in enumerate(means):
        chosen = [choices[i][slot] for i in end.clients if slot in choices[i]]
        if slot not in opened:
            assert mean is None
            continue
        assert len(chosen) >= slots.floor
        assert mean.weight == sum(c.weight for c in chosen)
        plain = sum(c.weight * c.vector.astype(float) for c in chosen) / mean.weight
        assert np.abs(mean.mean - plain).max() <= slots.grid.error(Nearest())
    return means


@pytest.mark.parametrize("ring_bits", [32, 64])
def test_every_slot_is_the_weighted_mean_of_who_chose_it(ring_bits):
    slots, choices = slots_of(grid=replace(GRID, ring_bits=ring_bits)), hard((0, 1, 2, 0, 1, 2, 0, 1, 2))
    end, opened, _ = play(slots, choices)
    assert opened == {0, 1, 2}
    assert all(mean is not None for mean in check(slots, choices, end, opened))


@pytest.mark.parametrize("lost", [(), (1,), (5,), (9,)])
@pytest.mark.parametrize("stage", [0, 2, 4, pytest.param(1, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_whoever_drops_out_in_either_session_the_open_slots_are_the_survivors_means(lost, stage):
    slots, choices = slots_of(), hard((0, 1, 1, 0, 1, 0, 1, 0, 0))
    for fates in ((dict.fromkeys(lost, stage), {}), ({}, dict.fromkeys(lost, stage))):
        end, opened, _ = play(slots, choices, fates, spare=1 if fates[1] else 0)
        assert opened == {0, 1}
        check(slots, choices, end, opened)


def test_soft_choices_add_a_vector_of_its_own_to_every_slot():
    """FedEM: client i gives slot k the share w_ik of its samples, and its update of model k."""
    rng = np.random.default_rng(4)
    slots, choices = slots_of(), {}
    for i in ROSTER:
        shares = integer_shares(rng.dirichlet([0.5] * 3).tolist(), 50)
        choices[i] = {k: Weighted(vector(i, k), w) for k, w in enumerate(shares) if w}
    end, opened, _ = play(slots, choices, ({}, {4: 2}))
    check(slots, choices, end, opened)


def test_a_slot_under_the_floor_stays_shut_and_its_client_sends_zeros_like_any_input():
    slots, choices = slots_of(), hard((0, 0, 0, 0, 1, 1, 1, 1, 2))
    end, opened, network = play(slots, choices, record=True)
    assert opened == {0, 1}
    assert check(slots, choices, end, opened)[2] is None
    assert 9 in end.clients
    assert not slots.encode(choices[9], opened, Nearest()).any()
    assert len({len(f.data) for f in network.frames if f.kind == "MaskedInput"}) == 1


def test_an_open_slot_keeps_the_floor_whoever_drops_out_and_whoever_lies():
    """Exhaustive: 7 clients, every division into three slots, every set of clients missing that the second session survives."""
    clients = range(7)
    for corrupt, threshold in ((0, 6), (1, 6), (0, 5)):
        slots = slots_of(corrupt=corrupt)
        opened_once = False
        for counts in product(range(8), repeat=3):
            if sum(counts) != 7:
                continue
            choice = [slot for slot in range(3) for _ in range(counts[slot])]
            for slot in slots.opened(counts, 7, threshold):
                opened_once = True
                for gone in combinations(clients, 7 - threshold + corrupt):
                    assert sum(choice[i] == slot for i in clients if i not in gone) >= slots.floor
            for slot in set(range(3)) - slots.opened(counts, 7, threshold):  # and none is shut without need
                members = [i for i in clients if choice[i] == slot]
                assert len(members) - (7 - threshold + corrupt) < slots.floor
        assert opened_once


def test_nothing_is_summed_when_no_slot_reaches_the_floor():
    with pytest.raises(Refused, match=r"no slot was chosen by 6 clients.*\[3, 3, 3\]") as refusal:
        play(slots_of(floor=5), hard((0, 1, 2) * 3))
    assert "\n" not in str(refusal.value)


def test_too_many_dropouts_open_nothing():
    end, _, _ = play(slots_of(), hard((0, 1, 1, 0, 1, 0, 1, 0, 0)), ({}, {1: 2, 2: 2}))
    assert isinstance(end, NoSum)


# --- what the server sees -----------------------------------------------------------------------------------------------------


def test_who_chose_what_changes_nothing_but_masked_words():
    """Two clients with the same update and weight swap their slots: under the same secrets every frame but their inputs is equal,

    and the inputs' masks are, so that under fresh secrets one run cannot be told from the other.
    """
    slots = slots_of()
    one = hard((0, 1, 1, 0, 1, 0, 1, 0, 0))
    shared = Weighted(vector(1), 7)
    one |= {1: {0: shared}, 2: {1: shared}}
    other = {**one, 1: {1: shared}, 2: {0: shared}}
    runs = [play(slots, choices, record=True) for choices in (one, other)]
    assert (runs[0][0].total == runs[1][0].total).all()
    for a, b in zip(runs[0][2].frames, runs[1][2].frames, strict=True):
        assert (a.kind, a.sender, a.receiver, len(a.data)) == (b.kind, b.sender, b.receiver, len(b.data))
        assert a.data == b.data or (a.kind, a.sender in (1, 2)) == ("MaskedInput", True)


def test_an_unchosen_slot_is_all_zeros_and_a_chosen_zero_vector_is_not():
    slots = slots_of()
    ring = slots.encode({1: Weighted(np.zeros(D, np.float32), 4)}, frozenset({0, 1, 2}), Nearest()).reshape(3, D + 1)
    assert not ring[[0, 2]].any()
    assert ring[1].tolist() == [4 * GRID.half] * D + [4]
    assert slots.encode_count({1: Weighted(vector(1), 4)}).tolist() == [0, 1, 0]


def test_roundings_of_different_slots_are_independent():
    slots, x = slots_of(), np.full(D, 0.3 * GRID.step, np.float32)
    key, draws = bytes(32), []
    for seed in range(40):
        key = seed.to_bytes(32, "big")
        ring = slots.encode({k: Weighted(x, 1) for k in range(3)}, frozenset({0, 1, 2}), Stochastic(key)).reshape(3, D + 1)
        draws.append(ring[:, :-1].astype(int) - GRID.half)
    draws = np.array(draws)
    assert set(draws.ravel()) == {0, 1}
    assert abs(draws.mean() - 0.3) < 4 * (0.21 / draws.size) ** 0.5
    assert (draws[:, 0] != draws[:, 1]).mean() == pytest.approx(0.42, abs=0.16)


# --- what is refused ------------------------------------------------------------------------------------------------------------


def test_full_slots_of_all_clients_do_not_wrap():
    grid = FixedPoint.finest(32, 1.0, 9, 50)
    slots = slots_of(grid=grid)
    for sign in (-1, 1):
        full = {k: Weighted(np.full(D, sign, np.float32), 50) for k in range(3)}
        total = sum(slots.encode(full, frozenset({0, 1, 2}), Nearest()).astype(np.uint64) for _ in ROSTER)
        assert int(total.max()) < 2**32
        end = Unmasked(counting(), total.astype(np.uint32), ROSTER, ())
        assert all(mean.mean.tolist() == [sign] * D and mean.weight == 450 for mean in slots.decode(end, frozenset({0, 1, 2})))


def test_a_second_session_that_does_not_follow_from_the_first_is_refused_by_the_client():
    slots, first = slots_of(), counting()
    good = Session(slots.protocol(first, frozenset({0, 1})), RUN, 0, "root", ROSTER, 8)
    assert slots.joined(first, ROSTER, good) == {0, 1}
    wrong = {
        "no session of slots": replace(good, protocol="masked sum/update"),
        "not those that were counted": replace(good, protocol=good.protocol.replace(" 3 ", " 7 ", 1).replace(" 7 ", " f ", 1)),
        "not among the clients": replace(good, roster=ROSTER[1:], threshold=8),
        "raise it": replace(good, threshold=1),
    }
    for reason, session in wrong.items():
        with pytest.raises(Refused, match=reason):
            slots.joined(first, ROSTER, session)
    for other in (slots_of(floor=3), slots_of(corrupt=1), replace(slots, d=6)):
        with pytest.raises(Refused, match="not those that were counted"):
            other.joined(first, ROSTER, good)
    with pytest.raises(Refused, match="not those that were counted"):
        slots.joined(replace(first, cluster="other"), ROSTER, good)
    assert len(slots_of(64).protocol(first, frozenset(range(64)))) <= 64


def test_inputs_that_are_no_encodings_are_refused_where_they_show():
    slots = slots_of()
    everything = frozenset({0, 1, 2})
    for chosen, reason in [
        ({3: Weighted(vector(1), 1)}, "numbered 0 to 2"),
        ({0: Weighted(vector(1)[1:], 1)}, "5 coordinates"),
        ({0: Weighted(vector(1), 0)}, "at least 1"),
        ({0: Weighted(vector(1), 51)}, "max_weight"),
    ]:
        with pytest.raises(ValueError, match=reason):
            slots.encode(chosen, everything, Nearest())
    total = slots.encode({0: Weighted(vector(1), 1), 2: Weighted(vector(1), 1)}, everything, Nearest())
    end = Unmasked(counting(), total, ROSTER, ())
    with pytest.raises(ValueError, match="not opened"):
        slots.decode(end, frozenset({0}))
    with pytest.raises(ValueError, match="sum of weights is 0"):
        slots.decode(end, everything)
    with pytest.raises(ValueError, match="cannot have counted"):
        slots.decode_counts(replace(end, total=np.array([10, 0, 0], np.uint32)))
    for bad in ({"count": 0}, {"count": 65}, {"floor": 1}, {"corrupt": -1}):
        with pytest.raises(ValueError):
            replace(slots, **bad)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=8).filter(lambda w: sum(w) > 0), st.integers(1, 10**6))
def test_soft_weights_become_whole_numbers_that_add_up(weights, total):
    shares = integer_shares(weights, total)
    assert sum(shares) == total
    assert all(abs(s - w / sum(weights) * total) < 1 + 1e-6 for s, w in zip(shares, weights, strict=True))
    assert all(s >= 0 for s in shares)


@pytest.mark.parametrize("weights", [[], [0.0, 0.0], [-1.0, 2.0], [float("nan")], [float("inf")]])
def test_soft_weights_that_are_none_are_refused(weights):
    with pytest.raises(ValueError, match="soft weights"):
        integer_shares(weights, 5)
