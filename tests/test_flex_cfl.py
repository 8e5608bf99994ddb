"""FlexCFL: its measures against the printed definitions, its cold start, newcomers and attraction under every protection."""

from typing import Any

import numpy as np
import pytest
from scipy.linalg import block_diag

from cloister.fl.algorithms.algorithm import Start
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.flex_cfl import ALL, FlexCFL
from cloister.fl.clustering.directions import cosines_to_means, decomposed_cosines, differences_of_cosines
from cloister.fl.clustering.kmeans import coordinates, kmeans, lloyd, nearest, numbered
from cloister.fl.clustering.linkage import cut, euclidean
from cloister.fl.runs.scenario import PROTECTIONS
from cloister.protocol import Permuted, Plain, TwoServer
from cloister.protocol.core.errors import Refused
from cloister.protocol.view.answers import Model
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import check_composition

from .quadratic_clients import CLIENTS, EVERY, GROUPS, START, Run, farthest, giving, mean, named

UPDATES = np.random.default_rng(4).standard_normal((7, 30))


# --- measures ---------------------------------------------------------------------------------------------------------------


def test_points_stand_for_vectors_with_the_same_inner_products() -> None:
    gram = UPDATES @ UPDATES.T
    points = coordinates(gram)
    assert points @ points.T == pytest.approx(gram)
    assert np.linalg.norm(points, axis=0) == pytest.approx(np.linalg.svd(UPDATES)[1])
    assert euclidean(gram)[2, 5] == pytest.approx(np.linalg.norm(UPDATES[2] - UPDATES[5]))
    with pytest.raises(ValueError, match="finite"):
        coordinates(gram * np.nan)


def test_edc_is_of_the_singular_vectors_of_the_updates() -> None:
    directions = np.linalg.svd(UPDATES.T, full_matrices=False)[0][:, :3]
    cosines = (UPDATES @ directions) / np.linalg.norm(UPDATES, axis=1)[:, None]
    found = decomposed_cosines(UPDATES @ UPDATES.T, 3)
    assert np.abs(found) == pytest.approx(np.abs(cosines))
    assert found @ found.T == pytest.approx(cosines @ cosines.T), "but for the signs of the directions"
    with_zero = np.vstack([UPDATES, np.zeros(30)])
    assert decomposed_cosines(with_zero @ with_zero.T, 3)[-1].tolist() == [0, 0, 0]


def test_madc_is_the_mean_over_the_others() -> None:
    unit = UPDATES / np.linalg.norm(UPDATES, axis=1)[:, None]
    cosines = unit @ unit.T
    found = differences_of_cosines(UPDATES @ UPDATES.T)
    others = [k for k in range(7) if k not in (1, 4)]
    assert found[1, 4] == found[4, 1] == pytest.approx(np.mean([abs(cosines[1, k] - cosines[4, k]) for k in others]))
    assert not np.diagonal(found).any()
    assert not differences_of_cosines(np.eye(2)).any()


def test_cosines_to_means_are_those_of_the_mean_vectors() -> None:
    others = np.random.default_rng(5).standard_normal((2, 30))
    lengths = np.linalg.norm(UPDATES, axis=1)
    cosines = others @ UPDATES.T / np.outer(np.linalg.norm(others, axis=1), lengths)
    groups = [[0, 2, 3], [1, 4, 5, 6]]
    found = cosines_to_means(cosines, lengths, UPDATES @ UPDATES.T, groups)
    for k, group in enumerate(groups):
        direction = UPDATES[group].mean(axis=0)
        expected = others @ direction / np.linalg.norm(others, axis=1) / np.linalg.norm(direction)
        assert found[:, k] == pytest.approx(expected)


def test_kmeans_finds_what_is_apart_and_counts_from_the_first() -> None:
    rng = np.random.default_rng(0)
    points = np.repeat([[9.0, 0], [0, 0], [0, 9.0]], [2, 4, 3], axis=0) + 0.1 * rng.standard_normal((9, 2))
    order = rng.permutation(9)
    labels = kmeans(points[order], 3, np.random.default_rng(1))
    assert labels[0] == 0
    assert sorted(set(labels.tolist())) == [0, 1, 2]
    assert len({(int(k), int(np.repeat([0, 1, 2], [2, 4, 3])[at])) for k, at in zip(labels, order, strict=True)}) == 3
    assert set(kmeans(np.zeros((3, 2)), 3, rng).tolist()) == {0}, "what is the same place is one cluster"
    with pytest.raises(ValueError, match="2 points do not make 3"):
        kmeans(np.zeros((2, 2)), 3, rng)
    assert numbered([7, 7, 2, 7, 0]).tolist() == [0, 0, 1, 0, 2]


def test_kmeans_makes_no_groups_of_rounding() -> None:
    one = np.random.default_rng(2).standard_normal(40)
    gram = np.outer(np.ones(12), np.ones(12)) * (one @ one)
    gram += 1e-15 * (one @ one) * np.random.default_rng(3).standard_normal((12, 12))
    assert set(kmeans(coordinates(gram), 3, np.random.default_rng(1)).tolist()) == {0}


@pytest.mark.parametrize("by", ["single", "complete", "average", "weighted"])
def test_a_tree_is_cut_into_as_many_clusters_as_asked_for_whatever_ties_there_are(by: Any) -> None:
    groups = [np.full((3, 3), 1.0)] * 3
    for far in (np.ones((6, 6)) - np.eye(6), 1 - block_diag(*groups), np.zeros((5, 5))):
        for count in range(1, len(far) + 1):
            assert len(set(cut(far, by, count=count).tolist())) == count


def test_a_step_of_lloyd_by_hand() -> None:
    points = np.array([[0.0], [1.0], [2.0], [10.0]])
    labels, centres = lloyd(points, np.array([[0.0], [2.0], [50.0]]), 1)
    assert labels.tolist() == [0, 0, 1, 1]
    assert centres.ravel().tolist() == [0.5, 6.0, 50.0], "a centre that nobody is near stays"
    assert nearest(points, centres).tolist() == [0, 0, 0, 1]
    assert lloyd(points, np.array([[0.0], [2.0], [50.0]]), 9)[1].ravel().tolist() == [1.0, 10.0, 50.0]


def test_single_and_complete_linkage_are_told_apart() -> None:
    """A chain of steps of 1: by the nearest two it is one cluster, by the farthest it is not."""
    chain = np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0)))
    assert cut(chain, "single", at=1.0).tolist() == [0] * 5
    assert max(cut(chain, "complete", at=1.0).tolist()) == 2
    assert cut(chain, "complete", count=2).max() == 1
    assert cut(np.zeros((1, 1)), "average", at=1.0).tolist() == [0]
    with pytest.raises(ValueError, match="a distance or into a number"):
        cut(chain, "single")
    with pytest.raises(ValueError, match="finite"):
        cut(chain * np.nan, "single", at=1.0)


# --- rounds -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("measure", ["EDC", "MADC"])
@pytest.mark.parametrize(("protection", "bound"), EVERY, ids=named)
def test_the_cold_start_and_a_round_are_the_papers(protection: Any, bound: float, measure: Any) -> None:
    run = Run(FlexCFL(groups=3, measure=measure, newcomers="random", by_samples=False), protection)
    run.step()
    papers = {group: mean(group, START.astype(np.float64), by_samples=False) for group in GROUPS}
    assert farthest(run.models(), papers) < bound
    assert run.state.measured[ALL].communities == GROUPS
    run.step()
    assert farthest(run.models(), {group: mean(group, model, by_samples=False) for group, model in papers.items()}) < 2 * bound
    assert not run.view.record.faults
    assert run.state.waiting == ()


@pytest.mark.parametrize(("protection", "bound"), [one for one in EVERY if type(one) is tuple], ids=named)
def test_rounds_inside_groups_count_samples_and_the_cold_start_does_not(protection: Any, bound: float) -> None:
    run = Run(FlexCFL(groups=3, newcomers="random"), protection)
    run.step()
    run.step()
    papers = {group: mean(group, mean(group, START.astype(np.float64), by_samples=False)) for group in GROUPS}
    assert farthest(run.models(), papers) < 2 * bound


@pytest.mark.parametrize(("protection", "bound"), giving(Functionality.GRAM_REMEMBER), ids=named)
def test_newcomers_join_the_group_of_their_direction(protection: Any, bound: float) -> None:
    run = Run(
        FlexCFL(groups=3, by_samples=False),
        protection,
        silent=[(0, 6), (1, 10)],
        present=[i for i in CLIENTS if i not in (3, 10)],
    )
    run.step()
    assert run.members == ((0, 1, 2), (4, 5, 7), (8, 9, 11))
    assert run.state.waiting == (6,)
    run.state = run.algorithm.join(run.state, [3, 10])
    run.step()
    assert run.members == ((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 11)), "10 was silent"
    run.step()
    assert run.members == GROUPS
    assert run.state.waiting == ()
    run.step()
    assert sorted(run.active[3, "update"]) == list(CLIENTS)


def test_newcomers_join_any_group_where_nothing_is_remembered() -> None:
    run = Run(FlexCFL(groups=3, newcomers="random"), Permuted(floor=2, keys="session"), present=CLIENTS[:11])
    run.step()
    run.state = run.algorithm.join(run.state, [11])
    run.step()
    assert sorted(i for members in run.members for i in members) == list(CLIENTS)
    assert run.state.remembered == []


def test_more_clients_than_the_cold_start_takes_wait_for_the_next_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloister.fl.algorithms.flex_cfl.PER_GROUP", 3)
    run = Run(FlexCFL(groups=3), Plain())
    run.step()
    assert len(run.active[0, "update"]) == 9
    assert len(run.state.waiting) == 3
    run.step()
    assert run.members == GROUPS


def test_a_cold_start_that_too_few_answer_is_repeated() -> None:
    run = Run(FlexCFL(groups=3), Plain(), silent=[(0, i) for i in CLIENTS[2:]])
    run.step()
    assert run.state.found is None
    assert run.members == (CLIENTS,)
    run.step()
    assert run.members == GROUPS


def test_groups_attract_each_other_as_printed() -> None:
    """w_g <- (w_g + sum eta w_l / |w_l|) / (1 + sum eta / |w_l|); and with eta_g = 0 nothing of it is asked for."""
    run = Run(FlexCFL(groups=3, eta_g=0.4), Plain())
    run.step()
    before = {c: mean(c, model.astype(np.float64)) for c, model in run.models().items()}
    run.step()
    papers = {}
    for c, model in before.items():
        others = [(w, np.linalg.norm(w)) for o, w in before.items() if o != c]
        papers[c] = (model + sum(0.4 * w / n for w, n in others)) / (1 + sum(0.4 / n for _, n in others))
    assert farthest(run.models(), papers) < 1e-6
    assert Functionality.REVISION not in FlexCFL(groups=3).needs


@pytest.mark.parametrize("eta_g", [0.0, 0.4])
def test_clients_of_a_group_below_the_floor_train_alone_and_attract_nobody(eta_g: float) -> None:
    run = Run(FlexCFL(groups=3, eta_g=eta_g, by_samples=False), Plain(floor=4), present=[i for i in CLIENTS if i != 3])
    for _ in range(2):
        run.step()
    assert run.members == ((0,), (1,), (2,), (4, 5, 6, 7), (8, 9, 10, 11))
    before = run.models()
    run.step()
    assert all(not np.array_equal(before[c], model) for c, model in run.models().items())
    run.state = run.algorithm.join(run.state, [3])
    run.step()
    assert {(0,), (1,), (2,)} < set(run.members)
    assert any(3 in members and len(members) == 5 for members in run.members)


def test_where_clients_own_models_attraction_is_refused_by_name() -> None:
    check_composition("FlexCFL", FlexCFL(groups=3).needs, Permuted(), PROTECTIONS)
    with pytest.raises(Refused, match="FlexCFL needs models that the server may change, which Permuted"):
        check_composition("FlexCFL", FlexCFL(groups=3, eta_g=0.1).needs, Permuted(), PROTECTIONS)
    view: Any = Run(FlexCFL(groups=3), Permuted()).view
    with pytest.raises(Refused, match="the server cannot measure it"):
        view.norm(Model("init"))
    plain: Any = Run(FlexCFL(groups=3), TwoServer()).view
    assert plain.norm(Model("init")) == pytest.approx(np.linalg.norm(START))


def test_one_group_is_federated_averaging_after_a_first_uniform_round() -> None:
    one, fedavg = Run(FlexCFL(groups=1, by_samples=False), Plain()), Run(FedAvg(by_samples=False), Plain())
    for _ in range(3):
        one.step()
        fedavg.step()
        assert one.models()[CLIENTS] == pytest.approx(fedavg.models()[CLIENTS], abs=1e-6)


def test_the_server_is_told_inner_products_and_sums() -> None:
    run = Run(FlexCFL(groups=3, newcomers="random"), TwoServer(floor=2))
    run.step()
    (gram,) = (e for e in run.view.record.log if e.recipient == "server" and e.what == "gram")
    assert (gram.about, gram.scalars) == (CLIENTS, 78)
    assert not run.view.record.sees_updates


@pytest.mark.parametrize(
    "bad", [{"groups": 0}, {"groups": 2, "eta_g": -1}, {"groups": 2, "measure": "cos"}, {"groups": 2, "newcomers": "no"}]
)
def test_numbers_out_of_range_are_refused(bad: Any) -> None:
    with pytest.raises(ValueError):
        FlexCFL(**bad)
    with pytest.raises(ValueError, match="2 clients do not make 3 groups"):
        FlexCFL(groups=3).init(Start((0, 1), {}, Model("init")))
