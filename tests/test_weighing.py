"""Weights with secret sample counts: what two sums of them let a client conclude, and what it does then."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol import Encrypted, Masked, TwoServer
from cloister.protocol.core.errors import Refused
from cloister.protocol.core.session import Session
from cloister.protocol.masked.server import Unmasked
from cloister.protocol.masked.weighing import COARSEST, WeightEncoding, second_protocol, told
from cloister.protocol.parts.gate import Rules
from cloister.protocol.parts.leverage import largest
from cloister.protocol.view.answers import Assignment, BelowFloor, Model, Sum, Weights
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalWork

RUN = bytes(range(16))


def summed(weighing, weights):
    """The sums of these weights, as the server reads them."""
    session = Session("masked sum/weights/update/0", RUN, 0, "root", tuple(range(len(weights))), 1)
    total = np.sum([weighing.encode(w) for w in weights], axis=0, dtype=np.uint64)
    return weighing.read(Unmasked(session, total, session.roster, ()))


weights_of = st.lists(st.one_of(st.floats(1e-4, 1.0), st.floats(0.4, 0.6), st.just(0.5)), min_size=3, max_size=8)


@given(weights_of, st.integers(2, 4), st.integers(0, 2), st.data())
@settings(max_examples=80)
def test_who_gives_its_update_weighs_at_most_one_in_floor_of_any_survivors_without_the_corrupt(weights, floor, corrupt, data):
    """Corrupt clients claim anything from 0 to the largest weight, the two claims apart, and everybody else may drop out."""
    n = len(weights)
    weighing = WeightEncoding((1.0,) * n, Rules(floor, corrupt))
    liars = tuple(range(min(corrupt, n - 1)))
    honest = [i for i in range(n) if i not in liars]
    first, second = summed(weighing, [weights[i] for i in honest])
    first += sum(data.draw(st.floats(0, 1)) for _ in liars)
    second += sum(data.draw(st.floats(0, 1)) for _ in liars)
    threshold = data.draw(st.integers(1, n))
    for i in honest:
        if not weighing.holds(weights[i], (first, second), n, threshold):
            continue
        for size in range(threshold, n + 1):
            for alive in combinations(range(n), size):
                if i in alive:
                    squares = sum(weights[j] ** 2 for j in alive if j in honest)
                    assert weights[i] ** 2 / squares <= (1 + 10 * COARSEST) / floor


def test_equal_counts_pass_down_to_the_floor_and_the_two_sums_tell_a_skewed_claim():
    weighing = WeightEncoding((1.0,) * 8, Rules(3))
    sums = summed(weighing, [0.005] * 8)
    assert weighing.holds(0.005, sums, 8, 4)
    assert weighing.threshold(sums, 8) <= 4
    assert not weighing.holds(0.9, summed(weighing, [0.9] + [0.005] * 7), 8, 8)
    assert weighing.holds(0.005, summed(weighing, [0.005] * 3), 3, 3)


def test_a_liar_that_may_claim_much_leaves_nothing_sure():
    assert not WeightEncoding((1.0,) * 8, Rules(3, 2)).holds(0.005, (0.04, 2e-4), 8, 8)
    tight = WeightEncoding((1.0,) * 8, Rules(3, 2))
    assert tight.holds(0.7, summed(tight, [0.7] * 8), 8, 8)


def test_a_second_session_tells_its_sums_and_no_others():
    counting = Session("masked sum/weights/update/0", RUN, 3, "root", (1, 2, 3, 4), 2)
    sums = tuple(float(np.float32(x)) for x in (0.3, 0.04))
    name = second_protocol(counting, sums)
    second = Session(name, RUN, 3, "root", (1, 2, 4), 2)
    assert told(counting, (1, 2, 4), second) == sums
    other = Session(second_protocol(counting, (sums[0], 1.0))[:30] + name[30:], RUN, 3, "root", (1, 2, 4), 2)
    for signed, session in (((1, 2, 3), second), ((1, 2, 4), other), ((1, 2, 4), counting)):
        with pytest.raises(Refused):
            told(counting, signed, session)


# --- in the views -----------------------------------------------------------------------------------------------------------


def view_of(protection, counts, tap=None):
    def work(jobs):
        return ((job.client, LocalWork(np.full(8, job.client / 10, np.float32), counts[job.client])) for job in jobs)

    clients = tuple(range(len(counts)))
    return protection.open(Setup(RUN, np.zeros(8, np.float32), clients, work, SimulatedEntropy(0), tap))


def asked(view, n, of, times_samples):
    everyone = {"root": Assignment(Model("init"), tuple(range(n)), tuple(range(n)))}
    return view.train_and_sum(0, everyone, {"root": Weights(of, times_samples)})["root"]


@pytest.mark.parametrize("protection", [Masked(), TwoServer(), Encrypted()], ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("eps", [1.0, 0.5, 1e-3, 1e-6, 1e-12])
def test_weights_of_one_client_end_below_the_floor(protection, eps):
    of = {0: 1.0, **dict.fromkeys(range(1, 6), eps)}
    answer = asked(view_of(protection, [10] * 6), 6, of, False)
    assert isinstance(answer, Sum if largest([of]) <= 1 / 3 else BelowFloor)
    assert isinstance(answer, Sum) == (eps == 1.0)


@pytest.mark.parametrize("protection", [Masked(), TwoServer()], ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("count", [10, 12, 100, 5000])
def test_sample_counts_of_one_client_end_below_the_floor(protection, count):
    counts = [count] + [10] * 5
    view = view_of(protection, counts)
    answer = asked(view, 6, dict.fromkeys(range(6), 1.0), True)
    assert isinstance(answer, Sum if largest([dict(enumerate(counts))]) <= 1 / 3 else BelowFloor)
    if isinstance(answer, Sum):
        assert answer.weight == pytest.approx(sum(counts), rel=1e-3)
    if isinstance(protection, Masked):
        assert {d.recipient for d in view.record.log if d.what == "weights"} == {"server", "clients"}
        first = next(k for k, d in enumerate(view.record.log) if d.what == "weights")
        assert all(k > first for k, d in enumerate(view.record.log) if d.what == "sums")


def test_a_client_that_signed_nothing_while_weights_were_summed_sits_out():
    """It never hears who survived the first session, so it cannot know what the second one is among."""
    lost = iter([4])

    def tap(frame):
        once = frame.kind == "Survivors" and frame.receiver == 4 and next(lost, None) == 4
        return [] if once else [frame]

    def workers(jobs):
        return ((job.client, LocalWork(np.ones(4, np.float32), 10)) for job in jobs)

    view = Masked(floor=2).open(Setup(RUN, np.zeros(4, np.float32), tuple(range(8)), workers, SimulatedEntropy(1), tap))
    work = {"root": Assignment(Model("init"), tuple(range(8)), tuple(range(8)))}
    answer = view.train_and_sum(0, work, {"root": Weights(dict.fromkeys(range(8), 1.0), times_samples=True)})["root"]
    assert isinstance(answer, Sum)
    assert answer.clients == (0, 1, 2, 3, 5, 6, 7)
    assert any(f.blame == 4 and "not among the clients" in f.reason for f in view.record.faults)


def test_corrupt_clients_need_a_bound_on_claims_that_is_near_the_counts():
    assert isinstance(asked(view_of(Masked(corrupt=2), [50] * 8), 8, dict.fromkeys(range(8), 1.0), True), BelowFloor)
    tight = Masked(corrupt=2, max_samples=70)
    assert isinstance(asked(view_of(tight, [50] * 8), 8, dict.fromkeys(range(8), 1.0), True), Sum)


def test_encrypted_refuses_sample_counts_by_name():
    with pytest.raises(Refused, match="Encrypted cannot hold"):
        asked(view_of(Encrypted(), [10] * 6), 6, dict.fromkeys(range(6), 1.0), True)


def test_a_sum_that_one_client_would_surely_not_give_to_is_not_asked_for():
    """Of five with 40 samples each, beside one that may claim 64: the server knows by the two sums, and says what to do."""
    view = view_of(Masked(corrupt=1, max_samples=64), [40] * 5)
    assert isinstance(asked(view, 5, dict.fromkeys(range(5), 1.0), True), BelowFloor)
    (fault,) = view.record.faults
    assert "is not asked for: beside what corrupt clients may claim" in fault.reason
    assert "Bring protection.max_samples near" in fault.reason
    assert not [d for d in view.record.log if d.what == "sums"]
    near = view_of(Masked(corrupt=1, max_samples=42), [40] * 5)
    assert isinstance(asked(near, 5, dict.fromkeys(range(5), 1.0), True), Sum)
    assert not near.record.faults
