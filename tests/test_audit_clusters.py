"""Who can tell which clients share a cluster: their members and whoever watches, and not the dealer."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import LabelSwap
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked, Plain, TwoServer
from cloister.protocol.core.link import Frame
from cloister.protocol.core.session import DEALER, SECOND_SERVER, SERVER
from cloister.threat_models.audit.clusters import ClusterInference, read, watched
from cloister.threat_models.audit.experiment import QUICK, Evidence
from cloister.threat_models.audit.observer import NETWORK, SERVER_ALONE, Observer
from cloister.threat_models.audit.recorder import Recorder
from cloister.threat_models.audit.view import CorruptView
from cloister.threat_models.claims import CLAIMS

ONE = Observer(clients=frozenset({0}))
splitting = Scenario(
    name="splitting",
    data=Digits(),
    partition=LabelSwap(clients=9, groups=3, pairs=((1, 7), (3, 8), (4, 9)), shared_test=True),
    model=Mlp(hidden=(16,)),
    training=Training(epochs=2, batch=10, lr=0.1),
    algorithm=CFL(thresholds=ScaleFree(eps1=0.9, eps2=0.01), patience=1, remember=False),
    protection=Masked(),
    rounds=4,
)


@cache
def played(protection):
    recorder = Recorder(replace(splitting, protection=protection), None)
    assert len(list(recorder.rounds())) == 4
    assert len({s.cluster for s in recorder.sums}) > 1
    return recorder.recorded


def found(protection, observer):
    recorded = played(protection)
    view = recorded.seen_by(observer)
    evidence = Evidence(view, view, recorded.truth, recorded.sums_alone)
    assert ClusterInference().applies(evidence) == ""
    return ClusterInference()(evidence, recorded.truth, QUICK, np.random.default_rng(0))


@pytest.mark.trains
@pytest.mark.parametrize("protection", [Plain(), Masked(), TwoServer(floor=2)], ids=lambda p: type(p).__name__)
def test_a_client_knows_who_is_with_it(protection):
    result = found(protection, ONE)
    near = {i for s in played(protection).sums if s.round == 3 and 0 in s.row for i in s.row} - {0}
    assert near
    assert all(v == 1 for i, v in zip(result.victims, result.values, strict=True) if i in near)
    assert result.values.min() >= 0


@pytest.mark.trains
def test_whoever_helps_to_sum_or_watches_knows_all_and_the_dealer_nobody():
    protection = TwoServer(floor=2)
    assert found(protection, Observer(frozenset({SECOND_SERVER}))).values.min() == 1
    assert not found(protection, Observer(frozenset({DEALER}))).values.any()
    assert found(Masked(), NETWORK).values.min() == 1


@pytest.mark.trains
def test_the_server_decides_it_and_one_cluster_has_no_others():
    recorded = played(Masked())
    view = recorded.seen_by(SERVER_ALONE)
    why = ClusterInference().applies
    assert "decides" in why(Evidence(view, view, recorded.truth, recorded.sums_alone))
    one = replace(recorded.sums_alone, sums=[s for s in recorded.sums if s.round == 0])
    client = recorded.seen_by(ONE)
    assert "no two clusters" in why(Evidence(client, client, recorded.truth, one))


@pytest.mark.trains
def test_nothing_seen_is_no_rank():
    recorded = played(Masked())
    view = CorruptView(ONE, recorded.public)
    assert not read(view).any()
    assert not watched(view).any()


@pytest.mark.trains
def test_who_watches_goes_by_kind_length_and_order():
    """Of six clients whose frames come in two lots of one length each."""
    public = replace(played(Masked()).public, clients=tuple(range(6)))

    def frames(*clients, length):
        return [Frame(k, i, SERVER, "MaskedInput", bytes(length)) for k, i in enumerate(clients)]

    lots = [*frames(0, 2, 4, length=8), *frames(1, 3, 5, length=9)] * 2
    ranks = watched(CorruptView(NETWORK, public, lots))
    assert all(
        ranks[i, j] > ranks[i, k] for i in range(6) for j in range(6) for k in range(6) if (i - j) % 2 == 0 and (i - k) % 2
    )
    alike = [*frames(0, 2, 4, length=8), *frames(1, 3, 5, length=8)] * 2  # of one length: where ids fall another cluster begins
    assert np.array_equal(watched(CorruptView(NETWORK, public, alike)) > 0, ranks > 0)
    mixed = watched(CorruptView(NETWORK, public, frames(*range(6), length=8) * 2))
    assert len(np.unique(mixed)) == 1


def test_the_dealer_alone_is_claimed_to_find_nothing():
    (claim,) = [c for c in CLAIMS if c.experiment == "clusters"]
    assert claim.id == "two_servers.clusters.dealer"
    assert claim.statement.endswith("than chance does")
