"""FPFC's scenario in examples/: what the abstract's Table 1 claims of it holds in small, over seeds; and it runs as all do."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloister.fl.algorithms.fpfc import FPFC, l1
from cloister.fl.runs.experiment import run
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Encrypted, Masked, Permuted, TwoServer
from cloister.protocol.core.errors import Refused

from .example_files import load

EXAMPLE = load("fpfc_table1")
QUICK: Any = EXAMPLE.quick


@pytest.mark.trains
@pytest.mark.slow
def test_the_groups_are_found_and_clients_gain_by_it() -> None:
    """Two seeds: exactly the planted groups each time; on the mean more accurate than federated averaging, by .1 at least."""
    gained = []
    for seed in range(2):
        fpfc, fedavg = (EXAMPLE.played(EXAMPLE.case("quick", name, seed, 0.0)) for name in ("FPFC", "FedAvg"))
        assert (fpfc["clusters"], fpfc["ari"]) == (3, 1.0)
        gained.append(fpfc["accuracy"] - fedavg["accuracy"])
    assert np.mean(gained) > 0.1


@pytest.mark.trains
def test_quick_scenario_runs_and_goes_on_after_a_pause(tmp_path: Path) -> None:
    whole, halves = replace(QUICK, rounds=4), tmp_path / "halves"
    assert [done.round for done in run(whole, tmp_path / "whole")] == [1, 2, 3, 4]
    list(run(replace(QUICK, rounds=2), halves))
    rounds = list(run(whole, halves, resume=True))
    assert [done.round for done in rounds] == [3, 4]
    models = [sorted((tmp_path / name / "models").glob("*.safetensors")) for name in ("whole", "halves")]
    assert [path.name for path in models[0]] == [path.name for path in models[1]]
    assert all(one.read_bytes() == other.read_bytes() for one, other in zip(*models, strict=True))


@pytest.mark.long
@pytest.mark.trains
def test_clear_and_permuted_runs_find_the_same_models() -> None:
    """Local training in float32 may pull them apart by rounding; ten rounds of full gradients do not."""
    ends = []
    for protection in (QUICK.protection, Permuted(floor=1)):
        value = replace(QUICK, protection=protection, rounds=10, algorithm=replace(QUICK.algorithm, rounds=10))
        simulation = Simulation(value, None)
        for _ in range(10):
            simulation.step()
        ends.append(simulation)
    clear, permuted = (simulation.vectors() for simulation in ends)
    assert max(float(np.abs(clear[i] - permuted[i]).max()) for i in clear) < 1e-3
    assert {c.members for c in ends[0].state.clusters.values()} == {c.members for c in ends[1].state.clusters.values()}


@pytest.mark.parametrize("protection", [Masked(), Encrypted(), TwoServer(), Permuted(keys="session")], ids=repr)
def test_a_scenario_whose_protection_cannot_fuse_is_refused(protection: Any) -> None:
    with pytest.raises(Refused, match="FPFC needs fusion"):
        replace(QUICK, protection=protection, algorithm=replace(QUICK.algorithm, by_samples=False))


def test_the_papers_scenario_has_the_authors_numbers() -> None:
    value: Scenario = EXAMPLE.scenario
    assert value.algorithm.local(value.training).prox == 1.0
    assert (value.training.epochs, value.training.lr, value.rounds) == (10, 0.1, 2000)
    assert EXAMPLE.methods(value)["FPFC"] == FPFC(rounds=2000, participation=0.3)
    assert EXAMPLE.methods(value)["FPFC-l1"] == l1(2000, 0.2, 4.0, 0.3)


def test_the_table_has_a_row_for_every_method() -> None:
    of = {"accuracy": 0.5, "clusters": 4, "ari": 1.0, "cpu_seconds": 1.0}
    lines = EXAMPLE.table({name: [of, of | {"accuracy": 0.7}] for name in EXAMPLE.PAPER}).splitlines()
    assert len(lines) == 2 + len(EXAMPLE.PAPER)
    assert {line.count("|") for line in lines} == {9}
    assert "| FPFC | 89.46 | 4.00 | 1.00 | 60.00 +- 10.00 | 4.0 +- 0.0 | 1.00 +- 0.00 | 2 |" in lines
