"""Clients told apart by who was in which sum, and combinations of sums that rest on few clients."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cloister.fl.clients.fast import Fast
from cloister.fl.clients.training import Job, Training
from cloister.fl.data.partition import Dirichlet
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp, initial
from cloister.fl.models.vector import load_vector, to_vector
from cloister.protocol.parts.leverage import MOST_ROWS, leverages
from cloister.threat_models.inference.disaggregation import Published, disaggregated, matched
from cloister.threat_models.inference.sum_lattice import exposed_at, independent, isolating, leverage_of, most_exposed

CLIENTS, D, ROUNDS = 24, 200, 60
Row = dict[int, float]


def played(participation: float, seed: int, spread: float = 0.5) -> tuple[list[Published], dict[int, NDArray[np.float64]]]:
    """Means of updates: what all have in common drifts, each client has a deviation of its own, and there is noise."""
    rng = np.random.default_rng(seed)
    own = spread * rng.standard_normal((CLIENTS, D))
    common, published = rng.standard_normal(D), []
    for round in range(ROUNDS):
        common = 0.95 * common + 0.3 * rng.standard_normal(D)
        who = rng.choice(CLIENTS, round_of(participation), replace=False)
        sent = common + own + 0.5 * rng.standard_normal((CLIENTS, D))
        published.append(Published(round, dict.fromkeys(who.tolist(), 1.0), sent[who].mean(axis=0).astype(np.float32)))
    return published, dict(enumerate(own))


def round_of(participation: float) -> int:
    return round(CLIENTS * participation)


@pytest.mark.parametrize("seed", range(3))
def test_random_cohorts_tell_clients_apart_and_full_participation_does_not(seed: int) -> None:
    shares = [matched(disaggregated(published), own) for published, own in (played(p, seed) for p in (0.25, 0.5, 1.0))]
    assert shares[0] > 0.8
    assert shares[1] > 0.6
    assert shares[2] <= 0.1  # everybody in all sums: all estimates are 0


@pytest.mark.slow
@pytest.mark.trains
@pytest.mark.parametrize(("participation", "least"), [(0.25, 0.85), (0.5, 0.7), (0.9, 0.4)])
def test_sums_of_sixty_rounds_of_training_tell_clients_apart(participation: float, least: float) -> None:
    """FedAvg on digits, labels by Dirichlet(0.5), cohorts drawn at random in every round; chance is .04."""
    source, rng = Digits()(None), np.random.default_rng(0)
    population = Dirichlet(clients=CLIENTS, alpha=0.5)(source, rng)
    module, published = initial(Mlp((64,)), source.shape, 10, 0), []
    own: dict[int, NDArray[np.float64]] = {i: np.zeros(len(to_vector(module))) for i in range(CLIENTS)}
    for round in range(ROUNDS):
        start, who = to_vector(module), rng.choice(CLIENTS, round_of(participation), replace=False).tolist()
        jobs = [Job(i, start, client.train, 100 * round + i) for i, client in population.clients.items()]
        updates = dict(Fast(workers=1)(module, jobs, Training(epochs=3, batch=10, lr=0.1), round))
        length = np.sqrt(np.mean([float(u @ u) for u in updates.values()]))
        for i, update in updates.items():
            own[i] += update / length
        mean = np.mean([updates[i] for i in who], axis=0).astype(np.float32)
        published.append(Published(round, dict.fromkeys(who, 1.0), mean))
        load_vector(module, start + mean)
    share = matched(disaggregated(published), own)
    print(f"\n{share:.2f} matched at a participation of {participation}")
    assert share > least


def test_moves_between_clusters_tell_a_client_apart() -> None:
    """Two clusters, everybody present: those who move are found, those who never do are not."""
    rng = np.random.default_rng(0)
    own = rng.standard_normal((12, D))
    movers, published = range(3), []
    for round in range(40):
        sides = {i: int(rng.random() < 0.5) if i in movers else i % 2 for i in range(12)}
        for cluster in (0, 1):
            who = [i for i, side in sides.items() if side == cluster]
            sent = own[who] + (5.0 if cluster else -5.0) + 0.3 * rng.standard_normal((len(who), D))
            published.append(Published(round, dict.fromkeys(who, 1.0), sent.mean(axis=0).astype(np.float32), str(cluster)))
    estimates = disaggregated(published)
    cosines = [float(e @ own[i] / np.linalg.norm(e) / np.linalg.norm(own[i])) for i, e in estimates.items()]
    assert min(cosines[i] for i in movers) > 0.6


def test_the_score_of_a_perfect_estimate_is_one_and_weights_have_any_scale() -> None:
    own = dict(enumerate(np.random.default_rng(1).standard_normal((6, 9))))
    centre = np.mean(list(own.values()), axis=0)
    assert matched({i: v - centre for i, v in own.items()}, own) == 1.0
    assert matched({i: v - centre for i, v in own.items()}, own, together=True) == 1.0
    published, _ = played(0.5, 0)
    scaled = [Published(p.round, {i: 7.5 * w for i, w in p.weights.items()}, p.mean) for p in published]
    one, other = disaggregated(published), disaggregated(scaled)
    np.testing.assert_allclose([one[i] for i in one], [other[i] for i in one], atol=1e-9)
    with pytest.raises(ValueError, match="weights above 0"):
        disaggregated([Published(0, {}, np.zeros(3, np.float32))])


@pytest.mark.parametrize("seed", range(5))
def test_random_cohorts_expose_nobody_until_there_are_as_many_sums_as_clients(seed: int) -> None:
    """And then all at once."""
    rng, m = np.random.default_rng(seed), 20
    rows: list[Row] = [dict.fromkeys(rng.choice(m, m // 2, replace=False).tolist(), 1.0) for _ in range(m + 6)]
    first, last = exposed_at(rows, 1), exposed_at(rows, m)
    assert first is not None
    assert last is not None
    assert m - 1 <= first <= last <= m + 4
    assert isolating(rows[: m // 2], 3) == []


@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_a_split_with_a_dropout_exposes_the_dropout(weight: float) -> None:
    """The parent's sum of 12 less its children's of 6 and 5."""
    weights = {i: weight + i % 2 for i in range(12)}
    rows = [weights, {i: weights[i] for i in range(6)}, {i: weights[i] for i in range(6, 11)}]
    (found,) = isolating(rows, 4)
    assert found.clients == (11,)
    assert found.exact
    assert [f / found.factors[0] for f in found.factors] == [1, -1, -1]
    assert set(found.weights) == {11}
    assert most_exposed(rows) == pytest.approx(1.0)
    assert most_exposed(rows[:2]) < 0.3
    assert independent(rows) == 3


@given(st.integers(0, 10_000))
@settings(max_examples=25)
def test_what_is_isolated_rests_on_those_clients_and_the_leverage_knew(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows: list[Row] = [
        {i: float(rng.integers(1, 4)) for i in rng.choice(9, int(rng.integers(2, 8)), replace=False).tolist()} for _ in range(5)
    ]
    exposed = leverages(rows)
    found = isolating(rows, 3)
    for one in found:
        for i in exposed:
            total = sum((f * Fraction(row.get(i, 0)) for f, row in zip(one.factors, rows, strict=True)), Fraction(0))
            assert abs(float(total)) < 1e-6 or i in one.clients
        assert max(exposed[i] for i in one.clients) >= 1 / len(one.clients) - 1e-6
    alone = {one.clients[0] for one in found if len(one.clients) == 1}
    assert alone == {i for i, h in exposed.items() if h > 1 - 1e-7}


def test_many_rows_are_reckoned_with_the_meter_and_agree_with_the_gate() -> None:
    rng = np.random.default_rng(2)
    rows: list[Row] = [dict.fromkeys(rng.choice(30, 15, replace=False).tolist(), 1.0) for _ in range(MOST_ROWS)]
    exact, more = leverage_of(rows), leverage_of([*rows, rows[0], rows[1]])
    assert exact == leverages(rows)
    assert all(more[i] == pytest.approx(h, abs=1e-6) for i, h in exact.items())
