"""FedRC: its rounds and tables are the paper's under every protection with slots, and the tables are in the disclosure log."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.fedrc import LEAST, FedRC, scores, shares_of_labels
from cloister.fl.clients.expectation import PI
from cloister.fl.runs.scenario import PROTECTIONS
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Masked, Noise, Plain
from cloister.protocol.core.errors import Refused
from cloister.protocol.view.protection import check_composition

from .example_files import load
from .slot_toy import LABELS, MODELS, SPARED, D, K, Toy, Values, check_a_pause, descended, examples_of, losses_of


def paper(models: list[Values], p: Values, omega: dict[int, Values], active: list[int]) -> tuple[list[Values], Values]:
    """One round in float64; omega is moved in place. p: (K, labels). Returns the models and T."""
    ends, sizes, table = [], [], np.zeros((K, LABELS))
    for i in active:
        own = examples_of(i)
        points, labels = own.x.double().numpy(), own.y.numpy()
        q = np.exp(np.log(omega[i])[:, None] - losses_of(models, points) - np.log(p[:, labels]))
        q /= q.sum(axis=0)
        omega[i] = q.mean(axis=1)
        ends.append([descended(m, points, q[k], m, 0.0) for k, m in enumerate(models)])
        sizes.append(len(points))
        for s, label in enumerate(labels):
            table[:, label] += q[:, s]
    moved = [np.average([end[k] for end in ends], axis=0, weights=sizes) for k in range(K)]
    return moved, np.maximum(table, 1e-8)


@pytest.mark.long
@pytest.mark.parametrize(("protection", "bound", "rounds"), SPARED, ids=repr)
def test_every_round_is_the_papers(protection: Any, bound: float, rounds: int) -> None:
    toy = Toy(FedRC(models=K), protection)
    models, p = [m.astype(np.float64) for m in MODELS], np.full((K, LABELS), 1 / K)
    omega = dict.fromkeys(range(8), np.full(K, 1 / K))
    for t in range(rounds):
        toy.step()
        models, table = paper(models, p, omega, toy.active[t])
        p = table / table.sum(axis=1, keepdims=True)
        held = toy.models()
        assert max(np.abs(a[:D] - b).max() for a, b in zip(held, models, strict=True)) < bound
        assert shares_of_labels(np.stack([m[D:] for m in held])) == pytest.approx(p, abs=10 * bound)
    assert not toy.view.record.faults
    assert all(toy.kept.of(i)[PI] == pytest.approx(omega[i], abs=20 * bound) for i in omega)
    assert np.abs(p[0] - p[1]).max() > 0.02, "the tables part"
    told = {e.recipient for e in toy.view.record.log if "how the labels of the examples" in e.words}
    assert told == ({"clients"} if type(protection).__name__ == "Encrypted" else {"server", "clients"})


def test_a_label_that_nobody_has_gives_no_more_than_its_bound() -> None:
    p = shares_of_labels(np.array([[0.0, 0.25, 0.25], [0.0, 0.0, 0.0]], np.float32))
    assert p[0] == pytest.approx([LEAST / 0.5, 0.5, 0.5])
    assert p[1].tolist() == [0.5] * 3, "before there is a table, 1 / K"
    toy = Toy(FedRC(models=K), Plain())
    found = scores(toy.see(0, 0, [np.append(m, [0.0, 0.25, 0.25]).astype(np.float32) for m in MODELS], {}))
    own = examples_of(0)
    expected = -losses_of(MODELS, own.x.double().numpy()) - np.log(p[0][own.y.numpy()])
    assert found == pytest.approx(expected)


def test_models_weigh_less_where_the_label_is_theirs_anyway() -> None:
    """Two models of equal loss: the example goes to the one that has seen less of its label (the paper's point)."""
    toy = Toy(FedRC(models=K), Plain())
    starts = [np.append(MODELS[0], table).astype(np.float32) for table in ([0.8, 0.1, 0.1], [0.1, 0.8, 0.1])]
    q = np.exp(scores(toy.see(3, 0, starts, {})))
    labels = examples_of(3).y.numpy()
    assert set(labels) == {0, 1, 2}
    assert all((q[0] < q[1])[labels == 0])
    assert all((q[0] > q[1])[labels == 1])
    assert q[0][labels == 2] == pytest.approx(q[1][labels == 2])


def test_what_cannot_give_it_and_what_it_cannot_count() -> None:
    noisy = Masked(ring_bits=64, noise=Noise(epsilon=10.0, delta=1e-5, rounds=3, l2=1.0, acknowledge=("slots",)))
    with pytest.raises(Refused, match="FedRC needs slots"):
        check_composition("FedRC", FedRC().needs, noisy, PROTECTIONS)
    toy = Toy(FedRC(models=K), Plain())
    seen = toy.see(0, 0, [np.append(m, np.zeros(LABELS)).astype(np.float32) for m in MODELS], {})
    with pytest.raises(ValueError, match="one label an example"):
        scores(replace(seen, y=np.zeros((len(seen.y), 4), np.int64)))


QUICK = load("baselines_slots").permuted


@pytest.mark.trains
def test_with_one_model_it_is_federated_averaging() -> None:
    one, fedavg = (Simulation(replace(QUICK, algorithm=a), None) for a in (FedRC(models=1), FedAvg()))
    for _ in range(2):
        one.step()
        fedavg.step()
    assert np.array_equal(one.vectors()[0], fedavg.vectors()[0])


@pytest.mark.trains
def test_a_table_is_the_clients_labels_as_their_models_answer_for_them() -> None:
    """With one model, of all training examples; and models are saved without it."""
    simulation = Simulation(replace(QUICK, algorithm=FedRC(models=1)), None)
    simulation.step()
    (cluster,) = simulation.state.clusters.values()
    labels = np.concatenate([c.train.y.numpy() for c in simulation.population.clients.values()])
    expected = np.bincount(labels, minlength=10) / len(labels)
    assert simulation.view.harness.observe(cluster.model)[-10:] == pytest.approx(expected, abs=1e-6)
    assert len(simulation.parameters(cluster.model)) + 10 == len(simulation.view.harness.observe(cluster.model))


@pytest.mark.trains
def test_clients_of_more_examples_than_count_stay_within_a_clip() -> None:
    """A table's coordinates are at most 1, whatever the number of examples, so that masks have room for them."""
    simulation = Simulation(replace(QUICK, algorithm=FedRC(models=1, most=1), protection=Masked()), None)
    assert max(len(c.train) for c in simulation.population.clients.values()) > 8
    simulation.step()
    (cluster,) = simulation.state.clusters.values()
    shares = [np.bincount(c.train.y.numpy(), minlength=10) / len(c.train) for c in simulation.population.clients.values()]
    assert simulation.view.harness.observe(cluster.model)[-10:] == pytest.approx(np.mean(shares, axis=0), abs=1e-3)


@pytest.mark.long
@pytest.mark.trains
def test_a_run_goes_on_after_a_pause_with_what_clients_kept(tmp_path: Path) -> None:
    check_a_pause(replace(QUICK, rounds=4, algorithm=FedRC(models=2, participation=0.5)), tmp_path)
