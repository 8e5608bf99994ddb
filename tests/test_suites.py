"""Suites of attacks: every one is an adversary of the strength that is asked for, plays, and is known by one name."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from cloister.attacking.defence import subject
from cloister.cli import app
from cloister.evaluating.data import read_grid
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.flic import FLIC
from cloister.fl.algorithms.hardened_flic import HardenedFLIC
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.data.partition import Dirichlet, Iid, LabelSwap
from cloister.fl.robust.coordinates import Median
from cloister.fl.robust.krum import MultiKrum
from cloister.fl.robust.mixing import NNM, Mixed
from cloister.fl.robust.signs import SignGuard
from cloister.fl.runs.scenario import Scenario
from cloister.scenario_file import load_evaluation
from cloister.threat_models.evaluation import Evaluation, all_cells, key_of, target_of
from cloister.threat_models.evaluation_attack import adversary_of
from cloister.threat_models.knowledge import Level
from cloister.threat_models.line_search import LineSearched
from cloister.threat_models.membership import Pool
from cloister.threat_models.suites import (
    backdoors,
    choices,
    embeddings,
    insiders,
    schedules,
    strongest,
    untargeted,
    usual_evaluation,
)
from cloister.threat_models.suites.clusters import pulses
from cloister.threat_models.tailored import Tailored
from cloister.threat_models.trial import played

from . import evaluation_sample as sample
from .test_forged_embeddings import DIGITS

SUITES = {s.__name__: s for s in (untargeted, insiders, backdoors, schedules, choices, embeddings)}
UNDER: dict[str, Scenario] = {
    "schedules": replace(sample.scenario, algorithm=FLIC(rounds_before=2)),
    "choices": replace(sample.scenario, algorithm=HardenedFLIC(rounds_before=2, every=2)),
    "embeddings": replace(DIGITS, rounds=1),
}
EVERY = [(suite, name) for suite, make in SUITES.items() for name in make()]


def made(suite: str, name: str, strength: float = 3.0, **changes: Any) -> Any:
    scenario = replace(UNDER.get(suite, sample.scenario), **changes)
    return adversary_of(name, SUITES[suite]()[name], strength, scenario)


@pytest.mark.parametrize(("suite", "name"), EVERY, ids=lambda value: str(value))
def test_an_attack_of_a_suite_is_by_as_many_as_the_strength_says(suite: str, name: str) -> None:
    for strength in (1.0, 3.0):
        assert made(suite, name, strength).members == Pool(int(strength))


@pytest.mark.trains
@pytest.mark.parametrize(("suite", "name"), EVERY, ids=lambda value: str(value))
@pytest.mark.long
def test_an_attack_of_a_suite_plays(suite: str, name: str) -> None:
    scenario = UNDER.get(suite, sample.scenario)
    adversary = made(suite, name)
    trial = played(replace(scenario, rounds=min(2, scenario.rounds), adversary=adversary), None, None)
    assert len(trial.members) == 3
    assert trial.accuracy.shape[0] == min(2, scenario.rounds)


def test_names_are_of_one_attack_each() -> None:
    assert [name for name, count in Counter(name for _, name in EVERY).items() if count > 1] == []
    known = untargeted() | insiders() | backdoors()
    assert strongest().keys() <= known.keys()
    assert {*strongest()} - {*strongest(images=False)} == {*strongest()} & {*backdoors()}
    families = ("ALIE", "IPM", "Min-Max", "Fang", "mimic", "label flip", "optimal", "BadNets")
    assert all(any(family in name for name in strongest()) for family in families)


def test_an_insider_searches_the_rule_that_it_meets() -> None:
    for rule in (MultiKrum(2), Median(), Mixed((NNM(2),), Median())):
        algorithm = RobustFedAvg(rule=rule)
        assert (made("insiders", "optimal IPM", algorithm=algorithm).rule, rule) == (rule, rule)
    accepts = made("insiders", "DYN-OPT", algorithm=RobustFedAvg(rule=MultiKrum(2))).upload
    refuses = made("insiders", "DYN-OPT", algorithm=RobustFedAvg(rule=Median())).upload
    assert (type(accepts), type(refuses), refuses.perturbation) == (Tailored, LineSearched, "mean")
    signs = made("insiders", "optimal ALIE", algorithm=RobustFedAvg(rule=SignGuard()))
    updates = np.random.default_rng(0).standard_normal((8, 40)).astype(np.float32)
    assert signs.rule(updates).shape == (40,)  # a rule of whole updates is a function of them
    assert made("insiders", "optimal IPM").knows == Level.INSIDER


def test_backdoors_stop_at_two_thirds_and_say_what_they_are_after() -> None:
    evaluation: Evaluation = replace(sample.evaluation, attacks=backdoors(), scenario=replace(sample.scenario, rounds=30))
    for cell in (c for c in all_cells(evaluation) if c.attack is not None and c.seed == 0 and c.defence == "fedavg"):
        adversary = made("backdoors", str(cell.attack), rounds=30)
        assert (19 in adversary.when, 20 in adversary.when) == (True, False)
        assert target_of(evaluation, cell, replace(sample.scenario, adversary=adversary)) is not None
    assert made("backdoors", "model replacement", 2.0).upload.factor == 4


def test_pulses_are_honest_in_the_round_before_a_grouping() -> None:
    found = pulses(3, 1.0, turn=10, rounds=40).when
    assert [t for t in range(40) if t not in found] == [4, 9, 14, 19, 24, 29, 34, 39]


# --- the usual grid ---------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_usual_grid_is_about_a_thousand_cells_on_data_alike_and_skewed() -> None:
    evaluation = usual_evaluation(replace(sample.scenario, partition=Iid(clients=20, samples=20, shared_test=True)))
    cells = all_cells(evaluation)
    assert 1000 <= len(cells) <= 1200
    assert len({key_of(evaluation, cell) for cell in cells[:200]}) == 200
    assert evaluation.strengths == (6,)
    assert [*evaluation.partitions] == ["IID", "Dirichlet 0.5", "Dirichlet 0.1"]
    assert evaluation.partitions["Dirichlet 0.5"] == Dirichlet(clients=20, samples=20, shared_test=True, alpha=0.5)
    assert next(iter(evaluation.defences)) == "FedAvg"


@pytest.mark.parametrize("partition", [Iid(clients=9), Dirichlet(clients=9, alpha=0.3), Dirichlet(clients=9, alpha=0.5)])
def test_a_search_of_a_scenario_attacks_it_on_its_own_data_which_come_first(partition) -> None:
    evaluation = usual_evaluation(replace(sample.scenario, partition=partition))
    assert subject(evaluation, None).scenario.partition == partition
    assert subject(evaluation, "median").scenario.partition == partition
    assert {"IID", "Dirichlet 0.5", "Dirichlet 0.1"} <= evaluation.partitions.keys()


def test_the_usual_grid_keeps_a_partition_that_plants_groups_and_the_scenarios_algorithm() -> None:
    scenario = replace(sample.scenario, partition=LabelSwap(clients=9, groups=3), algorithm=FLIC(rounds_before=2))
    evaluation = usual_evaluation(scenario)
    assert (dict(evaluation.partitions), evaluation.strengths) == ({}, (2,))
    assert evaluation.defences["FLIC"] == scenario.algorithm
    assert evaluation.defences["FedAvg"] == FedAvg()
    with pytest.raises(ValueError, match="4 clients are too few"):
        usual_evaluation(replace(sample.scenario, partition=Iid(clients=4)))


FILE = "from tests.evaluation_sample import scenario\n"


@pytest.mark.trains
@pytest.mark.long
def test_the_command_plays_the_usual_grid_of_a_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloister.threat_models.suites.chosen.CHOSEN", ("minus gradient", "BadNets"))
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(FILE)
    asked = ["evaluate", "mine.py", "--seeds", "0", "--set", "rounds=1", "--workers", "1", "--out", "out"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    grid = read_grid(Path("out"))
    assert grid.about["scenario"]["rounds"] == 1
    assert grid.protections == ["Plain on IID", "Plain on Dirichlet 0.5", "Plain on Dirichlet 0.1"]
    assert sum(map(len, grid.cells.values())) == grid.expected == 6 * 3 * 2 * 2
    assert "Under Plain on Dirichlet 0.1:" in " ".join(done.output.split())


def test_settings_are_of_the_scenario_before_its_grid_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(FILE)
    found = load_evaluation("mine.py", ["partition.clients=10"])
    assert {p.clients for p in found.partitions.values()} == {10}  # type: ignore[attr-defined]
    assert found.strengths == (3,)
    Path("grid.py").write_text(
        "from dataclasses import replace\nfrom tests.evaluation_sample import evaluation as one\n"
        "from cloister.fl.data.partition import Iid\nevaluation = replace(one, partitions={'IID': Iid(clients=8)})\n"
    )
    of_its_own = "changes nothing: the evaluation has partitions of its own in place of the partition: IID"
    with pytest.raises(ValueError, match=of_its_own):
        load_evaluation("grid.py", ["partition.clients=10"])
    for setting in ("algorithm=FedAvg()", "algorithm.by_samples=False", "seed=7"):
        with pytest.raises(ValueError, match=rf"--set {re.escape(setting)} changes nothing: the evaluation has"):
            load_evaluation("grid.py", [setting])
