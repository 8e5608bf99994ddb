"""Attacks on a shared Hadamard rotation: what one known vector opens, and what keys of a session leave of that."""

import numpy as np
import pytest

from cloister.crypto.orthonormal import HadamardRotation
from cloister.fl.clients.training import Training
from cloister.fl.data.images import Digits
from cloister.fl.data.partition import Iid
from cloister.fl.models.papers import Mlp
from cloister.threat_models.inference import permutation_dead_relu as dead_relu
from cloister.threat_models.inference.permutation_scores import energy, relative_error
from cloister.threat_models.inference.permutation_zero_sums import zero_sums
from cloister.threat_models.inference.rotation_known import EXACT, in_span, key_of, walsh_hadamard

from .permuted_figures import probed, released
from .permuted_runs import Dead, OneClass, Played, played

MODEL, TRAINING = Mlp(hidden=(16,)), Training(epochs=1, batch=16, lr=0.1)


def run(rounds: int, keys: str = "run", seed: int = 0) -> Played:
    return played(Digits(), Iid(clients=10), MODEL, TRAINING, HadamardRotation, rounds, keys, seed)


@pytest.mark.trains
@pytest.mark.parametrize("seed", range(3))
def test_one_known_update_gives_the_key(seed: int) -> None:
    seen = run(3, seed=seed)
    guess = key_of(seen.computed(0)[:1], seen.sent(0)[:1], np.random.default_rng(seed))
    assert guess.misfit < EXACT
    for i in seen.clients[1:]:
        assert energy(guess.opened(seen.sent(i)), seen.computed(i)) > 0.97


@pytest.mark.trains
def test_one_released_model_gives_the_key() -> None:
    seen = run(4)
    guess = key_of(*released(seen, 4), np.random.default_rng(0))
    for i in seen.clients:
        assert relative_error(guess.opened(seen.sent(i)), seen.computed(i)) < 0.02


@pytest.mark.trains
def test_a_key_of_a_session_opens_that_session_alone() -> None:
    seen = run(2, "session")
    guess = key_of(seen.computed(0)[:1], seen.sent(0)[:1], np.random.default_rng(0))
    assert energy(guess.opened(seen.received(0)), seen.meant(0)) > 0.97
    assert energy(guess.opened(seen.received(1)), seen.meant(1)) < 0.1


@pytest.mark.trains
def test_known_vectors_open_their_span_under_any_linear_map() -> None:
    """Exactly the projection: a sum of known vectors whole, and of others what is not orthogonal to them."""
    seen = run(4)
    mine, theirs = seen.computed(0), seen.sent(0)
    assert relative_error(in_span(mine, theirs, theirs[:1] + theirs[1:2]), mine[:1] + mine[1:2]) < 1e-3
    part = in_span(mine, theirs, seen.sent(1))
    q = np.linalg.qr(mine.T.astype(np.float64))[0]
    assert relative_error(part, (seen.computed(1) @ q @ q.T).astype(np.float32)) < 1e-2
    assert 0.1 < energy(part, seen.computed(1)) < 0.99


def test_as_many_known_vectors_as_coordinates_open_everything() -> None:
    rng, d = np.random.default_rng(0), 50
    rotation = HadamardRotation.draw(bytes(32), d)
    clear = rng.standard_normal((d, d)).astype(np.float32)
    other = rng.standard_normal(d).astype(np.float32)
    found = in_span(clear, np.stack([rotation.apply(v) for v in clear]), rotation.apply(other)[None])
    assert relative_error(found, other[None]) < 1e-2


@pytest.mark.parametrize("d", [300, 512, 1000])
def test_dense_vectors_give_their_key_too(d: int) -> None:
    """Also where the vector fills the rotation's whole length; up to both signs negated."""
    rng = np.random.default_rng(d)
    rotation = HadamardRotation.draw(rng.bytes(32), d)
    clear = rng.standard_t(3, (2, d)).astype(np.float32)
    guess = key_of(clear, np.stack([rotation.apply(v) for v in clear]), rng)
    sign = guess.second[0] * rotation.second[0]
    assert np.array_equal(guess.second * sign, rotation.second)
    assert np.array_equal(guess.first[:d] * sign, rotation.first[:d])


def test_a_vector_that_is_not_of_the_key_fits_no_key() -> None:
    """The attack says so when it fails."""
    rng = np.random.default_rng(0)
    clear, other = (rng.standard_normal((1, 256)).astype(np.float32) for _ in range(2))
    assert key_of(clear, HadamardRotation.draw(bytes(32), 256).apply(other[0])[None], rng, most=100).misfit > 10 * EXACT
    with pytest.raises(ValueError, match="power of two"):
        key_of(clear[:, :9], clear[:, :12], rng)


def test_the_transform_is_its_own_inverse() -> None:
    rows = np.random.default_rng(0).standard_normal((3, 64))
    assert np.allclose(walsh_hadamard(walsh_hadamard(rows)), rows)
    assert np.allclose(walsh_hadamard(np.eye(2)), np.array([[1, 1], [1, -1]]) / np.sqrt(2))


@pytest.mark.trains
def test_norms_tell_the_one_label_of_a_client_from_a_dead_model() -> None:
    """A5 through any orthonormal map."""
    q = dead_relu.spread_answers(10)
    start, one_step = Dead(tuple(q), 16), Training(epochs=1, batch=60, lr=0.1)
    seen = played(Digits(), OneClass(clients=20, each=60), start, one_step, HadamardRotation, 1, "session")
    assert dead_relu.only_labels(seen.received(0), q, 0.1).tolist() == seen.histograms().argmax(axis=1).tolist()


@pytest.mark.trains
@pytest.mark.long
def test_a_rotation_has_no_zeros_and_names_no_groups() -> None:
    """A4 and A8 fail, where they succeed against a permutation (test_permutation_attacks)."""
    seen = run(3)
    assert (seen.meant(0) == 0).mean() > 0.1
    assert (seen.received(0) == 0).sum() < 5
    few = played(Digits(), Iid(clients=20), Mlp(hidden=(8,)), Training(epochs=1, batch=8, lr=0.1), HadamardRotation, 53)
    sent = np.concatenate([few.sent(i) for i in few.clients])
    assert len(zero_sums(sent, 10, most=1024).members) == 0


@pytest.mark.trains
def test_one_published_cosine_reads_one_coordinate() -> None:
    """A13."""
    read, true = probed(HadamardRotation, Digits(), MODEL, 3, 1210)
    assert np.abs(read - true).max() < 1e-4 * np.abs(true).max()
