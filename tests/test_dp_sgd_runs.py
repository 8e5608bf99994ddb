"""Whole runs whose clients train by DP-SGD: neighbours through the pipeline, ledgers that end, resume, and are shown."""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from cloister.fl.algorithms.cfl import CFL, Absolute
from cloister.fl.algorithms.emd_cfl import EMDCFL
from cloister.fl.algorithms.fed_clust import FedClust
from cloister.fl.algorithms.fedavg import FedAvg, Local
from cloister.fl.algorithms.flic import FLIC
from cloister.fl.algorithms.fpfc import FPFC
from cloister.fl.algorithms.pfed_graph import PFedGraph
from cloister.fl.clients.record_privacy import RecordPrivacy
from cloister.fl.clients.training import PlainLoop, Training
from cloister.fl.data.partition import Iid
from cloister.fl.data.population import Examples, Population
from cloister.fl.data.source import Digits
from cloister.fl.emd import Euclidean, MeanDistance, Size
from cloister.fl.models.papers import Mlp, SoftmaxRegression
from cloister.fl.runs.experiment import run
from cloister.fl.runs.lost_round import IN_VAIN, NothingLearned
from cloister.fl.runs.scenario import PROTECTIONS, Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Masked, Noise, Plain, TwoServer
from cloister.protocol.pairs import noise as pairs_noise
from cloister.protocol.pairs.choices import MeanSketch
from cloister.reporting.report import write_report
from cloister.summary import summary_table
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.membership import Share
from cloister.threat_models.simple_attacks import MinusGradient

from .example_files import load

pytestmark = pytest.mark.trains

PRIVACY = RecordPrivacy(clip=1.0, multiplier=2.0, budget=1000.0, delta=1e-5)
BASE = Scenario(
    name="private training",
    data=Digits(),
    partition=Iid(clients=6, samples=40),
    model=Mlp(hidden=(8,)),
    training=Training(epochs=1, batch=20, lr=0.2, privacy=PRIVACY),
    algorithm=FedAvg(by_samples=False),
    protection=Plain(),
    rounds=2,
)


@dataclass(frozen=True)
class Replaced:
    """A partition in which client 0 has another record in the place of one; kind: of what it is."""

    at: int
    kind: int
    inner: Any = BASE.partition

    def __call__(self, source: Any, rng: np.random.Generator, /) -> Population:
        population = self.inner(source, rng)
        own = population.clients[0]
        x, y = own.train.x.clone(), own.train.y.clone()
        x[self.at] = (-20 * x[self.at], 0 * x[self.at], 1e20 + x[self.at], 1 - x[self.at])[self.kind]
        y[self.at] = (int(y[self.at]) + 1 + self.kind) % 10
        changed = replace(own, train=Examples(x, y))
        return replace(population, clients={**population.clients, 0: changed})


@pytest.mark.long
@pytest.mark.parametrize(("protection", "slack"), [(Plain(), 1e-4), (Masked(), 0.02)], ids=["plain", "masked"])
def test_no_record_moves_what_comes_of_a_round_by_more_than_it_is_charged_for(protection: Any, slack: float) -> None:
    """One step of all records, with the same noise on both sides: the difference of the models is what the record moved."""
    for batch in (40, 10):
        training = replace(BASE.training, batch=batch, epochs=1, privacy=replace(PRIVACY, clip=0.5, records=batch))
        scenario = replace(BASE, training=training, protection=protection, model=SoftmaxRegression(deviation=0.5))
        before = Simulation(scenario, None)
        before.step()
        ledger = before.ledgers[0, "record"]
        moved = []
        for kind in range(4):
            after = Simulation(replace(scenario, partition=Replaced(3 + kind, kind)), None)
            after.step()
            apart = np.linalg.norm(after.vectors()[0].astype(np.float64) - before.vectors()[0])
            moved.append(float(apart) * len(before.population.clients) * batch / training.lr)
        assert max(moved) <= ledger.releases[0].sensitivity * (1 + slack)
        assert max(moved) > 0.3 * ledger.releases[0].sensitivity


def played(scenario: Scenario, out: Path, resume: bool = False) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
    rounds = list(run(scenario, out, resume=resume))
    return rounds, *(json.loads((out / name).read_text()) for name in ("summary.json", "privacy.json"))


def lines(path: Path) -> Iterator[Any]:
    return map(json.loads, path.read_text().splitlines())


@pytest.mark.parametrize("protection", PROTECTIONS, ids=lambda protection: type(protection).__name__)
@pytest.mark.long
def test_a_run_goes_on_to_its_end_after_all_budgets(tmp_path: Path, protection: Any) -> None:
    """Also where a sum of nobody fails, for more rounds than may be lost in a row."""
    budget = (PRIVACY.opened(0) + PRIVACY.release(40, 1, 20, 610)).spent * 1.01
    training = replace(BASE.training, privacy=replace(PRIVACY, budget=budget))
    scenario = replace(BASE, training=training, protection=protection, rounds=IN_VAIN + 2)
    rounds, summary, spent = played(scenario, tmp_path / "run")
    assert len(rounds) == scenario.rounds
    assert 0 < summary["privacy"]["record"]["epsilon_worst"] <= budget
    assert {row["times"] for client in spent["record"]["clients"].values() for row in client["releases"]} == {1}
    declined = {(f["round"], f["client"]) for f in lines(tmp_path / "run" / "faults.jsonl") if "past its budget" in f["reason"]}
    assert declined == {(t, i) for t in range(1, scenario.rounds) for i in range(6)}


@pytest.mark.long
def test_a_run_shows_what_was_spent_and_ends_in_order_when_it_is_spent(tmp_path: Path) -> None:
    """Two rounds fit the budget, four are asked for."""
    one = PRIVACY.release(40, 1, 20, 610)
    ledger = PRIVACY.opened(0) + one + one
    privacy = replace(PRIVACY, budget=ledger.spent * 1.01)
    scenario = replace(BASE, training=replace(BASE.training, privacy=privacy), rounds=4)
    rounds, summary, spent = played(scenario, tmp_path / "run")
    assert len(rounds) == 4
    of = summary["privacy"]["record"]
    assert of["epsilon_worst"] == pytest.approx(ledger.spent, rel=1e-2)
    assert of["epsilon_worst"] <= of["budget"]
    assert of["adjacency"] == "replace"
    assert any("takes part" in words for words in of["not_covered"])
    assert {row["times"] for client in spent["record"]["clients"].values() for row in client["releases"]} == {2}
    epsilons = [line["epsilon"]["record"] for line in lines(tmp_path / "run" / "metrics.jsonl")]
    assert 0 < epsilons[0] < epsilons[1] == epsilons[2] == epsilons[3]
    faults = list(lines(tmp_path / "run" / "faults.jsonl"))
    assert {(f["round"], f["client"]) for f in faults} == {(t, i) for t in (2, 3) for i in range(6)}
    assert all("past its budget" in f["reason"] for f in faults)
    page = write_report(tmp_path / "run").read_text(encoding="utf-8")
    assert "DP-SGD" in page
    assert "Differential privacy" in page
    console = Console(file=io.StringIO(), width=400)
    console.print(summary_table(summary))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "for any record" in text


@pytest.mark.long
def test_ledgers_go_on_where_a_run_goes_on(tmp_path: Path) -> None:
    scenario = replace(BASE, partition=Iid(clients=4, samples=30), rounds=4)
    _, whole, spent = played(scenario, tmp_path / "whole")
    played(replace(scenario, rounds=2), tmp_path / "parts")
    _, parts, again = played(scenario, tmp_path / "parts", resume=True)
    assert again == spent
    assert parts["accuracy_mean"] == whole["accuracy_mean"]
    models = [(tmp_path / name / "models").glob("*.safetensors") for name in ("whole", "parts")]
    for one, other in zip(*map(sorted, models), strict=True):
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.long
def test_clients_decline_one_by_one_under_every_protection() -> None:
    """Client 0's records are sampled more often, and its budget is spent first; the others go on."""

    def fewer(source: Any, rng: np.random.Generator) -> Population:
        population = BASE.partition(source, rng)
        own = population.clients[0]
        small = replace(own, train=own.train.take(torch.arange(22)))
        return replace(population, clients={**population.clients, 0: small})

    budget = (PRIVACY.opened(0) + PRIVACY.release(22, 1, 10, 610)).spent * 1.01
    training = replace(BASE.training, batch=10, privacy=replace(PRIVACY, budget=budget))
    for protection in PROTECTIONS:
        simulation = Simulation(replace(BASE, training=training, partition=fewer, protection=protection), None)
        simulation.step()
        assert not simulation.view.record.faults
        before = simulation.vectors()[1]
        simulation.step()
        faults = {f.blame: f.reason for f in simulation.view.record.faults}
        assert 0 in faults, protection
        assert "past its budget" in faults[0]
        counts = {i: len(ledger.releases) for (i, _), ledger in simulation.ledgers.items()}
        assert counts[0] == 1
        assert {counts[i] for i in range(1, 6)} == {2}, protection
        assert not np.array_equal(before, simulation.vectors()[1])


@pytest.mark.long
@pytest.mark.parametrize(
    ("algorithm", "names"),
    [
        (Local(), ()),
        (CFL(thresholds=Absolute(1e9, 0.0), patience=0), ()),
        (FedClust(threshold=1e9), ()),
        (FPFC(rounds=3), ()),
        (PFedGraph(mu=0.1), ()),
        (FLIC(rounds_before=9), ("choice",)),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, tuple) else "",
)
def test_every_training_of_every_algorithm_is_charged(algorithm: Any, names: tuple[str, ...]) -> None:
    training = replace(BASE.training, privacy=replace(PRIVACY, acknowledge=names))
    simulation = Simulation(replace(BASE, algorithm=algorithm, training=training), None)
    for _ in range(2):
        simulation.step()
    ledgers = simulation.ledgers
    assert [len(ledger.releases) for ledger in ledgers.values()] == [2] * 6
    assert {ledger.acknowledged for ledger in ledgers.values()} == {names}
    assert all(np.isfinite(vector).all() for vector in simulation.vectors().values())


@pytest.mark.parametrize("protection", [Plain(), Masked(), TwoServer()], ids=lambda protection: type(protection).__name__)
def test_an_update_that_is_summed_and_compared_costs_once(protection: Any) -> None:
    algorithm = CFL(thresholds=Absolute(1e9, 0.0), patience=0, remember=False, similarities="every round")
    simulation = Simulation(replace(BASE, algorithm=algorithm, protection=protection), None)
    for _ in range(2):
        simulation.step()
    told = {entry.what for entry in simulation.view.record.log}
    assert len(told) > 1
    assert [len(ledger.releases) for ledger in simulation.ledgers.values()] == [2] * 6


@pytest.mark.long
def test_one_ledger_of_training_and_comparisons() -> None:
    """A mean sketch of embeddings and the updates are of the same records: both count against one budget."""
    noise = pairs_noise.Noise(clip=4.0, multiplier=5.0, reference_multiplier=5.0, budget=1000.0, delta=1e-5)
    algorithm = EMDCFL(
        choice=MeanSketch(noise=noise), distance=MeanDistance(Euclidean()), eps=0.2, size=Size(10), by_samples=False
    )
    base = replace(BASE, partition=Iid(clients=6, samples=60), algorithm=algorithm, validation=0.2)
    simulation = Simulation(base, None)
    simulation.step()
    (whole,) = {len(ledger.releases) for ledger in simulation.ledgers.values()}
    assert whole == 2
    ledger = simulation.ledgers[0, "record"]
    assert "compared" in ledger.of
    assert "DP-SGD" in ledger.of
    trained, compared = simulation.spending.ledgers[0].spent, simulation.view.record.ledgers[0, "record"].spent
    assert max(trained, compared) < ledger.spent < trained + compared
    budget = max(trained, compared) * 1.0001
    tight = EMDCFL(
        choice=MeanSketch(noise=replace(noise, budget=budget)),
        distance=MeanDistance(Euclidean()),
        eps=0.2,
        size=Size(10),
        by_samples=False,
    )
    privacy = replace(PRIVACY, budget=budget)
    simulation = Simulation(replace(base, algorithm=tight, training=replace(base.training, privacy=privacy)), None)
    simulation.step()
    assert all(ledger.spent <= budget for ledger in simulation.ledgers.values())


def test_whole_clients_and_single_records_each_have_an_epsilon() -> None:
    protection = Masked(noise=Noise(epsilon=6.0, delta=1e-4, rounds=2, l2=0.5))
    simulation = Simulation(replace(BASE, protection=protection), None)
    simulation.step()
    assert {unit for _, unit in simulation.ledgers} == {"client", "record"}


def test_members_of_an_adversary_pass_refusals_on() -> None:
    budget = (PRIVACY.opened(0) + PRIVACY.release(40, 1, 20, 610)).spent * 1.01
    training = replace(BASE.training, privacy=replace(PRIVACY, budget=budget))
    adversary = Adversary(members=Share(0.4), upload=MinusGradient())
    simulation = Simulation(replace(BASE, training=training, adversary=adversary), None)
    simulation.step()
    assert not simulation.view.record.faults
    simulation.step()
    assert {f.blame for f in simulation.view.record.faults} == set(range(6))
    assert not simulation.lost


def test_who_trains_alone_says_why_it_does_not() -> None:
    budget = (PRIVACY.opened(0) + PRIVACY.release(40, 1, 20, 610)).spent * 1.01
    training = replace(BASE.training, privacy=replace(PRIVACY, budget=budget))
    simulation = Simulation(replace(BASE, algorithm=Local(), training=training), None)
    simulation.step()
    before = simulation.vectors()[0]
    simulation.step()
    assert all("past its budget" in f.reason for f in simulation.view.record.faults)
    assert len(simulation.view.record.faults) == 6
    np.testing.assert_array_equal(simulation.vectors()[0], before)


def test_a_budget_that_pays_for_no_training_is_an_error_of_one_line() -> None:
    training = replace(BASE.training, privacy=replace(PRIVACY, budget=0.01))
    with pytest.raises(NothingLearned, match=r"no client can train: .* past its budget of 0.01"):
        Simulation(replace(BASE, training=training), None).step()


def test_executors_give_the_same_run() -> None:
    runs = [Simulation(replace(BASE, **how), None) for how in ({}, {"execution": PlainLoop()})]
    for simulation in runs:
        simulation.step()
    np.testing.assert_allclose(runs[0].vectors()[0], runs[1].vectors()[0], rtol=0, atol=2e-6)


@pytest.mark.slow
def test_the_example_runs_within_its_budget(tmp_path: Path) -> None:
    """And with unlike labels private clients do better together than each alone without noise, by more than .05."""
    example = load("dp_sgd")
    _, summary, _ = played(example.quick, tmp_path / "run")
    assert 0 < summary["privacy"]["record"]["epsilon_worst"] < 8.0
    privacy = example.scenario.training.privacy
    one = privacy.release(300, 1, example.BATCH, 650)
    assert 7.5 < replace(privacy.opened(0), releases=(one,) * example.ROUNDS).spent <= 8.0
    together, spent = example.measured(example.scenario, 0)
    alone, none = example.measured(example.alone, 0)
    assert together > alone + 0.05
    assert 7.5 < spent <= 8.0
    assert none == 0.0
