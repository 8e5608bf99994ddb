"""Mixing and Multi-Krum for a share: equal to the rules of a number, whatever is there; and what it is for."""

import numpy as np
import pytest

from cloister.fl.algorithms.hardened_flic import HardenedFLIC
from cloister.fl.robust.krum import MultiKrum
from cloister.fl.robust.krum_share import KrumOfShare
from cloister.fl.robust.mixing import NNM, Mixed


def gram_of(n: int, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((n, 5))
    return np.asarray(x @ x.T)


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


@pytest.mark.parametrize(
    ("n", "share", "f"), [(20, 0.25, 5), (19, 0.25, 4), (12, 0.25, 3), (10, 0.3, 3), (6, 0.25, 1), (20, 0.45, 8)]
)
def test_it_is_the_rule_for_as_many(n: int, share: float, f: int) -> None:
    gram = gram_of(n)
    expected = Mixed((NNM(f),), MultiKrum(f)).weights(gram, rng())
    np.testing.assert_array_equal(KrumOfShare(share).weights(gram, rng()), expected)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_of_too_few_it_is_the_mean(n: int) -> None:
    np.testing.assert_array_equal(KrumOfShare(0.4).weights(gram_of(n), rng()), np.full(n, 1 / n))


def test_every_number_has_weights() -> None:
    for n in range(1, 40):
        for share in (0.0, 0.1, 0.25, 0.4, 0.49):
            weights = KrumOfShare(share).weights(gram_of(n, n), rng())
            assert weights.min() >= 0
            assert weights.sum() == pytest.approx(1.0)


def test_far_ones_up_to_the_share_have_no_weight() -> None:
    x = np.random.default_rng(3).standard_normal((20, 5))
    x[[2, 7, 11, 13, 19]] += 50
    weights = KrumOfShare().weights(x @ x.T, rng())
    assert weights[[2, 7, 11, 13, 19]].max() == 0.0


@pytest.mark.parametrize("share", [-0.1, 0.5, float("nan")])
def test_shares_that_krum_cannot_stand_are_refused(share: float) -> None:
    with pytest.raises(ValueError, match="at least 0 and below"):
        KrumOfShare(share)


def test_nobody_is_refused_and_it_is_an_inner_rule() -> None:
    with pytest.raises(ValueError, match="KrumOfShare"):
        KrumOfShare().weights(np.zeros((0, 0)), rng())
    HardenedFLIC(rounds_before=4, every=2, inner=KrumOfShare())
