"""Hardened FLIC against clients that lie. Honest toy clients go a third of the way to what they want, with noise of their own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from cloister.fl.algorithms import hardened_flic
from cloister.fl.algorithms.flic import ALL
from cloister.fl.algorithms.hardened_flic import EVERYBODY, LONG, OPPOSED, HardenedFLIC
from cloister.fl.algorithms.hardened_state import State
from cloister.fl.algorithms.serving import serving
from cloister.fl.codec import from_plain, to_plain
from cloister.fl.robust.averages import Mean, NormBound
from cloister.fl.robust.clustering import FLAME, ClippedClustering
from cloister.fl.robust.coordinates import Bulyan, Median
from cloister.fl.robust.krum import MultiKrum
from cloister.fl.robust.mixing import ARC, NNM, Bucketing, Mixed
from cloister.fl.robust.similarity import FLTrust
from cloister.fl.robust.spectral import CAF
from cloister.fl.robust.weiszfeld import CenteredClipping, GeometricMedian
from cloister.fl.screening import FADED, Evidence, against, clearly_against, faded, far_above, gathered, merged, plurality
from cloister.protocol import Masked, Permuted
from cloister.protocol.view import LocalJob

from .test_flic import Toy, members

D = 200
WANT = np.random.default_rng(1).standard_normal(D)
NOISE = np.random.default_rng(2).standard_normal((60, 30, D)) / np.sqrt(D)


def honest(job: LocalJob, want: NDArray[np.float64] = WANT) -> NDArray[np.float64]:
    """A step of length about that of the distance, and noise that does not shrink with it."""
    step: NDArray[np.float64] = (want - job.start) / 3 + NOISE[job.round, job.client]
    return step


def minus_gradient(attackers: Sequence[int], since: int = 0) -> Callable[[LocalJob], ArrayLike]:
    return lambda job: -honest(job) if job.client in attackers and job.round >= since else honest(job)


def everybody_wants(want: ArrayLike = WANT, count: int = 20) -> dict[int, ArrayLike]:
    return dict.fromkeys(range(count), want)


def distance(toy: Toy, state: Any, client: int) -> float:
    return float(np.linalg.norm(toy.model(state, client) - WANT))


HARDENED = HardenedFLIC(rounds_before=4, every=4, participation=0.3)
START = float(np.linalg.norm(WANT))


# --- minus gradient ---------------------------------------------------------------------------------------------------


def test_without_an_attack_clients_come_close_to_what_they_want() -> None:
    clean = Toy(range(20), honest, D, wants=everybody_wants())
    assert distance(clean, clean.play(HARDENED, 24), 19) < 0.1 * START


@pytest.mark.parametrize("attackers", [2, 8, 10, 12])
def test_loyal_clients_end_where_they_would_without_the_attack(attackers: int) -> None:
    loyal = range(attackers, 20)
    toy = Toy(range(20), minus_gradient(range(attackers)), D, wants=everybody_wants())
    end = toy.play(HARDENED, 24)
    assert max(distance(toy, end, i) for i in loyal) < 0.15 * START
    (group,) = [c for c in end.contributors.values() if 19 in c]
    assert set(group) == set(loyal)


def test_without_an_attack_there_is_one_community() -> None:
    toy = Toy(range(20), honest, D, wants=everybody_wants())
    state = toy.play(HARDENED, 16)
    assert list(state.contributors.values()) == [tuple(range(20))]
    assert state.measured[EVERYBODY].communities == (tuple(range(20)),)


def test_a_ruined_model_is_left_for_the_best_that_clients_remember() -> None:
    """With attackers in the majority the model of round T is worse than none; everybody's own judgement finds the first one."""
    toy = Toy(range(20), minus_gradient(range(14)), D, wants=everybody_wants())
    state = toy.begin(HARDENED)
    for _ in range(3):
        state = toy.step(HARDENED, state)
    assert distance(toy, state, 19) > START  # it has been driven away
    state = toy.step(HARDENED, state)
    assert ALL not in state.clusters
    assert distance(toy, state, 19) == pytest.approx(START, rel=1e-6)  # of the initial model, 0
    for _ in range(8):
        state = toy.step(HARDENED, state)
    assert distance(toy, state, 19) < 0.3 * START


def test_groups_of_clients_that_want_different_things_are_found_and_stay() -> None:
    wants = {i: WANT if i % 2 else -WANT for i in range(20)}
    toy = Toy(range(20), lambda job: honest(job, wants[job.client]), D, wants=wants)
    state = toy.play(HARDENED, 16)
    assert members(state) == {tuple(range(0, 20, 2)), tuple(range(1, 20, 2))}
    assert all(np.linalg.norm(toy.model(state, i) - wants[i]) < 0.2 * START for i in range(20))


@pytest.mark.parametrize("protection", [Permuted(), Masked(sketch=100, keys="run")], ids=repr)
def test_it_runs_where_the_server_sees_no_update(protection: Any) -> None:
    toy = Toy(range(20), minus_gradient(range(8)), D, protection, everybody_wants())
    state = toy.play(replace(HARDENED, participation=0.5, least=4), 9)
    (group,) = [c for c in state.contributors.values() if 19 in c]
    assert set(group) == set(range(8, 20))
    assert distance(toy, state, 19) < 0.5 * START


# --- those who are cleverer -------------------------------------------------------------------------------------------


def test_a_long_update_is_left_out_of_sum_and_memory_and_recorded() -> None:
    def answer(job: LocalJob) -> ArrayLike:
        return honest(job) * (50 if job.client == 3 else 1)

    toy, clean = (Toy(range(10), a, D, wants=everybody_wants()) for a in (answer, honest))
    algorithm = HardenedFLIC(rounds_before=9, every=9)
    state, other = toy.play(algorithm, 1), clean.play(algorithm, 1)
    assert state.measured[ALL].left_out == {3: LONG}
    assert state.memory.clients == (0, 1, 2, 4, 5, 6, 7, 8, 9)
    mean = np.mean([honest_update for i, honest_update in enumerate(first_updates()) if i != 3], axis=0)
    np.testing.assert_allclose(toy.model(state, 0), mean, atol=1e-5)
    assert other.measured[ALL].left_out == {}


def first_updates(count: int = 10) -> NDArray[np.float64]:
    updates: NDArray[np.float64] = WANT / 3 + NOISE[0, :count]
    return updates


def test_who_turns_after_t_is_not_summed_in_that_very_round() -> None:
    """While updates say something; near the optimum those of turned and of loyal clients are noise alike."""
    turned = (0, 1, 2, 3)
    toy = Toy(range(20), minus_gradient(turned, since=6), D, wants=everybody_wants())
    state, left_out = toy.begin(HARDENED), []
    for _ in range(20):
        state = toy.step(HARDENED, state)
        left_out += [(state.round - 1, i, r) for m in state.measured.values() for i, r in m.left_out.items()]
        asked = {i for i in toy.asked_in(state.round - 1) if i in turned}
        if state.round in (7, 8):
            assert asked
            assert {(i, r) for t, i, r in left_out if t == state.round - 1} == {(i, OPPOSED) for i in asked}
    assert distance(toy, state, 19) < 0.15 * START


def test_against_is_below_zero_by_so_many_standard_errors_of_four_or_more() -> None:
    def judged(others: Sequence[float], sure: float) -> bool:
        cosines = np.eye(len(others) + 1)
        cosines[0, 1:] = others
        return against(cosines, [0], range(len(others) + 1), sure) == (0,)

    spread = np.array([-1.0, -1.0, 1.0, 1.0]) * np.sqrt(3)  # standard error of the mean: 2 / sqrt(4) = 1
    assert [judged(0.1 * (spread - shift), 1.0) for shift in (0.99, 1.01)] == [False, True]
    assert [judged(0.1 * (spread - shift), 0.0) for shift in (-0.01, 0.01)] == [False, True]
    assert judged([-0.9, 0.1, 0.79], 1.0)  # of three others there is no error worth the name: below 0 is below 0


def test_noise_about_zero_is_summed() -> None:
    """Updates that say nothing: about half are below 0 on average, and few by more than noise."""
    toy = Toy(range(20), lambda job: NOISE[job.round, job.client], D)
    measured = toy.play(HardenedFLIC(rounds_before=9, every=9), 1).measured[ALL]
    others = measured.similarity - np.eye(20)
    below = set(np.flatnonzero(others.sum(axis=1) < 0))
    assert 6 <= len(below) <= 14
    assert set(measured.left_out) < below
    assert len(measured.left_out) <= len(below) / 2


def test_attackers_are_not_judged_by_each_other() -> None:
    """Nine of twenty are of one mind against the rest: on average hardly below 0, but far below to those who are not below."""
    toy = Toy(range(20), minus_gradient(range(9)), D)
    measured = toy.play(HardenedFLIC(rounds_before=9, every=9), 1).measured[ALL]
    assert measured.left_out == dict.fromkeys(range(9), OPPOSED)
    assert not set(range(9)) & set(against(measured.similarity, range(9), range(20), hardened_flic.LIKELY))


def test_only_an_update_that_is_not_below_zero_clears_a_client() -> None:
    """One that is below 0 by noise alone is summed, and leaves the count of those that were clearly against as it was."""
    toy = Toy(range(20), lambda job: NOISE[job.round, job.client], D)
    algorithm = HardenedFLIC(rounds_before=9, every=9)
    before = replace(toy.begin(algorithm), opposed=dict.fromkeys(range(20), 2))
    state = toy.step(algorithm, before)
    others = state.measured[ALL].similarity - np.eye(20)
    below = set(np.flatnonzero(others.sum(axis=1) < 0).tolist())
    assert below - set(state.measured[ALL].left_out)
    assert {i for i, times in state.opposed.items() if times == 0} == set(range(20)) - below


def test_a_forged_choice_brings_nobody_into_the_sums_of_others() -> None:
    """Attackers ask for the loyal model at every grouping. They may be served by it; their updates go where they agree."""
    toy = Toy(range(20), minus_gradient(range(8)), D, wants=everybody_wants())
    choose = toy.view.choose

    def forged(round: int, models: Any, clients: Any) -> dict[int, str]:
        said = dict(choose(round, models, clients))
        return said | dict.fromkeys(range(8), said[19])

    toy.view.choose = forged
    state = toy.play(HARDENED, 17)
    (group,) = [c for c in state.contributors.values() if 19 in c]
    assert set(group) == set(range(8, 20))
    assert distance(toy, state, 19) < 0.15 * START


def test_loyal_clients_leave_a_community_that_is_captured() -> None:
    """Attackers are like the loyal until they are the majority of their community, then all turn, and forge their choice."""
    toy = Toy(range(20), minus_gradient(range(14), since=8), D, wants=everybody_wants())
    choose = toy.view.choose

    def forged(round: int, models: Any, clients: Any) -> dict[int, str]:
        said = dict(choose(round, models, clients))
        return said | {i: next(iter(models)) for i in range(14) if round >= 8}

    toy.view.choose = forged
    state = toy.play(HARDENED, 8)
    good = distance(toy, state, 19)
    for _ in range(3):
        state = toy.step(HARDENED, state)
    captured = distance(toy, state, 19)
    assert captured > 1.5 * good
    state = toy.step(HARDENED, state)  # a grouping: every loyal client has what served it best
    assert all(distance(toy, state, i) <= good + 1e-6 for i in range(14, 20))


def test_a_newcomer_is_served_by_what_it_chose_and_summed_if_it_agrees() -> None:
    answer: Callable[[LocalJob], ArrayLike] = lambda job: -honest(job) if job.client in (0, 1, 2, 3, 21) else honest(job)  # noqa: E731
    toy = Toy(range(20), answer, D, wants=everybody_wants(count=22), late=(20, 21))
    state = toy.play(HARDENED, 5)
    state = HARDENED.join(state, (20, 21))
    assert state.waiting == (20, 21)
    for _ in range(3):
        state = toy.step(HARDENED, state)
    (home,) = [name for name, c in state.clusters.items() if 19 in c.members]
    assert {20, 21} <= set(state.clusters[home].members)
    left_out = set()
    for _ in range(12):
        state = toy.step(HARDENED, state)
        left_out |= {i for m in state.measured.values() for i in m.left_out}
    (group,) = [c for c in state.contributors.values() if 19 in c]
    assert 21 in left_out or 21 not in group
    assert all(distance(toy, state, i) < 0.15 * START for i in (*range(4, 20), 20))


@dataclass(frozen=True)
class OnlyFirst:
    """An inner rule that trusts the first update alone."""

    def weights(self, gram: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        if len(gram) < 3:
            raise ValueError("needs three")
        return np.eye(len(gram))[0]


def test_an_inner_rule_of_the_gram_matrix_takes_the_place_of_the_mean() -> None:
    toy = Toy(range(10), honest, D)
    state = toy.play(HardenedFLIC(rounds_before=9, every=9, inner=OnlyFirst()), 1)
    np.testing.assert_allclose(toy.model(state, 0), first_updates()[0], atol=1e-5)
    few = Toy(range(2), honest, D)
    state = few.play(HardenedFLIC(rounds_before=9, every=9, inner=OnlyFirst()), 1)
    assert np.array_equal(few.model(state, 0), np.zeros(D))


# --- the deck, states, arguments --------------------------------------------------------------------------------------


def test_everybody_is_drawn_before_anybody_is_drawn_twice() -> None:
    toy = Toy(range(20), honest, D, wants=everybody_wants())
    algorithm = HardenedFLIC(rounds_before=20, every=20, participation=0.25)
    toy.play(algorithm, 8)
    for start in (0, 4):
        assert sorted(i for t in range(start, start + 4) for i in toy.asked_in(t)) == list(range(20))
    other = Toy(range(20), honest, D)
    other.play(algorithm, 4, seed=1)
    assert [other.asked_in(t) for t in range(4)] != [toy.asked_in(t) for t in range(4)]


@pytest.mark.parametrize("stop", [2, 6, 9])
def test_a_state_that_was_written_and_read_goes_on_bit_for_bit(stop: int) -> None:
    toys = [Toy(range(20), minus_gradient(range(9)), D, wants=everybody_wants()) for _ in range(2)]
    state = toys[0].play(HARDENED, stop)
    read = from_plain(State, to_plain(state))
    toys[1].view.restore(toys[0].view.save(), read.remembered)
    for _ in range(5):
        state, read = toys[0].step(HARDENED, state), toys[1].step(HARDENED, read)
        assert to_plain(state) == to_plain(read)
        assert np.array_equal(toys[0].model(state, 19), toys[1].model(read, 19))


def test_wrong_hyper_parameters_are_named() -> None:
    for wrong, words in (
        ({"rounds_before": 0}, "rounds_before"),
        ({"every": 0}, "every"),
        ({"guard": 0.5}, "guard"),
        ({"apart": -1.0}, "apart"),
        ({"participation": 2.0}, "participation"),
        ({"rounds_before": 1.5}, "rounds_before is a whole number"),
        ({"every": 2.5}, "every is a whole number"),
        ({"least": True}, "least is a whole number"),
        ({"guard": float("inf")}, "guard is a finite"),
        ({"guard": float("nan")}, "guard is a finite"),
        ({"apart": float("nan")}, "apart is a finite"),
        ({"detector": None}, "detector is a callable"),
        ({"similarity": 3}, "similarity is a callable"),
    ):
        with pytest.raises(ValueError, match=words):
            HardenedFLIC(**{"rounds_before": 5, "every": 5, **wrong})  # type: ignore[arg-type]


# --- what it judges by ------------------------------------------------------------------------------------------------


def test_norms_are_held_to_the_median_of_those_that_are_not_zero() -> None:
    assert far_above({1: 1.0, 2: 1.1, 3: 9.0}, (), 3.0) == (3,)
    assert far_above({1: 1.0, 2: 3.0}, (1.0, 1.0), 3.0) == ()  # strict
    assert far_above({1: 1.0, 2: 0.0, 3: 0.0, 4: 0.0}, (), 3.0) == ()
    assert far_above({1: 0.0}, (), 3.0) == ()
    assert far_above({7: 9.0, 2: 9.0}, (1.0, 1.0, 1.0), 3.0) == (2, 7)


def test_against_is_a_negative_mean_without_ones_own() -> None:
    cosines = np.array([[1.0, 0.4, -0.3], [0.4, 1.0, -0.5], [-0.3, -0.5, 1.0]])
    assert against(cosines, (0, 1, 2), (0, 1, 2)) == (1, 2)
    assert against(cosines, (0, 1), (0, 1)) == ()
    assert against(cosines, (2,), (2,)) == ()


def test_clearly_against_is_a_mean_below_zero_by_three_standard_errors_of_at_least_four() -> None:
    def cosines(values: list[float]) -> NDArray[np.float64]:
        found = np.eye(len(values) + 1)
        found[0, 1:] = found[1:, 0] = values
        return found

    to = range(9)
    assert clearly_against(cosines([-0.3, -0.2, -0.4, -0.3, -0.2, -0.3, -0.4, -0.3]), (0,), to) == (0,)
    assert clearly_against(cosines([-0.9, 0.8, -0.7, 0.6, -0.9, 0.7, -0.8, 0.4]), (0,), to) == ()  # below 0, but noise
    assert clearly_against(cosines([0.3] * 8), (0,), to) == ()
    assert clearly_against(cosines([-0.3, -0.31, -0.3]), (0,), range(4)) == ()  # three are too few to tell


def test_what_is_known_of_who_turned_fades_towards_its_community_alone() -> None:
    known = np.ones((4, 4), np.bool_)
    evidence = gathered(Evidence(), (1, 2, 5, 9), np.full((4, 4), 0.6), known, (1, 2, 5, 9))
    found = faded(evidence, {5: (1, 5)})
    assert np.allclose(found.weight / np.where(evidence.weight > 0, evidence.weight, 1.0), [
        [0, 1, FADED, 1], [1, 0, 1, 1], [FADED, 1, 0, 1], [1, 1, 1, 0],
    ])  # fmt: skip
    assert np.allclose(found.mean, evidence.mean)  # until something new is seen, which counts the more
    later = gathered(found, (1, 2, 5, 9), np.full((4, 4), -0.6), known, (1, 2, 5, 9))
    assert later.mean[0, 2] < -0.4
    assert later.mean[0, 1] == pytest.approx(0.0)
    assert np.array_equal(faded(evidence, {}).weight, evidence.weight)


def test_who_turns_is_parted_at_the_next_grouping_whatever_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Updates of one direction and noise of its length; four clients turn after four groupings of likeness."""
    turned, algorithm = range(4), HardenedFLIC(rounds_before=4, every=4)

    def answer(job: LocalJob) -> ArrayLike:
        return (-1 if job.client in turned and job.round >= 16 else 1) * (WANT / START + NOISE[job.round, job.client])

    def groups() -> set[frozenset[int]]:
        toy = Toy(range(20), answer, D, wants=everybody_wants())
        return {frozenset(c) for c in toy.play(algorithm, 20).contributors.values()}

    assert groups() == {frozenset(turned), frozenset(range(4, 20))}
    monkeypatch.setattr(hardened_flic, "TURNED", 100)  # their past would hide them
    assert groups() == {frozenset(range(20))}


@pytest.mark.parametrize(
    ("best", "expected"),
    [
        ("mine's model", "mine"),  # its own group goes on with what it chose
        ("theirs's model", "theirs"),  # they made it, go on with it, and its own group had no part in it
        ("round 0", "round 0"),  # others go on with it, but made none of it: they may be about to ruin it
        (None, "mine"),
    ],
)
def test_a_client_leaves_its_group_only_for_those_who_made_what_it_chose(best: str | None, expected: str) -> None:
    groups = {"mine": (1, 2), "theirs": (3, 4), "thieves": (5, 6)}
    start = {"mine": "mine's model", "theirs": "theirs's model", "thieves": "round 0"}
    made = {"mine's model": {1, 2}, "theirs's model": {3, 4}}
    assert serving(1, groups, start, made, best) == expected
    stolen = {**start, "thieves": "theirs's model"}
    assert serving(1, groups, stolen, made, "theirs's model") == "theirs"


def test_a_plurality_goes_to_the_first_of_equals() -> None:
    votes = {1: "b", 2: "a", 3: "c", 4: "c"}
    assert plurality(votes, (1, 2, 9), ("a", "b", "c")) == "a"
    assert plurality(votes, (1, 2), ("b", "a", "c")) == "b"
    assert plurality(votes, (1, 2, 3, 4), ("a", "b", "c")) == "c"
    assert plurality(votes, (9,), ("a",)) is None


def blocks(inside: float, between: float, noise: float = 0.05) -> NDArray[np.float64]:
    rng = np.random.default_rng(0)
    cosines = np.full((10, 10), between)
    cosines[:5, :5] = cosines[5:, 5:] = inside
    cosines += noise * np.triu(rng.standard_normal((10, 10)), 1)
    return np.triu(cosines, 1) + np.triu(cosines, 1).T + np.eye(10)


def test_a_loose_community_does_not_belong_to_a_tight_one() -> None:
    """Attackers that are like nobody, themselves included, are not joined to the loyal because their own cosines vary."""
    ids, rng = tuple(range(20)), np.random.default_rng(0)
    noise = np.triu(rng.standard_normal((20, 20)), 1)
    cosines = np.full((20, 20), 0.04) + 0.1 * (noise + noise.T)
    cosines[:12, :12] += 0.5
    cosines[12:, 12:] += 0.2 * (noise + noise.T)[12:, 12:]
    np.fill_diagonal(cosines, 1.0)
    assert merged((ids[:12], ids[12:]), cosines, ids, 2.0) == (ids[:12], ids[12:])


@pytest.mark.parametrize(("inside", "between", "count"), [(0.5, 0.3, 2), (0.5, 0.48, 1), (0.5, 0.52, 1), (0.05, -0.05, 2)])
def test_fragments_are_joined_and_communities_are_not(inside: float, between: float, count: int) -> None:
    ids = tuple(range(100, 110))
    found = merged((ids[:5], ids[5:]), blocks(inside, between), ids, 2.0)
    assert len(found) == count
    assert sorted(i for c in found for i in c) == list(ids)


def test_clients_alone_are_held_to_what_there_is() -> None:
    ids = tuple(range(10))
    alike, unlike = blocks(0.5, 0.48), blocks(0.5, 0.1)
    assert merged(tuple((i,) for i in ids), alike, ids, 2.0) == (ids,)
    assert merged((ids[:5], *((i,) for i in ids[5:])), unlike, ids, 2.0)[0] == ids[:5]


def test_evidence_is_the_mean_over_groupings_weighted_by_size() -> None:
    known = np.ones((2, 2), np.bool_)
    first = gathered(Evidence(), (1, 2), np.array([[1, -0.8], [-0.8, 1]]), known, (1, 2))
    assert first.mean[0, 1] == pytest.approx(-0.8)
    second = gathered(first, (1, 2), np.array([[1, 0.1], [0.1, 1]]), known, (1,))
    assert second.mean[0, 1] == pytest.approx((0.8 * -0.8 + 0.1 * 0.1) / 0.9)
    assert np.array_equal(gathered(second, (1, 2), np.ones((2, 2)), known, ()).mean, second.mean)  # nothing new, nothing counted
    third = gathered(second, (1, 2, 5), np.full((3, 3), 0.4), np.ones((3, 3), np.bool_), (5,))
    assert third.clients == (1, 2, 5)
    assert third.mean[0, 1] == second.mean[0, 1]
    assert third.mean[0, 2] == pytest.approx(0.4)
    assert not gathered(Evidence(), (1, 2), np.eye(2), np.zeros((2, 2), np.bool_), (1, 2)).known.any()


@pytest.mark.parametrize("inner", [7, Median(), FLTrust(), Bulyan(1), Mixed((NNM(1),), Median())], ids=repr)
def test_an_inner_rule_without_weights_of_a_gram_matrix_is_refused_when_it_is_built(inner: Any) -> None:
    with pytest.raises(ValueError, match="take a rule that does") as caught:
        replace(HARDENED, inner=inner)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "inner", [NormBound(1e-3), CenteredClipping(1e-3), FLAME(), ClippedClustering(), Mixed((ARC(1),), MultiKrum(1))], ids=repr
)
def test_an_inner_rule_that_shortens_is_refused_since_it_would_be_a_mean(inner: Any) -> None:
    long = np.arange(1.0, 6)
    short = inner.weights(np.outer(long, long) + 0.01 * np.eye(5), np.random.default_rng(0))
    assert short.sum() < 1 - 1e-6
    with pytest.raises(ValueError, match="take one that is shift_invariant") as caught:
        replace(HARDENED, inner=inner)
    assert "\n" not in str(caught.value)


def test_inner_rules_whose_weights_sum_to_one_are_taken() -> None:
    for inner in (None, Mean(), MultiKrum(1), CAF(1), Mixed((NNM(1), Bucketing(2)), GeometricMedian())):
        assert replace(HARDENED, inner=inner).inner == inner


@pytest.mark.parametrize("inner", [MultiKrum(f=1, m=2), GeometricMedian()], ids=repr)
def test_robust_rules_of_the_gram_matrix_fit(inner: Any) -> None:
    toy = Toy(range(20), minus_gradient(range(8)), D, wants=everybody_wants())
    state = toy.play(replace(HARDENED, inner=inner, participation=0.5), 12)
    assert distance(toy, state, 19) < 0.3 * START
    expected = inner.weights(np.eye(5) + 1, np.random.default_rng(0))
    assert expected.shape == (5,)
