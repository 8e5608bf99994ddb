"""Faker: the score stays, the parameters go as far as they can."""

from typing import Any

import numpy as np
import pytest

from cloister.fl.robust.similarity import FLTrust
from cloister.threat_models.knowledge import Level
from cloister.threat_models.similarity_attacks import Faker, LoneFaker, mirrored

from .coalition_sample import coalition, gaussian, own


def unit(x: Any) -> Any:
    return x / np.linalg.norm(x)


def test_nothing_with_the_same_norm_and_inner_product_is_farther() -> None:
    rng = np.random.default_rng(0)
    x, r = rng.standard_normal((2, 6)).astype(np.float32)
    far = mirrored(x, r)
    assert np.linalg.norm(far) == pytest.approx(np.linalg.norm(x), rel=1e-5)
    assert far @ r == pytest.approx(x @ r, rel=1e-4)
    along = (x @ r) / (r @ r) * r
    radius = np.linalg.norm(x - along)
    for _ in range(500):
        turned = rng.standard_normal(6)
        turned -= (turned @ r) / (r @ r) * r
        other = along + radius * unit(turned)
        assert np.linalg.norm(other - x) <= np.linalg.norm(far - x) + 1e-5
    np.testing.assert_array_equal(mirrored(x, np.zeros(6, np.float32)), -x)


@pytest.mark.parametrize("scale", [1.0, 5.0])
@pytest.mark.parametrize("level", [Level.COLLUDING, Level.OMNISCIENT])
def test_the_mean_cosine_to_those_seen_is_the_own_updates(level: Level, scale: float) -> None:
    updates = gaussian(12, 800, 3)
    seen = updates[:3] if level == Level.COLLUDING else updates[3:]
    for i, u in Faker(scale)(coalition(updates, 3, level)).items():
        honest = np.mean([unit(updates[i]) @ unit(s) for s in seen])
        assert np.mean([unit(u) @ unit(s) for s in seen]) == pytest.approx(honest, abs=1e-5)
        assert np.linalg.norm(u) == pytest.approx(scale * np.linalg.norm(updates[i]), rel=1e-4)
        assert unit(u) @ unit(updates[i]) < 0.8


def test_fltrust_weighs_a_mirror_image_about_its_root_as_it_weighs_the_honest_update() -> None:
    """The root's update is what the global model last changed by, where nobody attacked before."""
    updates = gaussian(8, 500, 4, mean=0.3)
    root = np.mean(updates, axis=0)
    known = own(updates[0], start=root, previous=np.zeros_like(root))
    u = LoneFaker()(known)

    def weights(first: Any) -> Any:
        x = np.array([first, *updates[1:], root], dtype=np.float64)
        return FLTrust().weights_with(x @ x.T, np.random.default_rng(0))

    np.testing.assert_allclose(weights(u), weights(updates[0]), rtol=1e-4)
    assert np.linalg.norm(u - updates[0]) > np.linalg.norm(updates[0])


def test_alone_and_without_an_earlier_model_it_is_honest() -> None:
    update = gaussian(1, 50)[0]
    np.testing.assert_array_equal(LoneFaker()(own(update)), update)
