"""FLIC as it is by default: one Gram matrix at T, of the last updates that clients kept, about their mean."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloister.fl.algorithms.flic import ALL, FLIC, State
from cloister.fl.codec import from_plain, to_plain
from cloister.fl.communities import one_plus_cosine, one_plus_cosine_squared
from cloister.fl.experiment import run
from cloister.fl.metrics import purity
from cloister.fl.run_folder import RunFolder
from cloister.fl.separation import cosine_similarity
from cloister.protocol import Masked, Permuted, Plain
from cloister.protocol.answers import Functionality
from cloister.protocol.gram import centred
from cloister.protocol.view import Protection

from .test_flic import SMALL, Toy, constant, groups_of, members, never

PROTECTIONS = [Plain(), Permuted(), Masked(sketch=256)]


def asked(toy: Toy) -> list[tuple[int, str, tuple[int, ...]]]:
    return [(e.round, e.what, e.about) for e in toy.view.log if e.what.startswith("gram") and e.recipient == "server"]


def test_what_it_needs() -> None:
    assert FLIC(rounds_before=3).needs == {Functionality.SUMS, Functionality.GRAM_RECALL, Functionality.CHOICE}
    for wrong, words in (({"similarities": "twice"}, "once"), ({"trace": True}, "every round")):
        with pytest.raises(ValueError, match=words):
            FLIC(rounds_before=3, **wrong)  # type: ignore[arg-type]


def test_the_similarity_is_the_papers_in_every_round_and_its_square_once() -> None:
    cosines = np.array([[1.0, -0.5], [-0.5, 1.0]])
    assert one_plus_cosine_squared(cosines).tolist() == [[4.0, 0.25], [0.25, 4.0]]
    assert FLIC(rounds_before=3)._similarity is one_plus_cosine_squared
    assert FLIC(rounds_before=3, similarities="every round")._similarity is one_plus_cosine
    assert FLIC(rounds_before=3, similarity=np.exp)._similarity is np.exp


@pytest.mark.parametrize("protection", PROTECTIONS, ids=repr)
def test_separated_clients_are_found_from_one_gram_matrix(protection: Protection) -> None:
    toy = Toy(range(24), constant(groups_of(600, 24, 3)), 600, protection)
    state = toy.play(FLIC(rounds_before=4, participation=0.9, least=4), 4)
    found = [c.members for c in state.clusters.values()]
    assert len(found) == 3
    assert purity(found, {i: i % 3 for c in found for i in c}) == 1.0
    ((round, what, about),) = asked(toy)
    assert (round, what) == (3, "gram(recall)")
    assert about == tuple(sorted(i for c in found for i in c))
    assert state.measured[ALL].centred
    assert state.remembered == []


def test_what_is_compared_is_the_last_update_of_each_about_the_mean_of_all() -> None:
    vectors = np.random.default_rng(3).standard_normal((5, 10, 40)).astype(np.float32)
    toy = Toy(range(10), lambda job: vectors[job.round, job.client], 40)
    algorithm = FLIC(rounds_before=5, participation=0.4)
    state, last = toy.begin(algorithm), {}
    for t in range(5):
        assert sorted(i for handle in state.kept for i in handle.clients) == sorted(last)
        assert sorted(i for rows in toy.view.server.remembered.values() for i in rows) == sorted(last)
        state = toy.step(algorithm, state)
        last |= {i: vectors[t, i].astype(np.float64) for i in toy.asked_in(t)}
    seen, ids = state.measured[ALL], tuple(sorted(last))
    assert seen.clients == ids
    rows = np.stack([last[i] for i in ids])
    np.testing.assert_allclose(seen.similarity, cosine_similarity(centred(rows @ rows.T)), atol=1e-5)
    assert set(state.waiting) == set(range(10)) - set(ids)
    assert toy.view.server.remembered == {}


def test_who_does_not_answer_at_t_waits_like_one_that_was_never_sampled() -> None:
    toy = Toy(range(6), constant(groups_of(100, 6, 2)), 100)
    recall = toy.view.recall

    def without_two(round: int, kept: Any) -> Any:
        found = recall(round, kept)
        here = [k for k, i in enumerate(found.clients) if i != 2]
        return type(found)(tuple(found.clients[k] for k in here), found.matrix[np.ix_(here, here)], found.tolerance)

    toy.view.recall = without_two
    state = toy.play(FLIC(rounds_before=1), 1)
    assert members(state) == {(0, 4), (1, 3, 5)}
    assert state.waiting == (2,)
    state = toy.step(FLIC(rounds_before=1), state)
    assert state.waiting == ()


def test_nobody_to_recall_means_more_rounds_together() -> None:
    toy = Toy(range(2), lambda job: None if job.round < 2 else [1.0, 0, 0, 0])
    algorithm = FLIC(rounds_before=1)
    state = toy.play(algorithm, 2)
    assert list(state.clusters) == [ALL]
    assert not asked(toy)
    assert list(toy.step(algorithm, state).clusters) != [ALL]


def test_updates_of_the_warm_up_are_not_kept() -> None:
    toy = Toy(range(6), never((6, 7)), 100)
    state = toy.play(FLIC(rounds_before=4, warm_up=2), 2)
    assert state.kept == ()
    assert toy.step(FLIC(rounds_before=4, warm_up=2), state).kept[0].clients == tuple(range(6))


@pytest.mark.parametrize("protection", PROTECTIONS, ids=repr)
def test_a_state_that_was_written_and_read_goes_on_bit_for_bit(protection: Protection) -> None:
    vectors = groups_of(150, 10, 2)
    one, other = (Toy(range(10), constant(vectors), 150, protection) for _ in range(2))
    algorithm = FLIC(rounds_before=4, participation=0.7, least=4)
    state = one.play(algorithm, 2)
    read = from_plain(State, to_plain(state))
    assert read == state
    other.view.restore(one.view.save(), read.remembered)
    for _ in range(3):
        state, read = one.step(algorithm, state), other.step(algorithm, read)
        assert to_plain(state) == to_plain(read)


def test_a_run_records_what_was_found_at_t(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    list(run(replace(SMALL, algorithm=FLIC(rounds_before=4, participation=0.6), rounds=5), folder.path))
    assert [sorted(line["detected"]) for line in folder.read("metrics.jsonl")] == [[], [], [], [ALL], []]
    (matrix,) = folder.read("similarities.jsonl")
    assert (matrix["round"], matrix["about"]) == (3, "mean")
