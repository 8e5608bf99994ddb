"""RobustFedAvg: rules under the views that can answer them, what is asked, and what happens when nothing may be published."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cloister.crypto.entropy import SimulatedEntropy
from cloister.crypto.orthonormal import HadamardRotation, SignedPermutation
from cloister.fl.algorithms.algorithm import Start
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.robust_fedavg import ALL, RobustFedAvg, State
from cloister.fl.algorithms.robust_sum import noise_of
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import LabelSwap
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.robust.aggregate import aggregate
from cloister.fl.robust.averages import Mean, NormBound
from cloister.fl.robust.clustering import FLAME, CFLDefence, ClippedClustering
from cloister.fl.robust.coordinates import Bulyan, Meamed, Median, Phocas, RobustLearningRate, TrimmedMean
from cloister.fl.robust.diameter import MDA, SMEA
from cloister.fl.robust.krum import Krum, MultiKrum
from cloister.fl.robust.layers import LASA
from cloister.fl.robust.mixing import ARC, NNM, Bucketing, Mixed
from cloister.fl.robust.rule import Rule
from cloister.fl.robust.signs import SignGuard
from cloister.fl.robust.similarity import FLTrust, FoolsGold
from cloister.fl.robust.smoothing import CRFL
from cloister.fl.robust.spectral import CAF, DnC
from cloister.fl.robust.weiszfeld import CenteredClipping, GeometricMedian
from cloister.fl.runs.codec import from_plain, to_plain
from cloister.fl.runs.scenario import Scenario, changed, described
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.core.errors import Refused
from cloister.protocol.parts.history import History
from cloister.protocol.view.answers import Model
from cloister.protocol.view.asks import ServerView
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import Protection, Setup
from cloister.protocol.view.work import LocalJob, LocalWork
from cloister.protocol.work.sketch_keys import Keys

from . import sides

D, N = 30, 11
IDS = tuple(range(3, 3 + N))
GRAM_RULES: list[Rule] = [
    Mean(),
    NormBound(2.0),
    MultiKrum(2),
    MDA(2),
    SMEA(2),
    GeometricMedian(),
    CenteredClipping(tau=2.0, L=3),
    CAF(2),
    FoolsGold(),
    FLAME(),
    ClippedClustering(),
    CFLDefence(eps1=100.0, eps2=0.0, gamma_max=0.5),
    Mixed((NNM(2),), MultiKrum(2)),
    Mixed((ARC(2), NNM(2)), GeometricMedian()),
    Mixed((Bucketing(2),), GeometricMedian()),
]
COORDINATE_RULES: list[Rule] = [
    Median(),
    TrimmedMean(2),
    Meamed(2),
    Phocas(2),
    Bulyan(2),
    RobustLearningRate(5),
    Mixed((NNM(2),), TrimmedMean(2)),
]


def update_of(client: int) -> NDArray[np.float32]:
    """Honest updates about a common direction; those of clients 4 and 7 point elsewhere and are longer."""
    draw = np.random.default_rng(client)
    honest = draw.standard_normal(D) + 1
    return np.asarray(-4 * honest if client in (4, 7) else honest, dtype=np.float32)


def open_view(protection: Protection, updates: Mapping[int, NDArray[np.float32]]) -> ServerView:
    def workers(jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
        for job in jobs:
            yield job.client, LocalWork(updates[job.client], 1 + job.client)

    length = len(next(iter(updates.values())))
    return protection.open(Setup(bytes(16), np.zeros(length, np.float32), tuple(updates), workers, SimulatedEntropy(0)))


def play(
    algorithm: RobustFedAvg,
    protection: Protection = Plain(),
    rounds: int = 1,
    updates: Mapping[int, NDArray[np.float32]] | None = None,
) -> tuple[State, NDArray[np.float32], ServerView]:
    """The state, the model and the view after some rounds from the zero model."""
    sent = updates if updates is not None else {i: update_of(i) for i in IDS}
    view = open_view(protection, sent)
    state = algorithm.init(Start(tuple(sent), dict.fromkeys(sent, 0), Model("init")))
    for t in range(rounds):
        state = algorithm.round(state, view, np.random.default_rng(t))
        view.harness.retire(state.models, state.remembered)
    return state, view.harness.observe(state.clusters[ALL].model), view


def expected(rule: Rule) -> NDArray[np.float32]:
    return aggregate(rule, np.stack([update_of(i) for i in IDS]), np.random.default_rng(0)).vector


@pytest.mark.parametrize("protection", [Plain(), Permuted(), Permuted(HadamardRotation, "session")], ids=repr)
@pytest.mark.parametrize("rule", GRAM_RULES, ids=lambda rule: str(rule).split(", cut=")[0])
def test_a_rule_of_the_gram_matrix_moves_the_model_as_on_full_updates_under_every_view(
    rule: Rule, protection: Protection
) -> None:
    memory = Functionality.GRAM_HISTORY in protection.gives and not isinstance(rule, FoolsGold)
    state, model, _ = play(RobustFedAvg(rule=rule, memory=memory), protection)
    np.testing.assert_allclose(model, expected(rule), atol=2e-5)
    assert state.outcome is not None
    assert state.outcome.unmoved == ""
    np.testing.assert_allclose(sum(w * update_of(i) for i, w in state.outcome.weights.items()), model, atol=2e-5)


@pytest.mark.parametrize("protection", [Plain(), Permuted(), Permuted(SignedPermutation)], ids=repr)
@pytest.mark.parametrize("rule", COORDINATE_RULES, ids=lambda rule: str(rule).split(", cut=")[0])
def test_a_rule_of_coordinates_moves_the_model_as_on_full_updates_where_coordinates_survive(
    rule: Rule, protection: Protection
) -> None:
    assert RobustFedAvg(rule=rule).needs == {Functionality.COORDINATES}
    _, model, _ = play(RobustFedAvg(rule=rule), protection)
    np.testing.assert_allclose(model, expected(rule), atol=2e-5)


def test_no_more_is_asked_than_the_rule_must_see() -> None:
    assert RobustFedAvg(rule=Mean()).needs == {Functionality.SUMS}
    assert RobustFedAvg(rule=NormBound(1.0)).needs == {Functionality.SUMS, Functionality.GRAM_ORIGIN}
    assert RobustFedAvg(rule=FLTrust(), root=3).needs == {Functionality.SUMS, Functionality.GRAM_ORIGIN}
    for rule in (Krum(2), MDA(2), CAF(2), GeometricMedian(), Mixed((NNM(2),), MultiKrum(2))):
        assert RobustFedAvg(rule=rule).needs == {Functionality.SUMS, Functionality.GRAM}
    assert RobustFedAvg(rule=Mixed((ARC(2),), MultiKrum(2))).needs == {Functionality.SUMS, Functionality.GRAM_ORIGIN}
    assert RobustFedAvg(rule=Mixed((Bucketing(2),), Mean())).needs == {Functionality.SUMS}
    for rule, asked in ((Mean(), set()), (Krum(2), {"gram"}), (Median(), set())):
        _, _, view = play(RobustFedAvg(rule=rule))
        assert {entry.what for entry in view.record.log if entry.recipient == "server"} - {"updates"} == asked


@pytest.mark.parametrize("rule", GRAM_RULES, ids=lambda rule: str(rule).split(", cut=")[0])
def test_the_origin_is_asked_for_where_a_rule_says_that_it_needs_it(rule: Rule) -> None:
    """A view that knows differences alone gives a shift-invariant rule all that it needs: the model is the same."""
    asked: list[bool] = []
    view = open_view(Plain(), {i: update_of(i) for i in IDS})
    answer = view.gram
    about_ones = {i: update_of(i) + 100 for i in IDS}

    def gram(updates: Any, /, *, origin: bool = False) -> Any:
        asked.append(origin)
        return answer(updates, origin=origin)

    view.gram = gram  # type: ignore[method-assign]
    algorithm = RobustFedAvg(rule=rule)
    state = algorithm.init(Start(IDS, dict.fromkeys(IDS, 0), Model("init")))
    state = algorithm.round(state, view, np.random.default_rng(0))
    assert asked == [Functionality.GRAM_ORIGIN in algorithm.needs] * (Functionality.SUMS in algorithm.needs and rule != Mean())
    if asked == [False] and ALL in state.measured:
        assert state.measured[ALL].centred
        _, moved, _ = play(algorithm, updates=about_ones)
        _, model, _ = play(algorithm)
        np.testing.assert_allclose(moved - 100, model, atol=2e-3)


def test_the_mean_is_fedavg() -> None:
    _, robust, _ = play(RobustFedAvg(rule=Mean(), participation=0.4, sampling="random"), rounds=4)
    view = open_view(Plain(), {i: update_of(i) for i in IDS})
    algorithm = FedAvg(by_samples=False, participation=0.4, sampling="random")
    state = algorithm.init(Start(IDS, dict.fromkeys(IDS, 0), Model("init")))
    for t in range(4):
        state = algorithm.round(state, view, np.random.default_rng(t))
    np.testing.assert_allclose(robust, view.harness.observe(state.clusters["0"].model), atol=1e-5)


@pytest.mark.long
def test_robust_rules_reach_the_honest_optimum_where_the_mean_runs_away() -> None:
    target = np.linspace(-1, 1, D, dtype=np.float32)
    ids, faulty = range(12), {1, 5, 9}

    def after_rounds(rule: Rule) -> float:
        view: ServerView

        def workers(jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
            for job in jobs:
                noise = 0.01 * np.random.default_rng([job.client, job.round]).standard_normal(D).astype(np.float32)
                honest = 0.5 * (target - job.start) + noise
                yield job.client, LocalWork(-5 * honest if job.client in faulty else honest, 1)

        view = Plain().open(Setup(bytes(16), np.zeros(D, np.float32), tuple(ids), workers, SimulatedEntropy(0)))
        algorithm = RobustFedAvg(rule=rule)
        state = algorithm.init(Start(tuple(ids), dict.fromkeys(ids, 0), Model("init")))
        for t in range(15):
            state = algorithm.round(state, view, np.random.default_rng(t))
        return float(np.linalg.norm(view.harness.observe(state.clusters[ALL].model) - target))

    assert after_rounds(Mean()) > 5
    for rule in (MultiKrum(3), MDA(3), CAF(3), Median(), TrimmedMean(3), FLAME(), Mixed((NNM(3),), GeometricMedian())):
        assert after_rounds(rule) < 0.1, rule


# --- nothing is published, and it is said ------------------------------------------------------------------------------


def test_krum_is_below_every_floor_above_one_and_multi_krum_fits() -> None:
    state, model, view = play(RobustFedAvg(rule=Krum(2)), Plain(floor=2))
    np.testing.assert_array_equal(model, 0)
    assert state.outcome is not None
    assert "1 client is below the floor of 2" in state.outcome.unmoved
    assert len(view.record.below_floor) == 1
    assert state.round == 1
    state, model, _ = play(RobustFedAvg(rule=MultiKrum(2)), Plain(floor=9))
    np.testing.assert_allclose(model, expected(MultiKrum(2)), atol=2e-5)


@pytest.mark.parametrize("rule", [MultiKrum(6), TrimmedMean(6)], ids=lambda rule: str(rule).split(", cut=")[0])
def test_too_few_answers_for_f_leave_the_model_as_it_is(rule: Rule) -> None:
    state, model, _ = play(RobustFedAvg(rule=rule))
    np.testing.assert_array_equal(model, 0)
    assert state.outcome is not None
    assert "needs at least" in state.outcome.unmoved


def test_a_rule_that_trusts_nobody_leaves_the_model_as_it_is() -> None:
    same = np.ones(D, dtype=np.float32)
    state, model, _ = play(RobustFedAvg(rule=FoolsGold(), memory=False), updates=dict.fromkeys(IDS, same))
    np.testing.assert_array_equal(model, 0)
    assert state.outcome is not None
    assert "trusts nobody" in state.outcome.unmoved


def test_a_client_that_is_not_finite_is_recorded_and_the_rule_works_on_the_others() -> None:
    updates = {i: update_of(i) for i in IDS}
    updates[5] = np.full(D, np.nan, dtype=np.float32)
    state, model, view = play(RobustFedAvg(rule=MultiKrum(2)), updates=updates)
    assert [fault.blame for fault in view.record.faults] == [5]
    assert np.isfinite(model).all()
    assert state.outcome is not None
    assert 5 not in state.outcome.weights
    assert np.linalg.norm(model) > 0


def test_nobody_answers() -> None:
    state, model, _ = play(RobustFedAvg(rule=Median()), updates={3: np.full(D, np.inf, dtype=np.float32)})
    np.testing.assert_array_equal(model, 0)
    assert state.outcome is not None
    assert state.outcome.unmoved


# --- what rules carry from round to round ------------------------------------------------------------------------------

LOOKS_BACK = [Plain(), Permuted(floor=1), Permuted(HadamardRotation, floor=1)]
"""Any weights are answered here, also those in which one client outweighs the others."""


def rounds_of(seed: int, rounds: int, d: int = D) -> list[dict[int, NDArray[np.float32]]]:
    """Updates about a direction that turns slowly; clients 4 and 7 send one constant direction under private noise."""
    rng = np.random.default_rng(seed)
    direction, evil = rng.standard_normal((2, d))
    turned = [direction + 0.3 * t * rng.standard_normal(d) for t in range(rounds)]

    def update(client: int, t: int) -> NDArray[np.float32]:
        return np.asarray((0.5 * evil if client in (4, 7) else turned[t]) + 2 * rng.standard_normal(d), np.float32)

    return [{i: update(i, t) for i in IDS} for t in range(rounds)]


def play_rounds(
    algorithm: RobustFedAvg, protection: Protection, sent: Sequence[Mapping[int, NDArray[np.float32]]]
) -> tuple[list[NDArray[np.float32]], list[State]]:
    """The models after every round, and the states."""

    def workers(jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
        for job in jobs:
            yield job.client, LocalWork(sent[job.round][job.client], 1)

    initial = np.zeros_like(sent[0][IDS[0]])
    view = protection.open(Setup(bytes(16), initial, IDS, workers, SimulatedEntropy(0)))
    state = algorithm.init(Start(IDS, dict.fromkeys(IDS, 0), Model("init")))
    models, states = [], []
    for t in range(len(sent)):
        state = algorithm.round(state, view, np.random.default_rng(t))
        view.harness.retire(state.models, state.remembered)
        models.append(view.harness.observe(state.clusters[ALL].model))
        states.append(state)
    return models, states


def mean_cosines(seen: Sequence[Mapping[int, NDArray[np.float32]]], clients: Sequence[int]) -> NDArray[np.float64]:
    """Of every two clients, the mean cosine over the rounds that have both; pair by pair."""
    found: dict[tuple[int, int], list[float]] = {}
    for updates in seen:
        rows = {i: vector.astype(np.float64) for i, vector in updates.items()}
        for i in updates:
            for j in updates:
                cosine = float(rows[i] @ rows[j] / np.linalg.norm(rows[i]) / np.linalg.norm(rows[j]))
                found.setdefault((i, j), []).append(cosine)
    return np.array([[1.0 if i == j else np.mean(found[i, j]) for j in clients] for i in clients])


ENCRYPTED = pytest.param(Encrypted(k=512), marks=pytest.mark.slow)


@pytest.mark.parametrize("protection", [*LOOKS_BACK, Permuted(keys="session", floor=1), TwoServer(), ENCRYPTED], ids=repr)
@pytest.mark.parametrize("participation", [1.0, 0.4])
def test_foolsgold_judges_by_mean_cosines_under_every_view(protection: Protection, participation: float) -> None:
    exact = not isinstance(protection, TwoServer | Encrypted)
    sent = rounds_of(0, 6 if exact else 2)
    models, states = play_rounds(RobustFedAvg(rule=FoolsGold(), participation=participation, sampling="random"), protection, sent)
    seen: list[dict[int, NDArray[np.float32]]] = []
    model = np.zeros(D)
    for t, (found, state) in enumerate(zip(models, states, strict=True)):
        assert state.outcome is not None
        took = tuple(state.outcome.weights)
        assert len(took) == (N if participation == 1 else 5)
        seen.append({i: sent[t][i] for i in took})
        weights = FoolsGold().weights(mean_cosines(seen, took), np.random.default_rng(t))
        if exact:
            model = model + sum(w * sent[t][i] for w, i in zip(weights, took, strict=True))
            np.testing.assert_allclose(list(state.outcome.weights.values()), weights, atol=1e-4)
            np.testing.assert_allclose(found, model, atol=1e-3)
    assert state.past.agreement.clients == tuple(sorted({i for updates in seen for i in updates}))
    assert state.past.agreement.rounds.max() == max(sum(i in updates for updates in seen) for i in IDS)
    if exact:
        without, _ = play_rounds(
            RobustFedAvg(rule=FoolsGold(), participation=participation, sampling="random", memory=False), protection, sent
        )
        assert np.linalg.norm(without[-1] - models[-1]) > 0.1


@pytest.mark.parametrize("protection", LOOKS_BACK, ids=repr)
@pytest.mark.parametrize(("participation", "L"), [(1.0, 1), (0.4, 3)])
def test_centred_clipping_starts_from_the_result_of_the_round_before(
    protection: Protection, participation: float, L: int
) -> None:
    sent, rule = rounds_of(1, 6), CenteredClipping(tau=3.0, L=L)
    models, states = play_rounds(RobustFedAvg(rule=rule, participation=participation, sampling="random"), protection, sent)
    last, model = np.zeros(D, np.float32), np.zeros(D)
    for t, (found, state) in enumerate(zip(models, states, strict=True)):
        assert state.outcome is not None
        rows = [sent[t][i] for i in state.outcome.weights]
        last = aggregate(rule, rows, np.random.default_rng(t), extra=last).vector
        model = model + last
        np.testing.assert_allclose(found, model, atol=2e-4)
        assert len(state.models) == 2
    without, _ = play_rounds(
        RobustFedAvg(rule=rule, participation=participation, sampling="random", memory=False), protection, sent
    )
    np.testing.assert_allclose(without[0], models[0], atol=1e-5)
    assert np.linalg.norm(without[-1] - models[-1]) > 0.1


def sybils_of(ways: float, noise: float, count: int = 4, rounds: int = 30) -> list[dict[int, NDArray[np.float32]]]:
    """Rounds in which the first `count` clients push one way and the others each its own, all under noise of their own."""
    rng = np.random.default_rng(3)
    sybils = IDS[:count]
    way = {i: ways * rng.standard_normal(D) for i in IDS} | dict.fromkeys(sybils, ways * rng.standard_normal(D))
    return [{i: np.asarray(way[i] + noise * rng.standard_normal(D), np.float32) for i in IDS} for _ in range(rounds)]


@pytest.mark.parametrize("count", [2, 4, 6, 8])
def test_sybils_get_no_weight_from_mean_cosines_however_many_they_are(count: int) -> None:
    _, states = play_rounds(RobustFedAvg(rule=FoolsGold()), Plain(), sybils_of(1.0, 0.3, count))
    outcome = states[-1].outcome
    assert outcome is not None
    assert max(outcome.weights[i] for i in IDS[:count]) == 0
    assert min(outcome.weights[i] for i in IDS[count:]) > 0


def test_noise_of_single_rounds_averages_out_of_what_tells_clients_apart() -> None:
    """So that honest clients, alike by chance in a round, keep their trust; what hides in all rounds stays hidden."""
    spread = {}
    for memory in (True, False):
        _, states = play_rounds(RobustFedAvg(rule=FoolsGold(), memory=memory), Plain(), sybils_of(0.5, 1.0))
        outcomes = [state.outcome for state in states[-10:]]
        spread[memory] = float(np.mean([np.std([o.weights[i] for i in IDS[4:]]) for o in outcomes if o is not None]))
    assert spread[True] < 0.5 * spread[False]


@pytest.mark.long
@pytest.mark.parametrize(
    ("rule", "keys"),
    [(FoolsGold(), "run"), (FoolsGold(), "session"), (CenteredClipping(tau=60.0), "run")],
    ids=["FoolsGold, one key", "FoolsGold", "centred clipping"],
)
def test_a_rule_that_looks_back_works_from_sketches_under_masks(rule: Rule, keys: Keys) -> None:
    """Sketches give its weights within their errors; what the weights then do to the model is exact."""
    sent, d = rounds_of(2, 4, 3000), 3000
    exact, _ = play_rounds(RobustFedAvg(rule=rule), Plain(), sent)
    masked, states = play_rounds(RobustFedAvg(rule=rule), Masked(sketch=1500, clip=64.0, floor=3, keys=keys), sent)
    assert np.linalg.norm(masked[-1] - exact[-1]) < 0.1 * np.linalg.norm(exact[-1])
    models = [np.zeros(d), *masked]
    for t, state in enumerate(states):
        assert state.outcome is not None
        assert len(state.outcome.weights) == N
        step = sum(w * sent[t][i].astype(np.float64) for i, w in state.outcome.weights.items())
        if isinstance(rule, CenteredClipping) and t:
            carried = 1 - sum(state.outcome.weights.values())
            assert carried > 0.01
            step = step + carried * (models[t] - models[t - 1])
        np.testing.assert_allclose(models[t + 1] - models[t], step, atol=1e-3)


def test_a_round_without_a_result_leaves_what_is_carried_as_it_was() -> None:
    sent = rounds_of(4, 4)
    sent[2] = {i: np.full(D, np.nan, np.float32) for i in IDS}
    rule = CenteredClipping(tau=3.0)
    models, states = play_rounds(RobustFedAvg(rule=rule), Plain(), sent)
    np.testing.assert_array_equal(models[2], models[1])
    assert (states[2].past, states[2].before) == (states[1].past, states[1].before)
    straight, _ = play_rounds(RobustFedAvg(rule=rule), Plain(), [*sent[:2], sent[3]])
    np.testing.assert_allclose(models[3], straight[2], atol=1e-5)


def test_memory_is_asked_of_the_protection_and_can_be_done_without() -> None:
    assert RobustFedAvg(rule=FoolsGold()).needs == RobustFedAvg(rule=FoolsGold(), memory=False).needs
    for rule in (FoolsGold(), CenteredClipping(tau=1.0)):
        assert (Functionality.GRAM_HISTORY in RobustFedAvg(rule=rule).needs) == isinstance(rule, CenteredClipping)
        assert RobustFedAvg(rule=rule, memory=False).needs == {Functionality.SUMS, Functionality.GRAM_ORIGIN}
        assert Functionality.GRAM_HISTORY not in RobustFedAvg(rule=Mixed((Bucketing(2),), rule)).needs
        for protection in (Permuted(keys="session"), Masked(keys="session"), TwoServer(), Encrypted()):
            assert Functionality.GRAM_HISTORY not in protection.gives
    assert Functionality.GRAM_HISTORY not in RobustFedAvg(rule=MultiKrum(2)).needs
    smoothing = CRFL(rho_0=1.0, rate=0.1, sigma=0.1, sigma_test=0.1, T=5)
    with pytest.raises(ValueError, match="memory=False"):
        RobustFedAvg(rule=CenteredClipping(tau=1.0), smoothing=smoothing)
    RobustFedAvg(rule=CenteredClipping(tau=1.0), smoothing=smoothing, memory=False)


@pytest.mark.parametrize("clients", [(4,), (4, 7)])
def test_the_longest_updates_that_can_be_compared_stop_nobody(clients: Sequence[int]) -> None:
    sent = rounds_of(7, 6)
    for updates in sent:
        for i in clients:
            updates[i] = np.zeros(D, np.float32)
            updates[i][0] = 1.5e19
    _, states = play_rounds(RobustFedAvg(rule=FoolsGold()), Plain(), sent)
    for state in states:
        assert state.outcome is not None
        assert state.outcome.unmoved == ""
        assert np.isfinite(state.past.agreement.cosines).all()
        assert len(clients) == 1 or all(state.outcome.weights[i] == 0 for i in clients)


def test_centred_clipping_keeps_one_vector_however_many_clients_there_are() -> None:
    sent = rounds_of(8, 3)
    view = open_view(Plain(), sent[0])
    state = RobustFedAvg(rule=CenteredClipping(tau=3.0), participation=0.4, sampling="random").init(
        Start(IDS, dict.fromkeys(IDS, 0), Model("init"))
    )
    for t in range(4):
        state = RobustFedAvg(rule=CenteredClipping(tau=3.0), participation=0.4, sampling="random").round(
            state, view, np.random.default_rng(t)
        )
        view.harness.retire(state.models, state.remembered)
    assert state.past.kept is not None
    assert len(state.past.kept.clients) > 5
    (kept,) = view.harness.save().remembered.values()
    assert kept.shape == (1, D)
    products = [entry for entry in view.record.log if entry.what == "gram(history)"]
    assert [entry.scalars for entry in products] == [6 * 7 // 2] * 3


# --- the root, history and what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize("root", [3, 8, 13])
def test_fltrust_trusts_the_client_that_holds_the_root_data(root: int) -> None:
    state, model, _ = play(RobustFedAvg(rule=FLTrust(), root=root))
    others = np.stack([update_of(i) for i in IDS if i != root])
    found = aggregate(FLTrust(), others, np.random.default_rng(0), extra=update_of(root))
    np.testing.assert_allclose(model, found.vector, atol=2e-5)
    assert state.outcome is not None
    assert state.outcome.weights[root] == 0
    assert state.outcome.weights[4] == state.outcome.weights[7] == 0


def test_the_root_is_in_every_round_and_without_it_nothing_moves() -> None:
    state, _, view = play(RobustFedAvg(rule=FLTrust(), root=8, participation=0.2, sampling="random"), rounds=5)
    assert all(8 in entry.about for entry in view.record.log if entry.what == "gram")
    updates = {i: update_of(i) for i in IDS}
    updates[8] = np.full(D, np.inf, dtype=np.float32)
    state, model, _ = play(RobustFedAvg(rule=FLTrust(), root=8), updates=updates)
    np.testing.assert_array_equal(model, 0)
    assert state.outcome is not None
    assert "client 8" in state.outcome.unmoved


def test_clipped_clustering_carries_its_norms_and_the_state_survives_being_written() -> None:
    algorithm = RobustFedAvg(rule=ClippedClustering())
    state, model, _ = play(algorithm, rounds=2)
    assert len(state.history) == 2 * N
    again = from_plain(State, json.loads(json.dumps(to_plain(state))))
    assert again == state
    assert again.history == state.history
    first = expected(ClippedClustering())
    norms = tuple(float(np.linalg.norm(update_of(i))) for i in IDS)
    np.testing.assert_allclose(model - first, expected(ClippedClustering(norms)), atol=1e-4)


def test_what_cannot_be_is_refused_when_it_is_built() -> None:
    for message, wrong in (
        ("name the client", {"rule": FLTrust()}),
        ("leave root out", {"rule": Median(), "root": 3}),
        ("participation", {"rule": Mean(), "participation": 0.0}),
    ):
        with pytest.raises(ValueError, match=message) as caught:
            RobustFedAvg(**wrong)  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="not in the run"):
        RobustFedAvg(rule=FLTrust(), root=99).init(Start(IDS, dict.fromkeys(IDS, 0), Model("init")))


@pytest.mark.parametrize(
    ("noisy", "still"),
    [
        (NormBound(20.0, s=0.3), NormBound(20.0)),
        (FLAME(noise=0.01), FLAME()),
        (Mixed((NNM(2),), FLAME(noise=0.01)), Mixed((NNM(2),), FLAME())),
    ],
    ids=str,
)
def test_the_noise_of_a_rule_is_added_by_the_server_that_owns_the_model(noisy: Rule, still: Rule) -> None:
    d = 20_000
    updates = {i: np.random.default_rng(i).standard_normal(d, dtype=np.float32) + 1 for i in IDS}
    rows = np.stack(list(updates.values())).astype(np.float64)
    blurred, model = (play(RobustFedAvg(rule=rule), updates=updates)[1] for rule in (noisy, still))
    noise = blurred.astype(np.float64) - model
    std = noise_of(noisy, rows @ rows.T)
    assert std > 0
    assert abs(noise.std() / std - 1) < 0.03
    assert abs(noise.mean()) < 5 * std / np.sqrt(d)
    assert abs(np.corrcoef(noise, model)[0, 1]) < 0.04
    np.testing.assert_array_equal(play(RobustFedAvg(rule=noisy), updates=updates)[1], blurred)


def test_noise_is_there_under_secure_aggregation_and_refused_where_clients_own_the_model() -> None:
    noisy = RobustFedAvg(rule=NormBound(2.0, s=0.1))
    _, blurred, _ = play(noisy, Masked())
    _, model, _ = play(RobustFedAvg(rule=NormBound(2.0)), Masked())
    assert 0.05 < (blurred - model).std() < 0.2
    assert noisy.needs - RobustFedAvg(rule=NormBound(2.0)).needs == {Functionality.REVISION}
    for protection in (Permuted(), Encrypted()):
        with pytest.raises(Refused, match="models that the server may change"):
            replace(SMALL, algorithm=noisy, protection=protection)
    with pytest.raises(Refused, match="clients own"):
        open_view(Permuted(), {i: update_of(i) for i in IDS}).revise(Model("init"), lambda vector: vector)
    with pytest.raises(ValueError, match="float32 of shape"):
        open_view(Plain(), {i: update_of(i) for i in IDS}).revise(Model("init"), lambda vector: vector[1:])


def test_crfl_clips_and_blurs_the_model_after_every_round_and_clips_alone_after_the_last() -> None:
    crfl = CRFL(rho_0=2.0, rate=0.5, sigma=0.05, sigma_test=0.05, T=3)
    model = np.zeros(D, dtype=np.float32)
    for t in (1, 2, 3):
        model = crfl.after_round(model + expected(Mean()), t, np.random.default_rng(t - 1))
        _, found, _ = play(RobustFedAvg(rule=Mean(), smoothing=crfl), rounds=t)
        np.testing.assert_allclose(found, model, atol=1e-5)
        assert (np.linalg.norm(found) <= crfl.rho(t) * (1 + 1e-6)) == (t == 3)


def test_rules_of_updates_run_in_the_clear_alone() -> None:
    _, model, _ = play(RobustFedAvg(rule=SignGuard(part=1.0)))
    assert np.linalg.norm(model) > 0
    with pytest.raises(Refused, match="SignGuard reads the signs"):
        play(RobustFedAvg(rule=SignGuard()), Permuted(SignedPermutation))
    lasa = LASA((4, update_of(0).size - 4), sparsity=0.0)
    _, model, _ = play(RobustFedAvg(rule=lasa))
    np.testing.assert_allclose(model, expected(lasa), atol=2e-5)
    with pytest.raises(Refused, match="LASA reads the signs"):
        play(RobustFedAvg(rule=lasa), Permuted(SignedPermutation))
    _, model, _ = play(RobustFedAvg(rule=DnC(2, b=20)), Permuted(SignedPermutation))
    assert np.linalg.norm(model) > 0


# --- in a scenario -----------------------------------------------------------------------------------------------------

SMALL = Scenario(
    name="small",
    data=Digits(),
    partition=LabelSwap(clients=6, groups=1, samples=40),
    model=Mlp(hidden=(8,)),
    training=Training(epochs=2, batch=10, lr=0.1),
    algorithm=RobustFedAvg(rule=MultiKrum(1)),
    protection=Plain(),
    rounds=2,
)


@pytest.mark.trains
def test_a_scenario_refuses_order_statistics_under_a_rotation_and_runs_what_fits() -> None:
    with pytest.raises(Refused, match="coordinates"):
        replace(SMALL, algorithm=RobustFedAvg(rule=Median()), protection=Permuted(HadamardRotation))
    models: dict[str, Any] = {}
    for protection in (Plain(), Permuted(floor=2)):
        simulation = Simulation(replace(SMALL, protection=protection), None)
        for _ in range(SMALL.rounds):
            simulation.step()
        models[repr(protection)] = simulation.vectors()[0]
        assert simulation.state.measured[ALL].similarity.shape == (6, 6)
    plain, permuted = models.values()
    np.testing.assert_allclose(plain, permuted, atol=1e-5)


def test_a_rules_parameters_are_described_and_set_from_text() -> None:
    assert described(SMALL)["algorithm"]["rule"] == {"type": "MultiKrum", "f": 1, "m": None}
    assert changed(SMALL, "algorithm.participation", "0.5").algorithm.participation == 0.5
    assert changed(SMALL, "algorithm.rule.f", "2").algorithm.rule == MultiKrum(2)


# --- lost on the way ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "keys"),
    [(FoolsGold(), "run"), (FoolsGold(), "session"), (CenteredClipping(tau=10.0), "run")],
    ids=["FoolsGold, one key", "FoolsGold", "centred clipping"],
)
def test_what_is_carried_is_what_happened_whoever_is_lost_on_the_way(rule: Rule, keys: Keys) -> None:
    """Round 1 loses a sketch, 2 two masked inputs, 3 too many of them, 4 all sketches: what is kept sketches what it should."""
    sent, d = rounds_of(5, 6, 400), 400
    lost = {1: ("Upload", IDS[2:3]), 2: ("MaskedInput", IDS[1:4:2]), 3: ("MaskedInput", IDS[:8]), 4: ("Upload", IDS)}
    now = [0]

    def tap(frame: Any) -> list[Any]:
        kind, who = lost.get(now[0], ("", ()))
        return [] if frame.kind == kind and frame.sender in who else [frame]

    def workers(jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
        for job in jobs:
            yield job.client, LocalWork(sent[job.round][job.client], 1)

    setup = Setup(bytes(16), np.zeros(d, np.float32), IDS, workers, SimulatedEntropy(0), tap)
    view: Any = Masked(sketch=200, clip=64.0, floor=3, keys=keys).open(setup)
    algorithm = RobustFedAvg(rule=rule)
    state = algorithm.init(Start(IDS, dict.fromkeys(IDS, 0), Model("init")))
    together = np.zeros((N, N))
    for t in range(6):
        now[0], before = t, state
        state = algorithm.round(state, view, np.random.default_rng(t))
        view.harness.retire(state.models, state.remembered)
        assert state.outcome is not None
        assert (state.outcome.unmoved == "") == (t not in (3, 4))
        if isinstance(rule, FoolsGold):
            together[np.ix_(*[[i in state.outcome.weights for i in IDS]] * 2)] += 1
            assert np.array_equal(state.past.agreement.rounds, together)
            continue
        if state.outcome.unmoved:
            assert (state.past, state.before) == (before.past, before.before)
        assert state.before is not None
        assert state.past.kept is not None
        found = sum(sides.part(view, History).rows[state.past.kept.name].values())
        true = view.harness.observe(state.clusters[ALL].model) - view.harness.observe(state.before)
        np.testing.assert_allclose(found, sides.sketch(view)(bytes(32)).apply(true.astype(np.float32)), atol=1e-3)


@pytest.mark.parametrize("rule", [FoolsGold(), CenteredClipping(tau=3.0)], ids=["FoolsGold", "centred clipping"])
def test_what_is_carried_outlives_rounds_that_rest_on_too_few(rule: Rule) -> None:
    sent = rounds_of(6, 5)
    sent[2] = {i: sent[2][i] if i in IDS[:2] else np.full(D, np.nan, np.float32) for i in IDS}
    sent[3] = {i: sent[3][i] if i in IDS[:1] else np.full(D, np.nan, np.float32) for i in IDS}
    models, states = play_rounds(RobustFedAvg(rule=rule), Plain(floor=3), sent)
    assert [s.outcome is not None and bool(s.outcome.unmoved) for s in states] == [False, False, True, True, False]
    np.testing.assert_array_equal(models[3], models[1])
    if isinstance(rule, CenteredClipping):
        assert (states[3].past, states[3].before) == (states[1].past, states[1].before)
        straight, _ = play_rounds(RobustFedAvg(rule=rule), Plain(), [*sent[:2], sent[4]])
        np.testing.assert_allclose(models[4], straight[2], atol=1e-5)
    else:
        seen = [{i: x for i, x in updates.items() if np.isfinite(x).all()} for updates in sent]
        weights = FoolsGold().weights(mean_cosines(seen, IDS), np.random.default_rng(4))
        moved = sum(w * sent[4][i] for w, i in zip(weights, IDS, strict=True))
        np.testing.assert_allclose(models[4] - models[3], moved, atol=1e-3)
