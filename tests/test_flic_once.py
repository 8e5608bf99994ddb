"""FLIC that asks for one Gram matrix, at T, about the mean: of a round of everybody, or of the last updates that clients kept."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloister.fl.algorithms.flic import ALL, FLIC, State
from cloister.fl.clustering.communities import one_plus_cosine, one_plus_cosine_squared
from cloister.fl.clustering.separation import cosine_similarity
from cloister.fl.runs.codec import from_plain, to_plain
from cloister.fl.runs.experiment import run
from cloister.fl.runs.metrics import purity
from cloister.fl.runs.run_folder import RunFolder
from cloister.protocol import Masked, Permuted, Plain
from cloister.protocol.parts.history import History
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import Protection
from cloister.scenario_file import load

from . import sides
from .test_flic import SMALL, Toy, constant, groups_of, members, never

RECALLED = FLIC(rounds_before=3, similarities="recalled")
PROTECTIONS = [Plain(), Permuted(), Masked(sketch=256)]


def asked(toy: Toy) -> list[tuple[int, str, tuple[int, ...]]]:
    return [(e.round, e.what, e.about) for e in toy.view.record.log if e.what.startswith("gram") and e.recipient == "server"]


def test_what_it_needs() -> None:
    assert FLIC(rounds_before=3).needs == {Functionality.SUMS, Functionality.GRAM, Functionality.CHOICE}
    assert RECALLED.needs == {Functionality.SUMS, Functionality.GRAM_RECALL, Functionality.CHOICE}
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
@pytest.mark.parametrize(("similarities", "what"), [("once", "gram"), ("recalled", "gram(recall)")])
@pytest.mark.long
def test_separated_clients_are_found_from_one_gram_matrix(protection: Protection, similarities: Any, what: str) -> None:
    toy = Toy(range(24), constant(groups_of(600, 24, 3)), 600, protection)
    state = toy.play(FLIC(rounds_before=4, participation=0.9, least=4, similarities=similarities), 4)
    found = [c.members for c in state.clusters.values()]
    assert len(found) == 3
    assert purity(found, {i: i % 3 for c in found for i in c}) == 1.0
    ((round, answer, about),) = asked(toy)
    assert (round, answer) == (3, what)
    assert about == tuple(sorted(i for c in found for i in c))
    assert state.measured[ALL].centred
    assert state.remembered == []


def test_the_round_before_t_is_everybodys_and_no_other() -> None:
    vectors = np.random.default_rng(3).standard_normal((5, 10, 40)).astype(np.float32)
    toy = Toy(range(10), lambda job: vectors[job.round, job.client], 40)
    state = toy.play(FLIC(rounds_before=5, participation=0.4), 5)
    assert [len(toy.asked_in(t)) for t in range(4)] == [5, 5, 5, 5]  # two cohorts
    assert list(toy.asked_in(4)) == list(range(10))
    rows = vectors[4].astype(np.float64) - vectors[4].mean(axis=0, dtype=np.float64)
    np.testing.assert_allclose(state.measured[ALL].similarity, cosine_similarity(rows @ rows.T), atol=1e-5)
    assert state.remembered == []


def test_what_is_recalled_is_the_last_update_of_each_about_the_mean_of_its_cohort() -> None:
    vectors = np.random.default_rng(3).standard_normal((5, 10, 40)).astype(np.float32)
    toy = Toy(range(10), lambda job: vectors[job.round, job.client], 40)
    algorithm = FLIC(rounds_before=5, participation=0.4, similarities="recalled")
    state, last = toy.begin(algorithm), {}
    for t in range(5):
        assert sorted(i for handle in state.kept for i in handle.clients) == sorted(last)
        assert sorted(i for rows in sides.part(toy.view, History).rows.values() for i in rows) == sorted(last)
        state = toy.step(algorithm, state)
        last |= {i: vectors[t, i].astype(np.float64) for i in toy.asked_in(t)}
    seen, ids = state.measured[ALL], tuple(sorted(last))
    assert seen.clients == ids
    cohorts = toy.asked_in(3), toy.asked_in(4)
    assert sorted([*cohorts[0], *cohorts[1]]) == list(ids)
    means = {i: np.mean([last[j] for j in cohort], axis=0) for cohort in cohorts for i in cohort}
    rows = np.stack([last[i] - means[i] for i in ids])
    np.testing.assert_allclose(seen.similarity, cosine_similarity(rows @ rows.T), atol=1e-5)
    assert set(state.waiting) == set(range(10)) - set(ids)
    assert sides.part(toy.view, History).rows == {}


@pytest.mark.parametrize("similarities", ["once", "recalled"])
def test_who_does_not_answer_at_t_waits_like_one_that_was_never_sampled(similarities: Any) -> None:
    toy = Toy(range(6), constant(groups_of(100, 6, 2)), 100)
    name = "gram" if similarities == "once" else "recall"
    answer = getattr(toy.view, name)

    def without_two(*asked: Any) -> Any:
        found = answer(*asked)
        here = [k for k, i in enumerate(found.clients) if i != 2]
        return type(found)(tuple(found.clients[k] for k in here), found.matrix[np.ix_(here, here)], found.tolerance)

    setattr(toy.view, name, without_two)
    algorithm = FLIC(rounds_before=1, similarities=similarities)
    state = toy.play(algorithm, 1)
    assert members(state) == {(0, 4), (1, 3, 5)}
    assert state.waiting == (2,)
    state = toy.step(algorithm, state)
    assert state.waiting == ()


@pytest.mark.parametrize("similarities", ["once", "recalled"])
def test_nobody_to_compare_means_more_rounds_together(similarities: Any) -> None:
    toy = Toy(range(2), lambda job: None if job.round < 2 else [1.0, 0, 0, 0])
    algorithm = FLIC(rounds_before=1, similarities=similarities)
    state = toy.play(algorithm, 2)
    assert list(state.clusters) == [ALL]
    assert not asked(toy)
    assert list(toy.step(algorithm, state).clusters) != [ALL]


def test_updates_of_the_warm_up_are_not_kept() -> None:
    toy, algorithm = Toy(range(6), never((6, 7)), 100), FLIC(rounds_before=4, warm_up=2, similarities="recalled")
    state = toy.play(algorithm, 2)
    assert state.kept == ()
    assert toy.step(algorithm, state).kept[0].clients == tuple(range(6))


@pytest.mark.long
@pytest.mark.parametrize("similarities", ["once", "recalled"])
@pytest.mark.parametrize("protection", PROTECTIONS, ids=repr)
def test_a_state_that_was_written_and_read_goes_on_bit_for_bit(protection: Protection, similarities: Any) -> None:
    vectors = groups_of(150, 10, 2)
    one, other = (Toy(range(10), constant(vectors), 150, protection) for _ in range(2))
    algorithm = FLIC(rounds_before=4, participation=0.7, least=4, similarities=similarities)
    state = one.play(algorithm, 2)
    read = from_plain(State, to_plain(state))
    assert read == state
    other.view.harness.restore(one.view.harness.save(), read.remembered)
    for _ in range(3):
        state, read = one.step(algorithm, state), other.step(algorithm, read)
        assert to_plain(state) == to_plain(read)


@pytest.mark.trains
def test_a_run_records_what_was_found_at_t(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    list(run(replace(SMALL, algorithm=FLIC(rounds_before=4, participation=0.6), rounds=5), folder.path))
    assert [sorted(line["detected"]) for line in folder.read("metrics.jsonl")] == [[], [], [], [ALL], []]
    (matrix,) = folder.read("similarities.jsonl")
    assert (matrix["round"], matrix["about"]) == (3, "mean")


@pytest.mark.slow
@pytest.mark.trains
def test_swapped_labels_are_told_apart_at_t_20_where_a_quarter_takes_part(tmp_path: Path) -> None:
    """One look at 64 measurements: of 23 runs, over two draws of secrets, the groups in 22; in one a client of 24 with others."""
    quickstart = load(str(Path(__file__).parents[1] / "examples" / "quickstart.py"))
    algorithm, aris = FLIC(rounds_before=20, participation=0.25), []
    for seed in range(5):
        folder = tmp_path / str(seed)
        list(run(replace(quickstart, algorithm=algorithm, protection=Masked(), rounds=21, seed=seed), folder))
        found = json.loads((folder / "summary.json").read_text())
        assert (found["account"]["pairs"], found["account"]["grams"]) == (0, 1)
        aris.append(found["ari"])
    assert np.mean(aris) >= 0.95
    assert min(aris) >= 0.75
