"""Hardened FLIC against clients that lie. Honest toy clients go a third of the way to what they want, with noise of their own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from cloister.fl.algorithms.algorithm import Cluster
from cloister.fl.algorithms.flic import ALL
from cloister.fl.algorithms.hardened.choices import quorum
from cloister.fl.algorithms.hardened.serving import moved, offers, regrouped
from cloister.fl.algorithms.hardened.shares import in_line
from cloister.fl.algorithms.hardened.state import FIRST, Anchor, State
from cloister.fl.algorithms.hardened_flic import ALONE, OPPOSED, HardenedFLIC
from cloister.fl.robust.averages import Mean, NormBound
from cloister.fl.robust.clustering import FLAME, ClippedClustering
from cloister.fl.robust.coordinates import Bulyan, Median
from cloister.fl.robust.krum import MultiKrum
from cloister.fl.robust.mixing import ARC, NNM, Bucketing, Mixed
from cloister.fl.robust.similarity import FLTrust
from cloister.fl.robust.spectral import CAF
from cloister.fl.robust.weiszfeld import CenteredClipping, GeometricMedian
from cloister.fl.runs.codec import from_plain, to_plain
from cloister.protocol import Masked, Permuted, Plain
from cloister.protocol.view.answers import Model
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.work import LocalJob

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


HARDENED = HardenedFLIC(rounds_before=4, every=4, participation=0.5)
FULL = replace(HARDENED, participation=1.0)
START = float(np.linalg.norm(WANT))


# --- against each other -----------------------------------------------------------------------------------------------


def test_without_an_attack_clients_come_close_to_what_they_want() -> None:
    clean = Toy(range(20), honest, D, wants=everybody_wants())
    assert distance(clean, clean.play(HARDENED, 24), 19) < 0.1 * START


def test_without_an_attack_there_is_one_community() -> None:
    toy = Toy(range(20), honest, D, wants=everybody_wants())
    state = toy.play(HARDENED, 16)
    assert list(state.contributors.values()) == [tuple(range(20))]


@pytest.mark.long
@pytest.mark.parametrize("attackers", [2, 8, 10, 12])
def test_loyal_clients_end_where_they_would_without_the_attack(attackers: int) -> None:
    loyal = range(attackers, 20)
    toy = Toy(range(20), minus_gradient(range(attackers)), D, wants=everybody_wants())
    end = toy.play(HARDENED, 24)
    assert max(distance(toy, end, i) for i in loyal) < 0.15 * START
    (name,) = [n for n, c in end.contributors.items() if 19 in c]
    assert set(loyal) <= set(end.contributors[name])
    if attackers >= 4:  # fewer make no community: they sit out, round by round
        assert set(end.contributors[name]) == set(loyal)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.floats(-3, 3), st.sampled_from([8, 10, 11, 12]), st.booleans())
@pytest.mark.long
def test_no_strength_of_any_majority_is_summed_with_the_loyal(exponent: float, attackers: int, together: bool) -> None:
    """Minus gradient and inner products manipulated, from a thousandth to a thousand times."""
    strength = 10.0**exponent

    def answer(job: LocalJob) -> ArrayLike:
        if job.client >= attackers:
            return honest(job)
        return -strength * ((WANT - job.start) / 3 if together else honest(job))

    toy = Toy(range(20), answer, D, wants=everybody_wants())
    state = toy.begin(FULL)
    for t in range(6):
        state = toy.step(FULL, state)
        groups = [set(c) for c in state.contributors.values() if c]
        assert all(group <= set(range(attackers)) or group <= set(range(attackers, 20)) for group in groups), t
        assert distance(toy, state, 19) < START * (2 / 3) ** (t + 1) + 0.5


@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.integers(2, 7), st.integers(1, 6), st.integers(0, 6), st.floats(0.3, 10))
@pytest.mark.long
def test_pulses_of_a_majority_are_met_in_the_round_in_which_they_come(
    period: int, active: int, phase: int, strength: float
) -> None:
    """Updates of one direction and noise of its length: whenever twelve of twenty turn, no step leads away from the goal."""
    turns = [t for t in range(14) if (t - phase) % period < min(active, period - 1) and t > 0]

    def answer(job: LocalJob) -> ArrayLike:
        turned = job.client < 12 and job.round in turns
        return (-strength if turned else 1) * (WANT / START + NOISE[job.round, job.client])

    toy = Toy(range(20), answer, D, wants=everybody_wants(WANT))
    state = toy.begin(FULL)
    for t in range(14):
        state = toy.step(FULL, state)
        model = toy.model(state, 19)
        assert model @ WANT / START > 0.9 * (t + 1), (t, turns)


def test_who_was_caught_is_kept_apart_while_it_behaves_and_is_asked_for_no_more() -> None:
    """Members vote for the loyal model at every choice: the evidence parts them there, without another fork."""
    toy = Toy(range(20), minus_gradient(range(12)), D, wants=everybody_wants())
    state = toy.play(FULL, 12)
    assert {tuple(c) for c in state.contributors.values()} == {tuple(range(12)), tuple(range(12, 20))}
    forks = sum(len(models) > 2 for models in toy.offered)
    assert forks <= 12


@pytest.mark.long
def test_a_majority_that_votes_for_the_worst_has_it_to_itself() -> None:
    """Honest uploads, forged votes, twelve of twenty: loyal clients have what eight of them learn alone, or better."""
    toy, alone = Toy(range(20), honest, D, wants=everybody_wants()), Toy(range(12, 20), honest, D, wants=everybody_wants())
    choose = toy.view.choose

    def forged(round: int, models: Any, clients: Any) -> dict[int, str]:
        said = dict(choose(round, models, clients))
        worst = max(models, key=lambda name: float(np.linalg.norm(toy.view.harness.observe(models[name]) - WANT)))
        return said | {i: worst for i in clients if i < 12}

    toy.view.choose = forged
    ends = toy.play(FULL, 24), alone.play(FULL, 24)
    assert max(distance(toy, ends[0], i) for i in range(12, 20)) <= 1.1 * distance(alone, ends[1], 19)


@pytest.mark.parametrize("count", [8, 12])
def test_copies_go_a_way_of_their_own_whoever_is_in_the_majority(count: int) -> None:
    """ "A little is enough": the honest mean and something more, the same from all."""
    push = np.random.default_rng(5).standard_normal(D) / np.sqrt(D)
    toy = Toy(range(20), lambda job: honest(job) if job.client >= count else (WANT - job.start) / 3 + push, D)
    state = toy.play(FULL, 3)
    groups = {frozenset(c) for c in state.contributors.values()}
    assert all(group <= set(range(count)) or group <= set(range(count, 20)) for group in groups)


def test_groups_of_clients_that_want_different_things_are_found_and_stay() -> None:
    wants = {i: WANT if i % 2 else -WANT for i in range(20)}
    toy = Toy(range(20), lambda job: honest(job, wants[job.client]), D, wants=wants)
    state = toy.play(HARDENED, 16)
    assert members(state) == {tuple(range(0, 20, 2)), tuple(range(1, 20, 2))}
    assert all(np.linalg.norm(toy.model(state, i) - wants[i]) < 0.2 * START for i in range(20))


@pytest.mark.long
@pytest.mark.parametrize("protection", [Permuted(), Masked(sketch=100)], ids=repr)
def test_it_runs_where_the_server_sees_no_update(protection: Any) -> None:
    toy = Toy(range(20), minus_gradient(range(8)), D, protection, everybody_wants())
    state = toy.play(replace(HARDENED, participation=0.5, least=4), 9)
    (group,) = [c for c in state.contributors.values() if 19 in c]
    assert set(range(8, 20)) <= set(group)
    assert len(group) < 12 + 4  # three attackers are no community: they sit rounds out
    assert distance(toy, state, 19) < 0.5 * START


def test_it_asks_for_sums_choices_and_gram_matrices_and_keeps_no_update() -> None:
    toy = Toy(range(20), minus_gradient(range(12)), D, wants=everybody_wants())
    state = toy.play(HARDENED, 12)
    assert HARDENED.needs == {Functionality.SUMS, Functionality.GRAM_ORIGIN, Functionality.CHOICE}
    assert state.remembered == ()
    assert not {entry.what for entry in toy.view.record.log} & {"cosines", "memory", "history"}


# --- lengths ----------------------------------------------------------------------------------------------------------


def first_updates(count: int = 10) -> NDArray[np.float64]:
    updates: NDArray[np.float64] = WANT / 3 + NOISE[0, :count]
    return updates


@pytest.mark.parametrize("factor", [1.4, 2.0, 50.0, 1e6])
def test_a_long_update_is_shortened_in_the_sum_and_whole_in_the_evidence(factor: float) -> None:
    toy = Toy(range(10), lambda job: honest(job) * (factor if job.client == 3 else 1), D, wants=everybody_wants())
    clean = Toy(range(10), honest, D, wants=everybody_wants())
    state, other = toy.play(FULL, 1), clean.play(FULL, 1)
    assert state.measured[ALL].left_out == {}
    sent = first_updates() * np.where(np.arange(10) == 3, factor, 1)[:, None]
    norms = np.linalg.norm(sent, axis=1)
    weights = np.minimum(1, FULL.guard * np.median(norms) / norms)  # what is shortened counts the less in the divisor too
    weights *= in_line(other.evidence.cosines(range(10))[0])
    expected = (sent * weights[:, None]).sum(0) / weights.sum()
    np.testing.assert_allclose(toy.model(state, 0), expected, rtol=2e-4, atol=1e-4)
    np.testing.assert_allclose(state.evidence.cosines(range(10))[0], other.evidence.cosines(range(10))[0], atol=1e-5)


@pytest.mark.parametrize(("floor", "less"), [(1, True), (10, False)])
def test_who_goes_the_others_way_less_counts_less_unless_the_sum_would_be_withheld(floor: int, less: bool) -> None:
    """Six of fifteen send what is orthogonal to what the others share; some of them are against nobody, and summed."""

    def answer(job: LocalJob) -> NDArray[np.float64]:
        noise = NOISE[job.round, job.client]
        return 7 * noise if job.client < 6 else WANT / 3 + 5 * noise

    toy = Toy(range(15), answer, D, Plain(floor=floor), wants=everybody_wants())
    state = toy.play(FULL, 1)
    assert list(state.contributors) == [ALL]
    assert len(state.measured[ALL].left_out) == 3
    step = float(toy.model(state, 14) @ WANT / START**2)
    assert step > (0.9 if less else 0.7) / 3
    assert (step > 0.85 / 3) == less
    assert not toy.view.record.below_floor


@pytest.mark.parametrize("crowd", [True, False])
def test_members_that_push_one_way_a_little_are_parted_by_what_was_seen_over_time(
    crowd: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nine of twenty, honest but for .3 of their length in a direction of theirs."""
    if not crowd:
        monkeypatch.setattr("cloister.fl.algorithms.hardened.forks.A_CROWD", 100)
    aside = NOISE[59, 29] - WANT * (NOISE[59, 29] @ WANT) / (WANT @ WANT)
    aside /= np.linalg.norm(aside)

    def answer(job: LocalJob) -> NDArray[np.float64]:
        step = honest(job)
        return step + 0.3 * float(np.linalg.norm(step)) * aside if job.client < 9 else step

    toy = Toy(range(20), answer, D, wants=everybody_wants())
    state = toy.play(FULL, 4)
    (own,) = (name for name, group in state.contributors.items() if 19 in group)
    beside = sum(i < 9 for i in state.contributors[own])
    assert (beside == 0) == crowd


@pytest.mark.long
@pytest.mark.parametrize("factor", [1e-3, 0.05, 20.0, 1e3])
def test_a_majority_of_another_length_has_a_community_of_its_own(factor: float) -> None:
    """Honest in direction: alone it would own the median, and shorten the loyal to nothing or carry them away."""
    toy = Toy(range(20), lambda job: honest(job) * (factor if job.client < 12 else 1), D, wants=everybody_wants())
    state = toy.play(FULL, 12)
    assert distance(toy, state, 19) < 0.1 * START


@pytest.mark.long
@pytest.mark.parametrize("factor", [1e-6, 1e-2])
def test_a_minority_that_sends_next_to_nothing_keeps_nobody_from_learning(factor: float) -> None:
    """Nine of twenty, a quarter drawn: they are most of many sessions, honest in direction, and of no length."""
    toy = Toy(range(20), lambda job: honest(job) * (factor if job.client < 9 else 1), D, wants=everybody_wants())
    state = toy.play(replace(HARDENED, participation=0.25), 30)
    assert max(distance(toy, state, i) for i in range(9, 20)) < 0.15 * START


def test_who_is_most_of_the_first_session_carries_nobody_away() -> None:
    """Of five that are drawn in the first round three are attackers, in some seeds: no length of theirs is what is usual then."""
    played = replace(HARDENED, participation=0.25)
    for seed in range(6):
        toy = Toy(range(20), lambda job: honest(job) * (1e6 if job.client < 9 else 1), D, wants=everybody_wants())
        state = toy.play(played, 4, seed=seed)
        assert max(distance(toy, state, i) for i in range(9, 20)) < 1.5 * START


# --- those who are cleverer -------------------------------------------------------------------------------------------


def test_who_turns_after_t_is_not_summed_in_that_very_round() -> None:
    """They were honest for as long, and may ask for the loyal model, where the next round parts them again."""
    turned = (0, 1, 2, 3)
    toy = Toy(range(20), minus_gradient(turned, since=3), D, wants=everybody_wants())
    state = toy.play(FULL, 3)
    for _ in range(3):
        before = distance(toy, state, 19)
        state = toy.step(FULL, state)
        assert distance(toy, state, 19) < 0.7 * before  # two thirds and noise; summed with them it is four fifths
        (group,) = [c for c in state.clusters.values() if 19 in c.members]
        assert {*range(4, 20)} <= {*group.members}


def test_two_attackers_sit_the_round_out_and_are_on_record() -> None:
    toy = Toy(range(20), minus_gradient((0, 1)), D, wants=everybody_wants())
    state = toy.play(FULL, 1)
    assert state.measured[ALL].left_out == {0: ALONE, 1: ALONE}
    assert list(state.contributors) == [ALL]


@pytest.mark.parametrize(("floor", "forks"), [(3, True), (5, False)])
def test_no_fork_leaves_a_part_below_the_floor(floor: int, forks: bool) -> None:
    """Four of twenty are a quorum, but with a floor of five their part would have no sum."""
    toy = Toy(range(20), minus_gradient((0, 1, 2, 3)), D, Plain(floor=floor), wants=everybody_wants())
    state = toy.play(FULL, 1)
    assert (len(state.contributors) > 1) == forks
    assert state.measured[ALL].left_out == ({} if forks else dict.fromkeys(range(4), ALONE))
    assert not toy.view.record.below_floor


@pytest.mark.parametrize("count", [2, 8, 12])
def test_who_sends_zeros_is_as_if_it_were_not_there(count: int) -> None:
    toy = Toy(range(20), lambda job: honest(job) * (job.client >= count), D, wants=everybody_wants())
    alone = Toy(range(count, 20), honest, D, wants=everybody_wants())
    state, there = toy.play(FULL, 2), alone.play(FULL, 2)
    assert list(state.contributors) == [ALL]
    assert state.evidence.clients == tuple(range(count, 20))
    np.testing.assert_allclose(toy.model(state, 19), alone.model(there, 19), rtol=1e-6)


def test_an_update_against_its_part_is_not_summed_and_on_record() -> None:
    """Of five clients: too few to fork, enough to see that one is against the others."""
    toy = Toy(range(5), lambda job: honest(job) * (-0.05 if job.client == 2 else 1), D, wants=everybody_wants())
    left_out = toy.play(replace(FULL, share=0.5), 1).measured[ALL].left_out
    assert set(left_out) == {2}
    assert set(left_out.values()) <= {OPPOSED, ALONE}


def test_noise_about_zero_is_summed() -> None:
    """Updates that say nothing: nobody goes another way, and few are against the others by more than noise."""
    toy = Toy(range(20), lambda job: NOISE[job.round, job.client], D)
    measured = toy.play(FULL, 1).measured[ALL]
    assert len(measured.left_out) <= 6


def test_a_forged_choice_brings_nobody_into_the_sums_of_others() -> None:
    """Attackers ask for the loyal model at every choice. They may be served by it; their updates go where they agree."""
    toy = Toy(range(20), minus_gradient(range(8)), D, wants=everybody_wants())
    choose = toy.view.choose

    def forged(round: int, models: Any, clients: Any) -> dict[int, str]:
        said = dict(choose(round, models, clients))
        return said | {i: said[19] for i in clients if i < 8 and 19 in said}

    toy.view.choose = forged
    state = toy.play(HARDENED, 17)
    (group,) = [c for c in state.contributors.values() if 19 in c]
    assert set(group) == set(range(8, 20))
    assert distance(toy, state, 19) < 0.15 * START


def test_a_newcomer_is_served_by_what_it_chose_and_summed_if_it_agrees() -> None:
    toy = Toy(range(20), minus_gradient((0, 1, 2, 3, 21)), D, wants=everybody_wants(count=22), late=(20, 21))
    state = toy.play(FULL, 2)
    state = FULL.join(state, (20, 21))
    assert state.waiting == (20, 21)
    state = toy.step(FULL, state)
    (home,) = [name for name, c in state.clusters.items() if 19 in c.members]
    assert {20, 21} <= set(state.clusters[home].members)
    for _ in range(8):
        state = toy.step(FULL, state)
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


@pytest.mark.long
@pytest.mark.parametrize("stop", [2, 6, 9])
def test_a_state_that_was_written_and_read_goes_on_bit_for_bit(stop: int) -> None:
    toys = [Toy(range(20), minus_gradient(range(9)), D, wants=everybody_wants()) for _ in range(2)]
    state = toys[0].play(HARDENED, stop)
    read = from_plain(State, to_plain(state))
    toys[1].view.harness.restore(toys[0].view.harness.save(), read.remembered)
    for _ in range(5):
        state, read = toys[0].step(HARDENED, state), toys[1].step(HARDENED, read)
        assert to_plain(state) == to_plain(read)
        assert np.array_equal(toys[0].model(state, 19), toys[1].model(read, 19))


def test_wrong_hyper_parameters_are_named() -> None:
    for wrong, words in (
        ({"rounds_before": 0}, "rounds_before"),
        ({"every": 0}, "every"),
        ({"guard": 0.5}, "guard"),
        ({"share": 0.0}, "share"),
        ({"share": 0.6}, "share"),
        ({"participation": 2.0}, "participation"),
        ({"rounds_before": 1.5}, "rounds_before is a whole number"),
        ({"every": 2.5}, "every is a whole number"),
        ({"least": True}, "least is a whole number"),
        ({"guard": float("inf")}, "guard is a finite"),
        ({"guard": float("nan")}, "guard is a finite"),
        ({"reluctance": -1.0}, "reluctance is a finite"),
        ({"reluctance": float("inf")}, "reluctance is a finite"),
    ):
        with pytest.raises(ValueError, match=words):
            HardenedFLIC(**{"rounds_before": 5, "every": 5, **wrong})  # type: ignore[arg-type]


# --- who is served by what --------------------------------------------------------------------------------------------


def grouped(**others: Any) -> State:
    """Twelve clients in one community, eight in another, and a model of an earlier round."""
    clusters = {"a": Cluster(tuple(range(12)), Model("a")), "b": Cluster(tuple(range(12, 20)), Model("b"))}
    groups = {name: cluster.members for name, cluster in clusters.items()}
    anchors = {FIRST: Anchor(Model("init"), 0), "a in round 4": Anchor(Model("old"), 4)}
    return replace(State(12, clusters, groups, anchors), **others)


def everywhere(chosen: dict[int, str], state: State | None = None) -> State:
    state = state or grouped()
    return regrouped(state, chosen, offers(state, 4), quorum(len(state.everybody), 0.2), 4)


def served(state: State) -> dict[int, str]:
    return {i: c.model.name for c in state.clusters.values() for i in c.members}


def test_models_are_offered_once_they_are_old_enough() -> None:
    assert list(offers(grouped(), 4)) == ["a's model", "b's model", FIRST, "a in round 4"]
    assert list(offers(grouped(), 9)) == ["a's model", "b's model", FIRST]


def test_the_largest_community_s_model_is_offered_first() -> None:
    state = grouped()
    smaller = replace(state, contributors={"a": state.contributors["a"][:5], "b": state.contributors["b"]})
    assert list(offers(smaller, 9)) == ["b's model", "a's model", FIRST]


def test_clients_train_where_they_chose_and_no_vote_moves_another() -> None:
    state = everywhere({i: "b's model" if i in (0, 1) else FIRST if i < 12 else "b's model" for i in range(20)})
    assert {tuple(c) for c in state.contributors.values()} == {tuple(range(2, 12)), (0, 1, *range(12, 20))}
    assert {i: m for i, m in served(state).items() if i >= 12} == dict.fromkeys(range(12, 20), "b")


def test_what_few_chose_serves_them_as_it_is_and_they_train_where_they_did() -> None:
    state = everywhere({i: "a in round 4" if i < 3 else "a's model" if i < 12 else "b's model" for i in range(20)})
    assert {tuple(c) for c in state.contributors.values()} == {tuple(range(12)), tuple(range(12, 20))}
    assert {i for i, model in served(state).items() if model == "old"} == {0, 1, 2}


def test_an_earlier_model_is_trained_again_if_a_third_want_it() -> None:
    for count, back in ((6, False), (7, True)):
        state = everywhere({i: "a in round 4" if i < count else "a's model" if i < 12 else "b's model" for i in range(20)})
        assert (tuple(range(count)) in state.contributors.values()) == back


def test_a_community_that_too_few_want_goes_on_with_its_kin() -> None:
    state = grouped(forks={"a": "0", "b": "0"})
    found = everywhere(
        {i: "b's model" if i in (12, 13) else "a's model" for i in range(14)} | dict.fromkeys(range(14, 20), FIRST), state
    )
    (group,) = [c for c in found.contributors.values() if 12 in c]
    assert set(range(14)) <= set(group)
    assert served(found)[12] == "a"


def test_who_does_not_answer_stays_and_who_is_nowhere_waits() -> None:
    state = everywhere(dict.fromkeys(range(10), "a's model"), grouped(waiting=(20,)))
    assert {tuple(c) for c in state.contributors.values()} == {tuple(range(12)), tuple(range(12, 20))}
    assert state.waiting == (20,)


def test_single_clients_move_without_anybody_else() -> None:
    before = grouped(waiting=(20,))
    after = moved(before, {0: "b's model", 1: "a in round 4", 20: "b's model"}, offers(before, 4))
    assert after.contributors == {"a": tuple(range(1, 12)), "b": (0, *range(12, 21))}
    assert served(after) == {**dict.fromkeys(range(2, 12), "a"), **dict.fromkeys((0, *range(12, 21)), "b"), 1: "old"}
    assert after.waiting == ()


def test_models_to_go_back_to_are_far_apart_and_few() -> None:
    state = grouped(anchors={FIRST: Anchor(Model("init"), 0)})
    for t in range(12, 40, 2):
        state = regrouped(replace(state, round=t), {}, offers(replace(state, round=t), 4), 4, 4)
        times = sorted({anchor.round for name, anchor in state.anchors.items() if name != FIRST})
        assert len(times) <= 2
        assert all(later - earlier >= 4 for earlier, later in pairwise(times))
        assert FIRST in state.anchors


# --- inner rules ------------------------------------------------------------------------------------------------------


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
