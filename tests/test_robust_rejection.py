"""Rejected updates are some of the f faulty ones that a rule stands: f senders of NaN stop no rule that is built for f."""

import pkgutil
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cloister.fl.robust
from cloister.crypto.entropy import SimulatedEntropy
from cloister.fl.algorithms.algorithm import Start
from cloister.fl.algorithms.robust_fedavg import ALL, RobustFedAvg
from cloister.fl.algorithms.robust_sum import robust_sum
from cloister.fl.robust.aggregate import aggregate
from cloister.fl.robust.averages import Mean
from cloister.fl.robust.coordinates import Bulyan, Meamed, MeanAroundMedian, Phocas, RobustLearningRate, TrimmedMean
from cloister.fl.robust.diameter import MDA, SMEA
from cloister.fl.robust.function import OfGram
from cloister.fl.robust.krum import Krum, KrumPicks, MultiKrum
from cloister.fl.robust.mixing import ARC, NNM, Bucketing, Mixed
from cloister.fl.robust.rejection import after_rejecting
from cloister.fl.robust.rule import Rule
from cloister.fl.robust.spectral import CAF, DnC
from cloister.protocol import Masked, Permuted, Plain
from cloister.protocol.view.answers import Assignment, Model
from cloister.protocol.view.asks import ServerView
from cloister.protocol.view.protection import Protection, Setup
from cloister.protocol.view.work import LocalJob, LocalWork

D = 40
AT_LEAST: Sequence[tuple[Rule, int, Rule]] = (
    (Krum(2), 7, Krum(0)),
    (MultiKrum(2), 7, MultiKrum(0)),
    (MultiKrum(2, m=4), 7, MultiKrum(0, m=4)),
    (MultiKrum(2, m=7), 7, MultiKrum(0, m=5)),
    (MDA(2), 5, MDA(0)),
    (SMEA(2, work=99), 5, SMEA(0, work=99)),
    (CAF(2), 5, CAF(0)),
    (TrimmedMean(2), 5, TrimmedMean(0)),
    (Meamed(2), 5, Meamed(0)),
    (Phocas(2), 5, Phocas(0)),
    (MeanAroundMedian(2), 5, MeanAroundMedian(0)),
    (Bulyan(2), 11, Bulyan(0)),
    (DnC(2, b=20), 5, DnC(0, b=20)),
    (DnC(2, b=20, c=3.0), 7, DnC(0, b=20, c=3.0)),
    (MIXED_KRUM := (Mixed((NNM(2),), MultiKrum(2)), 7, Mixed((NNM(0),), MultiKrum(0)))),
    (MIXED_TRIMMED := (Mixed((ARC(2), NNM(2)), TrimmedMean(2)), 5, Mixed((ARC(0), NNM(0)), TrimmedMean(0)))),
    (Mixed((KrumPicks(2),), MeanAroundMedian(2)), 11, Mixed((KrumPicks(0),), MeanAroundMedian(0))),
    (Mixed((NNM(2),), Mixed((ARC(2),), CAF(2))), 5, Mixed((NNM(0),), Mixed((ARC(0),), CAF(0)))),
    (Mixed((Bucketing(2),), Krum(2)), 13, Mixed((Bucketing(2),), Krum(0))),
    (Mixed((NNM(2),), Bulyan(2)), 11, Mixed((NNM(0),), Bulyan(0))),
)
# A function of one's own says itself how few it takes: its f is a figure in reports.
at_least = pytest.mark.parametrize(("rule", "n", "lowered"), AT_LEAST, ids=lambda value: str(value))


def honest(n: int, seed: int = 0) -> NDArray[np.float32]:
    return (np.random.default_rng(seed).standard_normal((n, D)) + 0.5).astype(np.float32)


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@at_least
def test_f_senders_of_nan_stop_no_rule_at_the_least_number_that_it_takes(rule: Rule, n: int, lowered: Rule) -> None:
    x = honest(n)
    with pytest.raises(ValueError, match="needs at least"):
        aggregate(rule, x[1:], rng())
    spoilt = x.copy()
    spoilt[[1, n - 1]] = np.nan
    found = aggregate(rule, spoilt, rng())
    left = np.delete(x, [1, n - 1], axis=0)
    expected = aggregate(lowered, left, rng())
    assert found.rejected == (1, n - 1)
    assert np.isfinite(found.vector).all()
    np.testing.assert_array_equal(found.vector, expected.vector)
    assert after_rejecting(rule, 2, n - 2) == lowered
    assert after_rejecting(rule, 0, n) == rule


@at_least
def test_one_sender_of_nan_leaves_the_rule_one_fewer_to_stand(rule: Rule, n: int, lowered: Rule) -> None:
    x = honest(n - 1)
    spoilt = np.insert(x, 0, np.inf, axis=0)
    found, expected = aggregate(rule, spoilt, rng()), aggregate(after_rejecting(rule, 1, n - 1), x, rng())
    np.testing.assert_array_equal(found.vector, expected.vector)
    assert after_rejecting(rule, 1, n - 1) not in (rule, lowered)
    assert after_rejecting(rule, 9, n - 2) == lowered  # more than f were: f is 0, and not below


def test_every_rule_and_step_with_an_f_is_in_the_table() -> None:
    def inside(part: Any) -> set[type]:
        if isinstance(part, Mixed):
            return {Mixed}.union(*map(inside, (*part.steps, part.rule)))
        return {type(part)}

    built_for_f = set()
    for info in pkgutil.iter_modules(cloister.fl.robust.__path__):
        module = import_module(f"cloister.fl.robust.{info.name}")
        built_for_f |= {
            kind
            for kind in vars(module).values()
            if isinstance(kind, type) and is_dataclass(kind) and hasattr(kind, "sees") and "f" in {f.name for f in fields(kind)}
        }
    assert len(built_for_f) >= 12
    assert built_for_f - {OfGram} <= set().union(*(inside(rule) for rule, _, _ in AT_LEAST))


def test_senders_of_nan_do_not_turn_the_mean_under_a_robust_learning_rate() -> None:
    x = np.ones((7, D), dtype=np.float32)
    assert aggregate(RobustLearningRate(6), x, rng()).vector.min() == 1
    x[:2] = np.nan
    assert aggregate(RobustLearningRate(6), x, rng()).vector.min() == 1
    x[2:5] = -1  # three against two: too little agreement, as it was with seven
    assert aggregate(RobustLearningRate(6), x, rng()).vector.min() > 0
    assert after_rejecting(RobustLearningRate(6), 2, 5) == RobustLearningRate(4)


def test_what_has_no_f_is_as_it_was() -> None:
    for rule in (Mean(), Mixed((Bucketing(2),), Mean())):
        assert after_rejecting(rule, 3, 4) == rule


# --- under views -------------------------------------------------------------------------------------------------------


def open_view(protection: Protection, n: int, spoilt: Sequence[int]) -> ServerView:
    x = honest(n)
    x[list(spoilt)] = np.nan

    def workers(jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
        for job in jobs:
            yield job.client, LocalWork(x[job.client], 1)

    return protection.open(Setup(bytes(16), np.zeros(D, np.float32), tuple(range(n)), workers, SimulatedEntropy(0)))


GRAM = [row for row in AT_LEAST if isinstance(row[0], MultiKrum | MDA | SMEA | CAF)] + [MIXED_KRUM]
COORDINATES = [row for row in AT_LEAST if isinstance(row[0], TrimmedMean | Meamed | Phocas | Bulyan)] + [MIXED_TRIMMED]


@pytest.mark.parametrize("protection", [Plain(), Permuted(), Masked()], ids=repr)
@pytest.mark.parametrize(("rule", "n", "lowered"), GRAM, ids=lambda value: str(value))
def test_f_senders_of_nan_stop_no_rule_of_the_gram_matrix_under_a_view(
    rule: Rule, n: int, lowered: Any, protection: Protection
) -> None:
    view, everybody = open_view(protection, n, (0, n - 2)), tuple(range(n))
    for t in range(2):  # what was rejected in an earlier round does not count again
        faults = len(view.record.faults)
        updates = view.train(t, {"a": Assignment(Model("init"), everybody, everybody)})["a"]
        found = robust_sum(view, updates, rule, rng(), faults=faults)
        assert found.outcome.unmoved == ""
        assert found.gram is not None
        assert found.gram.clients == tuple(i for i in everybody if i not in (0, n - 2))
        np.testing.assert_array_equal(list(found.outcome.weights.values()), lowered.weights(found.gram.matrix, rng()))
        view.harness.retire([Model("init")], [])


@pytest.mark.parametrize("protection", [Plain(), Permuted()], ids=repr)
@pytest.mark.parametrize(("rule", "n", "lowered"), COORDINATES, ids=lambda value: str(value))
def test_f_senders_of_nan_stop_no_rule_of_coordinates_under_a_view(
    rule: Rule, n: int, lowered: Rule, protection: Protection
) -> None:
    view, everybody = open_view(protection, n, (0, n - 2)), tuple(range(n))
    expected = aggregate(lowered, np.delete(honest(n), [0, n - 2], axis=0), rng()).vector
    algorithm = RobustFedAvg(rule=rule)
    state = algorithm.init(Start(everybody, dict.fromkeys(everybody, 0), Model("init")))
    for t in (1, 2):
        state = algorithm.round(state, view, rng())
        assert state.outcome is not None
        assert state.outcome.unmoved == ""
        np.testing.assert_allclose(view.harness.observe(state.clusters[ALL].model), t * expected, atol=1e-5)


@pytest.mark.parametrize("protection", [Plain(), Masked()], ids=repr)
def test_a_model_goes_on_moving_though_f_send_nan_in_every_round(protection: Protection) -> None:
    view, everybody = open_view(protection, 7, (2, 3)), tuple(range(7))
    algorithm = RobustFedAvg(rule=MultiKrum(2))
    state = algorithm.init(Start(everybody, dict.fromkeys(everybody, 0), Model("init")))
    mean = np.delete(honest(7), [2, 3], axis=0).mean(axis=0)
    for t in (1, 2, 3):
        state = algorithm.round(state, view, rng())
        assert state.outcome is not None
        assert state.outcome.weights == pytest.approx(dict.fromkeys((0, 1, 4, 5, 6), 0.2))
        np.testing.assert_allclose(view.harness.observe(state.clusters[ALL].model), t * mean, atol=1e-3)


def test_a_client_that_does_not_answer_may_be_honest_and_lowers_no_f() -> None:
    def workers(jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
        for job in jobs:
            if job.client > 1:
                yield job.client, LocalWork(honest(7)[job.client], 1)

    view = Plain().open(Setup(bytes(16), np.zeros(D, np.float32), tuple(range(7)), workers, SimulatedEntropy(0)))
    algorithm = RobustFedAvg(rule=MultiKrum(2))
    state = algorithm.init(Start(tuple(range(7)), dict.fromkeys(range(7), 0), Model("init")))
    state = algorithm.round(state, view, rng())
    assert state.outcome is not None
    assert "needs at least 7 updates, got 5" in state.outcome.unmoved
