"""FLIC where few clients are there: communities are decided by enough of them, and whoever comes back is placed."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from cloister.fl.algorithms.flic import ALL, FLIC, State
from cloister.fl.algorithms.flic_ripe import fewest
from cloister.fl.algorithms.hardened_flic import HardenedFLIC
from cloister.fl.runs.codec import from_plain, to_plain
from cloister.protocol import Masked, Plain
from cloister.protocol.core.link import Frame
from cloister.protocol.view.protection import Protection

from .test_flic import Toy, constant, groups_of, members

WAYS = ["once", "recalled", "every round"]
VECTORS = groups_of(200, 12, 2)


class Away(Toy):
    """Everybody is there, but in the rounds of `there` none but those, of whom alone any word comes through."""

    def __init__(self, clients: Sequence[int], there: Mapping[int, set[int]], *rest: Any, **more: Any) -> None:
        self.there, self.now = there, 0
        super().__init__(clients, constant(VECTORS), 200, *rest, **more)

    def _network(self, frame: Frame) -> list[Frame]:
        return [frame] if frame.sender < 0 or frame.sender in self.there.get(self.now, {frame.sender}) else []

    def step(self, algorithm: Any, state: Any, seed: int = 0) -> Any:
        self.now = state.round
        return super().step(algorithm, state, seed)


def compared(toy: Toy) -> list[tuple[int, int]]:
    """In which rounds the server was told similarities, and of how many."""
    answers = (e for e in toy.view.record.log if e.what.startswith("gram") and e.recipient == "server" and e.scalars)
    return [(e.round, len(e.about)) for e in answers]


def test_how_many_have_to_be_compared() -> None:
    assert fewest(12, 12, 1) == 6
    assert fewest(11, 11, 1) == 6
    assert fewest(12, 3, 1) == 2  # three were sampled so far
    assert fewest(12, 12, 8) == 8  # that a sum needs
    assert fewest(3, 3, 5) == 3
    assert fewest(1, 1, 1) == 1
    assert fewest(12, 1, 1) == 2  # one client has no similarity to anybody


@pytest.mark.parametrize("similarities", ["once", "recalled"])
@pytest.mark.parametrize("protection", [Plain(), Masked(floor=2, sketch=256)], ids=repr)
def test_communities_wait_for_half_of_the_clients(similarities: Any, protection: Protection) -> None:
    toy = Away(range(12), {1: {0}, 2: {0, 1, 4, 5, 7}, 3: {0, 1, 2, 3, 4, 5, 6}}, protection)
    algorithm = FLIC(rounds_before=2, similarities=similarities)
    state = toy.begin(algorithm)
    for t in range(3):
        state = toy.step(algorithm, state)
        assert list(state.clusters) == [ALL]
        assert bool(state.measured.get(ALL) and state.measured[ALL].turned_down) == (t > 0)
    assert not compared(toy), "nothing is asked that could not be used"
    if similarities == "once":
        words = "not yet, as similarities are known of 5 of 12 clients, and communities need 6"
        assert state.measured[ALL].turned_down == words
    state = toy.step(algorithm, state)
    assert len(compared(toy)) == 1
    assert state.measured[ALL].turned_down == ""
    if similarities == "once":
        assert members(state) == {(0, 2, 4, 6), (1, 3, 5)}
        assert state.waiting == (7, 8, 9, 10, 11)
    for _ in range(2):
        state = toy.step(algorithm, state)
    assert state.waiting == ()
    assert {i for of in members(state) for i in of} == set(range(12))


def test_what_is_compared_in_every_round_adds_up_until_it_is_of_half() -> None:
    toy = Away(range(12), {t: {2 * t, 2 * t + 1} for t in range(6)})
    algorithm = FLIC(rounds_before=2, similarities="every round")
    state = toy.play(algorithm, 2)
    assert list(state.clusters) == [ALL]
    assert state.memory.clients == (0, 1, 2, 3)
    assert state.measured[ALL].turned_down == "not yet, as similarities are known of 4 of 12 clients, and communities need 6"
    state = toy.step(algorithm, state)
    assert members(state) == {(0, 2, 4), (1, 3, 5)}
    assert state.waiting == (6, 7, 8, 9, 10, 11)


def test_a_sample_is_as_good_as_the_clients_that_were_asked() -> None:
    """All that were sampled are there: that others never were is no reason to wait, as in the paper."""
    toy = Away(range(12), {})
    algorithm = FLIC(rounds_before=1, participation=0.25, sampling="random", similarities="every round")
    state = toy.play(algorithm, 1)
    assert sum(map(len, members(state))) == 3
    assert len(state.waiting) == 9


@pytest.mark.parametrize("similarities", WAYS)
def test_there_are_no_communities_of_which_none_could_have_a_sum_while_clients_are_away(similarities: Any) -> None:
    toy = Away(range(12), {0: set(range(6)), 1: set(range(6))}, Plain(floor=4))
    algorithm = FLIC(rounds_before=2, similarities=similarities)
    state = toy.play(algorithm, 2)
    assert list(state.clusters) == [ALL]
    words = "not yet, as the largest community has 3 clients, where sums need 4, and 6 were not compared"
    assert state.measured[ALL].turned_down == words
    state = toy.step(algorithm, state)
    assert members(state) == {(0, 2, 4, 6, 8, 10), (1, 3, 5, 7, 9, 11)}


def test_updates_are_compared_again_once_more_clients_are_there_than_were_in_vain() -> None:
    six = {*range(6)}
    toy = Away(range(12), {0: six, 1: six, 2: {*range(1, 7)}, 3: {*range(7)}}, Plain(floor=4))
    algorithm = FLIC(rounds_before=1)
    state = toy.play(algorithm, 3)
    assert compared(toy) == [(0, 6)]
    assert state.measured[ALL].turned_down == "not yet, as 6 clients were there, and as many were compared before in vain"
    state = toy.step(algorithm, state)
    assert compared(toy) == [(0, 6), (3, 7)]
    assert members(state) == {(0, 2, 4, 6), (1, 3, 5)}


def test_what_was_compared_in_a_round_is_not_gone_by_in_the_next() -> None:
    toy = Away(range(12), {0: {0, 1, 2, 3, 4, 5}, 1: set()}, Plain(floor=4))
    algorithm = FLIC(rounds_before=1)
    state = toy.play(algorithm, 2)
    assert list(state.clusters) == [ALL]
    assert state.memory.clients == ()


def test_where_all_are_there_and_no_community_can_have_a_sum_each_trains_alone() -> None:
    toy = Away(range(6), {}, Plain(floor=4))
    algorithm = FLIC(rounds_before=1)
    state = toy.play(algorithm, 1)
    assert members(state) == {(0, 2, 4), (1, 3, 5)}
    assert members(toy.step(algorithm, state)) == {(i,) for i in range(6)}


@pytest.mark.parametrize("protection", [Plain(floor=4), Masked(floor=4, sketch=256)], ids=repr)
def test_newcomers_where_all_are_alone_go_on_together_from_the_model_that_all_began_with(protection: Protection) -> None:
    toy = Away(range(6), {}, protection, late=range(6, 12))
    algorithm = FLIC(rounds_before=1)
    state = toy.play(algorithm, 1)
    began = toy.model(state, 0)
    state = toy.step(algorithm, state)
    assert state.first is not None
    state = algorithm.join(toy.step(algorithm, state), range(6, 11))
    state = toy.step(algorithm, state)
    assert state.waiting == ()
    assert members(state) == {*((i,) for i in range(6)), (6, 7, 8, 9, 10)}
    np.testing.assert_array_equal(toy.model(state, 6), began)
    state = toy.step(algorithm, state)
    mean = np.mean([VECTORS[i] for i in range(6, 11)], axis=0)
    np.testing.assert_allclose(toy.model(state, 6), began + mean, atol=1e-3)
    state = toy.step(algorithm, algorithm.join(state, [11]))
    assert (6, 7, 8, 9, 10, 11) in members(state), "who comes after them chooses among the models that there are"


def test_newcomers_that_are_too_few_for_a_sum_train_alone_from_it() -> None:
    toy = Away(range(6), {}, Plain(floor=4), late=range(6, 8))
    algorithm = FLIC(rounds_before=1)
    state = toy.step(algorithm, algorithm.join(toy.play(algorithm, 2), [6]))
    began = toy.model(state, 6)
    for _ in range(2):
        state = toy.step(algorithm, state)
    assert members(state) == {(i,) for i in range(7)}
    np.testing.assert_allclose(toy.model(state, 6), began + 2 * VECTORS[6], atol=1e-5)
    state = toy.step(algorithm, algorithm.join(state, [7]))
    np.testing.assert_array_equal(toy.model(state, 7), began)


def test_clients_are_recalled_three_times_at_most() -> None:
    toy = Away(range(12), {})
    algorithm, often = FLIC(rounds_before=1, similarities="recalled"), []
    recall = toy.view.recall

    def of_few(round: int, kept: Any) -> Any:
        often.append(round)
        found = recall(round, kept)
        return type(found)(found.clients[:2], found.matrix[:2, :2], found.tolerance)

    toy.view.recall = of_few
    state = toy.play(algorithm, 5)
    assert often == [0, 1, 2]
    assert list(state.clusters) == [ALL]
    assert state.measured[ALL].turned_down == "not yet, as clients answered 3 times for what they kept, each time too few of them"


def test_a_state_that_waits_is_written_and_read() -> None:
    toy = Away(range(12), {t: {0, 1, 2} for t in range(1, 9)})
    algorithm = FLIC(rounds_before=2, similarities="recalled")
    state = toy.play(algorithm, 4)
    assert len(state.asked) == 12
    assert from_plain(State, to_plain(state)) == state
    alone = Away(range(6), {}, Plain(floor=4))
    state = alone.play(FLIC(rounds_before=1), 2)
    assert state.first is not None
    assert from_plain(State, to_plain(state)) == state


@pytest.mark.parametrize("protection", [Plain(), Plain(floor=4), Masked(floor=3, sketch=256)], ids=repr)
def test_the_hardened_flic_leaves_nobody_out_whoever_is_there(protection: Protection) -> None:
    """It parts only those who are there, by as many as a sum needs, and who is away stays where it was."""
    draw = np.random.default_rng(1)
    toy = Away(range(12), {t: {i for i in range(12) if draw.random() < 0.2} for t in range(1, 20)}, protection)
    algorithm = HardenedFLIC(rounds_before=3, every=3)
    state = toy.begin(algorithm)
    for _ in range(20):
        state = toy.step(algorithm, state)
        assert sorted(i for c in state.clusters.values() for i in c.members) == [*range(12)]
        assert sorted(i for group in state.contributors.values() for i in group) == [*range(12)]
        assert min(map(len, state.contributors.values())) >= max(3, toy.view.least)
