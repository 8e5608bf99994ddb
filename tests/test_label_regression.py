"""Label histograms from a server's view of a whole run: what the regression can learn, and from which part of the view."""

import numpy as np
import pytest
from numpy.typing import NDArray

from cloister.threat_models.inference.label_regression import (
    Compared,
    LabelRegression,
    Seen,
    features,
    top_label,
    total_variation,
)

Matrix = NDArray[np.float64]
CLIENTS, CLASSES, ROUNDS, D = 40, 5, 80, 20
READ = slice(D - CLASSES, D)


def histograms(rng: np.random.Generator) -> Matrix:
    found: Matrix = rng.dirichlet(np.full(CLASSES, 0.5), CLIENTS)
    return found


def updates(labels: Matrix, rng: np.random.Generator) -> NDArray[np.float32]:
    """(rounds, clients, d): noise, and the labels in the output layer's bias."""
    found = 0.3 * rng.standard_normal((ROUNDS, CLIENTS, D))
    found[:, :, READ] += labels - 1 / CLASSES
    return found.astype(np.float32)


def seen(sent: NDArray[np.float32], compared: str, everything: bool) -> Seen:
    """The published means of one cluster, Gram matrices of every round, and every update if so."""
    means = {(t, i): sent[t].mean(axis=0) for t in range(ROUNDS) for i in range(CLIENTS)}
    grams = []
    for t in range(ROUNDS if compared else 0):
        rows = sent[t].astype(np.float64)
        rows = rows if compared == "origin" else rows - rows.mean(axis=0)
        grams.append(Compared(t, tuple(range(CLIENTS)), rows @ rows.T, compared == "origin", means[t, 0]))
    all_of_them = {(t, i): sent[t, i] for t in range(ROUNDS) for i in range(CLIENTS)} if everything else {}
    return Seen(ROUNDS, means, grams, all_of_them)


def attacked(seed: int, compared: str, everything: bool) -> float:
    """Mean total variation of a target run, by a regression that was learned on a shadow run."""
    rng = np.random.default_rng(seed)
    known, secret = histograms(rng), histograms(rng)
    shadow, target = updates(known, rng), updates(secret, rng)
    learned = LabelRegression.learned(features(seen(shadow, compared, everything), range(CLIENTS), READ), known)
    estimated = learned.histograms(features(seen(target, compared, everything), range(CLIENTS), READ))
    return float(total_variation(estimated, secret).mean())


@pytest.mark.parametrize("seed", range(3))
def test_who_sees_every_update_reads_the_labels_and_who_sees_means_does_not(seed: int) -> None:
    assert attacked(seed, "", everything=True) < 0.15
    assert attacked(seed, "", everything=False) > 0.35


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_products_with_published_means_tell_labels_and_differences_do_not(seed: int) -> None:
    """The means here are noise of every direction, so that products about the origin are measurements of each update."""
    alone = attacked(seed, "", everything=False)
    assert attacked(seed, "origin", everything=False) < alone - 0.05
    assert attacked(seed, "differences", everything=False) > alone - 0.05


def test_estimates_are_histograms() -> None:
    rng = np.random.default_rng(0)
    learned = LabelRegression.learned(rng.standard_normal((12, 7)), rng.dirichlet(np.ones(3), 12))
    found = learned.histograms(100 * rng.standard_normal((9, 7)))
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_a_feature_that_is_always_the_same_counts_for_nothing() -> None:
    rng = np.random.default_rng(1)
    x, y = np.ones((12, 3)), rng.dirichlet(np.ones(4), 12)
    found = LabelRegression.learned(x, y).histograms(np.full((2, 3), 7.0))
    np.testing.assert_allclose(found, np.tile(y.mean(axis=0), (2, 1)))


def test_a_client_that_nothing_was_seen_of_has_features_too() -> None:
    nothing = features(Seen(4, {(0, 0): np.ones(D, np.float32)}), (0, 1), READ)
    assert np.isfinite(nothing).all()
    assert not nothing[1].any()


def test_distances_and_hits() -> None:
    true = np.array([[0.5, 0.5, 0.0], [0.0, 0.2, 0.8]])
    estimated = np.array([[0.1, 0.6, 0.3], [0.9, 0.1, 0.0]])
    np.testing.assert_allclose(total_variation(estimated, true), [0.4, 0.9])
    assert top_label(estimated, true).tolist() == [True, False]  # of equal labels, either


def test_a_run_without_one_published_mean_has_features_of_the_same_length() -> None:
    """Inner products about the origin, and no sum that kept the floor: what another run taught is applied to it all the same."""
    sent = updates(histograms(np.random.default_rng(0)), np.random.default_rng(1))
    whole = seen(sent, "origin", everything=False)
    none = Seen(ROUNDS, {}, [Compared(c.round, c.clients, c.matrix, True, None) for c in whole.compared])
    assert features(none, range(CLIENTS), READ).shape == features(whole, range(CLIENTS), READ).shape
