"""The simulator half: views made from the disclosed values alone, which no trained distinguisher tells from real ones.

Every claim has controls that show the same distinguisher succeed when a protocol is broken. A verdict's intervals hold
together with 1 - 1e-4, so that about 40 verdicts are all right with 99.6 % should the secrets ever be drawn anew; what a verdict
would have found is its `detectable`: with 500 views of a kind judged, an AUC of about 0.6; in the slow tests, with
8,000, 0.525.
"""

import hashlib
from dataclasses import fields

import numpy as np
import pytest
from scipy.stats import norm

import cloister.crypto.additive
import cloister.protocol.masked.client
import cloister.protocol.masked.server
import cloister.protocol.masked.terms
from cloister.crypto.dense_projection import Gaussian
from cloister.crypto.entropy import SimulatedEntropy
from cloister.crypto.masks import add_masks
from cloister.crypto.prg import derive_key
from cloister.crypto.projection import TwoStage
from cloister.crypto.sparse_projection import Sparse
from cloister.protocol.masked.terms import Plan, masked

from .distinguisher import auc_interval, bootstrap_interval, distinguish, of_bytes, of_matrix, of_words
from .masked_sum_session import KINDS, Play, losing, terms
from .simulators import (
    ServerShare,
    masked_view,
    masked_words,
    peeled_ring,
    server_shares,
    server_words,
    simulate_masked_inputs,
    simulate_masked_view,
    simulate_server_share,
    simulate_sketches,
    stand_ins,
    whitening_of,
)

pytestmark = pytest.mark.sweeps


def key(number, purpose=""):
    return hashlib.sha256(f"{purpose} {number}".encode()).digest()


# --- the distinguisher itself -----------------------------------------------------------------------------------------------


def test_the_interval_holds_the_area_as_often_as_it_says():
    """Normal scores a shift apart have an area of Phi(shift / sqrt 2): 90 % intervals of 400 draws miss it 40 times, +-24."""
    rng = np.random.default_rng(0)
    for shift in (0.0, 0.8):
        area = norm.cdf(shift / np.sqrt(2))
        found = [auc_interval(rng.normal(shift, 1, 60), rng.normal(0, 1, 90), 0.9) for _ in range(400)]
        missed = sum(not auc.low <= area <= auc.high for auc in found)
        assert 16 <= missed <= 64


@pytest.mark.long
def test_the_interval_is_that_of_the_bootstrap_also_with_ties():
    rng = np.random.default_rng(1)
    ones, zeros = rng.integers(0, 5, 300) + 1, rng.integers(0, 5, 200)
    delong, resampled = auc_interval(ones, zeros, 0.95), bootstrap_interval(ones, zeros, 0.95, rng, 1000)
    wins = (ones[:, None] > zeros).mean() + (ones[:, None] == zeros).mean() / 2
    assert delong.area == pytest.approx(wins, abs=1e-12)
    assert delong.low == pytest.approx(resampled.low, abs=0.01)
    assert delong.high == pytest.approx(resampled.high, abs=0.01)


@pytest.mark.long
def test_one_distribution_gives_blind_verdicts_and_what_is_detectable_is_detected():
    rng = np.random.default_rng(2)
    for seed in range(5):
        assert distinguish(rng.normal(size=(600, 20)), rng.normal(size=(600, 20)), seed=seed).blind
    verdict = distinguish(rng.normal(size=(2000, 5)), rng.normal(size=(2000, 5)))
    assert verdict.detectable == pytest.approx(0.5 + 0.0129 * (4.15 + 1.28), abs=0.003)
    shift = np.sqrt(2) * norm.ppf(verdict.detectable + 0.02)
    assert not distinguish(rng.normal(shift, 1, (2000, 1)), rng.normal(size=(2000, 1))).blind
    by_a_product = rng.normal(size=(2, 1500, 2))
    by_a_product[1, :, 1] *= np.sign(by_a_product[1, :, 0] * by_a_product[1, :, 1])
    assert distinguish(*by_a_product).told_apart


# --- masked sum: the server's view of two sets of inputs, and of the simulator's ------------------------------------------------

LENGTH = 150
BY_STAGE = {"none": {}} | {kind: {3: stage} for stage, kind in enumerate(KINDS)}
INPUT, REVEAL = KINDS.index("MaskedInput"), KINDS.index("Reveal")
SMALL, LARGE = 1, 16 * 255
"""Inputs of a session: 16 * 255 is the largest that its terms allow."""


def contrary_inputs(n, fates, size, dtype=np.uint32):
    """Two sets of inputs with one sum over the survivors, as far apart as the terms allow; the others' are arbitrary."""
    roster = tuple(range(1, 2 * n, 2))
    alive = [i for i in roster if fates.get(i, 9) > INPUT]
    first = {i: np.full(LENGTH, size if i == alive[0] else 0, dtype) for i in roster}
    last = {i: np.full(LENGTH, 0 if i in alive[:-1] else size, dtype) for i in roster}
    return alive, first, last


def play_views(sessions, n, fates, vectors, start=0, **public):
    views = []
    for number in range(sessions):
        play = Play(n, losing(fates), vectors=vectors, seed=start + number, record=True, length=LENGTH, **public)
        play.run()
        views.append(masked_view(play))
    return views


def words_of(views, bits=32):
    return of_words(np.concatenate([masked_words(v.inputs, v.peeled, v.alive) for v in views]), bits)


def ideal_words(sessions, total, alive, others, bits=32, seed=9):
    rng = np.random.default_rng(seed)
    drawn = (simulate_masked_inputs(total, alive, others, rng) for _ in range(sessions))
    return of_words(np.concatenate([masked_words(*views, alive) for views in drawn]), bits)


def masked_sum_verdicts(sessions, n, fates, size, **public):
    """One set of inputs against the other, against clients fed the sum alone, and against words without any key."""
    bits = public.get("ring_bits", 32)
    alive, one, other = contrary_inputs(n, fates, size, np.uint32 if bits == 32 else np.uint64)
    total = sum(one[i] for i in alive)
    assert (total == sum(other[i] for i in alive)).all()
    seen = [play_views(sessions, n, fates, vectors, 10_000 * k, **public) for k, vectors in enumerate((one, other))]
    fed = [simulate_masked_view(n, total, alive, fates, 50_000 + s, length=LENGTH, **public) for s in range(sessions)]
    for view in (*seen[0], *seen[1], *fed):
        assert view.alive == tuple(alive)
        assert (view.total == total).all()
        assert (sum(view.peeled[i] for i in alive) == total).all()
    others = sorted(set(seen[0][0].inputs) - set(alive))
    real = words_of(seen[0], bits)
    yield "other inputs", distinguish(real, words_of(seen[1], bits))
    yield "stand-ins", distinguish(real, words_of(fed, bits))
    yield "no keys", distinguish(real, ideal_words(sessions, total, alive, others, bits))


@pytest.mark.parametrize("fates", BY_STAGE.values(), ids=BY_STAGE)
@pytest.mark.long
def test_masked_inputs_tell_the_sum_alone_whoever_falls_silent(fates):
    """The columns of 7 sessions of four clients. The input that arrives too late is in the view, under its self mask."""
    for against, verdict in masked_sum_verdicts(7, 4, fates, LARGE):
        assert verdict.blind, f"{against}: {verdict}"


@pytest.mark.parametrize(
    ("n", "public", "size"),
    [(4, {"ring_bits": 64}, LARGE), (4, {}, SMALL), (6, {"neighbours": 4}, LARGE)],
    ids=["64 bits", "small inputs", "regular graph"],
)
@pytest.mark.long
def test_masked_inputs_tell_the_sum_alone_in_either_ring_and_on_graphs(n, public, size):
    for against, verdict in masked_sum_verdicts(6, n, {3: INPUT}, size, **public):
        assert verdict.blind, f"{against}: {verdict}"


@pytest.mark.parametrize("fates", BY_STAGE.values(), ids=BY_STAGE)
@pytest.mark.parametrize("graph", [{}, {"neighbours": 4}], ids=["complete", "regular"])
def test_with_the_same_secrets_only_masked_inputs_depend_on_the_inputs(fates, graph):
    """So the rest of the view, byte for byte, is a function of secrets, roster and fates: a simulator needs nothing for it."""
    n = 6 if graph else 4
    alive, one, other = contrary_inputs(n, fates, LARGE)
    views = [play_views(1, n, fates, vectors, 5, **graph)[0] for vectors in (one, other)]
    views.append(simulate_masked_view(n, sum(one[i] for i in alive), alive, fates, 5, length=LENGTH, **graph))
    assert views[0].alive == tuple(alive)
    for view in views[1:]:
        assert view.alive == views[0].alive
        assert (view.total == views[0].total).all()
        for a, b in zip(views[0].frames, view.frames, strict=True):
            assert a[:3] == b[:3]
            assert a[0] == "MaskedInput" or a[3] == b[3]


def session_features(view):
    """Moments of the bytes of a session's messages, kind by kind, and of the peeled inputs."""
    kinds = dict.fromkeys(kind for kind, *_ in view.frames)
    by_kind = [b"".join(data for kind, *_, data in view.frames if kind == k) for k in kinds]
    return np.concatenate([of_bytes(data) for data in (*by_kind, *(p.tobytes() for p in view.peeled.values()))])


@pytest.mark.slow
def test_whole_sessions_of_one_sum_are_alike():
    """All frames, seeds that the server recovers included; 80 sessions of a kind. Clear inputs show at once."""
    fates = {3: INPUT}
    alive, one, _ = contrary_inputs(3, fates, LARGE)
    total = sum(one[i] for i in alive)
    real = play_views(80, 3, fates, one)
    fed = [simulate_masked_view(3, total, alive, fates, 50_000 + s, length=LENGTH) for s in range(80)]
    verdict = distinguish(real, fed, session_features)
    assert verdict.blind, verdict


# --- the same distinguisher, and masked sums that are broken --------------------------------------------------------------------


def broken_against_ideal(monkeypatch, breaking, fates=None, sessions=4):
    fates = fates or {}
    alive, one, _ = contrary_inputs(4, fates, LARGE)
    with monkeypatch.context() as patch:
        breaking(patch)
        seen = play_views(sessions, 4, fates, one)
    others = sorted(set(seen[0].inputs) - set(alive))
    return distinguish(words_of(seen), ideal_words(sessions, sum(one[i] for i in alive), alive, others))


def no_masks(patch):
    patch.setattr(cloister.protocol.masked.client, "masked", lambda vector, keys: vector.copy())


def no_self_mask(patch):
    patch.setattr(cloister.protocol.masked.client, "masked", lambda vector, keys: masked(vector, list(keys)[1:]))


def self_mask_alone(patch):
    patch.setattr(cloister.protocol.masked.client, "masked", lambda vector, keys: masked(vector, list(keys)[:1]))


def short_keystream(patch):
    """Masks of 31 bits in a ring of 32."""

    def low(total, signed_keys):
        for key_, sign in signed_keys:
            stream = np.zeros_like(total)
            add_masks(stream, [(key_, 1)])
            stream &= np.uint32(2**31 - 1)
            total += stream if sign == 1 else np.uint32(0) - stream

    patch.setattr(cloister.protocol.masked.terms, "add_masks", low)


@pytest.mark.long
def test_masked_sums_without_masks_are_told_apart(monkeypatch):
    assert broken_against_ideal(monkeypatch, no_masks).told_apart
    assert broken_against_ideal(monkeypatch, self_mask_alone).told_apart
    assert broken_against_ideal(monkeypatch, lambda patch: None).blind


def test_a_keystream_that_leaves_the_top_bit_alone_is_told_apart(monkeypatch):
    assert broken_against_ideal(monkeypatch, short_keystream).told_apart


def test_a_missing_self_mask_is_told_apart_once_an_input_comes_too_late(monkeypatch):
    """What it is there for (Bonawitz et al. 2017, section 4.0.2): without dropouts it would not be missed."""
    assert broken_against_ideal(monkeypatch, no_self_mask, {3: INPUT}).told_apart


def two_rounds(sessions, vectors, start=0):
    """Words of two rounds of the same clients, and the differences between the rounds. vectors: one set for each round."""
    words = []
    for seed in range(start, start + sessions):
        views = []
        for round_, inputs in enumerate(vectors):
            play = Play(4, vectors=inputs, seed=seed, record=True, length=LENGTH, round=round_)
            play.run()
            views.append(masked_view(play))
        differences = [a[i] - b[i] for a, b in ((v.peeled, w.peeled) for v, w in [views]) for i in a]
        differences += [views[0].inputs[i] - views[1].inputs[i] for i in views[0].inputs]
        words.append(np.stack(differences, axis=1))
    return of_words(np.concatenate(words), 32)


@pytest.mark.long
def test_keys_of_one_round_are_no_keys_of_another(monkeypatch):
    """Rounds of different inputs with one sum. Keys that do not bind the session show every client's change."""
    _, one, other = contrary_inputs(4, {}, LARGE)
    assert distinguish(two_rounds(5, (one, other)), two_rounds(5, (one, one), 500)).blind
    secret = SimulatedEntropy.secret
    with monkeypatch.context() as patch:
        patch.setattr(SimulatedEntropy, "secret", lambda self, label, size: secret(self, " ".join(label.split(" ")[:3]), size))
        patch.setattr(cloister.protocol.masked.client, "derive_key", lambda s, purpose, context: derive_key(s, purpose, b""))
        patch.setattr(Plan, "pair", lambda self, a, b: bytes([min(a, b), max(a, b)]))
        patch.setattr(Plan, "self_mask_key", lambda self, client, seed: derive_key(seed, "self mask", bytes([client])))
        reused = two_rounds(5, (one, other))
    assert distinguish(reused, two_rounds(5, (one, one), 500)).told_apart


def test_one_key_for_two_pairs_is_told_apart():
    """On a ring of four: with one key for the pairs (0, 1) and (2, 3), the inputs of 0 and 3 add up without a mask."""
    inputs = [np.full(LENGTH, LARGE * (i == 0), np.uint32) for i in range(4)]
    ideal = ideal_words(5, sum(inputs), range(4), ())

    def seen(pairs):
        views = [peeled_ring([key(10 * s + p) for p in pairs], inputs) for s in range(5)]
        uniform = np.random.default_rng(4)
        received = [{i: uniform.integers(0, 2**32, LENGTH, np.uint32) for i in view} for view in views]
        return of_words(np.concatenate([masked_words(y, z, range(4)) for y, z in zip(received, views, strict=True)]), 32)

    assert distinguish(seen((0, 1, 2, 3)), ideal).blind
    assert distinguish(seen((0, 1, 0, 3)), ideal).told_apart


def test_stand_ins_are_inputs_within_the_terms():
    """Or the simulator's clients would refuse them: a mean of allowed inputs, rounded up, is allowed."""
    for total in (0, 1, 5, 3 * terms(4).largest):
        spread = stand_ins(np.full(3, total, np.uint32), (1, 5, 7), (1, 3, 5, 7))
        assert sum(int(v[0]) for v in spread.values()) == total
        assert max(int(v[0]) for v in spread.values()) <= -(-total // 3)
        assert not spread[3].any()


# --- the two-stage sketch -------------------------------------------------------------------------------------------------------

CLIENTS, K = 4, 8


def structured(d):
    """Sets of four updates of d coordinates, by what is special about them."""
    rng = np.random.default_rng(5)
    sparse = rng.normal(size=(CLIENTS, d)) * (rng.random((CLIENTS, d)) < 3 / d)
    sparse[:, 0] += 0.1
    clustered = rng.normal(size=(2, d)).repeat(2, axis=0) + 0.05 * rng.normal(size=(CLIENTS, d))
    one_hot = np.zeros((CLIENTS, d))
    one_hot[range(CLIENTS), (0, 0, 5, d - 1)] = (1, -2, 30, 1e-3)
    return {
        "sparse": sparse,
        "clustered": clustered,
        "heavy-tailed": rng.standard_t(1.1, (CLIENTS, d)),
        "one-hot": one_hot,
        "one zero": np.concatenate([np.zeros((1, d)), rng.normal(size=(CLIENTS - 1, d))]),
    }


def sketch_verdict(views, real, gram, *, start=0, features=None):
    """`views` sketches of fresh seeds, real(seed) -> (n, k), against simulated ones of this Gram matrix."""
    rng = np.random.default_rng(start + 77)
    whitening = whitening_of(gram, K)
    of = features or (lambda view: of_matrix(view, whitening))
    return distinguish([real(start + s) for s in range(views)], [simulate_sketches(gram, K, rng) for _ in range(views)], of)


def second_stage(updates, scale=1.0, kind=Gaussian.draw):
    d = updates.shape[1]
    return (lambda s: scale * kind(key(s, "secret"), d, K).apply(updates)), updates @ updates.T


@pytest.mark.parametrize(("d", "what"), [*((16, what) for what in structured(16)), (200, "sparse"), (200, "heavy-tailed")])
@pytest.mark.long
def test_secret_sketches_tell_the_gram_matrix_alone(what, d):
    verdict = sketch_verdict(1600, *second_stage(structured(d)[what]))
    assert verdict.blind, verdict


@pytest.mark.parametrize("what", ["sparse", "heavy-tailed"])
@pytest.mark.long
def test_whole_sketches_tell_the_gram_matrix_of_the_projected_updates_alone(what):
    """At d = 9,000, with the public stage that brings it to 8,192. The real views come from `TwoStage` itself."""
    updates = structured(9000)[what]
    public = TwoStage.draw(key(0, "public"), key(0), 9000, K).public
    gram = public.apply(updates) @ public.apply(updates).T
    verdict = sketch_verdict(400, lambda s: TwoStage.draw(key(0, "public"), key(s), 9000, K).apply(updates), gram)
    assert verdict.blind, verdict


@pytest.mark.long
def test_sketches_with_another_scale_are_told_apart():
    """A spread that is 15 % too large or too small, a forgotten 1 / sqrt(k), a public stage that is not rescaled."""
    updates = structured(200)["heavy-tailed"]
    for scale in (1.15, 1 / 1.15, np.sqrt(K)):
        assert sketch_verdict(1000, *second_stage(updates, scale)).told_apart
    long = structured(9000)["clustered"]
    public = TwoStage.draw(key(0, "public"), key(0), 9000, K).public
    inner = public.apply(long) * np.sqrt(public.k)
    real, gram = second_stage(inner)[0], public.apply(long) @ public.apply(long).T
    assert sketch_verdict(150, real, gram).told_apart


def test_a_sketch_that_is_not_isotropic_is_told_apart():
    real, gram = second_stage(structured(200)["one-hot"], kind=lambda *a: Sparse.draw(*a, s=3.0))
    assert sketch_verdict(1000, real, gram).told_apart


@pytest.mark.long
def test_a_known_seed_tells_the_updates_and_not_only_their_gram_matrix():
    """Two sets of one Gram matrix: alike for who lacks the seed; who has it compares with the sketch of a guess."""
    updates = structured(16)["sparse"]
    turned = updates @ np.linalg.qr(np.random.default_rng(1).normal(size=(16, 16)))[0]
    whitening = whitening_of(updates @ updates.T, K)

    def views(of, start):
        return [(s, Gaussian.draw(key(s), 16, K).apply(of)) for s in range(start, start + 1000)]

    def guessed(seen):
        seed, view = seen
        return np.abs(view - Gaussian.draw(key(seed), 16, K).apply(updates)).ravel()

    one, other = views(updates, 0), views(turned, 5000)
    assert distinguish(one, other, lambda seen: of_matrix(seen[1], whitening)).blind
    assert distinguish(one, other, guessed).told_apart


@pytest.mark.long
def test_one_seed_for_two_rounds_discloses_the_gram_matrix_of_both():
    """Fed each round's own Gram matrix, a simulator fails; fed that of all stored updates, it does not. Fresh seeds need less."""
    first, second = structured(16)["clustered"], structured(16)["heavy-tailed"]
    both = np.concatenate([first, second])
    apart = both @ both.T
    apart[:CLIENTS, CLIENTS:] = apart[CLIENTS:, :CLIENTS] = 0

    def fresh(s):
        return np.concatenate([Gaussian.draw(key(s, r), 16, K).apply(x) for r, x in (("0", first), ("1", second))])

    kept = second_stage(both)[0]
    assert sketch_verdict(1000, kept, both @ both.T).blind
    assert sketch_verdict(400, kept, apart).told_apart
    assert sketch_verdict(1000, fresh, apart).blind


# --- two servers ----------------------------------------------------------------------------------------------------------------

ROWS, D, WIDTH, MAGNITUDE = 2, 4, 3, 1 << 20
PROJECTION = np.random.default_rng(6).integers(-2, 3, (D, WIDTH))


def updates_of(kind):
    """Small, skewed or opposite updates: int64 (ROWS, D)."""
    return {
        "zero": np.zeros((ROWS, D), np.int64),
        "skewed": np.array([[MAGNITUDE, 0, 0, 1], [0, -1, 0, 0]]),
        "opposite": np.array([[5, -7, 11, 2], [-5, 7, -11, -2]]) * 1000,
    }[kind]


def gram_of(updates):
    rows = updates @ PROJECTION
    return rows @ rows.T


def real_shares(party, updates, views, start=0, same_dealer=False):
    return [
        server_shares(updates, PROJECTION, MAGNITUDE, key(s, "share"), key(0 if same_dealer else s, "deal"))[party]
        for s in range(start, start + views)
    ]


def ideal_shares(party, gram, views, seed=3):
    rng = np.random.default_rng(seed)
    return [simulate_server_share(party, gram, PROJECTION, rng) for _ in range(views)]


def share_verdict(real, simulated):
    real, simulated = (np.stack([server_words(view) for view in side]) for side in (real, simulated))
    return distinguish(of_words(real, 64), of_words(simulated, 64))


@pytest.mark.parametrize("kind", ["skewed", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("zero", "opposite"))])
@pytest.mark.parametrize("party", [0, 1])
def test_a_server_of_two_sees_the_gram_matrix_alone(party, kind):
    updates = updates_of(kind)
    real, simulated = real_shares(party, updates, 600), ideal_shares(party, gram_of(updates), 600)
    for view in (real[0], simulated[0]):
        assert (view.own + view.other == gram_of(updates).view(np.uint64)).all()
        assert {f.name: getattr(view, f.name).shape for f in fields(ServerShare) if f.name != "party"} == {
            "uploads": (ROWS, D),
            **dict.fromkeys(("rows", "mask", "opened"), (ROWS, WIDTH)),
            **dict.fromkeys(("square", "other"), (ROWS, ROWS)),
        }
    verdict = share_verdict(real, simulated)
    assert verdict.blind, verdict


def test_it_does_see_the_gram_matrix():
    real, wrong = real_shares(0, updates_of("skewed"), 300), ideal_shares(0, gram_of(updates_of("opposite")), 300)
    assert share_verdict(real, wrong).told_apart


def with_uniform(monkeypatch, uniform, party=0, kind="skewed"):
    """Shares and triples from another stream than the keys'."""
    updates = updates_of(kind)
    with monkeypatch.context() as patch:
        patch.setattr(cloister.crypto.additive, "_uniform", uniform)
        real = real_shares(party, updates, 300)
    return share_verdict(real, ideal_shares(party, gram_of(updates), 300))


@pytest.mark.slow
def test_short_streams_and_missing_masks_are_told_apart(monkeypatch):
    full = cloister.crypto.additive._uniform
    assert with_uniform(monkeypatch, full).blind
    assert with_uniform(monkeypatch, lambda *a: full(*a) >> np.uint64(4)).told_apart
    assert with_uniform(monkeypatch, lambda *a: full(*a) << np.uint64(4)).told_apart
    assert with_uniform(monkeypatch, lambda k, *shape: full(k, *shape) * np.uint64(shape != (ROWS, WIDTH))).told_apart  # A = 0
    for party in (0, 1):  # the dealer's A A^T shared by nothing but itself
        clear = with_uniform(monkeypatch, lambda k, *s: full(k, *s) * np.uint64(s != (ROWS, ROWS)), party)
        assert clear.told_apart


@pytest.mark.long
def test_a_triple_that_serves_two_gram_matrices_tells_the_difference_of_the_updates():
    def differences(same_dealer):
        sides = [real_shares(0, updates_of(kind), 400, start, same_dealer) for kind, start in (("opposite", 0), ("zero", 400))]
        pairs = zip(*sides, strict=True)
        return of_words(np.stack([np.concatenate([(a.opened - b.opened).ravel(), a.other.ravel()]) for a, b in pairs]), 64)

    rng = np.random.default_rng(8)
    uniform = of_words(rng.integers(0, 2**64, (400, ROWS * WIDTH + ROWS**2), np.uint64), 64)
    assert distinguish(differences(False), uniform).blind
    assert distinguish(differences(True), uniform).told_apart


# --- more of the same, in narrow intervals --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("fates", [*BY_STAGE.values(), {3: INPUT, 5: REVEAL}], ids=[*BY_STAGE, "two"])
def test_masked_sums_of_many_sessions(fates):
    for against, verdict in masked_sum_verdicts(105, 6, fates, LARGE, neighbours=4 if len(fates) < 2 else 5):
        assert verdict.blind, f"{against}: {verdict}"
        assert verdict.detectable < 0.53


@pytest.mark.slow
def test_many_whole_sessions():
    fates = {3: INPUT}
    alive, one, _ = contrary_inputs(3, fates, LARGE)
    total = sum(one[i] for i in alive)
    real = play_views(3000, 3, fates, one)
    fed = [simulate_masked_view(3, total, alive, fates, 50_000 + s, length=LENGTH) for s in range(3000)]
    verdict = distinguish(real, fed, session_features)
    assert verdict.blind, verdict
    assert verdict.detectable < 0.56


@pytest.mark.slow
@pytest.mark.parametrize("what", structured(16))
def test_many_sketches_of_both_stages(what):
    verdict = sketch_verdict(16_000, *second_stage(structured(16)[what]))
    assert verdict.blind, verdict
    assert verdict.detectable < 0.53
    updates = structured(9000)[what]
    public = TwoStage.draw(key(0, "public"), key(0), 9000, K).public
    gram = public.apply(updates) @ public.apply(updates).T
    verdict = sketch_verdict(4000, lambda s: TwoStage.draw(key(0, "public"), key(s), 9000, K).apply(updates), gram)
    assert verdict.blind, verdict
    assert verdict.detectable < 0.55


@pytest.mark.slow
@pytest.mark.parametrize("party", [0, 1])
def test_many_views_of_two_servers(party):
    updates = updates_of("skewed")
    verdict = share_verdict(real_shares(party, updates, 16_000), ideal_shares(party, gram_of(updates), 16_000))
    assert verdict.blind, verdict
    assert verdict.detectable < 0.53
