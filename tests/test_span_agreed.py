"""As many independent sums of one update as an algorithm asks for are in the charter, and clients give theirs to no more."""

from dataclasses import replace
from typing import Any

import pytest

from cloister.fl.algorithms.algorithm import span_of
from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.emd_cfl import EMDCFL
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.fesem import FeSEM
from cloister.fl.algorithms.flic import FLIC
from cloister.fl.algorithms.ifca import IFCA
from cloister.fl.algorithms.per_fedavg import PerFedAvg
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Masked
from cloister.protocol.core.session import SERVER
from cloister.protocol.masked.masking import MaskedSessions
from cloister.protocol.view.answers import Assignment, BelowFloor, Model, Sum, Weights

from . import sides
from .coalition_sample import SMALL

RIPE = CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.7))
ONE = [FedAvg(by_samples=False), RIPE, FLIC(rounds_before=3, by_samples=False), FeSEM(models=2), IFCA(models=2)]


def simulated(algorithm: Any, **fields: Any) -> Simulation:
    return Simulation(replace(SMALL, algorithm=algorithm, protection=Masked(floor=2, **fields)), None)


@pytest.mark.trains
@pytest.mark.parametrize("algorithm", [FedAvg(by_samples=False), RIPE], ids=["FedAvg", "CFL"])
def test_a_lying_server_gets_no_second_sum_of_an_update(algorithm: Any) -> None:
    """Its gate forgets: beside the Gram matrix of differences it would hold a known direction and its inner products."""
    view: Any = simulated(algorithm).view
    clients = tuple(sorted(sides.clients(view).parties))
    updates = view.train(0, {"root": Assignment(Model("init"), clients, clients)})["root"]
    assert isinstance(view.sums(updates, {"one": Weights(dict.fromkeys(clients, 1.0))})["one"], Sum)
    for told in view.harness.run.gate.told.values():
        told.rows.clear()
    other = view.sums(updates, {"two": Weights({i: 1.0 + i % 2 for i in clients})})["two"]
    assert isinstance(other, BelowFloor)
    refused = [fault for fault in view.record.faults if "more independent sums of one update than the 1" in fault.reason]
    assert {fault.blame for fault in refused} == {SERVER}
    assert len(refused) == len(clients)


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("algorithm", [*ONE, FedAvg()], ids=lambda of: type(of).__name__)
def test_what_algorithms_say_is_enough_for_them(algorithm: Any) -> None:
    simulation = simulated(algorithm)
    for _ in range(3):
        simulation.step()
    assert sides.part(simulation.view, MaskedSessions).charter.span == 1
    assert not simulation.view.record.faults


def test_who_says_nothing_has_as_many_as_the_floor_allows() -> None:
    assert span_of(EMDCFL(eps=0.5)) is None
    assert span_of(PerFedAvg(alpha=0.1)) == 1
