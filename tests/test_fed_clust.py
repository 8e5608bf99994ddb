"""FedClust: clusters by last layers alone, which are all that leaves a client, under every protection; and newcomers."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from cloister.fl.algorithms.fed_clust import ALL, FedClust
from cloister.fl.models.papers import Mlp, initial
from cloister.fl.models.vector import head_of, names_and_shapes, to_vector
from cloister.fl.runs.scenario import PROTECTIONS
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Encrypted, Masked, Permuted, Plain
from cloister.protocol.core.errors import Refused
from cloister.protocol.view.answers import Assignment, Model, Weights
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import check_composition
from cloister.protocol.view.work import LocalJob

from .example_files import load
from .quadratic_clients import CLIENTS, EVERY, GROUPS, START, Run, Values, farthest, giving, mean, named, result, target, trained

LAST = 60
"""Coordinates of the last layer."""


def head(job: LocalJob) -> Values:
    """What clients do: of an update the last coordinates, in which the first two groups differ but little."""
    if job.work != "head":
        return result(job)
    found = np.zeros(len(START))
    found[-LAST:] = (target(job.client) - job.start)[-LAST:]
    return found


def between(first: int, second: int) -> float:
    return float(np.linalg.norm((target(first) - target(second))[-LAST:]))


INSIDE = max(between(i, j) for group in GROUPS for i in group for j in group)
ACROSS = min(between(i, j) for a in GROUPS for b in GROUPS if a != b for i in a for j in b)
LAMBDA = (INSIDE + ACROSS) / 2


@pytest.mark.parametrize(("protection", "bound"), EVERY, ids=named)
def test_clusters_are_those_of_the_last_layers_and_begin_at_the_start(protection: Any, bound: float) -> None:
    assert ACROSS > 2 * INSIDE
    run = Run(FedClust(threshold=LAMBDA, by_samples=False), protection, of=head)
    run.step()
    assert run.active == {(0, "head"): list(CLIENTS)}
    assert run.members == GROUPS
    assert all(np.array_equal(model, START) for model in run.models().values())
    run.step()
    assert farthest(run.models(), {c: mean(c, START.astype(np.float64), by_samples=False) for c in GROUPS}) < bound
    assert not run.view.record.faults


@pytest.mark.parametrize(("protection", "bound"), giving(Functionality.GRAM_HISTORY), ids=named)
def test_newcomers_join_the_nearest(protection: Any, bound: float) -> None:
    present = [i for i in CLIENTS if i not in (3, 10)]
    run = Run(FedClust(threshold=LAMBDA, newcomers=True), protection, [(0, 6), (1, 10)], head, present)
    run.step()
    assert run.members == ((0, 1, 2), (4, 5, 7), (8, 9, 11))
    run.state = run.algorithm.join(run.state, [3, 10])
    run.step()
    assert run.members == ((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 11)), "10 was silent"
    run.step()
    assert run.members == GROUPS
    assert run.active[1, "head"] == [3, 6, 10]
    run.step()
    assert sorted(run.active[3, "update"]) == list(CLIENTS)


def test_without_newcomers_the_silent_are_alone_and_nobody_joins() -> None:
    run = Run(FedClust(threshold=LAMBDA), Plain(), [(0, 6)], head, CLIENTS[:11])
    run.step()
    assert run.members == ((0, 1, 2, 3), (4, 5, 7), (6,), (8, 9, 10))
    with pytest.raises(ValueError, match="newcomers=True"):
        run.algorithm.join(run.state, [11])


@pytest.mark.parametrize(("protection", "bound"), EVERY, ids=named)
def test_clients_of_a_cluster_below_the_floor_train_alone(protection: Any, bound: float) -> None:
    """A group of four is averaged; of two each is by itself, from the start on, and the server hears nothing of them."""
    present, rounds = [0, 1, 4, 5, 6, 7], 3
    run = Run(FedClust(threshold=LAMBDA, by_samples=False), replace(protection, floor=3), of=head, present=present)
    run.step()
    assert run.members == ((0, 1), (4, 5, 6, 7))
    group, alone = START.astype(np.float64), {i: START.astype(np.float64) for i in (0, 1)}
    for t in range(1, rounds + 1):
        logged = len(run.view.record.log)
        run.step()
        group = mean(GROUPS[1], group, by_samples=False)
        alone = {i: trained(i, model) for i, model in alone.items()}
        assert farthest(run.models(), {GROUPS[1]: group, (0,): alone[0], (1,): alone[1]}) < bound * t
        told = {i for entry in run.view.record.log[logged:] for i in entry.about if entry.recipient == "server"}
        assert t == 1 or told <= {*GROUPS[1]}


@pytest.mark.parametrize("sampling", ["cohorts", "random"])
def test_of_a_cluster_that_is_large_enough_as_many_are_invited_as_its_sum_takes(sampling: Any) -> None:
    """Half of four are two, of whom no sum is told where the floor is 3: then three are asked, and the model moves."""
    run = Run(FedClust(threshold=LAMBDA, participation=0.5, sampling=sampling, by_samples=False), Plain(floor=3), of=head)
    for _ in range(4):
        run.step()
    assert run.members == GROUPS
    assert all(float(np.abs(model - START).max()) > 0.1 for model in run.models().values())
    assert all(len(run.active[t, "update"]) >= 9 for t in (2, 3))


def test_who_is_alone_works_no_more_often_than_others() -> None:
    run = Run(FedClust(threshold=LAMBDA, participation=0.25, by_samples=False), Plain(floor=2), of=head, present=[0, 4, 5, 6, 7])
    for _ in range(13):
        run.step()
    worked = {i: sum(i in of for (t, kind), of in run.active.items() if kind == "update") for i in (0, 4, 5, 6, 7)}
    assert 3 <= worked[0] <= 5, "twelve rounds, of which it takes part in a quarter; in one it is found to be alone"


def test_a_threshold_says_how_many() -> None:
    for threshold, count in ((0.0, 12), (1e6, 1)):
        run = Run(FedClust(threshold=threshold), Plain(), of=head)
        run.step()
        assert len(run.members) == count
    assert run.state.measured[ALL].communities == (CLIENTS,)


def test_where_updates_are_hidden_the_record_says_what_of_heads_was_told() -> None:
    run = Run(FedClust(threshold=LAMBDA), Masked(floor=2), of=head)
    run.step()
    words = " ".join(e.words for e in run.view.record.log if e.recipient == "server")
    assert "which clients took part (head)" in words
    assert {entry.kind for entry in run.view.record.sketched} == {"head"}
    assert not run.view.record.opened


@pytest.mark.parametrize("protection", [Plain(floor=2), Masked(floor=2, keys="run"), Permuted(floor=2)], ids=named)
def test_a_mean_of_heads_is_a_sum_like_others(protection: Any) -> None:
    """The kind of work is one of the view's, and not this algorithm's."""
    run = Run(FedClust(threshold=LAMBDA), protection, of=head)
    updates = run.view.train(0, {"a": Assignment(Model("init"), CLIENTS, CLIENTS)}, "head")["a"]
    total = run.view.sums(updates, {"a": Weights(dict.fromkeys(CLIENTS, 1.0))})["a"]
    moved = run.view.harness.observe(run.view.advance(Model("init"), total))
    expected = START + np.mean([head(LocalJob(i, 0, "head", START)) for i in CLIENTS], axis=0)
    assert moved == pytest.approx(expected, abs=2e-3)
    assert [entry.kind for entry in run.view.record.opened] == ["head"]


def test_what_it_needs() -> None:
    check_composition("FedClust", FedClust(threshold=1.0).needs, Encrypted(), PROTECTIONS)
    with pytest.raises(Refused, match=r"gram\(history\)"):
        check_composition("FedClust", FedClust(threshold=1.0, newcomers=True).needs, Encrypted(), PROTECTIONS)


@pytest.mark.parametrize("bad", [{"threshold": -1.0}, {"threshold": float("nan")}, {"linkage": "ward"}])
def test_numbers_out_of_range_are_refused(bad: Any) -> None:
    with pytest.raises(ValueError):
        FedClust(**{"threshold": 1.0, **bad})


# --- the client's side ------------------------------------------------------------------------------------------------------


def test_the_head_is_the_last_layers_weight_and_bias() -> None:
    module = initial(Mlp(hidden=(5,)), (1, 4, 4), 3, 0)
    vector = to_vector(module)
    found = head_of(module, vector)
    shapes = list(names_and_shapes(module).values())
    assert shapes[-2:] == [(3, 5), (3,)]
    assert np.array_equal(found[-18:], vector[-18:])
    assert not found[:-18].any()
    bare = torch.nn.Linear(3, 2)
    assert np.array_equal(head_of(bare, to_vector(bare)), to_vector(bare)), "of one layer it is all"


@pytest.mark.trains
def test_a_simulated_client_shows_the_head_of_the_update_that_it_trains() -> None:
    simulation = Simulation(load("baselines_gram").fed_clust, None)
    start = to_vector(simulation.module)
    for work in (3, 12):
        ((_, shown),) = simulation._train([LocalJob(work, 0, "head", start)], {})
        ((_, whole),) = simulation._train([LocalJob(work, 0, "update", start)], {})
        assert np.array_equal(shown.vector, head_of(simulation.module, whole.vector))
        assert shown.vector.any()
        assert not np.array_equal(shown.vector, whole.vector)
