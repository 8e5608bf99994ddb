"""Pairs: what the two of a pair and the server learn, how a server that cheats is found out, and that loss decides nothing."""

import struct
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.crypto.agreement import AgreementKey
from cloister.crypto.entropy import SimulatedEntropy
from cloister.crypto.identity import SigningKey
from cloister.crypto.sealing import InvalidSeal
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.core.errors import ProtocolError, Refused, Silent
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.drivers.roles import Deadline, Party, Received, Send
from cloister.protocol.messages import decode
from cloister.protocol.pairs import sealing
from cloister.protocol.pairs.choices import (
    DISTANCES,
    ONE_RELEASE,
    ORTHONORMAL,
    PER_PAIR,
    PUBLIC,
    SERVER_SAMPLES,
    Distances,
    PerClient,
    PerPair,
    ServerSamples,
)
from cloister.protocol.pairs.client import MOST_OPEN, AwaitingEdge
from cloister.protocol.pairs.messages import PairClouds, PairDistance, PairEdge, PairKey, PairOffer, SealedCloud, SealedEmbedding
from cloister.protocol.pairs.policy import policy_of
from cloister.protocol.pairs.projection import drawn
from cloister.protocol.pairs.question import PairQuestion
from cloister.protocol.pairs.sealing import CLOUD, MODEL, opened_chunks, sealed_chunks
from cloister.protocol.pairs.server import BothAnswered, Pairing, Undecided, server_step
from cloister.protocol.pairs.terms import KEY, PairTerms, terms_of
from cloister.protocol.view.answers import Assignment, Model
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import Setup
from cloister.protocol.wire.codec import Envelope, encode, first_items

from . import pairs_sample, sides
from .pairs_sample import (
    CLIENTS,
    GROUPS,
    INITIAL,
    LIMIT,
    NOISE,
    ROWS,
    RUN,
    TAU,
    WEIGHTS,
    D,
    Small,
    all_pairs,
    ask,
    by_distance,
    expected,
    opened,
    play,
    tampered,
    two,
    update_of,
)

PROTECTIONS = [Plain(), Permuted(floor=2), Masked(floor=2, sketch=8)]
BY_PAIR = [PER_PAIR, ORTHONORMAL, PUBLIC, PerPair(target="validation"), PerPair(reference="plain")]
MEASURED = [DISTANCES, Distances(embedding="public", target="validation")]
CHOICES = [*BY_PAIR, *MEASURED, ONE_RELEASE, PerClient(target="validation"), ServerSamples(embedding="public")]


# --- the functionality ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protection", PROTECTIONS, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("choice", CHOICES, ids=repr)
def test_every_choice_finds_the_planted_groups_under_every_protection(protection, choice):
    view = opened(protection)
    answers = ask(view, choice)
    assert answers.accepts == expected()
    assert answers.lost == ()
    assert view.record.faults == []
    assert Functionality.PAIRS in protection.gives


@pytest.mark.parametrize("choice", [*BY_PAIR, ONE_RELEASE], ids=repr)
def test_what_reaches_the_server_are_the_same_clouds_under_every_protection(choice):
    """Plain is the ideal functionality: secrets come from one seed, so the clouds are equal to rounding of the updates."""
    found = []
    for protection in PROTECTIONS:
        seen = {}
        ask(opened(protection), choice, judge=by_distance(seen=seen))
        found.append(seen)
    for other in found[1:]:
        for pair, direction in found[0].items():
            np.testing.assert_allclose(other[pair].source, direction.source, rtol=0, atol=1e-5)
            np.testing.assert_allclose(other[pair].target, direction.target, rtol=0, atol=1e-5)
            assert other[pair].reference == pytest.approx(direction.reference, abs=1e-5)


def test_unprojected_embeddings_are_those_of_the_models_that_were_exchanged():
    """Z_{c'|c}: the other's training data under the client's own trained model; tau of own training and validation data."""
    seen, small = {}, Small()
    ask(opened(Plain()), PerPair(projection="none", ratio=1.0), judge=by_distance(seen=seen))
    for (client, other), direction in seen.items():
        model = (INITIAL + update_of(client))[:WEIGHTS]
        np.testing.assert_array_equal(direction.source, small.embed(client, "train", model))
        np.testing.assert_array_equal(direction.target, small.embed(other, "train", model))
        assert direction.reference == TAU(direction.source, small.embed(client, "validation", model))


def test_a_projection_of_full_rank_that_is_orthonormal_changes_no_distance():
    exact, projected = {}, {}
    ask(opened(Plain()), PerPair(projection="none", ratio=1.0), judge=by_distance(seen=exact))
    ask(opened(Plain()), PerPair(projection="orthonormal", ratio=1.0), judge=by_distance(seen=projected))
    for pair, direction in exact.items():
        other = projected[pair]
        assert not np.allclose(other.source, direction.source, atol=0.1)
        assert TAU(other.source, other.target) == pytest.approx(TAU(direction.source, direction.target), abs=1e-6)
        assert other.reference == pytest.approx(direction.reference, abs=1e-6)


def test_the_server_embeds_samples_by_the_clients_models_where_it_sees_them():
    seen, small = {}, Small()
    ask(opened(Plain()), SERVER_SAMPLES, judge=by_distance(seen=seen))
    for (client, other), direction in seen.items():
        model = (INITIAL + update_of(client))[:WEIGHTS]
        np.testing.assert_array_equal(direction.target, small.embed(other, "train", model))
    for protection in PROTECTIONS[1:]:
        with pytest.raises(Refused, match="embedding='public'"):
            ask(opened(protection), SERVER_SAMPLES)


def test_what_a_protection_has_no_use_for_is_refused():
    with pytest.raises(Refused, match="choose a projection"):
        ask(opened(Masked(floor=2, sketch=8)), PerPair(projection="none", ratio=1.0))
    for protection in (Encrypted(), TwoServer()):
        assert Functionality.PAIRS not in protection.gives
    view = Plain().open(Setup(RUN, INITIAL, CLIENTS, lambda jobs: iter(()), SimulatedEntropy(1)))
    with pytest.raises(Refused, match="no way to embed"):
        view.pairs(0, {}, {}, PairQuestion((), PER_PAIR, TAU, by_distance()))
    view = opened(Plain())
    with pytest.raises(Refused, match="client 8 did not answer"):
        ask(view, PER_PAIR, pairs=((1, 8),), clients=(1, 2, 5))
    with pytest.raises(ValueError, match="decides exactly"):
        ask(opened(Plain()), PER_PAIR, judge=lambda directions: dict.fromkeys(map(id, directions), True))


def test_clients_are_told_mutual_edges_only():
    """Client 1 accepts 5, but 5 refuses: neither is joined."""

    def judge(directions):
        return {(d.client, d.other): d.client < d.other for d in directions}

    view = opened(Plain())
    ask(view, PER_PAIR, judge=judge)
    assert all(not any(p.state.edges.values()) for p in sides.comparers(view).values())
    view = opened(Plain())
    ask(view, PER_PAIR)
    for i, party in sides.comparers(view).items():
        assert party.state.edges == {j: GROUPS[i] == GROUPS[j] for j in CLIENTS if j != i}


def test_disclosures_name_what_was_shown_to_whom():
    view = opened(Masked(floor=2, sketch=8))
    ask(view, PER_PAIR)
    entries = [d for d in view.record.log if d.what == "pairs"]
    p = int(0.9 * D)
    models, clouds, decisions, edges = entries
    assert (models.recipient, models.scalars) == ("clients", 6 * 2 * WEIGHTS)
    assert (clouds.recipient, clouds.scalars) == ("server", 6 * 2 * (2 * ROWS * p + 1))
    assert "which the server lacks" in clouds.words
    assert (decisions.recipient, decisions.scalars) == ("server", 12)
    assert (edges.recipient, edges.scalars) == ("clients", 12)
    view = opened(Plain())
    ask(view, PUBLIC)
    assert not any("models" in d.words for d in view.record.log if d.what == "pairs")


# --- secrets --------------------------------------------------------------------------------------------------------------


def test_the_server_sees_no_embedding_model_and_no_unprojected_row():
    state, parties, network = play(PER_PAIR)
    assert isinstance(state, BothAnswered)
    weights = [party.state.weights.astype("<f4").tobytes() for party in parties.values()]
    for frame in network.frames:
        assert not any(w[:40] in frame.data for w in weights)


@pytest.mark.parametrize("projection", ["gaussian rows", "orthonormal"])
def test_projections_differ_between_pairs_rounds_and_keys_and_agree_within_a_pair(projection):
    terms, _, _ = two(PerPair(projection=projection))
    other = replace(terms, session=replace(terms.session, round=1))
    key = bytes(range(32))
    np.testing.assert_array_equal(drawn(terms, key), drawn(terms, key))
    assert not np.allclose(drawn(terms, key), drawn(terms, bytes(32)))
    assert not np.allclose(drawn(terms, key), drawn(other, key))
    matrix = drawn(terms, key)
    if projection == "orthonormal":
        np.testing.assert_allclose(np.linalg.svd(matrix, compute_uv=False), np.sqrt(terms.d / terms.p), rtol=1e-12)
    else:
        np.testing.assert_allclose(np.linalg.norm(matrix, axis=1), 1, rtol=1e-12)


def test_one_projection_serves_all_clients_that_answer_once():
    of = [terms_of(Session("pairs/once", RUN, t, f"client {i}", (i,), 1), ONE_RELEASE, Small(), 0) for t, i in ((0, 1), (3, 5))]
    np.testing.assert_array_equal(*(drawn(terms, bytes(32)) for terms in of))


def test_orthonormal_columns_need_about_half_of_the_noise():
    terms, _, _ = two(PER_PAIR)
    wide = {name: replace(terms, projection=name, d=128, p=115) for name in ("gaussian rows", "orthonormal")}
    norms = {name: np.linalg.norm(drawn(t, bytes(32)), 2) for name, t in wide.items()}
    assert norms["orthonormal"] == pytest.approx(np.sqrt(128 / 115))
    assert 1.8 < norms["gaussian rows"] / norms["orthonormal"] < 2.0


# --- a server that cheats -------------------------------------------------------------------------------------------------


def test_a_server_that_swaps_keys_is_found_out_by_both():
    mine = AgreementKey(bytes(range(1, 33)))
    forger = SigningKey.from_secret(bytes(range(32)))
    _, _, identities = two(PER_PAIR)
    terms, _, _ = two(PER_PAIR)
    forged = forger.sign(KEY, terms.binding, mine.public)
    real = identities[1].sign("another purpose", terms.binding, mine.public)
    for signature in (forged, real, bytes(64)):
        state, parties, network = play(PER_PAIR, tampered("PairKey", lambda m, to, s=signature: PairKey(mine.public, s)))
        assert isinstance(state, Undecided)
        assert [(f.blame, "not signed" in f.reason) for f in network.faults] == [(SERVER, True)] * 2
        assert not any(party.state.spent for party in parties.values())
        assert not [f for f in network.frames if f.kind in ("PairClouds", "SealedEmbedding")]


def test_a_key_of_another_pair_or_other_terms_is_not_taken():
    """What client 5 signed for another round, or for terms that client 1 was not shown, is dead here."""
    terms, _, identities = two(PER_PAIR)
    for foreign in (replace(terms, session=replace(terms.session, round=9)), replace(terms, reference="plain")):
        key = AgreementKey(bytes(range(1, 33)))
        signed = PairKey(key.public, identities[5].sign(KEY, foreign.binding, key.public))
        state, _, network = play(PER_PAIR, tampered("PairKey", lambda m, to, s=signed: s if to == 1 else m))
        assert isinstance(state, Undecided)
        assert network.faults[0].blame == SERVER


def test_showing_the_two_different_terms_breaks_the_pair():
    """The server tells one of them to embed validation data: the signatures cover the terms, so neither goes on."""

    def change(message, receiver):
        return replace(message, target="validation") if receiver == 5 else message

    state, parties, network = play(PER_PAIR, tampered("PairOffer", change))
    assert isinstance(state, Undecided)
    assert not state.begun
    assert not any(p.state.spent for p in parties.values())
    assert "not signed for this pair" in network.faults[0].reason


@pytest.mark.parametrize("damage", ["flip", "swap", "cut", "reflect"])
def test_altered_models_do_not_open(damage):
    seen = {}

    def change(message, receiver):
        seen.setdefault(receiver, message)
        chunk = message.chunks[0]
        if damage == "flip":
            return SealedEmbedding((bytes([chunk[0] ^ 1]) + chunk[1:],))
        if damage == "cut":
            return SealedEmbedding((chunk[:-4],))
        if damage == "swap":
            return SealedEmbedding((chunk, chunk))
        return seen.get(6 - receiver, message)  # its own model comes back to the second of clients 1 and 5

    state, _, network = play(PER_PAIR, tampered("SealedEmbedding", change))
    assert isinstance(state, Undecided)
    assert network.faults
    assert all(f.blame == SERVER for f in network.faults)


CHUNKS = {
    "reordered": lambda c: (c[1], c[0], c[2]),
    "doubled in place of another": lambda c: (c[0], c[0], c[2]),
    "one left out": lambda c: c[:2],
    "one more": lambda c: (*c, c[0]),
    "bytes moved from one to the next": lambda c: (c[0][:-4], c[0][-4:] + c[1], c[2]),
    "none altered": lambda c: c,
}


@pytest.mark.parametrize("name", CHUNKS)
def test_chunks_open_in_their_order_and_number_only(name, monkeypatch):
    monkeypatch.setattr(sealing, "CHUNK_BYTES", 40)
    terms, _, _ = two(PER_PAIR)
    content = np.arange(WEIGHTS, dtype=np.float32)
    chunks = sealed_chunks(bytes(32), terms, MODEL, 1, content.tobytes())
    assert len(chunks) == 3
    changed = CHUNKS[name](chunks)
    if name == "none altered":
        np.testing.assert_array_equal(opened_chunks(bytes(32), terms, MODEL, 1, changed, WEIGHTS), content)
        for label, sender in ((CLOUD, 1), (MODEL, 5)):
            with pytest.raises(InvalidSeal):
                opened_chunks(bytes(32), terms, label, sender, changed, WEIGHTS)
        return
    with pytest.raises((InvalidSeal, ValueError)):
        opened_chunks(bytes(32), terms, MODEL, 1, changed, WEIGHTS)


OFFERS = {
    "another run": ({"run": bytes(16)}, "another session's digest|another run"),
    "more of the dimensions": ({"p": D}, "dimensions"),
    "samples": ({"released": "samples", "projection": "none", "p": D}, "cannot be"),
    "distances": ({"released": "distances", "projection": "none", "p": D}, "which the policy keeps"),
    "a cloud of more rows than it has": ({"rows": ROWS + 1}, "another size"),
    "a larger projection than its embeddings": ({"d": 1 << 30, "p": 1 << 29}, "another size"),
    "noise, which it does not add": ({"unit": "record", "noise": struct.pack(">3d", 1, 1, 1)}, "noise"),
    "no projection": ({"projection": "none", "p": D}, "as they are"),
    "a large model": ({"weights": 1 << 29}, "floats"),
    "another size": ({"weights": 7}, "another size"),
    "many rows": ({"rows": 1 << 20}, "another size"),
    "a pair of three": ({"roster": (1, 5, 8)}, "cannot be|digest"),
    "noise without unit": ({"noise": struct.pack(">3d", 1, 1, 1)}, "cannot be"),
    "an unknown word": ({"target": "test"}, "cannot be"),
}


@pytest.mark.parametrize("name", OFFERS)
def test_offers_against_the_policy_are_refused_and_change_nothing(name):
    changes, match = OFFERS[name]
    terms, parties, _ = two(PER_PAIR)
    message = replace(terms.offer, **changes)
    before = parties[1].state
    with pytest.raises(ProtocolError, match=match) as failure:
        parties[1].handle(Received(Envelope(terms.session.digest, SERVER, 1, message)))
    assert failure.value.blame == SERVER
    assert parties[1].state is before


def test_a_client_that_insists_on_noise_or_keeps_its_model_says_no():
    for change in ({"noise": NOISE}, {"exchanges": False}, {"released": frozenset({"mean"})}, {"once": True}, {"rows": ROWS + 1}):
        policy = replace(policy_of(PER_PAIR, Small()), **change)
        state, _, network = play(PER_PAIR, policy=policy)
        assert isinstance(state, Undecided)
        assert {f.blame for f in network.faults} == {SERVER}


def test_a_client_that_is_not_the_one_it_says_is_blamed_by_the_server():
    def steal(parties):
        parties[5].state = replace(parties[5].state, identity=parties[8].state.identity)

    state, _, network = play(PER_PAIR, change=steal)
    assert isinstance(state, Undecided)
    assert [(f.blame, "not signed" in f.reason) for f in network.faults] == [(5, True)]


def test_a_model_that_is_not_finite_is_blamed_on_its_sender_and_a_cloud_on_nobody_else():
    def spoil(parties):
        weights = parties[5].state.weights.copy()
        weights[3] = np.nan
        parties[5].state = replace(parties[5].state, weights=weights)

    _, _, network = play(PER_PAIR, change=spoil)
    assert [(f.blame, "not finite" in f.reason) for f in network.faults] == [(5, True)]
    view = opened(Plain(), embedders=Small(broken=(5,)))
    answers = ask(view, PUBLIC)
    assert set(answers.lost) == {(1, 5), (2, 5), (5, 8)}
    assert answers.accepts == expected([(1, 2), (1, 8), (2, 8)])
    assert {(f.blame, f.rejected) for f in view.record.faults} == {(5, True)}


def test_a_model_that_makes_the_others_embeddings_infinite_is_blamed_on_its_sender():
    """Weights of 3e38 are finite, and so pass; what they make of the other's data is not, which is not the other's fault."""

    class Huge(Small):
        def weights_of(self, model):
            return np.full(WEIGHTS, 3e38, np.float32) if model[0] == (INITIAL + update_of(5))[0] else model[:WEIGHTS]

    view = opened(Plain(), embedders=Huge())
    with np.errstate(over="ignore", invalid="ignore"):
        answers = ask(view, PER_PAIR)
    assert set(answers.lost) == {(1, 5), (2, 5), (5, 8)}
    assert answers.accepts == expected([(1, 2), (1, 8), (2, 8)])
    assert {f.blame for f in view.record.faults} == {5}


@pytest.mark.parametrize("choice", [PUBLIC, ONE_RELEASE, ServerSamples(embedding="public")], ids=repr)
def test_clouds_too_large_to_compare_lose_their_pairs_and_nothing_else(choice):
    class Far(Small):
        def sent(self, client, occasion, honest):
            return replace(honest, own=np.full_like(honest.own, 1e30)) if client == 5 else honest

    view = opened(Plain(), embedders=Far())
    answers = ask(view, choice)
    assert set(answers.lost) == {(1, 5), (2, 5), (5, 8)}
    assert answers.accepts == expected([(1, 2), (1, 8), (2, 8)])
    assert {(f.blame, f.rejected) for f in view.record.faults} == {(5, True)}
    if choice is not PUBLIC:
        other = opened(Plain(), embedders=Far())
        other.harness.restore(view.harness.save(), [])
        for of in (view, other):  # it has answered for all, and is not asked again
            assert set(ask(of, choice, pairs=((1, 5),), round=1).lost) == {(1, 5)}
        assert len(other.record.faults) == 0


def test_samples_that_embed_to_what_is_not_finite_are_undecided():
    class Breaking(Small):
        def embed_examples(self, examples, weights):
            found = super().embed_examples(examples, weights)
            return found * np.float32(np.nan) if np.array_equal(examples, self.examples(5, "train")) else found

    view = opened(Plain(), embedders=Breaking())
    answers = ask(
        view,
        ServerSamples(embedding="public"),
        judge=by_distance(distance=lambda x, y: float(np.abs(x.mean(0) - y.mean(0)).max())),
    )
    assert set(answers.lost) == {(1, 5), (2, 5), (5, 8)}
    assert {f.blame for f in view.record.faults} == {5}


def test_where_model_or_samples_may_be_to_blame_the_fault_says_so():
    class Exploding(Small):
        """Client 5's model spares its own samples and breaks everybody else's."""

        def embed_examples(self, examples, weights):
            found = super().embed_examples(examples, weights)
            its = np.array_equal(weights, self.weights_of(INITIAL + update_of(5)))
            mine = any(np.array_equal(examples, self.examples(5, part)) for part in ("train", "validation"))
            return found * np.float32(np.nan) if its and not mine else found

    view = opened(Plain(), embedders=Exploding())
    answers = ask(view, ServerSamples(embedding="exchanged"))
    assert set(answers.lost) == {(1, 5), (2, 5), (5, 8)}
    assert all("either may be to blame" in f.reason for f in view.record.faults)
    assert len(view.record.faults) == 2 * 3


@pytest.mark.parametrize(("said", "heard"), [(1e300, 2.0), (-1e300, 0.0), (0.5, 0.5)])
def test_a_reference_distance_that_cannot_be_is_brought_to_the_nearest_that_can(said, heard):
    class Liar(Small):
        def sent(self, client, occasion, honest):
            return replace(honest, reference=said)

    seen = {}
    ask(opened(Plain(), embedders=Liar()), PUBLIC, judge=by_distance(seen=seen))
    assert {d.reference for d in seen.values()} == {heard}


# --- once in a run --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", [PER_PAIR, PUBLIC, DISTANCES, ONE_RELEASE], ids=repr)
def test_a_client_never_answers_the_same_pair_twice(choice):
    view = opened(Plain())
    ask(view, choice, pairs=((1, 5),))
    sent = view.record.traffic.messages
    again = ask(view, choice, pairs=((1, 5),), round=1)
    if choice is ONE_RELEASE:  # the server still has both clouds, and asks nobody
        assert again.accepts == expected([(1, 5)])
    else:
        assert again.accepts == {}
        assert again.lost == ()
        assert all("already answered" in f.reason for f in view.record.faults)
        assert len(view.record.faults) == 2
    assert view.record.traffic.messages > sent


def test_spent_pairs_and_clouds_survive_a_restart():
    for choice in (PER_PAIR, ONE_RELEASE, replace(DISTANCES, noise=replace(NOISE, reference_multiplier=0.01))):
        view = opened(Plain())
        ask(view, choice, pairs=((1, 5),))
        snapshot = view.harness.save()
        other = opened(Plain())
        other.harness.restore(snapshot, [])
        assert {i: p.state.spent for i, p in sides.comparers(other).items()} == {
            i: p.state.spent for i, p in sides.comparers(view).items()
        }
        mine, theirs = (ask(v, choice, round=1) for v in (view, other))
        assert mine.accepts == theirs.accepts
        assert view.record.traffic == other.record.traffic
        assert other.harness.save().pairs == view.harness.save().pairs


def test_a_second_key_or_second_cloud_is_refused_with_blame():
    terms, parties, identities = two(PER_PAIR)
    server = Party(SERVER, Pairing(terms, {i: k.public for i, k in identities.items()}), server_step)
    digest = terms.session.digest

    def said(client, message):
        return server.handle(Received(Envelope(digest, client, SERVER, message)))

    def refused(client, message, match):
        before = server.state
        with pytest.raises(ProtocolError, match=match) as failure:
            said(client, message)
        assert failure.value.blame == client
        assert server.state is before

    cloud = PairClouds(bytes(terms.cloud_bytes), bytes(terms.cloud_bytes), bytes(8))
    refused(1, cloud, "before keys")
    refused(1, SealedCloud((bytes(20),)), "not due")
    refused(1, SealedEmbedding((bytes(20),)), "not due")
    keys = {}
    for i in (1, 5):
        (sent,) = parties[i].handle(Received(Envelope(digest, SERVER, i, terms.offer)))
        keys[i] = sent.envelope.message
    refused(8, keys[1], "outside the roster")
    refused(5, keys[1], "not signed")
    assert said(1, keys[1]) == ()
    assert said(1, keys[1]) == ()
    refused(1, replace(keys[1], signature=bytes(64)), "second key")
    assert [e.envelope.receiver for e in said(5, keys[5]) if isinstance(e, Send)] == [1, 5]
    refused(1, replace(cloud, own=bytes(4)), "bytes where")
    refused(1, PairDistance(bytes(8), bytes(8)), "where clouds belong")
    said(1, cloud)
    assert said(1, cloud) == ()
    refused(1, replace(cloud, reference=b"\x01" + bytes(7)), "second answer")
    refused(1, PairEdge(1), "out of place")
    server.handle(Deadline())
    assert server.state == Undecided(terms, True, (1,), ())


def test_a_server_that_opens_two_sessions_for_one_pair_gets_one_answer():
    """Both sessions are past their keys before either client has answered: the second answer is refused all the same."""
    terms, parties, _ = two(PUBLIC)
    both = [terms, replace(terms, session=replace(terms.session, round=1))]
    keys = {}
    for t in both:
        for i in (1, 5):
            (sent,) = parties[i].handle(Received(Envelope(t.session.digest, SERVER, i, t.offer)))
            keys[t.session.round, i] = sent.envelope.message
    first, second = (Received(Envelope(t.session.digest, SERVER, 1, keys[t.session.round, 5])) for t in both)
    assert any(isinstance(e, Send) and isinstance(e.envelope.message, PairClouds) for e in parties[1].handle(first))
    with pytest.raises(ProtocolError, match="already answered") as failure:
        parties[1].handle(second)
    assert failure.value.blame == SERVER


def test_a_server_that_only_ever_offers_fills_no_memory():
    terms, parties, _ = two(PUBLIC)
    party = parties[1]

    def offer(round):
        again = replace(terms, session=replace(terms.session, round=round))
        return party.handle(Received(Envelope(again.session.digest, SERVER, 1, again.offer)))

    for round in range(MOST_OPEN):
        assert len(offer(round)) == 1
    with pytest.raises(ProtocolError, match="too many are open") as failure:
        offer(MOST_OPEN)
    assert failure.value.blame == SERVER
    assert len(party.state.phases) == MOST_OPEN
    party.handle(Deadline())
    assert len(offer(MOST_OPEN)) == 1


def test_what_was_disclosed_is_in_the_log_although_the_decision_failed():
    view = opened(Plain())

    def judge(directions):
        next(iter(directions))
        raise ValueError("no decision")

    with pytest.raises(ValueError, match="no decision"):
        ask(view, PER_PAIR, judge=judge)
    entries = [d for d in view.record.log if d.what == "pairs"]
    assert [(d.recipient, d.about) for d in entries] == [("clients", (1, 2)), ("server", (1, 2))]


@pytest.mark.parametrize("choice", [PER_PAIR, DISTANCES, ONE_RELEASE], ids=repr)
def test_messages_that_arrive_twice_change_nothing(choice):
    """Every message of pairs is replayed at once: decisions, what was spent and what was disclosed stay as they were."""
    noise = replace(NOISE, reference_multiplier=0.01)
    kept = replace(choice, noise=noise)
    once, twice = (
        opened(Plain(), tap) for tap in (None, lambda f: [f, f] if f.kind.startswith(("Pair", "SealedC", "SealedE")) else [f])
    )
    answers = [ask(view, kept) for view in (once, twice)]
    assert answers[0] == answers[1]
    assert sides.pair_ledgers(once) == sides.pair_ledgers(twice)
    assert once.record.log == twice.record.log
    assert not twice.record.faults


# --- loss -----------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@settings(max_examples=20)
@given(st.sets(st.integers(0, 70), max_size=12), st.sampled_from([PER_PAIR, PUBLIC, DISTANCES, ONE_RELEASE]))
def test_whatever_is_lost_leaves_pairs_undecided_and_none_wrong(numbers, choice):
    view = opened(Plain(), tap=None)
    first = view.record.traffic.messages
    pair = (
        "PairOffer",
        "PairKey",
        "SealedEmbedding",
        "PairClouds",
        "SealedCloud",
        "PairDistance",
        "PairEdge",
        "Roster",
        "SealedSeed",
        "SeedTag",
        "SeedQuorum",
    )
    sides.network(view)._tap = lambda frame: [] if frame.kind in pair and frame.number - first - 8 in numbers else [frame]
    try:
        answers = ask(view, choice)
    except ProtocolError as error:  # too few have the seed that clients of a pair share: nothing is asked then
        if "hold the group seed, 3 must" not in str(error):
            raise
        return
    truth = expected()
    assert all(truth[pair] == value for pair, value in answers.accepts.items())
    decided = {tuple(sorted(pair)) for pair in answers.accepts}
    assert not decided & set(answers.lost)
    again = ask(view, choice, pairs=tuple(set(all_pairs()) - decided - set(answers.lost)), round=1)
    assert all(truth[pair] == value for pair, value in again.accepts.items())


@pytest.mark.parametrize("kind", ["Advertise", "Roster", "SealedSeed", "SeedTag", "SeedQuorum"])
def test_a_seed_that_too_few_hold_in_one_round_is_agreed_on_in_another(kind):
    """The round is lost, and not the run: nothing was asked of anybody then."""
    view = opened(Plain(), tap=None)
    sides.network(view)._tap = lambda frame: [] if frame.kind == kind else [frame]
    with pytest.raises(Silent, match="0 of 4 clients hold the group seed, 3 must"):
        ask(view, ONE_RELEASE)
    sides.network(view)._tap = None
    assert ask(view, ONE_RELEASE, round=1).accepts == expected()


@pytest.mark.parametrize("silent", [(0, 1, 2), (4, 5, 6)])
def test_three_of_seven_whose_seals_are_lost_cost_few_rounds(silent, monkeypatch):
    """Who was asked in vain in a round is asked last in the next; the three with the lowest numbers were asked in each."""
    clients = tuple(range(7))
    monkeypatch.setattr(pairs_sample, "GROUPS", {i: i % 2 for i in clients})
    monkeypatch.setattr(pairs_sample, "CLIENTS", clients)
    view = opened(Plain(), tap=lambda f: [] if f.kind == "SealedSeed" and f.sender in silent else [f])
    answers, lost = None, 0
    while answers is None and lost < 4:
        try:
            answers = ask(view, ONE_RELEASE, pairs=all_pairs(clients), round=lost, clients=clients)
        except Silent:
            lost += 1
    assert answers is not None
    assert answers.accepts == expected(all_pairs(clients))


@pytest.mark.parametrize("kind", ["PairOffer", "PairKey", "SealedEmbedding", "PairClouds", "PairEdge"])
@pytest.mark.parametrize("silent", [1, 5])
def test_a_client_that_falls_silent_at_any_stage_loses_its_pairs_only(kind, silent):
    view = opened(Plain(), tap=lambda f: [] if f.kind == kind and silent in (f.sender, f.receiver) else [f])
    answers = ask(view, PER_PAIR)
    others = [pair for pair in all_pairs() if silent not in pair]
    with_it = tuple(pair for pair in all_pairs() if silent in pair)
    if kind == "PairEdge":
        assert answers.accepts == expected()
        return
    assert answers.accepts == expected(others)
    assert answers.lost == (() if kind in ("PairOffer", "PairKey") and silent else answers.lost)
    assert set(answers.lost) <= set(with_it)


def test_a_pair_that_was_lost_before_keys_were_shown_can_be_asked_again():
    lossy = {"on": True}
    view = opened(Plain(), tap=lambda f: [] if lossy["on"] and f.kind == "PairKey" and f.sender == 5 else [f])
    first = ask(view, PER_PAIR, pairs=((1, 5),))
    assert (first.accepts, first.lost) == ({}, ())
    lossy["on"] = False
    assert ask(view, PER_PAIR, pairs=((1, 5),), round=1).accepts == expected([(1, 5)])


@pytest.mark.parametrize("kind", ["PairOffer", "PairClouds"])
@pytest.mark.parametrize("choice", [ONE_RELEASE, ServerSamples(embedding="public")], ids=repr)
def test_a_client_that_answers_once_and_was_silent_is_asked_again_and_says_the_same(choice, kind):
    """Whether it had answered (its answer was lost) or not (its offer was): no answer costs twice, and no two differ."""
    lossy = {"on": True}
    answers = []

    def tap(frame):
        lost = lossy["on"] and frame.kind == kind and 5 in (frame.sender, frame.receiver)
        if frame.kind == "PairClouds" and frame.sender == 5:
            message = decode(frame.data, 5, LIMIT).message
            answers.append((message.own, message.other, message.reference))
        return [] if lost else [frame]

    if not isinstance(choice, ServerSamples):
        choice = replace(choice, noise=NOISE)
    view = opened(Plain(), tap=tap)
    first = ask(view, choice)
    some = all_pairs((1, 2, 8))
    assert {tuple(sorted(pair)) for pair in first.accepts} == set(some)
    assert first.lost == ()
    spent = {i: ledger.spent for i, ledger in sides.pair_ledgers(view).items()}
    other = opened(Plain(), tap=tap)
    other.harness.restore(view.harness.save(), [])
    lossy["on"] = False
    for of in (view, other):
        again = ask(of, choice, round=1)
        assert len(again.accepts) == 12
        assert again.lost == ()
        assert of.record.faults == []
        assert {i: sides.pair_ledgers(of)[i].spent for i in spent} == spent
    assert len(answers) == (3 if kind == "PairClouds" else 2)
    assert len(set(answers)) == 1 or kind == "PairOffer"  # without an answer before the restart each copy has its own noise


def test_an_answer_for_all_is_not_given_on_other_terms():
    """A server that asks again for more than it was told gets nothing."""
    view = opened(Plain())
    ask(view, ONE_RELEASE, pairs=((1, 5),))
    peer = sides.comparers(view)[1]
    peer.handle(Deadline())
    before = peer.state
    terms = terms_of(Session("pairs/once", RUN, 7, "client 1", (1,), 1), PerClient(ratio=0.5), Small(), 0)
    with pytest.raises(ProtocolError, match="other terms than those") as failure:
        peer.handle(Received(Envelope(terms.session.digest, SERVER, 1, terms.offer)))
    assert failure.value.blame == SERVER
    assert peer.state is before


@pytest.mark.parametrize("choice", [PER_PAIR, PUBLIC, DISTANCES], ids=repr)
@pytest.mark.parametrize("noisy", [False, True])
def test_an_answer_that_was_lost_is_given_again_and_charged_again(choice, noisy):
    kind = "PairDistance" if choice is DISTANCES else "PairClouds"
    lossy = {"on": True}
    view = opened(Plain(), tap=lambda f: [] if lossy["on"] and f.kind == kind and f.sender == 5 else [f])
    if noisy:
        choice = replace(choice, noise=replace(NOISE, multiplier=50.0, reference_multiplier=50.0))
    first = ask(view, choice, pairs=((1, 5),))
    assert (first.accepts, first.lost) == ({}, ())
    lossy["on"] = False
    releases = {i: len(ledger.releases) for i, ledger in sides.pair_ledgers(view).items()}
    again = ask(view, choice, pairs=((1, 5),), round=1)
    assert set(again.accepts) == {(1, 5), (5, 1)}
    assert {i: len(ledger.releases) for i, ledger in sides.pair_ledgers(view).items()} == {i: 2 * n for i, n in releases.items()}
    assert set(releases) == ({1, 5} if noisy else set())
    assert view.record.faults == []


@pytest.mark.parametrize("choice", [PER_PAIR, DISTANCES], ids=repr)
def test_a_server_that_says_again_and_again_that_an_answer_was_lost_gets_three(choice):
    """And none more after a restart; a pair that was told its edge gives none at all."""
    kind = "PairDistance" if choice is DISTANCES else "PairClouds"
    heard = []

    def tap(frame):
        heard.extend([frame.sender] * (frame.kind == kind))
        return [] if frame.kind == kind else [frame]

    view = opened(Plain(), tap=tap)
    lost = [ask(view, choice, pairs=((1, 5),), round=t).lost for t in range(3)]
    assert lost == [(), (), ((1, 5),)]
    other = opened(Plain(), tap=tap)
    other.harness.restore(view.harness.save(), [])
    for t, of in enumerate((view, other)):
        assert ask(of, choice, pairs=((1, 5),), round=3 + t).accepts == {}
        assert {"already answered" in f.reason for f in of.record.faults} == {True}
    assert sorted(heard) == [1, 1, 1, 5, 5, 5]


def test_the_budget_ends_repeated_answers_before_their_number_does():
    one = opened(Plain())
    ask(one, PerPair(embedding="public", noise=NOISE), pairs=((1, 5),))
    noise = replace(NOISE, budget=sides.pair_ledgers(one)[1].spent * 1.01)
    view = opened(Plain(), tap=lambda f: [] if f.kind == "PairClouds" else [f])
    for t in range(3):
        assert ask(view, PerPair(embedding="public", noise=noise), pairs=((1, 5),), round=t).accepts == {}
    assert all(ledger.spent <= noise.budget for ledger in sides.pair_ledgers(view).values())
    assert sum("past its budget" in f.reason for f in view.record.faults) == 4


# --- messages -------------------------------------------------------------------------------------------------------------


def test_offers_and_terms_are_the_same_thing_said_twice():
    for choice in (*BY_PAIR, *MEASURED, PerPair(noise=NOISE)):
        terms, _, _ = two(choice)
        envelope = Envelope(terms.session.digest, SERVER, 1, terms.offer)
        assert PairTerms.offered(decode(encode(envelope), SERVER, LIMIT).message) == terms
        assert first_items(encode(envelope), 5)[4] == PairOffer.kind


def test_every_field_of_the_terms_is_bound():
    terms, _, _ = two(PerPair(noise=NOISE))
    bindings = {terms.binding}
    changes = [
        {"projection": "orthonormal"},
        {"target": "validation"},
        {"reference": "plain"},
        {"d": D + 1},
        {"p": 8},
        {"rows": 13},
        {"weights": 31},
        {"released": "distances", "projection": "none", "p": D},
        {"unit": "attribute"},
        {"clip": 5.0},
        {"noise": 2.0},
        {"reference_noise": 2.0},
        {"session": replace(terms.session, run=bytes(16))},
        {"session": replace(terms.session, round=1)},
        {"session": replace(terms.session, roster=(1, 2))},
    ]
    bindings |= {replace(terms, **change).binding for change in changes}
    assert len(bindings) == 1 + len(changes)
    assert len(fields(PairTerms)) == 14
    assert isinstance(AwaitingEdge(terms), AwaitingEdge)
    assert Assignment(Model("init"), (1,), (1,)).members == (1,)
