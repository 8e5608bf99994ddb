"""FedEM: its rounds are the paper's lines under every protection with slots, and how a client weighs the models is its own."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cloister.fl.algorithms.algorithm import Start
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.fedem import FedEM
from cloister.fl.clients.expectation import PI, responsibilities
from cloister.fl.models.vector import load_vector
from cloister.fl.runs.evaluation import by_example, mixed_score
from cloister.fl.runs.scenario import PROTECTIONS
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Masked, Noise
from cloister.protocol.core.errors import Refused
from cloister.protocol.view.answers import Model
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import check_composition
from cloister.protocol.view.work import LocalJob

from .example_files import load
from .slot_toy import MODELS, SPARED, WITH_SLOTS, K, Toy, Values, check_a_pause, descended, examples_of, losses_of


def paper(models: list[Values], pi: dict[int, Values], active: list[int], most: int) -> list[Values]:
    """Lines 6 to 12 in float64; pi is moved in place."""
    ends, sizes = [], []
    for i in active:
        points = examples_of(i).x.double().numpy()
        joint = pi[i][:, None] * np.exp(-losses_of(models, points))
        q = joint / joint.sum(axis=0)  # E-step
        pi[i] = q.mean(axis=1)
        ends.append([descended(m, points, q[k], m, 0.0) for k, m in enumerate(models)])
        sizes.append(min(len(points), most))
    return [np.average([end[k] for end in ends], axis=0, weights=sizes) for k in range(len(models))]


@pytest.mark.parametrize(("protection", "bound", "rounds"), SPARED, ids=repr)
def test_every_round_is_the_papers(protection: Any, bound: float, rounds: int) -> None:
    toy = Toy(FedEM(models=K), protection)
    models, pi = [m.astype(np.float64) for m in MODELS], dict.fromkeys(range(8), np.full(K, 1 / K))
    for t in range(rounds):
        toy.step()
        models = paper(models, pi, toy.active[t], toy.algorithm.most)
        assert max(np.abs(a - b).max() for a, b in zip(toy.models(), models, strict=True)) < bound
    assert not toy.view.record.faults
    assert all(toy.kept.of(i)[PI] == pytest.approx(pi[i], abs=10 * bound) for i in pi)
    assert min(pi[0][0], pi[1][1]) > 0.6, "clients weigh the models"


@pytest.mark.parametrize("most", [1, 6])
def test_with_less_than_all_clients_and_bounded_shares(most: int) -> None:
    protection, bound, _ = WITH_SLOTS[0]
    toy = Toy(FedEM(models=K, most=most, participation=0.5, sampling="random"), protection)
    models, pi = [m.astype(np.float64) for m in MODELS], dict.fromkeys(range(8), np.full(K, 1 / K))
    for t in range(4):
        toy.step()
        assert len(toy.active[t]) == 4
        models = paper(models, pi, toy.active[t], most)
        assert max(np.abs(a - b).max() for a, b in zip(toy.models(), models, strict=True)) < bound


def test_the_weights_of_an_e_step() -> None:
    q = responsibilities(np.array([0.5, 0.5, 0.0]), np.array([[-1.0, -2000.0], [-1.0 - np.log(3), -1000.0], [0.0, 0.0]]))
    assert q == pytest.approx(np.array([[0.75, 0.0], [0.25, 1.0], [0.0, 0.0]]))
    lost = responsibilities(np.array([0.25, 0.75]), np.full((2, 3), -np.inf))
    assert lost == pytest.approx(np.repeat([[0.25], [0.75]], 3, axis=1))


def test_no_message_carries_what_a_client_keeps() -> None:
    """Shares and sizes of what is sent are the same however a client weighs the models."""
    toy = Toy(FedEM(models=K), Masked(floor=2, slot_spare=0))
    toy.step()
    shares = {i: work.shares for (_, i), work in toy.sent.items()}
    assert shares == {i: (len(examples_of(i)),) * K for i in range(8)}
    saved = toy.view.harness.save()
    assert not any(PI in key for memory in saved.clients.values() for key in (*memory.stored, *memory.vectors))
    assert not any("which slots it chose" in e.words for e in toy.view.record.log if e.recipient == "server")


def test_what_it_needs_and_what_cannot_give_it() -> None:
    assert FedEM().needs == {Functionality.SLOTS}
    noisy = Masked(ring_bits=64, noise=Noise(epsilon=10.0, delta=1e-5, rounds=3, l2=1.0, acknowledge=("slots",)))
    with pytest.raises(Refused, match="FedEM needs slots"):
        check_composition("FedEM", FedEM().needs, noisy, PROTECTIONS)


@pytest.mark.parametrize("bad", [{"models": 0}, {"most": 0}, {"participation": 0.0}, {"sampling": "never"}])
def test_numbers_out_of_range_are_refused(bad: Any) -> None:
    with pytest.raises(ValueError):
        FedEM(**bad)
    with pytest.raises(ValueError, match="begins with 3 models, not 1"):
        FedEM(models=3).init(Start((0, 1), {}, Model("init")))


QUICK = load("baselines_slots").mixed


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize(("most", "by_samples"), [(1, False), (10_000, True)])
def test_with_one_model_it_is_federated_averaging(most: int, by_samples: bool) -> None:
    one, fedavg = (
        Simulation(replace(QUICK, algorithm=algorithm), None)
        for algorithm in (FedEM(models=1, most=most), FedAvg(by_samples=by_samples))
    )
    for _ in range(2):
        one.step()
        fedavg.step()
    assert np.array_equal(one.vectors()[0], fedavg.vectors()[0])
    assert {i: s.accuracy for i, s in one.evaluate().items()} == {i: s.accuracy for i, s in fedavg.evaluate().items()}


@pytest.mark.trains
def test_clients_predict_with_the_mixture_that_they_kept_or_find() -> None:
    """Who took part by its last E-step, who did not by one E-step from equal weights."""
    simulation = Simulation(replace(QUICK, algorithm=FedEM(models=2, participation=0.5)), None)
    simulation.step()
    models = [simulation.parameters(m) for m in simulation.state.models]
    modules = [deepcopy(simulation.module).eval() for _ in models]
    for module, model in zip(modules, models, strict=True):
        load_vector(module, model)
    scores, took_part, clients = simulation.evaluate(), set(), simulation.population.clients
    assert simulation.weighing is not None
    for i, client in clients.items():
        kept = simulation.weighing.kept.of(i)
        losses = np.stack([by_example(module, client.train)[0] for module in modules])
        pi = kept[PI] if PI in kept else responsibilities(np.full(2, 0.5), -losses).mean(axis=1)
        assert scores[i] == mixed_score(modules, pi, client.test)
        took_part |= {i} if PI in kept else set()
    assert len(took_part) == len(clients) / 2


@pytest.mark.trains
def test_a_client_that_trains_on_other_examples_weighs_those() -> None:
    """As a corrupt one may; it says that it has as many as it has."""
    simulation = Simulation(replace(QUICK, algorithm=FedEM(models=2)), None)
    models = tuple(simulation.view.harness.observe(m) for m in simulation.state.models)
    job = LocalJob(3, 0, "slots", models[0], models)
    own = simulation.population.clients[3].train
    ((_, honest),) = simulation._train([job], {})
    ((_, other),) = simulation._train([job], {3: own.take(torch.arange(7))})
    assert honest.shares == other.shares == (len(own),) * 2
    assert not np.array_equal(honest.vector, other.vector)
    ((_, again),) = simulation._train([job], {})
    assert np.array_equal(honest.vector, again.vector), "within a round a client begins with what it kept before"


@pytest.mark.long
@pytest.mark.trains
def test_a_run_goes_on_after_a_pause_with_what_clients_kept(tmp_path: Path) -> None:
    check_a_pause(replace(QUICK, rounds=4, algorithm=FedEM(models=2, participation=0.5)), tmp_path)
