"""The scenarios in examples/: every `quick` value runs, and what the figures measure is what the engine measures."""

import json
import os
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.data.partition import CongruentHalves, LabelPermutation, LabelSwap, TopicPerClient
from cloister.fl.runs.experiment import run
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Masked
from cloister.protocol.masked.cohorts import Cohorts
from cloister.scenario_file import load as load_scenario

from .example_files import EXAMPLES, load

QUICK = sorted(path.stem for path in EXAMPLES.glob("cfl_*.py") if "\nquick = " in path.read_text(encoding="utf-8"))
NEEDS = {"cfl_fig9_ag_news": "ag_news_csv"}
ARTICLES = 500


def some_articles(name: str, tmp_path: Path) -> Path | None:
    """A folder with the first articles of what the example needs, None if it needs nothing; skips where that is missing."""
    if name not in NEEDS:
        return None
    home = Path(os.environ.get("CLOISTER_DATA", "missing")) / NEEDS[name]
    if not (home / "train.csv").exists():
        pytest.skip(f"CLOISTER_DATA names no folder with {NEEDS[name]}/train.csv")
    copy = tmp_path / NEEDS[name]
    copy.mkdir()
    for file in ("train.csv", "test.csv"):
        with (home / file).open(encoding="utf-8") as lines:
            (copy / file).write_text("".join(islice(lines, ARTICLES)), encoding="utf-8")
    return tmp_path


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_an_example_is_read_whole(name: str) -> None:
    """One named an attack that evaluations have themselves, and was refused."""
    try:
        load(name)
    except ModuleNotFoundError as missing:
        pytest.skip(f"needs {missing.name}, an extra")


def test_an_example_that_is_a_script_says_how_it_is_played() -> None:
    for name in ("own_data", "fpfc_fig1", "label_leak"):
        with pytest.raises(
            ValueError, match=f"cloister:{name} is a script, and holds no scenario: cloister new {name}, then: python"
        ):
            load_scenario(f"cloister:{name}")


def test_all_figures_have_a_quick_scenario() -> None:
    assert [name.split("_")[1] for name in QUICK] == ["fig5", "fig6", "fig7", "fig8", "fig9"]


@pytest.mark.trains
@pytest.mark.parametrize("name", QUICK)
def test_quick_scenario_runs(name: str, tmp_path: Path) -> None:
    folder = some_articles(name, tmp_path)
    quick: Scenario = load(name).quick
    if name in NEEDS:
        quick = replace(quick, partition=TopicPerClient(clients=8, samples=20))
    rounds = list(run(replace(quick, rounds=2), tmp_path / "run", folder))
    assert [done.round for done in rounds] == [1, 2]
    assert rounds[-1].accuracy is not None
    assert (tmp_path / "run" / "summary.json").exists()


@pytest.mark.trains
@pytest.mark.parametrize("name", [name for name in QUICK if name not in NEEDS])
def test_before_a_split_the_scenario_is_federated_averaging(name: str) -> None:
    quick: Scenario = replace(load(name).quick, rounds=2)
    cfl, fedavg = Simulation(quick, None), Simulation(replace(quick, algorithm=FedAvg()), None)
    for _ in range(2):
        cfl.step()
        fedavg.step()
    assert len(cfl.state.clusters) == 1
    for client, vector in cfl.vectors().items():
        np.testing.assert_allclose(vector, fedavg.vectors()[client], rtol=0, atol=2e-6)


@pytest.mark.trains
def test_both_figures_of_the_gap_measure_the_same() -> None:
    """Figure 5 asks for one more round of updates after n rounds; figure 6 reads them off the round that is played."""
    fig5, fig6 = load("cfl_fig5_gap_over_samples"), load("cfl_fig6_gap_over_rounds")
    value = replace(fig6.quick, rounds=3)
    after_each = fig6.gaps_over_rounds(value)
    at_the_end = fig5.point(value)
    assert at_the_end["update"]["gap"] == after_each["update"][3]
    assert at_the_end["gradient"]["gap"] == after_each["gradient"][3]
    assert after_each["update"][3] != after_each["update"][2]


@pytest.mark.trains
def test_a_positive_gap_goes_with_a_correct_bipartition() -> None:
    fig5 = load("cfl_fig5_gap_over_samples")
    found = fig5.point(replace(fig5.with_samples(fig5.quick, 60, 1), rounds=20))
    assert found["update"]["gap"] > 0
    assert found["update"]["correct"]


def test_the_gap_has_settled_after_its_last_round_below_zero() -> None:
    settled = load("cfl_fig6_gap_over_rounds").settled
    assert settled(np.array([-1.0, 0.5, -0.1, 0.2, 0.3])) == 3
    assert settled(np.array([0.1, 0.2])) == 0
    assert settled(np.array([0.1, 0.0])) is None


def test_smoothing_is_a_running_geometric_mean() -> None:
    smoothed = load("cfl_fig7_congruent").smoothed
    np.testing.assert_allclose(smoothed(np.full(7, 0.25), 3), 0.25)
    np.testing.assert_allclose(smoothed(np.array([1.0, 10.0, 100.0, 1000.0]), 3)[1:3], [10, 100])
    np.testing.assert_allclose(smoothed(np.array([1.0, 100.0, 1.0]), 1), [1, 100, 1])


@pytest.mark.trains
@pytest.mark.long
def test_norms_tell_incongruent_from_congruent_clients(tmp_path: Path) -> None:
    """Figure 7 in small: both means vanish, but the largest norm only for congruent clients."""
    fig7 = load("cfl_fig7_congruent")
    ends = {}
    for name, value in (("incongruent", fig7.quick), ("congruent", fig7.quick_congruent)):
        rows = fig7.played(replace(value, rounds=40), tmp_path / name)
        ends[name] = {key: rows[-1][key] / rows[0][key] for key in ("mean", "max")}
        again = fig7.played(replace(value, rounds=40), tmp_path / name)
        assert again == rows
    assert max(ends["incongruent"]["mean"], ends["congruent"]["mean"]) < 0.15
    assert ends["congruent"]["max"] < 0.25
    assert ends["incongruent"]["max"] > 0.35


@pytest.mark.trains
@pytest.mark.long
def test_permuted_labels_are_separated_and_pay_off(tmp_path: Path) -> None:
    """Figure 8 in small: CFL ends with the planted groups and more than double the accuracy of federated averaging."""
    fig8 = load("cfl_fig8_permuted_cifar")
    value = replace(fig8.quick, rounds=36, evaluate_every=18)
    cfl = fig8.played(value, tmp_path / "cfl")
    fedavg = fig8.played(replace(value, algorithm=FedAvg()), tmp_path / "fedavg")
    assert cfl.summary["ari"] == 1
    assert cfl.accuracy.shape == (2, 20)
    assert cfl.accuracy[-1].mean() > 2 * fedavg.accuracy[-1].mean()
    assert len(cfl.splits) == 3
    assert json.loads((tmp_path / "cfl" / "scenario.json").read_text())["name"] == value.name


def test_paper_scale_is_that_of_section_vi() -> None:
    """Clients, groups, epochs, batch and rounds as printed in section VI of the paper."""
    values: dict[str, Scenario] = {name: load(name).scenario for name in QUICK}
    for value in values.values():
        assert (value.training.epochs, value.training.batch) == (3, 100)
    assert {name: value.rounds for name, value in values.items()} == dict(zip(QUICK, (50, 50, 1000, 200, 100), strict=True))
    for name in QUICK[:2]:
        assert values[name].partition == LabelSwap(clients=20, groups=4, pairs=None, samples=100)
    assert load(QUICK[2]).congruent.partition == CongruentHalves(clients=2)
    assert values[QUICK[3]].partition == LabelPermutation(clients=20, groups=4, shared_test=True)
    assert values[QUICK[4]].partition == TopicPerClient(clients=20)


def test_private_averaging_spends_what_its_docstring_says() -> None:
    """Ten sums of all sixty clients, by the release of the cohort that the scenario's own view solves for."""
    module = load("private_fedavg")
    value: Scenario = module.scenario
    protection = value.protection
    assert isinstance(protection, Masked)
    assert protection.noise is not None
    cohorts = Cohorts(protection.noise.terms, protection.rules, protection.dropped, 650, protection.ring_bits)
    ledger = cohorts.ledger(0)
    for _ in range(value.rounds):
        ledger = ledger + cohorts.parameters(60).release(60, "zero out")
    assert module.__doc__ is not None
    assert f"epsilon {ledger.spent:.2f} spent" in module.__doc__
    assert "(6, 1e-3)-differentially private" in module.__doc__
    assert (protection.noise.epsilon, protection.noise.delta) == (6.0, 1e-3)
