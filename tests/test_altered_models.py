"""A server, or whoever sits on its links, that sends clients different models: each trains from what came to it alone.

Under masked sums such a client refuses what is proposed for another model, and is out; under two servers the second one, which is
told what each started from, leaves it out. The sums of the others are right (Pasquini et al. 2022, model inconsistency).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol import Masked, Plain, TwoServer
from cloister.protocol.core.link import Frame
from cloister.protocol.core.session import SERVER
from cloister.protocol.messages import decode
from cloister.protocol.view.answers import Assignment, Model, Sum, Weights
from cloister.protocol.view.protection import Protection, Setup
from cloister.protocol.view.work import LocalJob, LocalWork
from cloister.protocol.wire.codec import encode
from cloister.protocol.wire.messages import Task

CLIENTS, D = tuple(range(9)), 12
INITIAL = np.full(D, 0.5, np.float32)
FORGED = np.full(D, 2.0, np.float32)
WEIGHTS = {"0": Weights(dict.fromkeys(CLIENTS, 1.0))}
START = Assignment(Model("init"), CLIENTS, CLIENTS)


class Lying:
    """Puts another model into the tasks of these clients that ask them to train. alike: the same into all."""

    def __init__(self, victims: Sequence[int], alike: bool = False) -> None:
        self.victims = victims
        self.alike = alike

    def __call__(self, frame: Frame) -> Iterable[Frame]:
        if frame.kind != "Task" or frame.receiver not in self.victims:
            return [frame]
        envelope = decode(frame.data, SERVER, 1 << 20)
        task: Any = envelope.message
        if not isinstance(task, Task) or len(task.vector) != 4 * D:
            return [frame]
        forged = FORGED if self.alike else FORGED + frame.receiver
        altered = replace(task, vector=forged.astype("<f4").tobytes())
        return [replace(frame, data=encode(replace(envelope, message=altered)))]


class Computers:
    """Clients whose update says from where they trained: minus a tenth of it, plus their own mark."""

    def __init__(self) -> None:
        self.starts: dict[int, np.ndarray] = {}

    def __call__(self, jobs: Sequence[LocalJob]) -> Iterator[tuple[int, LocalWork]]:
        for job in jobs:
            self.starts[job.client] = job.start
            mark = np.zeros(D, np.float32)
            mark[job.client] = 1
            yield job.client, LocalWork(mark - job.start / 10, 1)


def opened(protection: Protection, victims: Sequence[int], alike: bool = False) -> tuple[Any, Computers]:
    computers = Computers()
    entropy = SimulatedEntropy(3)
    setup = Setup(entropy.secret("run", 16), INITIAL, CLIENTS, computers, entropy, Lying(victims, alike))
    return protection.open(setup), computers


@pytest.mark.parametrize("protection", [Plain(), Masked(floor=2), TwoServer(floor=2)], ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("victims", [(0,), (3,), (5,), (0, 3)], ids=str)
@pytest.mark.parametrize("streamed", [True, False])
def test_an_altered_task_reaches_one_client_only(protection: Protection, victims: tuple[int, ...], streamed: bool) -> None:
    view, computers = opened(protection, victims)
    if streamed:
        view.train_and_sum(0, {"0": START}, WEIGHTS)
    else:
        view.train(0, {"0": START})
    hidden = streamed and isinstance(protection, Masked)  # there a client works when its input is asked for
    for client in CLIENTS:
        expected = FORGED + client if client in victims else INITIAL
        if client in victims and hidden:
            assert client not in computers.starts
        else:
            assert np.array_equal(computers.starts[client], expected)


@pytest.mark.parametrize("victims", [(0,), (3,), (0, 3)], ids=str)
@pytest.mark.parametrize("kind", ["streamed", "kept", "samples", "personal"])
def test_under_masked_that_client_is_out_and_the_server_to_blame(victims: tuple[int, ...], kind: str) -> None:
    view, _ = opened(Masked(floor=2), victims)
    honest = tuple(i for i in CLIENTS if i not in victims)
    if kind == "streamed":
        answer = view.train_and_sum(0, {"0": START}, WEIGHTS)["0"]
    else:
        updates = view.train(0, {"0": START})["0"]
        if kind == "personal":
            answer = view.personal_sums(updates, {1: Weights(dict.fromkeys(CLIENTS, 1.0))})[1]
        else:
            answer = view.sums(updates, {"0": replace(WEIGHTS["0"], times_samples=kind == "samples")})["0"]
    assert isinstance(answer, Sum)
    assert answer.clients == honest
    moved = view.harness.observe(view.advance(Model("init"), answer))
    expected = INITIAL - INITIAL / 10
    expected[list(honest)] += 1 / len(honest)
    assert np.abs(moved - expected).max() <= answer.error + 1e-6
    refusals = [fault for fault in view.record.faults if "another model than the one received" in fault.reason]
    assert len(refusals) >= len(victims)
    assert {fault.blame for fault in refusals} == {SERVER}


@pytest.mark.parametrize("victims", [(0,), (3,), (0, 3), (0, 3, 4, 8)], ids=str)
@pytest.mark.parametrize("kind", ["streamed", "kept", "samples", "gram"])
def test_under_two_servers_that_client_is_out_and_it_or_the_server_to_blame(victims: tuple[int, ...], kind: str) -> None:
    view, _ = opened(TwoServer(floor=2), victims)
    honest = tuple(i for i in CLIENTS if i not in victims)
    if kind == "streamed":
        answer = view.train_and_sum(0, {"0": START}, WEIGHTS)["0"]
    else:
        updates = view.train(0, {"0": START})["0"]
        assert updates.clients == honest
        if kind == "gram":
            found = view.gram(updates, origin=True)
            assert found.clients == honest
            clear = np.stack([np.eye(D)[i] - INITIAL / 10 for i in honest])
            assert np.allclose(found.matrix, clear @ clear.T, atol=1e-4)
        answer = view.sums(updates, {"0": replace(WEIGHTS["0"], times_samples=kind == "samples")})["0"]
    assert isinstance(answer, Sum)
    assert answer.clients == honest
    moved = view.harness.observe(view.advance(Model("init"), answer))
    expected = INITIAL - INITIAL / 10
    expected[list(honest)] += 1 / len(honest)
    assert np.abs(moved - expected).max() <= answer.error + 1e-6
    assert [fault.blame for fault in view.record.faults] == list(victims)
    assert all("it or the first server lied" in fault.reason for fault in view.record.faults)
    after = view.train_and_sum(1, {"0": START}, WEIGHTS)["0"]
    assert after.clients == honest, "the run goes on"


@pytest.mark.parametrize("alike", [True, False])
def test_under_two_servers_a_model_for_one_client_alone_is_in_no_sum(alike: bool) -> None:
    """With one other model for all others the answer is theirs; with one for each there is none."""
    view, computers = opened(TwoServer(floor=2), CLIENTS[1:], alike)
    answer = view.train_and_sum(0, {"0": START}, WEIGHTS)["0"]
    assert np.array_equal(computers.starts[0], INITIAL)
    if not alike:
        assert not isinstance(answer, Sum)
        assert {fault.blame for fault in view.record.faults} == set(CLIENTS)
        return
    assert isinstance(answer, Sum)
    assert answer.clients == CLIENTS[1:]
    moved = view.harness.observe(view.advance(Model("init"), answer)) - INITIAL
    expected = -FORGED / 10
    expected[list(CLIENTS[1:])] += 1 / 8
    assert np.abs(moved - expected).max() <= answer.error + 1e-6


def test_a_forged_model_for_all_but_one_opens_nothing() -> None:
    """The sum of one client whose update is not known to be zero: below the floor."""
    view, _ = opened(Masked(floor=2), CLIENTS[1:])
    answer = view.train_and_sum(0, {"0": START}, WEIGHTS)["0"]
    assert not isinstance(answer, Sum)
