"""FLDetector: L-BFGS by inner products against L-BFGS by matrices, errors against vectors in clear, two means, whole runs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cloister.crypto.entropy import SimulatedEntropy
from cloister.fl.algorithms.algorithm import Start
from cloister.fl.algorithms.fl_detector import ALL, FLDetector, State
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Iid
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.robust.prediction import errors, predicted_change, suspects
from cloister.fl.runs.codec import from_plain, to_plain
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Masked, Permuted, Plain
from cloister.protocol.view.answers import Model
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalJob, LocalWork
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.membership import Fixed
from cloister.threat_models.simple_attacks import RandomVector

Vectors = NDArray[np.float64]
N, D, WINDOW = 8, 12, 3


def by_matrices(means: Vectors) -> Vectors:
    """J A_q of the means in clear, J by the recursion of BFGS: another way to the same as the compact form."""
    steps, changes = means[:-1], np.diff(means, axis=0)
    j = (changes[-1] @ steps[-1]) / (steps[-1] @ steps[-1]) * np.eye(means.shape[1])
    for s, y in zip(steps, changes, strict=True):
        j = j - np.outer(j @ s, j @ s) / (s @ j @ s) + np.outer(y, y) / (y @ s)
    found: Vectors = j @ means[-1]
    return found


def contracting(rng: np.random.Generator, count: int) -> Vectors:
    """Means of updates on a quadratic: A_k = (1 - eta H) A_(k-1)."""
    q, _ = np.linalg.qr(rng.standard_normal((D, D)))
    shrink = q @ np.diag(1 - rng.uniform(0.1, 0.6, D)) @ q.T
    found = [rng.standard_normal(D)]
    while len(found) < count:
        found.append(shrink @ found[-1])
    return np.array(found)


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_the_compact_form_by_inner_products_is_the_recursion_by_matrices(seed: int, count: int) -> None:
    means = contracting(np.random.default_rng(seed), count)
    found = predicted_change(means @ means.T) @ means
    np.testing.assert_allclose(found, by_matrices(means), rtol=1e-6, atol=1e-9)


def test_it_maps_the_newest_step_to_the_newest_change() -> None:
    """The secant equation, where the step to come is along the newest one."""
    means = contracting(np.random.default_rng(4), 4)
    means[-1] = means[-2] * 0.5
    np.testing.assert_allclose(predicted_change(means @ means.T) @ means, 0.5 * (means[-1] - means[-2]), atol=1e-9)


def test_too_few_means_are_refused_and_no_step_predicts_no_change() -> None:
    with pytest.raises(ValueError, match="two published means"):
        predicted_change(np.ones((1, 1)))
    np.testing.assert_array_equal(predicted_change(np.zeros((3, 3))), np.zeros(3))


def test_errors_are_those_of_vectors_in_clear() -> None:
    rng = np.random.default_rng(0)
    means, last = contracting(rng, 4), rng.standard_normal((N, D))
    now = last + by_matrices(means) + 0.1 * rng.standard_normal((N, D))
    both = np.concatenate([now, last])
    found = errors(both @ both.T, now @ means.T, last @ means.T, means @ means.T)
    np.testing.assert_allclose(found, np.linalg.norm(now - last - by_matrices(means), axis=1), rtol=1e-6)


@pytest.mark.parametrize("liars", [[0], [1, 5], [0, 1, 2, 3, 4]])
def test_two_groups_of_scores_are_told_and_one_is_not(liars: list[int]) -> None:
    rng = np.random.default_rng(1)
    scores = np.full(20, 0.04) + 0.002 * rng.random(20)
    assert not suspects(0.04 + 0.01 * rng.random(20), rng).any()
    scores[liars] += 0.05
    np.testing.assert_array_equal(np.flatnonzero(suspects(scores, rng)), liars)
    assert not suspects(np.full(20, 0.05), rng).any()
    assert not suspects(np.array([0.0, 0.0, 1.0]), rng).any()


@pytest.mark.long
def test_scores_spread_evenly_are_one_group_in_most_draws() -> None:
    found = [suspects(np.random.default_rng(seed).random(20), np.random.default_rng(seed)).any() for seed in range(100)]
    assert np.mean(found) < 0.2


Sends = Mapping[int, Any]
"""Of some clients, what they send: a function of the round and of the honest update."""


def on_a_quadratic(
    protection: Any, algorithm: FLDetector, rounds: int, lies: Sends, spread: float = 1.0
) -> tuple[list[State], list[Vectors]]:
    """Clients whose updates are .3 (c_i - w), so that J is -.3 for all: whoever is honest is predicted exactly."""
    rng = np.random.default_rng(2)
    centres = 1 + spread * rng.standard_normal((N, D))

    def workers(jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
        for job in jobs:
            honest = 0.3 * (centres[job.client] - job.start)
            lie = lies.get(job.client)
            yield job.client, LocalWork(np.float32(honest if lie is None else lie(job.round, honest)), 1)

    view = protection.open(Setup(bytes(16), np.zeros(D, np.float32), tuple(range(N)), workers, SimulatedEntropy(0)))
    state = algorithm.init(Start(tuple(range(N)), dict.fromkeys(range(N), 0), Model("init")))
    states, models = [], []
    for t in range(rounds):
        state = algorithm.round(state, view, np.random.default_rng(t))
        view.harness.retire(state.models, state.remembered)
        states.append(state)
        models.append(view.harness.observe(state.clusters[ALL].model))
    return states, models


def noise(client: int) -> Any:
    return lambda round, honest: np.random.default_rng([client, round]).standard_normal(D)


@pytest.mark.long
@pytest.mark.parametrize("protection", [Plain(), Permuted(), Masked(keys="run")], ids=repr)
def test_who_contradicts_itself_is_removed_and_training_begins_again(protection: Any) -> None:
    states, models = on_a_quadratic(protection, FLDetector(window=WINDOW), 2 * WINDOW + 4, {2: noise(2), 5: noise(5)})
    removed = [state.removed for state in states]
    first = next(t for t, of in enumerate(removed) if of)
    assert first == 2 * WINDOW
    assert set(removed[first:]) == {(2, 5)}
    np.testing.assert_array_equal(models[first], np.zeros(D))
    assert states[first].measured[ALL].left_out.keys() == {2, 5}
    outcome = states[-1].outcome
    assert outcome is not None
    assert {i for i, w in outcome.weights.items() if not w} == {2, 5}


def test_where_nobody_lies_and_all_are_predicted_nobody_is_removed_and_it_is_federated_averaging() -> None:
    states, models = on_a_quadratic(Plain(), FLDetector(window=WINDOW), 2 * WINDOW + 3, {})
    assert all(not state.removed for state in states)
    assert set(states[-1].scores.values()) == {1 / N}
    rng = np.random.default_rng(2)
    centre = (1 + rng.standard_normal((N, D))).mean(axis=0)
    expected = centre * (1 - 0.7 ** np.arange(1, len(models) + 1))[:, None]
    np.testing.assert_allclose(models, expected, atol=1e-4)


def test_without_a_restart_the_model_stays() -> None:
    states, models = on_a_quadratic(Plain(), FLDetector(window=WINDOW, restart=False), 2 * WINDOW + 1, {2: noise(2)})
    assert states[-1].removed == (2,)
    assert np.linalg.norm(models[-1]) > 0.1


def test_a_lie_that_follows_from_the_last_lie_as_updates_do_is_not_seen() -> None:
    """A poison that is added to every update is no contradiction: the limit that the module states. The opposite is one."""
    far = np.full(D, 5.0)
    states, _ = on_a_quadratic(Plain(), FLDetector(window=WINDOW), 2 * WINDOW + 2, {2: lambda round, honest: honest + far})
    assert not states[-1].removed
    states, _ = on_a_quadratic(Plain(), FLDetector(window=WINDOW), 2 * WINDOW + 2, {2: lambda round, honest: -honest})
    assert states[-1].removed == (2,)


def test_a_state_is_written_and_read(tmp_path: Any) -> None:
    states, _ = on_a_quadratic(Plain(), FLDetector(window=WINDOW), WINDOW + 3, {2: noise(2)})
    assert from_plain(State, to_plain(states[-1])) == states[-1]


def test_a_protection_that_compares_no_rounds_is_refused() -> None:
    changes: dict[str, Any] = {"data": Digits(), "partition": Iid(clients=4), "model": Mlp(hidden=(8,)), "rounds": 1}
    with pytest.raises(ValueError, match="history"):
        Scenario(name="x", training=Training(epochs=1, batch=10, lr=0.1), algorithm=FLDetector(), protection=Masked(), **changes)


@pytest.mark.trains
def test_members_who_send_noise_are_removed_from_a_run_on_digits() -> None:
    scenario = Scenario(
        name="FLDetector on digits",
        data=Digits(),
        partition=Iid(clients=12, shared_test=True),
        model=Mlp(hidden=(16,)),
        training=Training(epochs=1, batch=20, lr=0.1),
        algorithm=FLDetector(window=4),
        protection=Plain(),
        rounds=9,
        adversary=Adversary(members=Fixed((0, 1, 2)), upload=RandomVector(3.0)),
    )
    simulation = Simulation(scenario, None)
    for _ in range(scenario.rounds):
        simulation.step()
    assert {0, 1, 2} <= set(simulation.state.removed)
