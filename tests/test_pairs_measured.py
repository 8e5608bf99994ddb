"""Pairs whose clients measure the distance themselves: what the server is told, what the other is shown, what noise costs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.fl.emd.distances import Euclidean, ExactEmd, MeanDistance, Sinkhorn
from cloister.fl.emd.judging import tau_of
from cloister.protocol import Masked, Plain
from cloister.protocol.core.errors import Refused
from cloister.protocol.core.session import SERVER
from cloister.protocol.pairs.choices import (
    DISTANCES,
    Distances,
    PerPair,
)
from cloister.protocol.pairs.messages import SealedCloud
from cloister.protocol.pairs.server import BothAnswered, Undecided

from . import sides
from .pairs_sample import (
    NOISE,
    ROWS,
    TAU,
    WEIGHTS,
    D,
    Ones,
    ask,
    by_distance,
    opened,
    play,
    tampered,
)


def test_where_clients_measure_the_server_is_told_two_numbers_each():
    seen = {}
    view = opened(Masked(floor=2, sketch=8))
    ask(view, DISTANCES, judge=by_distance(seen=seen))
    clear = {}
    ask(opened(Plain()), PerPair(projection="none", ratio=1.0), judge=by_distance(seen=clear))
    for pair, told in seen.items():
        exact = clear[pair]
        assert told.distance == pytest.approx(TAU(exact.source, exact.target), abs=1e-5)
        assert told.reference == pytest.approx(exact.reference, abs=1e-5)
    entries = [d for d in view.record.log if d.what == "pairs"]
    assert [(d.recipient, d.scalars) for d in entries[:3]] == [
        ("clients", 6 * 2 * WEIGHTS),
        ("clients", 6 * 2 * ROWS * D),
        ("server", 6 * 2 * 2),
    ]
    assert "as they are" in entries[1].words


def test_the_server_sees_no_cloud_where_clients_measure():
    class Shows(Ones):
        def show(self, terms, own, others):
            return np.full((terms.rows, terms.d), 7.25, np.float32)

    def shows(parties):
        for party in parties.values():
            party.state = replace(party.state, computer=Shows())

    state, _, network = play(DISTANCES, change=shows)
    assert isinstance(state, BothAnswered)
    assert all(found.distance == 7.25 for found in state.clouds.values())
    cloud = np.full(4, 7.25, "<f4").tobytes()
    assert not any(cloud in frame.data for frame in network.frames)
    assert {f.kind for f in network.frames} >= {"SealedEmbedding", "SealedCloud", "PairDistance"}


@pytest.mark.parametrize("damage", ["flip", "reflect", "of another size"])
def test_altered_clouds_do_not_open(damage):
    seen = {}

    def change(message, receiver):
        seen.setdefault(receiver, message)
        chunk = message.chunks[0]
        if damage == "flip":
            return SealedCloud((bytes([chunk[0] ^ 1]) + chunk[1:],))
        return SealedCloud((chunk[:-4],)) if damage == "of another size" else seen.get(6 - receiver, message)

    state, parties, network = play(DISTANCES, tampered("SealedCloud", change))
    assert isinstance(state, Undecided)
    assert network.faults
    assert all(f.blame == SERVER for f in network.faults)
    assert all(parties[i].state.spent == {6 - i: 1} for i in (1, 5))  # clouds have left, if only to the other: it counts


def test_distances_with_noise_are_charged_three_times_a_pair():
    """A record is in the distance that its client reports, in the one that the other reports about it, and in tau."""
    noise = replace(NOISE, reference_multiplier=0.5)
    view = opened(Masked(floor=2, sketch=8))
    seen = {}
    ask(view, Distances(embedding="public", noise=noise), judge=by_distance(seen=seen))
    exact = {}
    ask(opened(Masked(floor=2, sketch=8)), Distances(embedding="public"), judge=by_distance(seen=exact))
    off = [seen[p].distance - exact[p].distance for p in exact if 0 < seen[p].distance < TAU.span]
    assert 0 < np.abs(off).max() < 5 * 0.5 * TAU.span / ROWS
    for ledger in sides.pair_ledgers(view).values():
        assert len(ledger.releases) == 3 * 3
        assert [r.sensitivity for r in ledger.releases] == pytest.approx([TAU.span / ROWS] * 9, rel=1e-4)
        assert any("from the clients" in words for words in ledger.not_covered)
    assert view.record.ledgers == {(i, "record"): ledger for i, ledger in sides.pair_ledgers(view).items()}


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 9))
def test_no_replaced_record_moves_a_distance_farther_than_is_said(seed, rows):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((rows, 4)), rng.standard_normal((rows, 4)) + rng.standard_normal(4)
    other = x.copy()
    other[rng.integers(rows)] = 5 * rng.standard_normal(4)
    assert abs(TAU(x, y) - TAU(other, y)) <= TAU.moved(rows) + 1e-9
    assert abs(TAU(y, x) - TAU(y, other)) <= TAU.moved(rows) + 1e-9


@pytest.mark.parametrize("distance", [MeanDistance(), Sinkhorn(0.1), ExactEmd(Euclidean())], ids=repr)
def test_noise_is_refused_where_no_sensitivity_is_known(distance):
    with pytest.raises(Refused, match="exact transport at a bounded cost"):
        tau_of(distance).moved(10)
