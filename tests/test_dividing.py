"""Attacks by who has read how a defence parts clients: what they send."""

from typing import Any

import numpy as np
import pytest
from torch import nn

from cloister.threat_models.dividing import FlippedClasses, OneWay, TwoKinds, Unshared
from cloister.threat_models.geometry import unit
from cloister.threat_models.knowledge import Level

from .coalition_sample import coalition, gaussian, own


@pytest.mark.parametrize(
    ("share", "side", "rows"), [(0.3, "last", range(7, 10)), (0.7, "first", range(7)), (0.0, "first", range(1))]
)
def test_flipped_classes_negate_their_rows_and_biases_and_nothing_else(share: float, side: Any, rows: range) -> None:
    module = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 10))
    update = np.random.default_rng(3).standard_normal(28 + 50).astype(np.float32)
    before = update.copy()
    sent = FlippedClasses(share, side, strength=2.0)(own(update, module=module))
    np.testing.assert_array_equal(update, before)
    assert np.linalg.norm(sent) == pytest.approx(1.5 * np.linalg.norm(update), rel=1e-5)
    times = sent / update
    times /= times[0]
    expected = np.ones(10)
    expected[list(rows)] = -2
    np.testing.assert_allclose(times[:28], 1, rtol=1e-4)
    np.testing.assert_allclose(times[28:68].reshape(10, 4), np.repeat(expected[:, None], 4, axis=1), rtol=1e-4)
    np.testing.assert_allclose(times[68:], expected, rtol=1e-4)


def test_of_a_regression_the_one_row_is_flipped() -> None:
    update = np.ones(4, np.float32)
    sent = FlippedClasses(scale=1.0)(own(update, module=nn.Linear(3, 1), classes=1))
    np.testing.assert_allclose(sent, -update, rtol=1e-6)


@pytest.mark.parametrize("level", [Level.COLLUDING, Level.OMNISCIENT])
@pytest.mark.parametrize("attack", [TwoKinds(), TwoKinds("halves", cosine=0.6, scale=1.0, in_turn=True)])
def test_half_of_the_members_go_the_other_way(attack: TwoKinds, level: Level) -> None:
    updates = gaussian(12, 900, 3)
    sent = np.stack(list(attack(coalition(updates, 6, level)).values()))
    directions = np.stack([unit(v) for v in sent])
    assert sorted(np.sign(directions @ directions[0])) == [-1] * 3 + [1] * 3
    seen = updates[:6] if level == Level.COLLUDING else updates[6:]
    length = attack.scale * np.median([np.linalg.norm(v) for v in seen])
    np.testing.assert_allclose(np.linalg.norm(sent, axis=1), length, rtol=0.1)  # noise is not quite orthogonal
    if level == Level.OMNISCIENT:
        towards = directions @ np.stack([unit(v) for v in seen]).T
        spread = (towards * np.sign(directions @ directions[0])[:, None]).mean(axis=0)
        assert spread.min() < 0 < spread.max()


@pytest.mark.parametrize("cosine", [0.0, 0.25])
def test_what_is_unshared_has_its_cosine_with_the_mean_direction_and_opposes_the_own_update(cosine: float) -> None:
    updates = gaussian(12, 900, 4)
    shared = np.mean([unit(v) for v in updates[5:]], axis=0)
    for i, sent in Unshared(cosine=cosine)(coalition(updates, 5, Level.OMNISCIENT)).items():
        assert float(unit(sent) @ unit(shared)) == pytest.approx(cosine, abs=1e-4)
        assert float(sent @ updates[i]) < 0
        assert np.linalg.norm(sent) == pytest.approx(1.5 * np.linalg.norm(updates[i]), rel=1e-4)


@pytest.mark.parametrize("attack", [TwoKinds(), Unshared(), OneWay()])
def test_where_too_few_are_seen_members_are_honest(attack: Any) -> None:
    updates = gaussian(8, 50, 2)
    for i, sent in attack(coalition(updates, 2, Level.COLLUDING)).items():
        np.testing.assert_array_equal(sent, updates[i])


@pytest.mark.parametrize("cosine", [0.0, 0.3])
def test_members_push_one_way_and_have_their_cosine_with_the_mean_direction(cosine: float) -> None:
    updates = gaussian(12, 900, 5)
    sent = np.stack([unit(v) for v in OneWay(cosine=cosine)(coalition(updates, 5, Level.OMNISCIENT)).values()])
    shared = unit(np.mean([unit(v) for v in updates[5:]], axis=0))
    np.testing.assert_allclose(sent @ shared, cosine, atol=1e-4)
    inside = sent @ sent.T
    assert inside[~np.eye(5, dtype=np.bool_)].mean() == pytest.approx(cosine**2 + 0.65**2, abs=0.05)
    assert (sent @ np.sum(updates[:5], axis=0) < 0).all() or cosine


def test_numbers_that_are_no_shares_are_refused() -> None:
    with pytest.raises(ValueError, match="cosine"):
        TwoKinds(cosine=1.5)
    with pytest.raises(ValueError, match="cosine"):
        Unshared(cosine=-0.1)
    with pytest.raises(ValueError, match="squares"):
        OneWay(cosine=0.8)
    with pytest.raises(ValueError, match="share"):
        FlippedClasses(share=-0.1)
