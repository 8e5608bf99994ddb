"""Attacks on projected embeddings of MNIST (784-128-10, 512 rows): figures within bands. `pytest -s` prints them."""

import os
from functools import cache

import numpy as np
import pytest

from cloister.crypto.prg import derive_key
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Dirichlet, Iid
from cloister.fl.data.source import Mnist
from cloister.fl.emd.distances import ExactEmd
from cloister.fl.models.papers import Mlp
from cloister.protocol.pairs.choices import (
    DISTANCES,
    ONE_RELEASE,
    ORTHONORMAL,
    PRINTED,
    PUBLIC,
    Distances,
    MeanSketch,
    PerPair,
)
from cloister.protocol.pairs.noise import Noise
from cloister.protocol.pairs.projection import drawn
from cloister.threat_models.inference import projection_peer
from cloister.threat_models.inference.mean_sketch import clipped, label_shares, named_by_sketches
from cloister.threat_models.inference.naming import distances_of
from cloister.threat_models.inference.projection_distances import averaged, between_kinds, named_clients, stacked
from cloister.threat_models.inference.projection_known import (
    Moments,
    decoded,
    from_known_rows,
    least_squares,
    linear,
    nearest,
    non_negative,
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
from cloister.threat_models.inference.projection_seed import searched
from cloister.threat_models.inference.projection_unknown import aligned

from .projection_sample import Colluders, OneLabelEach, Played, public_network

pytestmark = [
    pytest.mark.slow,
    pytest.mark.trains,
    pytest.mark.skipif("CLOISTER_DATA" not in os.environ, reason="set CLOISTER_DATA to a folder with MNIST"),
]

CLASSES = np.arange(10)
HALF, TENTH = PerPair(ratio=0.5), PerPair(ratio=0.1)
LOCAL, LITTLE = Training(epochs=4, batch=10, lr=0.1), Training(epochs=4, batch=20, lr=0.1)
"""What clients train with: 4,500 examples each, or half as many and half as many steps on each."""


def show(**figures):
    print({name: np.round(value, 3).tolist() for name, value in figures.items()})


@cache
def network():
    return public_network(Mnist()(None), 128)


@cache
def compared(choice, seed=0, local=LOCAL):
    """Client 0 and the colluder 1, iid; the cloud, the projection, the truth and what is public."""
    public = choice in (PUBLIC, ONE_RELEASE)
    more = {"public": network(), "training": Training(epochs=1, batch=50, lr=0.1)} if public else {"training": local}
    found = Played(
        choice,
        colluders=Colluders(frozenset({1})),
        data=Mnist(),
        model=Mlp(hidden=(128,)),
        partition=Iid(clients=3, samples=6000 if local == LOCAL else 3000),
        rows=512,
        pairs=((0, 1),),
        seed=seed,
        **more,
    )
    cloud = next(c for c in found.clouds() if c.client == 0)
    weights = None if public else found.model_of(0)
    projection = found.held(1, cloud.peer and 0).projection
    return cloud, projection, found.truth(0, weights), found.embed_public(weights)


def centres_of(embeddings, labels):
    return np.stack([embeddings[labels == k].mean(axis=0) for k in CLASSES])


@pytest.mark.parametrize(
    ("choice", "local"),
    [(PRINTED, LITTLE), (PRINTED, LOCAL), (ORTHONORMAL, LITTLE), (ORTHONORMAL, LOCAL), (PUBLIC, LOCAL), (ONE_RELEASE, LOCAL)],
    ids=["printed, little", "printed", "orthonormal, little", "orthonormal", "public", "once"],
)
def test_b1_known_projection(choice, local):
    cloud, projection, (truth, labels, inputs), (public, names, images) = compared(choice, 0, local)
    exact, best = non_negative(cloud.own, projection), linear(cloud.own, projection, Moments.of(public))
    shares = [exact_share(exact, truth), accuracy(nearest(best, centres_of(public, names)), labels)]
    errors = [median_error(least_squares(cloud.own, projection), truth), median_error(best, truth)]
    images_of = [psnr(decoded(z, public, images), inputs) for z in (best, truth)]
    show(exact=shares[0], labels=shares[1], least_squares=errors[0], lmmse=errors[1], psnr=images_of)
    assert shares[0] > 0.6
    assert shares[1] > 0.8
    assert 0.2 < errors[0] < 0.45
    assert errors[1] < 0.06
    assert images_of[0] > images_of[1] - 1


@pytest.mark.parametrize(("choice", "most", "least"), [(HALF, 0.15, 0.8), (TENTH, 0.32, 0.7)], ids=["half", "tenth"])
def test_b1_fewer_columns(choice, most, least):
    cloud, projection, (truth, labels, _), (public, names, _) = compared(choice, 0, LITTLE)
    best = linear(cloud.own, projection, Moments.of(public))
    error, share = median_error(best, truth), accuracy(nearest(best, centres_of(public, names)), labels)
    show(lmmse=error, labels=share)
    assert error < most
    assert share > least


@pytest.mark.parametrize("choice", [PRINTED, ORTHONORMAL], ids=["printed", "orthonormal"])
def test_b2_known_records(choice):
    cloud, _, (truth, _, _), (public, _, _) = compared(choice, 0, LITTLE)
    order, known = np.random.default_rng(0).permutation(512), Moments.of(public)
    rest, errors = order[256:], []
    for k in (8, 64, 256):
        guess = from_known_rows(cloud.own, order[:k], truth[order[:k]], known)
        errors.append(median_error(guess[rest], truth[rest]))
    show(errors=errors)
    assert errors[0] < 0.35
    assert errors[1] < 0.18
    assert errors[2] < 0.06


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("choice", [PRINTED, ORTHONORMAL, PUBLIC, ONE_RELEASE], ids=["printed", "orthonormal", "public", "once"])
def test_b3_nothing_known(choice, seed):
    cloud, _, (truth, labels, inputs), (public, names, images) = compared(choice, seed)
    guess = aligned(cloud.own, public, names, np.random.default_rng(seed))
    share, error = accuracy(guess.labels, labels), median_error(guess.embeddings, truth)
    show(labels=share, error=error, psnr=psnr(decoded(guess.embeddings, public, images), inputs))
    assert share > 0.6
    assert error < 0.45


@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_b3_label_skew(alpha):
    """A client whose labels are skewed is named less well, as its clusters are not those of the classes."""
    shares = []
    for seed in range(3):
        partition, pairs = Dirichlet(clients=10, alpha=alpha, samples=3000), ((0, 1),)
        found = Played(
            ORTHONORMAL,
            data=Mnist(),
            model=Mlp(hidden=(128,)),
            partition=partition,
            training=LOCAL,
            pairs=pairs,
            seed=seed,
            rows=300,
        )
        weights = found.model_of(0)
        (_, labels, _), (public, names, _) = found.truth(0, weights), found.embed_public(weights)
        guess = aligned(found.cloud(0, 1).own, public, names, np.random.default_rng(seed))
        shares.append(accuracy(guess.labels, labels))
    show(labels=shares)
    assert np.mean(shares) < 0.95


@pytest.mark.parametrize(("choice", "least"), [(PRINTED, 0.75), (ORTHONORMAL, 0.9)], ids=["printed", "orthonormal"])
def test_b4_membership(choice, least):
    cloud, _, (truth, _, _), (public, _, _) = compared(choice)
    rng, found = np.random.default_rng(0), []
    for k in (1, 4, 8, 16):
        order = rng.permutation(512)
        scores = [by_distances(cloud.own, order[:k], truth[order[:k]], of) for of in (truth[order[k:]], public[:1000])]
        found.append(told_apart(*scores))
    show(auc=[f.auc for f in found], tpr=[f.tpr for f in found])
    assert found[0].auc < found[1].auc < found[3].auc
    assert found[3].auc > least


def test_b5_averages_over_pairs():
    partition, pairs = Iid(clients=40, samples=400), tuple((0, j) for j in range(1, 40))
    found = Played(TENTH, data=Mnist(), model=Mlp(hidden=(128,)), partition=partition, training=LOCAL, rows=100, pairs=pairs)
    weights = found.model_of(0)
    (truth, labels, _), (public, names, _) = found.truth(0, weights), found.embed_public(weights)
    clouds = [found.cloud(0, j).own for j in range(1, 40)]
    apart, exact = np.triu_indices(100, 1), distances_of(truth.astype(float))
    errors = [np.median(np.abs(averaged(of)[apart] - exact[apart]) / exact[apart]) for of in (clouds[:1], clouds)]
    guesses = [aligned(of, public, names, np.random.default_rng(0)).labels for of in (clouds[0], stacked(clouds, 128))]
    shares = [accuracy(guess, labels) for guess in guesses]
    show(errors=errors, labels=shares)
    assert 0.08 < errors[0] < 0.17
    assert errors[1] < 0.04


def test_b6_seeds():
    cloud, projection, _, _ = compared(PRINTED)
    guesses = {k: drawn(cloud.terms, derive_key(bytes(32), "guess", k.to_bytes(4, "big"))) for k in range(256)}
    secret, least, second = searched(cloud.own, [*guesses, -1], {**guesses, -1: projection}.__getitem__)
    show(true=least, best_wrong=second)
    assert secret == -1
    assert least < 0.3 * second


@pytest.mark.parametrize("choice", [PRINTED, ORTHONORMAL, DISTANCES], ids=["printed", "orthonormal", "distances"])
def test_b7_copying_models(choice):
    sent = projection_peer.whole(784, 784)
    model = np.zeros(784 * 784 + 784 + 784 * 10 + 10, dtype=np.float32)
    model[: len(sent.weights)] = sent.weights
    colluders = Colluders(frozenset({1}), {1: model})
    found = Played(
        choice,
        colluders=colluders,
        data=Mnist(),
        model=Mlp(hidden=(784,)),
        partition=Iid(clients=2, samples=100),
        training=Training(epochs=1, batch=10, lr=0.1),
        rows=15,
    )
    inputs = found.truth(0, None)[2]
    if choice == DISTANCES:
        guess = colluders.shown[1, 0]
    else:
        guess = projection_peer.inputs_whole(found.cloud(0, 1).other, found.held(1, 0).projection, sent)
    show(exact=exact_share(guess, inputs), psnr=psnr(guess, inputs) if exact_share(guess, inputs) < 1 else 999)
    assert exact_share(guess, inputs) == 1


def test_g2_not_private():
    cloud, _, (truth, _, _), (public, _, _) = compared(PRINTED)
    rng, places = np.random.default_rng(0), np.random.default_rng(1).integers(512, size=30)
    true, others = off_span(cloud.own, truth), []
    for place in places:
        neighbour = truth.copy()
        neighbour[place] = public[rng.integers(len(public))]
        others.append(off_span(cloud.own, neighbour))
    show(true=true * 1e6, least_other=min(others), median_other=np.median(others))
    assert true < 1e-6
    assert np.mean(np.array(others) > 1e-3) > 0.9


def test_distances_name_clients():
    found = Played(
        Distances(embedding="public"),
        public=network(),
        data=Mnist(),
        model=Mlp(hidden=(128,)),
        partition=OneLabelEach(10, 300),
        rows=64,
        training=Training(epochs=1, batch=50, lr=0.1),
    )
    public, names, _ = found.embed_public(None)
    rng = np.random.default_rng(0)
    of = {k: rng.permutation(np.flatnonzero(names == k)) for k in CLASSES}
    kinds, between = between_kinds({k: (public[at[:64]], public[at[64:128]]) for k, at in of.items()}, ExactEmd())
    guess = named_clients(found.distances(), kinds, between, rng)
    share = np.mean([guess[i] == i for i in range(10)])
    show(named=share)
    assert share > 0.8


@pytest.mark.parametrize(("multiplier", "gain"), [(0.01, 0.5), (4.0, 0.1)])
def test_mean_sketches(multiplier, gain):
    noise = Noise(clip=10.0, multiplier=multiplier, reference_multiplier=1.0, budget=1e9, delta=1e-5, acknowledge=("sums",))
    known = {
        "public": network(),
        "data": Mnist(),
        "model": Mlp(hidden=(128,)),
        "training": Training(epochs=1, batch=50, lr=0.1),
        "pairs": None,
    }
    colluders = Colluders(frozenset({1}))
    skewed = Dirichlet(clients=10, alpha=0.5)
    found = Played(MeanSketch(noise=noise), colluders=colluders, partition=skewed, validation=0.5, rows=512, **known)
    projection = found.held(1).projection
    public, names, _ = found.embed_public(None)
    centres = centres_of(clipped(public, noise.clip), names)
    guess, truth = [], []
    for i in range(10):
        labels = found.truth(i, None)[1]
        truth.append(np.bincount(labels, minlength=10) / len(labels))
        guess.append(label_shares(found.cloud(i).own[0], projection, centres))
    off, prior = total_variation(np.array(guess), np.array(truth)), total_variation(np.full((10, 10), 0.1), np.array(truth))
    alone = Played(MeanSketch(noise=noise), partition=OneLabelEach(10, 1000), validation=0.45, rows=512, **known)
    sketches = [alone.cloud(i).own[0] for i in range(10)]
    named = np.mean(named_by_sketches(sketches, centres, CLASSES, np.random.default_rng(0)) == CLASSES)
    epsilon = found.sim.view.record.ledgers[0, "record"].epsilon(noise.delta)
    rows = [of.clouds()[0].terms.rows for of in (found, alone)]
    show(epsilon=epsilon, shares=off, prior=prior, named=named, rows=rows)
    assert off < (1 - gain) * prior
