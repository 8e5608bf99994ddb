"""What attacks achieved, against definitions by hand and brute force."""

from itertools import product
from math import inf, isnan, nan

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from cloister.fl.data.population import Examples
from cloister.fl.models.papers import Mlp, initial
from cloister.fl.models.vector import to_vector
from cloister.fl.runs.evaluation import ScoringJob, accuracies
from cloister.threat_models.attack_metrics import (
    Course,
    area_under_curve,
    attack_success,
    course,
    detection,
    durability,
    empirical_kappa,
    impact,
    loyal_clusters,
)
from cloister.threat_models.backdoors import Backdoor
from cloister.threat_models.triggers import Patch

from .coalition_sample import gaussian, images

MODULE = initial(Mlp(hidden=()), (1, 8, 8), 10, 0)


def always(label: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """A model that gives every input this label."""
    vector = np.zeros_like(to_vector(MODULE))
    vector[-10 + label] = 1.0
    return vector


def test_success_counts_triggered_examples_per_client_beside_the_clean_models() -> None:
    backdoor = Backdoor(Patch(), target=3)
    tests = {i: images(50, seed=i) for i in range(3)}
    models = {0: always(3), 1: always(4), 2: to_vector(MODULE)}
    found = attack_success(MODULE, models, tests, backdoor, 10, clean={i: always(5) for i in range(3)})
    assert (found.of[0], found.of[1]) == (1.0, 0.0)
    stamped = backdoor.test(tests[2], 10)
    assert found.of[2] == accuracies(MODULE, [ScoringJob(2, models[2], stamped)])[2].accuracy
    assert found.worst == 1.0
    assert found.mean == pytest.approx(np.mean(list(found.of.values())))
    assert found.clean_mean == 0.0


def test_clients_without_an_example_for_the_backdoor_are_left_out() -> None:
    only_target = Examples(torch.rand(5, 1, 8, 8), torch.full((5,), 3))
    tests = {0: only_target, 1: images()}
    found = attack_success(MODULE, {0: always(3), 1: always(3)}, tests, Backdoor(Patch(), target=3), 10)
    assert found.of == {1: 1.0}
    with pytest.raises(ValueError, match="no client"):
        attack_success(MODULE, {0: always(3)}, tests, Backdoor(Patch(), target=3), 10)


def test_detection_counts_by_hand() -> None:
    found = detection(flagged={1, 2, 9}, members={1, 2, 3, 4}, clients=range(10))
    assert (found.true_positive_rate, found.false_positive_rate, found.loyal_lost) == (0.5, pytest.approx(1 / 6), (9,))
    assert isnan(detection(set(), set(), range(3)).true_positive_rate)
    assert isnan(detection(set(), range(3), range(3)).false_positive_rate)
    with pytest.raises(ValueError, match="99"):
        detection({99}, {1}, range(10))


def test_the_area_under_the_curve_counts_pairs_and_is_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        scores = {i: float(rng.integers(0, 4)) for i in range(12)}
        members = set(rng.choice(12, rng.integers(1, 11), replace=False).tolist())
        pairs = [(scores[a], scores[b]) for a, b in product(members, set(range(12)) - members)]
        expected = np.mean([(a > b) + 0.5 * (a == b) for a, b in pairs])
        assert area_under_curve(scores, members) == pytest.approx(expected)
        assert expected == pytest.approx(roc_auc_score([i in members for i in range(12)], list(scores.values())))
    with pytest.raises(ValueError, match="loyal"):
        area_under_curve({0: 1.0}, {0})


def test_loyal_clusters_have_no_member_and_the_rest_is_lost() -> None:
    found = loyal_clusters([(0, 1, 2), (3,), (4, 8), (9,)], members={8, 9}, clients=range(10))
    assert (found.count, found.mean_size, found.lost) == (2, 2.0, (4, 5, 6, 7))
    assert loyal_clusters([(8, 1)], {8}, [1, 8]).mean_size == 0.0


def test_the_three_ways_to_report_accuracy_tell_a_collapse_apart() -> None:
    rounds = [0.1] * 20 + [0.99] + [0.9] * 39 + [0.1] * 5
    assert course(rounds) == Course(0.1, pytest.approx(0.5), 0.99)
    assert course([0.5]) == Course(0.5, 0.5, 0.5)
    with pytest.raises(ValueError, match="no round"):
        course([])


def test_impact_is_paired_by_seed() -> None:
    assert impact({0: 0.9, 1: 0.8}, {1: 0.5, 0: 0.85}) == {0: pytest.approx(0.05), 1: pytest.approx(0.3)}
    with pytest.raises(ValueError, match="2"):
        impact({0: 0.9}, {0: 0.9, 2: 0.1})


def test_durability_counts_rounds_until_less_than_half() -> None:
    rates = {0: 0.1, 5: 0.8, 6: 0.7, 7: 0.4, 8: 0.39, 9: 0.9}
    assert durability(rates, 5) == 3
    assert durability({5: 0.8, 6: 0.7}, 5) is None
    with pytest.raises(ValueError, match="round 4"):
        durability(rates, 4)


def test_empirical_kappa_is_its_definition() -> None:
    honest = gaussian(7, 300)
    result = gaussian(1, 300, 9)[0]
    x = np.stack(honest).astype(np.float64)
    mean = x.mean(axis=0)
    expected = ((result - mean) ** 2).sum() / ((x - mean) ** 2).sum(axis=1).mean()
    assert empirical_kappa(result, honest) == pytest.approx(expected, rel=1e-6)
    assert empirical_kappa(mean.astype(np.float32), honest) < 1e-10
    same = [np.ones(3, np.float32)] * 2
    assert (empirical_kappa(same[0], same), empirical_kappa(2 * same[0], same)) == (0.0, inf)
    assert isnan(empirical_kappa(np.full(300, nan, np.float32), honest))
