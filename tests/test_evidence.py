"""Running averages of the cosines of sessions."""

import numpy as np
import pytest

from cloister.fl.algorithms.hardened.evidence import KEPT, Evidence, about_their_mean, likened, seen
from cloister.fl.runs.codec import from_plain, to_plain


def pair(cosine: float) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.array([[1.0, cosine], [cosine, 1.0]])


def test_sessions_count_by_the_size_of_their_cosines() -> None:
    first = seen(Evidence(), (1, 2), pair(-0.8))
    second = seen(first, (1, 2), pair(0.1))
    cosines, known = second.cosines((1, 2, 7))
    assert cosines[0, 1] == pytest.approx((0.8 * -0.8 + 0.1 * 0.1) / 0.9)
    assert np.array_equal(known, [[False, True, False], [True, False, False], [False, False, False]])
    assert not cosines[2].any()
    assert first.cosines((1, 2))[0][0, 1] == pytest.approx(-0.8)  # the state before stays valid


def test_pairs_that_did_not_meet_are_as_they_were_and_newcomers_are_entered_in_order() -> None:
    first = seen(Evidence(), (4, 9), pair(0.5))
    both = seen(first, (2, 9), pair(-0.3))
    assert both.clients == (2, 4, 9)
    cosines, known = both.cosines((9, 4, 2))
    assert cosines[0, 1] == pytest.approx(0.5)
    assert cosines[0, 2] == pytest.approx(-0.3)
    assert not known[1, 2]
    assert seen(both, (4,), np.ones((1, 1))) is both


def test_about_the_mean_a_session_counts_by_its_share_and_what_was_seen_fades_by_as_much() -> None:
    rng = np.random.default_rng(0)
    rows = [rng.standard_normal((5, 30)) for _ in range(2)]
    rows = [r / np.linalg.norm(r, axis=1, keepdims=True) for r in rows]
    evidence = Evidence()
    for r in rows:
        evidence = likened(seen(evidence, range(5), r @ r.T), range(5), r @ r.T, 0.5)
    kept = KEPT**0.25
    first, second = (about_their_mean(r @ r.T) for r in rows)
    average = evidence.about_mean.total / np.where(evidence.about_mean.weight > 0, evidence.about_mean.weight, 1.0)
    np.testing.assert_allclose(average, (kept * first + second) / (kept + 1), atol=1e-12)


def test_what_is_left_is_compared_about_its_own_mean() -> None:
    """Twelve loyal clients and eight copies: about the mean of all, the loyal are alike in being no copies."""
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((20, 300)) + 0.5
    rows[12:] = -rows[12]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    evidence = likened(seen(Evidence(), range(20), rows @ rows.T), range(20), rows @ rows.T, 1.0)
    together = evidence.about_mean.total[:12, :12]
    assert together[~np.eye(12, dtype=np.bool_)].mean() > 0.1
    alone = evidence.centred(range(12))[0]
    assert alone[~np.eye(12, dtype=np.bool_)].mean() == pytest.approx(-1 / 11)


def test_cosines_about_the_mean_are_those_of_centred_unit_vectors_whatever_the_lengths() -> None:
    rng = np.random.default_rng(1)
    unit = rng.standard_normal((6, 50)) + 1
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    centred = unit - unit.mean(axis=0)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    expected = centred @ centred.T
    np.fill_diagonal(expected, 0.0)
    np.testing.assert_allclose(about_their_mean(unit @ unit.T), expected, atol=1e-12)
    assert not about_their_mean(np.ones((4, 4))).any()


def test_three_are_too_few_for_a_mean() -> None:
    evidence = seen(Evidence(), range(3), np.eye(3))
    assert likened(evidence, range(3), np.eye(3), 1.0) is evidence
    assert not evidence.centred(range(3))[1].any()


def test_evidence_is_written_and_read() -> None:
    evidence = seen(Evidence(), (1, 2), pair(0.25))
    read = from_plain(Evidence, to_plain(evidence))
    assert to_plain(read) == to_plain(evidence)
