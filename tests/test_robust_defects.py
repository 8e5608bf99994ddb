"""Defects that were found in other implementations of robust rules, one test each, named after the defect."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from cloister.crypto.entropy import SimulatedEntropy
from cloister.crypto.orthonormal import SignedPermutation
from cloister.fl.clients.training import Job, Training, train_one
from cloister.fl.data.population import Examples
from cloister.fl.models.vector import to_vector
from cloister.fl.robust.aggregate import Aggregate, aggregate
from cloister.fl.robust.averages import Mean, NormBound
from cloister.fl.robust.clustering import FLAME, CFLDefence, ClippedClustering
from cloister.fl.robust.coordinates import Bulyan, Meamed, MeanAroundMedian, Median, Phocas, RobustLearningRate, TrimmedMean
from cloister.fl.robust.diameter import MDA, SMEA
from cloister.fl.robust.frequency import FreqFed
from cloister.fl.robust.krum import Krum, KrumPicks, MultiKrum
from cloister.fl.robust.layers import LASA
from cloister.fl.robust.mixing import ARC, NNM, Bucketing, Clip, Mixed
from cloister.fl.robust.rejection import after_rejecting
from cloister.fl.robust.rows import Rows, gram_of
from cloister.fl.robust.rule import Rule, squared_distances
from cloister.fl.robust.signs import SignGuard
from cloister.fl.robust.similarity import FLTrust, FoolsGold
from cloister.fl.robust.smoothing import CRFL
from cloister.fl.robust.spectral import CAF, DnC
from cloister.fl.robust.weiszfeld import RFA, CenteredClipping, GeometricMedian
from cloister.protocol import Permuted, Plain
from cloister.protocol.parts.gram import gram_matrix, rounding
from cloister.protocol.view.answers import Assignment, Model
from cloister.protocol.view.protection import Protection, Setup
from cloister.protocol.view.work import LocalJob, LocalWork

EVERY: Sequence[Rule] = (
    Mean(),
    NormBound(2.0, s=0.01),
    Krum(2),
    MultiKrum(2),
    MDA(2),
    SMEA(2),
    GeometricMedian(),
    RFA(),
    CenteredClipping(tau=1.0, L=2),
    CAF(2),
    FoolsGold(),
    FLTrust(),
    FLAME(noise=0.001),
    ClippedClustering(),
    CFLDefence(eps1=100.0, eps2=0.0),
    DnC(2, b=50),
    SignGuard(part=0.5),
    FreqFed(),
    LASA((200, 99, 1)),
    Median(),
    TrimmedMean(2),
    Meamed(2),
    Phocas(2),
    Bulyan(2),
    RobustLearningRate(4),
    Mixed((NNM(2),), MultiKrum(2)),
    Mixed((ARC(2), NNM(2)), TrimmedMean(2)),
    Mixed((Clip(1.0),), GeometricMedian()),
    Mixed((Bucketing(2),), Median()),
)
every = pytest.mark.parametrize("rule", EVERY, ids=lambda rule: str(rule).split(", cut=")[0])


def honest(n: int = 12, d: int = 300, seed: int = 0) -> NDArray[np.float32]:
    return (np.random.default_rng(seed).standard_normal((n, d)) + 0.5).astype(np.float32)


def applied(rule: Rule, x: NDArray[np.float32]) -> Aggregate:
    if isinstance(rule, LASA):
        rule = replace(rule, layers=(x.shape[1] - 1, 1))
    extra = np.full(x.shape[1], 0.1, dtype=np.float32) if isinstance(rule, FLTrust) else None
    return aggregate(rule, x, np.random.default_rng(7), extra=extra)


@every
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30, -3e38], ids=str)
@pytest.mark.parametrize("spread", [1, 300])
def test_1_one_client_that_is_not_finite_or_huge_is_rejected_recorded_and_never_propagated(
    rule: Rule, value: float, spread: int
) -> None:
    x = honest()
    poisoned = np.insert(x, 4, x[0], axis=0)
    poisoned[4, :spread] = value
    found, without = applied(rule, poisoned), applied(after_rejecting(rule, 1, len(x)), x)  # it was one of the f
    assert found.rejected == (4,)
    assert np.isfinite(found.vector).all()
    np.testing.assert_allclose(found.vector, without.vector, atol=1e-5)
    if found.weights is not None:
        assert found.weights[4] == 0


@every
def test_1_a_client_just_small_enough_to_be_compared_makes_nothing_non_finite(rule: Rule) -> None:
    x = honest()
    x[3] = 1e17
    found = applied(rule, x)
    assert found.rejected == ()
    assert np.isfinite(found.vector).all()


def test_1_a_client_just_small_enough_does_not_spoil_the_distances_of_the_others() -> None:
    x = honest()
    clean = applied(MultiKrum(1, m=5), np.delete(x, 3, axis=0)).weights
    x[3] = 1e17
    found = applied(MultiKrum(1, m=5), x).weights
    assert clean is not None
    assert found is not None
    scores_with_f_2 = applied(MultiKrum(0, m=5), np.delete(x, 3, axis=0)).weights
    assert scores_with_f_2 is not None
    np.testing.assert_allclose(np.delete(found, 3), scores_with_f_2)  # n - f - 2 is 9 of 12 with f = 1 and 9 of 11 with f = 0


def test_2_centred_clipping_takes_a_warm_start() -> None:
    x, v = honest(), np.full(300, 0.5, dtype=np.float32)
    found = aggregate(CenteredClipping(tau=2.0), x, np.random.default_rng(0), extra=v)
    difference = x.astype(np.float64) - v
    factor = np.minimum(1, 2.0 / np.linalg.norm(difference, axis=1))
    np.testing.assert_allclose(found.vector, v + (difference * factor[:, None]).mean(axis=0), atol=1e-5)
    assert found.weights is not None
    assert found.weights.shape == (12,)


@every
def test_3_no_rule_changes_what_it_is_given(rule: Rule) -> None:
    x = honest()
    before = x.copy()
    x.setflags(write=False)
    applied(rule, x)
    np.testing.assert_array_equal(x, before)


@every
@pytest.mark.filterwarnings("error")
def test_4_faulty_clients_that_send_identical_vectors_break_no_rule(rule: Rule) -> None:
    x = honest()
    x[:2] = -x[5]  # zero distance from each other
    assert np.isfinite(applied(rule, x).vector).all()
    x[:] = x[0]
    assert np.isfinite(applied(rule, x).vector).all()
    assert np.isfinite(applied(rule, np.zeros_like(x)).vector).all()


@pytest.mark.parametrize("rule", [*EVERY, CAF(8), SMEA(1)], ids=lambda rule: str(rule).split(", cut=")[0])
def test_5_five_calls_give_one_result(rule: Rule) -> None:
    x = honest(n=40 if isinstance(rule, CAF) else 12, d=1000)
    results = [applied(rule, x) for _ in range(5)]
    for other in results[1:]:
        np.testing.assert_array_equal(other.vector, results[0].vector)


def test_6_distances_of_small_updates_on_large_weights_do_not_cancel() -> None:
    draw = np.random.default_rng(0)
    start = 0.05 * draw.standard_normal(100_000, dtype=np.float32)
    updates = 1e-4 * draw.standard_normal((60, 100_000), dtype=np.float32)
    weights = start + updates
    exact = weights.astype(np.float64) - start
    squares = np.square(exact).sum(axis=1)
    distances = squares[:, None] + squares[None, :] - 2 * exact @ exact.T
    gram = gram_of(Rows(weights, np.arange(60)), centre=True)
    found = np.diagonal(gram)[:, None] + np.diagonal(gram)[None, :] - 2 * gram
    away = ~np.eye(60, dtype=bool)
    assert np.abs(found - distances)[away].max() < 1e-5 * distances[away].min()
    scores = np.sort(np.where(away, distances, np.inf), axis=1)[:, : 60 - 12 - 2].sum(axis=1)
    choice = aggregate(Krum(12), weights, draw).weights
    assert choice is not None
    assert int(np.argmax(choice)) == int(np.argmin(scores))
    plain = (weights @ weights.T).astype(np.float64)  # what float32 makes of it without centring is off by far more
    naive = np.diagonal(plain)[:, None] + np.diagonal(plain)[None, :] - 2 * plain
    assert np.abs(naive - distances)[away].max() > 1e-3 * distances[away].min()


@pytest.mark.parametrize("protection", [Plain(), Permuted(SignedPermutation)], ids=repr)
def test_6_nor_do_they_under_a_view(protection: Protection) -> None:
    draw = np.random.default_rng(0)
    common = 0.05 * draw.standard_normal(100_000, dtype=np.float32)
    updates = common + 1e-4 * draw.standard_normal((60, 100_000), dtype=np.float32)
    exact = updates.astype(np.float64) - updates.astype(np.float64).mean(axis=0)
    squares = np.square(exact).sum(axis=1)
    distances = squares[:, None] + squares[None, :] - 2 * exact @ exact.T
    away = ~np.eye(60, dtype=bool)

    def workers(jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
        return ((job.client, LocalWork(updates[job.client], 1)) for job in jobs)

    everybody = tuple(range(60))
    view = protection.open(Setup(bytes(16), np.zeros(100_000, np.float32), everybody, workers, SimulatedEntropy(0)))
    gram = view.gram(view.train(0, {"a": Assignment(Model("init"), everybody, everybody)})["a"], origin=True).matrix
    assert np.abs(squared_distances(gram) - distances)[away].max() < 1e-5 * distances[away].min()
    np.testing.assert_allclose(np.diagonal(gram), np.square(updates, dtype=np.float64).sum(axis=1), rtol=1e-5)
    scores = np.sort(np.where(away, distances, np.inf), axis=1)[:, : 60 - 12 - 2].sum(axis=1)
    assert int(np.argmax(Krum(12).weights(gram, draw))) == int(np.argmin(scores))


@pytest.mark.parametrize("seed", range(4))
def test_6_inner_products_are_within_their_bound_whatever_rows_share(seed: int) -> None:
    """Some rows share nearly all, others are 0, tiny, huge, opposite, or share it in half of their coordinates."""
    draw = np.random.default_rng(seed)
    d = 40_000
    common = draw.standard_normal(d, dtype=np.float32)
    rows = common + np.float32(0.1) * draw.standard_normal((12, d), dtype=np.float32)
    rows[0], rows[1], rows[2], rows[3] = 0, 1e-6 * rows[1], 1e15 * rows[2], -rows[3]
    rows[4, : d // 2] = draw.standard_normal(d // 2)
    rows[5] = rows[6]
    exact = rows.astype(np.float64) @ rows.T.astype(np.float64)
    norm = np.sqrt(np.diagonal(exact))
    found = gram_matrix(list(rows))
    assert (np.abs(found - exact) <= rounding(d) * np.outer(norm, norm)).all()
    assert (found == found.T).all()
    assert not found[0].any()
    distances = squared_distances(found)
    near = [5, 6, 7, 8, 9, 10, 11]
    spread = np.array([[np.sum((rows[i].astype(np.float64) - rows[j]) ** 2) for j in near] for i in near])
    np.testing.assert_allclose(distances[np.ix_(near, near)], spread, rtol=1e-5, atol=1e-6 * spread.max())


def test_7_krum_sums_over_n_minus_f_minus_2_neighbours_as_the_paper_does() -> None:
    x = np.array([[7.1], [4.1], [4.7], [10.7], [2.7], [7.5], [1.0]], dtype=np.float32)

    def chosen(neighbours: int) -> int:
        distances = np.sort((x - x.T) ** 2, axis=1)[:, 1 : neighbours + 1]
        return int(np.argmin(distances.sum(axis=1)))

    n, f = 7, 2
    assert chosen(n - f - 2) != chosen(n - f - 1)
    found = aggregate(Krum(f), x, np.random.default_rng(0)).weights
    assert found is not None
    assert int(np.argmax(found)) == chosen(n - f - 2)


def test_10_bulyans_second_stage_drops_what_krum_let_through() -> None:
    x = honest(n=11, d=40)
    x[0, 7] = 6.0  # one coordinate of an update that is otherwise the most ordinary
    x[0, :7], x[0, 8:] = x[1:, :7].mean(axis=0), x[1:, 8:].mean(axis=0)
    picks = KrumPicks(2).mixing(gram_of(Rows(x, np.arange(11)), centre=True), np.random.default_rng(0))
    chosen = (picks @ x).astype(np.float32)
    assert picks.shape == (7, 11)
    assert picks[:, 0].sum() == 1  # Krum lets it through
    bulyan = applied(Bulyan(2), x).vector
    np.testing.assert_allclose(bulyan, MeanAroundMedian(2).combine(chosen), rtol=1e-6)
    median = np.median(chosen[:, 7])
    kept = sorted(chosen[:, 7], key=lambda v: abs(v - median))[:3]
    assert 6.0 not in kept
    assert bulyan[7] == pytest.approx(np.mean(kept), rel=1e-5)
    assert abs(bulyan[7] - chosen[:, 7].mean()) > 0.3


def test_11_crfl_clips_the_model_and_smooths_at_test_time() -> None:
    crfl = CRFL(rho_0=1.0, rate=0.0, sigma=0.5, sigma_test=0.5, T=3)
    model = np.full(4, 10.0, dtype=np.float32)  # whatever moved it there, one small update or a large one
    assert np.linalg.norm(crfl.after_round(model, 3, np.random.default_rng(0))) == pytest.approx(1.0)
    seen: list[NDArray[np.float32]] = []

    def predict(w: NDArray[np.float32]) -> NDArray[np.int64]:
        seen.append(w)
        return np.array([int(w[0] > 0.5)])

    votes = crfl.vote(model, predict, classes=2, M=50, rng=np.random.default_rng(0))
    assert len({w.tobytes() for w in seen}) == 50
    assert np.mean(seen, axis=0) == pytest.approx(np.full(4, 0.5), abs=0.3)
    assert 0 < votes[0, 0] < 50


def test_15_flames_median_norm_is_over_all_updates_and_not_over_the_admitted() -> None:
    draw = np.random.default_rng(0)
    x = (draw.standard_normal((9, 50)) * 0.2 + 1).astype(np.float32)
    x[5:] *= -0.1  # four short opponents pull the median down
    norm = np.linalg.norm(x, axis=1)
    found = applied(FLAME(), x)
    assert found.weights is not None
    np.testing.assert_allclose(found.weights * norm, np.minimum(norm, np.median(norm)) / 5 * (np.arange(9) < 5), rtol=1e-5)


@pytest.mark.trains
def test_15_running_statistics_are_no_part_of_what_flame_clusters() -> None:
    """zhmzm's FLAME clusters BatchNorm's statistics with the weights: a client with large inputs then stands apart."""
    module = nn.Sequential(nn.Flatten(), nn.Linear(4, 3, bias=False), nn.BatchNorm1d(3), nn.Linear(3, 2))
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((32, 1, 2, 2)).astype(np.float32))
    y = torch.arange(32) % 2
    start, training = to_vector(module), Training(epochs=1, batch=32, lr=0.1)
    small, large = (train_one(module, Job(0, start, Examples(scale * x, y), 1), training, 0) for scale in (1.0, 1000.0))
    assert len(start) == 12 + 3 + 3 + 6 + 2
    later = slice(12, None)  # after the normalisation nothing of the scale is left, nor in what is aggregated
    np.testing.assert_allclose(large[later], small[later], atol=1e-3)
    assert np.linalg.norm(large) < 2 * np.linalg.norm(small)
