"""CFL against its definition, with clients whose updates are chosen by hand (Sattler et al. 2020, Algorithms 1, 4 and 5)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import cos, nextafter, radians, sin, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from cloister.crypto.entropy import SimulatedEntropy
from cloister.fl.algorithms.algorithm import Algorithm, Start
from cloister.fl.algorithms.cfl import CFL, Absolute, ScaleFree, State
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.parameter_tree import ROOT
from cloister.fl.clustering.bipartition import complete_linkage_bipartition
from cloister.protocol import Permuted, Plain, TwoServer
from cloister.protocol.core.link import Frame
from cloister.protocol.view.answers import Model
from cloister.protocol.view.protection import Protection, Setup
from cloister.protocol.view.work import LocalJob, LocalWork

Answer = Callable[[LocalJob], ArrayLike | None]
PRINTED = partial(CFL, similarities="every round")
"""Algorithms 1 and 5 as they are printed; what is asked for by default is in test_cfl_when_ripe.py."""
ALWAYS = Absolute(eps1=1e9, eps2=1e-9)
"""Thresholds that any update that is not zero passes."""


@dataclass
class Toy:
    """A run whose clients answer what `answer` says; None is a client whose upload the network loses."""

    clients: Sequence[int]
    answer: Answer
    d: int = 2
    samples: Mapping[int, int] = field(default_factory=dict)
    protection: Protection = field(default_factory=Plain)
    late: Sequence[int] = ()

    def __post_init__(self) -> None:
        self.asked: list[tuple[int, str, int]] = []
        everybody = tuple(sorted({*self.clients, *self.late}))
        entropy, start = SimulatedEntropy(0), np.zeros(self.d, np.float32)
        self.lost: set[int] = set()
        self.view = self.protection.open(Setup(bytes(16), start, everybody, self._work, entropy, self._network))

    def _network(self, frame: Frame) -> list[Frame]:
        return [] if frame.kind == "Upload" and frame.sender in self.lost else [frame]

    def _work(self, jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
        for job in jobs:
            self.asked.append((job.round, job.work, job.client))
            answer = self.answer(job)
            self.lost = {job.client} if answer is None else set()
            vector = np.asarray(np.ones(self.d) if answer is None else answer, np.float32)
            yield job.client, LocalWork(vector, self.samples.get(job.client, 1))

    def begin(self, algorithm: Algorithm) -> State:
        clients = tuple(sorted(self.clients))
        state: State = algorithm.init(Start(clients, dict.fromkeys(clients, 0), Model("init")))
        return state

    def step(self, algorithm: Algorithm, state: State, seed: int = 0) -> State:
        state = algorithm.round(state, self.view, np.random.default_rng((seed, state.round)))
        self.view.harness.retire(state.models, state.remembered)
        return state

    def play(self, algorithm: Algorithm, rounds: int, seed: int = 0) -> State:
        state = self.begin(algorithm)
        for _ in range(rounds):
            state = self.step(algorithm, state, seed)
        return state

    def model(self, state: State, client: int) -> NDArray[np.float32]:
        (found,) = [c.model for c in state.clusters.values() if client in c.members]
        return self.view.harness.observe(found)

    def asked_in(self, round: int, work: str = "update") -> list[int]:
        return [client for r, w, client in self.asked if r == round and w == work]


def constant(vectors: Mapping[int, ArrayLike]) -> Answer:
    return lambda job: vectors[job.client]


def at(degrees: float, length: float = 1.0) -> list[float]:
    return [length * cos(radians(degrees)), length * sin(radians(degrees))]


def members(state: State) -> set[tuple[int, ...]]:
    return {cluster.members for cluster in state.clusters.values()}


def splits(vectors: Mapping[int, ArrayLike], algorithm: CFL, **more: object) -> set[tuple[int, ...]]:
    """Clusters after one round."""
    toy = Toy(tuple(vectors), constant(vectors), len(np.asarray(next(iter(vectors.values())))), **more)  # type: ignore[arg-type]
    return members(toy.play(algorithm, 1))


# --- the three tests of a split ---------------------------------------------------------------------------------------

APART = {1: [1.0, 0.0], 2: [-0.5, 0.0]}  # |mean| = 1/4, max |update| = 1, exactly
WHOLE, CUT = {(1, 2)}, {(1,), (2,)}


@pytest.mark.parametrize(
    ("eps1", "eps2", "found"),
    [
        (0.25, 0.5, WHOLE),  # strict: the mean must be below eps1
        (nextafter(0.25, 1), 0.5, CUT),
        (0.3, 1.0, WHOLE),  # strict: the largest update must be above eps2
        (0.3, nextafter(1.0, 0), CUT),
    ],
)
def test_absolute_thresholds_are_strict(eps1: float, eps2: float, found: set[tuple[int, ...]]) -> None:
    assert splits(APART, PRINTED(thresholds=Absolute(eps1=eps1, eps2=eps2))) == found


@pytest.mark.parametrize(("eps1", "found"), [(0.25, WHOLE), (nextafter(0.25, 1), CUT)])
def test_scale_free_eps1_is_the_mean_as_a_share_of_the_largest_update(eps1: float, found: set[tuple[int, ...]]) -> None:
    assert splits(APART, PRINTED(thresholds=ScaleFree(eps1=eps1, eps2=0.5))) == found


@pytest.mark.parametrize(("eps2", "found"), [(0.5, WHOLE), (nextafter(0.5, 0), CUT)])
def test_scale_free_eps2_is_a_share_of_the_largest_update_of_the_first_round(eps2: float, found: set[tuple[int, ...]]) -> None:
    def answer(job: LocalJob) -> ArrayLike:
        return np.array(APART[job.client]) * (1 if job.round == 0 else 0.5)

    toy = Toy((1, 2), answer)
    algorithm = PRINTED(thresholds=ScaleFree(eps1=0.3, eps2=eps2), patience=1)
    assert members(toy.play(algorithm, 2)) == found


def test_gamma_test_is_strict() -> None:
    orthogonal = {1: [1.0, 0.0], 2: [0.0, 1.0]}  # alpha_cross = 0, so gamma_max < sqrt(1/2)
    assert splits(orthogonal, PRINTED(thresholds=ALWAYS, gamma_max=sqrt(0.5))) == WHOLE
    assert splits(orthogonal, PRINTED(thresholds=ALWAYS, gamma_max=nextafter(sqrt(0.5), 0))) == CUT


FAN = dict(zip((3, 10, 42, 57, 90), map(at, (0, 25, 50, 75, 110)), strict=True))


@pytest.mark.parametrize(("gamma_max", "cut"), [(0.3006, True), (0.3008, False)])
def test_known_answer_of_single_linkage(gamma_max: float, cut: bool) -> None:
    found = splits(FAN, PRINTED(thresholds=ALWAYS, gamma_max=gamma_max))
    assert found == ({(3, 10, 42, 57), (90,)} if cut else {(3, 10, 42, 57, 90)})


def test_complete_linkage_is_another_cut() -> None:
    algorithm = PRINTED(thresholds=ALWAYS, linkage=complete_linkage_bipartition)
    assert splits(FAN, algorithm) == {(3, 10), (42, 57, 90)}


def test_patience_counts_the_rounds_that_a_cluster_has_trained() -> None:
    vectors = {1: [1.0, 0.0, 0.3], 2: [1.0, 0.0, -0.3], 3: [-1.0, 0.0, 0.0]}
    toy = Toy((1, 2, 3), constant(vectors), 3)
    algorithm = PRINTED(thresholds=ALWAYS, patience=3)
    state, sizes = toy.begin(algorithm), []
    for _ in range(8):
        state = toy.step(algorithm, state)
        sizes.append(len(state.clusters))
    assert sizes == [1, 1, 1, 2, 2, 2, 2, 3]  # split in round 3; the child is born in round 4 and split in round 7
    assert (state.tree["0"].round, state.tree["00"].born, state.tree["00"].round) == (3, 4, 7)


# --- who is with whom -------------------------------------------------------------------------------------------------


def test_ids_survive_several_levels_of_splits() -> None:
    a, b, c, d = [1, 0.5, 0, 0], [1, -0.5, 0, 0], [-1, 0, 0.5, 0.1], [-1, 0, -0.5, 0.1]
    vectors = {42: a, 3: a, 10: b, 7: b, 100: c, 5: d, 66: d}
    toy = Toy(tuple(vectors), constant(vectors), 4)
    algorithm = PRINTED(thresholds=ALWAYS, gamma_max=0.01)
    state = toy.play(algorithm, 1)
    assert {name: cl.members for name, cl in state.clusters.items()} == {"00": (3, 7, 10, 42), "01": (5, 66, 100)}
    state = toy.step(algorithm, state)
    assert {name: cl.members for name, cl in state.clusters.items()} == {
        "000": (3, 42),
        "001": (7, 10),
        "010": (5, 66),
        "011": (100,),
    }
    assert state.tree["00"].members == (3, 7, 10, 42)
    edge = state.tree["00"].edge
    assert edge is not None
    assert edge.clients == (3, 7, 10, 42)
    assert state.tree["00"].sides == ((3, 42), (7, 10))
    assert state.tree["01"].children == ("010", "011")
    later = toy.step(algorithm, state)
    assert members(later) == members(state)  # identical updates and clusters of one are never split
    for i, vector in vectors.items():
        first = np.mean(list(vectors.values()), axis=0)
        second = np.mean([vectors[j] for j in (state.tree["00"] if i in (3, 7, 10, 42) else state.tree["01"]).members], axis=0)
        np.testing.assert_allclose(toy.model(later, i), first + second + vector, rtol=1e-6, atol=1e-7)


def test_clusters_of_one_are_never_split_and_of_two_into_their_members() -> None:
    assert splits({9: [1.0, 0.0]}, PRINTED(thresholds=ALWAYS)) == {(9,)}
    assert splits({9: [1.0, 0.0], 4: [0.9, 0.1]}, PRINTED(thresholds=ALWAYS)) == {(4,), (9,)}


def test_a_zero_update_is_dissimilar_to_all() -> None:
    assert splits({1: [1, 0], 2: [1, 0], 3: [0, 0]}, PRINTED(thresholds=ALWAYS)) == {(1, 2), (3,)}
    assert splits({1: [1, 0], 2: [0, 0], 3: [-1, 0]}, PRINTED(thresholds=ALWAYS)) == {(1, 2), (3,)}  # cross = 0 either way


def test_nothing_but_zero_updates_is_no_reason_to_split() -> None:
    zeros = {1: [0.0, 0.0], 2: [0.0, 0.0], 3: [0.0, 0.0]}
    for thresholds in (ALWAYS, ScaleFree(eps1=1e9, eps2=0.0), Absolute(eps1=1.0, eps2=0.0)):
        assert splits(zeros, PRINTED(thresholds=thresholds)) == {(1, 2, 3)}


def test_a_client_with_values_that_are_not_finite_is_left_out_of_its_round() -> None:
    def answer(job: LocalJob) -> ArrayLike:
        bad = [float("nan"), 1.0] if job.client == 2 and job.round == 0 else None
        return bad or [float(job.client), 1.0]

    toy = Toy((1, 2, 3), answer)
    algorithm = PRINTED(thresholds=Absolute(eps1=0, eps2=0))
    state = toy.play(algorithm, 1)
    np.testing.assert_array_equal(toy.model(state, 2), [2.0, 1.0])  # the mean of clients 1 and 3
    assert state.measured["0"].clients == (1, 3)
    assert [(f.blame, "not finite" in f.reason) for f in toy.view.record.faults] == [(2, True)]
    state = toy.step(algorithm, state)
    assert state.measured["0"].clients == (1, 2, 3)


# --- the literal algorithm --------------------------------------------------------------------------------------------


def literal_bipartition(alpha: NDArray[np.float64]) -> tuple[set[int], set[int], float]:
    """Algorithm 1 as it is printed: merge the most similar pairs until two components are left."""
    m = len(alpha)
    components = [{i} for i in range(m)]
    pairs = sorted(((i, j) for i in range(m) for j in range(i + 1, m)), key=lambda p: (-alpha[p], p))
    for i, j in pairs:
        if len(components) == 2:
            break
        one = next(c for c in components if i in c)
        other = next(c for c in components if j in c)
        if one is not other:
            components = [c for c in components if c is not one and c is not other] + [one | other]
    left, right = components
    return left, right, max(float(alpha[i, j]) for i in left for j in right)


def literal_cfl(
    vectors: NDArray[np.float64], eps1: float, eps2: float, gamma_max: float
) -> tuple[NDArray[np.float64], list[set[int]]]:
    """Algorithm 5 as it is printed, for updates of shape (rounds, clients, d). Clients' models and clusters at the end."""
    _, m, d = vectors.shape
    weights, clusters = np.zeros((m, d)), [set(range(m))]
    for delta in vectors:
        next_clusters = []
        for c in clusters:
            ids = sorted(c)
            mean = delta[ids].mean(axis=0)
            weights[ids] += mean
            size = np.linalg.norm(delta[ids], axis=1)
            if len(ids) > 1 and np.linalg.norm(mean) < eps1 and size.max() > eps2:
                alpha = delta[ids] @ delta[ids].T / np.outer(size, size)
                left, right, cross = literal_bipartition(alpha)
                if gamma_max < sqrt(max(0.0, 1 - cross) / 2):
                    next_clusters += [{ids[k] for k in left}, {ids[k] for k in right}]
                    continue
            next_clusters.append(c)
        clusters = next_clusters
    return weights, clusters


@pytest.mark.parametrize("protection", [Plain(), Permuted(floor=1)], ids=["plain", "permuted"])
@pytest.mark.parametrize("seed", range(25))
def test_rounds_equal_a_literal_implementation(seed: int, protection: Protection) -> None:
    rng = np.random.default_rng(seed)
    m, d, rounds = int(rng.integers(2, 10)), 5, 4
    vectors = rng.standard_normal((rounds, m, d)).astype(np.float32).astype(np.float64)
    eps1, eps2, gamma_max = rng.uniform(0.5, 2.0), rng.uniform(0.5, 3.0), rng.uniform(0, 0.9)
    ids = sorted(int(i) for i in rng.choice(1000, size=m, replace=False))
    toy = Toy(ids, lambda job: vectors[job.round, ids.index(job.client)], d, protection=protection)
    state = toy.play(PRINTED(thresholds=Absolute(eps1=eps1, eps2=eps2), gamma_max=gamma_max), rounds)
    weights, clusters = literal_cfl(vectors, eps1, eps2, gamma_max)
    assert members(state) == {tuple(ids[k] for k in sorted(c)) for c in clusters}
    for k, i in enumerate(ids):
        np.testing.assert_allclose(toy.model(state, i), weights[k], rtol=1e-5, atol=1e-6)


def test_the_literal_comparison_sees_runs_with_and_without_splits() -> None:
    counts = set()
    for seed in range(25):
        rng = np.random.default_rng(seed)
        m = int(rng.integers(2, 10))
        vectors = rng.standard_normal((4, m, 5))
        _, clusters = literal_cfl(vectors, rng.uniform(0.5, 2.0), rng.uniform(0.5, 3.0), rng.uniform(0, 0.9))
        counts.add(len(clusters))
    assert len(counts) >= 4


# --- identities -------------------------------------------------------------------------------------------------------


def towards(targets: Mapping[int, ArrayLike]) -> Answer:
    """Clients that go a third of the way to their own target, so that updates depend on the model."""
    return lambda job: (np.asarray(targets[job.client]) - job.start) / 3


@pytest.mark.parametrize("protection", [Plain(), Permuted(floor=1)], ids=["plain", "permuted"])
def test_until_the_first_split_the_run_is_fedavg_bit_for_bit(protection: Protection) -> None:
    targets = dict(enumerate(np.random.default_rng(5).standard_normal((6, 7))))
    cfl, fedavg = (Toy(range(6), towards(targets), 7, protection=protection) for _ in range(2))
    late = PRINTED(thresholds=ALWAYS, patience=5)
    ours, theirs = cfl.begin(late), fedavg.begin(FedAvg(by_samples=False))
    for _ in range(6):
        assert len(ours.clusters) == 1
        assert np.array_equal(cfl.model(ours, 0), fedavg.model(theirs, 0))
        ours, theirs = cfl.step(late, ours), fedavg.step(FedAvg(by_samples=False), theirs)
    assert len(ours.clusters) == 2
    for i in range(6):  # line 17: the mean of the splitting round still goes to all
        assert np.array_equal(cfl.model(ours, i), fedavg.model(theirs, i))


@settings(max_examples=25)
@given(seed=st.integers(0, 1000), power=st.integers(-12, 12), eps1=st.floats(0.1, 1.0), eps2=st.floats(0.1, 1.0))
def test_scale_free_thresholds_do_not_see_the_scale(seed: int, power: int, eps1: float, eps2: float) -> None:
    vectors = np.random.default_rng(seed).standard_normal((3, 6, 4)).astype(np.float32)
    algorithm = PRINTED(thresholds=ScaleFree(eps1=eps1, eps2=eps2))
    one, other = (
        Toy(range(6), lambda job, c=c: c * vectors[job.round, job.client], 4).play(algorithm, 3)  # type: ignore[misc]
        for c in (1.0, 2.0**power)
    )
    assert {n: c.members for n, c in one.clusters.items()} == {n: c.members for n, c in other.clusters.items()}


def test_means_by_samples_move_the_model_and_are_what_eps1_bounds() -> None:
    vectors, samples = {1: [1.0, 0.0], 2: [-1.0, 0.0]}, {1: 1, 2: 3}  # uniform mean 0, mean by samples -1/2
    thresholds = Absolute(eps1=0.25, eps2=0.5)
    toy = Toy((1, 2), constant(vectors), samples=samples)
    state = toy.play(PRINTED(thresholds=thresholds, by_samples=True), 1)
    assert members(state) == WHOLE
    assert state.measured["0"].mean == 0.5
    np.testing.assert_array_equal(toy.model(state, 1), [-0.5, 0.0])
    assert splits(vectors, PRINTED(thresholds=thresholds), samples=samples) == CUT
    assert splits(vectors, PRINTED(thresholds=Absolute(eps1=0.51, eps2=0.5), by_samples=True), samples=samples) == CUT


# --- gradients --------------------------------------------------------------------------------------------------------


def gradients_of(gradients: Mapping[int, ArrayLike | None], updates: Mapping[int, ArrayLike | None]) -> Answer:
    return lambda job: (gradients if job.work == "gradient" else updates)[job.client]


SAME_UPDATES: dict[int, ArrayLike | None] = {i: [10.0, 0.0] for i in (1, 2, 3, 4)}
APART_GRADIENTS: dict[int, ArrayLike | None] = {1: [0, 1], 2: [0, -1], 3: [0, 1], 4: [0, -1]}


def test_gradients_decide_and_updates_move() -> None:
    toy = Toy((1, 2, 3, 4), gradients_of(APART_GRADIENTS, SAME_UPDATES))
    state = toy.play(PRINTED(thresholds=ALWAYS, similarity="gradient"), 1)
    assert members(state) == {(1, 3), (2, 4)}
    np.testing.assert_array_equal(toy.model(state, 1), [10.0, 0.0])
    assert splits(SAME_UPDATES, PRINTED(thresholds=ALWAYS)) == {(1, 2, 3, 4)}  # type: ignore[arg-type]


def test_both_thresholds_are_in_the_units_of_the_gradients() -> None:
    """Eq. 32 and 33 bound the mean and the largest of the same vectors, whatever the learning rate makes of the updates."""
    toy = Toy((1, 2, 3, 4), gradients_of(APART_GRADIENTS, SAME_UPDATES))
    state = toy.play(PRINTED(thresholds=ScaleFree(eps1=0.1, eps2=0.5), similarity="gradient"), 1)
    assert (state.measured["0"].mean, state.measured["0"].largest) == (0.0, 1.0)
    assert members(state) == {(1, 3), (2, 4)}


def test_who_sends_no_gradient_cannot_be_split_by_it_and_is_placed_later() -> None:
    gradients = {**APART_GRADIENTS, 4: None}
    updates: dict[int, ArrayLike | None] = {1: [1, 0.1], 2: [1, -0.1], 3: [1, 0.1], 4: [1, -0.1]}
    toy = Toy((1, 2, 3, 4), gradients_of(gradients, updates))
    algorithm = PRINTED(thresholds=ALWAYS, similarity="gradient")
    state = toy.play(algorithm, 1)
    assert state.candidates == ("0",)
    assert state.measured["0"].clients == (1, 2, 3)
    state = toy.step(algorithm, state)
    assert members(state) == {(1, 3), (2,)}
    assert state.waiting == {4: "0"}
    assert members(toy.step(algorithm, state)) == {(1, 3), (2, 4)}  # by its update, like any newcomer


def test_who_sends_a_gradient_alone_is_not_compared() -> None:
    updates = {**SAME_UPDATES, 2: None}
    toy = Toy((1, 2, 3, 4), gradients_of(APART_GRADIENTS, updates))
    state = toy.play(PRINTED(thresholds=ALWAYS, similarity="gradient"), 1)
    assert state.measured["0"].clients == (1, 3, 4)
    assert state.candidates == ("0",)


@pytest.mark.parametrize("gradients", [{1: None, 2: None}, {1: None, 2: [1.0, 0.0]}])
def test_without_gradients_nothing_is_judged_and_training_goes_on(gradients: Mapping[int, ArrayLike | None]) -> None:
    """Neither by the updates instead, which are in other units, nor with an error."""
    toy = Toy((1, 2), gradients_of(gradients, {1: [1.0, 0.0], 2: [-0.5, 0.0] if gradients[2] is None else None}))
    state = toy.play(PRINTED(thresholds=ALWAYS, similarity="gradient"), 2)
    assert members(state) == WHOLE
    assert state.first is None
    assert toy.model(state, 1)[0] != 0


# --- absence ----------------------------------------------------------------------------------------------------------


def test_sampling_is_deterministic_and_a_passed_test_invites_everybody() -> None:
    vectors = {i: [1.0, 0.1 * i] if i < 40 else [-1.0, 0.1] for i in (3, 10, 30, 41, 42, 50)}
    algorithm = PRINTED(thresholds=ALWAYS, participation=0.4, sampling="random", patience=2, remember=False)
    one, other, third = (Toy(tuple(vectors), constant(vectors)) for _ in range(3))
    states = [one.play(algorithm, 4, seed=1), other.play(algorithm, 4, seed=1)]
    third.play(algorithm, 4, seed=2)
    assert one.asked == other.asked
    assert one.asked != third.asked
    assert [len(one.asked_in(t)) for t in range(4)] == [3, 3, 3, 6]  # ceil(0.4 * 6), then a candidate's round
    assert members(states[0]) == {(3, 10, 30), (41, 42, 50)} == members(states[1])
    for t in range(4):
        assert one.asked_in(t) == sorted(one.asked_in(t))


def test_a_candidate_that_fails_the_test_with_all_is_sampled_again() -> None:
    def answer(job: LocalJob) -> ArrayLike:
        return [1.0, 0.0] if job.round == 1 else [1.0, 0.1 * job.client]

    toy = Toy(range(4), answer)
    algorithm = PRINTED(thresholds=ALWAYS, participation=0.5, sampling="random", gamma_max=1e-6)
    state = toy.play(algorithm, 1)
    assert state.candidates == ("0",)
    state = toy.step(algorithm, state)
    assert state.candidates == ()
    assert len(state.clusters) == 1
    toy.step(algorithm, state)
    assert [len(toy.asked_in(t)) for t in range(3)] == [2, 4, 2]


def test_samples_are_at_least_two_so_that_something_can_be_compared() -> None:
    toy = Toy(range(10), lambda job: at(job.client), 2)
    toy.play(PRINTED(thresholds=Absolute(eps1=0, eps2=0), participation=0.01, sampling="random"), 1)
    assert len(toy.asked_in(0)) == 2


TWO_SIDES = {3: at(0), 10: at(10), 42: at(180), 77: at(170)}


def silent_in(rounds: Sequence[int], client: int, vectors: Mapping[int, ArrayLike] = TWO_SIDES) -> Answer:
    return lambda job: None if job.client == client and job.round in rounds else vectors[job.client]


def test_a_dropout_in_the_round_of_a_split_is_placed_later() -> None:
    toy = Toy(tuple(TWO_SIDES), silent_in((0, 1, 2), 77))
    algorithm = PRINTED(thresholds=ALWAYS, gamma_max=0.5)
    state = toy.play(algorithm, 1)
    assert state.candidates == ("0",)  # one more round for all, since someone is missing
    state = toy.step(algorithm, state)
    assert members(state) == {(3, 10), (42,)}
    assert state.waiting == {77: "0"}
    state = toy.step(algorithm, state)
    assert state.waiting == {77: "0"}  # still silent
    state = toy.step(algorithm, state)
    assert state.waiting == {}
    assert members(state) == {(3, 10), (42, 77)}
    assert 77 in toy.asked_in(2)
    assert state.tree["0"].members == (3, 10, 42, 77)


def test_without_the_cache_the_split_waits_for_a_round_in_which_all_answer() -> None:
    toy = Toy(tuple(TWO_SIDES), silent_in((0, 1, 2), 77))
    algorithm = PRINTED(thresholds=ALWAYS, gamma_max=0.5, remember=False)
    state = toy.play(algorithm, 3)
    assert members(state) == {(3, 10, 42, 77)}
    assert members(toy.step(algorithm, state)) == {(3, 10), (42, 77)}


def test_a_cluster_in_which_nobody_answers_keeps_its_model() -> None:
    toy = Toy((1, 2), lambda job: None if job.round == 1 else [1.0, 0.0])
    algorithm = PRINTED(thresholds=ALWAYS)
    first = toy.play(algorithm, 1)
    second = toy.step(algorithm, first)
    assert second.clusters == first.clusters
    assert second.round == 2
    assert second.measured == {}


def test_no_cut_leaves_a_side_below_the_floor() -> None:
    toy = Toy(tuple(FAN), constant(FAN), protection=Permuted(floor=3))
    state = toy.play(PRINTED(thresholds=ALWAYS, gamma_max=0.29), 1)
    assert members(state) == {(3, 10, 42, 57, 90)}
    assert state.measured[ROOT].turned_down == "a cut into 4 and 1 clients was turned down: sums need 3"
    assert not toy.view.record.below_floor


def test_a_round_invites_as_many_as_a_sum_needs() -> None:
    vectors = {i: at(3.0 * i) for i in range(6)}
    toy = Toy(tuple(vectors), constant(vectors), protection=Plain(floor=3))
    toy.play(CFL(thresholds=ALWAYS, participation=0.2), 4)
    assert not toy.view.record.below_floor


# --- newcomers --------------------------------------------------------------------------------------------------------

FOUR = {1: [1, 0.5, 0], 2: [1, -0.5, 0], 3: [-1, 0, 0.5], 4: [-1, 0, -0.5]}
NEW = {20: [1, -0.4, 0], 21: [-1, 0.1, 0.6], 22: [0.0, 0.0, 0.0]}


def test_newcomers_before_any_split_are_members_at_once() -> None:
    toy = Toy(tuple(FOUR), constant({**FOUR, **NEW}), 3, late=tuple(NEW))
    algorithm = PRINTED(thresholds=ALWAYS, patience=1)
    state = algorithm.join(toy.play(algorithm, 1), (21, 20))
    assert members(state) == {(1, 2, 3, 4, 20, 21)}
    assert members(toy.step(algorithm, state)) == {(1, 2, 20), (3, 4, 21)}


def test_newcomers_after_splits_descend_one_level_a_round() -> None:
    toy = Toy(tuple(FOUR), constant({**FOUR, **NEW}), 3, late=tuple(NEW))
    algorithm = PRINTED(thresholds=ALWAYS, gamma_max=0.3)
    state = toy.play(algorithm, 2)
    assert {n: c.members for n, c in state.clusters.items()} == {"000": (1,), "001": (2,), "010": (3,), "011": (4,)}
    state = algorithm.join(state, (20, 21, 22))
    assert state.waiting == {20: "0", 21: "0", 22: "0"}
    starts = {}

    def answer(job: LocalJob) -> ArrayLike:
        starts[job.round, job.client] = job.start
        return {**FOUR, **NEW}[job.client]

    toy.answer = answer
    before = state
    state = toy.step(algorithm, state)
    assert state.waiting == {20: "00", 21: "01", 22: "01"}  # a zero update ties, and ties go to the second child
    assert np.array_equal(starts[2, 20], toy.view.harness.observe(before.tree["0"].model))  # it trains from the node's model
    state = toy.step(algorithm, state)
    assert state.waiting == {}
    assert members(state) == {(1,), (2, 20), (3, 21), (4, 22)}
    assert np.array_equal(starts[3, 20], toy.view.harness.observe(before.tree["00"].model))
    toy.step(algorithm, state)
    assert 20 in toy.asked_in(4)


def test_the_nearest_single_update_decides_not_the_mean_of_a_side() -> None:
    vectors = {1: at(0), 2: at(30), 3: at(60), 4: at(130)}
    toy = Toy(tuple(vectors), constant({**vectors, 9: at(98)}), late=(9,))
    algorithm = PRINTED(thresholds=ALWAYS, gamma_max=0.4)
    state = toy.play(algorithm, 1)
    assert members(state) == {(1, 2, 3), (4,)}
    state = toy.step(algorithm, algorithm.join(state, (9,)))
    assert members(state) == {(1, 2, 3), (4, 9)}  # 32 degrees to client 4, 38 to client 3
    nearer = Toy(tuple(vectors), constant({**vectors, 9: at(92)}), late=(9,))
    state = nearer.step(algorithm, algorithm.join(nearer.play(algorithm, 1), (9,)))
    assert members(state) == {(1, 2, 3, 9), (4,)}


def test_newcomers_after_a_split_need_the_cache() -> None:
    toy = Toy(tuple(FOUR), constant(FOUR), 3)
    algorithm = PRINTED(thresholds=ALWAYS, remember=False)
    state = toy.play(algorithm, 1)
    assert state.remembered == []
    with pytest.raises(ValueError, match="remember=True"):
        algorithm.join(state, (20,))


def test_a_round_leaves_the_state_before_it_as_it_was() -> None:
    toy = Toy(tuple(FOUR), constant(FOUR), 3)
    algorithm = PRINTED(thresholds=ALWAYS)
    first = toy.play(algorithm, 1)
    copy = replace(first, clusters=dict(first.clusters), tree=dict(first.tree), waiting=dict(first.waiting))
    algorithm.round(first, toy.view, np.random.default_rng(0))
    assert first == copy


# --- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"gamma_max": 1.0}, "gamma_max"),
        ({"gamma_max": -0.1}, "gamma_max"),
        ({"gamma_max": float("nan")}, "gamma_max"),
        ({"participation": 0.0}, "participation"),
        ({"participation": 1.1}, "participation"),
        ({"similarity": "cosine"}, "similarity"),
    ],
)
def test_wrong_hyper_parameters_are_named(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        PRINTED(thresholds=ALWAYS, **wrong)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


# --- the floor of sums --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [5, 6])
def test_a_cluster_that_no_cut_could_leave_two_sums_is_not_compared(count: int) -> None:
    """What nobody can use is not asked for: sketches of four clients were read in 31 rounds of one run."""
    vectors = {i: at(3.0 * i if i < 3 else 180.0 + 3.0 * i) for i in range(count)}
    toy = Toy(tuple(vectors), constant(vectors), protection=Plain(floor=3))
    state = toy.play(CFL(thresholds=ALWAYS), 2)
    compared = [entry for entry in toy.view.record.log if "gram" in entry.what]
    if count == 6:
        assert compared
        assert members(state) == {(0, 1, 2), (3, 4, 5)}
    else:
        assert not compared
        assert members(state) == {(0, 1, 2, 3, 4)}
        once = Toy(tuple(vectors), constant(vectors), protection=Plain(floor=3)).play(CFL(thresholds=ALWAYS), 1)
        assert once.measured[ROOT].turned_down == "5 clients were not compared: no cut leaves both sides the 3 that sums need"


@pytest.mark.parametrize("algorithm", [PRINTED(thresholds=ALWAYS), CFL(thresholds=ALWAYS)], ids=["printed", "when ripe"])
@pytest.mark.parametrize("protection", [Plain, TwoServer])
def test_a_cut_that_leaves_a_side_without_a_sum_is_turned_down(algorithm: CFL, protection: type[Plain] | type[TwoServer]) -> None:
    vectors = {i: at(3.0 * i if i < 4 else 180.0 + 3.0 * i) for i in range(6)}
    assert splits(vectors, algorithm, protection=protection(floor=2)) == {(0, 1, 2, 3), (4, 5)}
    assert splits(vectors, algorithm, protection=protection(floor=3)) == {(0, 1, 2, 3, 4, 5)}
