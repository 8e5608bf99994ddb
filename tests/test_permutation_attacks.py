"""Attacks on a shared (signed) permutation, on what the server received in runs on the digits."""

import numpy as np
import pytest
from numpy.typing import NDArray

from cloister.crypto.orthonormal import Permutation, SignedPermutation, Transform
from cloister.fl.clients.training import Training
from cloister.fl.data.images import Digits
from cloister.fl.data.partition import Dirichlet, Iid
from cloister.fl.models.papers import Mlp, SoftmaxRegression
from cloister.threat_models.inference import permutation_dead_relu as dead_relu
from cloister.threat_models.inference import permutation_known as known
from cloister.threat_models.inference import permutation_opened as opened
from cloister.threat_models.inference import permutation_zero_sums as sums
from cloister.threat_models.inference import permutation_zeros as zeros
from cloister.threat_models.inference.label_regression import top_label
from cloister.threat_models.inference.permutation_scores import (
    energy,
    moved,
    precision_and_recall,
    psnr,
    recovery,
    relative_error,
)
from cloister.threat_models.inference.permutation_seed import brute_force
from cloister.threat_models.inference.permutation_shadow import ShadowLabels, features

from .permuted_figures import groups_of, probed, released
from .permuted_runs import Dead, DirichletEach, EvenOrOdd, OneClass, OneKnown, Played, played

MODEL, TRAINING = Mlp(hidden=(16,)), Training(epochs=1, batch=16, lr=0.1)
both = pytest.mark.parametrize("transform", [Permutation, SignedPermutation])
WIDTH, PIXELS, CLASSES = 16, 64, 10


def run(transform: type[Transform], rounds: int, keys: str = "run") -> Played:
    return played(Digits(), Iid(clients=10), MODEL, TRAINING, transform, rounds, keys)


def all_of(seen: Played) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """All updates in clear, and as the server received them."""
    computed, sent = ([of(i) for i in seen.clients] for of in (seen.computed, seen.sent))
    return np.concatenate(computed), np.concatenate(sent)


@both
@pytest.mark.trains
def test_a_known_update_places_all_that_moves_and_nothing_wrongly(transform: type[Transform]) -> None:
    """A1."""
    seen, signed = run(transform, 4), transform is SignedPermutation
    for rounds in (1, 4):
        guess = known.known_plaintext(seen.computed(0)[:rounds], seen.sent(0)[:rounds], signed)
        assert recovery(guess, *all_of(seen)).wrong == 0
        for i in seen.clients[1:]:
            assert energy(guess.opened(seen.sent(i)), seen.computed(i)) > 0.97


@both
@pytest.mark.trains
def test_a_known_update_opens_its_session_alone_under_keys_of_a_session(transform: type[Transform]) -> None:
    seen = run(transform, 2, "session")
    guess = known.known_plaintext(seen.computed(0)[:1], seen.sent(0)[:1], transform is SignedPermutation)
    assert energy(guess.opened(seen.received(0)), seen.meant(0)) > 0.97
    assert energy(guess.opened(seen.received(1)), seen.meant(1)) < 0.1


def test_known_plaintext_of_equal_values_places_neither() -> None:
    clear = np.array([[1, 2, 2, 0, 0, 3]], np.float32)
    guess = known.known_plaintext(clear, clear[:, ::-1])
    assert guess.order.tolist() == [5, -1, -1, -1, -1, 0]
    signed = known.known_plaintext(np.array([[1, -2, 2, 3]], np.float32), np.array([[-3, 2, 2, -1]], np.float32), signed=True)
    assert signed.order.tolist() == [3, -1, -1, 0]
    assert signed.signs.tolist() == [-1, 1, 1, -1]
    with pytest.raises(ValueError, match="one shape"):
        known.known_plaintext(clear, clear[:, :5])


@both
@pytest.mark.trains
def test_released_models_place_what_moves(transform: type[Transform]) -> None:
    """A2."""
    seen, signed = run(transform, 6), transform is SignedPermutation
    clear, sent = all_of(seen)
    (one, of_one), (two, of_two) = released(seen, 6), released(seen, 3, 6)
    by_rank = known.by_rank(one[0], of_one[0], signed).opened(sent)
    by_nearest = known.by_nearest(two, of_two, signed).opened(sent)
    assert moved(by_rank, clear) > 0.9
    assert moved(by_nearest, clear) > 0.97
    assert relative_error(by_nearest, clear) < 0.05


@both
@pytest.mark.trains
def test_weights_that_only_decay_say_which_they_are(transform: type[Transform]) -> None:
    """A3."""
    training = Training(epochs=1, batch=16, lr=0.1, weight_decay=1e-2)
    seen = played(Digits(), Iid(clients=10, samples=128), MODEL, training, transform, 5)
    lit = np.any([seen.population.clients[i].train.x.flatten(1).numpy().any(axis=0) for i in seen.clients], axis=0)
    dead = np.zeros(len(seen.start), bool)
    dead[: WIDTH * PIXELS] = np.tile(~lit, WIDTH)
    totals = np.stack([seen.sent(i).sum(axis=0, dtype=np.float64) for i in seen.clients])
    shrink = zeros.shrink_of(0.1, 1e-2, 8 * 5)
    guess = zeros.by_weight_decay(seen.start, totals, shrink, dead, transform is SignedPermutation)
    assert recovery(guess, *all_of(seen), dead).recovered > 0.9
    assert not zeros.by_weight_decay(seen.start, totals, shrink, np.zeros_like(dead)).known.any()


@both
@pytest.mark.trains
def test_zeros_count_the_features_that_each_client_has_and_that_two_share(transform: type[Transform]) -> None:
    """A4."""
    model = SoftmaxRegression()
    seen = played(Digits(), Dirichlet(clients=10, alpha=0.3), model, TRAINING, transform, 2)
    lit = np.stack([seen.population.clients[i].train.x.flatten(1).numpy().any(axis=0) for i in seen.clients]).astype(int)
    shared = lit @ lit.T
    either = lit.sum(axis=1)[:, None] + lit.sum(axis=1)[None, :] - shared
    assert zeros.lit_features(seen.received(0), CLASSES).tolist() == lit.sum(axis=1).tolist()
    assert np.abs(zeros.support_similarity(seen.received(0), CLASSES) - shared / either).max() < 1e-12
    assert zeros.shared_zeros(seen.received(0), seen.received(1)) > 5
    other = played(Digits(), Dirichlet(clients=10, alpha=0.3), model, TRAINING, transform, 2, "session")
    assert zeros.shared_zeros(other.received(0), other.received(1)) < 3


@both
@pytest.mark.trains
def test_a_dead_model_makes_updates_histograms(transform: type[Transform]) -> None:
    """A5: keys of a session are no defence."""
    q = dead_relu.distinct_answers(CLASSES, 60)
    who, one_step = DirichletEach(clients=8, each=60, alpha=0.5), Training(epochs=1, batch=60, lr=0.1)
    seen = played(Digits(), who, Dead(tuple(q), WIDTH), one_step, transform, 1, "session")
    samples = np.array([seen.server.samples[0, i] for i in seen.clients])
    found = dead_relu.histograms(seen.received(0), samples, q, 0.1, transform is SignedPermutation)
    assert np.abs(found - seen.histograms()).max() < 1e-9
    assert np.isnan(dead_relu.histograms(run(transform, 1).received(0), np.full(10, 60), q, 0.1)).all()


@pytest.mark.parametrize("samples", [20, 57, 100, 1000])
def test_answers_of_dead_models_are_distributions_with_remainders_apart(samples: int) -> None:
    q = dead_relu.distinct_answers(CLASSES, samples)
    assert q.sum() == pytest.approx(1)
    assert (q > 0).all()
    remainders = np.sort(q * samples % 1)
    assert np.diff(remainders).min() > 0.02
    assert remainders[-1] < 0.5
    with pytest.raises(ValueError, match="at least 20 samples"):
        dead_relu.distinct_answers(CLASSES, 19)


@both
@pytest.mark.trains
def test_shadows_tell_the_label_of_clients_that_have_one(transform: type[Transform]) -> None:
    """A6: the attacker's shadows are clients of another run from the same theta_0, with other examples."""
    seen = played(Digits(), OneClass(clients=20, each=16), MODEL, TRAINING, transform, 1, "session")
    shadow = played(Digits(), OneClass(clients=60, each=16, skip=32), MODEL, TRAINING, Permutation, 1, "session")
    assert np.array_equal(seen.start, shadow.start)
    what = "magnitudes" if transform is SignedPermutation else "values"
    learned = ShadowLabels.learned(features(shadow.meant(0), what), shadow.histograms())
    assert top_label(learned.histograms(features(seen.received(0), what)), seen.histograms()).mean() >= 0.6


@pytest.mark.trains
def test_a_short_seed_is_found_and_a_key_is_not() -> None:
    """A7: the true seed stands out among all tried, and none does where clients used a key of 32 bytes."""
    seen, secret = run(Permutation, 1), 77
    d = len(seen.start)
    lit = np.any([seen.population.clients[i].train.x.flatten(1).numpy().any(axis=0) for i in seen.clients], axis=0)
    dead = np.zeros(d, bool)
    dead[: WIDTH * PIXELS] = np.tile(~lit, WIDTH)

    def order_of(seed: int) -> NDArray[np.int64]:
        return np.asarray(Permutation.draw(seed.to_bytes(32, "little"), d).order)

    scores = brute_force(seen.computed(0)[0][order_of(secret)], range(256), order_of, dead)
    assert scores.argmax() == secret
    assert scores[secret] == 1
    assert np.delete(scores, secret).max() < 0.7
    assert brute_force(seen.sent(0)[0], range(256), order_of, dead).max() < 0.7


@pytest.mark.long
@both
@pytest.mark.trains
def test_sums_that_are_zero_name_the_groups_of_the_last_layer(transform: type[Transform]) -> None:
    """A8: from uploads alone, and not from those of a few rounds, which is what one key of a session protects at most."""
    width = 8
    seen = played(Digits(), Iid(clients=20), Mlp(hidden=(width,)), Training(epochs=1, batch=8, lr=0.1), transform, 40)
    clear, sent = all_of(seen)
    order = known.known_plaintext(clear, sent, transform is SignedPermutation).order
    found = sums.zero_sums(sent, CLASSES)
    precision, recall = precision_and_recall(found.members, order, groups_of(width, PIXELS, CLASSES))
    assert precision == 1
    assert recall > 0.6
    assert np.abs((sent[:, found.members] * found.signs).sum(axis=2)).max() < 1e-5
    assert len(sums.zero_sums(sent[:200], CLASSES).members) == 0


@both
@pytest.mark.trains
def test_two_outputs_mirror_each_other(transform: type[Transform]) -> None:
    """A9."""
    training = Training(epochs=1, batch=20, lr=0.1)
    seen = played(EvenOrOdd(), Iid(clients=20), MODEL, training, transform, 2)
    clear, sent = all_of(seen)
    order = known.known_plaintext(clear, sent, transform is SignedPermutation).order
    pairs = sums.mirrored(sent, transform is SignedPermutation)
    precision, recall = precision_and_recall(pairs, order, groups_of(WIDTH, PIXELS, 2))
    assert precision > (0.6 if transform is SignedPermutation else 0.9)
    assert recall > (0.7 if transform is SignedPermutation else 0.9)


@pytest.mark.trains
def test_an_opened_update_of_one_example_is_the_example() -> None:
    """A11."""
    who = OneKnown(clients=21, many=600)
    seen = played(Digits(), who, MODEL, TRAINING, Permutation, 1)
    guess = known.known_plaintext(seen.computed(0), seen.sent(0))
    updates, own = guess.opened(seen.received(0)[1:]), [seen.population.clients[i].train for i in seen.clients[1:]]
    images = np.stack([opened.first_layer_input(u, WIDTH, PIXELS) for u in updates])
    assert np.median(psnr(images, np.stack([c.x.numpy().reshape(-1) for c in own]))) > 100
    assert [opened.only_label(u, CLASSES) for u in updates] == [int(c.y[0]) for c in own]


@both
@pytest.mark.trains
def test_one_published_cosine_reads_one_coordinate(transform: type[Transform]) -> None:
    """A13."""
    read, true = probed(transform, Digits(), MODEL, 3, 1210)
    assert np.abs(read - true).max() < 1e-4 * np.abs(true).max()
