"""CFL as it is by default: similarities are asked for once sums leave a split possible, and no more than a decision needs."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from cloister.fl.algorithms.algorithm import Cluster, Measured
from cloister.fl.algorithms.cfl import CFL, Absolute, ScaleFree
from cloister.fl.algorithms.cohorts import cohorts
from cloister.fl.data.partition import LabelSwap
from cloister.fl.runs.metrics import adjusted_rand_index
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.core.link import Frame
from cloister.protocol.view.answers import Gram, Model
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import Protection
from cloister.protocol.view.work import LocalJob
from cloister.scenario_file import load

from .test_cfl import ALWAYS, FOUR, NEW, TWO_SIDES, Toy, constant, members, silent_in

QUICKSTART = load(str(Path(__file__).parents[1] / "examples" / "quickstart.py"))


def grams(toy: Any) -> list[tuple[int, int]]:
    """Round and number of clients of every Gram matrix that the server was told."""
    return [(e.round, len(e.about)) for e in toy.view.record.log if e.what == "gram" and e.recipient == "server"]


def sketched(view: Any, k: int, rng: np.random.Generator) -> None:
    """Answer Gram matrices as sketches of the deviations with k numbers would."""
    exact = view.gram

    def gram(updates: Any, /, *, origin: bool = False) -> Gram:
        found = exact(updates, origin=origin)
        values, vectors = np.linalg.eigh(found.matrix)
        rows = vectors * np.sqrt(np.maximum(values, 0.0)) @ rng.standard_normal((len(values), k)) / np.sqrt(k)
        return Gram(found.clients, rows @ rows.T, 6 / np.sqrt(k))

    view.gram = gram


def test_what_is_needed_follows_from_when_similarities_are_asked_for() -> None:
    sums, ripe = Functionality.SUMS, CFL(thresholds=ALWAYS)
    assert ripe.needs == {sums, Functionality.GRAM, Functionality.GRAM_EDGE}
    assert replace(ripe, remember=False).needs == {sums, Functionality.GRAM}
    printed = replace(ripe, similarities="every round")
    assert printed.needs == {sums, Functionality.GRAM_ORIGIN, Functionality.GRAM_REMEMBER}
    for wrong, words in (({"similarities": "often"}, "when ripe"), ({"pause": -1}, "pause"), ({"pause": 1.5}, "pause")):
        with pytest.raises(ValueError, match=words):
            CFL(thresholds=ALWAYS, **wrong)  # type: ignore[arg-type]


def test_nothing_is_asked_before_the_sums_leave_a_split_possible() -> None:
    """Updates of one direction that shrink, while two sides of them stay."""

    def answer(job: LocalJob) -> ArrayLike:
        return [4.0 * 0.5**job.round, 1.0 if job.client < 3 else -1.0]

    toy = Toy(range(6), answer)
    algorithm = CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.2))
    state = toy.play(algorithm, 5)
    ratios = [4 * 0.5**t / np.sqrt((4 * 0.5**t) ** 2 + 1) for t in range(5)]
    assert [r < 1.1 * 0.4 for r in ratios] == [False, False, False, False, True]
    assert grams(toy) == [(4, 6)]
    assert members(state) == {(0, 1, 2), (3, 4, 5)}
    seen = state.measured["0"]
    assert seen.mean == pytest.approx(0.25)
    assert seen.rms == pytest.approx(np.sqrt(1.0625), rel=1e-5)
    assert (seen.largest, seen.centred) == (None, True)


def test_a_round_without_a_gram_matrix_is_measured_by_its_sum() -> None:
    toy = Toy(tuple(TWO_SIDES), constant(TWO_SIDES))
    state = toy.play(CFL(thresholds=Absolute(eps1=0.0, eps2=1e9)), 1)
    seen = state.measured["0"]
    assert (seen.similarity, seen.split, seen.largest) == (None, None, None)
    assert seen.rms == pytest.approx(1.0)
    assert not grams(toy)


def test_identical_updates_are_never_cut_and_a_refused_cut_is_given_a_rest() -> None:
    toy = Toy(range(4), lambda job: [1.0, 2.0])
    toy.play(CFL(thresholds=ALWAYS, pause=4), 12)
    assert [t for t, _ in grams(toy)] == [0, 5, 10]
    other = Toy(range(4), lambda job: [1.0, 2.0])
    assert len(other.play(CFL(thresholds=ALWAYS, pause=0), 3).clusters) == 1
    assert [t for t, _ in grams(other)] == [0, 1, 2]


@pytest.mark.parametrize("agrees", [True, False])
def test_a_cut_in_doubt_is_made_when_a_second_look_shows_it_again(agrees: bool) -> None:
    """The gap between two cuts is within the error that the Gram matrix comes with; the second look may differ."""
    vectors: Mapping[int, ArrayLike] = {0: [1, 0, 0.6], 1: [1, 0, -0.6], 2: [-1, 0.6, 0], 3: [-1, -0.6, 0]}
    turned: Mapping[int, ArrayLike] = {0: [1, 0, 0.6], 2: [1, 0, -0.6], 1: [-1, 0.6, 0], 3: [-1, -0.6, 0]}
    toy = Toy(range(4), lambda job: (vectors if agrees or job.round == 0 else turned)[job.client], 3)
    exact, view = toy.view.gram, toy.view

    def gram(updates: Any, /, *, origin: bool = False) -> Gram:
        return replace(exact(updates, origin=origin), tolerance=4.0)

    view.gram = gram  # type: ignore[method-assign]
    algorithm = CFL(thresholds=ALWAYS)
    state = toy.play(algorithm, 1)
    assert members(state) == {(0, 1, 2, 3)}
    assert state.candidates == ("0",)
    assert state.unsure["0"].cut.left == (0, 1)
    assert state.measured["0"].split is None
    state = toy.step(algorithm, state)
    assert members(state) == ({(0, 1), (2, 3)} if agrees else {(0, 1, 2, 3)})
    assert {name: looks.count for name, looks in state.unsure.items()} == ({} if agrees else {"0": 2})
    assert state.resting == ({} if agrees else {"0": 6})


@pytest.mark.long
def test_looks_that_disagree_are_decided_by_their_mean_once_it_leaves_no_doubt() -> None:
    """Errors hide the cut in a look of its own, every time another one; of several looks they cancel."""
    counts = [_looks_until_the_split(seed) for seed in range(12)]
    assert all(count == list(range(1, len(count) + 1)) for count in counts)
    assert np.mean([len(count) >= 3 for count in counts]) > 0.5


def _looks_until_the_split(seed: int) -> list[int]:
    """How many looks the mean was of, whenever it left doubt."""
    vectors = {i: [1.0 if i < 6 else -1.0, 0.4 * np.cos(i), 0.4 * np.sin(i)] for i in range(12)}
    toy, rng = Toy(range(12), constant(vectors), 3), np.random.default_rng(seed)
    exact = toy.view.gram

    def gram(updates: Any, /, *, origin: bool = False) -> Gram:
        error = np.triu(rng.standard_normal((12, 12)), 1)
        found = exact(updates, origin=origin)
        size = np.sqrt(np.diagonal(found.matrix))
        return Gram(found.clients, found.matrix + np.outer(size, size) * (error + error.T), 6.0)

    toy.view.gram = gram
    algorithm = CFL(thresholds=ALWAYS, pause=2)
    state, looks = toy.begin(algorithm), []
    while not state.tree and state.round < 60:
        state = toy.step(algorithm, state)
        looks += [one.count for one in state.unsure.values() if one.round == state.round - 1]
    assert members(state) == {tuple(range(6)), tuple(range(6, 12))}
    return looks


def test_the_gram_matrix_comes_in_the_full_round_where_a_sample_takes_part() -> None:
    vectors = {i: [0.0, 1.0, 0.1 * i] if i % 2 else [0.0, -1.0, 0.1 * i] for i in range(8)}
    toy = Toy(range(8), constant(vectors), 3)
    state = toy.play(CFL(thresholds=ScaleFree(eps1=0.5, eps2=0.1), participation=0.5), 4)
    assert len(state.tree) >= 1
    (first, clients), *_ = grams(toy)
    assert clients == 8
    assert len(toy.asked_in(first)) == 8
    assert all(len(toy.asked_in(t)) == 4 for t in range(first))


def in_two_cohorts(first: int) -> set[int]:
    """One side of 16 clients: `first` of the first of two fixed cohorts of eight, and 8 - `first` of the second."""
    parts = cohorts(Cluster(tuple(range(16)), Model("init")), 0.5)
    assert [len(part) for part in parts] == [8, 8]
    return {*parts[0][:first], *parts[1][first:]}


@pytest.mark.parametrize("first", [4, 6, 8])
def test_groups_that_fixed_cohorts_mix_unevenly_are_split(first: int) -> None:
    """The mean of no cohort ever gets small, as the same clients come again and again; that of all is 0."""
    side = in_two_cohorts(first)
    vectors = {i: [0.0, 1.0, 0.1] if i in side else [0.0, -1.0, 0.1] for i in range(16)}
    toy = Toy(range(16), constant(vectors), 3)
    state = toy.play(CFL(thresholds=ScaleFree(eps1=0.35, eps2=0.1), participation=0.5), 2)
    assert members(state) == {tuple(sorted(side)), tuple(sorted({*range(16)} - side))}
    assert grams(toy) == [(1, 16)]


def test_a_cohort_of_all_members_is_asked_for_a_small_mean() -> None:
    toy = Toy(range(2), constant({0: [1.0, 0.3], 1: [1.0, -0.3]}))
    state = toy.play(CFL(thresholds=ScaleFree(eps1=0.35, eps2=0.1), participation=0.5), 6)
    assert [len(toy.asked_in(t)) for t in range(6)] == [2] * 6
    assert not state.tree
    assert not grams(toy)


def test_after_a_round_of_all_whose_mean_is_not_small_cohorts_have_a_rest() -> None:
    side = in_two_cohorts(4)
    toy = Toy(range(16), constant({i: [0.6, 0.8 if i in side else -0.8] for i in range(16)}))
    state = toy.play(CFL(thresholds=ScaleFree(eps1=0.35, eps2=0.1), participation=0.5, pause=4), 14)
    assert not state.tree
    assert [t for t in range(14) if len(toy.asked_in(t)) == 16] == [1, 2, 3, 4, 5, 11, 12, 13]
    assert not grams(toy)


@pytest.mark.parametrize("pause", [0, 4])
def test_all_are_invited_until_the_mean_is_short_that_the_last_cohort_drew_to_itself(pause: int) -> None:
    """Cohorts of one side each, in turn, draw the model nearly to their own end: from there the mean of all is long."""
    side = in_two_cohorts(8)
    ends = {i: np.array([1.0 if i in side else -1.0, 0.0]) for i in range(16)}
    toy = Toy(range(16), lambda job: 0.9 * (ends[job.client] - job.start))
    algorithm = CFL(thresholds=ScaleFree(eps1=0.35, eps2=0.3), participation=0.5, patience=4, pause=pause)
    state = toy.play(algorithm, 12)
    assert members(state) == ({tuple(sorted(side)), tuple(sorted({*range(16)} - side))} if pause else {tuple(range(16))})
    if pause:
        assert [t for t in range(7) if len(toy.asked_in(t)) == 16] == [5, 6]


def test_who_is_silent_in_the_round_of_a_split_is_placed_about_its_mean() -> None:
    toy = Toy(tuple(TWO_SIDES), silent_in((0, 1, 2), 77))
    algorithm = CFL(thresholds=ALWAYS)
    state = toy.play(algorithm, 2)
    assert members(state) == {(3, 10), (42,)}
    assert state.waiting == {77: "0"}
    assert grams(toy) == [(1, 3)]  # the sum of round 0 told that somebody was missing
    edge = state.tree["0"].edge
    assert edge is not None
    assert (edge.clients, state.tree["0"].sides) == ((3, 10, 42), ((3, 10), (42,)))
    state = toy.step(algorithm, toy.step(algorithm, state))
    assert members(state) in ({(3, 10), (42, 77)}, {(3,), (10,), (42, 77)})
    waiting = Toy(tuple(TWO_SIDES), silent_in((0, 1, 2), 77))
    assert len(waiting.play(replace(algorithm, remember=False), 3).clusters) == 1
    assert not grams(waiting)


def test_newcomers_descend_by_what_they_have_in_common_with_a_side_about_the_mean() -> None:
    shifted = {i: np.add(v, [0, 0, 3.0]) for i, v in {**FOUR, **NEW}.items()}  # what all share tells nothing
    toy = Toy(tuple(FOUR), constant(shifted), 3, late=tuple(NEW))
    algorithm = CFL(thresholds=ALWAYS, patience=0)
    state = toy.play(algorithm, 1)
    assert members(state) == {(1, 2), (3, 4)}
    state = toy.step(algorithm, algorithm.join(state, (20, 21)))
    homes = {i: name for name, c in state.clusters.items() for i in c.members}
    places = {**homes, **state.waiting}
    assert places[20].startswith("00")
    assert places[21].startswith("01")


def test_gradients_are_asked_for_when_ripe() -> None:
    gradients = {1: [0, 1], 2: [0, -1], 3: [0, 1], 4: [0, -1]}
    toy = Toy((1, 2, 3, 4), lambda job: gradients[job.client] if job.work == "gradient" else [10.0, 0.1 * job.client])
    algorithm = CFL(thresholds=ALWAYS, similarity="gradient", patience=2)
    state = toy.play(algorithm, 3)
    assert members(state) == {(1, 3), (2, 4)}
    assert [len(toy.asked_in(t, "gradient")) for t in range(3)] == [0, 0, 4]
    assert toy.model(state, 1)[0] == pytest.approx(30.0)


def test_a_sum_that_is_lost_is_no_reason_to_ask_about_the_origin() -> None:
    """Half of the clients fall silent inside the first sum, which nobody opens: the next sums tell norms as ever."""

    class Losing(Toy):
        def _network(self, frame: Frame) -> list[Frame]:
            return [] if frame.kind == "MaskedInput" and frame.sender < 4 and self.asked[-1][0] == 0 else [frame]

    toy = Losing(range(8), lambda job: [1.0, 0.1 * job.client, 0.2], 3, protection=Masked(floor=3))
    state = toy.play(CFL(thresholds=Absolute(eps1=0.0, eps2=1e9)), 1)
    assert len(toy.view.record.below_floor) == 1
    for _ in range(3):
        state = toy.step(CFL(thresholds=Absolute(eps1=0.0, eps2=1e9)), state)
        assert state.measured["0"].rms is not None
    assert grams(toy) == []


SLOWLY = pytest.param(Encrypted(k=256), marks=pytest.mark.slow)
COMPARING = [Permuted(), TwoServer(), SLOWLY, Masked(sketch=64, floor=3)]


@pytest.mark.parametrize("protection", COMPARING, ids=repr)
def test_a_view_that_cannot_tell_norms_is_asked_about_the_origin_and_decides_alike(protection: Protection) -> None:
    rng = np.random.default_rng(0)
    side = np.array([1.0, -1.0])[np.arange(8) % 2]
    noise = 0.05 * rng.standard_normal((5, 8, 40))
    updates = noise + 0.1 * side[:, None, None].transpose(1, 0, 2) * np.ones(40) + (0.3 * 0.3 ** np.arange(5))[:, None, None]
    found = []
    for how in (Plain(), protection):
        toy = Toy(range(8), lambda job: updates[job.round, job.client], 40, protection=how)
        state = toy.play(CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.05)), 4)
        found.append((members(state), {name: node.round for name, node in state.tree.items()}))
        if how == Plain() or isinstance(how, Permuted):
            assert len(grams(toy)) == len(state.tree)
    assert found[0] == found[1]
    assert found[0][0] == {(0, 2, 4, 6), (1, 3, 5, 7)}


def test_a_view_that_tells_no_energy_is_asked_for_a_gram_matrix_in_every_round() -> None:
    toy = Toy(range(4), lambda job: [1.0, 0.1 * job.client], protection=TwoServer(floor=2))
    state = toy.play(CFL(thresholds=Absolute(eps1=0.0, eps2=1e9)), 3)
    assert not state.tree
    assert [t for t, _ in grams(toy)] == [0, 1, 2]


# --- the quickstart ----------------------------------------------------------------------------------------------------


def played(seed: int, k: int = 0, **changes: Any) -> tuple[Simulation, int, list[Measured]]:
    """The run in clear with k-number sketches of its Gram matrices, most Grams of a client, and what was measured at splits."""
    scenario = replace(QUICKSTART, protection=Plain(), seed=seed, **changes)
    simulation = Simulation(scenario, None)
    if k:
        sketched(simulation.view, k, np.random.default_rng(1000 + seed))
    splits: list[Measured] = []
    for _ in range(scenario.rounds):
        simulation.step()
        splits += [m for m in simulation.state.measured.values() if m.split is not None]
    about = [i for e in simulation.view.record.log if e.what == "gram" and e.recipient == "server" for i in e.about]
    return simulation, max((about.count(i) for i in set(about)), default=0), splits


def ari(simulation: Simulation) -> float:
    parts = [c.members for c in simulation.state.clusters.values()]
    return adjusted_rand_index(parts, {i: simulation.population.groups[i] for c in parts for i in c})


def accuracy(simulation: Simulation) -> float:
    return float(np.mean([score.accuracy for score in simulation.evaluate().values()]))


@pytest.mark.trains
@pytest.mark.slow
@pytest.mark.parametrize(("participation", "least"), [(1.0, 0.925), (0.5, 0.925), (0.25, 0.92)])
def test_the_quickstart_is_found_with_at_most_four_gram_matrices(participation: float, least: float) -> None:
    scores: list[float] = []
    for seed in range(20):
        algorithm = replace(QUICKSTART.algorithm, participation=participation)  # type: ignore[type-var]
        simulation, asked, splits = played(seed, 64, algorithm=algorithm)
        assert ari(simulation) == 1.0
        assert asked <= 4
        assert all(m.centred and m.rms is not None for m in splits)
        scores.append(accuracy(simulation))
    assert np.mean(scores) >= least


@pytest.mark.trains
@pytest.mark.slow
def test_clients_without_groups_are_never_split() -> None:
    for seed in range(10):
        part = replace(QUICKSTART.partition, groups=1)  # type: ignore[type-var]
        assert isinstance(part, LabelSwap)
        simulation, asked, _ = played(seed, 64, partition=part)
        assert len(simulation.state.clusters) == 1
        assert asked == 0
