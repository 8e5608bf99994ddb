"""Labels of clients whose updates are permuted: found by turns with places, where labels are uneven."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from cloister.crypto.orthonormal import HadamardRotation
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Dirichlet
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Permuted, Plain
from cloister.threat_models.audit.experiment import QUICK
from cloister.threat_models.audit.labels import LabelInference
from cloister.threat_models.audit.observer import SERVER_ALONE, Observer, server_and
from cloister.threat_models.audit.permuted_labels import read_permuted
from cloister.threat_models.audit.stage import Stage, stages
from cloister.threat_models.audit.table import rows
from cloister.threat_models.claims import CLAIMS
from cloister.threat_models.inference.label_regression import total_variation
from cloister.threat_models.inference.permutation_labels import Known, by_sorted_values, permuted_labels

uneven = Scenario(
    name="uneven",
    data=Digits(),
    partition=Dirichlet(clients=12, alpha=0.5),
    model=Mlp(hidden=(32,)),
    training=Training(epochs=3, batch=32, lr=0.1),
    algorithm=FedAvg(by_samples=False),
    protection=Permuted(),
    rounds=4,
)


@cache
def played(protection, seed=0, rounds=4) -> Stage:
    scenario = replace(uneven, protection=protection, rounds=rounds)
    return next(one for one in stages(scenario, [seed], None) if isinstance(one, Stage))


@pytest.mark.trains
@pytest.mark.slow
@pytest.mark.parametrize("keys", ["run", "session"])
def test_the_papers_claim_on_labels_is_refuted(keys):
    claims = [c for c in CLAIMS if c.id == "permuted.labels.server"]
    both = [played(Permuted(keys=keys), seed) for seed in (0, 1)]
    (row,) = rows(both, [SERVER_ALONE], [LabelInference()], claims, QUICK)
    assert row.leakage is not None
    assert row.leakage.valid
    assert row.leakage.value > 0.3
    assert row.claims[0].verdict == "refuted"


def made(rng, clients, flips=False):
    """Updates of two rounds that are linear in labels, of known clients and of others under one permutation."""
    of_labels, usual = rng.normal(size=(2, 4, 60)), rng.normal(size=(2, 1, 60)) * 3

    def updates(histograms):
        return (usual + histograms @ of_labels + 0.02 * rng.normal(size=(2, len(histograms), 60))).astype(np.float32)

    known, own = rng.dirichlet(np.full(4, 0.5), 200), rng.dirichlet(np.full(4, 0.5), clients)
    signs = rng.choice([-1.0, 1.0], 60) if flips else np.ones(60)
    permuted = (updates(own) * signs)[:, :, rng.permutation(60)].astype(np.float32)
    return permuted, own, Known(updates(known), known, np.full(200, 10.0))


@pytest.mark.parametrize("flips", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_where_updates_are_linear_in_labels_they_are_found(seed, flips):
    uploads, own, known = made(np.random.default_rng(seed), 10, flips)
    counts = np.full(10, 10.0)
    guess = permuted_labels(uploads, counts, known, flips)
    first = by_sorted_values(uploads[0], counts, known, flips)
    assert np.allclose(guess.sum(axis=1), 1)
    assert total_variation(guess, own).mean() < 0.08
    assert total_variation(guess, own).mean() < total_variation(first, own).mean()


def test_the_order_of_coordinates_is_of_no_help():
    uploads, _, known = made(np.random.default_rng(0), 10)
    counts, order = np.full(10, 10.0), np.random.default_rng(1).permutation(60)
    again = permuted_labels(uploads[:, :, order], counts, known)
    assert np.allclose(again, permuted_labels(uploads, counts, known), atol=1e-6)


@pytest.mark.trains
@pytest.mark.long
def test_it_takes_permuted_uploads_and_no_seed():
    stage, rng = played(Permuted(), rounds=1), np.random.default_rng(0)
    known = stage.shadow.truth

    def tried(recorded, observer):
        return read_permuted(recorded.seen_by(observer), tuple(range(1, 12)), known, 40, rng)

    assert tried(stage.audited, SERVER_ALONE).shape == (11, 10)
    assert tried(stage.audited, server_and(0)) is None
    assert tried(stage.audited, Observer(clients=frozenset({0}))) is None
    assert tried(stage.clear, SERVER_ALONE) is None
    assert tried(played(Permuted(HadamardRotation), rounds=1).audited, SERVER_ALONE) is None
    assert read_permuted(stage.aggregate.view, tuple(range(12)), known, 40, rng) is None
    assert isinstance(stage.clear.public.protection, Plain)
