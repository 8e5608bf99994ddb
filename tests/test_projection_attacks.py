"""Attacks on projected embeddings, as the shipped protocol sends them: what each choice keeps from whom, and what it does not."""

from dataclasses import replace

import numpy as np
import pytest

from cloister.crypto.prg import derive_key
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Iid
from cloister.fl.data.source import Digits
from cloister.fl.emd.distances import ExactEmd
from cloister.fl.models.papers import Mlp
from cloister.protocol import Masked
from cloister.protocol.pairs.choices import (
    AS_PUBLISHED,
    DISTANCES,
    ONE_RELEASE,
    ORTHONORMAL,
    PER_PAIR,
    PRINTED,
    PUBLIC,
    Distances,
    MeanSketch,
    PerPair,
    ServerSamples,
)
from cloister.protocol.pairs.noise import Noise
from cloister.protocol.pairs.projection import drawn
from cloister.threat_models.inference import projection_peer
from cloister.threat_models.inference.mean_sketch import clipped, label_shares, named_by_sketches, presence
from cloister.threat_models.inference.naming import alike, distances_of, namings
from cloister.threat_models.inference.projection_distances import averaged, between_kinds, named_clients, stacked
from cloister.threat_models.inference.projection_known import (
    Moments,
    decoded,
    from_known_rows,
    least_squares,
    linear,
    nearest,
    non_negative,
    projection_from,
)
from cloister.threat_models.inference.projection_membership import by_distances, off_span
from cloister.threat_models.inference.projection_scores import (
    accuracy,
    exact_share,
    median_error,
    psnr,
    told_apart,
    total_variation,
)
from cloister.threat_models.inference.projection_seed import negative_share, searched
from cloister.threat_models.inference.projection_unknown import aligned

from .projection_sample import Colluders, OneLabelEach, Played, public_network

CLASSES = np.arange(10)
WIDE = 64


@pytest.fixture(scope="module")
def network():
    return public_network(Digits()(None), WIDE, epochs=20, count=300)


def centres_of(embeddings, labels):
    return np.stack([embeddings[labels == k].mean(axis=0) for k in CLASSES])


def played(choice, **changes):
    """Clients 0 and 1 compared, the second of whom colludes with the server."""
    known = {"rows": 200, "pairs": ((0, 1),), "partition": Iid(clients=3)}
    return Played(choice, colluders=Colluders(frozenset({1})), **{**known, **changes})


def with_colluder(found):
    """The cloud of client 0, and the projection that the colluder has."""
    cloud = next(c for c in found.clouds() if c.client == 0)
    return cloud, found.held(1, cloud.peer and 0).projection


# --- B1: the projection is known --------------------------------------------------------------------------------------------


@pytest.mark.trains
@pytest.mark.parametrize(
    "choice", [PRINTED, AS_PUBLISHED, PER_PAIR, ORTHONORMAL], ids=["printed", "published", "per pair", "orthonormal"]
)
def test_a_server_and_the_other_client_have_the_embeddings_of_a_trained_model(choice):
    found = played(choice)
    cloud, projection = with_colluder(found)
    weights = found.model_of(0)
    (truth, labels, inputs), (public, names, images) = found.truth(0, weights), found.embed_public(weights)
    shortest, exact = (attack(cloud.own, projection) for attack in (least_squares, non_negative))
    best = linear(cloud.own, projection, Moments.of(public))
    assert exact_share(exact, truth) > 0.5
    assert exact_share(shortest, truth) < 0.05
    assert median_error(best, truth) < 0.12 < 0.2 < median_error(shortest, truth)
    centres = centres_of(public, names)
    assert accuracy(nearest(best, centres), labels) > accuracy(nearest(truth, centres), labels) - 0.05
    average = np.broadcast_to(images.mean(axis=0), inputs.shape)
    assert psnr(decoded(best, public, images), inputs) > psnr(average, inputs) + 2


@pytest.mark.trains
@pytest.mark.parametrize("choice", [PUBLIC, ONE_RELEASE], ids=["public", "one release"])
def test_a_public_embedding_keeps_no_embeddings_from_a_server_with_a_client(choice, network):
    found = played(choice, public=network, training=Training(epochs=1, batch=50, lr=0.1))
    cloud, projection = with_colluder(found)
    truth, _, _ = found.truth(0, None)
    assert exact_share(non_negative(cloud.own, projection), truth) > 0.5


@pytest.mark.trains
def test_noise_for_one_record_keeps_embeddings_from_a_server_with_a_client(network):
    noise = Noise(clip=30.0, multiplier=5.0, reference_multiplier=5.0, budget=1e6, delta=1e-5, acknowledge=("sums",))
    found = played(replace(PUBLIC, noise=noise), public=network, training=Training(epochs=1, batch=50, lr=0.1))
    cloud, projection = with_colluder(found)
    (truth, labels, _), (public, names, _) = found.truth(0, None), found.embed_public(None)
    best = linear(cloud.own, projection, Moments.of(public), noise.multiplier * noise.sensitivity(projection))
    assert median_error(best, truth) > 0.3
    assert accuracy(nearest(best, centres_of(public, names)), labels) < 0.35


# --- B2, B4, B6, G2: the server alone -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def alone(network):
    return played(
        PUBLIC, public=network, rows=400, validation=0.45, training=Training(epochs=1, batch=50, lr=0.1), partition=Iid(clients=2)
    )


@pytest.mark.trains
def test_known_records_give_the_projection(alone):
    cloud, projection = with_colluder(alone)
    truth, known = alone.truth(0, None)[0], Moments.of(alone.embed_public(None)[0])
    order = np.random.default_rng(0).permutation(len(truth))
    errors = []
    for k in (4, 16, 150):
        places, rest = order[:k], order[150:]
        errors.append(median_error(from_known_rows(cloud.own, places, truth[places], known)[rest], truth[rest]))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.12
    places, rest = order[:150], order[150:]
    found = projection_from(cloud.own, places, truth[places])
    lit = truth[places].max(axis=0) > 0
    assert np.abs(found - projection)[lit].max() < 1e-4
    assert median_error(non_negative(cloud.own[rest], found), truth[rest]) < 0.05


@pytest.mark.trains
def test_known_records_tell_members_the_better_the_more_there_are(alone):
    cloud, truth, others = alone.cloud(0, 1), alone.truth(0, None)[0], alone.embed_public(None, 300)[0]
    order = np.random.default_rng(0).permutation(len(truth))
    areas = []
    for k in (1, 32):
        places, rest = order[:k], order[k:]
        scores = [by_distances(cloud.own, places, truth[places], candidates) for candidates in (truth[rest], others)]
        areas.append(told_apart(*scores).auc)
    assert areas[0] < areas[1]
    assert areas[1] > 0.85


@pytest.mark.trains
def test_a_projection_without_noise_is_differentially_private_for_no_epsilon(alone):
    """One record is replaced: the cloud itself tells which of the two sets was released."""
    cloud, truth, others = alone.cloud(0, 1), alone.truth(0, None)[0], alone.embed_public(None, 40)[0]
    assert off_span(cloud.own, truth) < 1e-6
    neighbours = [np.concatenate([truth[:k], other[None], truth[k + 1 :]]) for k, other in enumerate(others)]
    assert np.mean([off_span(cloud.own, neighbour) > 1e-4 for neighbour in neighbours]) > 0.9
    with pytest.raises(ValueError, match="more rows than coordinates"):
        off_span(cloud.own[:20], truth[:20])


@pytest.mark.trains
def test_noise_hides_which_of_two_sets_was_released(network):
    noise = Noise(clip=30.0, multiplier=5.0, reference_multiplier=5.0, budget=1e6, delta=1e-5, acknowledge=("sums",))
    found = played(replace(PUBLIC, noise=noise), public=network, training=Training(epochs=1, batch=50, lr=0.1))
    cloud, truth, other = found.cloud(0, 1), found.truth(0, None)[0], found.embed_public(None, 1)[0]
    neighbour = np.concatenate([other, truth[1:]])
    assert off_span(cloud.own, truth) / off_span(cloud.own, neighbour) == pytest.approx(1, abs=0.02)


@pytest.mark.trains
def test_a_secret_that_can_be_guessed_is_found_and_that_of_the_protocol_is_not_among_guesses(alone):
    cloud, projection = with_colluder(alone)
    projections = {k: drawn(cloud.terms, derive_key(bytes(32), "guess", k.to_bytes(4, "big"))) for k in range(48)}
    secret, least, second = searched(cloud.own, [*projections, -1], {**projections, -1: projection}.__getitem__)
    assert secret == -1
    assert least < 0.5 * second
    _, least, second = searched(cloud.own, projections, projections.__getitem__)
    assert least > 0.5 * second  # nothing stands out
    assert least > 2 * negative_share(cloud.own, projection)


# --- B3: the server alone, nothing known but public examples ------------------------------------------------------------------


@pytest.mark.trains
@pytest.mark.long
def test_public_examples_name_the_labels_of_a_cloud_under_an_unknown_projection(alone):
    cloud, (truth, labels, _) = alone.cloud(0, 1), alone.truth(0, None)
    public, names, _ = alone.embed_public(None, 600)
    kept = slice(0, 250)
    best = max((aligned(cloud.own[kept], public, names, np.random.default_rng(s)) for s in (0, 1)), key=lambda g: g.likelihood)
    assert accuracy(best.labels, labels[kept]) > 0.6
    assert median_error(best.embeddings, truth[kept]) < 0.6
    with pytest.raises(ValueError, match="cannot be matched"):
        aligned(cloud.own, public[:100], names[:100], np.random.default_rng(0))


def test_namings_and_likenesses_are_found_from_distances():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((8, 5))
    order = rng.permutation(8)
    np.testing.assert_array_equal(namings(distances_of(points[order]), distances_of(points), rng)[0], order)
    several = rng.integers(8, size=20)
    np.testing.assert_array_equal(alike(distances_of(points[several]), distances_of(points), rng), several)


# --- B5 and DISTANCES ---------------------------------------------------------------------------------------------------------


@pytest.mark.trains
def test_a_fresh_projection_for_every_pair_gives_the_distances_away():
    found = Played(PerPair(ratio=0.2), partition=Iid(clients=17, samples=60), rows=40, pairs=tuple((0, j) for j in range(1, 17)))
    truth = distances_of(found.truth(0, found.model_of(0))[0].astype(float))
    clouds = [found.cloud(0, j).own for j in range(1, 17)]
    apart = np.triu_indices(len(truth), 1)

    def error(guess):
        return np.median(np.abs(guess[apart] - truth[apart]) / truth[apart])

    assert error(averaged(clouds)) < 0.4 * error(averaged(clouds[:1]))
    np.testing.assert_allclose(distances_of(stacked(clouds, 40)), averaged(clouds), atol=1e-4 * truth.max())


@pytest.mark.trains
def test_reported_distances_name_clients_of_one_label(network):
    found = Played(
        Distances(embedding="public"),
        public=network,
        partition=OneLabelEach(10, 120),
        rows=30,
        training=Training(epochs=1, batch=50, lr=0.1),
        protection=Masked(floor=2, sketch=8),
    )
    public, names, _ = found.embed_public(None)
    rng = np.random.default_rng(0)
    of = {k: rng.permutation(np.flatnonzero(names == k)) for k in CLASSES}
    kinds, between = between_kinds({k: (public[at[:15]], public[at[15:30]]) for k, at in of.items()}, ExactEmd())
    guess = named_clients(found.distances(), kinds, between, rng)
    assert np.mean([guess[i] == i for i in range(10)]) > 0.7


# --- B7: a peer's model, and what is shown as it is ---------------------------------------------------------------------------


def copying(choice, hidden, sent, **changes):
    """Client 1's model is what it likes."""
    model = np.zeros(64 * hidden + hidden + 10 * hidden + 10, dtype=np.float32)
    model[: len(sent.weights)] = sent.weights
    colluders = Colluders(frozenset({1}), {1: model})
    return Played(choice, colluders=colluders, **{"rows": 30, "pairs": ((0, 1),), "model": Mlp(hidden=(hidden,)), **changes})


@pytest.mark.trains
@pytest.mark.parametrize("choice", [PRINTED, ORTHONORMAL], ids=["printed", "orthonormal"])
def test_a_model_that_copies_gives_a_peer_and_the_server_the_inputs(choice):
    sent = projection_peer.whole(64, 64)
    found = copying(choice, 64, sent)
    guess = projection_peer.inputs_whole(found.cloud(0, 1).other, found.held(1, 0).projection, sent)
    assert exact_share(guess, found.truth(0, None)[2]) > 0.8


@pytest.mark.trains
def test_a_narrow_model_copies_the_main_directions():
    public = Digits()(None).test.x.numpy().reshape(-1, 64)
    sent = projection_peer.main_directions(public, 16)
    found = copying(PRINTED, 16, sent)
    cloud, projection, inputs = found.cloud(0, 1).other, found.held(1, 0).projection, found.truth(0, None)[2]
    guess = projection_peer.inputs_by_public(cloud, projection, sent, public)
    assert psnr(guess, inputs) > psnr(np.broadcast_to(public.mean(axis=0), inputs.shape), inputs) + 3
    with pytest.raises(ValueError, match="main_directions"):
        projection_peer.whole(64, 16)


@pytest.mark.trains
def test_two_colluders_with_narrow_models_copy_half_an_input_each():
    halves = {i: projection_peer.Copying(np.eye(64)[at], np.zeros(32)) for i, at in ((1, slice(0, 32)), (2, slice(32, 64)))}
    models = {i: np.concatenate([half.weights, np.zeros(10 * 32 + 10, dtype=np.float32)]) for i, half in halves.items()}
    colluders = Colluders(frozenset(halves), models)
    found = Played(PRINTED, colluders=colluders, rows=30, pairs=((0, 1), (0, 2)), model=Mlp(hidden=(32,)))
    clouds, projections = [found.cloud(0, i).other for i in halves], [found.held(i, 0).projection for i in halves]
    inputs, shares = found.truth(0, None)[2], []
    for kept in (slice(0, 1), slice(0, 2)):
        both = projection_peer.joined(clouds[kept], projections[kept], list(halves.values())[kept])
        shares.append(exact_share(projection_peer.inputs_whole(*both), inputs))
    assert shares[0] == 0
    assert shares[1] > 0.8


@pytest.mark.trains
def test_where_clients_measure_a_peer_alone_has_the_inputs():
    sent = projection_peer.whole(64, 64)
    found = copying(DISTANCES, 64, sent, protection=Masked(floor=2, sketch=8))
    np.testing.assert_allclose(found.colluders.shown[1, 0], found.truth(0, None)[2], atol=1e-6)


@pytest.mark.trains
@pytest.mark.parametrize("choice", [PUBLIC, ONE_RELEASE, Distances(embedding="public")], ids=repr)
def test_no_peer_has_a_say_in_a_public_embedding(choice):
    found = copying(choice, 64, projection_peer.whole(64, 64))
    assert not any(frame.kind == "SealedEmbedding" for frame in found.frames)
    assert all(held.others is None for held in found.colluders.held)


@pytest.mark.trains
def test_samples_at_the_server_are_the_inputs():
    found = played(ServerSamples(embedding="public"), rows=30)
    np.testing.assert_array_equal(found.cloud(0).own, found.truth(0, None)[2])


# --- mean sketches ------------------------------------------------------------------------------------------------------------


def sketching(multiplier, network, **changes):
    noise = Noise(
        clip=30.0,
        multiplier=multiplier,
        reference_multiplier=1.0,
        budget=1e9,
        delta=1e-5,
        nonnegative=True,
        acknowledge=("sums",),
    )
    known = {"public": network, "rows": 100, "training": Training(epochs=1, batch=50, lr=0.1), "pairs": None}
    return noise, played(MeanSketch(noise=noise), **{**known, **changes})


@pytest.mark.trains
@pytest.mark.parametrize(("multiplier", "told"), [(0.2, True), (40.0, False)])
def test_a_mean_sketch_tells_shares_of_labels_unless_the_noise_is_larger_than_the_mean(network, multiplier, told):
    noise, found = sketching(multiplier, network, partition=OneLabelEach(10, 130), rows=60)
    projection = found.held(1).projection
    public, names, _ = found.embed_public(None)
    centres = centres_of(clipped(public, noise.clip), names)
    guess = np.stack([label_shares(found.cloud(i).own[0], projection, centres) for i in range(10)])
    np.testing.assert_allclose(guess.sum(axis=1), 1)
    assert (total_variation(guess, np.eye(10)) < 0.5) == told
    assert (np.mean(guess.argmax(axis=1) == CLASSES) > 0.6) == told


@pytest.mark.trains
def test_mean_sketches_name_clients_of_one_label_to_a_server_alone(network):
    noise, found = sketching(0.01, network, partition=OneLabelEach(10, 130), rows=60)
    public, names, _ = found.embed_public(None)
    centres = centres_of(clipped(public, noise.clip), names)
    guess = named_by_sketches([found.cloud(i).own[0] for i in range(10)], centres, CLASSES, np.random.default_rng(0))
    assert np.mean(guess == CLASSES) > 0.7


@pytest.mark.trains
@pytest.mark.parametrize(("multiplier", "least", "most"), [(0.02, 0.99, 1.0), (20.0, 0.0, 0.75)])
def test_whether_a_record_is_in_a_mean_sketch_is_told_as_the_noise_allows(network, multiplier, least, most):
    """The worst adversary, which knows R and all other records, tells one record from another."""
    noise, found = sketching(multiplier, network)
    projection, cloud = found.held(1).projection, found.cloud(0)
    mine = clipped(found.truth(0, None)[0], noise.clip)
    others = clipped(found.embed_public(None, len(mine))[0], noise.clip)
    scores = []
    for k, other in enumerate(others):
        rest = mine.sum(axis=0) - mine[k] + other
        scores.append(presence(cloud.own[0], projection, rest, mine[k] - other, len(mine)))
    assert least <= np.mean(np.array(scores) > 0) <= most
