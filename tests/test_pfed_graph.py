"""pFedGraph: its weights are known answers, its rounds the paper's in float64 under every protection with personal sums."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from cloister.fl.algorithms.personal_graph import ALL, rows_by_similarity
from cloister.fl.algorithms.pfed_graph import PFedGraph
from cloister.fl.clients.cosine_pull import CosinePull
from cloister.fl.clients.training import Job, Training, train_one
from cloister.fl.clustering.simplex import projected, weights_by_similarity
from cloister.fl.data.population import Examples
from cloister.fl.runs.scenario import PROTECTIONS
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.core.errors import Refused
from cloister.protocol.core.link import Frame
from cloister.protocol.messages import decode
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import check_composition

from .quadratic_clients import CLIENTS, START, Run, Values, giving, mean, named, trained

SERVED = giving(Functionality.PERSONAL_SUMS, Functionality.GRAM_ORIGIN)
UNIFORM = np.full(4, 0.25)
COSINES = np.array([1, 0.7, 0.1, -0.2])


# --- weights ----------------------------------------------------------------------------------------------------------------


def test_weights_are_the_known_answers() -> None:
    assert weights_by_similarity(COSINES, UNIFORM, 0.8) == pytest.approx([0.5833, 0.3958, 0.0208, 0], abs=5e-5)
    complementary = (0.9 * np.array([1, 0.9, 0.5, 0.2]) - 1.4 * COSINES) / 2
    assert projected(UNIFORM - complementary) == pytest.approx([0.5125, 0.3475, 0.1075, 0.0325], abs=5e-5)
    assert weights_by_similarity(COSINES, UNIFORM, 1e9) == pytest.approx(UNIFORM, abs=1e-8)
    assert weights_by_similarity(COSINES, UNIFORM, 1e-3).tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize("seed", range(10))
def test_the_projection_is_the_nearest_point_of_the_simplex(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = rng.standard_normal(6) * rng.uniform(0.1, 3)
    found = projected(y)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)
    bounds, total = [(0, 1)] * 6, {"type": "eq", "fun": lambda x: x.sum() - 1}
    best = minimize(lambda x: np.square(x - y).sum(), np.full(6, 1 / 6), bounds=bounds, constraints=total, tol=1e-12)
    assert found == pytest.approx(best.x, abs=1e-5)
    assert projected(found) == pytest.approx(found)


@pytest.mark.parametrize("lam", [1e-3, 1e-12, 1e-17, 1e-300])
def test_with_a_vanishing_lambda_the_most_similar_has_all_weight(lam: float) -> None:
    assert weights_by_similarity([0.2, 1.0, 0.7], np.full(3, 1 / 3), lam).tolist() == [0.0, 1.0, 0.0]


def test_what_cannot_be_projected_is_refused() -> None:
    for bad in ([], [np.nan, 1.0], [[1.0]]):
        with pytest.raises(ValueError, match="finite numbers"):
            projected(bad)


# --- rounds -----------------------------------------------------------------------------------------------------------------


def paper(models: dict[int, Values], algorithm: PFedGraph) -> tuple[dict[int, Values], Values]:
    """Trained models, and the cosines of what they moved from the start."""
    after = {i: trained(i, w) for i, w in models.items()}
    moved = np.array([after[i] - START for i in CLIENTS])
    unit = moved / np.linalg.norm(moved, axis=1)[:, None]
    return after, unit @ unit.T


@pytest.mark.long
@pytest.mark.parametrize(("protection", "bound"), SERVED, ids=named)
def test_every_round_is_the_papers(protection: Any, bound: float) -> None:
    """Of the similarities that the view tells; those are exact where no sketches are behind them."""
    lam = 3.0 if isinstance(protection, Plain) else 0.8
    run = Run(PFedGraph(lam=lam), protection)
    models = {i: START.astype(np.float64) for i in CLIENTS}
    for _ in range(2):
        run.step()
        after, exact = paper(models, run.algorithm)
        seen = run.state.measured[ALL].similarity
        assert np.abs(seen - exact).max() < (0.6 if isinstance(protection, Masked | Encrypted) else 1e-3)
        weights = [weights_by_similarity(row, np.full(12, 1 / 12), lam) for row in seen]
        models = {i: sum(x * after[j] for x, j in zip(weights[i], CLIENTS, strict=True)) for i in CLIENTS}
        found = {c.members[0]: run.view.harness.observe(c.model) for c in run.state.clusters.values()}
        assert max(np.abs(found[i] - models[i]).max() for i in CLIENTS) < 3 * bound
    assert not run.view.record.faults
    assert not run.view.record.below_floor


def test_even_weights_are_federated_averaging_and_weights_on_itself_are_local_training() -> None:
    even, alone = Run(PFedGraph(lam=1e9), Plain()), Run(PFedGraph(lam=1e-6), Plain())
    models, common = {i: START.astype(np.float64) for i in CLIENTS}, START.astype(np.float64)
    for _ in range(2):
        even.step()
        alone.step()
        common, models = mean(CLIENTS, common, by_samples=False), {i: trained(i, w) for i, w in models.items()}
    for i in CLIENTS:
        assert even.models()[i,] == pytest.approx(common, abs=1e-5)
        assert alone.models()[i,] == pytest.approx(models[i], abs=1e-5)


def test_a_mean_that_rests_on_too_few_leaves_what_was_trained() -> None:
    run = Run(PFedGraph(lam=0.2), Permuted(floor=4))
    run.step()
    assert len(run.view.record.below_floor) == 12
    assert all(run.models()[i,] == pytest.approx(trained(i, START), abs=1e-5) for i in CLIENTS)


def test_absent_clients_keep_their_models_and_newcomers_enter_at_the_start() -> None:
    run = Run(PFedGraph(), Plain(), silent=[(1, 5)], present=CLIENTS[:11])
    run.step()
    before = run.models()[5,]
    run.state = run.algorithm.join(run.state, [11])
    run.step()
    assert np.array_equal(run.models()[5,], before)
    assert run.state.measured[ALL].clients == (0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11)
    assert len(run.state.clusters) == 12


@pytest.mark.parametrize("protection", [Plain(), Permuted(floor=2)], ids=repr)
def test_a_client_that_does_not_say_what_it_holds_ends_no_run(protection: Any) -> None:
    """Client 5's word on its mean is lost, and all words of client 7."""

    def tap(frame: Frame) -> list[Frame]:
        if frame.kind != "Holds" or run.state.round != 1:
            return [frame]
        (name,) = decode(frame.data, frame.sender, 1 << 20).message.names  # type: ignore[union-attr]
        return [] if (frame.sender == 5 and " for 5" in name) or frame.sender == 7 else [frame]

    run = Run(PFedGraph(), protection, tap=tap)
    run.step()
    before = run.models()
    run.step()
    assert run.models()[5,] == pytest.approx(trained(5, before[5,]), abs=1e-5)
    assert np.array_equal(run.models()[7,], before[7,])
    run.step()
    assert not np.array_equal(run.models()[7,], before[7,])


def test_similar_ones_count_as_the_same_on_request() -> None:
    """Members of a group, whose cosines are above .9, then weigh the same; without, they do not."""
    for snap, same in ((0.9, True), (None, False)):
        run = Run(PFedGraph(lam=3.0, snap=snap), Plain())
        run.step()
        seen, group = run.state.measured[ALL].similarity, [1, 2, 3]
        assert seen[0, group].min() > 0.9
        row = rows_by_similarity(run.algorithm.snapped(seen), 3.0)[0]
        assert (np.ptp(row[[0, *group]]) < 1e-12) == same


def test_what_it_needs_and_what_cannot_give_it() -> None:
    with pytest.raises(Refused, match="PFedGraph needs personal sums, which TwoServer"):
        check_composition("PFedGraph", PFedGraph().needs, TwoServer(), PROTECTIONS)


@pytest.mark.parametrize("bad", [{"lam": 0.0}, {"mu": -1.0}, {"snap": 1.5}, {"participation": 2.0}])
def test_numbers_out_of_range_are_refused(bad: Any) -> None:
    with pytest.raises(ValueError):
        PFedGraph(**bad)


# --- the client's side ------------------------------------------------------------------------------------------------------


def test_the_pull_is_the_gradient_of_the_cosine() -> None:
    torch.manual_seed(0)
    w = [torch.nn.Parameter(torch.randn(3, 4)), torch.nn.Parameter(torch.randn(3))]
    a = [torch.randn(3, 4), torch.randn(3)]
    flat = torch.cat([p.flatten() for p in w]), torch.cat([p.flatten() for p in a])
    expected = torch.autograd.grad(-0.3 * torch.nn.functional.cosine_similarity(*flat, dim=0), w)
    for parameter in w:
        parameter.grad = torch.ones_like(parameter)
    CosinePull(0.3).add(w, a)
    for parameter, by in zip(w, expected, strict=True):
        assert parameter.grad is not None
        assert torch.allclose(parameter.grad - 1, by, atol=1e-6)
    before = [p.grad.clone() for p in w if p.grad is not None]
    CosinePull(0.3).add(w, [torch.zeros(3, 4), torch.zeros(3)])
    assert all(torch.equal(p.grad, b) for p, b in zip(w, before, strict=True) if p.grad is not None)


@pytest.mark.trains
def test_pulled_models_stay_nearer_in_direction_and_without_a_pull_it_is_sgd() -> None:
    generator = torch.Generator().manual_seed(3)
    examples = Examples(torch.randn(40, 6, generator=generator), torch.randint(3, (40,), generator=generator))
    module = torch.nn.Linear(6, 3)
    start = np.random.default_rng(1).standard_normal(21).astype(np.float32)
    job, training = Job(0, start, examples, 5), Training(epochs=4, batch=8, lr=0.2)
    sgd = train_one(module, job, training, 1)

    def cosine(mu: float) -> float:
        ((_, update),) = CosinePull(mu)(module, [job], training, 1)
        end = start + update
        return float(end @ start / np.linalg.norm(end) / np.linalg.norm(start))

    assert cosine(5.0) > cosine(0.0) + 0.01
    for mu, round in ((0.0, 1), (5.0, 0)):
        ((_, update),) = CosinePull(mu)(module, [job], training, round)
        assert np.allclose(update, sgd, atol=1e-6)


@pytest.mark.trains
@pytest.mark.parametrize("more", [{}, {"momentum": 0.9, "weight_decay": 0.01}, {"prox": 0.3}])
def test_many_clients_that_train_at_once_are_pulled_as_one_by_one(more: Any) -> None:
    """Of unequal size, one without a direction to be pulled in; without a hidden layer, so that rounding stays rounding."""
    generator, rng = torch.Generator().manual_seed(3), np.random.default_rng(1)
    module, training = torch.nn.Linear(6, 3), Training(epochs=3, batch=8, lr=0.1, **more)
    jobs = []
    for i, n in enumerate((40, 9, 23, 8)):
        examples = Examples(torch.randn(n, 6, generator=generator), torch.randint(3, (n,), generator=generator))
        start, toward = rng.standard_normal((2, 21)).astype(np.float32)
        jobs.append(Job(i, start, examples, 5 + i, np.zeros_like(toward) if i == 2 else toward, pull=0.5 * i))
    pull = CosinePull(2.0)
    found = dict(pull(module, jobs, training, 1))
    assert list(found) == [0, 1, 2, 3]
    for job in jobs:
        expected = train_one(module, job, training, 1, pull.add)
        assert np.allclose(found[job.client], expected, atol=2e-5)
        if job.client != 2:
            assert not np.allclose(expected, train_one(module, job, training, 1), atol=1e-3)
