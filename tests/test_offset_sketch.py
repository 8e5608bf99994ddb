"""Sketches behind a secret offset: exact in what differs, uniform in everything else, and one sum an update."""

from dataclasses import replace

import numpy as np
import pytest

from cloister.crypto.entropy import OsEntropy, SimulatedEntropy
from cloister.crypto.offset_sketch import LARGEST, OffsetSketch, differences
from cloister.protocol import Masked, Plain
from cloister.protocol.core.errors import ProtocolError, Refused
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.drivers.roles import Deadline, Received
from cloister.protocol.parts.history import apart
from cloister.protocol.parts.offset_sketches import CollectingSketches, SketchesCollected, server_step, to_words
from cloister.protocol.view.answers import Assignment, BelowFloor, Model, Remembered, Sum, Weights
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalWork
from cloister.protocol.wire.codec import Envelope
from cloister.protocol.wire.messages import OffsetSketched
from cloister.protocol.work.sketch_keys import RatchetedKeys, SketchTerms

from . import sides
from .distinguisher import distinguish

D, K, RADIUS = 300, 24, 50.0
INIT = Model("init")
CLIENTS = tuple(range(8))
KEY = bytes(range(32))


def rows_of(n=6, d=D, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)


def drawn(key=KEY, k=K):
    return OffsetSketch.draw(b"p" * 32, key, D, k, RADIUS)


# --- the sketch -------------------------------------------------------------------------------------------------------


def test_differences_of_sketches_are_sketches_of_differences():
    sketch, rows = drawn(), rows_of()
    found, fits = differences([sketch.apply(row) for row in rows], sketch.step)
    exact = sketch.sketch.apply(rows) - sketch.sketch.apply(rows[0])
    assert fits.all()
    assert np.abs(found - exact).max() <= 2 * sketch.step + 1e-12


@pytest.mark.parametrize("scale", [1e-6, 1.0, 3.0])
def test_one_offset_hides_what_all_have_in_common(scale):
    sketch, rows, common = drawn(), rows_of(), scale * rows_of(1, seed=9)[0]
    one, _ = differences([sketch.apply(row) for row in rows], sketch.step)
    other, _ = differences([sketch.apply(row + common) for row in rows], sketch.step)
    assert np.abs(one - other).max() < 1e-5


def test_a_sketch_alone_is_uniform_whatever_it_is_of():
    for vector in (np.zeros(D, np.float32), rows_of(1)[0]):
        words = np.stack([drawn(bytes([s // 256, s % 256]) * 16).apply(vector) for s in range(400)])
        bits = np.unpackbits(words.view(np.uint8), axis=1).mean(axis=0)
        assert np.abs(bits - 0.5).max() < 6 * 0.5 / np.sqrt(400)


@pytest.mark.long
def test_the_view_is_simulated_from_the_products_of_differences():
    """Fresh keys: what the server sees of three updates, against numbers drawn from the differences' Gram matrix alone."""
    rows, rng = rows_of(3), np.random.default_rng(5)
    apart_ = rows[1:].astype(np.float64) - rows[0]
    root = np.linalg.cholesky(apart_ @ apart_.T)

    def real(seed):
        sketch = drawn(seed.to_bytes(2, "big") * 16)
        return differences([sketch.apply(row) for row in rows], sketch.step)[0][1:].T

    def made():
        return (root @ rng.standard_normal((2, K)) / np.sqrt(K)).T

    def features(view):
        whole = np.linalg.solve(root, view.T)
        return np.concatenate([whole.ravel(), (whole @ whole.T).ravel()])

    assert distinguish([real(s) for s in range(800)], [made() for _ in range(800)], features).blind
    assert distinguish([1.3 * real(s) for s in range(800)], [made() for _ in range(800)], features).told_apart


def test_what_is_far_too_long_is_not_sketched_and_garbage_is_told_from_the_rest():
    sketch, rows = drawn(), rows_of()
    with pytest.raises(ValueError, match="out of range"):
        sketch.apply(1e4 * np.float32(RADIUS) * rows[0])
    words = [sketch.apply(row) for row in rows]
    words[0] = np.random.default_rng(1).integers(0, 2**64, K, np.uint64)
    found, fits = differences(words, sketch.step)
    assert fits.tolist() == [False, *[True] * 5]
    assert np.abs(found[2] - found[1] - sketch.sketch.apply(rows[2] - rows[1])).max() < 1e-5
    assert differences([], 1.0)[0].shape == (0, 0)
    assert 2 * LARGEST < 2**63


def test_parts_have_one_sketch_and_offsets_of_their_own():
    sketch = drawn()
    row = rows_of(1)[0]
    one, other = sketch.part(b"one"), sketch.part(b"other")
    assert not np.array_equal(one.apply(row), other.apply(row))
    assert np.array_equal(one.apply(row) - one.offset, sketch.apply(row) - sketch.offset)
    assert "key" not in repr(sketch)
    assert "offset" not in repr(sketch)


def test_keys_are_forgotten_with_their_round_and_a_latecomers_chain_opens_nothing_earlier():
    early, late = (RatchetedKeys(bytes(32), SketchTerms("session", bytes(16), D, K, RADIUS)) for _ in range(2))
    first = early.key(b"s" * 32)
    early.advance(3)
    assert early.key(b"s" * 32) != first
    assert first not in vars(early).values()
    assert not early._drawn
    late.advance(2)
    late.advance(3)
    assert late.key(b"s" * 32) == early.key(b"s" * 32)
    early.advance(1)
    assert early.key(b"s" * 32) == late.key(b"s" * 32), "no way back"


# --- the server's role ------------------------------------------------------------------------------------------------


def gathering():
    session = Session("uploads/update offset sketch", bytes(16), 0, "a", (1, 2, 3), 1)
    return CollectingSketches(session, K)


def sent(client, words):
    return Received(Envelope(gathering().session.digest, client, SERVER, OffsetSketched(words)))


def test_the_server_takes_one_sketch_of_each_and_blames_who_sends_others():
    state, words = gathering(), to_words(np.arange(K, dtype=np.uint64))
    state, _ = server_step(state, sent(2, words))
    for event in (sent(2, words), sent(9, words), sent(3, words + bytes(8))):
        with pytest.raises(ProtocolError) as error:
            server_step(state, event)
        assert error.value.blame == event.envelope.sender
    state, _ = server_step(state, Deadline())
    assert isinstance(state, SketchesCollected)
    assert list(state.received) == [2]
    assert np.array_equal(state.received[2], np.arange(K))
    with pytest.raises(ProtocolError, match="after the deadline"):
        server_step(state, sent(1, words))


@pytest.mark.parametrize("words", [b"", bytes(7), bytes(12), bytes((1 << 20) + 8)])
def test_sketches_of_no_whole_words_or_too_many_are_no_messages(words):
    with pytest.raises(ValueError, match="words"):
        OffsetSketched(words)


# --- in a view --------------------------------------------------------------------------------------------------------


def update_of(client, round, d=D):
    rng = np.random.default_rng([client, round])
    return (0.2 + np.random.default_rng(client // 4).standard_normal(d) + 0.3 * rng.standard_normal(d)).astype(np.float32) / 8


def works(jobs):
    for job in jobs:
        yield job.client, LocalWork(update_of(job.client, job.round), 10 + job.client)


def opened(protection=Masked(sketch=150), tap=None, workers=works, entropy=None):
    return protection.open(Setup(bytes(16), np.zeros(D, np.float32), CLIENTS, workers, entropy or SimulatedEntropy(3), tap))


def trained(view, round=0, clients=CLIENTS, name="root"):
    return view.train(round, {name: Assignment(INIT, clients, CLIENTS)})[name]


def uniform(clients=CLIENTS, **more):
    return Weights(dict.fromkeys(clients, 1.0), **more)


def test_the_gram_matrix_is_of_deviations_from_the_mean_within_its_tolerance():
    view = opened()
    gram = view.gram(trained(view))
    rows = np.stack([update_of(i, 0) for i in CLIENTS]).astype(np.float64)
    rows -= rows.mean(axis=0)
    norms = np.linalg.norm(rows, axis=1)
    assert np.abs(gram.matrix.sum(axis=0)).max() < 1e-8 * norms.max() ** 2
    assert (np.abs(gram.matrix - rows @ rows.T) <= gram.tolerance * np.outer(norms, norms)).all()
    assert np.corrcoef(gram.matrix.ravel(), (rows @ rows.T).ravel())[0, 1] > 0.95


def test_what_the_server_holds_does_not_depend_on_what_all_updates_share():
    """The updates moved by one vector: the same sketches' differences, bit by bit of the differences' rounding."""
    found = []
    for shift in (0.0, 0.5):

        def shifted(jobs, shift=shift):
            return ((i, replace(work, vector=work.vector + np.float32(shift))) for i, work in works(jobs))

        view = opened(workers=shifted)
        found.append(view.gram(trained(view)).matrix)
    assert np.allclose(*found, atol=1e-5)


def test_one_form_of_sketch_and_one_sum_of_an_update():
    view = opened()
    updates = trained(view)
    view.gram(updates)
    with pytest.raises(Refused, match="ask in one way"):
        view.gram(updates, origin=True)
    assert isinstance(view.sums(updates, {"a": uniform()})["a"], Sum)
    assert isinstance(view.sums(updates, {"twice": Weights(dict.fromkeys(CLIENTS, 2.0))})["twice"], Sum)
    with pytest.raises(Refused, match="would be another"):
        view.sums(updates, {"b": Weights({i: 1.0 + i % 2 for i in CLIENTS})})
    with pytest.raises(Refused, match="would be another"):
        view.sums(updates, {"b": uniform(CLIENTS[:4])})
    updates = trained(view, 1)
    view.sums(updates, {"a": uniform(), "b": Weights({i: 1.0 + i % 2 for i in CLIENTS})})
    with pytest.raises(Refused, match="several sums"):
        view.gram(updates)
    assert view.gram(updates, origin=True).clients == CLIENTS
    with pytest.raises(Refused, match="ask in one way"):
        view.gram(updates)
    with pytest.raises(Refused, match="about the origin"):
        view.keep(updates, CLIENTS)


def test_clients_refuse_the_other_form_by_themselves():
    """A server that forgets what it asked for gets nothing from the clients."""
    view = opened()
    updates = trained(view)
    view.gram(updates)
    sides.gate(view).told[updates.name].form = None
    assert view.gram(updates, origin=True).clients == ()
    assert {fault.reason for fault in view.record.faults} == {"a sketch of work that was sketched the other way"}


def test_later_clients_are_placed_by_a_split_under_its_own_key():
    view, plain = opened(), opened(Plain())
    cosines = []
    for one in (view, plain):
        edge = one.edge(trained(one, 0, (0, 1, 2, 4, 5)), (0, 1, 2, 4, 5))
        one.harness.retire([INIT], [edge])
        later = trained(one, 7, (3, 6, 7))
        cosines.append(one.cosines(later, edge))
    assert np.abs(cosines[0] - cosines[1]).max() < 6 / np.sqrt(150)
    assert cosines[0][0, :3].min() > 0 > cosines[0][0, 3:].max(), "client 3 is of the first group"
    assert (cosines[0][1:, 3:].min(axis=1) > cosines[0][1:, :3].max(axis=1)).all()
    told = [entry for entry in view.record.log if entry.what == "gram(edge)"]
    assert [(entry.recipient, entry.about) for entry in told] == [("server", CLIENTS)]
    with pytest.raises(Refused, match="are gone"):
        view.cosines(later, Remembered("nobody's/edge", (0,)))


def test_updates_are_compared_with_one_split_or_told_of_otherwise():
    """Distances to two means whose difference is published are a component of each update."""
    view = opened()
    first = trained(view)
    edge, other = view.edge(first, (0, 1, 4, 5)), view.edge(trained(view, 1), CLIENTS)
    mean = {"mean": Weights(dict.fromkeys(CLIENTS, 1.0))}
    for t, tell in ((2, lambda updates: view.sums(updates, mean)), (3, view.gram), (4, lambda u: view.gram(u, origin=True))):
        updates = trained(view, t)
        tell(updates)
        with pytest.raises(Refused, match="a split is compared with updates of which nothing is told"):
            view.cosines(updates, edge)
    placed = trained(view, 5)
    view.cosines(placed, edge)
    with pytest.raises(Refused, match="another split"):
        view.cosines(placed, other)
    stored = (lambda updates: view.keep(updates, CLIENTS), lambda updates: view.edge(updates, CLIENTS))
    for tell in (view.gram, lambda updates: view.gram(updates, origin=True), *stored):
        with pytest.raises(Refused, match="compared with a split"):
            tell(placed)
    with pytest.raises(Refused, match="compared with a split"):
        view.sums(placed, mean)


def test_what_is_kept_is_not_compared_about_the_origin():
    view = opened()
    updates = trained(view)
    view.keep(updates, CLIENTS)
    with pytest.raises(Refused, match="by differences"):
        view.gram(updates, origin=True)


@pytest.mark.parametrize("keys", ["session", "run"])
def test_of_who_sends_no_sketch_nothing_is_kept(keys):
    """It was asked for all that, and the run ended: a member can be compared by its gradient and sketch no update."""
    view = opened(
        Masked(sketch=150, keys=keys), lambda f: [] if f.kind in ("Upload", "OffsetSketched") and f.sender == 6 else [f]
    )
    assert view.edge(trained(view), CLIENTS).clients == tuple(i for i in CLIENTS if i != 6)


def test_who_sends_no_sketch_has_no_cosines_to_a_split():
    lost = {"who": None}

    def tap(frame):
        return [] if frame.kind == "OffsetSketched" and frame.sender == lost["who"] else [frame]

    view = opened(tap=tap)
    edge = view.edge(trained(view), CLIENTS)
    lost["who"] = 6
    found = view.cosines(trained(view, 1, (3, 6, 7)), edge)
    assert np.isnan(found[1]).all()
    assert not np.isnan(found[[0, 2]]).any()


@pytest.mark.parametrize("entropy", [SimulatedEntropy(8), OsEntropy()], ids=lambda e: type(e).__name__)
def test_splits_and_kept_updates_survive_a_resume(entropy):
    """Under fresh secrets too: a resumed run needs none of the old session keys but those of its splits."""
    view = opened(entropy=entropy)
    first = trained(view)
    edge, kept = view.edge(first, (0, 1, 4, 5)), view.keep(first, CLIENTS)
    view.harness.retire([INIT], [edge, kept])
    snapshot = view.harness.save()
    again = opened(entropy=entropy)
    again.harness.restore(snapshot, [edge, kept])
    found = [(one.cosines(trained(one, 1, (2, 3, 6)), edge), one.recall(1, [kept])) for one in (view, again)]
    assert np.allclose(found[0][0], found[1][0], atol=1e-6)
    assert np.abs(found[0][1].matrix - found[1][1].matrix).max() <= 2 * found[0][1].tolerance * found[0][1].matrix.max()


def test_kept_updates_are_recalled_once_and_compared_about_their_own_means():
    view, plain = opened(), opened(Plain())
    grams = []
    for one in (view, plain):
        old = one.keep(trained(one, 0), CLIENTS)
        before = len(one.record.log)
        new = one.keep(trained(one, 1, (0, 1, 4)), (0, 1, 4))
        grams.append(one.recall(1, [replace(old, clients=(2, 3, 5, 6, 7)), new]))
    assert {entry.what for entry in view.record.log[before:]} == {"roster", "participation", "sketches", "gram(recall)"}
    assert grams[0].clients == grams[1].clients == CLIENTS
    norms = np.sqrt(np.diagonal(grams[1].matrix))
    assert (np.abs(grams[0].matrix - grams[1].matrix) <= grams[0].tolerance * np.outer(norms, norms) + 1e-9).all()
    at = [CLIENTS.index(i) for i in (0, 1, 4)]
    assert np.abs(grams[1].matrix[at][:, at].sum(axis=0)).max() < 1e-4, "a whole session has a mean of its own"
    with pytest.raises(Refused, match="are gone"):
        view.recall(1, [replace(old, clients=(0, 99))])


def test_what_is_kept_is_asked_for_once_a_round():
    """Clients answer one such question a round; a second one would be about nobody."""
    view = opened()
    kept = view.keep(trained(view, 0), (2, 3, 5))
    assert view.recall(0, [kept]).clients == (2, 3, 5)
    with pytest.raises(Refused, match="client 2 was asked in round 0 for what it keeps"):
        view.recall(0, [kept])
    view.harness.retire([Model("init")], [kept])
    trained(view, 1, (6, 7))
    assert view.recall(1, [kept]).clients == (2, 3, 5)


def test_what_is_apart_in_a_recall():
    whole, left = Remembered("a/kept", (1, 2, 3), of=3), Remembered("b/kept", (4, 5), of=4)
    alone, single = Remembered("c/kept", (6,), of=3), Remembered("d/kept", (7,), of=1)
    assert apart([whole, left, alone, single]) == [(1, 2, 3), (4, 5, 6)]
    assert apart([alone, single]) == apart([]) == []


@pytest.mark.parametrize("protection", [Plain(), Masked(), Masked(sketch=50, keys="run"), Masked(ring_bits=64)], ids=repr)
@pytest.mark.parametrize("times_samples", [False, True])
def test_the_mean_squared_norm_rides_along(protection, times_samples):
    view = opened(protection)
    answer = view.sums(trained(view), {"a": uniform(energy=True, times_samples=times_samples)})["a"]
    squares = np.array([np.square(update_of(i, 0), dtype=np.float64).sum() for i in CLIENTS])
    counts = np.array([10 + i if times_samples else 1 for i in CLIENTS])
    assert answer.energy == pytest.approx(float(squares @ counts / counts.sum()), rel=1e-5)
    assert view.sums(trained(view, 1), {"a": uniform()})["a"].energy is None


def test_tiny_and_large_updates_have_their_energy_too():
    for scale in (1e-6, 1e-2, 30.0):
        vector = np.full(D, scale / 8, np.float32)
        view = opened(workers=lambda jobs, vector=vector: ((job.client, LocalWork(vector, 1)) for job in jobs))
        answer = view.sums(trained(view), {"a": uniform(energy=True)})["a"]
        assert answer.energy == pytest.approx(D * (scale / 8) ** 2, rel=1e-4, abs=1e-9)
    with pytest.raises(ValueError, match="weights of 0 or more"):
        Weights({1: 1.0, 2: -1.0}, energy=True)


def test_a_garbage_sketch_costs_its_sender_alone():
    rng = np.random.default_rng(0)

    def tap(frame):
        if frame.kind != "OffsetSketched" or frame.sender != 5:
            return [frame]
        return [replace(frame, data=frame.data[: -8 * 150] + rng.bytes(8 * 150))]

    view = opened(tap=tap)
    gram = view.gram(trained(view))
    assert gram.clients == tuple(i for i in CLIENTS if i != 5)
    assert [(fault.blame, fault.rejected) for fault in view.record.faults] == [(5, True)]


def test_what_masked_gives_by_its_keys():
    assert {Functionality.GRAM, Functionality.GRAM_ORIGIN, Functionality.GRAM_EDGE, Functionality.GRAM_RECALL} <= Masked().gives
    assert not {Functionality.GRAM_REMEMBER, Functionality.GRAM_HISTORY} & Masked().gives
    assert Masked(keys="run").gives > Masked().gives
    view = opened()
    assert isinstance(view.sums(trained(view), {"few": uniform(CLIENTS[:2])})["few"], BelowFloor)
