"""FeSEM: (E) and (M) against the paper's equations in float64, under every protection whose clients start where they are sent."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cloister.fl.algorithms.algorithm import Start
from cloister.fl.algorithms.fesem import ALL, FeSEM
from cloister.fl.clients.training import Training
from cloister.fl.runs.scenario import PROTECTIONS
from cloister.protocol import Masked, Permuted, Plain, TwoServer
from cloister.protocol.core.errors import Refused
from cloister.protocol.core.link import Frame
from cloister.protocol.messages import decode
from cloister.protocol.view.answers import Assignment, Model, Weights
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import check_composition
from cloister.protocol.wire.codec import encode

from .quadratic_clients import CLIENTS, GROUPS, START, Run, Values, farthest, giving, mean, named, trained

SERVED = giving(Functionality.PERSONAL_SUMS)
FIRST = ((0, 1, 2, 3, 4, 5), (6, 7), (8, 9, 10, 11))
"""Memberships that are not the groups'."""


def begun(monkeypatch: pytest.MonkeyPatch, algorithm: FeSEM, protection: Any, first: Any = FIRST) -> Run:
    """A run after its first round, with these memberships, whatever k-means would say."""
    labels = np.array([next(k for k, c in enumerate(first) if i in c) for i in CLIENTS])
    with monkeypatch.context() as patch:
        patch.setattr("cloister.fl.algorithms.fesem.kmeans", lambda points, count, rng, steps: labels)
        run = Run(algorithm, protection)
        run.step()
    return run


def paper(before: dict[tuple[int, ...], Values], printed: bool) -> dict[tuple[int, ...], Values]:
    """A round: local training from the centres, (E), (M). before: centres by members."""
    models = {i: trained(i, centre) for members, centre in before.items() for i in members}
    about = list(before.values()) if printed else [np.mean([models[i] for i in members], axis=0) for members in before]
    nearest = {i: int(np.argmin([np.sum((w - c) ** 2) for c in about])) for i, w in models.items()}
    members = [tuple(i for i in CLIENTS if nearest[i] == k) for k in range(len(about))]
    return {c: np.mean([models[i] for i in c], axis=0) for c in members if c}


def test_a_run_of_few_at_a_time_begins_with_as_many_as_make_its_centres() -> None:
    run = Run(FeSEM(models=3, participation=0.1), Plain())
    run.step()
    assert len(run.state.centres) == 3
    assert len(run.active[0, "update"]) >= 3
    run.step()
    assert len(run.active[1, "update"]) == 2


@pytest.mark.parametrize("centres", ["this round's", "printed"])
@pytest.mark.parametrize(("protection", "bound"), SERVED, ids=named)
def test_every_round_is_the_papers(protection: Any, bound: float, centres: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm = FeSEM(models=3, centres=centres)
    if not algorithm.needs <= protection.gives:
        with pytest.raises(Refused, match=r"FeSEM needs gram\(history\)"):
            check_composition("FeSEM", algorithm.needs, protection, PROTECTIONS)
        return
    run = begun(monkeypatch, algorithm, protection)
    expected = {c: mean(c, START.astype(np.float64), by_samples=False) for c in FIRST}
    assert farthest(run.models(), expected) < bound
    seen = {run.members}
    for t in range(1, 4):
        run.step()
        expected = paper(expected, centres == "printed")
        assert farthest(run.models(), expected) < (t + 1) * bound
        seen.add(run.members)
    assert len(seen) > 1, "somebody changed the centre"
    assert not run.view.record.faults


@pytest.mark.parametrize(("protection", "bound"), SERVED, ids=named)
def test_kmeans_of_the_first_models_finds_the_groups(protection: Any, bound: float) -> None:
    run = Run(FeSEM(models=3), protection)
    run.step()
    assert run.members == GROUPS
    assert run.state.measured[ALL].communities == GROUPS
    assert farthest(run.models(), {c: mean(c, START.astype(np.float64), by_samples=False) for c in GROUPS}) < bound


def test_with_one_centre_it_is_federated_averaging() -> None:
    run, model = Run(FeSEM(models=1), Plain()), START.astype(np.float64)
    for _ in range(3):
        run.step()
        model = mean(CLIENTS, model, by_samples=False)
        assert farthest(run.models(), {CLIENTS: model}) < 1e-5


def test_absent_clients_stay_and_newcomers_join_the_nearest() -> None:
    run = Run(FeSEM(models=3), Plain(), silent=[(1, 5), (1, 6)], present=CLIENTS[:11])
    run.step()
    assert run.members == ((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10))
    run.state = run.algorithm.join(run.state, [11])
    run.step()
    assert run.members == GROUPS
    centre = next(c for c in run.state.clusters.values() if 4 in c.members)
    first = mean((4, 5, 6, 7), START.astype(np.float64), by_samples=False)
    assert run.view.harness.observe(centre.model) == pytest.approx(mean((4, 7), first, by_samples=False), abs=1e-6)


@pytest.mark.parametrize("centres", ["this round's", "printed"])
def test_a_centre_that_loses_all_its_members_stays(centres: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = ((0, 1, 2), (4, 5, 6, 7), (8, 9, 10), (3, 11))
    run = begun(monkeypatch, FeSEM(models=4, centres=centres), Plain(), mixed)
    (lost,) = (c for c in run.state.centres.values() if c.members == (3, 11))
    for _ in range(2):
        run.step()
        assert run.members == GROUPS
        (empty,) = (c for c in run.state.centres.values() if not c.members)
        assert empty.model == lost.model


def test_a_mean_below_the_floor_leaves_its_centre(monkeypatch: pytest.MonkeyPatch) -> None:
    run = begun(monkeypatch, FeSEM(models=3), Permuted(floor=3))
    small = next(c for c in run.state.centres.values() if c.members == (6, 7))
    assert small.model == Model("init")
    assert len(run.view.record.below_floor) == 1


@pytest.mark.parametrize("protection", [Plain(), Masked(), Permuted()], ids=named)
def test_clients_start_from_the_public_models_that_they_are_sent(protection: Any) -> None:
    """And what they send is the difference from the session's model."""
    run = Run(FeSEM(models=2), protection)
    view, everyone = run.view, CLIENTS
    first = view.train(0, {ALL: Assignment(Model("init"), everyone, everyone)})[ALL]
    mean_of = view.sums(first, {"a": _uniform(everyone)})["a"]
    moved = view.advance(Model("init"), mean_of)
    view.harness.retire([Model("init"), moved], [])
    own = dict.fromkeys(range(6), moved)
    updates = view.train(1, {ALL: Assignment(Model("init"), everyone, everyone, own=own)})[ALL]
    after = view.harness.observe(moved)
    total = view.sums(updates, {"b": _uniform(everyone)})["b"]
    found = view.harness.observe(view.advance(Model("init"), total))
    expected = np.mean([trained(i, after if i < 6 else START) for i in everyone], axis=0)
    assert found == pytest.approx(expected, abs=2e-3)
    assert np.abs(expected - np.mean([trained(i, START) for i in everyone], axis=0)).max() > 0.01
    with pytest.raises(Refused, match="other is no client's own"):
        view.train(2, {ALL: Assignment(Model("init"), everyone, everyone, own={0: Model("other")})})


def _uniform(clients: Any) -> Weights:
    return Weights(dict.fromkeys(clients, 1.0))


@pytest.mark.parametrize("cut", [4, -4], ids=["short", "long"])
def test_a_start_of_another_length_than_a_models_is_declined(cut: int) -> None:
    """Of client 2; the others go on, and its membership stays."""

    def altered(frame: Frame) -> list[Frame]:
        if frame.kind != "Task" or frame.receiver != 2:
            return [frame]
        envelope = decode(frame.data, frame.sender, 1 << 24)
        task: Any = envelope.message
        if not task.own:
            return [frame]
        vector = task.vector[:-cut] if cut > 0 else task.vector + bytes(-cut)
        return [replace(frame, data=encode(replace(envelope, message=replace(task, vector=vector))))]

    run = Run(FeSEM(models=3), Plain(), tap=altered)
    run.step()
    run.step()
    assert 2 not in run.active[1, "update"]
    assert run.members == GROUPS
    assert ["not of 240 coordinates" in fault.reason for fault in run.view.record.faults] == [True]


def test_two_servers_are_refused_by_name() -> None:
    with pytest.raises(Refused, match="FeSEM needs personal sums, which TwoServer"):
        check_composition("FeSEM", FeSEM(models=2).needs, TwoServer(), PROTECTIONS)


def test_the_local_objective_may_pull_to_the_centre() -> None:
    training = Training(epochs=1, batch=1, lr=0.1)
    assert FeSEM(models=2).local(training) == training
    assert FeSEM(models=2, prox=0.1).local(training).prox == 0.1


@pytest.mark.parametrize("bad", [{"models": 0}, {"prox": -1.0}, {"centres": "last"}, {"participation": 0.0}])
def test_numbers_out_of_range_are_refused(bad: Any) -> None:
    with pytest.raises(ValueError):
        FeSEM(**{"models": 2, **bad})
    with pytest.raises(ValueError, match="2 clients do not make 3 clusters"):
        FeSEM(models=3).init(Start((0, 1), {}, Model("init")))
