"""What the experiments of an audit find where there is something to find, and that they find nothing where there is not."""

from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from cloister import data
from cloister.crypto.orthonormal import HadamardRotation, Permutation, SignedPermutation
from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.emd_cfl import EMDCFL, Gap
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.flic import FLIC
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Dirichlet, LabelSwap
from cloister.fl.data.population import Examples
from cloister.fl.data.source import Digits
from cloister.fl.emd.subsample import Size
from cloister.fl.models.papers import CflCnn, Mlp, initial
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked, Permuted, Plain, TwoServer
from cloister.protocol.pairs.choices import PER_PAIR
from cloister.threat_models.audit import labels
from cloister.threat_models.audit.counts import SampleCounts
from cloister.threat_models.audit.estimates import estimates, means
from cloister.threat_models.audit.experiment import QUICK, Evidence
from cloister.threat_models.audit.experiments import EXPERIMENTS
from cloister.threat_models.audit.hidden_counts import _spread_told, counts_of
from cloister.threat_models.audit.inconsistent import InconsistentModels, Unlike
from cloister.threat_models.audit.labels import LabelInference, honest, read_out
from cloister.threat_models.audit.membership import MembershipInference, alike, comparable, compared
from cloister.threat_models.audit.observer import NETWORK, SERVER_ALONE, Observer, server_and
from cloister.threat_models.audit.participation import Disaggregation
from cloister.threat_models.audit.permuted import KnownModels
from cloister.threat_models.audit.recorder import Recorder, again
from cloister.threat_models.audit.recovery import UpdateRecovery
from cloister.threat_models.audit.stage import Stage, stages
from cloister.threat_models.audit.table import rows
from cloister.threat_models.audit.view import PublishedSum
from cloister.threat_models.inference.crafted_models import silenced

EVERY = CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.74), similarities="every round", remember=False)
WHEN_RIPE = CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.74), remember=False)
SKEWED = Dirichlet(8, 0.5, shared_test=True)
small = Scenario(
    name="small",
    data=Digits(),
    partition=LabelSwap(clients=8, groups=2, pairs=((1, 7), (3, 8)), shared_test=True),
    model=Mlp(hidden=(16,)),
    training=Training(epochs=1, batch=20, lr=0.1),
    algorithm=WHEN_RIPE,
    protection=Masked(),
    rounds=4,
)


@cache
def played(protection=None, algorithm=WHEN_RIPE, skewed=False, rounds=4) -> Stage:
    partition = SKEWED if skewed else small.partition
    chosen = replace(small, protection=protection or Masked(), algorithm=algorithm, partition=partition, rounds=rounds)
    return next(one for one in stages(chosen, [0], None) if isinstance(one, Stage))


def found(experiment, stage, observer=SERVER_ALONE):
    evidence = stage.evidence(observer)
    assert experiment.applies(evidence) == ""
    return experiment(evidence, stage.audited.truth, QUICK, np.random.default_rng(0))


@cache
def once(protection, algorithm, skewed=False, rounds=4):
    """One run alone, which the attacker takes for its own too, and its truth."""
    partition = SKEWED if skewed else small.partition
    chosen = replace(small, protection=protection, algorithm=algorithm, partition=partition, rounds=rounds)
    recorder = Recorder(chosen, None)
    assert len(list(recorder.rounds())) == rounds
    return recorder


def found_once(experiment, recorder):
    view = recorder.seen_by(SERVER_ALONE)
    evidence = Evidence(view, view, recorder.truth, recorder.sums_alone)
    return experiment(evidence, recorder.truth, QUICK, np.random.default_rng(0))


def anchors(experiment, stage):
    """Mean values at either end."""
    low = stage.aggregate if experiment.anchor == "sums alone" else stage.nothing
    pairs = (low, stage.audited), (stage.plain, stage.clear)
    return [float(experiment(e, r.truth, QUICK, np.random.default_rng(0)).values.mean()) for e, r in pairs]


# --- updates ------------------------------------------------------------------------------------------------------------


@pytest.mark.trains
@pytest.mark.long
def test_sums_alone_tell_no_update_and_one_client_opens_permuted_ones():
    assert found(UpdateRecovery(), played()).values.max() < 1e-6
    opened = found(UpdateRecovery(), played(Permuted()), server_and(0))
    assert 0 not in opened.victims
    assert opened.values.min() > 0.95


@pytest.mark.trains
@pytest.mark.long
def test_one_sketch_for_the_whole_run_tells_the_server_updates():
    recorder = once(Masked(keys="run", sketch=1024), EVERY, rounds=20)
    assert found_once(UpdateRecovery(), recorder).values.mean() > 0.2


@pytest.mark.trains
@pytest.mark.parametrize("transform", [Permutation, SignedPermutation, HadamardRotation], ids=lambda t: t.__name__)
def test_models_that_are_given_away_open_permuted_uploads(transform):
    stage = played(Permuted(transform))
    assert found(UpdateRecovery(), stage).values.max() < 1e-6
    assert found(KnownModels(), stage).values.min() > 0.95
    low, high = anchors(KnownModels(), stage)
    assert abs(low) < 1e-6
    assert high > 1 - 1e-6


@pytest.mark.trains
def test_with_a_permutation_for_each_session_it_takes_a_model_of_one_round():
    assert found(KnownModels(), played(Permuted(keys="session"))).values.max() < 1e-6
    assert found(KnownModels(), played(Permuted(keys="session"), rounds=1)).values.min() > 0.95


@pytest.mark.trains
def test_known_models_are_of_use_to_who_gets_transformed_uploads():
    assert "no uploads" in KnownModels().applies(played(Permuted()).evidence(NETWORK))
    assert "secret transform" in KnownModels().applies(played().evidence(SERVER_ALONE))


# --- who took part ------------------------------------------------------------------------------------------------------


@pytest.mark.trains
@pytest.mark.parametrize("observer", [SERVER_ALONE, server_and(0)], ids=lambda o: o.name)
def test_nobody_is_told_apart_where_everybody_takes_part(observer):
    assert found(Disaggregation(), played(), observer).values.max() == 0
    assert anchors(Disaggregation(), played()) == pytest.approx([0, 1])


@pytest.mark.trains
@pytest.mark.long
def test_who_is_away_now_and_then_is_told_apart():
    algorithm = FedAvg(participation=0.5, sampling="random", by_samples=False)
    result = found_once(Disaggregation(), once(Masked(), algorithm, rounds=40))
    assert result.values.mean() > 0.3
    assert np.mean(result.members) > np.mean(result.others) + 0.3


@pytest.mark.trains
def test_two_sums_of_one_round_that_differ_by_a_client_are_its_update():
    stage = played(Plain())
    evidence = stage.evidence(SERVER_ALONE)
    updates, clients = stage.audited.truth.updates, evidence.view.public.clients

    def of(some):
        mean = np.mean([updates[0, "update", i] for i in some], axis=0)
        return PublishedSum(0, "0", "update", dict.fromkeys(some, 1.0), False, "server", float(len(some)), mean=mean)

    sums = [of(clients), of(clients[1:])]
    view = replace(evidence.view, frames=(), sums=sums)
    one_round = replace(stage.audited.truth, updates={key: x for key, x in updates.items() if key[0] == 0})
    known = Evidence(view, view, stage.shadow.truth, replace(view, sums=sums))
    result = Disaggregation()(known, one_round, QUICK, np.random.default_rng(0))
    values = dict(zip(result.victims, result.values, strict=True))
    assert values[0] > 0.99


# --- hidden counts ------------------------------------------------------------------------------------------------------


BY_SAMPLES = replace(WHEN_RIPE, by_samples=True)


@pytest.mark.trains
@pytest.mark.long
def test_totals_of_the_same_clients_tell_no_count():
    stage = played(Masked(floor=2), BY_SAMPLES, True)
    assert all(s.times_samples and s.weight > 0 for s in stage.audited.sums)
    counts = found(SampleCounts(), stage)
    assert abs(counts.values.mean()) < 0.2
    assert anchors(SampleCounts(), stage) == pytest.approx([0, 1])


@pytest.mark.trains
def test_counts_beside_shares_are_read():
    assert found(SampleCounts(), played(TwoServer(floor=2), BY_SAMPLES, True)).values.min() == 1


@pytest.mark.trains
@pytest.mark.long
def test_a_client_s_seed_and_a_gram_matrix_tell_all_counts():
    stage = played(Masked(floor=2), replace(EVERY, by_samples=True), True)
    assert found(SampleCounts(), stage, server_and(0)).values.mean() > 0.95


@pytest.mark.trains
@pytest.mark.long
def test_one_sketch_for_the_whole_run_tells_the_server_counts():
    recorder = once(Masked(floor=2, keys="run", sketch=1024), replace(EVERY, by_samples=True), True, 10)
    assert found_once(SampleCounts(), recorder).values.mean() > 0.5
    assert found_once(UpdateRecovery(), recorder).values.mean() > 0.1  # sums of hidden weights are known by them


@pytest.mark.long
@pytest.mark.trains
def test_totals_of_enough_different_clients_tell_all_counts():
    stage = played(Masked(floor=2), BY_SAMPLES, True)
    evidence = stage.evidence(SERVER_ALONE)
    clients = honest(evidence.view)
    true = np.array([len(stage.audited.truth.population.clients[i].train) for i in clients])
    some = [clients, *(tuple(j for j in clients if j != i) for i in clients)]
    totals = [float(sum(true[list(clients).index(i)] for i in row)) for row in some]
    sums = [
        PublishedSum(t, "0", "update", dict.fromkeys(row, 1.0), True, "server", total)
        for t, (row, total) in enumerate(zip(some, totals, strict=True))
    ]
    view = replace(evidence.view, frames=(), compared=(), sums=sums)
    assert counts_of(view, clients, 10.0, 0.5) == pytest.approx(true, rel=1e-3)


@pytest.mark.trains
def test_masked_sums_that_count_samples_tell_how_unlike_counts_are():
    """Before: as unlike as those of the attacker's own clients, or half of their mean where these all have as many."""
    stage = played(Masked(floor=2), BY_SAMPLES, True)
    true = np.array([len(client.train) for client in stage.audited.truth.population.clients.values()])
    for observer in (SERVER_ALONE, Observer(clients=frozenset({0}))):
        assert _spread_told(stage.evidence(observer).view) == pytest.approx(true.std() / true.mean(), rel=1e-3)
    assert _spread_told(played().evidence(SERVER_ALONE).view) == 0


@pytest.mark.trains
def test_there_is_nothing_to_find_of_equal_counts():
    assert "do not count" in SampleCounts().applies(played(None, WHEN_RIPE, True).evidence(SERVER_ALONE))


@pytest.mark.trains
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_of_a_single_honest_client_labels_are_guessed_by_no_other():
    """Before: warnings of means of empty slices, and numbers that are none."""
    two = replace(small, partition=replace(small.partition, clients=2), algorithm=FedAvg(by_samples=False), protection=Plain())
    stage = next(one for one in stages(replace(two, rounds=1), [0], None) if isinstance(one, Stage))
    assert np.isfinite(found(LabelInference(), stage, Observer(clients=frozenset({0}))).values).all()


# --- unlike models ------------------------------------------------------------------------------------------------------


@pytest.mark.trains
def test_clients_under_masked_sums_refuse_unlike_models_and_name_the_server():
    result = found(InconsistentModels(), played())
    assert result.values.max() == 0
    assert list(result.figures.values()) == [1.0]
    assert anchors(InconsistentModels(), played()) == pytest.approx([0, 1], abs=1e-3)


@pytest.mark.trains
@pytest.mark.long
def test_two_servers_refuse_it_too():
    """The second one takes shares of one and the same model only."""
    assert found(InconsistentModels(), played(TwoServer())).values.max() < 0.1


@pytest.mark.trains
@pytest.mark.long
def test_a_lie_that_ends_the_run_tells_what_was_sent_until_then():
    """Embeddings by a silenced model are all alike, and what clients are compared by cannot be calibrated."""
    of = replace(small, algorithm=EMDCFL(eps=Gap(), choice=PER_PAIR, size=Size(20)), protection=Plain(), validation=0.3)
    view = Recorder(of, None)
    list(view.rounds())
    dead = silenced(view.public.module)
    tap = Unlike(np.concatenate([dead, view.public.initial[len(dead) :]]), 0, view.public.kinds)
    with pytest.raises(ValueError, match="reference distances"):
        next(Recorder(replace(of, faults=tap, rounds=1), None).rounds())
    once = again(of, None, tap)
    assert {i for _, _, i in once.updates} == set(view.public.clients)
    assert not once.sums


@pytest.mark.trains
def test_unlike_models_need_a_server_that_has_models_and_layers_that_can_be_silenced():
    why = InconsistentModels().applies
    assert "own the models" in why(played(Permuted()).evidence(SERVER_ALONE))
    assert "hands out no models" in why(played().evidence(Observer(clients=frozenset({0, 1}))))
    evidence = played().evidence(SERVER_ALONE)
    public = replace(evidence.view.public, module=initial(CflCnn(), (1, 28, 28), 10, 0))
    assert "only models of linear layers" in why(replace(evidence, view=replace(evidence.view, public=public)))


# --- labels and members -------------------------------------------------------------------------------------------------


@pytest.mark.trains
@pytest.mark.parametrize("protection", [Masked(), Permuted(), Plain()], ids=lambda p: type(p).__name__)
@pytest.mark.long
def test_where_labels_are_even_no_guess_is_worse_than_the_prior(protection):
    stage = played(protection)
    known, truth = stage.shadow.truth, stage.audited.truth
    usual = np.mean([known.histogram(i) for i in range(8)], axis=0)
    prior = np.mean([1 - np.abs(usual - truth.histogram(i)).sum() / 2 for i in range(8)])
    assert found(LabelInference(), stage).values.mean() > prior - 0.02


@pytest.mark.trains
@pytest.mark.long
def test_labels_are_found_in_clear_and_not_in_sums():
    stage = played(Masked(), skewed=True)
    low, high = anchors(LabelInference(), stage)
    assert high > low + 0.1
    assert found(LabelInference(), stage).values.mean() == pytest.approx(low, abs=0.02)


@pytest.mark.trains
def test_equal_estimates_are_read_once(monkeypatch):
    evidence = played().evidence(SERVER_ALONE)
    called = Counter()
    inner = labels.labels_from_layer

    def counting(module, update, public, classes):
        called[update.tobytes()] += 1
        return inner(module, update, public, classes)

    monkeypatch.setattr(labels, "labels_from_layer", counting)
    read_out(evidence.view, honest(evidence.view), evidence.estimated(evidence.view))
    assert 0 < called.total() <= len({v.astype(np.float32).tobytes() for v in means(evidence.view).values()})


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("skewed", [False, True])
def test_members_are_compared_with_others_of_the_same_labels(skewed):
    truth = played(skewed=skewed).audited.truth
    for i in range(8):
        records, count = compared(truth, i, 60, np.random.default_rng(i))
        assert len(records) == 2 * count
        own, other = (torch.bincount(y, minlength=10) for y in (records.y[:count], records.y[count:]))
        assert torch.equal(own, other)
        trained = {x.numpy().tobytes() for x in truth.population.clients[i].train.x}
        assert all(x.numpy().tobytes() in trained for x in records.x[:count])


@pytest.mark.trains
def test_others_are_of_any_label_where_there_are_none_of_the_same():
    truth = played().audited.truth
    zeros = Examples(truth.outside.x, torch.zeros_like(truth.outside.y))
    nowhere = replace(truth, outside=Examples(zeros.x[:30], zeros.y[:30]))
    own = nowhere.population.clients[0].train
    client = replace(nowhere.population.clients[0], train=own.take(torch.nonzero(own.y > 0)[:, 0]), test=nowhere.outside)
    some = replace(nowhere.population, clients={**nowhere.population.clients, 0: client})
    records, count = compared(replace(nowhere, population=some), 0, 60, np.random.default_rng(0))
    assert count == 30
    assert bool((records.y[:count] > 0).all())
    assert not bool((records.y[count:] > 0).any())


@pytest.mark.trains
def test_records_are_held_against_those_of_their_own_kind_however_few_and_never_against_others():
    """A victim with fewer than eight of its own left was held against records of another kind: "97 %" was no member's."""
    truth = played().audited.truth
    clients = truth.population.clients
    apart = torch.arange(20.0).reshape(20, *[1] * (truth.outside.x.ndim - 1)).expand(20, *truth.outside.x.shape[1:])
    of = {i: Examples((apart + 100 * i).contiguous(), torch.arange(20) % 2) for i in clients}  # no two records are the same
    left = [of[i].take(torch.arange(5)) for i in clients if i]
    outside = Examples(torch.cat([one.x for one in left]), torch.cat([one.y for one in left]))
    population = replace(truth.population, clients={i: replace(client, test=of[i]) for i, client in clients.items()})
    natural = replace(truth, outside=outside, population=population)
    assert comparable(natural, [*clients]) == tuple(i for i in clients if i), "of the first there is nothing left to compare with"
    assert torch.equal(outside.x[alike(natural, 1)], of[1].x[:5])
    elsewhere = replace(natural, outside=truth.outside)
    assert len(alike(elsewhere, 0)) == len(truth.outside), "those that are nobody's tests are of all kinds"


@pytest.mark.trains
@pytest.mark.long
def test_members_are_told_in_clear_alone():
    longer = replace(small, training=Training(epochs=4, batch=10, lr=0.2), partition=SKEWED, rounds=2)
    stage = next(one for one in stages(longer, [0], None) if isinstance(one, Stage))
    low, high = anchors(MembershipInference(), stage)
    assert low < 0.2
    assert high > low + 0.1


# --- tables -------------------------------------------------------------------------------------------------------------


@pytest.mark.trains
def test_rows_say_what_they_are_measured_from():
    one = [e for e in EXPERIMENTS if e.name in ("updates", "disaggregation")]
    for row in rows([played()], [SERVER_ALONE], one, (), QUICK):
        plain = row.as_dict()
        assert plain["anchor"] == ("chance" if row.experiment == "disaggregation" else "sums alone")
        assert list(plain["values"]) == ["here", plain["anchor"], "everything"]


@pytest.mark.trains
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_counts_are_guessed_where_updates_vanish():
    """Products and energies of no update are no equations: an audit ended in "Residuals are not finite"."""
    x = np.random.default_rng(0).normal(size=(180, 2)).astype(np.float32)
    own = {str(k): (x[k::6], (x[k::6].sum(1) > 0).astype(int)) for k in range(6)}
    still = Scenario(
        name="still", data=data.from_datasets(own), model=Mlp(hidden=(3,)), training=Training(epochs=1, batch=10, lr=1e-9),
        algorithm=FLIC(rounds_before=1, by_samples=True), protection=Masked(), rounds=2,
    )  # fmt: skip
    (stage,) = [one for one in stages(still, [0], None) if isinstance(one, Stage)]
    views = [run.seen_by(whose) for run in (stage.audited, stage.shadow) for whose in (SERVER_ALONE, server_and(0))]
    for view in views:
        honest = sorted(set(view.public.clients) - view.held.keys())
        assert np.isfinite(counts_of(view, honest, 1.0, 0.5)).all()
        assert all(np.isfinite(one.vector).all() for one in estimates(view).values())
