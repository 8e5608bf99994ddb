"""Members told by shadow models: above what losses tell where records are learned by heart, and not from sums."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Dirichlet
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import CflCnn, Mlp, initial
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked
from cloister.threat_models.audit.experiment import QUICK
from cloister.threat_models.audit.membership import MembershipInference, tried
from cloister.threat_models.audit.observer import SERVER_ALONE
from cloister.threat_models.audit.record_scores import ByGradient, by_lira, by_loss, by_rmia, over_rounds, scores_for
from cloister.threat_models.audit.scoring import auc, tpr_at
from cloister.threat_models.audit.stage import Stage, stages

RECORDS = 20


def few(source, rng):
    """Clients of so many records."""
    whole = Dirichlet(clients=12, alpha=0.5, shared_test=True)(source, rng)
    of = {i: replace(c, train=c.train.take(torch.arange(RECORDS))) for i, c in whole.clients.items()}
    return replace(whole, clients=of)


by_heart = Scenario(
    name="by heart",
    data=Digits(),
    partition=few,
    model=Mlp(hidden=(32,)),
    training=Training(epochs=20, batch=10, lr=0.3),
    algorithm=FedAvg(by_samples=False),
    protection=Masked(),
    rounds=1,
)


@cache
def played() -> Stage:
    return next(one for one in stages(by_heart, [0], None) if isinstance(one, Stage))


def told(evidence, truth, score):
    """Mean area of all twelve clients, and the rate of members found at 1 % false alarms."""
    sides = tried(evidence, evidence.view, truth, range(12), score, QUICK, np.random.default_rng(0))
    area = float(np.mean([auc(m, o).value for m, o in zip(*sides, strict=True)]))
    return area, tpr_at(0.01, *map(np.concatenate, sides)).value


@pytest.mark.trains
@pytest.mark.parametrize("score", [by_lira, by_rmia], ids=lambda s: s.__name__)
@pytest.mark.long
def test_shadow_models_tell_members_where_losses_hardly_do_and_not_from_sums(score):
    stage = played()
    clear, truth = stage.plain, stage.clear.truth
    loss, found = told(clear, truth, by_loss), told(clear, truth, score)
    assert found[0] > 0.75 > loss[0] + 0.05
    assert found[1] > loss[1] + 0.05
    masked = told(stage.evidence(SERVER_ALONE), stage.audited.truth, score)
    assert masked == told(stage.aggregate, stage.audited.truth, score)
    assert abs(masked[0] - 0.5) < 0.1


@pytest.mark.trains
@pytest.mark.long
def test_the_audit_takes_the_score_that_tells_most_and_masked_falls_to_the_sums():
    stage = played()

    def value(evidence, truth):
        return MembershipInference()(evidence, truth, QUICK, np.random.default_rng(0)).values.mean()

    alone, clear = value(stage.aggregate, stage.audited.truth), value(stage.plain, stage.clear.truth)
    assert clear > alone + 0.2
    assert value(stage.evidence(SERVER_ALONE), stage.audited.truth) == alone


@pytest.mark.trains
def test_every_record_is_in_half_of_the_shadow_models():
    public = played().audited.public
    records, seen = public.auxiliary.take(torch.arange(9)), []

    def kept(inside, shadow, target):
        seen.append(inside)
        assert len(shadow) == len(inside) == 6
        return np.zeros(len(records))

    pairs = [(t, public.initial, np.zeros_like(public.initial)) for t in range(2)]
    assert not over_rounds(public, pairs, records, 6, np.random.default_rng(0), kept).any()
    assert len(seen) == 2
    assert all((inside.sum(axis=0) == 3).all() for inside in seen)


@pytest.mark.trains
def test_what_would_take_too_long_is_not_tried():
    public = played().audited.public
    loss, gradient, *shadows = scores_for(public)
    assert (loss, type(gradient), shadows) == (by_loss, ByGradient, [by_lira, by_rmia])
    assert scores_for(replace(public, module=initial(Mlp((4000,)), (1, 8, 8), 10, 0))) == (by_loss,)
    loss, gradient = scores_for(replace(public, module=initial(CflCnn(), (1, 28, 28), 10, 0)))
    assert (loss, type(gradient)) == (by_loss, ByGradient)
