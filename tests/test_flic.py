"""FLIC against its definition, with clients whose updates are chosen by hand (Espinoza Castellon et al. 2022, Algorithm 1)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from cloister.crypto.entropy import SimulatedEntropy
from cloister.crypto.orthonormal import HadamardRotation
from cloister.fl.algorithms.algorithm import Algorithm, Start
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.flic import ALL, FLIC, State
from cloister.fl.algorithms.incremental_similarity import EMPTY, SimilarityMemory, forgotten, refreshed
from cloister.fl.clients.training import Training
from cloister.fl.clustering.communities import Components, Louvain, detect, one_plus_cosine
from cloister.fl.data.partition import LabelSwap
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.codec import from_plain, to_plain
from cloister.fl.runs.experiment import run
from cloister.fl.runs.metrics import purity
from cloister.fl.runs.run_folder import RunFolder
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked, Permuted, Plain
from cloister.protocol.core.link import Frame
from cloister.protocol.parts.history import History
from cloister.protocol.view.answers import Gram, Model, Remembered, Updates
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import Protection, Setup
from cloister.protocol.view.work import LocalJob, LocalOffer, LocalWork

from . import sides

Answer = Callable[[LocalJob], ArrayLike | None]
PRINTED = partial(FLIC, similarities="every round")
"""Algorithm 1 as it is printed; what is asked for by default is in test_flic_once.py."""


@dataclass
class Toy:
    """A run whose clients answer what `answer` says, None being lost on the way, and want the model nearest to `wants`."""

    clients: Sequence[int]
    answer: Answer
    d: int = 4
    protection: Protection = field(default_factory=Plain)
    wants: Mapping[int, ArrayLike] = field(default_factory=dict)
    late: Sequence[int] = ()

    def __post_init__(self) -> None:
        self.asked: list[tuple[int, int]] = []
        self.lost: set[int] = set()
        self.offered: list[tuple[int, int]] = []
        everybody = tuple(sorted({*self.clients, *self.late}))
        start, entropy = np.zeros(self.d, np.float32), SimulatedEntropy(0)
        self.view: Any = self.protection.open(Setup(bytes(16), start, everybody, self._work, entropy, self._network, self._judge))

    def _network(self, frame: Frame) -> list[Frame]:
        return [] if frame.kind == "Upload" and frame.sender in self.lost else [frame]

    def _judge(self, offer: LocalOffer, /) -> int:
        self.offered.append((offer.client, len(offer.models)))
        want = np.asarray(self.wants.get(offer.client, np.zeros(self.d)))
        return int(np.argmin([np.linalg.norm(model - want) for model in offer.models]))

    def _work(self, jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
        for job in jobs:
            self.asked.append((job.round, job.client))
            answer = self.answer(job)
            self.lost = {job.client} if answer is None else set()
            yield job.client, LocalWork(np.asarray(np.ones(self.d) if answer is None else answer, np.float32), 1)

    def begin(self, algorithm: Algorithm) -> Any:
        clients = tuple(sorted(self.clients))
        return algorithm.init(Start(clients, dict.fromkeys(clients, 0), Model("init")))

    def step(self, algorithm: Algorithm, state: Any, seed: int = 0) -> Any:
        state = algorithm.round(state, self.view, np.random.default_rng((seed, state.round)))
        self.view.harness.retire(state.models, state.remembered)
        return state

    def play(self, algorithm: Algorithm, rounds: int, seed: int = 0) -> Any:
        state = self.begin(algorithm)
        for _ in range(rounds):
            state = self.step(algorithm, state, seed)
        return state

    def model(self, state: Any, client: int) -> NDArray[np.float32]:
        (found,) = [c.model for c in state.clusters.values() if client in c.members]
        vector: NDArray[np.float32] = self.view.harness.observe(found)
        return vector

    def asked_in(self, round: int) -> list[int]:
        return [client for r, client in self.asked if r == round]


def constant(vectors: Mapping[int, ArrayLike]) -> Answer:
    return lambda job: vectors[job.client]


def groups_of(d: int, count: int, groups: int, noise: float = 0.3) -> dict[int, NDArray[np.float64]]:
    """Updates of `count` clients: the direction of their group, i modulo `groups`, and noise of their own."""
    rng = np.random.default_rng(7)
    directions = np.linalg.qr(rng.standard_normal((d, groups)))[0].T
    return {i: directions[i % groups] + noise * rng.standard_normal(d) / np.sqrt(d) for i in range(count)}


def members(state: Any) -> set[tuple[int, ...]]:
    return {cluster.members for cluster in state.clusters.values()}


def brute(latest: Mapping[int, ArrayLike], clients: Sequence[int]) -> NDArray[np.float64]:
    rows = np.array([np.asarray(latest[i], np.float32) for i in clients], np.float64)
    lengths = np.linalg.norm(rows, axis=1)
    unit = rows / np.where(lengths > 0, lengths, 1)[:, None]
    cosines: NDArray[np.float64] = unit @ unit.T
    np.fill_diagonal(cosines, 1.0)
    return cosines


# --- the incremental similarity ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protection", "tolerance"),
    [(Plain(), 1e-6), (Permuted(), 1e-6), (Permuted(HadamardRotation), 1e-5), (Masked(sketch=1000, keys="run"), 0.25)],
    ids=repr,
)
def test_the_similarity_is_what_recomputing_all_of_it_would_give(protection: Protection, tolerance: float) -> None:
    d, ids = 2000, (2, 3, 5, 8, 13, 21, 34, 55)
    vectors = np.random.default_rng(3).standard_normal((9, 56, d)).astype(np.float32)
    toy = Toy(ids, lambda job: vectors[job.round, job.client], d, protection)
    algorithm = PRINTED(rounds_before=100, participation=0.4, sampling="random")
    state, latest = toy.begin(algorithm), {}
    for t in range(9):
        state = toy.step(algorithm, state)
        latest |= {i: vectors[t, i] for i in toy.asked_in(t)}
        assert state.memory.clients == tuple(sorted(latest))
        assert state.memory.known.all()
        np.testing.assert_allclose(state.memory.cosines, brute(latest, state.memory.clients), atol=tolerance)
        assert np.array_equal(state.memory.cosines, state.memory.cosines.T)


def test_only_rows_of_the_rounds_clients_are_asked_for_and_no_pair_twice() -> None:
    vectors = np.random.default_rng(1).standard_normal((8, 10, 4))
    toy = Toy(range(10), lambda job: vectors[job.round, job.client])
    asked: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    cosines = toy.view.cosines

    def watched(updates: Any, remembered: Remembered) -> Any:
        asked.append((updates.clients, remembered.clients))
        return cosines(updates, remembered)

    toy.view.cosines = watched
    algorithm = PRINTED(rounds_before=100, participation=0.3, sampling="random")
    state = toy.begin(algorithm)
    for t in range(8):
        before = state.memory
        asked.clear()
        state = toy.step(algorithm, state)
        new = tuple(sorted(toy.asked_in(t)))
        assert all(rows == new for rows, _ in asked)
        columns = [i for _, of in asked for i in of]
        assert sorted(columns) == [i for i in before.clients if i not in new]
        same = [k for k, i in enumerate(before.clients) if i not in new]
        there = [state.memory.clients.index(before.clients[k]) for k in same]
        assert np.array_equal(state.memory.cosines[np.ix_(there, there)], before.cosines[np.ix_(same, same)])


def test_the_view_keeps_one_update_of_each_client_and_none_after_t() -> None:
    vectors = np.random.default_rng(2).standard_normal((6, 10, 4))
    toy = Toy(range(10), lambda job: vectors[job.round, job.client])
    algorithm = PRINTED(rounds_before=6, participation=0.4, sampling="random")
    state = toy.begin(algorithm)
    for _ in range(5):
        state = toy.step(algorithm, state)
        kept = [i for rows in sides.part(toy.view, History).rows.values() for i in rows]
        assert sorted(kept) == list(state.memory.clients)
        assert [i for handle in state.remembered for i in handle.clients] == kept
    state = toy.step(algorithm, state)
    assert sides.part(toy.view, History).rows == {}
    assert state.memory == EMPTY


def test_what_is_forgotten_leaves_the_rest_as_it_was() -> None:
    vectors = np.random.default_rng(2).standard_normal((3, 6, 4))
    toy = Toy(range(6), lambda job: vectors[job.round, job.client])
    memory = toy.play(PRINTED(rounds_before=9, participation=0.9, sampling="random"), 3).memory
    less = forgotten(memory, (1, 4))
    keep = [k for k, i in enumerate(memory.clients) if i not in (1, 4)]
    assert less.clients == tuple(memory.clients[k] for k in keep)
    assert sorted(i for handle in less.handles for i in handle.clients) == list(less.clients)
    assert np.array_equal(less.cosines, memory.cosines[np.ix_(keep, keep)])
    assert less != memory
    assert memory == replace(memory)


def test_what_could_not_be_compared_is_not_known() -> None:
    """A view gives NaN for updates that went with their key."""

    class Gone:
        def cosines(self, updates: Updates, remembered: Remembered) -> NDArray[np.float64]:
            return np.full((len(updates.clients), len(remembered.clients)), np.nan)

        def remember(self, updates: Updates, clients: Sequence[int]) -> Remembered:
            return Remembered("new", tuple(clients))

    memory = SimilarityMemory((Remembered("old", (0, 1)),), (0, 1), np.eye(2), np.ones((2, 2), np.bool_))
    view: Any = Gone()
    found = refreshed(memory, view, Updates("u", "c", 1, (2,), (2,)), Gram((2,), np.eye(1), 0.0), (2,))
    assert found.clients == (0, 1, 2)
    assert np.array_equal(found.cosines, np.eye(3))
    assert found.known.tolist() == [[True, True, False], [True, True, False], [False, False, True]]


def test_until_t_the_run_is_fedavg_bit_for_bit() -> None:
    targets = np.random.default_rng(5).standard_normal((8, 4))
    flic, fedavg = (Toy(range(8), lambda job: (targets[job.client] - job.start) / 3) for _ in range(2))
    ours, theirs = PRINTED(rounds_before=5, participation=0.5, sampling="random"), FedAvg(participation=0.5, sampling="random")
    state, other = flic.begin(ours), fedavg.begin(theirs)
    for _ in range(5):
        state, other = flic.step(ours, state), fedavg.step(theirs, other)
        assert np.array_equal(flic.view.harness.observe(state.models[0]), fedavg.view.harness.observe(other.models[0]))
    assert flic.asked == fedavg.asked


# --- communities ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protection", [Plain(), Permuted(), Masked(sketch=256, keys="run")], ids=repr)
@pytest.mark.long
def test_separated_clients_are_found_with_purity_one(protection: Protection) -> None:
    vectors = groups_of(600, 24, 3)
    toy = Toy(range(24), constant(vectors), 600, protection)
    state = toy.play(PRINTED(rounds_before=4, participation=0.9, sampling="random", least=4), 4)
    planted = {i: i % 3 for i in range(24)}
    found = [c.members for c in state.clusters.values()]
    assert len(found) == 3
    assert purity(found, {i: planted[i] for c in found for i in c}) == 1.0
    before = {name: toy.view.harness.observe(c.model).copy() for name, c in state.clusters.items()}
    state = toy.step(PRINTED(rounds_before=4, participation=0.9, sampling="random", least=4), state)
    for name, cluster in state.clusters.items():  # each goes on in its own direction
        moved = toy.view.harness.observe(cluster.model) - before[name]
        mean = np.mean([vectors[i] for i in cluster.members], axis=0)
        assert moved @ mean / np.linalg.norm(moved) / np.linalg.norm(mean) > 0.9


def test_minus_gradient_twins_are_parted_though_their_similarity_is_zero() -> None:
    """A similarity of 0 is a value. Where it is taken for missing, and filled with 2, twins end in one community."""
    honest = groups_of(50, 5, 1)
    vectors = {**honest, **{i + 5: -vector for i, vector in honest.items()}}
    toy = Toy(range(10), constant(vectors), 50)
    seen: list[tuple[Any, Any]] = []

    def spying(similarity: Any, known: Any, rng: Any) -> Any:
        seen.append((similarity.copy(), known.copy()))
        return Louvain()(similarity, known, rng)

    state = toy.play(PRINTED(rounds_before=1, detector=spying), 1)
    assert members(state) == {(0, 1, 2, 3, 4), (5, 6, 7, 8, 9)}
    ((similarity, known),) = seen
    assert similarity[0, 5] == 0.0
    assert known[0, 5]
    assert not known.diagonal().any()
    assert (similarity.diagonal() == 0).all()


def test_the_diagonal_is_no_edge_and_what_is_missing_stays_missing() -> None:
    cosines = np.ones((3, 3))
    known = np.array([[True, True, False], [True, True, False], [False, False, True]])
    seen = []

    def spying(similarity: Any, there: Any, rng: Any) -> Any:
        seen.append((similarity, there))
        return [[0, 1], [2]]

    assert detect(spying, one_plus_cosine, cosines, known, (4, 7, 9), np.random.default_rng(0)) == ((4, 7), (9,))
    ((similarity, there),) = seen
    assert similarity.tolist() == [[0, 2, 0], [2, 0, 0], [0, 0, 0]]
    assert there.tolist() == [[False, True, False], [True, False, False], [False, False, False]]
    assert Louvain()(similarity, there, np.random.default_rng(0)) == [[0, 1], [2]]


def test_equal_updates_are_compared_like_any_other() -> None:
    toy = Toy((1, 2, 3), constant({1: [1, 0, 0, 0], 2: [1, 0, 0, 0], 3: [0, 1, 0, 0]}))
    state = toy.play(PRINTED(rounds_before=9), 1)
    assert state.memory.cosines[0, 1] == 1.0
    assert one_plus_cosine(state.memory.cosines)[0].tolist() == [2.0, 2.0, 1.0]


def test_a_zero_update_is_neither_like_nor_unlike() -> None:
    toy = Toy((1, 2, 3), constant({1: [1, 0, 0, 0], 2: [-1, 0, 0, 0], 3: [0, 0, 0, 0]}))
    state = toy.play(PRINTED(rounds_before=9), 1)
    assert state.memory.known.all()
    assert one_plus_cosine(state.memory.cosines)[2].tolist() == [1.0, 1.0, 2.0]


def test_an_update_that_cannot_be_used_is_not_stored() -> None:
    toy = Toy((1, 2, 3), lambda job: [np.nan] * 4 if job.client == 2 else [1, 0, 0, 0])
    state = toy.play(PRINTED(rounds_before=9), 1)
    assert state.memory.clients == (1, 3)
    assert np.isfinite(state.memory.cosines).all()


def test_who_did_not_answer_keeps_the_update_of_before() -> None:
    vectors = np.random.default_rng(4).standard_normal((3, 4, 4))
    toy = Toy(range(4), lambda job: None if (job.round, job.client) == (1, 2) else vectors[job.round, job.client])
    state = toy.play(PRINTED(rounds_before=9), 2)
    latest = {i: vectors[0 if i == 2 else 1, i] for i in range(4)}
    np.testing.assert_allclose(state.memory.cosines, brute(latest, range(4)), atol=1e-6)


def test_updates_of_the_warm_up_are_not_compared() -> None:
    toy = Toy(range(6), constant(groups_of(4, 6, 2)))
    algorithm = PRINTED(rounds_before=4, warm_up=2, participation=0.5, sampling="random")
    state = toy.play(algorithm, 2)
    assert state.memory == EMPTY
    state = toy.step(algorithm, state)
    assert state.memory.clients == tuple(toy.asked_in(2))


def test_nobody_to_group_means_more_rounds_together() -> None:
    toy = Toy((1, 2), lambda job: None if job.round < 3 else [1, 0, 0, 0])
    algorithm = PRINTED(rounds_before=2)
    state = toy.play(algorithm, 3)
    assert list(state.clusters) == [ALL]
    state = toy.step(algorithm, state)
    assert members(state) == {(1, 2)}


def test_louvain_is_seeded_and_its_resolution_counts() -> None:
    rng = np.random.default_rng(0)
    cosines = np.corrcoef(rng.standard_normal((40, 30)))
    known, ids = np.ones((40, 40), np.bool_), tuple(range(40))
    found = [detect(Louvain(), one_plus_cosine, cosines, known, ids, np.random.default_rng(seed)) for seed in (1, 1, 2, 3, 4)]
    assert found[0] == found[1]
    assert len(set(found)) > 1  # noise has no communities: the seed decides
    fine = detect(Louvain(resolution=2.0), one_plus_cosine, cosines, known, ids, np.random.default_rng(1))
    coarse = detect(Louvain(resolution=0.5), one_plus_cosine, cosines, known, ids, np.random.default_rng(1))
    assert len(fine) > len(found[0]) > len(coarse) == 1


def test_louvain_without_any_edge_gives_singletons() -> None:
    nothing = np.zeros((3, 3))
    assert Louvain()(nothing, np.ones((3, 3), np.bool_), np.random.default_rng(0)) == [[0], [1], [2]]
    assert Louvain()(np.zeros((1, 1)), np.zeros((1, 1), np.bool_), np.random.default_rng(0)) == [[0]]


def test_another_detector_plugs_in() -> None:
    toy = Toy(range(9), constant(groups_of(200, 9, 3)), 200)
    assert members(toy.play(PRINTED(rounds_before=1, detector=Components(threshold=1.5)), 1)) == {(0, 3, 6), (1, 4, 7), (2, 5, 8)}


@pytest.mark.parametrize("partition", [[[0, 1]], [[0, 1], [1, 2]], [[0, 1, 2, 3]], []])
def test_a_detector_that_does_not_part_all_clients_is_named(partition: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="one community"):
        detect(
            lambda s, k, r: partition, one_plus_cosine, np.eye(3), np.ones((3, 3), np.bool_), (1, 2, 3), np.random.default_rng(0)
        )


def test_similarities_below_zero_are_refused() -> None:
    cosines = np.array([[1.0, -0.5], [-0.5, 1.0]])
    with pytest.raises(ValueError, match="0 or more"):
        detect(Louvain(), lambda c: c, cosines, np.ones((2, 2), np.bool_), (1, 2), np.random.default_rng(0))


# --- after T ----------------------------------------------------------------------------------------------------------


def test_a_community_trains_one_client_where_its_share_is_below_one_and_the_least_counts() -> None:
    vectors = groups_of(200, 10, 1, noise=0.0)
    vectors[10] = -vectors[0]
    for least, sizes in ((1, (1, 1)), (3, (3, 1))):
        toy = Toy(range(11), constant(vectors), 200)
        every = PRINTED(rounds_before=1, participation=1.0, sampling="random")
        state = toy.step(every, toy.begin(every))
        assert members(state) == {tuple(range(10)), (10,)}
        few = replace(every, participation=0.05, least=least)
        toy.step(few, state)
        asked = toy.asked_in(1)
        assert (len([i for i in asked if i < 10]), len([i for i in asked if i == 10])) == sizes


def test_after_t_nothing_is_compared() -> None:
    toy = Toy(range(6), constant(groups_of(100, 6, 2)), 100)
    algorithm = PRINTED(rounds_before=1)
    state = toy.step(algorithm, toy.begin(algorithm))
    known = len(toy.view.record.log)
    toy.step(algorithm, state)
    assert {entry.what for entry in toy.view.record.log[known:]} == {"roster", "updates", "sums"}


UNSEEN = {**groups_of(100, 6, 2), 6: np.ones(100), 7: np.ones(100)}


def never(clients: Sequence[int]) -> Answer:
    return lambda job: None if job.client in clients else UNSEEN[job.client]


def test_clients_that_were_never_sampled_choose_once_communities_differ() -> None:
    wants = {6: 5 * UNSEEN[0], 7: 5 * UNSEEN[1]}
    toy = Toy(range(8), never((6, 7)), 100, wants=wants)
    algorithm = PRINTED(rounds_before=1, settle=2)
    state = toy.play(algorithm, 1)
    assert members(state) == {(0, 2, 4), (1, 3, 5)}
    assert state.waiting == (6, 7)
    state = toy.step(algorithm, state)
    assert toy.offered == []  # all communities had one model a round ago
    state = toy.step(algorithm, state)
    assert sorted(toy.offered) == [(6, 2), (7, 2)]
    assert members(state) == {(0, 2, 4, 6), (1, 3, 5, 7)}
    assert state.waiting == ()
    assert {entry.words for entry in toy.view.record.log if entry.what == "choice" and entry.recipient == "server"} == {
        "the name of the model that serves it best"
    }


def test_who_does_not_choose_is_asked_again() -> None:
    toy = Toy(range(8), never((6, 7)), 100)
    algorithm = PRINTED(rounds_before=1)
    state = toy.play(algorithm, 1)
    choose = toy.view.choose
    toy.view.choose = lambda round, models, clients: {i: n for i, n in choose(round, models, clients).items() if i != 7}
    state = toy.step(algorithm, state)
    assert state.waiting == (7,)
    toy.view.choose = choose
    state = toy.step(algorithm, state)
    assert state.waiting == ()
    assert {i for c in members(state) for i in c} == set(range(8))


def test_newcomers_are_members_before_t_and_choose_after() -> None:
    toy = Toy(range(6), constant(UNSEEN), 100, wants={7: 9 * UNSEEN[1]}, late=(6, 7))
    algorithm = PRINTED(rounds_before=2)
    state = algorithm.join(toy.play(algorithm, 1), (6,))
    assert members(state) == {(0, 1, 2, 3, 4, 5, 6)}
    state = toy.step(algorithm, state)
    state = algorithm.join(state, (7,))
    assert state.waiting == (7,)
    state = toy.step(algorithm, state)
    (home,) = [c for c in members(state) if 7 in c]
    assert {1, 3, 5} <= set(home)


def test_clients_of_a_community_below_the_floor_train_alone() -> None:
    """After the round in which their sum was not answered."""
    vectors = groups_of(200, 5, 1) | {5: -groups_of(200, 1, 1)[0], 6: -groups_of(200, 2, 1)[1]}
    toy = Toy(range(7), constant(vectors), 200, Plain(floor=3))
    algorithm = PRINTED(rounds_before=1)
    state = toy.play(algorithm, 1)
    assert members(state) == {(0, 1, 2, 3, 4), (5, 6)}
    later = toy.step(algorithm, state)
    assert members(later) == {(0, 1, 2, 3, 4), (5,), (6,)}
    assert len(toy.view.record.below_floor) == 1
    before = {client: toy.model(later, client) for client in (5, 6)}
    last = toy.step(algorithm, later)
    for client, model in before.items():
        assert toy.model(last, client) == pytest.approx(model + vectors[client], abs=1e-5)
    assert len(toy.view.record.below_floor) == 1


def test_clients_of_a_community_that_cannot_be_masked_train_alone() -> None:
    """Four reach the floor of three and one corrupt, and no threshold serves them."""
    first, second = groups_of(200, 5, 1), groups_of(200, 4, 1)
    vectors = first | {5 + i: -second[i] for i in range(4)}
    toy = Toy(range(9), constant(vectors), 200, Masked(floor=3, corrupt=1, clip=40.0, sketch=64, keys="run"))
    algorithm = PRINTED(rounds_before=1, by_samples=False)
    state = toy.play(algorithm, 1)
    assert members(state) == {(0, 1, 2, 3, 4), (5, 6, 7, 8)}
    assert members(toy.step(algorithm, state)) == {(0, 1, 2, 3, 4), (5,), (6,), (7,), (8,)}


def test_newcomers_choose_among_communities_and_not_among_clients_that_are_alone() -> None:
    vectors = groups_of(200, 5, 1) | {5: -groups_of(200, 1, 1)[0], 6: -groups_of(200, 2, 1)[1], 7: np.ones(200)}
    toy = Toy(range(7), constant(vectors), 200, Plain(floor=3), late=[7])
    algorithm = PRINTED(rounds_before=1)
    state = algorithm.join(toy.play(algorithm, 2), [7])
    assert members(toy.step(algorithm, state)) == {(0, 1, 2, 3, 4, 7), (5,), (6,)}
    assert toy.offered == [(7, 1)]


# --- records, states, arguments ---------------------------------------------------------------------------------------


def test_a_trace_looks_for_communities_in_every_round_and_changes_nothing() -> None:
    vectors = groups_of(100, 12, 3)
    one, other = (Toy(range(12), constant(vectors), 100) for _ in range(2))
    plain, traced = (PRINTED(rounds_before=5, participation=0.5, sampling="random", trace=trace) for trace in (False, True))
    state, watched = one.begin(plain), other.begin(traced)
    for t in range(5):
        state, watched = one.step(plain, state), other.step(traced, watched)
        if t < 4:
            assert state.measured[ALL].communities == ()
            assert sorted(i for c in watched.measured[ALL].communities for i in c) == list(watched.memory.clients)
            assert to_plain(state) == to_plain(watched)
    assert set(watched.measured[ALL].communities) == members(watched) == members(state)


@pytest.mark.long
@pytest.mark.parametrize("protection", [Plain(), Permuted(), Masked(sketch=64, keys="run")], ids=repr)
@pytest.mark.parametrize("stop", [2, 4, 5])
def test_a_state_that_was_written_and_read_goes_on_bit_for_bit(protection: Protection, stop: int) -> None:
    vectors = groups_of(150, 10, 2)
    answer: Answer = lambda job: vectors[job.client] * (1 + 0.1 * job.round) - 0.1 * job.start  # noqa: E731
    first = Toy(range(10), answer, 150, protection)
    algorithm = PRINTED(rounds_before=4, participation=0.7, sampling="random", least=4)
    state = first.play(algorithm, stop)
    second = Toy(range(10), answer, 150, protection)
    read = from_plain(State, to_plain(state))
    assert read == state
    second.view.harness.restore(first.view.harness.save(), read.remembered)
    for _ in range(4):
        state, read = first.step(algorithm, state), second.step(algorithm, read)
        assert to_plain(state) == to_plain(read)
        for i in {i for c in state.clusters.values() for i in c.members}:
            assert np.array_equal(first.model(state, i), second.model(read, i))


def test_a_round_leaves_the_state_before_it_as_it_was() -> None:
    toy = Toy(range(6), constant(groups_of(4, 6, 2)))
    algorithm = PRINTED(rounds_before=3, participation=0.5, sampling="random")
    first = toy.play(algorithm, 1)
    copy = to_plain(first)
    algorithm.round(first, toy.view, np.random.default_rng(0))
    assert to_plain(first) == copy


def test_memories_of_other_shapes_do_not_fit() -> None:
    plain = to_plain(SimilarityMemory((), (1, 2), np.eye(2), np.ones((2, 2), np.bool_)))
    for broken in (
        {"dtype": "float32"},
        {"shape": [2, 3]},
        {"shape": [-1, 2]},
        {"base64": "AAAA"},
        {"shape": "2"},
        {"base64": "!" * 44},
    ):
        with pytest.raises(ValueError):
            from_plain(SimilarityMemory, {**plain, "cosines": {**plain["cosines"], **broken}})
    with pytest.raises(ValueError):
        from_plain(SimilarityMemory, {**plain, "cosines": plain["known"]})


SMALL = Scenario(
    name="small",
    data=Digits(),
    partition=LabelSwap(clients=12, groups=3, pairs=((1, 7), (3, 8), (4, 9)), shared_test=True),
    model=Mlp(hidden=(16,)),
    training=Training(epochs=2, batch=10, lr=0.1),
    algorithm=PRINTED(rounds_before=4, participation=0.6, sampling="random", trace=True),
    protection=Plain(),
    rounds=6,
    evaluate_every=2,
)


@pytest.mark.trains
def test_a_run_is_resumed_and_records_what_was_found(tmp_path: Path) -> None:
    whole, parts = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "parts")
    list(run(SMALL, whole.path))
    list(run(replace(SMALL, rounds=3), parts.path))
    list(run(SMALL, parts.path, resume=True))
    lines, again = whole.read("metrics.jsonl"), parts.read("metrics.jsonl")
    assert [line["clusters"] for line in lines] == [line["clusters"] for line in again]
    assert lines[-1]["accuracy"] == again[-1]["accuracy"]
    found = [line["detected"].get(ALL) for line in lines]
    assert [f is not None for f in found] == [True] * 4 + [False] * 2
    assert all(0 <= f["purity"] <= 1 and -1 <= f["ari"] <= 1 for f in found[:4])
    matrices = whole.read("similarities.jsonl")
    assert [m["round"] for m in matrices] == [1, 3]
    assert len(matrices[1]["similarity"]) == len(matrices[1]["clients"]) == len(matrices[1]["similarity"][0])


def test_what_it_needs_and_what_is_wrong() -> None:
    assert PRINTED(rounds_before=1).needs == {
        Functionality.SUMS,
        Functionality.GRAM_ORIGIN,
        Functionality.GRAM_REMEMBER,
        Functionality.CHOICE,
    }
    for wrong, words in (
        ({"rounds_before": 0}, "rounds_before"),
        ({"participation": 0.0}, "participation"),
        ({"warm_up": 5}, "warm_up"),
        ({"least": 0}, "least"),
        ({"settle": 0}, "settle"),
        ({"rounds_before": 2.5}, "rounds_before is a whole number"),
        ({"least": True}, "least is a whole number"),
        ({"warm_up": 0.5}, "warm_up is whole"),
        ({"warm_up": -1}, "warm_up is whole"),
        ({"similarity": 3}, "similarity is a callable"),
        ({"detector": "louvain"}, "detector is a callable"),
    ):
        with pytest.raises(ValueError, match=words):
            PRINTED(**{"rounds_before": 5, **wrong})  # type: ignore[arg-type]
    for wrong in ({"resolution": 0.0}, {"resolution": float("inf")}, {"self_loop": -1.0}, {"self_loop": float("nan")}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Louvain(**wrong)


@pytest.mark.slow
def test_louvain_parts_a_thousand_clients_that_are_all_joined() -> None:
    """Dense as FLIC's graph is once all have been seen: 499,500 edges, three planted groups, noise on every similarity."""
    rng = np.random.default_rng(5)
    planted = rng.permutation(np.repeat(np.arange(3), (400, 300, 300)))
    noise = np.triu(0.3 * rng.standard_normal((1000, 1000)), 1)
    cosines = np.clip(np.where(planted[:, None] == planted, 0.5, 0.0) + noise + noise.T, -1.0, 1.0)
    known = np.ones((1000, 1000), np.bool_)
    found = detect(Louvain(), one_plus_cosine, cosines, known, range(1000), np.random.default_rng(0))
    expected = {tuple(np.flatnonzero(planted == group).tolist()) for group in range(3)}
    assert set(found) == expected


def test_louvain_does_not_part_a_single_client_that_is_hardly_like_any() -> None:
    """All its edges lead to the others, however light: modularity rises when it joins them. Two of a kind are parted."""
    rng = np.random.default_rng(0)
    for outsiders, count in ((1, 1), (2, 2)):
        side = np.array([1.0] * 10 + [-1.0] * outsiders)
        similarity = 1 + 0.9 * np.outer(side, side)
        np.fill_diagonal(similarity, 0.0)
        assert len(Louvain()(similarity, similarity > 0, rng)) == count
