"""Starts of the server's choice beside the public model: a run agrees on them beforehand, or clients refuse the task.

Clients compare the public model alone. So where a client starts from another model that the server names, and its update is what
it ends with less the public one, a server that gives all others a start at which nothing is learned knows what they send.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from torch import nn

from cloister.crypto.entropy import SimulatedEntropy
from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.fedsac import FedSaC
from cloister.fl.algorithms.fesem import FeSEM
from cloister.fl.algorithms.fpfc import FPFC
from cloister.fl.algorithms.pfed_graph import PFedGraph
from cloister.fl.data.population import Examples
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp, initial
from cloister.fl.models.vector import load_vector, to_vector
from cloister.protocol import Masked, Permuted, Plain
from cloister.protocol.core.errors import Refused
from cloister.protocol.core.link import Frame
from cloister.protocol.core.session import SERVER
from cloister.protocol.masked.known import charter_of
from cloister.protocol.messages import decode
from cloister.protocol.view.answers import Assignment, Model, Sum
from cloister.protocol.view.protection import Setup
from cloister.protocol.wire.codec import encode
from cloister.protocol.wire.messages import Task
from cloister.protocol.work.tasks import UNAGREED
from cloister.threat_models.inference.crafted_models import isolated, layers_of, relative_error

from . import quadratic_clients
from .quadratic_clients import EVERY, named
from .test_crafted_models import CLIENTS, TARGET, Computers, published

OTHERS = tuple(i for i in CLIENTS if i != TARGET)
VICTIMS = (2, 7)
AGREED = "starts_apart"
ALGORITHMS = [FedAvg(by_samples=False), CFL(thresholds=ScaleFree(eps1=0.9, eps2=0.2))]


@pytest.fixture(scope="module")
def digits() -> Examples:
    train: Examples = Digits()(None).train
    return train


@dataclass(frozen=True)
class Altered:
    """A server whose tasks to these clients, to train, are different in these fields. start: bytes behind the public model."""

    victims: Sequence[int]
    fields: dict[str, Any]
    start: bytes = b""

    def __call__(self, frame: Frame) -> Iterable[Frame]:
        if frame.kind != "Task" or frame.receiver not in self.victims:
            return [frame]
        envelope = decode(frame.data, SERVER, 1 << 22)
        task: Any = envelope.message
        if not isinstance(task, Task) or task.work not in ("update", "gradient"):
            return [frame]
        altered = replace(task, **self.fields, vector=task.vector + self.start)
        return [replace(frame, data=encode(replace(envelope, message=altered)))]


def dead(module: nn.Module) -> np.ndarray:
    """Parameters near the module's own at which nothing but the last bias has a gradient: float32 (d,)."""
    was = to_vector(module)
    for layer in layers_of(module)[:-1]:
        layer.weight.data.zero_()
        layer.bias.data.fill_(-1.0)
    found = to_vector(module)
    load_vector(module, was)
    return found


def attacked(digits: Examples, agreed: bool) -> tuple[Any, float, Any]:
    """The answer under masked sums, how far the target's gradient is from what the server reads out of it, and the view."""
    module = initial(Mlp((16,)), (1, 8, 8), 10, 0)
    start, other = to_vector(module), dead(module)
    computers = Computers(module, digits)
    tap = Altered(OTHERS, {"own": "apart"}, other.astype("<f4").tobytes())
    answer, mean, view = published(Masked(floor=2), computers, start, tap, agreed)
    if mean is None:
        return answer, np.inf, view
    total = mean.astype(np.float64) * len(CLIENTS) - len(OTHERS) * (other - start).astype(np.float64)
    guess = isolated(module, total.astype(np.float32))
    return answer, relative_error(guess, computers.gradient(TARGET, start)), view


@pytest.mark.trains
def test_a_start_for_all_but_one_opens_nothing(digits: Examples) -> None:
    """The others refuse it, and of one client there is no sum."""
    answer, _, view = attacked(digits, agreed=False)
    assert not isinstance(answer, Sum)
    refusals = [fault for fault in view.record.faults if fault.reason == UNAGREED]
    assert len(refusals) == len(OTHERS)
    assert {fault.blame for fault in refusals} == {SERVER}


@pytest.mark.trains
def test_where_a_run_has_agreed_on_starts_apart_a_server_that_lies_isolates_a_client(digits: Examples) -> None:
    """What SECURITY.md does not promise: all is in order, and what the others send is known, but for the last bias."""
    answer, error, view = attacked(digits, agreed=True)
    assert isinstance(answer, Sum)
    assert not view.record.faults
    assert error < 1e-3


WAYS: dict[str, dict[str, Any]] = {
    "a start of another name": {"own": "apart"},
    "the public model as its own": {"own": "init"},
    "a model to be pulled to": {"models": ("init", "apart")},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: type(a).__name__)
@pytest.mark.parametrize(("protection", "_"), EVERY, ids=named)
def test_clients_refuse_what_the_run_has_not_agreed_on(protection: Any, _: float, algorithm: Any, way: str) -> None:
    """Nobody works from it; the others, under masked sums too, go on."""
    run = quadratic_clients.Run(algorithm, protection, tap=Altered(VICTIMS, WAYS[way]))
    run.step()
    others = [i for i in quadratic_clients.CLIENTS if i not in VICTIMS]
    assert {*run.active[0, "update"]} == {*others}
    refusals = [fault.blame for fault in run.view.record.faults if fault.reason == UNAGREED]
    assert len(refusals) >= len(VICTIMS)
    assert {*refusals} == {SERVER}
    (sum_, *_) = run.view.record.opened
    assert {*sum_.row} == {*others}


def test_no_view_asks_for_what_the_run_has_not_agreed_on() -> None:
    run = quadratic_clients.Run(FedAvg(), Plain())
    init, everyone = Model("init"), quadratic_clients.CLIENTS
    for fields in ({"own": {0: init}}, {"toward": {0: init}}):
        with pytest.raises(Refused, match=r"Setup\(starts_apart=True\)|own"):
            run.view.train(0, {"all": Assignment(init, everyone, everyone, **fields)})


def test_it_is_in_the_charter() -> None:
    def digest(agreed: bool) -> bytes:
        start = np.zeros(4, np.float32)
        setup: Setup = Setup(bytes(16), start, (0, 1), lambda _: iter(()), SimulatedEntropy(0), starts_apart=agreed)
        return charter_of(Masked(), setup, {0: bytes(32), 1: b"1" * 32}).digest

    assert digest(True) != digest(False)


def test_algorithms_say_whether_clients_start_apart() -> None:
    assert all(getattr(algorithm, AGREED) for algorithm in (FeSEM, FPFC, PFedGraph, FedSaC))
    assert not any(getattr(algorithm, AGREED, False) for algorithm in (FedAvg, CFL))


@pytest.mark.parametrize("protection", [Masked(floor=2), Permuted(floor=2)], ids=named)
def test_where_it_has_agreed_they_do(protection: Any) -> None:
    run = quadratic_clients.Run(FeSEM(models=3), protection)
    for _ in range(2):
        run.step()
    assert {*run.active[1, "update"]} == {*quadratic_clients.CLIENTS}
    assert not run.view.record.faults
