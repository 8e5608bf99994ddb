"""Members that push one way, and each against its own update beside: what they send."""

import numpy as np
import pytest

from cloister.threat_models.geometry import unit, without
from cloister.threat_models.knowledge import Level
from cloister.threat_models.together import Together

from .coalition_sample import coalition, gaussian


def directions(attack: Together, members: int = 9, round: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What the members send, what their own updates have beside what is shared, both at norm 1, and what is shared."""
    updates = gaussian(members + 8, 900, 5)
    shared = unit(np.mean([unit(v) for v in updates[members:]], axis=0))
    sent = attack(coalition(updates, members, Level.OMNISCIENT, round=round))
    beyond = np.stack([unit(without(v, shared)) for v in updates[:members]])
    return np.stack([unit(v) for v in sent.values()]), beyond, shared


@pytest.mark.parametrize("in_turn", [True, False])
@pytest.mark.parametrize("cosine", [0.0, 0.3])
def test_each_leans_to_what_is_shared_and_is_against_its_own_update(cosine: float, in_turn: bool) -> None:
    sent, beyond, shared = directions(Together(cosine=cosine, in_turn=in_turn))
    np.testing.assert_allclose(sent @ shared, cosine, atol=1e-4)
    assert ((sent * beyond).sum(axis=1) < -0.5).all()


def the_same(round: int = 0, in_turn: bool = True) -> np.ndarray:
    """Who sends the same as whom where nothing of an upload is its member's own: bool (9, 9)."""
    sent, _, _ = directions(Together(cosine=0.0, share=1.0, in_turn=in_turn), round=round)
    return sent @ sent.T > 0.99


def test_all_push_one_way_or_three_at_a_time() -> None:
    assert the_same(in_turn=False).all()
    assert (the_same().sum(axis=1) == 3).all()


def test_the_three_are_dealt_anew_every_round() -> None:
    assert not np.array_equal(the_same(0), the_same(1))


def test_lengths_are_so_many_times_the_median() -> None:
    updates = gaussian(13, 900, 6)
    length = 2.8 * np.median([np.linalg.norm(v) for v in updates[5:]])
    for sent in Together()(coalition(updates, 5, Level.OMNISCIENT)).values():
        assert np.linalg.norm(sent) == pytest.approx(length, rel=1e-4)


@pytest.mark.parametrize("cosine", [0.0, 0.2])
def test_a_member_alone_sends_no_rounding_errors(cosine: float) -> None:
    sent, beyond, shared = directions(Together(cosine=cosine), members=1)
    np.testing.assert_allclose(sent[0], unit(np.float32(cosine) * shared - np.float32(0.65) * beyond[0]), atol=1e-4)


def test_where_too_few_are_seen_members_are_honest() -> None:
    updates = gaussian(8, 50, 2)
    for i, sent in Together()(coalition(updates, 2, Level.COLLUDING)).items():
        np.testing.assert_array_equal(sent, updates[i])


def test_numbers_that_are_no_shares_are_refused() -> None:
    with pytest.raises(ValueError, match="squares"):
        Together(cosine=0.7, share=0.8)
    with pytest.raises(ValueError, match="cosine"):
        Together(cosine=-0.1)
