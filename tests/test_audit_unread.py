"""Runs whose updates an audit does not read are said not to be covered; rows of zeros would say that attacks failed."""

from dataclasses import replace

import pytest

from cloister.auditing.first_words import headline
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
from cloister.threat_models.audit.floor_kept import FloorKept
from cloister.threat_models.audit.masks import AddedWords
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
    claims = [claim for claim in CLAIMS if claim.experiment in {e.name for e in experiments}]
    return list(rows(staged, (SERVER_ALONE, server_and(0)), experiments, claims, QUICK))


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
def test_exact_tests_that_looked_at_nothing_are_no_try():
    """Before: "Nobody else was tried than server / server and client 0" of sums into slots: tests of masks and floors, which
    looked at 0 uploads and 0 sums, counted as tried, and the reason was told of nobody.
    """
    asked = [e for e in EXPERIMENTS if e.name in ("masks", "floor", "updates", "labels")]
    found = audited(IFCA(models=2), Masked(), asked)
    assert not any(row.tested for row in found)
    whom = [SERVER_ALONE.name, server_and(0).name]
    words = headline({"rows": [row.as_dict() for row in found], "against": whom})
    words_of = "updates that go into slots, and sums of slots, are not read yet"
    assert f"Nothing could be tried on what these saw, and nothing is known of it: {' / '.join(whom)} ({words_of})." in words
    assert f"Nobody else was asked about than {' / '.join(whom)}." in words
    assert not any("nothing in 0" in judged.witness for row in found for judged in row.claims)
    read = audited(FedAvg(by_samples=False), Masked(), [AddedWords(), FloorKept()])
    assert [(row.observer, row.experiment) for row in read if row.tested] == [
        (whom[0], "masks"),
        (whom[0], "floor"),
        (whom[1], "masks"),
    ]


@pytest.mark.trains
def test_other_methods_are_covered():
    assert all(row.leakage.plain == 1 for row in audited(FedAvg(by_samples=False), Plain(), [UpdateRecovery()]))
