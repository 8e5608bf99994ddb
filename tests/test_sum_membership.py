"""Membership of an update in a plain sum, and masks that do not hide."""

import numpy as np
import pytest
from scipy.special import ndtr

from cloister.crypto.fixed_point import FixedPoint, Nearest, Ring
from cloister.crypto.masks import mask
from cloister.threat_models.inference.membership_scores import auc
from cloister.threat_models.inference.sum_membership import Crowd
from cloister.threat_models.inference.weak_masks import (
    difference_of_reused,
    gaussian_mask_auc,
    gaussian_masks,
    which_of_two,
)

CODE = FixedPoint.finest(32, 1.0, 10, 1)


def trials(crowd: Crowd, rows: np.ndarray, count: int, rng: np.random.Generator) -> float:
    """The area under the curve of 400 sums, half of them with the candidate."""
    scores, inside = [], []
    for k in range(400):
        who = rng.choice(len(rows), count + 1, replace=False)
        total = rows[who[:count]].astype(np.float64).sum(axis=0)
        scores.append(crowd.ratio(total, rows[who[0] if k % 2 else who[-1]], count))
        inside.append(bool(k % 2))
    return auc(np.array(scores), np.array(inside))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("count", [2, 10, 50])
def test_the_ratio_reaches_what_theory_says(seed: int, count: int) -> None:
    """For isotropic updates of d coordinates the ratio separates by about sqrt(d / n) deviations: AUC Phi(sqrt(d / 2 n))."""
    rng, d = np.random.default_rng(seed), 100
    rows = (rng.standard_normal((1600, d)) + 3 * rng.standard_normal(d)).astype(np.float32)
    found = trials(Crowd.of(rows[:1000], 20), rows[1000:], count, rng)
    assert found == pytest.approx(ndtr(np.sqrt(d / (2 * count))), abs=0.1)


def test_a_crowd_needs_updates_that_differ() -> None:
    with pytest.raises(ValueError, match="eight shadow updates"):
        Crowd.of(np.zeros((7, 4), np.float32))
    with pytest.raises(ValueError, match="all the same"):
        Crowd.of(np.ones((20, 4), np.float32))
    with pytest.raises(ValueError, match="is that update"):
        Crowd.of(np.random.default_rng(0).standard_normal((20, 9)).astype(np.float32)).ratio(np.zeros(9), np.zeros(9), 1)


def masked(vector: np.ndarray, key: int) -> Ring:
    ring = CODE.encode(vector, 1, Nearest()).ring
    return ring + mask(key.to_bytes(32, "little"), len(ring), np.uint32)


def test_a_mask_that_serves_twice_shows_the_difference_up_to_the_grid() -> None:
    """And one that serves once shows nothing of it."""
    one, other = (0.01 * np.random.default_rng(seed).standard_normal(500).astype(np.float32) for seed in (0, 1))
    apart = (one - other).astype(np.float64)
    found = difference_of_reused(masked(one, 7), masked(other, 7), CODE)
    assert np.linalg.norm(found - apart) / np.linalg.norm(apart) < 1e-4
    fresh = difference_of_reused(masked(one, 7), masked(other, 8), CODE)
    assert abs(np.corrcoef(fresh, apart)[0, 1]) < 0.2
    with pytest.raises(ValueError, match="two uploads"):
        difference_of_reused(masked(one, 7), masked(other[:9], 7), CODE)


@pytest.mark.parametrize("deviation", [0.01, 0.1, 1.0])
def test_real_valued_masks_leave_what_the_formula_says(deviation: float) -> None:
    """About 1.00, .80 and .53 for candidates .38 apart among 6 clients: masks of ten times the distance hide little."""
    rng, clients, d = np.random.default_rng(3), 6, 40
    one, other = (0.043 * rng.standard_normal(d) for _ in range(2))
    expected = gaussian_mask_auc(float(np.linalg.norm(one - other)), deviation, clients)
    scores, truth = [], []
    for k in range(1000):
        added = gaussian_masks(clients, d, deviation, rng)
        scores.append(which_of_two((one if k % 2 else other) + added[0], one, other))
        truth.append(bool(k % 2))
        if k == 0:
            np.testing.assert_allclose(added.sum(axis=0), 0, atol=1e-9)
    assert auc(np.array(scores), np.array(truth)) == pytest.approx(expected, abs=0.06)


def test_how_much_the_formula_says_real_valued_masks_leave() -> None:
    """About .6 apart: 1.00, .80 and .53 for deviations of .01, .1 and 1 are what 27 clients have."""
    assert gaussian_mask_auc(0.6, 0.1, 27) == pytest.approx(0.80, abs=0.01)
    assert gaussian_mask_auc(0.6, 0.01, 27) > 0.999
    assert gaussian_mask_auc(0.6, 1.0, 27) == pytest.approx(0.53, abs=0.01)
