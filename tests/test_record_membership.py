"""Membership of records: from a client's updates, and by the likelihood ratios of LiRA and RMIA from confidences."""

from typing import Any

import numpy as np
import pytest
import torch

from cloister.fl.clients.fast import Fast
from cloister.fl.clients.training import Job, Training, full_gradient
from cloister.fl.data.partition import Dirichlet
from cloister.fl.data.population import Examples
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import CflCnn, Mlp, initial
from cloister.fl.models.vector import load_vector, to_vector
from cloister.threat_models.inference.membership_scores import auc, interval, tpr_at
from cloister.threat_models.inference.record_membership import (
    KEPT,
    Spans,
    alignment,
    lira_offline,
    lira_online,
    logit_scaled,
    loss_scores,
    mean_where,
    normal_log,
    of_records,
    rmia,
)
from cloister.threat_models.inference.shadow_models import confidences, train_shadows

SHADOW = np.array(
    [
        [0.853, 0.909, 0.705, 0.152, 0.931],
        [0.763, 0.642, 0.339, 0.975, 0.548],
        [0.620, 0.567, 0.973, 0.321, 0.646],
        [0.778, 0.926, 0.140, 0.711, 0.917],
        [0.846, 0.054, 0.800, 0.946, 0.754],
        [0.084, 0.889, 0.859, 0.674, 0.222],
    ]
)
INSIDE = (np.arange(6)[:, None] + np.arange(5)[None]) % 2 == 0
TARGET = np.array([0.95, 0.31, 0.88, 0.62, 0.07])
OTHERS = np.array([0.9, 0.2, 0.55, 0.71, 0.33, 0.48, 0.97, 0.12])
OTHERS_SHADOW = np.array(
    [
        [0.900, 0.233, 0.455, 0.826, 0.110, 0.693, 0.632, 0.130],
        [0.860, 0.390, 0.287, 0.894, 0.188, 0.522, 0.783, 0.101],
        [0.749, 0.568, 0.161, 0.884, 0.327, 0.346, 0.878, 0.150],
        [0.588, 0.732, 0.102, 0.798, 0.501, 0.201, 0.897, 0.269],
        [0.410, 0.851, 0.123, 0.652, 0.675, 0.115, 0.838, 0.434],
        [0.249, 0.899, 0.218, 0.476, 0.814, 0.106, 0.711, 0.612],
    ]
)

LIRA_ONLINE = [0.6337589970291995, 4.944857539131504, -1.6664732566385967, -0.5328838006966865, 7.277667175685451]
"""What `generate_ours` of tensorflow/privacy, research/mi_lira_2021/plot.py (commit 3d499e69) gives for the logit-scaled values
above, where a low score is a member's; one augmentation."""
LIRA_OFFLINE_DENSITY = [-1.9949248197542224, -1.7992119395707613, -2.880742594714384, -1.7951770462651768, -3.0353190514758452]
"""`generate_ours_offline` of the same file: the logarithm of the density, where the paper has the distribution function."""
RMIA = {0.0: [1.0, 0.375, 1.0, 0.75, 0.0], 0.3: [1.0, 0.375, 1.0, 0.625, 0.0], 1.0: [1.0, 0.375, 1.0, 0.875, 0.0]}
"""What `run_rmia` of privacytrustlab/ml_privacy_meter, modules/mia/attacks/rmia.py (commit 0b8cb7aa) gives for the values
above, by offline_a, with 3 of the 6 reference models. Of population records it takes the 3 models with the largest values.
"""


def test_lira_is_the_authors_code_on_a_small_case() -> None:
    target, shadow = logit_scaled(TARGET), logit_scaled(SHADOW)
    np.testing.assert_allclose(lira_online(target, shadow, INSIDE), -np.array(LIRA_ONLINE), rtol=1e-9)
    density = normal_log(target, *of_records(target, shadow, ~INSIDE, False)) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(density, LIRA_OFFLINE_DENSITY, rtol=1e-9)


@pytest.mark.parametrize("offline_a", sorted(RMIA))
def test_rmia_is_privacy_meters_on_a_small_case(offline_a: float) -> None:
    population_out = np.sort(OTHERS_SHADOW, axis=0)[3:].mean(axis=0)
    found = rmia(TARGET, mean_where(SHADOW, ~INSIDE), OTHERS, population_out, offline_a=offline_a)
    np.testing.assert_allclose(found, RMIA[offline_a])


def test_a_higher_confidence_than_without_the_record_is_a_members() -> None:
    shadow = np.tile(np.array([[0.0], [1.0], [2.0], [6.0], [7.0], [8.0]]), (1, 3))
    inside = np.tile(np.array([[False]] * 3 + [[True]] * 3), (1, 3))
    target = np.array([0.5, 4.2, 7.5])
    for score in (
        lira_online(target, shadow, inside),
        lira_online(target, shadow, inside, True),
        lira_offline(target, shadow, inside),
    ):
        assert (np.diff(score) > 0).all()
    assert abs(lira_online(np.full(3, 4.0), shadow, inside)).max() < 1e-9
    with pytest.raises(ValueError, match="too few shadow models"):
        lira_online(target, shadow, np.zeros_like(inside))
    with pytest.raises(ValueError, match="do not fit"):
        lira_offline(target[:2], shadow, inside)


def test_rmia_online_and_its_threshold() -> None:
    """LR(x, z) = 2 for every z: all of them at gamma 2, none above."""
    half, tenth = np.full(4, 0.5), np.full(1, 0.8)
    arguments: dict[str, Any] = {"population": half, "population_out": half, "inside": np.array([0.5]), "offline_a": 1.0}
    assert rmia(tenth, np.array([0.3]), **arguments, gamma=1.99) == 1.0
    assert rmia(tenth, np.array([0.3]), **arguments, gamma=2.01) == 0.0
    with pytest.raises(ValueError, match="offline_a"):
        rmia(tenth, tenth, half, half, offline_a=1.5)


@pytest.mark.trains
@pytest.mark.long
def test_shadow_models_tell_members_from_others() -> None:
    """A model trained until it remembers: LiRA and RMIA see more than the confidence alone."""
    source = Digits()(None)
    scores: dict[str, list[float]] = {"confidence": [], "online": [], "offline": [], "rmia": []}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        records = source.train.take(torch.from_numpy(rng.permutation(len(source.train))[:400]))
        module = initial(Mlp((64,)), source.shape, 10, seed)
        shadows = train_shadows(module, records, Training(epochs=40, batch=10, lr=0.2), 25, rng)
        seen, others = shadows.confidences(module, records), shadows.confidences(module, source.test)
        target, shadow, inside, truth = seen[0], seen[1:], shadows.inside[1:], shadows.inside[0]
        scores["confidence"].append(auc(target, truth))
        phi, phis = logit_scaled(target), logit_scaled(shadow)
        scores["online"].append(auc(lira_online(phi, phis, inside, fixed_variance=True), truth))
        scores["offline"].append(auc(lira_offline(phi, phis, inside), truth))
        scores["rmia"].append(auc(rmia(target, mean_where(shadow, ~inside), others[0], others[1:].mean(axis=0)), truth))
    means = {name: float(np.mean(values)) for name, values in scores.items()}
    assert min(means["online"], means["offline"], means["rmia"]) > max(means["confidence"] + 0.03, 0.63)


def of_the_same_labels(own: Examples, pool: Examples) -> Examples:
    """As many of each label as the client has, while they last."""
    chosen = [torch.nonzero(pool.y == label).flatten()[: int((own.y == label).sum())] for label in range(10)]
    return pool.take(torch.cat(chosen))


@pytest.mark.trains
@pytest.mark.long
def test_a_clients_updates_tell_its_records_from_others() -> None:
    """Against records of any label much of what is told is the label; without what public records explain, it is the record.

    The mean of all updates, which a sum shows, tells little of either.
    """
    source = Digits()(None)
    population = Dirichlet(clients=24, alpha=0.5)(source, np.random.default_rng(0))
    order = torch.from_numpy(np.random.default_rng(1).permutation(len(source.test)))
    public, pool = source.test.take(order[:100]), source.test.take(order[100:])
    module = initial(Mlp((64,)), source.shape, 10, 0)
    rounds: dict[int, list[Any]] = {i: [] for i in range(-1, 4)}
    for round in range(6):
        start = to_vector(module)
        jobs = [Job(i, start, client.train, 100 * round + i) for i, client in population.clients.items()]
        updates = dict(Fast(workers=1)(module, jobs, Training(epochs=3, batch=10, lr=0.1), round))
        updates[-1] = np.mean(list(updates.values()), axis=0).astype(np.float32)
        for i, seen in rounds.items():
            seen.append((start, updates[i]))
        load_vector(module, start + updates[-1])

    def told(score: Any, same: bool, aggregate: bool = False) -> float:
        found = []
        for i in range(4):
            own = population.clients[i].train
            others = of_the_same_labels(own, pool) if same else pool
            both = Examples(torch.cat([own.x, others.x]), torch.cat([own.y, others.y]))
            found.append(auc(score(module, rounds[-1 if aggregate else i], both), np.arange(len(both)) < len(own)))
        return float(np.mean(found))

    def without_public(*arguments: Any) -> Any:
        return alignment(*arguments, public)

    assert told(alignment, same=False) > 0.7
    assert told(loss_scores, same=False) > 0.7
    assert told(without_public, same=True) > max(0.65, told(alignment, same=True) + 0.05)
    assert told(without_public, same=True, aggregate=True) < 0.62


@pytest.mark.long
@pytest.mark.trains
def test_alignment_of_a_single_gradient_is_its_cosine() -> None:
    source = Digits()(None)
    module = initial(Mlp((16,)), source.shape, 10, 0)
    start, some = to_vector(module), source.train.take(torch.arange(5))
    slopes = [full_gradient(module, Job(0, start, some.take(torch.tensor([k])), 0)).astype(np.float64) for k in range(5)]
    update = -0.1 * slopes[2]
    expected = [g @ slopes[2] / np.linalg.norm(g) / np.linalg.norm(slopes[2]) for g in slopes]
    rounds = [(start, update.astype(np.float32)), (start, np.zeros_like(start))]
    np.testing.assert_allclose(alignment(module, rounds, some), expected, atol=1e-5)


def test_scores_of_membership() -> None:
    scores, member = np.array([0.0, 1.0, 2.0, 3.0, 4.0]), np.array([False, False, True, False, True])
    assert auc(scores, member) == pytest.approx(5 / 6)
    assert tpr_at(scores, member, 0.01) == 0.5
    assert tpr_at(scores, member, 0.4) == 1.0
    assert tpr_at(np.zeros(5), member, 0.4) == 0.0
    low, high = interval(0.5, 100)
    assert low == pytest.approx(0.398, abs=2e-3)
    assert high == pytest.approx(0.602, abs=2e-3)
    with pytest.raises(ValueError, match="members and others"):
        auc(scores, np.ones(5, bool))


@pytest.mark.long
def test_bases_that_clients_share_change_no_score() -> None:
    rng, module = np.random.default_rng(0), initial(Mlp(hidden=(6,)), (1, 4, 4), 3, 0)
    start = to_vector(module)
    records, public = (Examples(torch.rand(n, 1, 4, 4), torch.randint(0, 3, (n,))) for n in (12, 8))
    spans = Spans()
    for k in range(2 * KEPT):  # more starts than are kept, each twice
        moved = (start + k // 2).astype(np.float32)
        rounds = [(moved, rng.standard_normal(len(start)).astype(np.float32)) for _ in range(2)]
        assert np.array_equal(alignment(module, rounds, records, public, spans), alignment(module, rounds, records, public))
    assert len(spans._known) == KEPT


def test_confidences_of_models_together_are_those_of_each() -> None:
    rng = np.random.default_rng(0)
    for factory in (Mlp(hidden=(6,)), CflCnn()):
        module = initial(factory, (1, 28, 28), 10, 0)
        start = to_vector(module)
        models = (start + 0.1 * rng.standard_normal((3, len(start)))).astype(np.float32)
        records = Examples(torch.rand(5, 1, 28, 28), torch.randint(0, 10, (5,)))
        found = confidences(module, models, records)
        for model, of in zip(models, found, strict=True):
            load_vector(module, model)
            with torch.no_grad():
                exact = torch.softmax(module(records.x).double(), 1)[torch.arange(5), records.y].numpy()
            np.testing.assert_allclose(of, exact, rtol=1e-5)
