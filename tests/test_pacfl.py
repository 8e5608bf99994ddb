"""PACFL: angles against their definitions, the same under a rotation that the server lacks, and its clusters and newcomers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.linalg import subspace_angles

from cloister.fl.algorithms.pacfl import ALL, PACFL, PRINTED, ROTATED
from cloister.fl.clients.bases import Bases, basis
from cloister.fl.clustering.subspaces import Angles, Unmeasured, aligned_angle, smallest_angle
from cloister.fl.data.population import Client, Examples, Population
from cloister.fl.runs.scenario import PROTECTIONS
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.core.errors import Refused
from cloister.protocol.pairs.choices import Noise, PerClient, PerPair
from cloister.protocol.pairs.question import PairQuestion
from cloister.protocol.view.answers import Assignment, Model
from cloister.protocol.view.protection import check_composition

from .quadratic_clients import CLIENTS, GROUPS, START, Run, farthest, mean, named, trained

PIXELS, CLASSES, COUNT = 20, 3, 2


def client(i: int, labels: Sequence[int] = (0, 1, 2)) -> Client:
    """Of a label about one line in its group, with a little of everything beside."""
    rng, planted = np.random.default_rng(50 + i), np.random.default_rng(i // 4).standard_normal((CLASSES, COUNT, PIXELS))
    y = np.repeat(labels, 60)
    x = (rng.standard_normal((len(y), 1, COUNT)) * (12, 3)) @ planted[y] + 0.2 * rng.standard_normal((len(y), 1, PIXELS))
    examples = Examples(torch.from_numpy(x.reshape(len(y), 1, 4, 5).astype(np.float32)), torch.from_numpy(y))
    return Client(i, examples, examples)


POPULATION = Population({i: client(i) for i in CLIENTS}, {i: i // 4 for i in CLIENTS}, CLASSES, (1, 4, 5))
BASES = Bases(POPULATION, COUNT)
PROTECTED: list[Any] = [(Plain(), PRINTED), (Plain(), ROTATED), (Permuted(), ROTATED), (Masked(floor=2), ROTATED)]
PROTECTED += [(Masked(floor=2), PerPair(projection="orthonormal", ratio=1.0, embedding="public"))]


# --- angles -----------------------------------------------------------------------------------------------------------------


def rows(seed: int, count: int = 3) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.random.default_rng(seed).standard_normal((count, 8))
    return found


def test_the_smallest_angle_is_the_smallest_principal_one() -> None:
    for seed in range(8):
        one, other = rows(seed), rows(100 + seed, 2)
        assert smallest_angle(one, other) == pytest.approx(np.degrees(subspace_angles(one.T, other.T).min()), abs=1e-5)
    plane, line = np.eye(3)[:2], np.array([[0.0, 1.0, 1.0]])
    assert smallest_angle(plane, line) == pytest.approx(45)
    assert smallest_angle(plane, np.zeros((2, 3))) == 90


def test_aligned_angles_are_of_lines_that_both_have() -> None:
    one = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 0]])
    other = np.array([[-1.0, 1, 0], [0, 2, 0], [1, 0, 0]])
    assert aligned_angle(one, other) == pytest.approx((45 + 0) / 2, abs=1e-5)
    assert aligned_angle(one, np.zeros((3, 3))) == 90


@pytest.mark.parametrize("measure", [smallest_angle, aligned_angle])
def test_a_rotation_moves_no_angle(measure: Any) -> None:
    turn = np.linalg.qr(np.random.default_rng(3).standard_normal((8, 8)))[0]
    assert measure(rows(1) @ turn, rows(2) @ turn) == pytest.approx(measure(rows(1), rows(2)), abs=1e-5)


def test_a_basis_is_of_each_label_its_first_singular_vectors() -> None:
    found = basis(client(0, labels=(0, 2)), CLASSES, COUNT)
    assert found.shape == (CLASSES * COUNT, PIXELS)
    assert not found[2:4].any(), "the label that it lacks"
    examples = client(0, labels=(0, 2)).train
    x = examples.x.numpy().reshape(120, -1)[examples.y.numpy() == 2].astype(np.float64)
    expected = np.linalg.svd(x.T)[0][:, :COUNT].T
    assert np.abs((found[4:] * expected).sum(axis=1)) == pytest.approx([1, 1], abs=1e-5)
    few = Client(0, examples.take(torch.tensor([0])), examples)
    assert [bool(row.any()) for row in basis(few, CLASSES, COUNT)] == [True, False, False, False, False, False]


def test_no_vector_is_of_rounding() -> None:
    """Copies of one image span one line; and two that differ, two."""
    examples = client(0).train
    copies = Client(0, examples.take(torch.tensor([0, 0, 0, 1, 1, 0])), examples)
    assert [bool(row.any()) for row in basis(copies, CLASSES, 3)[:3]] == [True, True, False]
    alike = Client(0, examples.take(torch.tensor([0] * 5)), examples)
    assert [bool(row.any()) for row in basis(alike, CLASSES, 3)[:3]] == [True, False, False]
    blank = Client(0, Examples(torch.zeros(4, 1, 4, 5), torch.zeros(4, dtype=torch.int64)), examples)
    assert not basis(blank, CLASSES, 3).any()


def test_bases_show_nothing_else() -> None:
    for asked in (lambda: BASES.examples(0, "train"), lambda: BASES.weights_of(START), lambda: BASES.embed(0, "train", START)):
        with pytest.raises(Refused):
            asked()


# --- clusters ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("measure", ["smallest", "aligned"])
@pytest.mark.parametrize(("protection", "choice"), PROTECTED, ids=lambda v: named(v) if hasattr(v, "gives") else type(v).__name__)
def test_angles_and_clusters_are_those_of_the_bases(protection: Any, choice: Any, measure: Any) -> None:
    algorithm = PACFL(beta=30.0, vectors=COUNT, measure=measure, choice=choice, by_samples=False)
    run = Run(algorithm, protection, embedders=algorithm.embedders(POPULATION, torch.nn.Linear(1, 1)))
    run.step()
    of = smallest_angle if measure == "smallest" else aligned_angle
    bases = {i: BASES.embed(i, "train", None) for i in CLIENTS}
    expected = {(i, j): of(bases[i], bases[j]) for i in CLIENTS for j in CLIENTS if i < j}
    assert run.state.angles.keys() == expected.keys()
    assert max(abs(run.state.angles[pair] - angle) for pair, angle in expected.items()) < 0.1
    inside = max(a for (i, j), a in expected.items() if i // 4 == j // 4)
    across = min(a for (i, j), a in expected.items() if i // 4 != j // 4)
    if measure == "aligned":
        assert inside < 30 < across
        assert run.members == GROUPS
        assert run.state.measured[ALL].communities == GROUPS
        assert farthest(run.models(), {c: mean(c, START.astype(np.float64), by_samples=False) for c in GROUPS}) < 2e-3
    assert sorted(run.active[0, "update"]) == list(CLIENTS), "they train in the round in which they are grouped"
    assert not run.view.record.faults


@pytest.mark.parametrize("choice", [PRINTED, ROTATED])
def test_newcomers_join_the_nearest_within_beta_or_are_alone(choice: Any) -> None:
    algorithm = PACFL(beta=30.0, vectors=COUNT, measure="aligned", choice=choice)
    run = Run(algorithm, Plain(), present=CLIENTS[:9], embedders=BASES)
    run.step()
    assert run.members == ((0, 1, 2, 3), (4, 5, 6, 7), (8,))
    run.state = run.algorithm.join(run.state, [9, 10, 11])
    assert run.state.waiting == (9, 10, 11)
    run.step()
    assert run.members == GROUPS
    assert len(run.state.angles) == 66
    lonely = Run(algorithm, Plain(), present=CLIENTS[:8], embedders=BASES)
    lonely.step()
    lonely.state = algorithm.join(lonely.state, [11])
    lonely.step()
    assert lonely.members == ((0, 1, 2, 3), (4, 5, 6, 7), (11,))


def test_newcomers_make_a_cluster_of_those_who_train_alone() -> None:
    """One that is too small stays one in name: its newcomers train alone too, until they are enough and begin together at w^0."""
    algorithm = PACFL(beta=30.0, vectors=COUNT, measure="aligned", by_samples=False)
    run = Run(algorithm, Plain(floor=4), present=[0, 1, 4, 5, 6, 7], embedders=BASES)
    run.step()
    assert run.members == ((0,), (1,), (4, 5, 6, 7))
    alone, start = {i: trained(i, START) for i in (0, 1)}, START.astype(np.float64)
    papers = {(i,): alone[i] for i in alone} | {GROUPS[1]: mean(GROUPS[1], start, False)}
    assert farthest(run.models(), papers) < 1e-5
    run.state = algorithm.join(run.state, [2])
    run.step()
    assert run.members == ((0,), (1,), (2,), (4, 5, 6, 7))
    alone = {i: trained(i, alone.get(i, START)) for i in (0, 1, 2)}
    assert all(float(np.abs(run.models()[i,] - alone[i]).max()) < 1e-5 for i in alone)
    run.state = algorithm.join(run.state, [3])
    run.step()
    assert run.members == GROUPS[:2]
    assert float(np.abs(run.models()[GROUPS[0]] - mean(GROUPS[0], start, False)).max()) < 1e-5
    assert len(run.state.clusters) == 2
    run.state = algorithm.join(run.state, [8])
    run.step()
    assert run.members == (*GROUPS[:2], (8,))


def test_beta_says_how_many() -> None:
    for beta, count in ((0.0, 12), (90.0, 1)):
        algorithm = PACFL(beta=beta, vectors=COUNT, measure="aligned")
        run = Run(algorithm, Plain(), embedders=BASES)
        run.step()
        assert len(run.members) == count


def test_the_record_says_what_was_released() -> None:
    for choice, words in ((PRINTED, "as they are"), (ROTATED, "under one projection of all clients, which the server lacks")):
        run = Run(PACFL(beta=30.0, vectors=COUNT, choice=choice), Plain(), embedders=BASES)
        run.step()
        told = [e.words for e in run.view.record.log if e.recipient == "server"]
        assert any(words in one and "which labels it has" in one for one in told)
        assert not any(
            "embedding" in one or "reference" in one for one in told
        )  # before: "public embeddings ..., a reference distance"


def test_what_it_needs_and_what_cannot_give_it() -> None:
    for protection in (Encrypted(), TwoServer()):
        with pytest.raises(Refused, match="PACFL needs pairs"):
            check_composition("PACFL", PACFL(beta=5.0).needs, protection, PROTECTIONS)


def test_an_embedding_model_that_nobody_trained_is_refused() -> None:
    run = Run(PACFL(beta=5.0), Plain(), embedders=BASES)
    question = PairQuestion(((0, 1),), PerPair(), Unmeasured(), Angles(smallest_angle))
    with pytest.raises(Refused, match="trained no embedding model in round 0"):
        run.view.pairs(0, {ALL: Assignment(Model("init"), CLIENTS, CLIENTS)}, {}, question)
    with pytest.raises(Refused, match="client 12 did not answer"):
        run.view.pairs(0, {ALL: Assignment(Model("init"), CLIENTS, CLIENTS)}, {}, PairQuestion(((0, 12),), *_of(question)))


def _of(question: Any) -> tuple[Any, Any, Any]:
    return question.choice, question.reference, question.judge


NOISE = Noise(clip=1.0, multiplier=1.0, reference_multiplier=1.0, budget=1.0, delta=1e-5)
BAD: list[Any] = [{"beta": 91.0}, {"vectors": 0}, {"measure": "largest"}, {"linkage": "ward"}, {"choice": PerPair()}]
BAD += [{"choice": PerClient(ratio=0.9)}, {"choice": PerClient(projection="orthonormal", ratio=1.0, noise=NOISE)}]


@pytest.mark.parametrize("bad", BAD)
def test_numbers_out_of_range_are_refused(bad: Any) -> None:
    with pytest.raises(ValueError):
        PACFL(**{"beta": 5.0, **bad})
