"""An outsider of a run, who is handed the models that it ends with, and whoever watches the network, who is handed none."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch

from cloister.fl.models.vector import dimension, load_vector, to_vector
from cloister.threat_models.audit.attack import Attack
from cloister.threat_models.audit.final_models import FinalModelMembership
from cloister.threat_models.audit.membership import MembershipInference
from cloister.threat_models.audit.observer import NETWORK, OUTSIDER, SERVER_ALONE, named
from cloister.threat_models.audit.table import rows

from .test_own_attack import SPEND, played

pytestmark = pytest.mark.trains


def test_whoever_watches_the_network_is_handed_no_model():
    assert not played().evidence(NETWORK).released
    assert played().evidence(SERVER_ALONE).released


def test_an_outsider_has_the_final_models_and_nothing_of_the_run():
    evidence = played().evidence(OUTSIDER)
    view = evidence.view
    assert not any(map(len, (view.frames, view.sums, view.models, view.compared, view.answered, view.held, view.opened)))
    assert evidence.released.keys() == played().audited.truth.population.clients.keys()


@pytest.mark.long
def test_what_final_models_tell_of_records_is_no_better_hidden_by_masks_than_in_clear():
    def released(evidence, client, records, rng):
        return np.zeros(len(records)) + (client in evidence.released)

    asked = (MembershipInference(), FinalModelMembership(), Attack("mine", released, "records"))
    found = [*rows([played()], [OUTSIDER, SERVER_ALONE], asked, (), SPEND, mine=("mine",))]
    whose = [(row.observer, row.experiment) for row in found]
    final = "membership by the final model"
    assert whose == [("outsider", final), ("outsider", "mine"), ("server", "membership"), ("server", "mine")]
    assert found[0].anchor == "chance"
    here, nothing, everything = found[0].findings
    assert not nothing.values.any()
    assert abs(here.values.mean() - everything.values.mean()) < 0.1  # rounding alone tells them apart


@pytest.mark.long
def test_records_that_a_model_was_fitted_to_are_told_from_others_by_it():
    """A client's own model at the end, of some steps on few records."""
    stage = played()
    rng = np.random.default_rng(0)
    clients = stage.audited.truth.population.clients
    module = deepcopy(stage.audited.public.module)
    models = {}
    for i, client in clients.items():
        load_vector(module, stage.audited.public.initial[: dimension(module)].copy())
        optimizer = torch.optim.Adam(module.parameters(), 0.02)
        for _ in range(400):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(module(client.train.x), client.train.y).backward()
            optimizer.step()
        models[i] = to_vector(module)
    evidence = replace(stage.evidence(OUTSIDER), released=models)
    found = FinalModelMembership()(evidence, stage.audited.truth, SPEND, rng)
    assert found.values.mean() > 0.1
    blind = replace(evidence, released=dict.fromkeys(models, stage.audited.public.initial))
    assert abs(FinalModelMembership()(blind, stage.audited.truth, replace(SPEND, victims=9), rng).values.mean()) < 0.3


@pytest.mark.parametrize("text", ["outsider", "OUTSIDER"])
def test_an_outsider_is_named(text):
    assert named(text) == OUTSIDER
    assert OUTSIDER.name == "outsider"
    for wrong in ("outsider+server", "outsider+network"):
        with pytest.raises(ValueError, match=r"an observer is of the network alone, an outsider, or|is an observer of its own"):
            named(wrong)
