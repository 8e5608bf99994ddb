"""FedAvg, FedProx, Oracle and LOCAL: known answers and the identities that tie them together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from cloister.crypto.entropy import SimulatedEntropy
from cloister.fl.algorithms.algorithm import Algorithm, Start
from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.cohorts import sample
from cloister.fl.algorithms.fedavg import FedAvg, FedProx, Local, Oracle, State
from cloister.fl.clients.training import Job, PlainLoop, Training, train_one
from cloister.fl.data.partition import LabelSwap
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.models.vector import to_vector
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation, seed_of
from cloister.protocol import Permuted, Plain
from cloister.protocol.core.errors import Refused
from cloister.protocol.view.answers import Model
from cloister.protocol.view.protection import Protection, Setup
from cloister.protocol.view.work import LocalJob, LocalWork

UPDATES: Mapping[int, ArrayLike] = {3: [1.0, 0.0], 10: [0.0, 2.0], 42: [-4.0, 1.0]}
SAMPLES = {3: 1, 10: 2, 42: 5}


def play(
    algorithm: Algorithm,
    rounds: int = 1,
    updates: Mapping[int, ArrayLike] = UPDATES,
    groups: Mapping[int, int] | None = None,
    protection: Protection = Plain(),
) -> tuple[State, dict[int, NDArray[np.float32]], list[list[int]]]:
    """The state, every client's model and who was asked in each round, for clients that always send the same update."""
    asked: list[list[int]] = []

    def workers(jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
        asked.append([job.client for job in jobs])
        for job in jobs:
            yield job.client, LocalWork(np.asarray(updates[job.client], np.float32), SAMPLES.get(job.client, 1))

    ids = tuple(sorted(updates))
    view = protection.open(Setup(bytes(16), np.zeros(2, np.float32), ids, workers, SimulatedEntropy(0)))
    state: State = algorithm.init(Start(ids, groups or dict.fromkeys(ids, 0), Model("init")))
    for t in range(rounds):
        state = algorithm.round(state, view, np.random.default_rng(t))
        view.harness.retire(state.models, state.remembered)
    return state, {i: view.harness.observe(c.model) for c in state.clusters.values() for i in c.members}, asked


@pytest.mark.parametrize("protection", [Plain(), Permuted(floor=1)], ids=["plain", "permuted"])
def test_fedavg_weighs_by_samples_as_printed_or_uniformly(protection: Protection) -> None:
    _, models, _ = play(FedAvg(), protection=protection)
    np.testing.assert_allclose(models[3], [(1 - 4 * 5) / 8, (2 * 2 + 5) / 8], rtol=1e-6)
    _, models, _ = play(FedAvg(by_samples=False), rounds=2, protection=protection)
    np.testing.assert_allclose(models[10], [-2.0, 2.0], rtol=1e-6)


def test_one_client_is_gradient_descent_of_its_own() -> None:
    _, models, _ = play(FedAvg(), rounds=3, updates={7: [0.5, -1.0]})
    np.testing.assert_array_equal(models[7], [1.5, -3.0])


def test_a_client_that_is_not_finite_counts_as_dropped_and_weights_are_those_of_the_others() -> None:
    _, models, _ = play(FedAvg(), updates={**UPDATES, 42: [np.inf, 0.0]})
    np.testing.assert_allclose(models[42], [1 / 3, 4 / 3], rtol=1e-6)


def test_oracle_averages_inside_planted_groups() -> None:
    state, models, _ = play(Oracle(by_samples=False), groups={3: 5, 10: 9, 42: 5})
    assert {c.members for c in state.clusters.values()} == {(3, 42), (10,)}
    np.testing.assert_array_equal(models[3], [-1.5, 0.5])
    np.testing.assert_array_equal(models[42], models[3])
    np.testing.assert_array_equal(models[10], [0.0, 2.0])


def test_oracle_of_one_group_is_fedavg() -> None:
    _, oracle, _ = play(Oracle(), rounds=3)
    _, fedavg, _ = play(FedAvg(), rounds=3)
    assert all(np.array_equal(oracle[i], fedavg[i]) for i in UPDATES)


def test_participation_samples_afresh_each_round_and_uses_the_sample_alone() -> None:
    updates = {i: [float(i), 0.0] for i in range(10)}
    _, models, asked = play(FedAvg(participation=0.25, sampling="random"), rounds=6, updates=updates)
    assert [len(round) for round in asked] == [3] * 6
    assert len({tuple(round) for round in asked}) > 1
    assert models[0][0] == pytest.approx(sum(np.mean(round) for round in asked))


@pytest.mark.parametrize(("share", "count"), [(1.0, 7), (0.5, 4), (1 / 7, 1), (0.01, 1)])
def test_a_sample_is_rounded_up_ascending_and_without_repeats(share: float, count: int) -> None:
    ids = (9, 4, 100, 31, 8, 2, 77)
    found = sample(ids, share, np.random.default_rng(0))
    assert len(found) == count == len(set(found))
    assert list(found) == sorted(found)
    assert set(found) <= set(ids)


def test_every_client_is_sampled_equally_often() -> None:
    rng = np.random.default_rng(0)
    counts = np.bincount([i for _ in range(3000) for i in sample(range(6), 0.5, rng)])
    assert np.abs(counts - 1500).max() < 5 * np.sqrt(3000 / 4)


@pytest.mark.parametrize("kind", [FedAvg, Oracle])
@pytest.mark.parametrize("share", [0.0, -1.0, 1.5, float("nan")])
def test_participation_is_a_share(kind: type[FedAvg] | type[Oracle], share: float) -> None:
    with pytest.raises(ValueError, match="participation"):
        kind(participation=share)


@pytest.mark.parametrize("mu", [-0.1, float("nan")])
def test_mu_is_not_negative(mu: float) -> None:
    with pytest.raises(ValueError, match="mu"):
        FedProx(mu=mu)


# --- with real training -----------------------------------------------------------------------------------------------

SMALL = Scenario(
    name="small",
    data=Digits(),
    partition=LabelSwap(clients=6, groups=2, samples=40),
    model=Mlp(hidden=(8,)),
    training=Training(epochs=2, batch=10, lr=0.1),
    algorithm=FedAvg(),
    protection=Plain(),
    rounds=3,
)


def trained(scenario: Scenario) -> Simulation:
    simulation = Simulation(scenario, None)
    for _ in range(scenario.rounds):
        simulation.step()
    return simulation


@pytest.mark.trains
def test_fedprox_without_mu_is_fedavg_bit_for_bit_and_with_mu_is_not() -> None:
    fedavg, without, with_mu = (trained(replace(SMALL, algorithm=a)) for a in (FedAvg(), FedProx(mu=0.0), FedProx(mu=1.0)))
    one = fedavg.vectors()[0]
    assert np.array_equal(one, without.vectors()[0])
    start = to_vector(fedavg.module)
    assert np.linalg.norm(with_mu.vectors()[0] - start) < np.linalg.norm(one - start)


@pytest.mark.trains
def test_a_large_mu_holds_clients_where_they_are() -> None:
    held = trained(replace(SMALL, algorithm=FedProx(mu=9.0)))  # lr * mu < 1, so that steps contract
    free = trained(SMALL)
    start = to_vector(held.module)
    assert np.linalg.norm(held.vectors()[0] - start) < 0.5 * np.linalg.norm(free.vectors()[0] - start)


@pytest.mark.trains
def test_local_is_training_alone() -> None:
    simulation = trained(replace(SMALL, algorithm=Local(), execution=PlainLoop()))
    for i, client in simulation.population.clients.items():
        expected = to_vector(simulation.module)
        for t in range(SMALL.rounds):
            job = Job(i, expected, client.train, seed_of(SMALL.seed, "local", t, i))
            expected = expected + train_one(simulation.module, job, SMALL.training, t)
        assert np.array_equal(simulation.vectors()[i], expected)


@pytest.mark.trains
def test_local_tells_the_server_nothing_and_sends_nothing() -> None:
    simulation = trained(replace(SMALL, algorithm=Local()))
    assert simulation.view.record.log == []
    assert simulation.view.record.traffic.messages == 0
    others = trained(SMALL)
    assert {entry.recipient for entry in others.view.record.log} == {"server", "clients"}


# --- composition ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protection", [Plain(), Permuted(), Permuted(keys="session")])
@pytest.mark.parametrize("algorithm", [FedAvg(), FedProx(mu=0.1), Oracle(), Local()])
def test_sums_are_given_by_every_protection(algorithm: Algorithm, protection: Protection) -> None:
    replace(SMALL, algorithm=algorithm, protection=protection)


def test_what_a_protection_cannot_give_is_refused_when_the_scenario_is_made() -> None:
    cfl = CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.7))
    with pytest.raises(Refused) as caught:
        replace(SMALL, algorithm=cfl, protection=Permuted(keys="session"))
    message = str(caught.value)
    assert "\n" not in message
    assert "CFL" in message
    assert "gram(edge)" in message
    assert "keys='session'" in message
    assert "Plain" in message.split("would")[1]  # what would fit
    replace(SMALL, algorithm=replace(cfl, remember=False), protection=Permuted(keys="session"))
