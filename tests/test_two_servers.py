"""The two-server protocol: right for the survivors or a clean error, whatever is lost, altered or replayed; and who can cheat.

Views over it are in test_two_server_view.py.
"""

import math
import re
import tracemalloc
from contextlib import suppress
from dataclasses import fields, replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import cloister.protocol
from cloister.crypto.additive import share
from cloister.crypto.ring_projection import RingProjection
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import DEALER, SECOND_SERVER, SERVER
from cloister.protocol.drivers.roles import Party, Received
from cloister.protocol.messages import decode
from cloister.protocol.two_servers.asking import GramAnswered, SumAnswered, Unanswered, consistent, keep
from cloister.protocol.two_servers.messages import MESSAGES, KeyedTriple, KeyShare, SumQuestion, TripleRequest
from cloister.protocol.two_servers.questions import sum_question
from cloister.protocol.two_servers.run import helper_parties
from cloister.protocol.two_servers.second import second_step
from cloister.protocol.two_servers.second_state import HoldingKeys, restored
from cloister.protocol.two_servers.slot_messages import MESSAGES as SLOT_MESSAGES
from cloister.protocol.two_servers.terms import ShareTerms, TooLarge
from cloister.protocol.two_servers.upload import from_words, to_words
from cloister.protocol.wire.codec import Envelope, encode
from cloister.protocol.wire.messages import Task
from cloister.protocol.work.upload_server import invite
from cloister.protocol.work.uploads import Policy
from tests.two_server_session import LIMIT, RUN, Play, changing, flipped, losing

UP = {"none": (), "task": ("Task",), "share": ("ExplicitShare",), "key": ("KeyShare",), "both": ("ExplicitShare", "KeyShare")}


# --- terms: nothing wraps around ------------------------------------------------------------------------------------------


@given(st.integers(1, 10**7), st.integers(1, 4096), st.floats(1e-6, 1e6), st.integers(2, 9))
@settings(max_examples=200)
def test_terms_prove_that_nothing_wraps_and_take_the_most_bits(length, half, max_norm, floor):
    terms = ShareTerms(length, 2 * half, max_norm, floor)  # all of these can be
    assert terms.largest == terms.growth * terms.radius**2 < 2**63
    assert terms.most_weight * terms.radius < 2**63
    assert terms.radius >= 2**terms.bits + math.sqrt(length) / 2
    assert terms.bits == 31 or terms.growth * terms._radius(terms.bits + 1) ** 2 >= 2**63


def test_a_million_coordinates_keep_25_bits():
    assert [ShareTerms(10**6, k, 1.0, 3).bits for k in (1024, 4096, 10**6)] == [25, 26, 31]


@pytest.mark.parametrize(
    ("sizes", "what"),
    [
        ((0, 8, 1.0, 3), "length"),
        ((5, 7, 1.0, 3), "width is even"),
        ((5, 0, 1.0, 3), "width is even"),
        ((5, 8, 0.0, 3), "max_norm"),
        ((5, 8, math.inf, 3), "max_norm"),
        ((5, 8, math.nan, 3), "max_norm"),
        ((5, 8, 1.0, 1), "floor"),
        ((2**29, 2, 1.0, 3), "larger"),
    ],
)
def test_terms_that_cannot_be_are_refused(sizes, what):
    with pytest.raises(ValueError, match=what):
        ShareTerms(*sizes)


@given(st.integers(1, 60), st.integers(0, 1000), st.sampled_from([1.0, 0.3, 1e-3, 1e3]))
@settings(max_examples=60)
def test_encodings_are_within_the_radius_and_the_rounding(length, seed, max_norm):
    terms = ShareTerms(length, 8, max_norm, 3)
    update = np.random.default_rng(seed).standard_normal(length)
    update = (update * (max_norm * 0.9999999 / np.linalg.norm(update))).astype(np.float32)
    if np.linalg.norm(update.astype(np.float64)) > max_norm:
        with pytest.raises(TooLarge):
            terms.encode(update)
        return
    whole = terms.encode(update)
    assert sum(int(v) ** 2 for v in whole) <= terms.radius**2
    assert np.linalg.norm(whole * terms.step - update) <= terms.rounding
    for bad in (np.nan, np.inf, -np.inf, 3e38):
        broken = update.copy()
        broken[0] = bad
        with pytest.raises(TooLarge, match="max_norm"):
            terms.encode(broken)


@pytest.mark.long
@given(st.dictionaries(st.integers(0, 50), st.floats(-1e9, 1e9), min_size=1, max_size=20))
@settings(max_examples=100)
def test_weights_are_whole_within_their_unit_never_lost_and_never_too_many(weights):
    terms = ShareTerms(10**6, 4096, 16.0, 3)
    if not any(weights.values()):
        with pytest.raises(ValueError, match="positive"):
            terms.weigh(weights)
        return
    whole, unit = terms.weigh(weights)
    assert set(whole) == {i for i, a in weights.items() if a}
    assert sum(abs(q) for q in whole.values()) <= terms.most_weight
    assert all(abs(weights[i] - q * unit) <= unit and q * weights[i] > 0 for i, q in whole.items())
    total = sum(abs(a) for a in weights.values())
    assert unit <= max(2 * total / (terms.most_weight - 2 * len(whole) - 16), 2.0**-999) * (1 + 1e-12)


def test_weights_of_ones_and_of_sample_counts_are_exact():
    terms = ShareTerms(10**6, 4096, 16.0, 3)
    for weights in ({1: 1.0, 2: 1.0, 3: 1.0}, {1: 600.0, 2: 17.0, 3: 1.0}, {1: -0.5, 2: 0.25}):
        whole, unit = terms.weigh(weights)
        assert {i: q * unit for i, q in whole.items()} == weights


def test_vectors_at_the_norm_bound_do_not_wrap_under_the_projection_that_makes_them_longest():
    terms = ShareTerms(4000, 16, 8.0, 3)
    projection = RingProjection.draw(bytes(32), 4000, 16)
    updates = []
    for repeat in (0, 1):
        block = np.zeros(4000, np.float32)
        signs = projection.signs.view(np.int64)[repeat, :, 0]
        block[projection.order[repeat, signs != 0, 0]] = signs[signs != 0]
        updates.append(block * np.float32(8.0 * 0.999999 / np.linalg.norm(block)))
    updates.append(-updates[0])
    whole = [terms.encode(u) for u in updates]
    rows = np.stack([projection.apply(w.view(np.uint64)).view(np.int64) for w in whole]).astype(object)
    exact = rows @ rows.T
    assert max(abs(v) for v in exact.reshape(-1)) > terms.largest / 3  # it does come near
    wrapped = np.array([[(v + 2**63) % 2**64 - 2**63 for v in row] for row in exact], np.int64)
    assert (wrapped == exact).all()
    assert consistent(terms, wrapped).all()


def test_a_sum_at_the_bound_of_weights_does_not_wrap():
    updates = dict.fromkeys((1, 3, 5), np.array([16.0, *[0.0] * 8], np.float32))
    play = Play(3, updates=updates)
    play.upload()
    most = play.terms.most_weight // 3
    for sign in (1, -1):
        ended = play.sum(dict.fromkeys((1, 3, 5), sign * most))
        assert int(ended.total[0]) == 3 * sign * most * 2**play.terms.bits
        play = Play(3, updates=updates)
        play.upload()


# --- right for the survivors, under every pattern of losses ---------------------------------------------------------------


@pytest.mark.parametrize("fates", list(product(UP, repeat=3)), ids="-".join)
def test_every_pattern_of_losses_leaves_the_survivors_answers_right(fates):
    clients = (1, 3, 5, 7)
    lost = dict(zip(clients, (*fates, "none"), strict=True))

    def tap(frame):
        client = max(frame.sender, frame.receiver)
        return [] if client in lost and frame.kind in UP[lost[client]] else [frame]

    play = Play(4, tap)
    survivors = tuple(i for i in clients if lost[i] == "none")
    assert play.upload() == survivors
    whole = play.whole(survivors)
    if survivors:
        assert (play.gram().gram == whole @ whole.T).all()
    if len(survivors) >= 3:
        assert isinstance(play.sum({i: i - 4 for i in survivors}), Unanswered), "client 1 or 7 outweighs the others"
        assert "would show fewer than 3" in play.reasons()[-1]
        three = {1: 4, 3: -4, 5: 4, 7: -4}
        weights = {1: 4, 3: -3, 5: 3, 7: -4} if len(survivors) == 4 else {i: three[i] for i in survivors}
        ended = play.sum(weights)
        assert (
            ended.total == [sum(weights[i] * int(x) for i, x in zip(survivors, column, strict=True)) for column in whole.T]
        ).all()
    else:
        assert isinstance(play.sum(dict.fromkeys(survivors, 1)), Unanswered)
        assert play.network.faults[-1].blame == SERVER
        assert "fewest" in play.reasons()[-1]


@given(st.integers(2, 6), st.integers(1, 40), st.sampled_from([2, 6, 64]), st.integers(0, 1000))
@settings(max_examples=40)
def test_gram_matrices_are_those_of_the_projected_encodings_and_exact_without_projection(n, length, width, seed):
    play = Play(n, length=length, width=width, seed=seed, record=True)
    assume(not 0 < play.terms.most_products < n)
    play.upload()
    answer = play.gram()
    whole = play.whole(play.roster)
    if length > width:
        opening = next(decode(f.data, f.sender, LIMIT).message for f in play.network.frames if f.kind == "Opening")
        coin = next(decode(f.data, f.sender, LIMIT).message for f in play.network.frames if f.kind == "Coin")
        key = cloister.protocol.two_servers.questions.projection_key(answer.question, opening.coin, coin.coin)
        projection = RingProjection.draw(key, length, width)
        whole = np.stack([projection.apply(w.astype(np.int64).view(np.uint64)).view(np.int64) for w in whole]).astype(object)
    assert (answer.gram == whole @ whole.T).all()
    assert consistent(play.terms, answer.gram).all()


def test_projected_gram_matrices_are_within_the_stated_tolerance():
    length, width = 3000, 256
    rng = np.random.default_rng(3)
    base = rng.standard_normal(length)
    updates = {1 + 2 * i: (base + i * rng.standard_normal(length)).astype(np.float32) for i in range(6)}
    worst = 0.0
    play = Play(6, length=length, width=width, max_norm=1024.0, updates=updates)
    play.upload()
    clear = np.stack([updates[i] for i in play.roster]).astype(np.float64)
    norms = np.linalg.norm(clear, axis=1)
    for _ in range(20):
        found = play.gram().gram * play.terms.gram_unit
        tolerance = play.terms.gram_tolerance(np.diagonal(found))
        error = np.abs(found - clear @ clear.T) / np.outer(norms, norms)
        assert error.max() <= tolerance
        worst = max(worst, error.max())
    assert worst > tolerance / 6  # the tolerance is not idle: some error exceeds one standard deviation


@given(st.integers(1, 40), st.sampled_from([1e-9, 1e-6, 1e-3, 1.0]), st.integers(0, 1000))
@settings(max_examples=60)
def test_the_tolerance_covers_the_fixed_point_of_small_updates_too(length, scale, seed):
    rng = np.random.default_rng(seed)
    terms = ShareTerms(length, 64, 16.0, 3)
    updates = [(scale * rng.standard_normal(length)).astype(np.float32), rng.standard_normal(length).astype(np.float32)]
    updates = [u if np.linalg.norm(u) < 15 else u / 10 for u in updates]
    whole = np.stack([terms.encode(u) for u in updates]).astype(object)
    found = (whole @ whole.T).astype(np.float64) * terms.gram_unit
    clear = np.stack(updates).astype(np.float64)
    norms = np.linalg.norm(clear, axis=1)
    tolerance = terms.gram_tolerance(np.diagonal(found))
    assert (np.abs(found - clear @ clear.T) <= tolerance * np.outer(norms, norms)).all()


def test_rows_of_several_rounds_are_compared_under_one_projection():
    play = Play(4, length=40, width=8)
    play.upload(0)
    first = play.rows((1, 3))
    play.forget(first)
    old = dict(play.updates)
    play.updates = {i: -2 * u for i, u in old.items()}
    play.upload(1)
    rows = first + play.rows((1, 7), round=1)
    found = play.gram(rows).gram.astype(np.float64)
    assert np.allclose(found[0, 2], -2 * found[0, 0], rtol=1e-5)
    assert np.allclose(found[2, 2], 4 * found[0, 0], rtol=1e-5)
    assert np.allclose(found[1, 2], -2 * found[0, 1], rtol=1e-5)


# --- messages between servers are lost, replayed, altered -----------------------------------------------------------------

GRAM_KINDS = ("GramQuestion", "TripleRequest", "KeyedTriple", "ExplicitTriple", "Coin", "Opening", "GramAnswer")


@pytest.mark.parametrize("kind", ["Held", "Agreed"])
def test_without_agreement_there_are_no_survivors(kind):
    play = Play(4, losing([kind]))
    assert play.upload() == ()
    assert play.collected[0].alone


def test_a_second_server_that_never_heard_of_the_session_agrees_on_nobody():
    play = Play(4, lambda f: [] if f.kind == "Task" and f.receiver == SECOND_SERVER else [f])
    assert play.upload() == ()
    assert [f.blame for f in play.network.faults] == [1, 3, 5, 7, SERVER]


@pytest.mark.parametrize("kind", GRAM_KINDS)
def test_a_lost_message_ends_a_gram_question_cleanly_and_the_next_is_answered(kind):
    lost = []

    def tap(frame):
        if frame.kind == kind and not lost:
            lost.append(frame)
            return []
        return [frame]

    play = Play(4, tap, length=5)
    play.upload()
    ended = play.gram()
    assert isinstance(ended, Unanswered)
    assert ended.waited_for in (SECOND_SERVER, DEALER)
    whole = play.whole(play.roster)
    assert (play.gram().gram == whole @ whole.T).all()


@pytest.mark.parametrize("kind", ["SumQuestion", "SumAnswer"])
def test_a_lost_message_ends_a_sum_cleanly_and_the_same_sum_may_be_asked_again(kind):
    lost = []
    play = Play(4, lambda f: [] if f.kind == kind and not lost and not lost.append(f) else [f])
    play.upload()
    assert isinstance(play.sum(dict.fromkeys(play.roster, 1)), Unanswered)
    assert (play.sum(dict.fromkeys(play.roster, 1)).total == play.whole(play.roster).sum(axis=0)).all()


def test_duplicated_messages_change_nothing_and_are_nobodys_fault():
    play, plain = Play(4, lambda f: [f, f], length=20), Play(4, length=20)
    for p in (play, plain):
        p.upload()
    rows = [(p.gram().gram, p.sum(dict.fromkeys(p.roster, 2)).total) for p in (play, plain)]
    assert (rows[0][0] == rows[1][0]).all()
    assert (rows[0][1] == rows[1][1]).all()
    assert not plain.network.faults
    assert not play.network.faults
    assert not play.second.questions


@pytest.mark.parametrize("late", [*GRAM_KINDS, "SumAnswer", "Agreed", "ExplicitShare", "KeyShare"])
def test_late_messages_end_in_fewer_survivors_or_no_answer(late):
    play = Play(4, lambda f: [replace(f, late=True)] if f.kind == late else [f], length=5)
    survivors = play.upload()
    assert survivors == (() if late in ("Agreed", "ExplicitShare", "KeyShare") else play.roster)
    if survivors:
        assert isinstance(play.gram(), Unanswered if late in GRAM_KINDS else GramAnswered)
        assert isinstance(play.sum(dict.fromkeys(survivors, 1)), Unanswered if late == "SumAnswer" else SumAnswered)


@pytest.mark.parametrize(
    ("kind", "change", "blame"),
    [
        ("ExplicitShare", lambda m: replace(m, vector=m.vector[8:]), 1),
        ("ExplicitShare", lambda m: replace(m, binding=bytes(32)), 1),
        ("KeyShare", lambda m: replace(m, binding=bytes(32)), 1),
        ("Agreed", lambda m: replace(m, clients=(1, 2)), SECOND_SERVER),
        ("Held", lambda m: replace(m, clients=(1, 2)), SERVER),
        ("GramQuestion", lambda m: replace(m, clients=(1, 3, 5, 8)), SERVER),
        ("GramQuestion", lambda m: replace(m, commitment=bytes(32)), SERVER),
        ("ExplicitTriple", lambda m: replace(m, square=m.square[8:]), DEALER),
        ("ExplicitTriple", lambda m: replace(m, square=flipped(m.square, 8)), SECOND_SERVER),  # the matrix is not symmetric
        ("Opening", lambda m: replace(m, coin=flipped(m.coin)), SERVER),
        ("Opening", lambda m: replace(m, salt=flipped(m.salt)), SERVER),
        ("Opening", lambda m: replace(m, difference=m.difference[8:]), SERVER),
        ("GramAnswer", lambda m: replace(m, gram=m.gram[8:]), SECOND_SERVER),
        ("GramAnswer", lambda m: replace(m, gram=flipped(m.gram, 8)), SECOND_SERVER),
        ("GramAnswer", lambda m: replace(m, difference=m.difference[8:]), SECOND_SERVER),
        ("SumQuestion", lambda m: replace(m, weights=(2, 1, 1, 1)), SERVER),
        ("SumAnswer", lambda m: replace(m, vector=m.vector[8:]), SECOND_SERVER),
    ],
)
def test_altered_messages_are_refused_with_blame(kind, change, blame):
    play = Play(4, changing(kind, change, senders=None if blame != 1 else (1,)), length=5)
    survivors = play.upload()
    if survivors:
        play.gram()
        play.sum(dict.fromkeys(survivors, 1))
    assert play.network.faults
    assert {f.blame for f in play.network.faults} == {blame}
    assert 1 not in survivors if blame == 1 else True


@pytest.mark.parametrize("at", range(0, 300, 7))
def test_a_flipped_bit_anywhere_between_servers_never_hangs_or_crashes(at):
    """It is refused, or it is inside a share: that false servers can falsify an answer is what they are trusted not to do."""

    def tap(frame):
        broken = frame.sender < 0 and frame.receiver < 0 and len(frame.data) > at
        return [replace(frame, data=flipped(frame.data, at))] if broken else [frame]

    play = Play(3, tap)
    survivors = play.upload()
    if at < 40:  # in the head, which every message has
        assert survivors == ()
        assert play.network.faults
    if survivors:
        assert isinstance(play.gram(), GramAnswered | Unanswered)
        assert isinstance(play.sum(dict.fromkeys(survivors, 1)), SumAnswered | Unanswered)


# --- clients that cheat ---------------------------------------------------------------------------------------------------


def lying(vectors):
    """A network on which these clients share the given whole numbers instead of an encoding, as a cheating client could."""

    def tap(frame):
        if frame.sender not in vectors or frame.kind != "ExplicitShare":
            return [frame]
        envelope = decode(frame.data, frame.sender, LIMIT)
        whole = np.asarray(vectors[frame.sender])
        true = from_words(envelope.message.vector) - honest[frame.sender].view(np.uint64)
        message = replace(envelope.message, vector=to_words(true + whole.view(np.uint64)))
        return [replace(frame, data=encode(replace(envelope, message=message)))]

    honest = {}

    def start(play):
        honest.update({i: play.terms.encode(play.updates[i]) for i in vectors})
        return play

    return tap, start


def null_vector(projection, length):
    """A unit vector in the kernel of a projection."""
    width = projection.order.shape[0] * projection.order.shape[2]
    dense = np.stack([projection.apply(row.view(np.uint64)).view(np.int64) for row in np.eye(length, dtype=np.int64)], axis=1)
    _, _, basis = np.linalg.svd(dense.astype(np.float64))
    return basis[width]


def test_a_poison_in_the_kernel_of_a_known_projection_is_seen_under_the_fresh_one():
    length, width = 200, 64
    known = RingProjection.draw(bytes(range(32)), length, width)
    poison = (12.0 * null_vector(known, length)).astype(np.float32)
    rng = np.random.default_rng(0)
    updates = {i: (0.05 * rng.standard_normal(length)).astype(np.float32) for i in (1, 3, 5, 7)} | {3: poison}
    play = Play(4, length=length, width=width, updates=updates)
    hidden = known.apply(play.terms.encode(poison).view(np.uint64)).view(np.int64).astype(np.float64)
    assert np.linalg.norm(hidden) * math.sqrt(play.terms.gram_unit) < 1e-3  # under the projection it knows it succeeds
    play.upload()
    for _ in range(2):
        norms = np.sqrt(np.diagonal(play.gram().gram) * play.terms.gram_unit)
        assert norms[1] > 12 * math.sqrt(1 - play.terms.deviation / 2)
        assert norms[1] > 5 * max(norms[0], norms[2], norms[3])


def test_every_question_has_a_projection_of_its_own_that_either_half_of_the_coin_decides():
    grams = {}
    for name, tap in (
        ("as it is", None),
        ("other first half", "coin 1"),
        ("other second half", "coin 2"),
    ):
        play = Play(3, length=50, width=4)
        if tap is not None:
            whose = play.helpers[SECOND_SERVER] if tap == "coin 2" else None
            play.upload()
            other = type(play.entropy)(99)
            if whose is not None:
                whose.state = replace(whose.state, entropy=other)
            else:
                play.entropy = other
        else:
            play.upload()
        grams[name] = [play.gram().gram for _ in range(2)]
    found = [g for pair in grams.values() for g in pair]
    for a, one in enumerate(found):
        for other in found[a + 1 :]:
            assert not np.array_equal(one, other)


def test_a_client_with_two_faces_has_shared_one_vector_and_it_is_noticed():
    """Another key at the second server makes another vector, of the same for sums and for inner products: here a random one."""
    play = Play(5, changing("KeyShare", lambda m: replace(m, key=flipped(m.key)), senders=(5,)), length=30, width=16)
    play.upload()
    answer = play.gram()
    good = consistent(play.terms, answer.gram)
    assert good.tolist() == [True, True, False, True, True]
    total = play.sum(dict.fromkeys(play.roster, 1)).total.astype(np.float64)
    assert np.linalg.norm(total) > 5 * play.terms.radius  # what the view refuses to publish


@pytest.mark.parametrize("times", [1.5, 3.0, 1e3, 1e6, 1e9])
def test_a_vector_beyond_the_norm_bound_shows_its_norm_or_is_rejected(times):
    rng = np.random.default_rng(1)
    updates = {i: (0.1 * rng.standard_normal(30)).astype(np.float32) for i in (1, 3, 5, 7, 9)}
    play = Play(5, length=30, width=16, max_norm=1.0, updates=updates)
    whole = (play.terms.encode(play.updates[3]) * times).astype(np.int64)
    tap, start = lying({3: whole})
    play.network._tap = tap
    start(play).upload()
    answer = play.gram()
    good = consistent(play.terms, answer.gram)
    assert good[[0, 2, 3, 4]].all()
    norm = np.linalg.norm(whole.astype(np.float64))
    if good[1] and norm**2 * play.terms.growth < 2**63:
        assert answer.gram[1, 1] > norm**2 * 2 * (1 - play.terms.deviation)
    assert good[1] == (times < 10)


def test_several_liars_are_rejected_and_the_honest_kept():
    rng = np.random.default_rng(5)
    play = Play(9, length=40, width=16)
    liars = {i: rng.integers(-(2**62), 2**62, 40) for i in (3, 7, 17)}
    tap, start = lying(liars)
    play.network._tap = tap
    start(play).upload()
    answer = play.gram()
    assert [i for i, good in zip(play.roster, consistent(play.terms, answer.gram), strict=True) if not good] == [3, 7, 17]


@given(st.integers(3, 8), st.sets(st.integers(0, 7), max_size=2), st.integers(0, 10**6))
@settings(max_examples=60)
def test_rows_within_the_bound_are_never_rejected_for_others_below_half(n, bad, seed):
    rng = np.random.default_rng(seed)
    terms = ShareTerms(20, 16, 1.0, 3)
    rows = rng.integers(-(2**27), 2**27, (n, 16))
    bad = {b for b in bad if b < (n - 1) / 2}
    rows[sorted(bad)] = rng.integers(-(2**62), 2**62, (len(bad), 16))
    exact = rows.astype(object) @ rows.astype(object).T
    gram = np.array([[(v + 2**63) % 2**64 - 2**63 for v in row] for row in exact], np.int64)
    good = consistent(terms, gram)
    assert good[[i for i in range(n) if i not in bad]].all()


def test_rejection_takes_the_row_in_most_violations_then_the_longest_then_the_last():
    terms = ShareTerms(20, 16, 1.0, 3)

    def rejected(diagonal, **violations):
        gram = np.diag(np.array(diagonal, np.int64))
        for pair, value in violations.items():
            i, j = int(pair[1]), int(pair[2])
            gram[i, j] = gram[j, i] = value
        return np.flatnonzero(~consistent(terms, gram)).tolist()

    assert rejected([5, 7, 0]) == []
    assert rejected([5, terms.largest, 7]) == []
    assert rejected([5, terms.largest + 1, 7]) == [1]
    assert rejected([5, -1, 7]) == [1]
    assert rejected([100, 100, 100], p01=99) == []
    assert rejected([100, 100, 100], p01=-102) == [1]  # the last of two equals
    assert rejected([400, 100, 100], p01=300) == [0]  # the longer
    assert rejected([100, 100, 100, 900], p01=102, p12=102) == [1]  # the one in two, longer or not
    assert rejected([100, 100, 100, 900], p01=102, p23=500) == [1, 3]
    assert rejected([-5, 100, 100], p01=99, p02=99) == [0]  # whoever is out already takes nobody along


def test_a_client_answers_once_for_a_session_and_never_for_an_earlier_round():
    play = Play(3, record=True)
    play.upload(2)
    session = play.session(2)
    client = play.clients[1]
    for round in (2, 1, 0):  # a duplicate, and old ones
        assert client.handle(Received(invite(play.session(round), "update", ("init",), play.model)[0].envelope)) == ()
    with pytest.raises(ProtocolError, match="already answered") as failure:
        client.handle(Received(invite(replace(play.session(2), cluster="other"), "update", ("init",), play.model)[0].envelope))
    assert failure.value.blame == SERVER
    assert sum(f.kind == "ExplicitShare" and f.sender == 1 for f in play.network.frames) == 1
    assert play.network.persisted[1, "next round update"] == (3).to_bytes(4, "big")
    for broken, match in (
        (replace(session, round=3, run=bytes(16)), "another run"),
        (replace(session, round=3, protocol="uploads/update"), "another protocol"),
        (replace(session, round=3, roster=(3, 5)), "for others"),
    ):
        task = Task(*broken.fields, "update", ("init",), b"")
        with pytest.raises(ProtocolError, match=match):
            client.handle(Received(Envelope(broken.digest, SERVER, 1, task)))
    task = invite(play.session(3), "update", ("m",), play.model)[0].envelope.message
    with pytest.raises(ProtocolError, match="digest"):
        client.handle(Received(Envelope(bytes(32), SERVER, 1, task)))


def test_an_update_out_of_bounds_stays_at_home_and_is_on_record():
    updates = {1: np.full(9, np.nan), 3: np.full(9, 9.0), 5: np.ones(9), 7: np.ones(9), 9: np.ones(9)}
    play = Play(5, updates={i: u.astype(np.float32) for i, u in updates.items()}, record=True)
    assert play.upload() == (5, 7, 9)
    assert play.collected[0].withheld == (1, 3)
    assert not any(f.sender in (1, 3) and f.kind in ("ExplicitShare", "KeyShare") for f in play.network.frames)


# --- a first server that cheats -------------------------------------------------------------------------------------------


def test_small_and_differencing_sums_are_refused_by_the_second_server_itself():
    play = Play(6)
    play.upload()
    everyone = dict.fromkeys(play.roster, 1)
    assert isinstance(play.sum({1: 1, 3: 1}), Unanswered)
    assert isinstance(play.sum(everyone), SumAnswered)
    assert isinstance(play.sum(dict.fromkeys(play.roster, -7)), SumAnswered)  # a multiple shows nothing new
    for clients in (play.roster[:5], play.roster[:4]):
        assert isinstance(play.sum(dict.fromkeys(clients, 1)), Unanswered)
    assert isinstance(play.sum({**everyone, 1: 2}), Unanswered)
    assert isinstance(play.sum({1: 5, 3: 5, 5: 5}), SumAnswered)
    assert isinstance(play.sum({1: 1, 3: 1, 7: 1}), Unanswered)
    assert {f.blame for f in play.network.faults} == {SERVER}
    assert [("would show fewer" in r) or ("fewest" in r) for r in play.reasons()] == [True] * 5


def test_weights_that_could_wrap_are_refused():
    play = Play(3)
    play.upload()
    assert isinstance(play.sum(dict.fromkeys(play.roster, play.terms.most_weight)), Unanswered)
    assert "wrap around" in play.reasons()[-1]


@pytest.mark.parametrize("ask", ["gram", "sum"])
def test_a_question_has_a_new_number_and_its_own_digest(ask):
    play = Play(3)
    play.upload()
    ones = dict.fromkeys(play.roster, 1)
    for number, answered in ((4, True), (4, False), (3, False), (5, True)):
        ended = play.gram(number=number) if ask == "gram" else play.sum(ones, number=number)
        assert isinstance(ended, GramAnswered | SumAnswered) == answered
    assert play.network.persisted[SECOND_SERVER, "next question"] == (6).to_bytes(8, "big")
    request = SumQuestion(9, play.session().digest, play.roster, (1, 1, 1))
    play.helpers[SECOND_SERVER].handle(Received(Envelope(sum_question(RUN, request), SERVER, SECOND_SERVER, request)))
    request = replace(request, number=10)
    with pytest.raises(ProtocolError, match="digest"):
        play.helpers[SECOND_SERVER].handle(Received(Envelope(bytes(32), SERVER, SECOND_SERVER, request)))


def crashed(play):
    """The second server killed: another one in its place, with what this one persisted and nothing else."""
    journal = {key: value for (party, key), value in play.network.persisted.items() if party == SECOND_SERVER}
    fresh = helper_parties(RUN, play.terms, Policy(), play.entropy)[SECOND_SERVER].state
    play.helpers[SECOND_SERVER] = Party(SECOND_SERVER, restored(fresh, journal), second_step)


def test_a_second_server_that_crashed_has_what_it_was_told_to_keep_and_counts_its_products_on():
    play = Play(3, length=24, width=4)
    play.upload(0)
    rows = play.rows(round=0)
    assert isinstance(play.gram(rows), GramAnswered)
    play.forget(rows[:2])
    crashed(play)
    assert isinstance(play.gram(rows[:2]), GramAnswered)
    crashed(play)
    (held,) = play.second.sessions.values()
    assert (held.sums, dict(held.products)) == (None, dict.fromkeys(play.roster[:2], 3 + 2))
    assert isinstance(play.gram(rows[:2]), Unanswered)
    assert "a question too many" in play.reasons()[-1]
    assert isinstance(play.sum(dict.fromkeys(play.roster[:2], 1), 0), Unanswered)
    play.forget()
    crashed(play)
    assert not play.second.sessions


@pytest.mark.parametrize("at", ["upload", "sum", "gram", "keep"])
def test_a_second_server_that_crashed_takes_no_round_and_no_number_again(at):
    play = Play(3)
    play.upload(2)
    ones = dict.fromkeys(play.roster, 1)
    if at == "sum":
        assert isinstance(play.sum(ones, 2, number=4), SumAnswered)
    if at == "gram":
        assert isinstance(play.gram(play.rows(round=2), number=4), GramAnswered)
    if at == "keep":
        play.forget(play.rows(round=2), number=4)
    crashed(play)
    session, old = (replace(play.session(round), cluster="another") for round in (2, 1))
    task = Task(*session.fields, "update", ("init",), b"")
    with pytest.raises(ProtocolError, match="already answered"):
        play.helpers[SECOND_SERVER].handle(Received(Envelope(session.digest, SERVER, SECOND_SERVER, task)))
    task = Task(*old.fields, "update", ("init",), b"")
    assert play.helpers[SECOND_SERVER].handle(Received(Envelope(old.digest, SERVER, SECOND_SERVER, task))) == ()
    request = SumQuestion(4, play.session(2).digest, play.roster, (1, 1, 1))
    with pytest.raises(ProtocolError, match="not held" if at == "upload" else "used before"):
        play.helpers[SECOND_SERVER].handle(Received(Envelope(sum_question(RUN, request), SERVER, SECOND_SERVER, request)))
    kept = {
        session.digest: set(held.keys) for session, held in [(play.session(2), held) for held in play.second.sessions.values()]
    }
    assert kept == ({play.session(2).digest: set(play.roster)} if at == "keep" else {})
    assert play.upload(3) == play.roster
    answer = play.sum(ones, 3, number=5)
    assert (answer.total == play.whole(play.roster).sum(axis=0)).all()


def test_a_second_server_that_stored_nothing_starts_afresh():
    fresh = Play(3).second
    assert restored(fresh, {}) == fresh


def test_the_dealer_deals_once_for_a_number_and_not_without_end():
    play = Play(3)
    dealer = play.helpers[DEALER]
    ask = Received(Envelope(bytes(32), SERVER, DEALER, TripleRequest(0, 3)))
    (_, second, first) = dealer.handle(ask)
    assert first.envelope.message.mask != second.envelope.message.mask
    assert dealer.handle(ask) == ()
    for request, sender, match in (
        (TripleRequest(0, 4), SERVER, "dealt before"),
        (TripleRequest(1, 3), SECOND_SERVER, "not the server's"),
        (TripleRequest(1, 100_000), SERVER, "are the most"),
    ):
        with pytest.raises(ProtocolError, match=match) as failure:
            dealer.handle(Received(Envelope(bytes(32), sender, DEALER, request)))
        assert failure.value.blame == sender


def test_questions_about_what_is_not_held_twice_in_one_or_too_often_are_refused():
    play = Play(4, length=40, width=8)
    play.upload()
    digest, shares = play.session().digest, dict(play.rows())
    row = play.rows((1,))[0]
    for rows, match in (
        ([((digest, 2), row[1])], "not held"),
        ([((bytes(32), 1), row[1])], "not held"),
        ([row, row], "row twice"),
    ):
        assert isinstance(play.gram(rows), Unanswered)
        assert match in play.reasons()[-1]
    assert play.terms.most_products == 10
    for answered in (True, True, False):  # 4 products each
        assert isinstance(play.gram(), GramAnswered) == answered
    assert "too many" in play.reasons()[-1]
    assert isinstance(play.gram(play.rows((1, 3))), GramAnswered)
    assert len(shares) == 4
    exact = Play(4, length=8, width=8)
    exact.upload()
    assert all(isinstance(exact.gram(), GramAnswered) for _ in range(12))


def test_what_is_kept_answers_gram_questions_only_and_the_rest_is_forgotten():
    play = Play(4)
    play.upload()
    rows = play.rows((1, 3, 5))
    assert isinstance(play.sum(dict.fromkeys(play.roster, 1)), SumAnswered)
    play.forget(rows)
    held = play.second.sessions[play.session().digest]
    assert isinstance(held, HoldingKeys)
    assert set(held.keys) == {1, 3, 5}
    assert isinstance(play.gram(rows), GramAnswered)
    assert isinstance(play.gram(), Unanswered)
    assert isinstance(play.sum({1: 1, 3: 1, 5: 1}), Unanswered)
    assert "no longer for sums" in play.reasons()[-1]
    play.forget()
    assert not play.second.sessions
    assert isinstance(play.gram(rows), Unanswered)
    session = play.session(0)
    task = Task(*session.fields, "update", ("init",), b"")
    again = Received(Envelope(session.digest, SERVER, SECOND_SERVER, task))
    assert play.helpers[SECOND_SERVER].handle(again) == ()
    with pytest.raises(ProtocolError, match="already answered"):
        second_step(play.second, again)
    play.helpers[SECOND_SERVER].handle(Received(keep(RUN, 99, [(session.digest, 1)]).envelope))
    assert not play.second.sessions  # what is not held is not kept


def test_only_the_server_asks_only_the_dealer_deals_and_only_the_roster_sends_keys():
    play = Play(3)
    play.upload()
    second = play.helpers[SECOND_SERVER]
    request = SumQuestion(0, play.session().digest, play.roster, (1, 1, 1))
    cases = [
        (Envelope(sum_question(RUN, request), 1, SECOND_SERVER, request), 1),
        (Envelope(sum_question(RUN, request), DEALER, SECOND_SERVER, request), DEALER),
        (Envelope(bytes(32), SERVER, SECOND_SERVER, KeyedTriple(bytes(32), bytes(32))), SERVER),
        (Envelope(play.session().digest, 1, SECOND_SERVER, KeyShare(bytes(32), bytes(32), bytes(32))), 1),
        (Envelope(play.session(1).digest, 1, SECOND_SERVER, KeyShare(bytes(32), bytes(32), bytes(32))), 1),
    ]
    for envelope, blame in cases:
        with pytest.raises(ProtocolError) as failure:
            second.handle(Received(envelope))
        assert failure.value.blame == blame


# --- what a party learns --------------------------------------------------------------------------------------------------


def received_by(play, party, kinds=None):
    return [f.data for f in play.network.frames if f.receiver == party and (kinds is None or f.kind in kinds)]


def test_the_second_server_and_the_dealer_receive_the_same_whatever_the_updates_are():
    """But for the opened difference, which is the update under the triple's mask."""
    plays = [Play(4, length=20, record=True, seed=0), Play(4, length=20, record=True, seed=0)]
    plays[1].updates = {i: np.flip(u) * 0.5 for i, u in plays[1].updates.items()}
    for play in plays:
        play.upload()
        play.gram()
        play.sum(dict.fromkeys(play.roster, 3))
    kinds = {f.kind for f in plays[0].network.frames if f.receiver == SECOND_SERVER} - {"Opening"}
    assert received_by(plays[0], SECOND_SERVER, kinds) == received_by(plays[1], SECOND_SERVER, kinds)
    assert received_by(plays[0], DEALER) == received_by(plays[1], DEALER)
    assert received_by(plays[0], SERVER, {"ExplicitShare"}) != received_by(plays[1], SERVER, {"ExplicitShare"})


def test_shares_and_differences_are_uniform_bit_by_bit():
    """Of one constant update: every bit of what either server receives is fair and independent of the client."""
    length = 4000
    updates = {i: np.full(length, 0.1, np.float32) for i in (1, 3, 5)}
    play = Play(3, length=length, width=4000, updates=updates, record=True)
    play.upload()
    play.gram()
    messages = [decode(f.data, f.sender, LIMIT).message for f in play.network.frames]
    seen = [from_words(m.vector) for m in messages if hasattr(m, "samples")]
    seen += [from_words(m.difference) for m in messages if hasattr(m, "difference")]
    assert len(seen) == 5
    for words in seen:
        bits = np.unpackbits(words.view(np.uint8))
        assert abs(bits.mean() - 0.5) < 5 * 0.5 / math.sqrt(len(bits))
        counts = np.bincount(words.view(np.uint8), minlength=256)
        chi = ((counts - counts.mean()) ** 2 / counts.mean()).sum()
        assert chi < 255 + 5 * math.sqrt(2 * 255)
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert abs(np.corrcoef(seen[a].astype(float), seen[b].astype(float))[0, 1]) < 5 / math.sqrt(length)


def test_secrets_do_not_print():
    play = Play(3)
    play.upload()
    play.gram()
    keys = [play.second.sessions[play.session().digest].keys[i] for i in play.roster]
    text = repr(play.second) + repr(play.collected[0]) + repr(play.helpers[DEALER].state) + repr(play.clients[1].state)
    assert not any(repr(key)[2:-1] in text for key in keys)
    one, other = share(np.zeros(2, np.int64), 1, keys[0])
    assert "values" not in repr(one) + repr(other)


def test_the_second_server_holds_keys_and_projects_one_share_at_a_time():
    n, length = 40, 50_000
    zeros = np.zeros(length, np.float32)
    play = Play(n, length=length, width=64, updates=dict.fromkeys(range(1, 2 * n, 2), zeros))
    play.upload()
    rows = play.rows()
    tracemalloc.start()
    play.gram(rows)
    ones = dict.fromkeys(play.roster, 1)
    play.sum(ones)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 14 * 8 * length  # a share, the projection (its order, its signs, and sorting them), and sums: not 40 shares


# --- messages -------------------------------------------------------------------------------------------------------------


def test_every_message_of_a_round_has_one_encoding_and_its_schema():
    play = Play(4, record=True, updates={i: np.full(9, 9.0 if i == 1 else 1.0, np.float32) for i in (1, 3, 5, 7)})
    play.upload()
    play.gram()
    play.sum(dict.fromkeys((3, 5, 7), 1))
    play.forget(play.rows((3,)))
    seen = set()
    for frame in play.network.frames:
        envelope = decode(frame.data, frame.sender, LIMIT)
        assert encode(envelope) == frame.data
        seen.add(type(envelope.message))
        for cut in (len(frame.data) - 1, len(frame.data) // 2, 3):
            with pytest.raises(ProtocolError):
                decode(frame.data[:cut], frame.sender, LIMIT)
    assert seen - {Task} == set(MESSAGES.values())
    schema = (Path(cloister.protocol.__file__).parent / "wire" / "messages.cddl").read_text()
    rules = re.findall(r"^[a-z-]+ = \[\n  version: 2, [^\n]*, kind: ([45]\d),\n(.*?)^\]", schema, re.M | re.S)
    found = {int(kind): re.findall(r"^  (\w+):", body, re.M) for kind, body in rules}
    assert found == {m.kind: [f.name for f in fields(m)] for m in (*MESSAGES.values(), *SLOT_MESSAGES.values())}


@given(st.randoms(use_true_random=False))
@settings(max_examples=150)
def test_mutated_messages_decode_exactly_or_not_at_all(rng):
    data = rng.choice(FRAMES)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data))
        data = rng.choice([data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :], data[:at], data + data[at:]])
        if not data:
            break
    with suppress(ProtocolError):
        assert encode(decode(data, 7, LIMIT)) == data


def _frames():
    play = Play(3, record=True)
    play.upload()
    play.gram()
    play.sum(dict.fromkeys(play.roster, 1))
    play.forget(play.rows((3,)))
    return [f.data for f in play.network.frames]


FRAMES = _frames()
