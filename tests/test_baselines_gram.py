"""Methods that cluster by inner products, trained: they find turned digits, run under what they can, and go on after a pause."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cloister.fl.runs.experiment import run
from cloister.fl.runs.metrics import adjusted_rand_index
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Masked

from .example_files import load

EXAMPLE = load("baselines_gram")
REFERENCES = ("one model", "groups known", "alone")
METHODS: dict[str, Scenario] = {name: value for name, value in EXAMPLE.METHODS.items() if name not in REFERENCES}
FINDING = ("FlexCFL", "FeSEM", "FedClust", "PACFL", "CFL-GP", "CFL-GP, K unknown")
"""Those that are to find the planted groups."""


def ended(value: Scenario, rounds: int) -> Simulation:
    simulation = Simulation(replace(value, rounds=rounds), None)
    for _ in range(rounds):
        simulation.step()
    return simulation


def agreement(simulation: Simulation) -> float:
    members = [c.members for c in simulation.clusters.values()]
    return adjusted_rand_index(members, simulation.population.groups)


@pytest.mark.trains
@pytest.mark.parametrize("name", FINDING)
@pytest.mark.long
def test_turned_digits_are_told_apart(name: str) -> None:
    """Three seeds: the planted groups in most."""
    assert np.median([agreement(ended(replace(METHODS[name], seed=seed), 4)) for seed in range(3)]) == 1.0


@pytest.mark.slow
@pytest.mark.trains
@pytest.mark.parametrize("name", ["FlexCFL", "FeSEM", "FedClust", "PACFL", "CFL-GP"])
def test_they_are_told_apart_where_updates_are_hidden(name: str) -> None:
    """From sketches, or from bases under a rotation, with sums that are masked; three seeds."""
    hidden = replace(METHODS[name], protection=Masked(floor=2, keys="run"))
    runs = [ended(replace(hidden, seed=seed), 2) for seed in range(3)]
    assert np.median([agreement(simulation) for simulation in runs]) == 1.0
    assert not any(simulation.view.record.faults or simulation.view.record.sees_updates for simulation in runs)


@pytest.mark.trains
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.long
def test_a_run_goes_on_after_a_pause(name: str, tmp_path: Path) -> None:
    whole = replace(METHODS[name], rounds=4, training=replace(METHODS[name].training, epochs=1))
    list(run(whole, tmp_path / "whole"))
    list(run(replace(whole, rounds=2), tmp_path / "halves"))
    list(run(whole, tmp_path / "halves", resume=True))
    ends = [sorted((tmp_path / folder / "models").glob("*.safetensors")) for folder in ("whole", "halves")]
    assert [path.name for path in ends[0]] == [path.name for path in ends[1]]
    assert all(one.read_bytes() == other.read_bytes() for one, other in zip(*ends, strict=True))
    assert (tmp_path / "whole" / "summary.json").exists()
