"""Encrypted scores: rounded cosines and norms of the survivors' sketches, what leaves the client that opens them, and cheats."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cloister.crypto.ckks import PRODUCTS, PublicContext
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER
from cloister.protocol.drivers.roles import Deadline, Received
from cloister.protocol.encrypted import client as encrypted_client
from cloister.protocol.encrypted.client import sketch_of
from cloister.protocol.encrypted.keys import Keyed, Shortfall
from cloister.protocol.encrypted.messages import MOST_PRODUCTS, EncryptedInput, RoundedScores, products_of
from cloister.protocol.encrypted.scaling import (
    LEAST_NORM,
    MOST_NORM,
    MOST_SAMPLES,
    MOST_VALUE,
    SCALE,
    SCORE_ERROR,
    ZERO,
    Weighting,
    carrying,
    norms_of,
    opened,
    rounded_cosines,
    rounded_norms,
    score_tolerance,
    unsketchable,
    unsummable,
)
from cloister.protocol.encrypted.scores import CiphertextsCollected, ProductsOpened, comparison, server_step
from cloister.protocol.messages import decode
from cloister.protocol.wire.codec import Envelope

from .encrypted_session import D, K, Play, changing, losing, made_once, secrets_in


@pytest.fixture(autouse=True)
def few_keys(monkeypatch):
    monkeypatch.setattr(encrypted_client.SecretContext, "generate", made_once)


@pytest.fixture(scope="module")
def keyed():
    """A key that client 1 made, and what its clients' sketches are: made once."""
    play = Play(4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encrypted_client.SecretContext, "generate", made_once)
        key = play.key("products")
    assert isinstance(key, Keyed)
    return key.key


def clear(play, clients, name="root", round=0):
    """Norms of the updates and cosines of their sketches, without encryption and rounding."""
    session = play.session("encrypted sketch", name, round).digest
    rows = [sketch_of(play.parties[i].state, session, play.vectors[i]) for i in clients]
    norms = np.array([np.linalg.norm(play.vectors[i].astype(np.float64)) for i in clients])
    lengths = [max(np.linalg.norm(row), 1e-300) for row in rows]
    return norms, np.array(
        [[x @ z / a / b for z, b in zip(rows, lengths, strict=True)] for x, a in zip(rows, lengths, strict=True)]
    )


def check(play, end, clients, digits, **which):
    assert isinstance(end, ProductsOpened)
    norms, cosines = clear(play, clients, **which)
    half = 0.5 * 10.0**-digits + SCORE_ERROR
    assert np.abs(end.cosines - cosines).max() <= half
    nonzero = norms > 0
    assert np.abs(np.log(end.norms[nonzero] / norms[nonzero])).max() <= half
    assert not end.norms[~nonzero].any()
    units = end.cosines * 10**digits
    assert np.abs(units - np.round(units)).max() < 1e-9  # multiples of 10^-digits and nothing finer
    logarithms = np.log(end.norms[nonzero]) * 10**digits
    assert np.abs(logarithms - np.round(logarithms)).max() < 1e-6


@pytest.mark.parametrize("digits", [1, 3, 4])
def test_scores_are_those_of_the_clear_sketches_rounded(keyed, digits):
    play = Play(4)
    play.vectors[3] = play.vectors[3] * np.float32(1e-6)
    play.vectors[5] = np.zeros(D, np.float32)
    play.vectors[7] = -play.vectors[3] * np.float32(1e12)
    collected = play.collect(keyed)
    assert tuple(collected.received) == play.roster
    end = play.compare(keyed, collected.received.values(), digits=digits)
    check(play, end, play.roster, digits)
    assert end.cosines[1, 3] == -1
    assert not end.cosines[2].any()
    gram = end.cosines * np.outer(end.norms, end.norms)
    norms, cosines = clear(play, play.roster)
    scale = np.outer(norms, norms)
    assert np.all(np.abs(gram - cosines * scale) <= score_tolerance(digits) * scale)


@pytest.mark.parametrize("lost", [{}, {3: "EncryptedInput"}, {1: "EncryptedInput", 7: "EncryptedInput"}, {3: "RoundedScores"}])
def test_dropouts_leave_the_scores_of_the_survivors(keyed, lost):
    play = Play(4, losing(lost))
    collected = play.collect(keyed)
    alive = tuple(i for i in play.roster if lost.get(i) != "EncryptedInput")
    assert tuple(collected.received) == alive
    end = play.compare(keyed, collected.received.values(), roster=alive)
    check(play, end, alive, 3)
    assert not play.network.faults


def test_scores_that_nobody_opens_end_in_a_stated_failure(keyed):
    play = Play(3, lambda f: [] if f.kind == "RoundedScores" else [f])
    end = play.compare(keyed, play.collect(keyed).received.values())
    assert end == Shortfall(end.session, "scores", 0, 1, asked=(3, 5, 1))
    asked = [f.receiver for f in play.network.frames if f.kind == "ScoreRequest"]
    assert asked == [3, 5, 1]  # who made the key comes last


@pytest.mark.long
def test_updates_of_different_rounds_compare_under_a_key_of_the_run_only():
    play = Play(3, keys="run")
    key = play.key("products", "all").key
    first = play.collect(key).received
    before = dict(play.vectors)
    play.vectors = {i: np.float32(0.5) * v + np.float32(1) for i, v in play.vectors.items()}
    second = play.collect(key, round=1).received
    end = play.compare(key, second.values(), [first[1], first[5]], round=1)
    sketch = play.sketch(b"").apply
    new = np.stack([sketch(play.vectors[i]) for i in play.roster])
    old = np.stack([sketch(before[i]) for i in (1, 5)])
    expected = (new @ old.T) / np.outer(np.linalg.norm(new, axis=1), np.linalg.norm(old, axis=1))
    assert np.abs(end.cosines - expected).max() <= 0.5e-3 + SCORE_ERROR
    assert not len(end.norms)
    alone = Play(3)
    key = alone.key("products").key
    rows = list(alone.collect(key).received.values())
    assert isinstance(alone.compare(key, rows, rows[:1]), Shortfall)
    assert "different rounds have different keys" in alone.reasons()


def test_nothing_but_rounded_scores_leaves_the_client_and_no_secret_key_is_at_the_server(keyed):
    play = Play(3)
    end = play.compare(keyed, play.collect(keyed).received.values(), digits=2)
    assert isinstance(end, ProductsOpened)
    sent = [f for f in play.network.frames if f.sender == 3 and f.kind == "RoundedScores"]
    (scores,) = [decode(f.data, 3, 1 << 20).message for f in sent]
    assert len(sent[0].data) < 120  # three norms, three cosines and a head: there is no room for more
    cosines = np.frombuffer(scores.cosines, "<i4")
    assert np.abs(cosines).max() <= 100
    assert {f.kind for f in play.network.frames if f.sender >= 0} == {"EncryptedInput", "RoundedScores"}
    assert not secrets_in(play.held)


def test_the_same_sketches_encrypted_again_give_the_same_scores(keyed):
    ends = []
    for _ in range(2):
        play = Play(3)
        ends.append(play.compare(keyed, play.collect(keyed).received.values()))
    assert np.array_equal(ends[0].cosines, ends[1].cosines)
    assert np.array_equal(ends[0].norms, ends[1].norms)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: replace(m, digits=5), "5 digits of a score where the policy gives 4"),
        (lambda m: replace(m, sealed=m.sealed[:-1] + bytes([m.sealed[-1] ^ 1])), "does not open"),
        (lambda m: replace(m, public=bytes(32)), "does not open"),
        (lambda m: replace(m, products=(m.products[0][:-1], *m.products[1:])), "cannot be used"),
        (lambda m: replace(m, roster=(1, 3)), "another session's digest"),
        (lambda m: [m, replace(m, digits=m.digits - 1)], "already answered"),
    ],
)
def test_requests_that_are_not_what_was_agreed_on_are_not_opened(keyed, change, reason):
    play = Play(3, changing("ScoreRequest", lambda m, f: change(m)))
    end = play.compare(keyed, play.collect(keyed).received.values())
    assert reason in play.reasons()
    assert play.blamed() == {SERVER}
    assert isinstance(end, ProductsOpened if "already" in reason else Shortfall)


def test_more_sketches_than_clients_and_fresh_ciphertexts_are_not_opened(keyed):
    play = Play(3)
    rows = list(play.collect(keyed).received.values())
    assert isinstance(play.compare(keyed, [*rows, rows[0]]), Shortfall)
    assert "more sketches than clients" in play.reasons()
    raw = rows[0].to_bytes()  # a sketch itself, where a product belongs
    play = Play(3, changing("ScoreRequest", lambda m, f: replace(m, products=(raw, *m.products[1:]))))
    assert isinstance(play.compare(keyed, rows), Shortfall)
    assert "cannot be used" in play.reasons()


def test_a_key_of_the_server_and_a_sketch_of_another_length_are_refused(keyed):
    play = Play(3, changing("SketchRequest", lambda m, f: replace(m, tag=bytes(32))))
    assert play.collect(keyed) == CiphertextsCollected(play.session("encrypted sketch"), {})
    assert "no client made" in play.reasons()
    play = Play(3, changing("SketchRequest", lambda m, f: replace(m, length=K + 1)))
    assert not play.collect(keyed).received
    assert "not the one agreed on" in play.reasons()


def test_what_a_client_may_not_send_the_server_refuses_with_blame(keyed):
    play = Play(3)
    rows = list(play.collect(keyed).received.values())
    session = play.session("encrypted scores")
    state = comparison(session, keyed, rows, [], 3, bytes(32))
    good = RoundedScores(bytes(12), bytes(12))
    for sender, message, reason in (
        (5, good, "not asked"),
        (3, RoundedScores(bytes(8), bytes(12)), "other sketches"),
        (3, RoundedScores(bytes(12), bytes(8)), "other sketches"),
        (3, RoundedScores(bytes(12), np.array([0, 1001, 0], "<i4").tobytes()), "cannot be"),
        (3, EncryptedInput(bytes(8)), "out of place"),
    ):
        with pytest.raises(ProtocolError, match=reason) as failure:
            server_step(state, Received(Envelope(session.digest, sender, SERVER, message)))
        assert failure.value.blame == sender
    state, _ = server_step(state, Deadline())
    assert isinstance(server_step(state, Received(Envelope(session.digest, 5, SERVER, good)))[0], ProductsOpened)
    late = server_step(state, Received(Envelope(session.digest, 3, SERVER, good)))[0]
    assert isinstance(late, ProductsOpened)  # and as good
    with pytest.raises(ValueError, match="compare fewer"):
        comparison(session, keyed, rows[:1] * 128, [], 3, bytes(32))
    assert products_of(127, 0) <= MOST_PRODUCTS < products_of(128, 0)


@pytest.mark.long
def test_offers_without_keys_for_products_are_refused(keyed):
    short = made_once(PRODUCTS).encrypting_bytes()
    for evaluating in (b"", short):
        play = Play(2, changing("OfferedKey", lambda m, f, e=evaluating: replace(m, evaluating=e) if f.sender == 1 else m))
        assert play.key("products").key.holder == 3
        assert play.blamed() == {1}
    assert isinstance(keyed.public, PublicContext)


# --- numbers --------------------------------------------------------------------------------------------------------------

sketches = arrays(np.float64, 8, elements=st.floats(-1e3, 1e3, allow_subnormal=False).filter(lambda x: abs(x) > 1e-3))
norms = st.floats(LEAST_NORM, MOST_NORM)


@given(sketches, sketches, norms, norms, st.integers(1, 4))
def test_lengths_carry_norms_and_cosines_come_back(one, other, left, right, digits):
    x, z = carrying(one, left), carrying(other, right)
    assert 19 < np.linalg.norm(x) < 181
    squares = np.array([x @ x, z @ z])
    found = norms_of(rounded_norms(squares, digits), digits)
    half = 0.5 * 10.0**-digits + 1e-9
    assert np.abs(np.log(found / [left, right])).max() <= half
    cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    (units,) = rounded_cosines(np.array([x @ z]), squares[:1], squares[1:], digits)
    assert abs(units / 10**digits - cosine) <= half


def test_an_update_of_zero_has_norm_and_cosines_zero_under_the_noise_of_encryption():
    assert not carrying(np.zeros(4), 0.0).any()
    noisy = np.array([1e-4, -1e-4, 0.0])
    assert rounded_norms(noisy, 3).tolist() == [ZERO] * 3
    assert not norms_of(np.full(3, ZERO, np.int32), 3).any()
    assert rounded_cosines(np.array([1e-4]), np.array([1e-4]), np.array([1e4]), 3).tolist() == [0]


def test_what_cannot_be_encrypted_is_named():
    good = np.ones(4, np.float32)
    assert unsummable(good, MOST_SAMPLES) is None
    assert "samples" in unsummable(good, MOST_SAMPLES + 1)
    for bad in (np.nan, np.inf, 2 * MOST_VALUE):
        assert "not finite" in unsummable(good * np.float32(bad), 1)
    for factor, bad in ((0, False), (LEAST_NORM / 4, True), (LEAST_NORM, False), (MOST_NORM / 4, False), (MOST_NORM, True)):
        assert (unsketchable(good * np.float32(factor)) is not None) == bad
    with pytest.raises(ValueError, match="samples"):
        Weighting({1: 1.0}, True).summand(1, good, MOST_SAMPLES + 1)
    for of in ({}, {1: 0.0}, {1: math.nan}, {1: math.inf}):
        with pytest.raises(ValueError, match="weights"):
            Weighting(of, False)


@given(st.lists(st.floats(-3, 3), min_size=3, max_size=3), st.integers(1, MOST_SAMPLES), st.floats(0.1, 1e6))
def test_a_sum_opens_to_the_mean_and_largest_values_fit(values, samples, weight):
    vector = np.array(values, np.float32)
    weighting = Weighting({1: weight, 2: -weight / 7}, True)
    total = weighting.summand(1, vector, samples) + weighting.summand(1, vector, samples)
    found = opened(total, weighting, (1, 2))
    assert found.weight == pytest.approx(2 * samples * weight, rel=1e-12)
    assert np.allclose(found.mean, vector, rtol=1e-6, atol=1e-9)
    with pytest.raises(ValueError, match="other clients than the 1"):
        opened(total, weighting, (1,))
    largest = weighting.summand(1, np.full(3, MOST_VALUE, np.float32), MOST_SAMPLES)
    assert largest.max() == SCALE * MOST_VALUE * MOST_SAMPLES == 2.0**40
