"""Two labels that change places: what is sent in both runs is the same, so that no method can serve the blind well in both."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.flic import FLIC
from cloister.fl.algorithms.hardened_flic import HardenedFLIC
from cloister.fl.algorithms.ifca import IFCA
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Dirichlet, Partition
from cloister.fl.data.population import Client, Examples, Population
from cloister.fl.data.source import Digits, Source
from cloister.fl.models.papers import Mlp
from cloister.fl.models.vector import load_vector
from cloister.fl.robust.weiszfeld import GeometricMedian
from cloister.fl.runs.dealt import population_of
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Masked, Plain
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.forged_choices import Pretended
from cloister.threat_models.label_attacks import SwappedLabels, relabelled
from cloister.threat_models.membership import ALWAYS, Fixed
from cloister.threat_models.swap_theory import Swap, swap_of, worst_swap

CORRUPT = 5
SCENARIO = Scenario(
    name="digits, labels skewed",
    data=Digits(),
    partition=Dirichlet(clients=12, alpha=0.3, shared_test=True),
    model=Mlp(hidden=(16,)),
    training=Training(epochs=2, batch=10, lr=0.1),
    algorithm=FedAvg(),
    protection=Plain(),
    rounds=8,
    seed=3,
)
METHODS = {
    "FedAvg": FedAvg(),
    "CFL": CFL(thresholds=ScaleFree(eps1=0.6, eps2=0.1), patience=2),
    "FLIC": FLIC(rounds_before=3),
    "IFCA": IFCA(models=2),
    "geometric median": RobustFedAvg(rule=GeometricMedian()),
    "hardened FLIC": HardenedFLIC(rounds_before=3, every=2),
}


@dataclass(frozen=True)
class Renamed:
    """A partition in whose data and tests two labels have changed names."""

    partition: Partition
    labels: tuple[int, int]

    def __call__(self, source: Source, rng: np.random.Generator, /) -> Population:
        found = self.partition(source, rng)
        clients = {i: Client(i, self.renamed(c.train), self.renamed(c.test)) for i, c in found.clients.items()}
        return replace(found, clients=clients)

    def renamed(self, examples: Examples) -> Examples:
        a, b = self.labels
        return relabelled(examples, torch.where(examples.y == a, b, torch.where(examples.y == b, a, examples.y)))


@pytest.fixture(scope="module")
def swap() -> Swap:
    found = swap_of(SCENARIO, CORRUPT)
    assert found is not None
    return found


def against(scenario: Scenario, members: tuple[int, ...], labels: tuple[int, int]) -> Scenario:
    swapped = SwappedLabels(*labels)
    return replace(scenario, adversary=Adversary(members=Fixed(members), data=swapped, choice=Pretended(swapped)))


def rounds_of(scenario: Scenario, ids: tuple[int, ...]) -> Iterator[dict[int, NDArray[np.float32]]]:
    """After every round the models of these clients."""
    simulation = Simulation(scenario, None)
    for _ in range(scenario.rounds):
        simulation.step()
        served = simulation.vectors()
        yield {i: served[i].copy() for i in ids}


def right_on(scenario: Scenario, vector: NDArray[np.float32], examples: Examples) -> NDArray[np.bool_]:
    module = Simulation(scenario, None).module
    load_vector(module, vector)
    with torch.no_grad():
        return (module(examples.x).argmax(1) == examples.y).numpy()


@pytest.mark.trains
@pytest.mark.parametrize("name", METHODS)
def test_a_blind_client_is_served_the_same_in_both_runs(name: str, swap: Swap) -> None:
    """The second run, played under its own names, is the first bit by bit; and a test of either label is right in one at most."""
    base = replace(SCENARIO, algorithm=METHODS[name])
    one = against(base, swap.first, swap.labels)
    other = against(replace(base, partition=Renamed(base.partition, swap.labels)), swap.second, swap.labels)
    last: dict[int, NDArray[np.float32]] = {}
    for served, same in zip(rounds_of(one, swap.blind), rounds_of(other, swap.blind), strict=True):
        assert all(np.array_equal(served[i], same[i]) for i in swap.blind)
        last = served
    test = population_of(SCENARIO).clients[0].test
    of_both = np.isin(test.y.numpy(), swap.labels)
    for vector in last.values():
        here = right_on(base, vector, test)
        there = right_on(base, vector, Renamed(base.partition, swap.labels).renamed(test))
        assert not np.any(here & there & of_both)
        assert np.array_equal(here[~of_both], there[~of_both])


@pytest.mark.trains
def test_secure_aggregation_changes_nothing(swap: Swap) -> None:
    base = replace(SCENARIO, protection=Masked(floor=3), rounds=3, algorithm=HardenedFLIC(rounds_before=2, every=2))
    one = against(base, swap.first, swap.labels)
    other = against(replace(base, partition=Renamed(base.partition, swap.labels)), swap.second, swap.labels)
    for served, same in zip(rounds_of(one, swap.blind), rounds_of(other, swap.blind), strict=True):
        assert all(np.array_equal(served[i], same[i]) for i in swap.blind)


@pytest.mark.trains
def test_a_client_that_holds_one_of_the_labels_is_not_blind(swap: Swap) -> None:
    """So the equality above can fail: with such a client among the loyal of both runs it does."""
    base = SCENARIO
    first = swap.first[1:]
    one = against(base, first, swap.labels)
    other = against(replace(base, partition=Renamed(base.partition, swap.labels)), swap.second, swap.labels)
    pairs = zip(rounds_of(one, swap.blind), rounds_of(other, swap.blind), strict=True)
    assert any(not np.array_equal(served[i], same[i]) for served, same in pairs for i in swap.blind)


@pytest.mark.trains
@pytest.mark.long
@pytest.mark.parametrize("name", METHODS)
def test_no_method_is_below_the_bound_in_both_runs(name: str) -> None:
    """In the mean of seeds, first models drawn: on tests of the two labels the blind lose what the statement says."""
    lost, bounds = [], []
    for seed in range(3, 7):
        base = replace(SCENARIO, algorithm=METHODS[name], seed=seed)
        swap = swap_of(base, CORRUPT)
        if swap is None:
            continue
        test = population_of(base).clients[0].test
        of_both = np.isin(test.y.numpy(), swap.labels)
        for members in (swap.first, swap.second):
            silent = replace(base, adversary=Adversary(members=Fixed(members), silent=ALWAYS))
            attacked, calm = (list(rounds_of(s, swap.blind))[-1] for s in (against(base, members, swap.labels), silent))
            right = [np.mean(right_on(base, v[i], test) & of_both) for v in (attacked, calm) for i in swap.blind]
            under, without = np.mean(right[: len(swap.blind)]), np.mean(right[len(swap.blind) :])
            lost.append(without - under)
            bounds.append(without - swap.share / 2)
    assert len(lost) >= 4
    assert np.mean(lost) >= np.mean(bounds) - 0.01


@pytest.mark.parametrize("seed", range(30))
def test_the_worst_is_of_sets_that_can_be(seed: int) -> None:
    rng = np.random.default_rng(seed)
    clients, labels = int(rng.integers(2, 9)), int(rng.integers(2, 5))
    counts = rng.integers(0, 3, (clients, labels)) * rng.integers(0, 2, (clients, labels))
    corrupt, tests = int(rng.integers(1, clients + 1)), rng.dirichlet(np.ones(labels))
    found = worst_swap(counts, corrupt, tests)
    if found is None:
        return
    held = counts[:, list(found.labels)]
    assert sorted((*found.blind, *found.first, *found.second)) == list(range(clients))
    assert not held[list(found.blind)].any()
    for corrupted in (found.first, found.second):
        assert 0 < len(corrupted) <= corrupt
        assert held[list(corrupted)].any(axis=1).all()
        assert held[list(corrupted)].any(axis=0).all(), "the other run learns both labels without them"
    assert found.share == pytest.approx(tests[list(found.labels)].sum())


@pytest.mark.parametrize(("first", "second"), [(1.0, 1.0), (0.9, 0.7), (0.5, 0.5), (0.3, 0.4)])
def test_the_bounds_are_those_of_the_statement(first: float, second: float) -> None:
    """By two loyal means of which one is at least half of both, in the worst case that either run's loss is equal."""
    swap = Swap((0, 1), blind=(0, 1, 2), first=(3, 4), second=(5, 6, 7), share=0.3)
    together = max(0.0, 0.3 * (first + second - 1))
    assert swap.alike(first, second) == pytest.approx(together / 2)
    at = np.linspace(0, together, 10001)  # what a blind client loses in the first run; in the second the rest
    worse = np.maximum(3 * at / (3 + 3), 3 * (together - at) / (3 + 2))
    assert swap.loss(first, second) == pytest.approx(worse.min(), abs=1e-4)


@pytest.mark.parametrize(
    ("counts", "corrupt", "tests"),
    [
        (np.ones(3, int), 1, np.ones(3) / 3),
        (np.ones((3, 2), int), 1, np.ones(3) / 3),
        (-np.ones((3, 2), int), 1, np.ones(2) / 2),
        (np.ones((3, 2), int), 0, np.ones(2) / 2),
        (np.ones((3, 2), int), 4, np.ones(2) / 2),
    ],
)
def test_what_cannot_be_is_refused(counts: NDArray[np.int64], corrupt: int, tests: NDArray[np.float64]) -> None:
    with pytest.raises(ValueError, match=r"counts are|corrupt is"):
        worst_swap(counts, corrupt, tests)
    with pytest.raises(ValueError, match="from 0 to 1"):
        Swap((0, 1), (0,), (1,), (2,), 0.5).loss(1.2, 1.0)


def test_a_label_that_one_set_alone_holds_makes_no_pair() -> None:
    """Without it nobody could learn the label, so that there would be nothing to lose."""
    assert worst_swap(np.array([[9, 0, 0], [0, 9, 0], [0, 0, 9]]), 1, np.full(3, 1 / 3)) is None


def test_where_all_hold_all_there_is_no_pair() -> None:
    assert worst_swap(np.ones((9, 3), int), 4, np.ones(3) / 3) is None


def test_tests_that_differ_between_clients_are_refused() -> None:
    with pytest.raises(ValueError, match="shared_test=True"):
        swap_of(replace(SCENARIO, partition=Dirichlet(clients=12, alpha=0.3)), CORRUPT)
