"""IFCA: its rounds are the paper's lines under every protection with slots, and choices are the clients' own."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cloister.crypto.entropy import SimulatedEntropy
from cloister.fl.algorithms.algorithm import Start
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.ifca import IFCA
from cloister.fl.algorithms.several_models import State
from cloister.fl.clients.slots import InSlots, Piece, SlotInputs, SlotWork, best, filled, least
from cloister.fl.clients.training import Job, Training, full_gradient, train_one
from cloister.fl.data.partition import Rotation
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.experiment import run
from cloister.fl.runs.metrics import adjusted_rand_index
from cloister.fl.runs.scenario import PROTECTIONS, Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Encrypted, Masked, Noise, Permuted, Plain, TwoServer
from cloister.protocol.core.errors import Refused
from cloister.protocol.view.answers import Model
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import Protection, Setup, check_composition
from cloister.protocol.view.work import LocalJob, LocalWork

from .example_files import load

M, D, K, LR, STEPS = 12, 20, 3, 0.25, 2
CLIENTS = tuple(range(M))
MODELS = [np.random.default_rng(k).uniform(-0.3, 0.3, D).astype(np.float32) for k in range(K)]
WITH_SLOTS: list[tuple[Protection, float]] = [
    (Plain(), 2e-6),
    (Permuted(floor=1), 2e-6),
    (Masked(floor=2, slot_spare=0), 2e-3),
    (TwoServer(floor=2), 2e-3),
    (Encrypted(floor=2), 2e-3),
]
PLAYED = [
    pytest.param(
        *(protection, bound, participation, average),
        id=f"{type(protection).__name__}-{participation}-{average}",
        marks=[pytest.mark.slow] if isinstance(protection, Encrypted) else [],
    )
    for protection, bound in WITH_SLOTS
    for participation in (1.0, 0.5)
    for average in ("models", "gradients")
]
"""Encryption takes seconds."""
Values = NDArray[np.float64]


def target(client: int) -> Values:
    """Three groups of four, in corners."""
    rng = np.random.default_rng(100 + client)
    corner = np.zeros(D)
    corner[client % K :: K] = 0.8
    found: Values = corner + 0.02 * rng.standard_normal(D)
    return found


def loss(client: int, model: Any) -> float:
    return float(np.sum((np.asarray(model, np.float64) - target(client)) ** 2) / 2)


def gradient(client: int, model: Values) -> Values:
    return model - target(client)


def trained(client: int, model: Values) -> Values:
    for _ in range(STEPS):
        model = model - LR * gradient(client, model)
    return model


def seen(losses: Any, samples: int = 1, **others: Any) -> SlotInputs:
    """What a client sees of models that are 0, 1, 2, ... everywhere. losses: (K, n)."""
    of = np.array(losses, np.float64)
    models = np.repeat(np.arange(len(of), dtype=np.float32)[:, None], 4, axis=1)
    targets = np.ones(of.shape[1], np.int64)
    return SlotInputs(0, models, models[:, :0], of, targets, targets, samples, others)


class Run:
    """A view whose clients have quadratic losses, and the algorithm's state over it. active: who took part, round by round."""

    def __init__(self, algorithm: IFCA, protection: Protection) -> None:
        self.algorithm, self.active = algorithm, dict[int, list[int]]()
        setup = Setup(bytes(16), MODELS[0], CLIENTS, self.work, SimulatedEntropy(3), others=tuple(MODELS[1:]))
        self.view = protection.open(setup)
        others = tuple(Model(f"init {k}") for k in range(1, K))
        self.state: State = algorithm.init(Start(CLIENTS, {}, Model("init"), 1, others))

    def work(self, jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
        for job in jobs:
            self.active.setdefault(job.round, []).append(job.client)
            plan = self.algorithm.in_slots.plan(seen([[loss(job.client, start)] for start in job.starts]))
            rows = np.zeros((K, D), np.float32)
            start = job.starts[chosen := plan.shares.index(1)].astype(np.float64)
            update = gradient(job.client, start) if self.algorithm.average == "gradients" else trained(job.client, start) - start
            rows[chosen] = update
            yield job.client, LocalWork(rows, 1, plan.shares)

    def step(self) -> None:
        self.state = self.algorithm.round(self.state, self.view, np.random.default_rng(self.state.round))
        self.view.harness.retire(self.state.models, self.state.remembered)

    def models(self) -> list[NDArray[np.float32]]:
        return [self.view.harness.observe(c.model) for c in self.state.clusters.values()]


def paper(models: list[Values], active: Sequence[int], algorithm: IFCA, floor: int) -> list[Values]:
    """Lines 4 to 15, in float64."""
    choice = {i: min(range(K), key=lambda k: loss(i, models[k])) for i in active}
    found = []
    for k, model in enumerate(models):
        choosers = [i for i in active if choice[i] == k]
        if len(choosers) < max(floor, 1):
            found.append(model)
        elif algorithm.average == "models":
            found.append(np.mean([trained(i, model) for i in choosers], axis=0))
        else:
            found.append(model - algorithm.gamma / len(active) * np.sum([gradient(i, model) for i in choosers], axis=0))
    return found


@pytest.mark.parametrize(("protection", "bound", "participation", "average"), PLAYED)
@pytest.mark.long
def test_every_round_is_the_papers(protection: Any, bound: float, participation: float, average: Any) -> None:
    run = Run(IFCA(models=K, average=average, gamma=0.8, participation=participation), protection)
    models = [m.astype(np.float64) for m in MODELS]
    for t in range(4):
        run.step()
        models = paper(models, run.active[t], run.algorithm, protection.floor)
        assert max(np.abs(a - b).max() for a, b in zip(run.models(), models, strict=True)) < bound
    assert not run.view.record.faults
    assert any(np.abs(a - b).max() > 0.05 for a, b in zip(run.models(), MODELS, strict=True))


def test_a_model_that_too_few_choose_stays() -> None:
    """Under a floor of five no group of four can move its model, however long they try."""
    run = Run(IFCA(models=K), Plain(floor=5))
    start = run.models()
    choice = {i: min(range(K), key=lambda k: loss(i, start[k])) for i in CLIENTS}
    counts = [list(choice.values()).count(k) for k in range(K)]
    run.step()
    moved = [not np.array_equal(a, b) for a, b in zip(run.models(), start, strict=True)]
    assert moved == [count >= 5 for count in counts]
    assert len(run.view.record.below_floor) == sum(count < 5 for count in counts)


def test_where_updates_are_hidden_the_server_is_told_counts_and_sums() -> None:
    run = Run(IFCA(models=K), Masked(floor=2, slot_spare=0))
    run.step()
    words = {e.words for e in run.view.record.log if e.recipient == "server"}
    assert any("how many clients chose each" in w for w in words)
    assert not any("which slots it chose" in w for w in words)
    assert all(c.members == () for c in run.state.clusters.values())


def test_what_it_needs_and_what_cannot_give_it() -> None:
    assert IFCA(models=2).needs == {Functionality.SLOTS}
    noisy = Masked(ring_bits=64, noise=Noise(epsilon=10.0, delta=1e-5, rounds=3, l2=1.0, acknowledge=("slots",)))
    with pytest.raises(Refused, match="IFCA needs slots"):
        check_composition("IFCA", IFCA(models=2).needs, noisy, PROTECTIONS)


@pytest.mark.parametrize("bad", [{"models": 0}, {"models": 2, "average": "medians"}, {"models": 2, "gamma": 0.0}])
def test_numbers_out_of_range_are_refused(bad: Any) -> None:
    with pytest.raises(ValueError):
        IFCA(**bad)
    with pytest.raises(ValueError, match="begins with 3 models, not 1"):
        IFCA(models=3).init(Start((0, 1), {}, Model("init")))


# --- the client's side ----------------------------------------------------------------------------------------------------


def test_ties_go_to_the_first_model() -> None:
    assert least(seen([[2.0], [1.0], [1.0]])).shares == (0, 1, 0)
    assert least(seen([[np.inf], [np.inf]])).shares == (1, 0)
    assert best(seen([[2.0], [1.0], [1.0]])).tolist() == [0, 1, 0]


def test_a_client_works_from_every_model_that_it_gives_a_share() -> None:
    starts = tuple(np.full(4, float(k), np.float32) for k in range(3))
    jobs = [LocalJob(i, 0, "slots", starts[0], starts) for i in (7, 2)]
    ones, kept = np.ones(3, np.float32), dict[int, Any]()

    def plan(found: SlotInputs) -> SlotWork:
        first, second, third = found.models
        if found.samples == 2:
            return SlotWork((1, 0, 0), (Piece(first, (0,), ones, kept_as="mine"),), {"too": ones})
        return SlotWork((0, 3, 1), (Piece(second, (1,), 2 * ones), Piece(second, (2,), toward=third, pull=0.5)))

    def do(found: Sequence[Job]) -> Iterator[NDArray[np.float32]]:
        assert [(job.client, float(job.start[0])) for job in found] == [(7, 1.0), (7, 1.0), (2, 0.0)]
        assert [job.weights is None for job in found] == [False, True, True], "weights of 1 are none"
        assert (found[1].anchor[0], found[1].pull) == (2.0, 0.5)
        return (job.start + np.float32(10) for job in found)

    def see(job: LocalJob) -> SlotInputs:
        return replace(seen(np.zeros((3, 3)), job.client), models=np.stack(job.starts))

    examples: Any = {7: None, 2: None}
    work = InSlots(plan, best)
    found = dict(filled(jobs, work, examples, see, do, lambda job: 1, lambda job, of: kept.__setitem__(job.client, of)))
    assert found[7].vector.tolist() == [[0] * 4, [11] * 4, [10] * 4], "where training from model 1 ends is 12, which is 2 and 10"
    assert found[2].vector.tolist() == [[10] * 4, [0] * 4, [0] * 4]
    assert (found[7].shares, found[2].shares, found[7].samples) == ((0, 3, 1), (1, 0, 0), 7)
    assert kept[7] == {}
    assert kept[2]["mine"].tolist() == [10] * 4
    assert kept[2]["too"] is ones


BASE = Scenario(
    name="rotated digits",
    data=Digits(),
    partition=Rotation(clients=16, angles=(0, 180)),
    model=Mlp(hidden=(16,)),
    training=Training(epochs=2, batch=20, lr=0.1),
    algorithm=IFCA(models=2),
    protection=Plain(),
    rounds=12,
)


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("average", ["models", "gradients"])
def test_a_simulated_client_trains_the_model_of_least_training_loss(average: Any) -> None:
    simulation = Simulation(replace(BASE, algorithm=IFCA(models=2, average=average)), None)
    models = [simulation.view.harness.observe(m) for m in simulation.state.models]
    assert not np.array_equal(*models)
    jobs = [LocalJob(i, 0, "slots", models[0], tuple(models)) for i in (3, 12)]
    for i, work in simulation._train(jobs, {}):
        own = simulation.population.clients[i].train
        best = int(np.argmin([simulation._loss(i, model, own) for model in models]))
        assert work.shares == tuple(int(k == best) for k in range(2))
        assert not work.vector[1 - best].any()
        job = Job(i, models[best], own, 0)
        if average == "gradients":
            assert work.vector[best] == pytest.approx(full_gradient(simulation.module, job), abs=1e-6)
        else:
            whole = replace(simulation._training, batch=10**6, epochs=1)
            direction = train_one(simulation.module, job, whole, 0)
            cosine = work.vector[best] @ direction / np.linalg.norm(work.vector[best]) / np.linalg.norm(direction)
            assert cosine > 0.5


@pytest.mark.trains
def test_with_one_model_it_is_federated_averaging() -> None:
    one, fedavg = (
        Simulation(replace(BASE, algorithm=algorithm), None) for algorithm in (IFCA(models=1), FedAvg(by_samples=False))
    )
    for _ in range(3):
        one.step()
        fedavg.step()
    assert one.vectors()[0] == pytest.approx(fedavg.vectors()[0], abs=1e-6)
    assert {c.members for c in one.clusters.values()} == {tuple(range(16))}


@pytest.mark.trains
@pytest.mark.long
def test_turned_digits_are_told_apart_and_gain_by_it() -> None:
    """Five seeds: the two groups are found in most, and clients gain over one model; where IFCA ends depends on its starts."""
    found, gained = [], []
    for seed in range(5):
        ends = []
        for algorithm in (IFCA(models=2), FedAvg(by_samples=False)):
            simulation = Simulation(replace(BASE, algorithm=algorithm, seed=seed), None)
            for _ in range(BASE.rounds):
                simulation.step()
            ends.append(float(np.mean([s.accuracy for s in simulation.evaluate().values()])))
            if isinstance(algorithm, IFCA):
                members = [c.members for c in simulation.clusters.values()]
                found.append(adjusted_rand_index(members, simulation.population.groups))
        gained.append(ends[0] - ends[1])
    assert np.median(found) == 1.0
    assert np.mean(gained) > 0.03


@pytest.mark.long
@pytest.mark.trains
def test_a_run_is_recorded_with_the_clients_choices_and_goes_on_after_a_pause(tmp_path: Path) -> None:
    whole = replace(BASE, rounds=4)
    list(run(whole, tmp_path / "whole"))
    list(run(replace(BASE, rounds=2), tmp_path / "halves"))
    list(run(whole, tmp_path / "halves", resume=True))
    names = [sorted((tmp_path / name / "models").glob("*.safetensors")) for name in ("whole", "halves")]
    assert [path.name for path in names[0]] == [path.name for path in names[1]]
    assert all(one.read_bytes() == other.read_bytes() for one, other in zip(*names, strict=True))
    assert (tmp_path / "whole" / "summary.json").exists()


@pytest.mark.trains
def test_the_example_runs(tmp_path: Path) -> None:
    quick = load("ifca_rotated").quick
    rounds = list(run(replace(quick, rounds=2), tmp_path / "run"))
    assert rounds[-1].accuracy is not None
