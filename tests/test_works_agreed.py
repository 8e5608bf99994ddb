"""Clients work only in the kinds that their run has agreed on: a second kind of one round would have an account of its own."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cloister.fl.algorithms.algorithm import works_of
from cloister.fl.algorithms.cfl import CFL
from cloister.fl.algorithms.fed_clust import FedClust
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.ifca import IFCA
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.view.answers import Assignment, Model, Weights
from cloister.scenario_file import load

SMALL: Any = load("examples/quickstart.py")


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("kind", ["head", "gradient"])
@pytest.mark.parametrize(
    "protection", [Plain(), Permuted(), Masked(corrupt=2), TwoServer(), Encrypted()], ids=lambda p: type(p).__name__
)
def test_a_server_gets_no_second_kind_of_work(protection: Any, kind: Any) -> None:
    """The head of the same update, with a row of others, would be a second sum of it: a difference of two sums."""
    simulation = Simulation(replace(SMALL, protection=protection, algorithm=FedAvg(by_samples=False), rounds=1), None)
    view, clients = simulation.view, tuple(sorted(simulation.population.clients))
    updates = view.train(0, {"root": Assignment(Model("init"), clients, clients)})["root"]
    assert updates.clients == clients
    view.sums(updates, {"root": Weights(dict.fromkeys(clients, 1.0))})
    others = clients[1:]
    assert not view.train(0, {"root": Assignment(Model("init"), others, others)}, kind)
    refused = [f for f in view.record.faults if f"has not agreed on: {kind}" in f.reason]
    assert {f.blame for f in refused} == {-1}
    assert len(refused) == len(others)
    assert np.isfinite(view.harness.observe(Model("init"))).all()


def test_what_algorithms_ask_for() -> None:
    assert works_of(FedAvg()) == {"update"}
    assert works_of(IFCA(models=2)) == {"slots"}
    assert works_of(FedClust(threshold=1.0)) == {"update", "head"}
    assert works_of(replace(SMALL.algorithm)) == {"update"}
    assert isinstance(SMALL.algorithm, CFL)
    assert works_of(replace(SMALL.algorithm, similarity="gradient")) == {"update", "gradient"}
