"""The quickstart finds its planted groups and serves every client as well as an oracle does, for every seed and protection."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from cloister.crypto.orthonormal import HadamardRotation, SignedPermutation
from cloister.fl.algorithms.algorithm import Algorithm
from cloister.fl.algorithms.cfl import CFL
from cloister.fl.algorithms.fedavg import FedAvg, Oracle
from cloister.fl.runs.metrics import adjusted_rand_index
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Masked, Permuted, Plain
from cloister.protocol.core.link import Tap
from cloister.protocol.drivers.dropouts import Dropouts
from cloister.protocol.view.protection import Protection
from cloister.scenario_file import load

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))]
QUICKSTART = load(str(Path(__file__).parents[1] / "examples" / "quickstart.py"))


@cache
def played(
    seed: int, protection: Protection = Permuted(), algorithm: Algorithm = QUICKSTART.algorithm, faults: Tap | None = None
) -> Simulation:
    scenario = replace(QUICKSTART, seed=seed, protection=protection, algorithm=algorithm, faults=faults)
    simulation = Simulation(scenario, None)
    for _ in range(scenario.rounds):
        simulation.step()
    return simulation


def accuracy_mean(simulation: Simulation) -> float:
    return float(np.mean([score.accuracy for score in simulation.evaluate().values()]))


def clusters(simulation: Simulation) -> dict[str, tuple[int, ...]]:
    return {name: cluster.members for name, cluster in simulation.state.clusters.items()}


def assert_same_models(one: Simulation, other: Simulation) -> None:
    """Every model, of clusters and of inner nodes of the tree, to 1e-5 in the largest coordinate."""
    assert clusters(one) == clusters(other)
    assert one.state.tree.keys() == other.state.tree.keys()
    for mine, others in zip(one.state.models, other.state.models, strict=True):
        np.testing.assert_allclose(one.view.harness.observe(mine), other.view.harness.observe(others), rtol=0, atol=1e-5)


@pytest.mark.trains
@pytest.mark.long
def test_the_file_holds_what_the_tests_speak_of() -> None:
    assert isinstance(QUICKSTART, Scenario)
    assert isinstance(QUICKSTART.algorithm, CFL)
    assert Masked(corrupt=2) == QUICKSTART.protection
    assert len(played(0).population.clients) == 24
    assert set(played(0).population.groups.values()) == {0, 1, 2}


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("seed", SEEDS)
def test_every_seed_finds_the_planted_groups(seed: int) -> None:
    simulation = played(seed)
    assert adjusted_rand_index(list(clusters(simulation).values()), simulation.population.groups) == 1.0
    assert len(clusters(simulation)) == 3


def finds_the_groups_under_masks(seed: int, faults: Tap | None) -> None:
    simulation = played(seed, Masked(), faults=faults)
    assert adjusted_rand_index(list(clusters(simulation).values()), simulation.population.groups) == 1.0
    assert abs(accuracy_mean(simulation) - accuracy_mean(played(seed, Plain(), Oracle()))) <= 0.01


@pytest.mark.long
@pytest.mark.trains
def test_the_quickstart_finds_the_groups_behind_masks_with_a_random_dropout_in_every_round() -> None:
    """The groups are found in the first half of the rounds; slow tests play all of them."""
    simulation = Simulation(replace(QUICKSTART, protection=Masked(), faults=Dropouts(tuple(range(24)))), None)
    while simulation.state.round < QUICKSTART.rounds:
        simulation.step()
        found = clusters(simulation)  # who was away when its cluster was split is placed in a later round
        if len(found) == 3 and sum(map(len, found.values())) == 24:
            break
    assert adjusted_rand_index(list(clusters(simulation).values()), simulation.population.groups) == 1.0


@pytest.mark.trains
@pytest.mark.slow
@pytest.mark.parametrize("dropouts", [0, 1])
@pytest.mark.parametrize("seed", range(10))
def test_every_seed_finds_the_groups_behind_masks(seed: int, dropouts: int) -> None:
    finds_the_groups_under_masks(seed, Dropouts(tuple(range(24)), dropouts, seed))


@pytest.mark.trains
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.long
def test_every_seed_is_as_good_as_the_oracle_and_far_above_one_model_for_all(seed: int) -> None:
    found = accuracy_mean(played(seed))
    assert found >= accuracy_mean(played(seed, Plain(), Oracle())) - 0.01  # who learns together first may end above it
    assert found > accuracy_mean(played(seed, Plain(), FedAvg())) + 0.1


@pytest.mark.trains
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.long
def test_a_permutation_changes_no_model(seed: int) -> None:
    assert_same_models(played(seed), played(seed, Plain()))


@pytest.mark.trains
@pytest.mark.long
def test_signs_change_no_model() -> None:
    assert_same_models(played(0, Permuted(SignedPermutation)), played(0, Plain()))


@pytest.mark.trains
def test_a_rotation_changes_a_round_by_its_rounding() -> None:
    """Rounding of one round; in later ones training makes more of it, on each kind of processor in another way."""
    rotated, plain = (Simulation(replace(QUICKSTART, protection=p), None) for p in (Permuted(HadamardRotation), Plain()))
    rotated.step()
    plain.step()
    (mine, others) = (s.view.harness.observe(next(iter(s.state.clusters.values())).model) for s in (rotated, plain))
    np.testing.assert_allclose(mine, others, rtol=0, atol=1e-6)


@pytest.mark.trains
@pytest.mark.slow
def test_a_rotation_changes_no_finding() -> None:
    assert clusters(played(0, Permuted(HadamardRotation))) == clusters(played(0, Plain()))
    assert abs(accuracy_mean(played(0, Permuted(HadamardRotation))) - accuracy_mean(played(0, Plain()))) <= 0.01


@pytest.mark.trains
@pytest.mark.long
def test_a_new_key_for_every_session_finds_the_same_clusters() -> None:
    assert isinstance(QUICKSTART.algorithm, CFL)
    fresh = played(0, Permuted(keys="session"), replace(QUICKSTART.algorithm, remember=False))
    assert clusters(fresh) == clusters(played(0))
    assert_same_models(fresh, played(0))


@pytest.mark.trains
@pytest.mark.long
def test_a_run_is_a_function_of_its_seed() -> None:
    again = Simulation(replace(QUICKSTART, rounds=2), None)
    other = Simulation(replace(QUICKSTART, rounds=2, seed=1), None)
    first = Simulation(replace(QUICKSTART, rounds=2), None)
    for _ in range(2):
        for simulation in (again, other, first):
            simulation.step()
    (model,) = {c.model for c in first.state.clusters.values()}
    assert np.array_equal(first.view.harness.observe(model), again.view.harness.observe(model))
    assert not np.array_equal(first.view.harness.observe(model), other.view.harness.observe(model))
