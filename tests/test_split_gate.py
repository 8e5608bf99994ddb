"""The gate before similarities, and doubt about a cut, by hand and against simulation."""

import numpy as np
import pytest

from cloister.fl.algorithms.cfl import Absolute, ScaleFree
from cloister.fl.clustering.bipartition import Bipartition, optimal_bipartition
from cloister.fl.clustering.separation import cosine_similarity
from cloister.fl.clustering.split_gate import cross_about_origin, in_doubt, mean_of_members, same_cut, worth_asking
from cloister.protocol.parts.gram import centred


@pytest.mark.parametrize(
    ("mean", "rms", "asked"), [(0.43, 1.0, True), (0.45, 1.0, False), (0.27, 0.64, True), (0.26, 0.62, False), (0.0, 0.0, False)]
)
def test_both_tests_have_their_slack(mean: float, rms: float, asked: bool) -> None:
    assert worth_asking(ScaleFree(eps1=0.4, eps2=0.74), mean, rms, first=1.0) == asked
    assert worth_asking(Absolute(eps1=0.4 * max(rms, 1e-9), eps2=0.74), mean, rms, first=123.0) == asked


def test_the_mean_of_a_sample_is_longer_by_the_samples_variance() -> None:
    rng = np.random.default_rng(0)
    updates = rng.standard_normal((24, 50)) + 0.2
    true = float(np.linalg.norm(updates.mean(axis=0)) ** 2)
    raw, corrected = [], []
    for _ in range(3000):
        some = updates[rng.choice(24, 6, replace=False)]
        norm, energy = float(np.linalg.norm(some.mean(axis=0))), float(np.square(some).sum(axis=1).mean())
        raw.append(norm**2)
        spread = max(energy - norm**2, 0.0) * 6 / 5
        corrected.append(norm**2 - (1 / 6 - 1 / 24) * spread)
        assert mean_of_members(norm, energy, 6, 24) == pytest.approx(np.sqrt(max(corrected[-1], 0.0)))
        assert mean_of_members(norm, energy, 6, 6) == norm
    assert np.mean(raw) > 2 * true
    assert np.mean(corrected) == pytest.approx(true, rel=0.1)
    assert mean_of_members(1.0, 1.0, 1, 9) == 1.0


def test_updates_with_nothing_in_common_have_no_similarity_once_the_mean_is_put_back() -> None:
    gram = np.eye(8)
    about_mean, cut = centred(gram), Bipartition((0, 1, 2), (3, 4, 5, 6, 7), -1 / 7)
    assert cosine_similarity(about_mean)[0, 5] == pytest.approx(-1 / 7)
    assert cross_about_origin(about_mean, np.sqrt(1 / 8), range(8), cut) == pytest.approx(0.0, abs=1e-12)


def test_the_cross_similarity_of_identical_updates_is_one_whatever_rounding_leaves() -> None:
    noise = 1e-9 * np.random.default_rng(0).standard_normal((4, 4))
    assert cross_about_origin(noise @ noise.T, 1.0, range(4), Bipartition((0, 1), (2, 3), -0.3)) == 1.0
    assert cross_about_origin(np.zeros((2, 2)), 0.0, range(2), Bipartition((0,), (1,), 0.0)) == 0.0


SIDES = np.array([[1.0, 0.8, -0.5, -0.4], [0.8, 1.0, -0.6, -0.5], [-0.5, -0.6, 1.0, 0.7], [-0.4, -0.5, 0.7, 1.0]])


def cut_of(similarity: np.ndarray) -> Bipartition:
    return optimal_bipartition(similarity, range(len(similarity)))


def test_a_cut_is_in_doubt_near_the_bound_and_where_a_client_could_be_on_either_side() -> None:
    cut = cut_of(SIDES)
    assert (cut.left, cut.cross) == ((0, 1), -0.4)
    assert not in_doubt(SIDES, range(4), cut, 0.0, 0.3)
    assert in_doubt(SIDES, range(4), cut, np.sqrt(0.6), 0.3)  # its bound is -0.2
    assert not in_doubt(SIDES, range(4), cut, np.sqrt(0.6), 0.19)
    near = SIDES.copy()
    near[0, 2] = near[2, 0] = 0.5  # 0.2 below what client 2 has in common with its own side
    assert in_doubt(near, range(4), cut_of(near), 0.0, 0.25)
    assert not in_doubt(near, range(4), cut_of(near), 0.0, 0.15)


def test_a_side_of_one_is_in_doubt_if_another_is_nearly_as_far_from_all() -> None:
    alone = np.array([[1.0, 0.9, 0.85, 0.1], [0.9, 1.0, 0.9, 0.1], [0.85, 0.9, 1.0, 0.2], [0.1, 0.1, 0.2, 1.0]])
    cut = cut_of(alone)
    assert cut.right == (3,)
    assert not in_doubt(alone, range(4), cut, 0.0, 0.5)
    alone[:2, 2] = alone[2, :2] = 0.4
    assert cut_of(alone).right == (3,)
    assert in_doubt(alone, range(4), cut_of(alone), 0.0, 0.3)
    two = np.array([[1.0, 0.1], [0.1, 1.0]])
    assert not in_doubt(two, range(2), cut_of(two), 0.0, 0.5)  # there is no other cut


def test_three_groups_that_are_equally_apart_leave_no_doubt() -> None:
    """Which of them is parted first is chance, and right each time."""
    group = np.repeat(np.arange(3), 4)
    similarity = np.where(group[:, None] == group, 0.6, -0.4)
    np.fill_diagonal(similarity, 1.0)
    assert not in_doubt(similarity, range(12), cut_of(similarity), 0.0, 0.375)


def test_cuts_are_compared_on_the_clients_of_both() -> None:
    assert same_cut(Bipartition((1, 2), (3, 4), 0.1), Bipartition((1, 2), (3,), 0.4))
    assert same_cut(Bipartition((2,), (3, 4), 0.1), Bipartition((1, 3, 4), (2,), 0.1))
    assert not same_cut(Bipartition((1, 2), (3, 4), 0.1), Bipartition((1,), (2, 3, 4), 0.1))
