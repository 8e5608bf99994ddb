"""FedCE: shares are the softmax over clients of their histories, in whole numbers, under every protection with slots."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.fedce import HISTORY, FedCE
from cloister.fl.runs.scenario import PROTECTIONS
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Masked, Noise, Plain
from cloister.protocol.core.errors import Refused
from cloister.protocol.view.protection import check_composition

from .example_files import load
from .slot_toy import MODELS, SPARED, K, Toy, Values, check_a_pause, descended, examples_of, losses_of

BATCH, DELTA = 3, 0.5


def paper(models: list[Values], history: dict[int, Values], active: list[int]) -> list[Values]:
    """One round in float64, the softmax unrounded; histories are moved in place."""
    ends = []
    for i in active:
        points = examples_of(i).x.double().numpy()
        losses = losses_of(models, points)
        best = int(np.argmin(losses.mean(axis=1)))
        batches = [losses[:, first : first + BATCH].mean(axis=1) for first in range(0, len(points), BATCH)]
        for j in range(len(models)):
            apart = np.sqrt(sum((b[best] - b[j]) ** 2 for b in batches))
            history[i] = history[i] + np.eye(len(models))[j] * (1.0 if j == best else np.exp(-DELTA * apart))
        ends.append(descended(models[best], points, np.ones(len(points)), models[best], 0.0))
    raised = np.exp(np.stack([history[i] for i in active]))
    return [np.average(ends, axis=0, weights=raised[:, k]) for k in range(len(models))]


@pytest.mark.parametrize(("protection", "bound", "rounds"), SPARED, ids=repr)
def test_every_round_is_the_papers_but_for_the_rounding_of_shares(protection: Any, bound: float, rounds: int) -> None:
    toy = Toy(FedCE(models=K, batch=BATCH, most=1000), protection)
    models, history = [m.astype(np.float64) for m in MODELS], dict.fromkeys(range(8), np.zeros(K))
    for t in range(rounds):
        toy.step()
        models = paper(models, history, toy.active[t])
        assert max(np.abs(a - b).max() for a, b in zip(toy.models(), models, strict=True)) < bound + 2e-3
    assert not toy.view.record.faults
    assert all(toy.kept.of(i)[HISTORY] == pytest.approx(history[i], abs=0.01) for i in history)
    shares = np.array([toy.sent[rounds - 1, i].shares for i in range(8)])
    assert (shares.max(axis=1) == 1000).all()
    assert (shares.min(axis=1) < 900).all()


@pytest.mark.parametrize("most", [1, 50, 1000])
def test_shares_are_whole_numbers_within_their_bound_however_long_a_run(most: int) -> None:
    toy = Toy(FedCE(models=K, batch=BATCH, most=most, participation=0.5), Plain(floor=1))
    for _ in range(40):
        toy.step()
    for work in toy.sent.values():
        assert all(type(share) is int and 0 <= share <= most for share in work.shares)
        assert any(work.shares)
    early, late = ({i: min(w.shares) for (t, i), w in toy.sent.items() if t in rounds} for rounds in ((0, 1), (38, 39)))
    assert early.keys() == late.keys() == set(range(8))
    assert most == 1 or all(late[i] < 0.75 * early[i] for i in late), "the softmax becomes hard"


def test_what_cannot_give_it() -> None:
    noisy = Masked(ring_bits=64, noise=Noise(epsilon=10.0, delta=1e-5, rounds=3, l2=1.0, acknowledge=("slots",)))
    with pytest.raises(Refused, match="FedCE needs slots"):
        check_composition("FedCE", FedCE().needs, noisy, PROTECTIONS)
    for bad in ({"delta": -1.0}, {"batch": 0}, {"most": 0}):
        with pytest.raises(ValueError):
            FedCE(**bad)


def test_models_whose_losses_are_no_numbers_gain_nothing() -> None:
    toy = Toy(FedCE(models=K, batch=BATCH), Plain())
    seen = toy.see(0, 0, MODELS, {})
    losses = np.where(np.arange(K)[:, None] == 1, np.inf, seen.losses)
    assert toy.algorithm.gained(replace(seen, losses=losses), 0).tolist() == [1.0, 0.0]
    assert toy.algorithm.gained(replace(seen, losses=np.full_like(losses, np.inf)), 0).tolist() == [1.0, 0.0]
    assert replace(toy.algorithm, delta=0.0).gained(replace(seen, losses=losses), 0).tolist() == [1.0, 0.0]


QUICK = replace(load("baselines_slots").turned, algorithm=FedCE(models=2))


@pytest.mark.trains
def test_with_one_model_it_is_federated_averaging_of_equal_clients() -> None:
    one, fedavg = (Simulation(replace(QUICK, algorithm=a), None) for a in (FedCE(models=1, most=1), FedAvg(by_samples=False)))
    for _ in range(2):
        one.step()
        fedavg.step()
    assert np.array_equal(one.vectors()[0], fedavg.vectors()[0])


@pytest.mark.trains
def test_it_goes_by_validation_data_where_there_are_any() -> None:
    simulation = Simulation(replace(QUICK, validation=0.2), None)
    models = [simulation.view.harness.observe(m) for m in simulation.state.models]
    examples = simulation.population.clients[3].train
    assert simulation.weighing is not None
    seen = simulation.weighing.seen(3, 0, models, examples, {})
    assert len(seen.targets) == len(simulation.validation[3].train) < len(examples)
    assert seen.mean == pytest.approx(simulation._losses(3, models, simulation.validation[3].train))


@pytest.mark.long
@pytest.mark.trains
def test_a_run_goes_on_after_a_pause_with_what_clients_kept(tmp_path: Path) -> None:
    check_a_pause(replace(QUICK, rounds=4), tmp_path)
