"""An audit reads frames as they are: masks that are none, or serve twice, are noticed, and such a protection is refuted."""

from typing import Any

import numpy as np
import pytest

from cloister import Scenario, Training, algorithms, data, models, partitions, protections
from cloister.threat_models.audit.bare_frames import _differences, bare
from cloister.threat_models.audit.estimates import means
from cloister.threat_models.audit.experiment import QUICK
from cloister.threat_models.audit.observer import SERVER_ALONE
from cloister.threat_models.audit.recorder import Recorder
from cloister.threat_models.audit.recovery import UpdateRecovery
from cloister.threat_models.audit.stage import Stage, stages
from cloister.threat_models.audit.table import rows
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


@pytest.mark.trains
@pytest.mark.parametrize("protection", [protections.Masked(corrupt=1), protections.TwoServer()], ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_read_of_uploads_that_are_hidden(protection: Any, seed: int) -> None:
    assert not read(small(protection, seed))[1]


def test_masks_that_serve_twice_show_how_updates_differ() -> None:
    rng = np.random.default_rng(0)
    masks = rng.integers(0, 2**32, (N, 1000), np.uint32)
    updates = rng.standard_normal((2, N, 1000)) + 0.5 * rng.standard_normal((2, 1, 1000))
    uploads = masks + np.round(updates * 2**16).astype(np.int64).astype(np.uint32)
    came: Any = {(t, "update", i): {"vector": uploads[t, i]} for t in range(2) for i in range(N)}
    known: Any = {(t, "update", i): updates[t].mean(0) for t in range(2) for i in range(N)}
    found = _differences(came, known)
    assert len(found) == 2 * N
    for (t, _, i), vector in found.items():
        truth, of = updates[t, i] - updates[t].mean(0), vector - updates[t].mean(0)
        assert truth @ of > 0.6 * np.linalg.norm(truth) * np.linalg.norm(of)
    fresh: Any = {key: {"vector": rng.integers(0, 2**32, 1000, np.uint32)} for key in came}
    assert not _differences(fresh, known)
