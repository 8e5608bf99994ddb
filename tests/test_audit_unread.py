"""Runs whose updates an audit does not read are said not to be covered; rows of zeros would say that attacks failed."""

from dataclasses import replace

import pytest

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.ifca import IFCA
from cloister.fl.algorithms.pfed_graph import PFedGraph
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Dirichlet
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked, Plain
from cloister.threat_models.audit.experiment import QUICK
from cloister.threat_models.audit.experiments import EXPERIMENTS
from cloister.threat_models.audit.observer import SERVER_ALONE, server_and
from cloister.threat_models.audit.recovery import UpdateRecovery
from cloister.threat_models.audit.stage import Stage, stages
from cloister.threat_models.audit.table import rows
from cloister.threat_models.claims import CLAIMS

SCENARIO = Scenario(
    name="unread",
    data=Digits(),
    partition=Dirichlet(clients=12, alpha=0.5, shared_test=True),
    model=Mlp(hidden=(8,)),
    training=Training(epochs=1, batch=50, lr=0.2),
    algorithm=FedAvg(by_samples=False),
    protection=Plain(),
    rounds=2,
)


def audited(algorithm, protection, experiments):
    scenario = replace(SCENARIO, algorithm=algorithm, protection=protection)
    staged = [s for s in stages(scenario, [0], None) if isinstance(s, Stage)]
    return list(rows(staged, (SERVER_ALONE, server_and(0)), experiments, CLAIMS, QUICK))


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("protection", [Plain(), Masked()], ids=repr)
@pytest.mark.parametrize(("algorithm", "why"), [(IFCA(models=2), "slots"), (PFedGraph(), "models of their own")])
def test_methods_of_slots_and_of_own_models_are_not_covered(algorithm, why, protection):
    found = audited(algorithm, protection, EXPERIMENTS)
    assert [row.experiment for row in found if row.leakage is not None] == []
    assert {judged.verdict for row in found for judged in row.claims} <= {"not covered"}
    assert all(why in row.reason for row in found if row.experiment in ("updates", "labels", "membership", "property"))


@pytest.mark.trains
def test_other_methods_are_covered():
    assert all(row.leakage.plain == 1 for row in audited(FedAvg(by_samples=False), Plain(), [UpdateRecovery()]))
