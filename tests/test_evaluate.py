"""`cloister evaluate`: what a cell records, what is kept of cells that come to nothing, and a folder that no kill breaks."""

import html
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from dp_accounting import dp_event
from markupsafe import Markup
from scipy import stats

from cloister import cli
from cloister.attacking.defence import subject_of
from cloister.evaluating import panels, summaries, tables
from cloister.evaluating.cells import MORE, details, epsilon_words, lasting
from cloister.evaluating.data import Grid, read_grid
from cloister.evaluating.panels import curves, from_zero
from cloister.evaluating.report import render
from cloister.evaluating.run import Ledger, play_grid
from cloister.evaluating.texts import cell_rows
from cloister.evaluating.workers import Bench, Origin, Task, crew
from cloister.fl.algorithms.algorithm import Cluster
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.hardened_flic import HardenedFLIC
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.robust.averages import Mean
from cloister.fl.robust.coordinates import Median, TrimmedMean
from cloister.fl.robust.krum import Krum, MultiKrum
from cloister.fl.robust.signs import SignGuard
from cloister.fl.robust.spectral import DnC
from cloister.fl.runs.evaluation import ScoringJob, accuracies
from cloister.fl.runs.results_folder import Row
from cloister.fl.runs.scenario import Scenario, described
from cloister.fl.runs.simulation import Simulation
from cloister.grids.spread import spread
from cloister.grids.watching import seeds_of
from cloister.grids.workers import Crew
from cloister.protocol import Masked, Plain
from cloister.protocol.core.errors import Refused
from cloister.protocol.privacy.ledger import Ledger as Spending
from cloister.protocol.privacy.ledger import Release
from cloister.protocol.view.answers import Model
from cloister.reporting.curves import Chart
from cloister.reporting.run_data import DASH
from cloister.scenario_file import load, load_comparison, load_evaluation, with_settings
from cloister.starting import Kind
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.alternating import AlternatingMinimisation
from cloister.threat_models.attack_metrics import empirical_kappa
from cloister.threat_models.cell_metrics import attacked_metrics, clean_metrics
from cloister.threat_models.critical_layers import CriticalLayers
from cloister.threat_models.design_limit import HARDENED_FLIC
from cloister.threat_models.evaluation import (
    Cell,
    Evaluation,
    Informed,
    all_cells,
    attacked_cells,
    clean_cells,
    description,
    key_of,
    resolved,
    target_of,
)
from cloister.threat_models.evaluation_folder import EvaluationFolder
from cloister.threat_models.kappa_theory import kappa_bound
from cloister.threat_models.knowledge import Level
from cloister.threat_models.label_attacks import LabelFlip
from cloister.threat_models.line_search import LineSearched
from cloister.threat_models.membership import Fixed, PerRound, Pool, Schedule
from cloister.threat_models.semantic import SpuriousPatch
from cloister.threat_models.simple_attacks import MinusGradient, Overwritten, Scaled
from cloister.threat_models.trial import Judged, played
from cloister.threat_models.witness import Seen, Witness

from . import evaluation_sample as sample
from .judged import finding

FILE = Path(__file__).parent / "evaluation_sample.py"
MINUS = Adversary(members=Pool(3), upload=MinusGradient())


def one_cell(**changes: Any) -> tuple[Evaluation, Cell]:
    """A small evaluation and its first cell under attack."""
    evaluation = replace(sample.evaluation, **changes)
    return evaluation, attacked_cells(evaluation, clean_cells(evaluation)[0])[0]


def play(evaluation: Evaluation, path: Path, resume: bool = False, name: str = "evaluation") -> list[Row]:
    """The whole grid in this process."""
    folder = EvaluationFolder(path)
    ledger = Ledger(evaluation, folder, folder.open(description(evaluation), resume))
    with crew(Origin(f"{FILE}:{name}"), evaluation, folder, 1) as hands:
        return list(play_grid(ledger, hands))


def timeless(path: Path) -> list[Mapping[str, Any]]:
    """The lines of a folder without what the clock says."""
    lines = [json.loads(line) for line in (path / "results.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "cost"} for line in lines]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the small evaluation, played without a pause."""
    path = tmp_path_factory.mktemp("whole") / "folder"
    play(sample.evaluation, path)
    return path


# --- what a grid is ---------------------------------------------------------------------------------------------------


def test_every_combination_is_a_cell_once_and_each_attack_free_run_is_shared() -> None:
    cells = all_cells(sample.evaluation)
    assert len(cells) == len(set(cells)) == 2 * 2 * (1 + 2 * 2)
    assert len({cell.clean for cell in cells}) == 4
    assert [cell for cell in cells if cell.attack is None] == cells[:4]
    keys = [key_of(sample.evaluation, cell) for cell in cells]
    assert len(set(keys)) == len(cells)
    assert keys == [key_of(sample.evaluation, cell) for cell in cells]


def test_a_key_changes_with_whatever_the_run_is_made_of() -> None:
    evaluation, cell = one_cell()
    training = replace(evaluation.scenario.training, lr=0.2)
    others = [
        replace(evaluation, scenario=replace(evaluation.scenario, training=training)),
        replace(evaluation, attacks=evaluation.attacks | {"minus": lambda count: replace(MINUS, samples=2.0)}),
        replace(evaluation, defences=evaluation.defences | {"fedavg": FedAvg(by_samples=False)}),
        replace(evaluation, protections={"Plain": Plain(floor=2)}),
        replace(evaluation, targets={"minus": sample.backdoor(1).data}),
    ]
    keys = [key_of(other, replace(cell)) for other in others]
    assert len({key_of(evaluation, cell), *keys}) == 6
    assert key_of(replace(evaluation, seeds=(0, 7, 9), strengths=(1, 2)), cell) == key_of(evaluation, cell)


def test_a_defence_may_be_a_function_of_the_scenario_and_the_protection_is_set_after_it() -> None:
    def slower(scenario: Scenario) -> Scenario:
        return replace(scenario, training=replace(scenario.training, lr=0.01), algorithm=sample.evaluation.defences["multikrum"])

    evaluation, cell = one_cell(defences={"slower": slower}, protections={"Masked": Masked(floor=3)})
    found = resolved(evaluation, cell)
    assert (found.training.lr, found.protection, found.seed) == (0.01, Masked(floor=3), 0)
    assert type(found.algorithm).__name__ == "RobustFedAvg"


def test_an_informed_attack_is_told_its_scenario() -> None:
    insider = Informed(
        lambda count, scenario: Adversary(
            members=Pool(int(count)), upload=LineSearched(), knows=Level.INSIDER, rule=getattr(scenario.algorithm, "rule", Mean())
        )
    )
    evaluation, cell = one_cell(attacks={"search": insider})
    assert resolved(evaluation, cell).adversary.rule == Mean()  # type: ignore[union-attr]
    other = resolved(evaluation, replace(cell, defence="multikrum")).adversary
    assert other.rule == sample.evaluation.defences["multikrum"].rule  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"attacks": {}}, "needs attacks"),
        ({"seeds": ()}, "needs seeds"),
        ({"strengths": (1, 1.0)}, "twice"),
        ({"strengths": (float("nan"),)}, "finite"),
        ({"targets": {"nobody": None}}, "nobody"),
        ({"scenario": replace(sample.scenario, adversary=MINUS)}, "adversary"),
    ],
)
def test_a_grid_that_makes_no_sense_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(sample.evaluation, **changes)


# --- what a cell records ----------------------------------------------------------------------------------------------


@pytest.mark.trains
@pytest.mark.parametrize("adversary", [None, MINUS])
def test_a_witness_changes_nothing(adversary: Adversary | None) -> None:
    scenario = replace(sample.scenario, adversary=adversary)
    plain, watched = Simulation(scenario, None), Simulation(replace(scenario, adversary=Witness(adversary)), None)
    for _ in range(3):
        plain.step()
        watched.step()
    for client, vector in plain.vectors().items():
        np.testing.assert_array_equal(vector, watched.vectors()[client])
    assert watched.corrupted is not None
    assert watched.corrupted.members == (frozenset() if plain.corrupted is None else plain.corrupted.members)


def test_kappa_without_keeping_updates_is_kappa() -> None:
    rng = np.random.default_rng(0)
    updates = [rng.standard_normal(50).astype(np.float32) * 0.01 + 1 for _ in range(7)]
    result = np.asarray(rng.standard_normal(50) + 1)
    seen = Seen()
    for update in updates:
        seen.add(update)
    assert seen.kappa(result) == pytest.approx(empirical_kappa(result.astype(np.float32), updates), rel=1e-4)
    alike = Seen()
    for _ in range(3):
        alike.add(np.ones(4, dtype=np.float32))
    assert alike.kappa(np.ones(4)) == 0
    assert alike.kappa(np.zeros(4)) == float("inf")
    assert Seen().kappa(result) is None


@pytest.mark.trains
def test_kappa_of_a_run_is_that_of_its_updates() -> None:
    """FedAvg of equal samples without attack: the result is the mean of all; with one of n flipped it is not."""
    trial = played(replace(sample.scenario, adversary=Adversary(members=Fixed(()), upload=MinusGradient())), None, None)
    assert len(trial.kappas) == 4
    np.testing.assert_allclose(trial.kappas, 0, atol=1e-6)
    assert min(played(replace(sample.scenario, adversary=MINUS), None, None).kappas) > 0.05


@pytest.mark.trains
def test_impact_is_the_difference_to_the_attack_free_run_on_the_same_loyal_clients() -> None:
    """By two simulations by hand, on clients that have test examples of their own."""
    scenario = replace(sample.scenario, partition=replace(sample.scenario.partition, shared_test=False))  # type: ignore[type-var]
    adversary = Adversary(members=Fixed((1, 2)), upload=MinusGradient())
    means = {}
    for name, one in (("clean", None), ("attacked", adversary)):
        simulation = Simulation(replace(scenario, adversary=one), None)
        rows = []
        for _ in range(4):
            simulation.step()
            found = simulation.evaluate()
            rows.append(np.mean([found[i].accuracy for i in (0, 3, 4, 5, 6, 7)]))
        means[name] = rows
    clean = played(scenario, None, None)
    metrics = attacked_metrics(played(replace(scenario, adversary=adversary), None, None), clean.clean(), None)
    assert metrics["members"] == [1, 2]
    assert metrics["accuracy"]["final"] == pytest.approx(means["attacked"][-1])
    assert metrics["accuracy"]["late"] == pytest.approx(means["attacked"][-1])  # a quarter of four evaluations is one
    assert metrics["accuracy"]["best_of_last_50"] == pytest.approx(np.max(means["attacked"]))
    assert metrics["clean"]["final"] == pytest.approx(means["clean"][-1])
    assert metrics["impact"]["final"] == pytest.approx(means["clean"][-1] - means["attacked"][-1])
    assert metrics["clean"]["final"] != pytest.approx(float(np.mean(clean.accuracy[-1])))  # all clients would be another number


@pytest.mark.trains
def test_an_attack_by_nobody_has_no_impact_and_the_success_of_the_clean_model() -> None:
    nobody = sample.backdoor(0)
    clean = played(sample.scenario, None, None).clean()
    metrics = attacked_metrics(played(replace(sample.scenario, adversary=nobody), nobody.data, None), clean, nobody.data)
    assert set(metrics["impact"].values()) == {0.0}
    assert metrics["success"]["mean"] == metrics["success"]["clean_mean"]
    assert metrics["success"]["worst"] == metrics["success"]["clean_worst"]
    assert metrics["detection"] is None


@pytest.mark.trains
def test_success_leaves_the_target_class_out_and_names_the_worst_client() -> None:
    """Recomputed from the models: stamped examples of the nine other classes that are read as class 3."""
    adversary = sample.backdoor(3)
    scenario = replace(sample.scenario, partition=replace(sample.scenario.partition, shared_test=False), adversary=adversary)  # type: ignore[type-var]
    trial = played(scenario, adversary.data, None)
    clean = played(replace(scenario, adversary=None), None, None).clean()
    found = attacked_metrics(trial, clean, adversary.data)["success"]
    rates = {}
    for client, vector in trial.simulation.vectors().items():
        test = trial.simulation.population.clients[client].test
        about = test.take(torch.nonzero(test.y != 3).flatten())
        stamped = about.x.clone()
        stamped[:, :, :3, :3] = 1.0
        wanted = replace(about, x=stamped, y=torch.full_like(about.y, 3))
        if client not in trial.members:
            rates[client] = accuracies(trial.simulation.module, [ScoringJob(client, vector, wanted)])[client].accuracy
    assert found["of"] == pytest.approx({str(i): rate for i, rate in rates.items()})
    assert found["mean"] == pytest.approx(np.mean(list(rates.values())))
    assert found["worst"] == rates[found["worst_client"]] == max(rates.values())


def test_the_poison_of_a_members_training_is_a_target_too() -> None:
    """Backdoors that come in by `Adversary.local` had no success rate, and so do those that nothing says the target of."""
    poison = sample.backdoor(1).data
    for local in (AlternatingMinimisation(poison=poison), CriticalLayers(poison=poison)):  # type: ignore[arg-type]
        evaluation, cell = one_cell(attacks={"local": lambda count, local=local: Adversary(members=Pool(1), local=local)})
        assert target_of(evaluation, cell, resolved(evaluation, cell)) is poison
    evaluation, cell = one_cell(attacks={"patch": lambda count: Adversary(members=Pool(1), data=SpuriousPatch())})
    assert target_of(evaluation, cell, resolved(evaluation, cell)) == SpuriousPatch()
    flipping = Adversary(members=Pool(1), local=AlternatingMinimisation(poison=LabelFlip()))
    evaluation, cell = one_cell(attacks={"flip": lambda count: flipping})
    assert target_of(evaluation, cell, resolved(evaluation, cell)) is None


@pytest.mark.trains
def test_kappa_stands_beside_what_theory_promises_for_the_round_with_the_largest() -> None:
    rule = TrimmedMean(3)
    scenario = replace(sample.scenario, algorithm=RobustFedAvg(rule=rule))
    trial = played(replace(scenario, adversary=MINUS), None, None)
    found = attacked_metrics(trial, played(scenario, None, None).clean(), None)["kappa"]
    assert trial.sizes == [(8, 3)] * 4
    assert (found["n"], found["f"], found["least"]) == (8, 3, 1.5)
    assert found["bound"] == kappa_bound(rule, 8, 3) == pytest.approx(6 * 1.5 * 2.5)
    assert found["mean"] <= found["max"] == max(trial.kappas) <= found["bound"]


@pytest.mark.trains
def test_a_vector_that_was_rejected_is_none_that_the_rule_must_stand() -> None:
    adversary = Adversary(members=Fixed((2, 5)), upload=Overwritten())
    trial = played(replace(sample.scenario, adversary=adversary), None, None)
    assert trial.sizes == [(6, 0)] * 4


@pytest.mark.trains
def test_a_cell_says_what_memory_it_took_and_what_epsilon_its_noise_left() -> None:
    quiet = clean_metrics(played(replace(sample.scenario, rounds=1), None, None))
    assert (quiet["epsilon"], quiet["privacy"]) == (None, {})
    assert quiet["cost"]["peak_mb"] is None or 20 < quiet["cost"]["peak_mb"] < 1e5
    trial = played(replace(sample.scenario, rounds=1), None, None)
    view = trial.simulation.view
    empty = Spending(0, "client", "zero out", budget=100.0, delta=1e-3)
    one = empty + Release(dp_event.GaussianDpEvent(2.0), 1.0, "zero out", "client", "Gaussian", "one sum")
    ledgers = {(0, "client"): empty, (1, "client"): replace(one, client=1)}
    record = view.record
    known = {"log": record.log, "costs": record.costs, "traffic": record.traffic, "faults": record.faults}
    shown: Any = SimpleNamespace(record=SimpleNamespace(ledgers=ledgers, **known))
    trial.simulation.view = shown
    noisy = clean_metrics(trial)
    assert noisy["epsilon"] == one.spent > empty.spent
    assert noisy["privacy"]["client"]["delta"] == 1e-3
    assert epsilon_words([noisy]) == f"{one.spent:.3g} at delta 0.001"
    assert epsilon_words([noisy | {"epsilon_leaves_out": ["counts"]}]).endswith("at delta 0.001 without counts")
    assert "delta" not in epsilon_words([quiet])


@pytest.mark.trains
def test_durability_is_measured_after_the_last_poisoned_round() -> None:
    adversary = replace(sample.backdoor(3), when=Schedule(start=0, stop=2))
    scenario = replace(sample.scenario, rounds=6, adversary=adversary)
    trial = played(scenario, adversary.data, None)
    assert sorted(trial.success) == [0, 1, 2, 3, 4, 5]
    clean = played(replace(scenario, adversary=None), None, None).clean()
    found = attacked_metrics(trial, clean, adversary.data)["success"]
    fallen = [t for t in (2, 3, 4, 5) if trial.success[t] < trial.success[1] / 2]
    assert found["durability"] == (fallen[0] - 1 if fallen else None)
    assert (found["last_poisoned"], found["last_poisoned_round"]) == (trial.success[1], 1)
    assert found["peak"] == max(trial.success.values()) == trial.success[found["peak_round"]]
    assert found["mean"] == trial.success[5]
    assert found["measured_after"] == [1, 2, 3, 4, 5]


@pytest.mark.trains
def test_detection_counts_weights_of_zero_in_rounds_under_attack() -> None:
    scenario = replace(sample.scenario, algorithm=sample.evaluation.defences["multikrum"])  # type: ignore[arg-type]
    adversary = replace(MINUS, members=Pool(2), when=Schedule(start=2))
    trial = played(replace(scenario, adversary=adversary), None, None)
    assert len(trial.judged) == 2
    assert all(one.members == trial.members and len(one.weights) == 8 for one in trial.judged)
    trial.members = frozenset({5, 7})
    rows = [{i: float(i in kept) for i in range(8)} for kept in ((0, 1, 5), (0, 5, 6))]
    trial.judged = [Judged(frozenset(range(8)), trial.members, weights, frozenset()) for weights in rows]
    found = attacked_metrics(trial, played(scenario, None, None).clean(), None)["detection"]
    assert (found["tpr"], found["fpr"]) == (2 / 4, 8 / 12)
    assert found["loyal_lost"] == [2, 3, 4]
    suspicion = {0: 2, 1: 1, 2: 0, 3: 0, 4: 0, 5: 2, 6: 1, 7: 0}  # weights kept: fewer is more suspicious
    pairs = [(m, c) for m in (5, 7) for c in (0, 1, 2, 3, 4, 6)]
    wins = [(suspicion[m] < suspicion[c]) + 0.5 * (suspicion[m] == suspicion[c]) for m, c in pairs]
    assert found["auc"] == pytest.approx(np.mean(wins))


@pytest.mark.trains
def test_fedavg_detects_nothing_and_says_nothing_about_it() -> None:
    clean = played(sample.scenario, None, None).clean()
    metrics = attacked_metrics(played(replace(sample.scenario, adversary=MINUS), None, None), clean, None)
    assert metrics["detection"] is None
    assert metrics["clusters"] == {
        "count": 1, "loyal": 0, "loyal_mean_size": 0.0, "loyal_lost": 5, "purity": 0.0, "ari": 0.0, "unplaced": 0,
    }  # fmt: skip


@pytest.mark.trains
def test_members_drawn_anew_in_every_round_leave_nobody_loyal_and_are_judged_round_by_round(tmp_path: Path) -> None:
    """Detection and kappa against the round's own members; agreement with groups and loyal clusters have no meaning."""
    scenario = replace(sample.scenario, algorithm=sample.evaluation.defences["multikrum"])  # type: ignore[arg-type]
    adversary = Adversary(members=PerRound(2), upload=MinusGradient(20.0))
    trial = played(replace(scenario, adversary=adversary), None, None)
    metrics = attacked_metrics(trial, played(scenario, None, None).clean(), None)
    drawn = [adversary.members.among(range(8), range(8), t, 0) for t in range(4)]
    assert len(set(drawn)) > 1
    assert [one.members for one in trial.judged] == drawn
    assert not metrics["everybody_corrupt"]
    assert metrics["loyal"] == 0
    assert len(trial.measured) == 8
    assert (metrics["detection"]["tpr"], metrics["detection"]["auc"]) == (1, 1)
    assert metrics["detection"]["fpr"] == 0
    assert "no client is loyal in every round" in render(made_up(tmp_path, metrics))
    assert max(trial.kappas) < 1  # the mean of all with two loyal ones missing: 20 times a gradient would be far off
    assert {name for name, value in metrics["clusters"].items() if value is None} == {
        "loyal", "loyal_mean_size", "loyal_lost", "purity", "ari",
    }  # fmt: skip


def made_up(path: Path, metrics: Mapping[str, Any]) -> Grid:
    """A folder with one line under attack."""
    evaluation, cell = one_cell()
    folder = EvaluationFolder(path)
    folder.open(description(evaluation), resume=False)
    line = {"key": key_of(evaluation, cell), "status": "done", "reason": ""}
    folder.append(line | {name: getattr(cell, name) for name in cell.__slots__} | metrics)
    return read_grid(path)


@pytest.mark.trains
def test_a_coalition_of_everybody_has_nobody_to_be_told_from() -> None:
    trial = played(replace(sample.scenario, adversary=Adversary(members=Pool(8), upload=MinusGradient())), None, None)
    metrics = attacked_metrics(trial, played(sample.scenario, None, None).clean(), None)
    assert (metrics["everybody_corrupt"], metrics["loyal"], metrics["detection"], metrics["kappa"]) == (True, 0, None, None)
    assert (metrics["clusters"]["purity"], metrics["clusters"]["ari"]) == (None, None)


@pytest.mark.trains
def test_what_the_protocol_rejects_is_flagged_whether_the_rule_has_a_result_or_not() -> None:
    """NaN from two members: Multi-Krum for 3 leaves out one more of the rest, for 4 has no result, a median has no weights."""
    nan = Adversary(members=Fixed((2, 5)), upload=Overwritten())
    for rule, by in ((MultiKrum(3), "weight 0 or rejected"), (MultiKrum(4), "rejected"), (Median(), "rejected")):
        scenario = replace(sample.scenario, algorithm=RobustFedAvg(rule=rule))
        trial = played(replace(scenario, adversary=nan), None, None)
        found = attacked_metrics(trial, played(scenario, None, None).clean(), None)["detection"]
        assert (found["by"], found["tpr"]) == (by, 1)
        assert found["fpr"] == (pytest.approx(1 / 6) if rule == MultiKrum(3) else 0)
        assert found["auc"] > 0.9


@pytest.mark.trains
def test_a_rule_that_never_had_a_result_detects_nothing_and_nothing_is_said() -> None:
    """Multi-Krum for 4 of 8 gives no weights; Krum's one client is below the floor of 3."""
    clean = played(sample.scenario, None, None).clean()
    for rule in (MultiKrum(4), Krum(1)):
        scenario = replace(sample.scenario, algorithm=RobustFedAvg(rule=rule), protection=Plain(floor=3), adversary=MINUS)
        found = attacked_metrics(played(scenario, None, None), clean, None)
        assert found["unmoved"]["rounds"] == 4
        assert found["detection"] is None


@pytest.mark.trains
def test_rules_of_coordinates_that_weigh_clients_are_judged_by_their_weights() -> None:
    for rule in (SignGuard(), DnC(f=3, b=200)):
        scenario = replace(sample.scenario, algorithm=RobustFedAvg(rule=rule))
        trial = played(replace(scenario, adversary=replace(MINUS, upload=MinusGradient(20.0))), None, None)
        assert all(len(one.weights) == 8 for one in trial.judged)
        found = attacked_metrics(trial, played(scenario, None, None).clean(), None)["detection"]
        assert found["by"] == "weight 0 or rejected"
        assert found["tpr"] >= 0.5


@pytest.mark.trains
def test_rounds_that_an_attack_brings_to_nothing_are_counted_and_the_run_goes_on() -> None:
    """One client a round: where it is a member and sends NaN, the model stays, and the next round is played."""
    scenario = replace(sample.scenario, rounds=12, algorithm=FedAvg(participation=1 / 8, sampling="random"))
    trial = played(replace(scenario, adversary=Adversary(members=Fixed((0, 1, 2)), upload=Overwritten())), None, None)
    metrics = attacked_metrics(trial, played(scenario, None, None).clean(), None)
    stayed = [t for t in range(1, 12) if (trial.accuracy[t] == trial.accuracy[t - 1]).all()]
    assert 0 < metrics["lost"]["rounds"] < 12
    assert len(stayed) in (metrics["lost"]["rounds"], metrics["lost"]["rounds"] - 1)
    assert "could be used" in metrics["lost"]["reason"]
    assert metrics["stood"] == pytest.approx(metrics["lost"]["rounds"] / 12)
    assert metrics["rejected"] == {"loyal": 0, "members": metrics["lost"]["rounds"]}
    assert trial.rounds == [*range(12)]


@pytest.mark.trains
def test_a_rule_that_too_few_answer_has_no_result_and_that_is_said_once() -> None:
    """Multi-Krum for 2 of 8 needs 7 updates; with two silent there are 6, so the model never moves."""
    scenario = replace(sample.scenario, algorithm=sample.evaluation.defences["multikrum"])  # type: ignore[arg-type]
    trial = played(replace(scenario, adversary=Adversary(members=Pool(2), silent=Schedule())), None, None)
    metrics = attacked_metrics(trial, played(scenario, None, None).clean(), None)
    assert metrics["unmoved"]["rounds"] == 4
    assert "needs at least 7 updates, got 6" in metrics["unmoved"]["reason"]
    assert metrics["lost"] is None
    assert len(set(metrics["course"])) == 1
    assert (metrics["stood"], metrics["withheld"]) == (1.0, 0)


@pytest.mark.trains
def test_sums_below_the_floor_are_counted_and_so_is_who_stays_where_it_was() -> None:
    """Of eight clients two are silent in rounds 2 and 3: six are below the floor of 7, and nobody's model moves."""
    scenario = replace(sample.scenario, protection=Plain(floor=7))
    trial = played(replace(scenario, adversary=Adversary(members=Pool(2), silent=Schedule(start=2))), None, None)
    metrics = attacked_metrics(trial, played(scenario, None, None).clean(), None)
    assert (metrics["stood"], metrics["withheld"]) == (0.5, 2)
    assert trial.stood == [0.0, 0.0, 1.0, 1.0]


@pytest.mark.trains
def test_updates_that_overflow_the_model_leave_the_accuracy_of_chance() -> None:
    adversary = Adversary(members=Pool(3), upload=Scaled(-1e6))
    metrics = attacked_metrics(
        played(replace(sample.scenario, rounds=8, adversary=adversary), None, None),
        played(replace(sample.scenario, rounds=8), None, None).clean(),
        None,
    )
    assert metrics["accuracy"]["final"] < 0.2
    assert metrics["rejected"]["loyal"] + metrics["rejected"]["members"] > 0


@pytest.mark.long
@pytest.mark.trains
def test_what_was_learned_and_what_it_cost_are_the_views_own_numbers() -> None:
    scenario = replace(sample.scenario, protection=Masked(floor=3), rounds=2)
    trial = played(scenario, None, None)
    metrics = attacked_metrics(played(replace(scenario, adversary=MINUS), None, None), trial.clean(), None)
    by_hand = Simulation(scenario, None)
    by_hand.step()
    by_hand.step()
    assert (metrics["bytes_up"], metrics["bytes_down"]) == (
        by_hand.view.record.traffic.bytes_up,
        by_hand.view.record.traffic.bytes_down,
    )
    server = {(row["what"], row["times"]) for row in metrics["learned"]["server"]}
    assert ("sums", 2) in server
    assert not any(what == "updates" for what, _ in server)
    assert metrics["cost"]["server_ms"] > 0


# --- what becomes of cells, and the folder ----------------------------------------------------------------------------


@pytest.mark.trains
@pytest.mark.long
def test_lines_are_in_the_order_of_the_grid_and_complete(whole: Path) -> None:
    lines = timeless(whole)
    cells = all_cells(sample.evaluation)
    assert [line["key"] for line in lines] == [key_of(sample.evaluation, cell) for cell in cells]
    assert {line["status"] for line in lines} == {"done"}
    assert {p.stem for p in (whole / "clean").iterdir()} == {line["key"] for line in lines if line["attack"] is None}
    for line in lines[4:]:
        pair = next(other for other in lines[:4] if (other["defence"], other["seed"]) == (line["defence"], line["seed"]))
        assert line["clean"]["final"] == pytest.approx(pair["accuracy"]["final"])  # all test on the same examples


@pytest.mark.trains
@pytest.mark.parametrize("kept", [0, 3, 11])
@pytest.mark.long
def test_resumed_after_a_kill_the_folder_is_that_of_an_undisturbed_evaluation(whole: Path, tmp_path: Path, kept: int) -> None:
    """Some lines, a last one cut off, and the files of attack-free runs that were written before their lines."""
    lines = (whole / "results.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "clean").mkdir()
    for file in (whole / "clean").iterdir():
        (tmp_path / "clean" / file.name).write_bytes(file.read_bytes())
    (tmp_path / "results.jsonl").write_text("".join(lines[:kept]) + lines[kept][:40])
    rows = play(sample.evaluation, tmp_path, resume=True)
    assert len(rows) == len(lines) - kept
    assert timeless(tmp_path) == timeless(whole)
    assert play(sample.evaluation, tmp_path, resume=True) == []


@pytest.mark.trains
@pytest.mark.long
def test_an_attack_free_run_whose_file_is_damaged_is_played_again(whole: Path, tmp_path: Path) -> None:
    (tmp_path / "clean").mkdir()
    lines = (whole / "results.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "results.jsonl").write_text("".join(lines[:4]))
    for file in (whole / "clean").iterdir():
        content = bytearray(file.read_bytes())
        content[-1] ^= file.stem == json.loads(lines[0])["key"]
        (tmp_path / "clean" / file.name).write_bytes(bytes(content))
    play(sample.evaluation, tmp_path, resume=True)
    assert timeless(tmp_path) == timeless(whole)


@pytest.mark.trains
@pytest.mark.long
def test_an_evaluation_may_grow(whole: Path, tmp_path: Path) -> None:
    play(replace(sample.evaluation, seeds=(1,), strengths=(3,), attacks={"minus": sample.minus}), tmp_path)
    rows = play(sample.evaluation, tmp_path, resume=True)
    assert len(rows) == 20 - 4
    assert timeless(tmp_path) == timeless(whole)


def test_lines_of_other_settings_are_counted(tmp_path: Path) -> None:
    cells = all_cells(sample.evaluation)
    rows = {Ledger(sample.evaluation, EvaluationFolder(tmp_path), {}).key(cell): {"status": "played"} for cell in cells}
    assert Ledger(sample.evaluation, EvaluationFolder(tmp_path), rows).aside(cells) == 0
    shorter = replace(sample.evaluation, scenario=replace(sample.evaluation.scenario, rounds=1))
    assert Ledger(shorter, EvaluationFolder(tmp_path), rows).aside(all_cells(shorter)) == len(rows) == 20


def test_a_line_that_is_no_cell_is_named(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_text('{"key": "a"}\nnonsense\n{"key": "b"}\n')
    with pytest.raises(ValueError, match="line 2"):
        EvaluationFolder(tmp_path).open({}, resume=True)


@pytest.mark.trains
@pytest.mark.long
def test_refusals_and_failures_are_recorded_with_their_reason(tmp_path: Path) -> None:
    evaluation = sample.with_refusals
    play(evaluation, tmp_path, name="with_refusals")
    lines = {(line["attack"], line["defence"], line["protection"]): line for line in timeless(tmp_path)}
    assert len(lines) == len(all_cells(evaluation)) == 6 + 3 * 6
    for attack in (None, "minus", "too many", "broken"):
        refused = lines[attack, "median", "Masked"]
        assert refused["status"] == "refused"
        assert "RobustFedAvg needs coordinates, which Masked" in refused["reason"]
        below = lines[attack, "krum", "Masked"]
        assert below["status"] == "refused"
        assert "below the floor of 3" in below["reason"]
    failed = lines["broken", "fedavg", "Plain"]
    assert (failed["status"], failed["reason"]) == ("failed", "RuntimeError: no such adversary (evaluation_sample.py, line 27)")
    assert lines["too many", "fedavg", "Plain"]["status"] == "failed"
    assert "100 members" in lines["too many", "fedavg", "Plain"]["reason"]
    assert lines["minus", "median", "Plain"]["status"] == lines["minus", "fedavg", "Masked"]["status"] == "done"
    page = render(read_grid(tmp_path))
    assert "RobustFedAvg needs coordinates" in page
    assert "RuntimeError: no such adversary" in page
    again = play(evaluation, tmp_path, resume=True, name="with_refusals")
    assert {row["status"] for row in again} == {"failed"}  # failures are tried again, and nothing else
    assert len({line["key"] for line in timeless(tmp_path)}) == len(timeless(tmp_path)) == 24


def test_composition_is_refused_where_the_scenario_is_built() -> None:
    evaluation = sample.with_refusals
    with pytest.raises(Refused, match="coordinates"):
        resolved(evaluation, Cell(None, "median", None, "Masked", 0))


def test_a_worker_that_dies_is_told_in_one_line(tmp_path: Path) -> None:
    from concurrent.futures import Future
    from concurrent.futures.process import BrokenProcessPool

    def submit(task: Task) -> "Future[Row]":
        future: Future[Row] = Future()
        future.set_exception(BrokenProcessPool("a child was killed"))
        return future

    with pytest.raises(ValueError, match="--resume"):
        list(Crew(submit, 2).play([(all_cells(sample.evaluation)[0], None)], lambda cell, row: []))


def test_data_and_threads_are_the_benchs(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    folder = EvaluationFolder(tmp_path)
    with crew(Origin(str(FILE)), sample.evaluation, folder, 1) as hands:
        assert torch.get_num_threads() == 1
        assert hands.count == 1
    assert torch.get_num_threads() == before
    assert Bench(sample.evaluation, folder, tmp_path).data == tmp_path


# --- numbers over seeds -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [(0.2, 0.4), (0.91, 0.93, 0.9), (1.0, 2.0, 5.0, 5.0, 9.5)])
def test_the_interval_of_the_mean_is_students(values: tuple[float, ...]) -> None:
    found = spread(values)
    assert found is not None
    low, high = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert (found.least, found.most, found.count) == (min(values), max(values), len(values))
    assert spread([*values, float("nan"), float("inf")]) == found
    alone = spread(values[:1])
    assert alone is not None
    assert np.isnan(alone.half)
    assert spread([]) is None


@pytest.mark.long
@pytest.mark.trains
def test_the_worst_attack_is_the_one_with_the_least_mean_accuracy(whole: Path) -> None:
    grid = read_grid(whole)
    lines = timeless(whole)
    for defence in sample.evaluation.defences:
        means = {}
        for attack in sample.evaluation.attacks:
            for strength in (1.0, 3.0):
                spot = (attack, defence, strength)
                found = [line for line in lines if (line["attack"], line["defence"], line["strength"]) == spot]
                of = [line["accuracy"]["late"] for line in found]
                assert len(of) == 2
                means[attack, strength] = np.mean(of)
        assert grid.worst_attack(defence, 3.0, "Plain") == min(("minus", "backdoor"), key=lambda a: means[a, 3.0])


@pytest.mark.trains
def test_cells_of_an_attack_that_has_changed_since_are_left_aside_and_counted(tmp_path: Path) -> None:
    """The same names, and another attack behind them: a resumed folder holds both, and the report averages one."""
    small = replace(sample.evaluation, attacks={"minus": sample.minus}, defences={"fedavg": FedAvg()}, strengths=(3,))
    stronger = replace(small, attacks={"minus": lambda count: Adversary(members=Pool(int(count)), upload=MinusGradient(5.0))})
    play(small, tmp_path)
    play(stronger, tmp_path, resume=True)
    grid = read_grid(tmp_path)
    assert len(timeless(tmp_path)) == 6
    spot = grid.attacked("minus", "fedavg", 3.0, "Plain")
    assert spot is not None
    assert (spot.count, grid.earlier, grid.foreign) == (2, 2, 0)
    keys = {key_of(stronger, cell) for cell in all_cells(stronger)}
    means = [line["accuracy"]["late"] for line in timeless(tmp_path) if line["attack"] and line["key"] in keys]
    assert spot.mean == pytest.approx(np.mean(means))
    page = render(grid)
    assert "4 of 4" in page
    assert "Left aside: 2 cells" in page


# --- the report -------------------------------------------------------------------------------------------------------


def test_the_report_needs_nothing_from_anywhere_and_names_the_worst_attacks(whole: Path) -> None:
    grid = read_grid(whole)
    page = render(grid)
    assert "http" not in page.replace("http-equiv", "")
    assert "<script" not in page
    for defence in grid.defences:
        rows = page.split(f'<tr><th scope="row">{defence}</th>')[1:3]
        worst = [finding(grid, defence, strength, "Plain").harm for strength in (1.0, 3.0)]
        assert all(
            harm is not None and f'data-of="worst attack">{harm.attack}</td>' in row
            for harm, row in zip(worst, rows, strict=True)
        )
    assert page.count('class="heat"') == 2 + 2  # accuracy and success at two strengths
    assert page.count("<svg") >= 2
    assert "20 of 20" in page


def test_curves_begin_with_the_run_without_attack_where_strengths_count_attackers(whole: Path) -> None:
    """At the accuracy of the run without attack; a factor of 0 is no such run."""
    grid = read_grid(whole)
    assert from_zero(grid)
    charts: list[Chart] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(panels, "draw_curves", lambda chart, width: charts.append(chart) or Markup())
        curves(grid)
        first = charts[0]
        assert [*first.thin[0].x] == [0, 1, 3]
        clean = {d: grid.clean(d, "Plain") for d in grid.defences}
        assert {line.name: line.y[0] for line in first.thin} == {d: s.mean for d, s in clean.items() if s is not None}
        assert all(band.low.min() >= 0 and band.high.max() <= 1 for band in first.whiskers)
        charts.clear()
        curves(replace(grid, about={**grid.about, "strength": "factor"}))
        assert [*charts[0].thin[0].x] == [1, 3]


def test_more_of_each_cell_says_what_lasted_what_theory_promises_and_what_it_cost(whole: Path) -> None:
    page = render(read_grid(whole))
    assert "More of each cell" in page
    for name, _ in MORE:
        assert f'<th class="n" scope="col">{name}</th>' in page
    fell, stayed = ({"success": {"measured_after": [1, 2, 3], "durability": rounds}} for rounds in (2, None))
    assert lasting([fell, fell, stayed]) == "2, never in 1 of 3"
    assert lasting([stayed]) == "never fell"
    assert lasting([{"success": {"measured_after": [], "durability": None}}, {"success": None}]) == DASH
    row = next(row for row in details(read_grid(whole)) if (row["defence"], row["attack"]) == ("multikrum", "minus"))
    lines = [line for line in timeless(whole) if (line["defence"], line["attack"]) == ("multikrum", "minus")]
    largest = np.mean([line["kappa"]["max"] for line in lines if line["strength"] == 1])
    assert row["more"][[name for name, _ in MORE].index("kappa, largest")] == f"{largest:.3g}"


def test_an_interval_of_accuracies_ends_at_nothing_and_all(tmp_path: Path) -> None:
    page = render(read_grid(folder_of(tmp_path, {("a", "minus"): [0.01, 0.02, 0.3]})))
    assert "mean 11.0 % (0.0 to " in page
    assert not re.search(r"% \(-|to 1[0-9][1-9]\.", page)


@pytest.mark.trains
def test_names_cannot_write_the_page(tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>"
    evaluation = replace(sample.evaluation, name=evil, attacks={evil: sample.minus}, defences={evil: FedAvg()}, seeds=(0,))
    play(evaluation, tmp_path)
    assert "<img" not in render(read_grid(tmp_path))


@pytest.mark.long
def test_an_evaluation_that_has_only_begun_has_a_report(tmp_path: Path) -> None:
    folder = EvaluationFolder(tmp_path)
    folder.open(description(sample.evaluation), resume=False)
    assert "No verdict: 20 of 20 cells are not played yet" in render(read_grid(tmp_path))


@pytest.mark.long
def test_what_searches_found_against_a_defence_is_printed_beside_what_was_played(tmp_path: Path) -> None:
    known = HardenedFLIC(rounds_before=2, every=2)
    defences = {"FedAvg": FedAvg(), "hardened": known, "by a function": lambda scenario: replace(scenario, algorithm=known)}
    for name, of in (("all", defences), ("one", {"FedAvg": FedAvg()})):
        EvaluationFolder(tmp_path / name).open(description(replace(sample.evaluation, defences=of)), resume=False)
    page, grid = render(read_grid(tmp_path / "all")), read_grid(tmp_path / "all")
    assert page.count(HARDENED_FLIC.split(":")[0]) == summaries.markdown(grid).count(HARDENED_FLIC) == 2
    assert "Known of hardened, whatever was played here" in page
    assert "Known of" not in render(read_grid(tmp_path / "one"))


def folder_of(path: Path, accuracy: Mapping[tuple[str, str], list[float]], seeds: int = 3) -> Path:
    """A folder whose lines are made up: accuracy by defence and attack, a value a seed; an empty list is not played."""
    defences = {defence: FedAvg(by_samples=k == 0) for k, defence in enumerate(sorted({d for d, _ in accuracy}))}
    attacks = dict.fromkeys(sorted({a for _, a in accuracy}), sample.minus)
    changes: dict[str, Any] = {"defences": defences, "attacks": attacks, "strengths": (3,), "seeds": tuple(range(seeds))}
    evaluation = replace(sample.evaluation, **changes)
    folder = EvaluationFolder(path)
    folder.open(description(evaluation), resume=False)
    for cell in all_cells(evaluation):
        values = [0.9] * seeds if cell.attack is None else accuracy[cell.defence, cell.attack]
        if cell.seed >= len(values):
            continue
        of = {"accuracy": {"late": values[cell.seed]}, "clean": {"late": 0.9}, "attackers": 3, "built_for": 3}
        of |= {"learned": {}, "cost": {"seconds": 1.0}, "rounds": [3]}
        row = {"key": key_of(evaluation, cell), "status": "done", "reason": ""}
        folder.append(row | {name: getattr(cell, name) for name in cell.__slots__} | of)
    return path


def test_there_is_no_verdict_before_every_defence_has_met_every_attack(tmp_path: Path) -> None:
    """One defence is attacked, the other is not yet: the first is not the best, and the second is not without a result."""
    folder = folder_of(tmp_path, {("a", "minus"): [0.5] * 3, ("a", "noise"): [], ("b", "minus"): [], ("b", "noise"): []})
    page = render(read_grid(folder))
    assert "No verdict: 9 of 18 cells are not played yet" in page
    assert " hold" not in page.split('class="lead"')[1].split("</p>")[0]
    assert '<td class="note">not played yet</td>' in page
    assert "so far: 3 cells not played yet" in page
    assert "see below" not in page


@pytest.mark.long
@pytest.mark.trains
def test_a_defence_that_never_works_is_said_to_without_attack_too(tmp_path: Path) -> None:
    """Multi-Krum for 4 of 8 needs 11 updates: its model never moves, attack or none."""
    rules = {"fedavg": FedAvg(), "stuck": RobustFedAvg(rule=MultiKrum(4))}
    play(replace(sample.evaluation, attacks={"minus": sample.minus}, defences=rules, strengths=(3,), seeds=(0,)), tmp_path)
    grid = read_grid(tmp_path)
    assert "needs at least 11 updates, got 8" in grid.idle("stuck", "Plain")
    assert grid.idle("fedavg", "Plain") == ""
    assert tables.without_result(grid, "stuck", "Plain")[0] == "never moved", "all cells were played"
    judged = {row["defence"]: row["verdict"] for row in cell_rows(grid) if row["attack"] == "minus"}
    assert judged["stuck"] == "never moved", "its row said that it holds"
    assert judged["fedavg"] != "never moved"
    page = render(grid)
    assert "(never moved)" in page.split('<tr><th scope="row">stuck</th>')[1].split("</tr>")[0]
    assert "Left out, as without a result: stuck under Plain" in page


# --- the command ------------------------------------------------------------------------------------------------------


class Result(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Result]


@pytest.fixture
def cloister(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.chdir(tmp_path)

    def command(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["cloister", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err + captured.out
        return Result(int(caught.value.code or 0), captured.out, captured.err)

    return command


@pytest.mark.slow
@pytest.mark.trains
def test_two_workers_killed_and_resumed_write_the_folder_that_one_process_writes(cloister: Command, whole: Path) -> None:
    """The kill leaves no worker behind: each has the standard output open, whose end we wait for."""
    command = [sys.executable, "-m", "cloister.cli", "evaluate", str(FILE), "--workers", "2", "--out", "two"]
    environment = os.environ | {"PYTHONPATH": str(FILE.parent.parent)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        results = Path("two/results.jsonl")
        while time.monotonic() < deadline and (not results.exists() or results.read_bytes().count(b"\n") < 3):
            time.sleep(0.01)
        process.kill()
        assert process.stdout is not None
        assert process.stdout.read() == b""  # returns when every process that had it is gone
    kept = results.read_bytes().count(b"\n")
    assert 3 <= kept < 20
    result = cloister("evaluate", FILE, "--workers", 1, "--out", "two", "--resume", "--json")
    assert result.code == 0
    assert timeless(Path("two")) == timeless(whole)
    assert len(json.loads(result.out)["cells"]) == 20


@pytest.mark.trains
@pytest.mark.long
def test_the_command_obeys_and_shows(cloister: Command) -> None:
    result = cloister("evaluate", FILE, "--workers", 1, "--seeds", "5,7", "--set", "rounds=2", "--set", "training.lr=0.2")
    assert result.code == 0
    assert "under it" in result.out
    folder = Path("runs/tiny-evaluation")
    assert (folder / "report.html").exists()
    lines = timeless(folder)
    assert {line["seed"] for line in lines} == {5, 7}
    assert {len(line["course"]) for line in lines} == {2}
    about = json.loads((folder / "evaluation.json").read_text())
    assert (about["scenario"]["rounds"], about["scenario"]["training"]["lr"]) == (2, 0.2)
    repeat = f"cloister evaluate {FILE} --set rounds=2 --set training.lr=0.2 --seeds 5,7"
    page = html.unescape((folder / "report.html").read_text())
    assert repeat in page
    assert "the last 1 of 2 here" in page
    (folder / "report.html").unlink()
    assert cloister("report", folder).code == 0
    assert (folder / "report.html").exists()


def test_that_no_defence_has_a_result_shows_in_the_exit_code(cloister: Command) -> None:
    """Before: 0, though everything was refused."""
    result = cloister("evaluate", f"{FILE}:all_refused", "--workers", 1, "--out", "here")
    assert result.code == 1
    (line,) = [line for line in result.err.splitlines() if line.startswith("cloister: ")]
    assert line.startswith("cloister: no defence has a result under attack; first median under Masked: refused: RobustFedAvg")
    assert Path("here/report.html").exists()


@pytest.mark.long
@pytest.mark.trains
def test_a_failed_cell_shows_in_the_exit_code(cloister: Command) -> None:
    result = cloister("evaluate", f"{FILE}:with_refusals", "--workers", 1, "--set", "rounds=1", "--out", "here")
    assert result.code == 3
    assert "median under Masked: refused: RobustFedAvg needs coordinates, which Masked" in result.out
    (line,) = [line for line in result.err.splitlines() if line.startswith("cloister: ") and "note:" not in line]
    assert "cells failed" in line


@pytest.mark.trains
@pytest.mark.long
def test_breakdown_searches_and_shares_the_folder(cloister: Command) -> None:
    assert cloister("evaluate", FILE, "--workers", 1, "--seeds", "0", "--out", "here").code == 0
    before = len(timeless(Path("here")))
    result = cloister(
        "breakdown", FILE, "--workers", 1, "--seeds", "0", "--out", "here", "--resume", "--against", "fedavg",
        "--attack", "minus", "--most", 3, "--loss", 0.01, "--json",
    )  # fmt: skip
    assert result.code == 0
    found = json.loads(result.out)
    assert found == json.loads(Path("here/breakdown.json").read_text())
    (one,) = found["results"]
    tried = dict(map(tuple, one["seeds"][0]["tried"]))
    assert set(tried) <= {1.0, 2.0, 3.0}
    lines = {
        line["strength"]: line for line in timeless(Path("here")) if (line["attack"], line["defence"]) == ("minus", "fedavg")
    }
    for strength, broke in tried.items():
        assert broke == (lines[strength]["impact"]["late"] > 0.01)
    assert len(timeless(Path("here"))) == before + len({2.0} & set(tried))
    assert "<summary>strengths tried, seed by seed" in Path("here/report.html").read_text()


@pytest.mark.slow
@pytest.mark.trains
def test_a_search_about_another_attack_of_the_same_name_is_left_aside(cloister: Command) -> None:
    search = ("breakdown", FILE, "--workers", 1, "--seeds", "0", "--against", "fedavg", "--attack", "minus", "--most", 1)
    assert cloister(*search, "--out", "here").code == 0
    assert "<summary>strengths tried, seed by seed" in Path("here/report.html").read_text()
    evaluate = ("evaluate", FILE, "--workers", 1, "--seeds", "0", "--out", "here", "--resume")
    assert cloister(*evaluate).code == 0
    assert "<summary>strengths tried, seed by seed" in Path("here/report.html").read_text()
    others = ("evaluate", FILE, "--workers", 1, "--seeds", "1", "--out", "here", "--resume")
    assert cloister(*others).code == 0
    assert "<summary>strengths tried, seed by seed" in Path("here/report.html").read_text()  # other seeds, and the same attack
    stronger = replace(sample.evaluation, strengths=(2,), seeds=(7,))
    assert description(stronger)["searches"] == description(sample.evaluation)["searches"]
    assert cloister(*evaluate, "--set", "training.lr=0.2").code == 0
    page = Path("here/report.html").read_text()
    assert "<summary>tried" not in page
    assert "Left aside: 1 search with" in page


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["evaluate", "nowhere.py"],
            "give the path of an evaluation, for example cloister:evaluate_digits",
        ),
        (["evaluate", FILE, "--seeds", "a"], "--seeds takes"),
        (["evaluate", f"{FILE}:nobody"], "no evaluation named 'nobody'"),
        (["evaluate", FILE, "--set", "no.such=1"], "no field 'no'"),
        (["evaluate", FILE, "--out", "here", "--resume"], "no evaluation to resume"),
        (["evaluate", FILE, "--resume"], "name it by --out"),
        (["breakdown", FILE], "--most"),
        (["breakdown", FILE, "--most", "3", "--attack", "nobody"], "no attack 'nobody'; there are: minus, backdoor"),
        (["breakdown", FILE, "--most", "3", "--step", "0"], "steps above 0"),
    ],
)
def test_errors_are_one_line(cloister: Command, arguments: list[object], words: str) -> None:
    result = cloister(*arguments, "--workers", 1)
    assert result.code == 1
    (line,) = result.err.splitlines()
    assert words in line


def test_a_folder_is_not_overwritten(cloister: Command, whole: Path) -> None:
    before = (whole / "results.jsonl").read_bytes()
    assert cloister("evaluate", FILE, "--workers", 1, "--out", whole).code == 1
    assert (whole / "results.jsonl").read_bytes() == before


def test_seeds_are_numbers_and_ranges() -> None:
    assert seeds_of(None) == ()
    assert seeds_of("3") == (3,)
    assert seeds_of("0-2,7,1") == (0, 1, 2, 7)
    for wrong in ("", "a", "1-", "3-1", "-2", "0-99999999999"):
        with pytest.raises(ValueError, match="--seeds"):
            seeds_of(wrong)


def test_the_description_holds_every_adversary() -> None:
    about = description(sample.evaluation)
    assert about["attacks"]["minus"]["3"] == described(sample.minus(3))
    assert json.dumps(about)


@pytest.mark.long
def test_the_example_is_the_suite_on_ten_defences_and_every_cell_is_one_of_its_own() -> None:
    where = FILE.parent.parent / "examples" / "evaluate_digits.py"
    evaluation = load_evaluation(str(where))
    assert (len(evaluation.attacks), len(evaluation.defences), len(evaluation.seeds)) == (19, 10, 3)
    cells = all_cells(evaluation)
    assert len({key_of(evaluation, cell) for cell in cells}) == len(cells) == 3 * 10 * (1 + 20 * 2)
    for cell in cells:
        assert resolved(evaluation, cell).seed == cell.seed
    private = load_evaluation(f"{where}:private")
    with pytest.raises(Refused, match="coordinates"):
        resolved(private, Cell(None, "median", None, "Masked", 0))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("evaluate", ("--resume", "--workers", "--seeds", "FILE[:NAME]", "cloister evaluate cloister:evaluate_digits")),
        ("breakdown", ("--loss", "--success", "crossing", "neighbours", "cloister breakdown cloister:evaluate_digits")),
    ],
)
def test_help_teaches_by_example_and_says_what_bisection_finds(cloister: Command, command: str, words: tuple[str, ...]) -> None:
    result = cloister(command, "--help")
    assert result.code == 0
    text = " ".join(re.sub(r"\x1b\[[0-9;]*m|[│╭╮╰╯─]", " ", result.out).split())
    for word in words:
        assert word in text


def taught() -> list[list[str]]:
    """Command lines in the docstrings of all commands."""
    face = FILE.parent.parent / "cloister"
    places = [*sorted(face.glob("*.py")), *sorted(face.glob("*/command.py"))]
    lines = [line.strip() for place in places for line in place.read_text().splitlines()]
    return [shlex.split(line.split(":", 1)[1])[1:] for line in lines if line.startswith(("Try:", "Begin with:"))]


@pytest.mark.long
@pytest.mark.parametrize("line", taught(), ids=" ".join)
def test_every_example_of_the_help_names_what_is_there(line: list[str]) -> None:
    """The file loads as what the command takes, and the names that follow are in it."""
    command, where, *options = line
    if command in ("report", "rerun", "keys", "join", "second", "dealer"):
        return  # of a folder, an address or a party that another command makes
    if command == "new":
        assert Kind(where)
        return
    file = where if where.startswith("cloister:") else str(FILE.parent.parent / where)
    if command == "attack":
        against = dict(pairwise(options)).get("--against")
        assert subject_of(file, against).scenario.adversary is None
        return
    if command == "compare":
        assert load_comparison(file).data
        return
    if command in ("run", "cost", "serve", "audit"):
        with_settings(load(file), [value for name, value in pairwise(options) if name == "--set"])
        return
    evaluation = load_evaluation(file)
    known = {"--attack": evaluation.attacks, "--against": evaluation.defences}
    assert all(value in known[name] for name, value in pairwise(options) if name in known)


def test_the_examples_that_messages_name_hold_what_they_are_named_for() -> None:
    for find in (load, load_evaluation):
        with pytest.raises(ValueError, match="for example") as caught:
            find("nowhere.py")
        assert find(str(caught.value).rsplit(" ", 1)[1]) is not None


def clusters_of(*members: tuple[int, ...]) -> dict[str, Cluster]:
    return {str(k): Cluster(ids, Model("init")) for k, ids in enumerate(members)}


@pytest.mark.trains
def test_clusters_are_judged_against_loyal_clients_and_members() -> None:
    """Members 5, 6 and 7 of 8: one of them hides among the loyal clients, and one loyal client is alone."""
    trial = played(replace(sample.scenario, adversary=Adversary(members=Fixed((5, 6, 7)), upload=MinusGradient())), None, None)
    clean = played(sample.scenario, None, None).clean()
    trial.simulation.state = SimpleNamespace(round=4, clusters=clusters_of((0, 1, 2, 5), (3,), (6, 7)))
    metrics = attacked_metrics(trial, clean, None)
    assert metrics["detection"] == {
        "by": "outside of the loyal clients' cluster",
        "tpr": pytest.approx(2 / 3),
        "fpr": 1 / 4,
        "auc": pytest.approx((2 * (3 + 0.5) + 1 * (0 + 0.5 * 3)) / 12),
        "loyal_lost": [3],
    }
    found = metrics["clusters"]
    assert (found["count"], found["loyal"], found["loyal_mean_size"], found["loyal_lost"]) == (3, 1, 1.0, 3)
    assert found["purity"] == 3 / 7
    assert found["unplaced"] == 1  # client 4 waits


@pytest.mark.trains
def test_where_the_state_tells_who_contributes_contributors_are_judged_and_not_who_is_served() -> None:
    trial = played(replace(sample.scenario, adversary=Adversary(members=Fixed((5, 6, 7)), upload=MinusGradient())), None, None)
    contributors = {"a": (0, 1, 2, 3, 4), "b": ()}
    everybody = clusters_of(tuple(range(8)))
    trial.simulation.state = SimpleNamespace(round=4, clusters=everybody, contributors=contributors)
    metrics = attacked_metrics(trial, played(sample.scenario, None, None).clean(), None)
    assert metrics["clusters"]["purity"] == 1
    assert metrics["clusters"]["loyal"] == 1
    assert (metrics["detection"]["tpr"], metrics["detection"]["fpr"], metrics["detection"]["auc"]) == (1, 0, 1)


@pytest.mark.trains
@pytest.mark.long
def test_a_majority_that_is_apart_is_detected() -> None:
    """Five of eight are corrupt, purity 1: the rate of true positives was 0, by the largest cluster, which is theirs."""
    members = (3, 4, 5, 6, 7)
    trial = played(replace(sample.scenario, adversary=Adversary(members=Fixed(members), upload=MinusGradient())), None, None)
    trial.simulation.state = SimpleNamespace(round=4, clusters=clusters_of((0, 1, 2), members))
    found = attacked_metrics(trial, played(sample.scenario, None, None).clean(), None)
    assert (found["detection"]["tpr"], found["detection"]["fpr"], found["detection"]["auc"]) == (1, 0, 1)
    assert (found["attackers"], found["built_for"]) == (5, 0)
