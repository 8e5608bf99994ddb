"""An audit reads frames as they are: updates that nothing hides are noticed, and such a protection is refuted."""

from typing import Any

import numpy as np
import pytest

from cloister import Scenario, Training, algorithms, data, models, partitions, protections
from cloister.threat_models.audit.bare_frames import _crowded, bare
from cloister.threat_models.audit.estimates import Estimate, means
from cloister.threat_models.audit.experiment import QUICK, Evidence
from cloister.threat_models.audit.observer import SERVER_ALONE
from cloister.threat_models.audit.recorder import Recorder
from cloister.threat_models.audit.recovery import UpdateRecovery, noticed
from cloister.threat_models.audit.stage import Stage, stages
from cloister.threat_models.audit.table import rows
from cloister.threat_models.audit.view import CorruptView, PublishedSum
from cloister.threat_models.claims import CLAIMS

N = 8


def small(protection: Any, seed: int = 0) -> Scenario:
    return Scenario(
        name="small",
        data=data.Digits(),
        partition=partitions.Dirichlet(clients=N, alpha=0.5),
        model=models.Mlp(hidden=(8,)),
        training=Training(epochs=1, batch=32, lr=0.1),
        algorithm=algorithms.FedAvg(by_samples=False),
        protection=protection,
        rounds=3,
        seed=seed,
    )


def read(scenario: Scenario) -> tuple[Recorder, dict[Any, Any]]:
    recorder = Recorder(scenario, None)
    list(recorder.rounds())
    view = recorder.seen_by(SERVER_ALONE)
    return recorder, dict(bare(view, means(view)))


def unmasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloister.protocol.masked.terms.add_masks", lambda total, keys: None)


def unshared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloister.crypto.additive._uniform", lambda key, *shape: np.zeros(shape, np.uint64))


BROKEN = [(protections.Masked(corrupt=1), unmasked), (protections.TwoServer(), unshared)]


@pytest.mark.trains
@pytest.mark.parametrize(("protection", "broken"), BROKEN, ids=["Masked", "TwoServer"])
@pytest.mark.long
def test_uploads_that_nothing_hides_are_read_and_the_claim_is_refuted(
    protection: Any, broken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    recorder, found = read(small(protection))
    assert len(found) == 3 * N
    for key, vector in found.items():
        truth = recorder.updates[key].astype(np.float64)
        assert np.linalg.norm(vector - truth) < 0.6 * np.linalg.norm(truth)
    played = [one for one in stages(small(protection), [0, 1], None) if isinstance(one, Stage)]
    row = next(row for row in rows(played, [SERVER_ALONE], [UpdateRecovery()], CLAIMS, QUICK) if row.leakage)
    assert row.leakage is not None
    assert row.leakage.value > 0.5
    assert [judged.verdict for judged in row.claims] == ["refuted"]
    assert "stands in its frames as it is" in row.claims[0].witness


@pytest.mark.trains
@pytest.mark.parametrize("protection", [protections.Masked(corrupt=1), protections.TwoServer()], ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_read_of_uploads_that_are_hidden(protection: Any, seed: int) -> None:
    assert not read(small(protection, seed))[1]


def test_a_bare_estimate_that_one_number_makes_refutes_nothing() -> None:
    """As random bytes that are read as floating point numbers: their largest is all of them."""
    mean, vector = np.full(400, 0.01), np.zeros(400)
    mean[0], vector[0] = 1.0, 1e38
    vector[1:] = np.random.default_rng(0).standard_normal(399)
    seen = Evidence(view_of(mean), *[None] * 3)  # type: ignore[arg-type]
    assert not noticed(seen, {(0, "update", 1): Estimate(vector, "bare")})
    flat = np.full(400, 0.01)
    seen = Evidence(view_of(flat), *[None] * 3)  # type: ignore[arg-type]
    assert noticed(seen, {(0, "update", 1): Estimate(flat, "bare")})
    assert not noticed(seen, {(0, "update", 1): Estimate(flat, "mean")})


def view_of(mean: Any) -> CorruptView:
    published = PublishedSum(0, "0", "update", {1: 1.0, 2: 1.0}, False, "server", 2.0, None, mean.astype(np.float32))
    return CorruptView(SERVER_ALONE, None, sums=[published])  # type: ignore[arg-type]


def test_few_numbers_are_no_sample_of_a_ring() -> None:
    rng = np.random.default_rng(0)
    assert not any(_crowded(rng.integers(0, 2**32, n, np.uint32)) for n in range(1, 80) for _ in range(100))
