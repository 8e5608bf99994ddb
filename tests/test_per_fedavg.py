"""Per-FedAvg: meta-gradients against the exact one, steps by hand, and models that one step makes a client's own."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.per_fedavg import PerFedAvg
from cloister.fl.clients.meta import MetaSteps, adapted
from cloister.fl.clients.training import Job, Training, full_gradient, minibatches
from cloister.fl.data.population import Examples
from cloister.fl.models.papers import Mlp, initial
from cloister.fl.models.vector import to_vector
from cloister.fl.runs.experiment import run
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Masked, Permuted, Plain

from .example_files import load

TRAINING = Training(epochs=2, batch=4, lr=0.1)
QUICK: Any = load("per_fedavg_swapped").quick


def images(n: int, seed: int) -> Examples:
    rng = np.random.default_rng(seed)
    return Examples(torch.from_numpy(rng.random((n, 1, 3, 3), np.float32)), torch.from_numpy(rng.integers(0, 4, n)))


def module() -> nn.Module:
    return initial(Mlp((5,)), (1, 3, 3), 4, 0)


def exact(net: nn.Module, batch: Examples, alpha: float) -> list[Tensor]:
    """grad F by differentiating through the step."""
    names = dict(net.named_parameters())

    def loss(values: dict[str, Tensor]) -> Tensor:
        return functional.cross_entropy(torch.func.functional_call(net, values, (batch.x.double(),)), batch.y)

    first = torch.autograd.grad(loss(names), list(names.values()), create_graph=True)
    moved = {name: value - alpha * g for (name, value), g in zip(names.items(), first, strict=True)}
    return list(torch.autograd.grad(loss(moved), list(names.values())))


@pytest.mark.parametrize("alpha", [0.05, 0.5])
def test_hessian_free_is_the_gradient_of_the_meta_objective_and_first_order_leaves_the_hessian_out(alpha: float) -> None:
    """In float64, every gradient on the same batch."""
    net, batch = module().double(), images(30, 1)
    batch = Examples(batch.x.double(), batch.y)
    w = list(net.parameters())
    before = [tensor.detach().clone() for tensor in w]
    right = torch.cat([g.ravel() for g in exact(net, batch, alpha)])
    free, first = (
        torch.cat([g.ravel() for g in MetaSteps(alpha, kind).meta_gradient(net, w, [batch] * 3)])
        for kind in ("Hessian-free", "first order")
    )
    assert all(torch.equal(a, b) for a, b in zip(w, before, strict=True))
    assert float((free - right).norm() / right.norm()) < 1e-5
    error = float((first - right).norm() / right.norm())
    assert error > 1e-3 * alpha
    assert error < 2 * alpha


@pytest.mark.trains
def test_hessian_free_drops_the_same_units_out_at_both_of_its_points() -> None:
    """Otherwise the difference of two masks would be divided by delta."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(9, 16), nn.Tanh(), nn.Dropout(0.5), nn.Linear(16, 4))
    start, data = to_vector(net), images(60, 2)
    steps = [
        np.linalg.norm(
            MetaSteps(0.1, "Hessian-free", delta).train_one(
                net, Job(5, start, data, seed=3), Training(epochs=1, batch=10, lr=0.1), 0
            )
        )
        for delta in (1e-2, 1e-3)
    ]
    assert abs(steps[0] - steps[1]) < 0.1 * steps[0]


@pytest.mark.trains
def test_first_order_is_two_gradient_steps_by_hand() -> None:
    """Each on its own half of a draw: w' = w - alpha g(w; b1), then w <- w - beta g(w'; b2)."""
    net, alpha = module(), 0.3
    job = Job(5, to_vector(net), images(19, 2), seed=3)
    w = job.start
    for index in minibatches(job, replace(TRAINING, batch=8)):
        one, two = torch.tensor_split(index, 2)
        between = w - np.float32(alpha) * full_gradient(net, replace(job, start=w, examples=job.examples.take(one)))
        w = w - np.float32(0.1) * full_gradient(net, replace(job, start=between, examples=job.examples.take(two)))
    ((client, update),) = MetaSteps(alpha)(net, [job], TRAINING, 0)
    assert client == 5
    np.testing.assert_allclose(update, w - job.start, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("kind", "least"), [("first order", 2), ("Hessian-free", 3)])
def test_a_client_with_fewer_examples_than_batches_takes_no_step(kind: Any, least: int) -> None:
    net = module()
    for n in range(1, 5):
        update = MetaSteps(0.1, kind).train_one(net, Job(0, to_vector(net), images(n, n), seed=0), TRAINING, 0)
        assert bool(update.any()) == (n >= least)


def test_training_repeats_and_decays_and_leaves_the_module_alone() -> None:
    net = module()
    before = to_vector(net).copy()
    job = Job(0, before, images(20, 4), seed=9)
    meta, falling = MetaSteps(0.1, "Hessian-free"), replace(TRAINING, lr_decay=0.5, epochs=1, batch=20)
    assert np.array_equal(meta.train_one(net, job, TRAINING, 0), meta.train_one(net, job, TRAINING, 0))
    assert np.array_equal(to_vector(net), before)
    first, later = (meta.train_one(net, job, falling, t) for t in (0, 2))
    assert later == pytest.approx(first / 4, rel=1e-3, abs=1e-6)


@pytest.mark.trains
def test_a_clients_own_model_is_one_full_gradient_step_away() -> None:
    net = module()
    job = Job(0, to_vector(net), images(11, 5), seed=0)
    assert adapted(net, job, 0.2) == pytest.approx(job.start - 0.2 * full_gradient(net, job), abs=1e-7)


@pytest.mark.parametrize("bad", [{"alpha": 0.0}, {"alpha": 0.1, "kind": "second order"}, {"alpha": 0.1, "delta": -1.0}])
def test_numbers_out_of_range_are_refused(bad: Any) -> None:
    with pytest.raises(ValueError):
        PerFedAvg(**bad)


@pytest.mark.parametrize("changed", [{"momentum": 0.9}, {"weight_decay": 0.1}, {"prox": 1.0}])
def test_what_is_no_plain_gradient_step_is_refused(changed: Any) -> None:
    with pytest.raises(ValueError, match="meta steps are of plain gradients"):
        MetaSteps(0.1)(module(), [], replace(TRAINING, **changed), 0)


# --- in runs ----------------------------------------------------------------------------------------------------------------


def ended(**changes: Any) -> Simulation:
    simulation = Simulation(replace(QUICK, **changes), None)
    for _ in range(simulation.scenario.rounds):
        simulation.step()
    return simulation


def accuracy(simulation: Simulation) -> float:
    return float(np.mean([score.accuracy for score in simulation.evaluate().values()]))


@pytest.mark.long
@pytest.mark.trains
def test_what_a_client_uses_is_the_common_model_after_its_own_step() -> None:
    simulation = ended(rounds=1)
    (cluster,) = simulation.state.clusters.values()
    common, alpha = simulation.view.harness.observe(cluster.model), simulation.scenario.algorithm.alpha  # type: ignore[attr-defined]
    for i, vector in simulation.vectors().items():
        job = Job(i, common, simulation.population.clients[i].train, 0)
        assert np.array_equal(vector, adapted(simulation.module, job, alpha))


@pytest.mark.slow
@pytest.mark.trains
def test_clients_whose_labels_are_swapped_gain_by_a_step_of_their_own() -> None:
    """Three seeds: on the mean more accurate than one model for all, by .03 at least."""
    gained = []
    for seed in range(3):
        own, one = (ended(seed=seed, protection=Plain(), algorithm=a) for a in (QUICK.algorithm, FedAvg(by_samples=False)))
        gained.append(accuracy(own) - accuracy(one))
    assert np.mean(gained) > 0.03


@pytest.mark.trains
@pytest.mark.long
def test_it_runs_where_sums_are_given_and_models_agree() -> None:
    plain, permuted, masked = (ended(rounds=2, protection=p) for p in (Plain(), Permuted(), Masked()))
    for other, bound in ((permuted, 1e-5), (masked, 1e-3)):
        assert max(float(np.abs(plain.vectors()[i] - v).max()) for i, v in other.vectors().items()) < bound


@pytest.mark.long
@pytest.mark.trains
def test_the_example_runs(tmp_path: Path) -> None:
    rounds = list(run(replace(QUICK, rounds=2), tmp_path / "run"))
    assert rounds[-1].accuracy is not None
