"""FedSaC: its weights are the known answer, its rounds the paper's under every protection that compares pairs."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.linalg import subspace_angles

from cloister.fl.algorithms.fedsac import PRINTED, FedSaC
from cloister.fl.algorithms.personal_graph import ALL, rows_by_similarity
from cloister.fl.algorithms.pfed_graph import PFedGraph
from cloister.fl.clients.bases import EmbeddingBases, axes
from cloister.fl.clustering.simplex import projected
from cloister.fl.clustering.subspaces import mean_angle, principal_angles
from cloister.fl.data.population import Client, Examples, Population
from cloister.fl.emd.embedding import LAST_LINEAR
from cloister.fl.models.vector import to_vector
from cloister.fl.runs.scenario import PROTECTIONS
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.core.errors import Refused
from cloister.protocol.core.link import Frame
from cloister.protocol.pairs.choices import PerClient
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import check_composition

from . import sides
from .example_files import load
from .quadratic_clients import CLIENTS, START, Run, Values, giving, named, trained

SERVED = giving(Functionality.PERSONAL_SUMS, Functionality.GRAM_ORIGIN, Functionality.PAIRS)
UNIFORM, AXES = np.full(12, 1 / 12), 2
FELT = FedSaC(l1=0.9, l2=0.3, axes=AXES)
"""So that groups do not say all: with it bases make a difference of a tenth of a model."""
BASE = np.random.default_rng(5).standard_normal((10, 6))
EXAMPLES = {i: np.random.default_rng(70 + i).standard_normal((40, 10)) * np.linspace(3, 0.5, 10) for i in CLIENTS}


def embeddings(client: int, weights: Any) -> Values:
    """A linear network of the first 60 weights."""
    found: Values = EXAMPLES[client] @ (BASE + 2 * np.asarray(weights, np.float64)[:60].reshape(10, 6))
    return found


class Linear:
    """Embedders of these. absent: who answers what is not finite."""

    d, inputs, rows, by_position = 6, 10, AXES, False

    def __init__(self, absent: Sequence[int] = ()) -> None:
        self.absent = absent

    def weights_of(self, model: NDArray[np.float32], /) -> NDArray[np.float32]:
        return model[:60]

    def embed(self, client: int, part: str, weights: NDArray[np.float32] | None, /) -> NDArray[np.float32]:
        assert weights is not None, "by its own model"
        found = axes(embeddings(client, weights).astype(np.float32), AXES)
        return found * np.float32(np.nan) if client in self.absent else found

    def sent(self, client: int, occasion: Any, honest: Any, /) -> Any:
        return honest


# --- weights ----------------------------------------------------------------------------------------------------------------


def test_weights_are_the_known_answer() -> None:
    cosines, overlaps = np.array([1, 0.7, 0.1, -0.2]), np.array([1, 0.9, 0.5, 0.2])
    wanted = FedSaC(snap=None)
    found = rows_by_similarity((wanted.l2 * cosines - wanted.l1 * overlaps)[None], 1.0)
    assert found[0] == pytest.approx([0.5125, 0.3475, 0.1075, 0.0325], abs=5e-5)


# --- bases ------------------------------------------------------------------------------------------------------------------


def of_covariance(rows: Any, count: int) -> Values:
    """Eigenvectors of the largest eigenvalues, as rows."""
    vectors: Values = np.linalg.eigh(np.cov(np.asarray(rows, np.float64).T))[1][:, ::-1][:, :count].T
    return vectors


def test_axes_are_the_principal_ones_about_the_mean() -> None:
    rows = (7 + np.random.default_rng(1).standard_normal((50, 5)) * (4, 3, 2, 1, 0.5)).astype(np.float32)
    found = axes(rows, 3)
    assert found @ found.T == pytest.approx(np.eye(3), abs=1e-5)
    assert np.abs((found * of_covariance(rows, 3)).sum(axis=1)) == pytest.approx([1, 1, 1], abs=1e-4)
    two = axes(rows[:3], 4)
    assert [bool(row.any()) for row in two] == [True, True, False, False], "three examples differ in two directions"
    assert not axes(np.full((30, 5), 0.1, np.float32), 2).any(), "dead units differ in none"
    rows[3, 2] = np.inf
    assert np.isnan(axes(rows, 2)).all()


def test_angles_are_principal_and_know_no_sign_order_or_rotation() -> None:
    rng = np.random.default_rng(2)
    for _ in range(5):
        one, other = (np.linalg.qr(rng.standard_normal((6, 3)))[0].T for _ in range(2))
        turn = np.linalg.qr(rng.standard_normal((6, 6)))[0]
        expected = np.degrees(subspace_angles(one.T, other.T))
        assert principal_angles(one, other) == pytest.approx(np.sort(expected), abs=1e-5)
        for same in (one, one[[2, 0, 1]] * [[1], [-1], [-1]]):
            assert mean_angle(same @ turn, other @ turn) == pytest.approx(expected.mean(), abs=1e-5)
    plane, line = np.eye(3)[:2], np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    assert principal_angles(plane, line) == pytest.approx([45])
    assert mean_angle(plane, line) == pytest.approx(45), "as many as the smaller has"
    assert mean_angle(plane, np.zeros((2, 3))) == 0


def test_bases_are_of_training_embeddings_by_the_clients_own_model() -> None:
    torch.manual_seed(1)
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 3))
    x = torch.randn(30, 1, 2, 3)
    examples = Examples(x, torch.zeros(30, dtype=torch.int64))
    population = Population({0: Client(0, examples, examples)}, {0: 0}, 3, (1, 2, 3))
    bases = FedSaC(axes=2).embedders(population, module)
    assert (bases.d, bases.rows, bases.inputs) == (4, 2, 6)
    model = np.random.default_rng(4).standard_normal(len(to_vector(module))).astype(np.float32)
    by_hand = x.reshape(30, 6).numpy() @ model[:24].reshape(4, 6).T + model[24:28]
    found = bases.embed(0, "train", bases.weights_of(model))
    assert np.abs((found * of_covariance(by_hand, 2)).sum(axis=1)) == pytest.approx([1, 1], abs=1e-4)
    asked: list[Any] = [lambda: bases.embed(0, "train", None), lambda: bases.examples(0, "train")]
    for each in asked:
        with pytest.raises(Refused):
            each()
    for count in (0, 5):
        with pytest.raises(ValueError, match="axes of embeddings with 4 coordinates"):
            EmbeddingBases(population, module, count, LAST_LINEAR)


# --- rounds -----------------------------------------------------------------------------------------------------------------


def overlaps_of(models: dict[int, Values], absent: Sequence[int] = ()) -> Values:
    """c, from the definitions."""
    bases = {i: of_covariance(embeddings(i, w), AXES).T for i, w in models.items()}
    found = np.ones((12, 12))
    for i in CLIENTS:
        for j in CLIENTS:
            if i != j and not {i, j} & {*absent}:
                found[i, j] = np.cos(subspace_angles(bases[i], bases[j]).mean())
    return found


def check(run: Run, rounds: int, bound: float, absent: Sequence[int] = ()) -> None:
    """Every round is the paper's, of the cosines that the view tells."""
    wanted = run.algorithm
    models = {i: START.astype(np.float64) for i in CLIENTS}
    for _ in range(rounds):
        run.step()
        after = {i: trained(i, w) for i, w in models.items()}
        seen, c = run.state.measured[ALL].similarity, overlaps_of(after, absent)
        s = -np.where(seen > 0.9, 1.0, seen)
        weights = [projected(UNIFORM - (wanted.l1 * c[i] + wanted.l2 * s[i]) / 2) for i in CLIENTS]
        models = {i: sum(x * after[j] for x, j in zip(weights[i], CLIENTS, strict=True)) for i in CLIENTS}
        found = {c.members[0]: run.view.harness.observe(c.model) for c in run.state.clusters.values()}
        assert max(np.abs(found[i] - models[i]).max() for i in CLIENTS) < bound


@pytest.mark.long
@pytest.mark.parametrize(("protection", "bound"), SERVED, ids=named)
def test_every_round_is_the_papers(protection: Any, bound: float) -> None:
    run = Run(FELT, protection, embedders=Linear())
    check(run, 1 if isinstance(protection, Masked) else 2, 10 * bound)
    assert not run.view.record.faults
    assert not run.view.record.below_floor


def test_as_printed_it_is_the_same() -> None:
    run = Run(replace(FELT, choice=PRINTED), Plain(), embedders=Linear())
    check(run, 2, 2e-5)
    assert any("own model vary most, as they are" in entry.words for entry in run.view.record.log)


def test_complementarity_makes_a_difference() -> None:
    """And by models of the round: with bases of the start the weights would be others."""
    models = {i: trained(i, START) for i in CLIENTS}
    start = overlaps_of({i: START.astype(np.float64) for i in CLIENTS})
    assert np.abs(overlaps_of(models) - start).max() > 0.05
    with_it, without = (Run(replace(FELT, l1=l1), Plain(), embedders=Linear()) for l1 in (0.9, 0.0))
    with_it.step()
    without.step()
    assert max(np.abs(with_it.models()[i,] - without.models()[i,]).max() for i in CLIENTS) > 0.1


def test_who_sends_no_basis_complements_nobody() -> None:
    silent = lambda frame: [] if frame.kind == "PairClouds" and frame.sender == 5 else [frame]  # noqa: E731
    run = Run(FELT, Plain(), embedders=Linear(absent=(7,)), tap=silent)
    check(run, 2, 2e-5, absent=(5, 7))
    assert [fault.blame for fault in run.view.record.faults] == [7, 7]


@pytest.mark.long
def test_the_record_says_what_is_released_in_each_round() -> None:
    run = Run(FedSaC(axes=AXES), Masked(floor=2), embedders=Linear())
    check(run, 2, 2e-2)
    told = [entry for entry in run.view.record.log if entry.what == "pairs" and "own model" in entry.words]
    assert [(e.round, e.recipient, e.about, e.scalars) for e in told] == [(t, "server", CLIENTS, 12 * AXES * 6) for t in (0, 1)]
    assert all("one rotation of all clients in this round, which the server lacks" in entry.words for entry in told)


def test_from_a_round_on_it_is_pfedgraph_and_nothing_is_released() -> None:
    frames: list[Frame] = []

    def tap(frame: Frame) -> list[Frame]:
        frames.append(frame)
        return [frame]

    run = Run(replace(FELT, until=1), Plain(), embedders=Linear(), tap=tap)
    run.step()
    assert sum(frame.kind == "PairClouds" for frame in frames) == 12
    run.step()
    assert sum(frame.kind == "PairClouds" for frame in frames) == 12
    graph, without = Run(PFedGraph(lam=1 / 0.3, snap=0.9), Plain()), Run(replace(FELT, l1=0.0), Plain())
    for _ in range(2):
        graph.step()
        without.step()
    assert all(without.models()[i,] == pytest.approx(graph.models()[i,], abs=1e-6) for i in CLIENTS)
    assert np.abs(run.models()[0,] - graph.models()[0,]).max() > 0.01


def test_absent_clients_keep_their_models_and_newcomers_are_compared_too() -> None:
    run = Run(FELT, Permuted(floor=2), silent=[(1, 5)], present=CLIENTS[:11], embedders=Linear())
    run.step()
    before = run.models()[5,]
    run.state = run.algorithm.join(run.state, [11])
    run.step()
    assert np.array_equal(run.models()[5,], before)
    told = [e.about for e in run.view.record.log if e.what == "pairs" and "own model" in e.words]
    assert told == [CLIENTS[:11], tuple(i for i in CLIENTS if i != 5)]


@pytest.mark.long
@pytest.mark.parametrize("protection", [Permuted(floor=2), Masked(floor=2, keys="run")], ids=named)
def test_a_run_goes_on_after_a_pause(protection: Any) -> None:
    """With the rotations of the rounds to come, and what was released is not released again."""
    frames: list[Frame] = []
    whole = Run(FedSaC(axes=AXES), protection, embedders=Linear())
    again = Run(FedSaC(axes=AXES), protection, embedders=Linear(), tap=lambda frame: frames.append(frame) or [frame])
    whole.step()
    again.view.harness.restore(whole.view.harness.save(), [])
    again.state = whole.state
    whole.step()
    again.step()
    one, other = (sides.round_bases(run.view) for run in (whole, again))
    assert one.keys() == other.keys() == {*CLIENTS}
    assert all(np.array_equal(one[i], other[i]) for i in CLIENTS)
    assert all(again.models()[i,] == pytest.approx(whole.models()[i,], abs=2e-3) for i in CLIENTS)
    assert sum(frame.kind == "PairClouds" for frame in frames) == 12


def test_what_it_needs_and_what_cannot_give_it() -> None:
    for protection in (Encrypted(), TwoServer()):
        with pytest.raises(Refused, match="FedSaC needs pairs"):
            check_composition("FedSaC", FedSaC().needs, protection, PROTECTIONS)
    for without in (FedSaC(l1=0.0), FedSaC(until=0)):
        check_composition("FedSaC", without.needs, Encrypted(), PROTECTIONS)
    run = Run(FedSaC(axes=AXES, choice=PRINTED), Masked(floor=2), embedders=Linear())
    with pytest.raises(Refused, match="clients show no embedding as it is"):
        run.step()


BAD: list[Any] = [
    {"l1": -1.0},
    {"l2": np.inf},
    {"snap": 1.5},
    {"axes": 0},
    {"until": -1},
    {"until": 0.5},
    {"choice": PerClient()},
]


@pytest.mark.parametrize("bad", BAD)
def test_numbers_out_of_range_are_refused(bad: Any) -> None:
    with pytest.raises(ValueError):
        FedSaC(**bad)


# --- training ---------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.trains
def test_turned_digits_are_embedded_in_other_directions_and_means_are_of_ones_own_kind() -> None:
    """In most of three seeds angles inside groups are less by 10 degrees, and whoever weighs at a client is of its group."""
    quick, apart, ours = load("baselines_gram").fedsac, [], []
    quick = replace(quick, training=replace(quick.training, epochs=3))
    for seed in range(3):
        simulation = Simulation(replace(quick, seed=seed, rounds=2), None)
        simulation.step()
        first = sides.round_bases(simulation.view)
        simulation.step()
        groups, bases = simulation.population.groups, sides.round_bases(simulation.view)
        assert all(basis @ basis.T == pytest.approx(np.eye(3), abs=1e-5) for basis in bases.values())
        pairs = list(combinations(sorted(bases), 2))
        angle = {(i, j): mean_angle(bases[i], bases[j]) for i, j in pairs}
        inside, across = ([angle[i, j] for i, j in pairs if (groups[i] == groups[j]) == same] for same in (True, False))
        apart.append(np.mean(across) - np.mean(inside))
        assert np.abs(bases[0] - first[0]).max() > 0.1, "released anew"
        told = [o for o in simulation.view.record.opened if o.round == 1]
        ours.append(all(groups[j] == groups[o.to] for o in told for j in o.row))
    assert np.median(apart) > 10
    assert np.median(ours) == 1
