"""What an audit makes of embeddings that clients show to be compared, and of decryptions under the clients' key."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.emd_cfl import EMDCFL
from cloister.fl.algorithms.pacfl import PACFL
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Iid, LabelSwap, Rotation
from cloister.fl.data.population import Client, Population
from cloister.fl.data.source import Digits
from cloister.fl.emd.distances import Euclidean, ExactEmd, MeanDistance
from cloister.fl.emd.subsample import Size
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Encrypted, Masked, Plain
from cloister.protocol.pairs.choices import DISTANCES, ORTHONORMAL, Distances, MeanSketch
from cloister.protocol.pairs.noise import one_release
from cloister.threat_models.audit import ckks
from cloister.threat_models.audit.ckks import CkksKeyRecovery
from cloister.threat_models.audit.clouds import clouds, reported
from cloister.threat_models.audit.embedding_models import Networks, true_weights
from cloister.threat_models.audit.embeddings import ERROR, EmbeddingInference
from cloister.threat_models.audit.estimates import estimates
from cloister.threat_models.audit.experiment import QUICK
from cloister.threat_models.audit.observer import SERVER_ALONE, Observer, server_and
from cloister.threat_models.audit.record_labels import named
from cloister.threat_models.audit.recorder import Recorder
from cloister.threat_models.audit.shares_of_labels import LabelShares
from cloister.threat_models.audit.stage import Stage, stages
from cloister.threat_models.audit.table import rows
from cloister.threat_models.claims import CLAIMS

from .projection_sample import public_network

CLIENT_ALONE = Observer(clients=frozenset({0}))
BUDGET = replace(QUICK, victims=4)
WIDE = 64


def compared(choice, protection, **changes):
    """Six clients in two groups, compared once."""
    distance = MeanDistance(Euclidean()) if isinstance(choice, MeanSketch) else ExactEmd()
    known = {
        "name": "compared",
        "data": Digits(),
        "partition": Rotation(clients=6, angles=(0, 90), replicated=True),
        "model": Mlp(hidden=(WIDE,)),
        "training": Training(epochs=5, batch=20, lr=0.1),
        "algorithm": EMDCFL(eps=0.05, choice=choice, distance=distance, by_samples=False, public=changes.pop("public", None)),
        "protection": protection,
        "rounds": 1,
        "validation": 0.2,
    }
    return Scenario(**{**known, **changes})


def played(scenario):
    recorder = Recorder(scenario, None)
    list(recorder.rounds())
    return recorder


def audited(scenario, observers, experiment):
    """By observer."""
    staged = [s for s in stages(scenario, [0], None) if isinstance(s, Stage)]
    found = rows(staged, observers, [experiment], CLAIMS, BUDGET)
    return {row.observer: row for row in found if row.experiment == experiment.name}


# --- clouds -----------------------------------------------------------------------------------------------------------------


@pytest.mark.trains
def test_a_client_of_the_pair_brings_the_projection_and_the_model():
    recorder = played(compared(ORTHONORMAL, Masked()))
    truth, networks = recorder.truth, Networks(recorder.public)
    alone = list(clouds(recorder.seen_by(SERVER_ALONE)))
    assert len(alone) == 6 * 5
    assert all(cloud.projection is None and cloud.model is None for cloud in alone)
    assert list(clouds(recorder.seen_by(CLIENT_ALONE))) == []
    known = [cloud for cloud in clouds(recorder.seen_by(server_and(0))) if cloud.projection is not None]
    assert sorted(cloud.client for cloud in known) == [1, 2, 3, 4, 5]
    for cloud in known:
        weights = true_weights(networks, truth, cloud.client)
        np.testing.assert_array_equal(cloud.model, weights)
        embeddings = networks(truth.compared[cloud.client].x, weights)
        np.testing.assert_allclose(embeddings @ cloud.projection, cloud.rows, atol=1e-3)


@pytest.mark.trains
def test_where_clients_measure_the_other_client_has_the_embeddings_and_the_server_two_numbers():
    recorder = played(compared(DISTANCES, Masked()))
    truth, networks = recorder.truth, Networks(recorder.public)
    alone = recorder.seen_by(SERVER_ALONE)
    assert list(clouds(alone)) == []
    assert len(reported(alone)) == 6 * 5
    shown = list(clouds(recorder.seen_by(CLIENT_ALONE)))
    assert sorted(cloud.client for cloud in shown) == [1, 2, 3, 4, 5]
    own = true_weights(networks, truth, 0)
    for cloud in shown:
        np.testing.assert_allclose(cloud.rows, networks(truth.compared[cloud.client].x, own), atol=1e-4)


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("choice", [ORTHONORMAL, DISTANCES], ids=["per pair", "distances"])
def test_a_model_that_is_shown_to_be_embedded_by_is_the_update_but_for_its_head(choice):
    recorder = played(compared(choice, Masked()))
    embeds = 64 * WIDE + WIDE
    for observer in (server_and(0), CLIENT_ALONE):
        shown = {i: e for (t, _, i), e in estimates(recorder.seen_by(observer)).items() if e.how == "shown" and t == 0}
        assert sorted(shown) == [1, 2, 3, 4, 5]
        for i, estimate in shown.items():
            update = recorder.updates[0, "update", i]
            np.testing.assert_allclose(estimate.vector[:embeds], update[:embeds], atol=1e-6)
            assert len(estimate.vector) == len(update)
    assert not [e for e in estimates(recorder.seen_by(SERVER_ALONE)).values() if e.how == "shown"]
    public = played(compared(replace(choice, embedding="public"), Masked()))
    assert not [e for e in estimates(public.seen_by(server_and(0))).values() if e.how == "shown"]


# --- labels of records --------------------------------------------------------------------------------------------------------


def test_a_row_has_the_label_of_the_nearest():
    public = np.array([[0.0, 0.0], [0.1, 0.0], [0.0, 0.1], [9.0, 9.0], [9.1, 9.0], [9.0, 9.1]])
    labels = np.array([3, 3, 3, 7, 7, 7])
    assert named(np.array([[1.0, 1.0], [8.0, 8.0]]), public, labels).tolist() == [3, 7]


@pytest.mark.trains
@pytest.mark.parametrize("protection", [Plain(), Masked()], ids=repr)
@pytest.mark.long
def test_what_the_paper_claims_of_projected_embeddings_is_refuted(protection):
    observers = (SERVER_ALONE, server_and(0), CLIENT_ALONE)
    (stage,) = (s for s in stages(compared(ORTHONORMAL, protection), [0], None) if isinstance(s, Stage))
    found = {row.observer: row for row in rows([stage], observers, [EmbeddingInference()], CLAIMS, BUDGET) if row.leakage}
    server, both, client = (found[observer.name] for observer in observers)
    assert {c.claim.id: c.verdict for c in server.claims}["emd.embeddings.server"] == "refuted"
    assert server.leakage.aggregate == 0 < 0.75 < server.leakage.plain
    assert both.leakage.value > 0.95
    own = EmbeddingInference()(stage.evidence(server_and(0)), stage.audited.truth, BUDGET, np.random.default_rng(0))
    assert own.figures[ERROR] < 0.1  # that of a row is of whoever names labels best, and the server alone may do so
    assert client.leakage.value == 0


@pytest.mark.long
@pytest.mark.trains
def test_clouds_of_too_few_rows_are_not_matched():
    scenario = compared(ORTHONORMAL, Plain())
    few = replace(scenario, algorithm=replace(scenario.algorithm, size=Size(6)))
    found = audited(few, (SERVER_ALONE, server_and(0)), EmbeddingInference())
    assert found["server"].leakage.value == 0
    assert found["server and client 0"].leakage.value > 0.95


@dataclass(frozen=True)
class MostlyOneLabel:
    """Client i has 60 examples of label i, and 40 of all labels."""

    clients: int = 10

    def __call__(self, source, rng):
        y, found = source.train.y.numpy(), {}
        for i in range(self.clients):
            own = rng.permutation(np.flatnonzero(y == i))[:60]
            others = rng.permutation(np.flatnonzero(y != i))[:40]
            found[i] = Client(i, source.train.take(torch.from_numpy(np.concatenate([own, others]))), source.test)
        return Population(found, dict.fromkeys(found, 0), source.classes, source.shape)


def labelled(scenario, *observers):
    """Leakage of label shares, by observer; of single records there is nothing that could be measured."""
    staged = [s for s in stages(scenario, [0], None) if isinstance(s, Stage)]
    found = list(rows(staged, observers, [LabelShares(), EmbeddingInference()], CLAIMS, BUDGET))
    single = [row for row in found if row.experiment == EmbeddingInference().name]
    assert all(row.leakage is None and "nothing of single records" in row.reason for row in single)
    assert [judged.claim.id for row in found for judged in row.claims if judged.verdict == "not refuted"] == []
    return [row.leakage for row in found if row.experiment == LabelShares().name]


@pytest.mark.trains
@pytest.mark.long
def test_a_mean_tells_the_shares_of_labels_as_far_as_its_noise_lets_it():
    """Noise for one record does not hide what a client's records have in common."""
    network = public_network(Digits()(None), WIDE, epochs=20, count=300)
    shares = {}
    for epsilon in (0.01, 1e6):
        noise = one_release(epsilon, 1e-5, clip=30.0, coordinates=57, nonnegative=True, budget=1e7, acknowledge=("sums",))
        scenario = compared(MeanSketch(noise=noise), Masked(floor=2), public=network, partition=MostlyOneLabel(), validation=0.0)
        shares[epsilon] = labelled(scenario, SERVER_ALONE, server_and(0))
    for found in shares.values():
        assert all(leak.plain == 1 and leak.valid for leak in found)
    told, hidden = shares[1e6][1], shares[0.01][1]
    assert told.low > 0.5 > 0.1 > hidden.value
    few = replace(scenario, algorithm=replace(scenario.algorithm, size=Size(2)))
    assert labelled(few, server_and(0))[0].low > 0.1


@dataclass(frozen=True)
class OneLabel:
    """Client i has 80 examples of label i."""

    clients: int = 10

    def __call__(self, source, rng):
        y = source.train.y.numpy()
        own = {i: torch.from_numpy(rng.permutation(np.flatnonzero(y == i))[:80]) for i in range(self.clients)}
        found = {i: Client(i, source.train.take(at), source.test) for i, at in own.items()}
        return Population(found, dict.fromkeys(found, 0), source.classes, source.shape)


@pytest.mark.trains
@pytest.mark.long
def test_distances_tell_the_server_the_labels_of_clients_that_have_one():
    network = public_network(Digits()(None), WIDE, epochs=20, count=300)
    choice = Distances(embedding="public")
    scenario = compared(choice, Masked(floor=2), public=network, partition=OneLabel())
    (leak,) = labelled(scenario, SERVER_ALONE)
    assert leak.low > 0.5


@pytest.mark.trains
def test_runs_without_embeddings_of_records_are_not_covered():
    split = CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.74), similarities="when ripe", remember=False)
    for algorithm, why in ((split, "not compared by embeddings"), (PACFL(beta=40.0), "all their records together")):
        scenario = compared(ORTHONORMAL, Plain(), algorithm=algorithm, partition=Iid(clients=3))
        (row,) = audited(scenario, [SERVER_ALONE], EmbeddingInference()).values()
        assert why in row.reason
        assert row.leakage is None
    (row,) = audited(scenario, [SERVER_ALONE], CkksKeyRecovery()).values()
    assert "nothing is encrypted" in row.reason


# --- the key of CKKS ------------------------------------------------------------------------------------------------------------

encrypted = Scenario(
    name="encrypted",
    data=Digits(),
    partition=LabelSwap(clients=4, groups=2, pairs=((1, 7), (3, 8)), shared_test=True),
    model=Mlp(hidden=(8,)),
    training=Training(epochs=1, batch=20, lr=0.1),
    algorithm=CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.74), similarities="every round", remember=False),
    protection=Encrypted(),
    rounds=1,
)


@pytest.mark.trains
@pytest.mark.long
def test_the_key_follows_from_exact_decryptions_and_not_from_what_the_server_is_told():
    found = audited(encrypted, (SERVER_ALONE, server_and(0), CLIENT_ALONE), CkksKeyRecovery())
    server, both, client = found.values()
    assert (server.leakage.here, server.leakage.aggregate, server.leakage.plain) == (0, 0, 1)
    assert [(c.claim.id, c.verdict) for c in server.claims] == [("ckks.ckks-key.server", "inconclusive")]  # of one run
    assert both.leakage.value == 1
    assert client.leakage.value == 0


@pytest.mark.trains
@pytest.mark.long
def test_a_key_that_followed_from_scores_would_open_every_sketch(monkeypatch):
    recorder = played(encrypted)
    view = recorder.seen_by(SERVER_ALONE)
    assert len(list(ckks.told(view))) == 1
    assert ckks.sketched(view, recorder.truth) == {}
    key = ckks.key_from_decryptions(recorder.seen_by(server_and(0, 1, 2, 3)), "products", np.random.default_rng(0))
    monkeypatch.setattr(ckks, "recovered_key", lambda *_: key)
    assert ckks.sketched(view, recorder.truth) == dict.fromkeys(range(4), True)
    monkeypatch.setattr(ckks, "recovered_key", lambda *_: np.roll(key, 1))
    assert not any(ckks.sketched(view, recorder.truth).values())
