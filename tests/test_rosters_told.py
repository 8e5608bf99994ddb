"""The log of disclosures has who is asked together: a task names it to everybody who gets it."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from cloister.crypto.entropy import SimulatedEntropy
from cloister.fl.algorithms.algorithm import Algorithm, Start
from cloister.fl.algorithms.flic import FLIC
from cloister.fl.algorithms.fpfc import FPFC
from cloister.protocol import Plain
from cloister.protocol.core.link import Frame
from cloister.protocol.view.answers import Model
from cloister.protocol.view.disclosure import IN_CLUSTER, ROSTER, TAKE_PART
from cloister.protocol.view.protection import Protection, Setup
from cloister.protocol.wire.codec import decode
from cloister.protocol.wire.messages import Task

from .golden_runs import CLIENTS, PROTECTIONS, D, judge, work

GROUPED = FLIC(rounds_before=1, by_samples=False)
Rosters = set[tuple[int, tuple[int, ...]]]


def played(algorithm: Algorithm, protection: Protection, rounds: int = 3) -> tuple[Any, Rosters]:
    """The view, and the rounds and rosters that tasks of its run named to clients."""
    frames: list[Frame] = []

    def tap(frame: Frame) -> Iterable[Frame]:
        frames.append(frame)
        return [frame]

    entropy, apart = SimulatedEntropy(7), getattr(algorithm, "starts_apart", False)
    run = entropy.secret("run", 16)
    view: Any = protection.open(Setup(run, np.zeros(D, np.float32), CLIENTS, work, entropy, tap, judge, starts_apart=apart))
    state: Any = algorithm.init(Start(CLIENTS, {}, Model("init"), 3))
    for t in range(rounds):
        state = algorithm.round(state, view, np.random.default_rng(t))
    kinds = view.harness.run.network.kinds
    tasks = (decode(f.data, f.sender, len(f.data), kinds).message for f in frames if f.kind == Task.__name__ and f.receiver >= 0)
    return view, {(task.round, task.roster) for task in tasks}


@pytest.mark.long
@pytest.mark.parametrize("protection", PROTECTIONS)
def test_what_tasks_name_is_in_the_log(protection: str) -> None:
    """Before: "the clients learned: the mean update of their own cluster", and nothing else."""
    view, named = played(GROUPED, PROTECTIONS[protection])
    told = [entry for entry in view.record.log if entry.what == ROSTER]
    assert {(entry.round, entry.about) for entry in told} == named
    assert len({about for _, about in named}) > 2, "it is grouped"
    assert {(entry.recipient, entry.words, entry.scalars) for entry in told} == {("clients", IN_CLUSTER, 0)}


def test_who_takes_part_is_no_cluster_where_clients_go_on_from_models_of_their_own() -> None:
    view, named = played(FPFC(rounds=3), Plain(), 2)
    told = [entry for entry in view.record.log if entry.what == ROSTER]
    assert {(entry.round, entry.about) for entry in told} == named
    assert {entry.words for entry in told} == {TAKE_PART}
