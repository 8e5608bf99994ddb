"""Who takes part: fixed cohorts tell no client from its cohort, random samples do; sums that are withheld if one is missing."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cloister.crypto.entropy import SimulatedEntropy
from cloister.fl.algorithms.algorithm import Cluster, Start
from cloister.fl.algorithms.cfl import CFL, Absolute
from cloister.fl.algorithms.cohorts import Sampling, cohorts, divided, invited
from cloister.fl.algorithms.emd_cfl import EMDCFL
from cloister.fl.algorithms.fedavg import FedAvg, FedProx
from cloister.fl.algorithms.flic import FLIC
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.meters.algebra import unit_rows
from cloister.fl.meters.participation import leverages, participation
from cloister.fl.robust.averages import Mean
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.core.errors import Refused
from cloister.protocol.core.link import Frame
from cloister.protocol.view.account import Opened
from cloister.protocol.view.answers import Assignment, BelowFloor, Model, Sum, Weights
from cloister.protocol.view.asks import ServerView
from cloister.protocol.view.protection import Protection, Setup
from cloister.protocol.view.work import LocalJob, LocalWork

RNG = np.random.default_rng(0)


# --- cohorts ----------------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    st.lists(st.integers(0, 10**6), min_size=1, max_size=60, unique=True),
    st.floats(0.01, 1.0),
    st.integers(1, 5),
    st.integers(0, 2**63 - 1),
)
def test_cohorts_part_the_members_and_none_is_below_the_size(ids: list[int], share: float, least: int, seed: int) -> None:
    cluster = Cluster(tuple(sorted(ids)), Model("m"), 3, seed)
    found = cohorts(cluster, share, least)
    assert sorted(i for part in found for i in part) == sorted(ids)
    size = min(len(ids), max(least, int(np.ceil(share * len(ids)))))
    assert min(map(len, found)) >= size
    assert max(map(len, found)) < 2 * size or len(found) == 1
    assert found == cohorts(cluster, share, least)
    assert all(tuple(sorted(part)) == part for part in found)


@settings(max_examples=60)
@given(st.data())
def test_sums_over_the_cohorts_of_parted_clusters_tell_no_more_than_the_smallest(data: st.DataObject) -> None:
    clients = data.draw(st.integers(4, 40))
    share, least = data.draw(st.sampled_from((0.1, 0.25, 0.5))), data.draw(st.integers(1, 4))
    side = data.draw(st.lists(st.integers(0, 2), min_size=clients, max_size=clients))
    sides = [[i for i in range(clients) if side[i] == k] for k in sorted(set(side))]
    parts = cohorts(Cluster(tuple(range(clients)), Model("m"), 0, data.draw(st.integers(0, 99))), share, least)
    found = divided(parts, sides, least)
    if not found[0]:
        assert found == tuple(() for _ in sides)
        return
    for members, within in zip(sides, found, strict=True):
        assert sorted(i for part in within for i in part) == members
        assert all(len(part) >= min(least, len(members)) for part in within)
        child = Cluster(tuple(members), Model("m"), 5, 1, within=within)
        assert cohorts(child, share, least) == within
        assert cohorts(replace(child, members=(*members, clients)), share, least) != within
    if all(any({*part} <= {*whole} for whole in parts) for within in found for part in within):  # none was joined to another
        cells = [part for within in found for part in within]
        rows = np.array([[float(i in row) for i in range(clients)] for row in [*parts, *sides, *cells, range(clients)]])
        assert leverages(unit_rows(rows)).max() <= 1 / min(map(len, cells)) + 1e-9


def test_cohorts_are_joined_where_a_side_has_too_few_of_one() -> None:
    parts = ((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11))
    near = (0, 1, 4, 5, 8, 9)
    far = (2, 3, 6, 7, 10, 11)
    assert divided(parts, (near, far), 2) == (((0, 1), (4, 5), (8, 9)), ((2, 3), (6, 7), (10, 11)))
    assert divided(parts, (near, far), 3) == ((), ())  # all in one
    assert divided(parts, ((0, 1, 2), tuple(range(3, 12))), 2) == (((0, 1, 2),), ((3, 4, 5, 6, 7), (8, 9, 10, 11)))
    assert divided(parts, ((0, 1, 2, 3), tuple(range(4, 12))), 4) == (((0, 1, 2, 3),), ((4, 5, 6, 7), (8, 9, 10, 11)))


def test_every_cohort_has_its_turn_and_other_members_have_other_cohorts() -> None:
    cluster = Cluster(tuple(range(24)), Model("m"), 5, 7)
    parts = cohorts(cluster, 0.25)
    seen = [invited(cluster, t, 0.25, "cohorts", RNG) for t in range(5, 13)]
    assert seen == [*parts, *parts]
    others = {cohorts(Cluster(tuple(range(24)), Model("m"), 5, seed), 0.25) for seed in range(20)}
    assert len(others) == 20
    joined = cohorts(Cluster(tuple(range(25)), Model("m"), 5, 7), 0.25)
    assert sorted(len(part) for part in joined) == [8, 8, 9]  # of 7 at least


def test_a_random_sample_is_asked_for_by_name() -> None:
    cluster = Cluster(tuple(range(12)), Model("m"))
    rng = np.random.default_rng(0)
    found = {invited(cluster, t, 0.25, "random", rng) for t in range(30)}
    assert len(found) > 10
    assert {len(one) for one in found} == {3}
    for make in (FedAvg, lambda **a: FedProx(mu=0.1, **a), lambda **a: RobustFedAvg(rule=Mean(), **a)):
        with pytest.raises(ValueError, match="cohorts"):
            make(sampling="deck")
    for make in (
        lambda **a: CFL(thresholds=Absolute(0, 0), **a),
        lambda **a: FLIC(rounds_before=3, **a),
        lambda **a: EMDCFL(**a),
    ):
        with pytest.raises(ValueError, match="cohorts"):
            make(sampling="deck")


def test_emd_cfl_lets_every_pair_meet_and_then_keeps_cohorts() -> None:
    algorithm = EMDCFL(participation=0.3)
    state: Any = algorithm.init(Start(tuple(range(20)), dict.fromkeys(range(20), 0), Model("m"), 3))
    met: set[tuple[int, int]] = set()
    for t in range(40):
        chosen = algorithm._chosen(_at(state, t, met), RNG)
        assert len(chosen) >= 6
        met |= {*combinations(chosen, 2)}
    assert met == {*combinations(range(20), 2)}
    settled = {algorithm._chosen(_at(state, t, met), RNG) for t in range(12)}
    assert sorted(i for one in settled for i in one) == list(range(20))


def _at(state: Any, t: int, met: set[tuple[int, int]]) -> Any:
    return replace(state, round=t, lost=tuple(sorted(met)))


# --- what sums of many rounds tell ------------------------------------------------------------------------------------


def rows_of(
    sampling: Sampling, share: float, rounds: int, dropped: float, seed: int, complete: bool = False
) -> list[dict[int, float]]:
    """The weights of every published sum of FedAvg over 24 clients of which each invited one is silent with a chance."""
    rng = np.random.default_rng(seed)
    cluster = Cluster(tuple(range(24)), Model("m"), 0, seed)
    found = []
    for t in range(rounds):
        there = invited(cluster, t, share, sampling, rng)
        silent = rng.random(24) < dropped
        answered = [i for i in there if not silent[i]]
        if answered and (not complete or len(answered) == len(there)):
            found.append(dict.fromkeys(answered, 1 / len(answered)))
    return found


def matched(rows: Sequence[dict[int, float]], rho: float, seed: int, d: int = 100) -> float:
    """Share of clients that a server identifies: ridge disaggregation m_t ~ W d, each estimate matched by cosine to a truth.

    What a client does in two rounds has a cosine of rho.
    """
    rng = np.random.default_rng(seed)
    habit = rng.normal(size=(24, d))
    weights = np.array([[row.get(i, 0.0) for i in range(24)] for row in rows])
    sums = np.empty((len(rows), d))
    for t, row in enumerate(weights):
        now = np.sqrt(rho) * habit + np.sqrt(1 - rho) * rng.normal(size=(24, d))
        sums[t] = row @ now
    noise = (1 - rho) / rho * np.diag(np.square(weights).sum(axis=1))
    estimate = weights.T @ np.linalg.solve(weights @ weights.T + noise, sums)
    estimate, truth = (x - x.mean(axis=0) for x in (estimate, habit))
    cosines = normed(estimate) @ normed(truth).T
    return float(np.mean(cosines.argmax(axis=1) == np.arange(24)))


def normed(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_fixed_cohorts_identify_nobody_beyond_the_cohort(share: float) -> None:
    """Each cohort of m has one estimate for all: m of them match at most one member, chance among a cohort."""
    size = int(24 * share)
    for seed in range(5):
        rows = rows_of("cohorts", share, 60, 0.0, seed)
        found = participation([Opened(t, "0", "update", row) for t, row in enumerate(rows)], 0.65)
        assert max(found.leverage.values()) == pytest.approx(1 / size)
    hits = [matched(rows_of("cohorts", share, 60, 0.0, seed), 0.65, seed) for seed in range(6)]
    assert np.mean(hits) == pytest.approx(1 / size, abs=1e-9)


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_random_samples_identify_nearly_everybody(share: float) -> None:
    rows = rows_of("random", share, 60, 0.0, 0)
    found = participation([Opened(t, "0", "update", row) for t, row in enumerate(rows)], 0.65)
    assert min(found.leverage.values()) == pytest.approx(1)
    assert np.mean([matched(rows_of("random", share, 60, 0.0, seed), 0.65, seed) for seed in range(5)]) > 0.9


def test_dropouts_undo_cohorts_and_complete_sums_restore_them() -> None:
    for seed in range(5):
        broken = participation(_opened(rows_of("cohorts", 0.25, 60, 0.05, seed)), 0.65)
        assert max(broken.leverage.values()) > 0.9
        whole = participation(_opened(rows_of("cohorts", 0.25, 60, 0.05, seed, complete=True)), 0.65)
        assert max(whole.leverage.values()) == pytest.approx(1 / 6)
    lossy = [matched(rows_of("cohorts", 0.25, 60, 0.05, seed), 0.65, seed) for seed in range(5)]
    kept = [matched(rows_of("cohorts", 0.25, 60, 0.05, seed, complete=True), 0.65, seed) for seed in range(5)]
    assert np.mean(lossy) > 0.4 > 0.2 > np.mean(kept)


def _opened(rows: Sequence[dict[int, float]]) -> list[Opened]:
    return [Opened(t, "0", "update", row) for t, row in enumerate(rows)]


# --- sums that are withheld if somebody is missing --------------------------------------------------------------------

IDS = tuple(range(6))
WHOLE = Weights(dict.fromkeys(IDS, 1.0), complete=True)
COUNTED = Weights(dict.fromkeys(IDS, 1.0), times_samples=True, complete=True)


def opened_view(protection: Protection, tap: Any = None) -> ServerView:
    def workers(jobs: Sequence[LocalJob]) -> Any:
        return ((job.client, LocalWork(np.full(8, job.client, np.float32) / 10, 3)) for job in jobs)

    return protection.open(Setup(bytes(16), np.zeros(8, np.float32), IDS, workers, SimulatedEntropy(1), tap))


def losing(client: int, after: int) -> Any:
    """A network on which a client falls silent after so many of its frames, counted from the first task."""
    left = [-1]

    def tap(frame: Frame) -> list[Frame]:
        if frame.kind == "Task" and left[0] < 0:
            left[0] = after
        if frame.sender != client or left[0] < 0:
            return [frame]
        left[0] = max(left[0] - 1, 0) if (heard := left[0] > 0) else 0
        return [frame] if heard else []

    return tap


PROTECTIONS = [Plain(), Permuted(), Masked(corrupt=0), TwoServer(), pytest.param(Encrypted(), marks=pytest.mark.slow)]


@pytest.mark.parametrize("weights", [WHOLE, COUNTED], ids=["uniform", "by samples"])
@pytest.mark.parametrize("protection", PROTECTIONS, ids=lambda p: type(p).__name__)
def test_a_complete_sum_is_published_of_all_or_not_at_all(protection: Protection, weights: Weights) -> None:
    start = Assignment(Model("init"), IDS, IDS)
    if isinstance(protection, Encrypted) and weights.times_samples:
        view = opened_view(protection)
        with pytest.raises(Refused, match="by_samples=False"):
            view.train_and_sum(0, {"0": start}, {"0": weights})
        assert not any(e.what == "sums" for e in view.record.log)
        return
    answer = opened_view(protection).train_and_sum(0, {"0": start}, {"0": weights})["0"]
    assert isinstance(answer, Sum)
    assert answer.clients == IDS
    answers = []
    for after in range(8):
        view = opened_view(protection, losing(2, after))
        answer = view.train_and_sum(0, {"0": start}, {"0": weights})["0"]
        assert isinstance(answer, BelowFloor) or answer.clients == IDS
        if isinstance(answer, BelowFloor):
            assert view.record.opened == []
            assert answer.floor == 6
            assert not any(e.what == "sums" and e.recipient == "clients" for e in view.record.log)
        answers.append(answer)
    assert any(isinstance(answer, BelowFloor) for answer in answers)
