"""CFL-GP: its profile matrix against the printed one in float64, its number of clusters, and its rounds under histories."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import silhouette_score

from cloister.fl.algorithms.algorithm import Start
from cloister.fl.algorithms.cfl_gp import ALL, CFLGP
from cloister.fl.clustering.profiles import clustered, matched, number_of_clusters, silhouette
from cloister.fl.runs.scenario import PROTECTIONS
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.core.errors import Refused
from cloister.protocol.view.answers import Model
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import check_composition

from .quadratic_clients import CLIENTS, GROUPS, START, Run, Values, farthest, giving, gradient, mean, named

SERVED = giving(Functionality.GRAM_HISTORY)


# --- parts ------------------------------------------------------------------------------------------------------------------


def planted(rng: np.random.Generator, sizes: tuple[int, ...], d: int = 60, noise: float = 0.1) -> Values:
    """Profiles as columns: directions of their own, and noise."""
    centres = np.linalg.qr(rng.standard_normal((d, len(sizes))))[0]
    found: Values = np.repeat(centres, sizes, axis=1) + noise * rng.standard_normal((d, sum(sizes))) / np.sqrt(d)
    return found


def test_the_silhouette_is_rousseeuws() -> None:
    rng = np.random.default_rng(2)
    points = rng.standard_normal((15, 3))
    for count in (2, 3, 5):
        labels = np.r_[np.arange(count), rng.integers(count, size=15 - count)]
        assert silhouette(points, labels) == pytest.approx(silhouette_score(points, labels))
    assert silhouette(points, np.zeros(15, np.int64)) == -1
    assert silhouette(np.zeros((4, 2)), np.array([0, 0, 1, 1])) == 0


@pytest.mark.parametrize("sizes", [(5, 5), (4, 5, 6), (4, 4, 4, 4), (3, 4, 5, 6, 4)])
def test_the_number_of_clusters_is_found(sizes: tuple[int, ...]) -> None:
    profiles = planted(np.random.default_rng(len(sizes)), sizes)
    assert number_of_clusters(profiles.T @ profiles, 8, np.random.default_rng(0)) == len(sizes)


def test_features_are_the_projections_on_the_leading_singular_vectors() -> None:
    """k-means of U_K^T Gp, from a singular value decomposition, has the same clusters."""
    profiles = planted(np.random.default_rng(1), (4, 4, 5))
    u = np.linalg.svd(profiles, full_matrices=False)[0][:, :3]
    features = (u.T @ profiles).T
    labels = clustered(profiles.T @ profiles, 3, np.random.default_rng(0))
    assert labels.tolist() == np.repeat([0, 1, 2], (4, 4, 5)).tolist()
    inside = max(np.ptp(features[labels == k], axis=0).max() for k in range(3))
    between = min(np.linalg.norm(features[i] - features[j]) for i in range(13) for j in range(13) if labels[i] != labels[j])
    assert inside < between


@pytest.mark.parametrize("seed", range(5))
def test_numbers_are_matched_as_the_best_of_all_permutations(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels, before = rng.integers(4, size=20), rng.integers(4, size=20)
    best = max(int((np.array(p)[labels] == before).sum()) for p in permutations(range(4)))
    found = matched(labels, before, 4)
    assert int((found == before).sum()) == best
    assert len({(a, b) for a, b in zip(labels.tolist(), found.tolist(), strict=True)}) == len(set(labels.tolist()))


# --- rounds -----------------------------------------------------------------------------------------------------------------


def by_name(run: Run) -> dict[str, Any]:
    return {name: run.view.harness.observe(c.model).astype(np.float64) for name, c in run.state.every.items()}


@pytest.mark.long
@pytest.mark.parametrize(("protection", "bound"), SERVED, ids=named)
def test_profiles_and_models_are_the_papers(protection: Any, bound: float) -> None:
    """Each model in its turn, beta = 1, 1, 1, 1/2, ...; under sketches the profiles' inner products are within their noise."""
    run = Run(CFLGP(models=3, period=2, limit=9), protection)
    blocks = {name: np.zeros((len(CLIENTS), len(START))) for name in run.state.every}
    for t in range(11):
        asked = by_name(run)
        run.step()
        assert ((t, "gradient") in run.active) == (t % 2 == 0 and t < 9)
        if t % 2 == 0 and t < 9:
            name, beta = f"model {t // 2 % 3 + 1}", 1.0 if t < 6 else 0.5
            blocks[name] = (1 - beta) * blocks[name] + beta * np.array([gradient(i, asked[name]) for i in CLIENTS])
            expected = sum(block @ block.T for block in blocks.values())
            lengths = np.sqrt(np.diagonal(expected))
            found = run.state.measured[ALL].similarity
            assert np.abs(found - expected / np.outer(lengths, lengths)).max() < (0.6 if isinstance(protection, Masked) else 1e-5)
        assert run.members == GROUPS
        models = {c.members: mean(c.members, asked[n], by_samples=False) for n, c in run.state.clusters.items()}
        assert farthest(run.models(), models) < (t + 1) * bound
    assert not run.view.record.faults


@pytest.mark.parametrize(("protection", "bound"), SERVED, ids=named)
def test_an_unknown_number_of_clusters_is_found_after_warming_up(protection: Any, bound: float) -> None:
    run = Run(CFLGP(models=None, warm_up=3), protection)
    expected = {CLIENTS: START.astype(np.float64)}
    for _ in range(2):
        run.step()
        expected = {CLIENTS: mean(CLIENTS, expected[CLIENTS], by_samples=False)}
        assert farthest(run.models(), expected) < 3 * bound
    run.step()
    assert run.members == GROUPS
    assert farthest(run.models(), {c: mean(c, expected[CLIENTS], by_samples=False) for c in GROUPS}) < 4 * bound
    run.step()
    assert (3, "gradient") in run.active
    assert run.members == GROUPS


def test_who_does_not_answer_keeps_a_shrunken_profile() -> None:
    run = Run(CFLGP(models=3, period=1), Plain(), silent=[(0, 5), (3, 6)])
    for _ in range(4):
        run.step()
        assert sorted(i for members in run.members for i in members) == list(CLIENTS)
    assert run.members == GROUPS
    assert run.state.visits == {"model 1": 2, "model 2": 1, "model 3": 1}
    assert 5 in run.state.blocks["model 1"].clients, "it answered the second time"


def test_one_cluster_is_federated_averaging_and_no_answer_changes_nothing() -> None:
    run = Run(CFLGP(models=1), Plain())
    run.step()
    assert farthest(run.models(), {CLIENTS: mean(CLIENTS, START.astype(np.float64), by_samples=False)}) < 1e-6
    silent = Run(CFLGP(models=2), Plain(), silent=[(0, i) for i in CLIENTS])
    silent.step()
    assert silent.members == (CLIENTS,)
    assert silent.state.measured == {}


def test_views_without_histories_are_refused_by_name() -> None:
    for protection in (Masked(), Permuted(keys="session"), Encrypted(), TwoServer()):
        with pytest.raises(Refused, match=r"CFLGP needs .*gram\(history\)"):
            check_composition("CFLGP", CFLGP(models=2).needs, protection, PROTECTIONS)


def test_what_the_profiles_showed_is_on_record() -> None:
    run = Run(CFLGP(models=3), Permuted())
    run.step()
    assert run.state.measured[ALL].communities == GROUPS
    assert "gram(history)" in {e.what for e in run.view.record.log}


@pytest.mark.parametrize("bad", [{"models": 0}, {"period": 0}, {"limit": 0}, {"most": 1}, {"warm_up": 0}])
def test_numbers_out_of_range_are_refused(bad: Any) -> None:
    with pytest.raises(ValueError):
        CFLGP(**{"models": 2, **bad})
    with pytest.raises(ValueError, match="2 clients do not make 3 clusters"):
        CFLGP(models=3).init(Start((0, 1), {}, Model("init")))
