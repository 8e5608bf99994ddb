"""Noise on what clients release to be compared: sensitivities, ledgers, and the price of groups in epsilon."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.fl.emd.distances import Euclidean, ExactEmd, MeanDistance
from cloister.fl.emd.judging import Gap, Judging
from cloister.fl.emd.pairs import Cores
from cloister.protocol import Masked, Plain
from cloister.protocol.pairs.choices import (
    ONE_RELEASE,
    ORTHONORMAL,
    PER_PAIR,
    Distances,
    MeanSketch,
    PerClient,
    PerPair,
)
from cloister.protocol.pairs.noise import Noise
from cloister.protocol.pairs.projection import drawn

from . import sides
from .pairs_sample import (
    CLIENTS,
    NOISE,
    ROWS,
    TAU,
    D,
    Small,
    ask,
    by_distance,
    expected,
    opened,
    two,
)


def test_releases_compose_in_the_clients_ledgers():
    view = opened(Masked(floor=2, sketch=8))
    ask(view, PerPair(projection="orthonormal", embedding="public", noise=NOISE))
    ledgers = sides.pair_ledgers(view)
    assert sorted(ledgers) == list(CLIENTS)
    for ledger in ledgers.values():
        assert len(ledger.releases) == 3 * 2  # three pairs, a cloud and a tau each
        assert ledger.unit == "record"
        assert not any("trained" in words for words in ledger.not_covered)
    exact = 2 * NOISE.clip * np.sqrt(D / int(0.9 * D))
    assert ledgers[1].releases[0].sensitivity == pytest.approx(exact, rel=1e-4)
    assert ledgers[1].releases[1].sensitivity == pytest.approx(TAU.span / ROWS, rel=1e-4)
    single = opened(Masked(floor=2, sketch=8))
    ask(single, PerClient(noise=NOISE))
    assert len(sides.pair_ledgers(single)[1].releases) == 2
    assert sides.pair_ledgers(single)[1].spent < ledgers[1].spent


def test_a_trained_embedding_model_is_named_as_not_covered():
    view = opened(Plain())
    ask(view, PerPair(noise=NOISE), pairs=((1, 5),))
    ledger = sides.pair_ledgers(view)[1]
    assert any("trained on the same records without noise" in words for words in ledger.not_covered)
    assert all("trained" in r.covers for r in ledger.releases)
    assert len(ledger.releases) == 3
    view = opened(Plain())
    ask(view, PerPair(noise=replace(NOISE, trained_privately=True)), pairs=((1, 5),))
    assert any("is claimed" in words for words in sides.pair_ledgers(view)[1].not_covered)


def test_a_client_past_its_budget_is_silent_and_says_so():
    view = opened(Plain())
    one = opened(Plain())
    ask(one, PerPair(embedding="public", noise=NOISE), pairs=((1, 5),))
    budget = sides.pair_ledgers(one)[1].spent * 1.01
    answers = ask(view, PerPair(embedding="public", noise=replace(NOISE, budget=budget)))
    assert all(ledger.spent <= budget for ledger in sides.pair_ledgers(view).values())
    assert len(answers.accepts) < 12
    assert all(f.rejected and "past its budget" in f.reason for f in view.record.faults)


@settings(max_examples=40)
@given(
    st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from(["record", "attribute"]), st.sampled_from([PER_PAIR, ORTHONORMAL])
)
def test_no_two_neighbouring_clouds_are_farther_apart_than_the_sensitivity(seed, nonnegative, unit, choice):
    rng = np.random.default_rng(seed)
    noise = replace(NOISE, nonnegative=nonnegative, unit=unit)
    terms, _, _ = two(choice)
    projection = drawn(terms, rng.bytes(32))
    rows = 10 * rng.standard_normal((5, D))
    other = rows.copy()
    if unit == "record":
        other[2] = 10 * rng.standard_normal(D)
    else:
        other[2, rng.integers(D)] = 10 * rng.standard_normal()
    apart = np.linalg.norm((noise.clipped(rows) - noise.clipped(other)) @ projection)
    assert apart <= noise.sensitivity(projection)


def test_the_sensitivity_is_reached():
    terms, _, _ = two(PER_PAIR)
    projection = drawn(terms, bytes(32))
    worst = np.linalg.svd(projection)[0][:, 0]
    apart = np.linalg.norm((NOISE.clipped(100 * worst[None]) - NOISE.clipped(-100 * worst[None])) @ projection)
    assert apart == pytest.approx(NOISE.sensitivity(projection), rel=1e-5)


def test_mean_sketches_find_the_groups_at_a_small_epsilon():
    """One number vector a client: of many records, little noise is enough (rows: 400 here)."""
    noise = Noise(clip=4.0, multiplier=5.0, reference_multiplier=1.0, budget=1.0, delta=1e-5)
    view = opened(Masked(floor=2, sketch=8), embedders=Small(rows=400))
    seen = {}
    answers = ask(view, MeanSketch(noise=noise), judge=by_distance(0.5, seen, MeanDistance(Euclidean())))
    assert answers.accepts == expected()
    assert all(0 < ledger.spent <= 1.0 for ledger in sides.pair_ledgers(view).values())
    (direction,) = {d.reference for d in seen.values()}
    assert direction == pytest.approx(np.sqrt(2 * int(0.9 * D)) * 5.0 * 2 * 4.0 * np.sqrt(D / int(0.9 * D)) / 400, rel=1e-4)
    assert seen[1, 5].source.shape == (1, int(0.9 * D))


@pytest.mark.long
def test_the_price_of_groups_in_epsilon():
    """All that a client spends: noisy clouds lose the groups at 15, reported distances keep them below 3, means below 1."""

    def spent(choice, distance, multiplier):
        noise = Noise(clip=4.0, multiplier=multiplier, reference_multiplier=multiplier, budget=1e6, delta=1e-5)
        view = opened(Masked(floor=2, sketch=8), embedders=Small(rows=400))
        answers = ask(view, replace(choice, noise=noise), judge=Judging(distance, Gap(), Cores(1), None))
        return answers.accepts == expected(), max(ledger.spent for ledger in sides.pair_ledgers(view).values())

    clouds = spent(ONE_RELEASE, ExactEmd(), 0.5)
    distances = spent(Distances(embedding="public"), ExactEmd(), 5.0)
    mean = spent(MeanSketch(noise=NOISE), MeanDistance(Euclidean()), 5.0)
    assert [found for found, _ in (clouds, distances, mean)] == [False, True, True]
    assert mean[1] < 1 < distances[1] < 3 < 15 < clouds[1]


def test_noise_has_the_deviation_that_it_says():
    from cloister.protocol.pairs.noise import noised

    values = np.full((200, 50), 3.0)
    drawn_noise = noised(values, 0.7, bytes(range(32))) - values
    assert abs(drawn_noise.mean()) < 0.7 * 4 / 100
    assert drawn_noise.std() == pytest.approx(0.7, rel=0.03)
