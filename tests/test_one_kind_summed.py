"""Of one round's work a client gives one kind to sums: an update and a gradient of one model have much of it in common."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol import Encrypted, Masked, TwoServer
from cloister.protocol.core.errors import Refused
from cloister.protocol.core.session import SERVER
from cloister.protocol.parts.gate import Gate, Rules
from cloister.protocol.view.answers import Assignment, BelowFloor, Model, Sum, Updates, Weights
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalJob, LocalWork

from . import sides

D, CLIENTS = 12, tuple(range(9))
START = Model("init")
PROTECTIONS = [Masked(floor=3, corrupt=1), TwoServer(floor=3), Encrypted(floor=3)]


def work(jobs: Sequence[LocalJob]) -> Iterator[tuple[int, LocalWork]]:
    """One local step: the update is minus a tenth of the gradient."""
    for job in jobs:
        gradient = np.random.default_rng(job.client).uniform(-1, 1, D).astype(np.float32)
        yield job.client, LocalWork(gradient if job.work == "gradient" else gradient * np.float32(-0.1), 1)


def opened(protection: Any) -> Any:
    return protection.open(Setup(bytes(16), np.zeros(D, np.float32), CLIENTS, work, SimulatedEntropy(5)))


def trained(view: Any, kind: Any, clients: tuple[int, ...] = CLIENTS, round: int = 0) -> Updates:
    found = view.train(round, {"root": Assignment(START, clients, clients)}, kind)["root"]
    assert isinstance(found, Updates)
    return found


def summed(view: Any, updates: Updates) -> Any:
    return view.sums(updates, {"m": Weights(dict.fromkeys(updates.clients, 1.0))})["m"]


def forget(view: Any) -> None:
    """The server that lies."""
    for told in view.harness.run.gate.told.values():
        told.rows.clear()
        told.counted.clear()


@pytest.mark.long
@pytest.mark.parametrize(
    ("protection", "kinds"),
    [(p, ("update", "gradient")) for p in PROTECTIONS]
    + [(PROTECTIONS[0], k) for k in (("gradient", "head"), ("head", "update"))],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else type(value).__name__,
)
def test_a_lying_server_does_not_sum_two_kinds_over_different_clients(protection: Any, kinds: Any) -> None:
    """All but one in the second: what is common to both kinds of that client's would be the difference."""
    view = opened(protection)
    first = trained(view, kinds[0])
    second = trained(view, kinds[1], CLIENTS[1:])
    assert isinstance(summed(view, first), Sum)
    forget(view)
    assert isinstance(summed(view, second), BelowFloor)
    told = [fault for fault in view.record.faults if "sum of other work" in fault.reason]
    assert {fault.blame for fault in told} <= {SERVER, *CLIENTS}
    assert told
    view = opened(protection)
    assert isinstance(summed(view, trained(view, kinds[1], CLIENTS[1:])), Sum)  # by itself it is fine


@pytest.mark.long
@pytest.mark.parametrize("protection", PROTECTIONS, ids=lambda p: type(p).__name__)
def test_an_honest_server_refuses_first_and_the_next_round_may_do_the_other(protection: Any) -> None:
    view = opened(protection)
    first, second = trained(view, "update"), trained(view, "gradient", CLIENTS[1:])
    assert isinstance(summed(view, first), Sum)
    with pytest.raises(Refused, match="one kind of a round's work"):
        summed(view, second)
    view.harness.retire([START], [])
    assert isinstance(summed(view, trained(view, "gradient", round=1)), Sum)
    assert not view.record.faults


def test_what_was_given_outlives_the_process_of_a_client() -> None:
    """A client that begins anew in the middle of a round knows by its transcript what it gave."""
    view = opened(Masked(floor=3, corrupt=1))
    assert isinstance(summed(view, trained(view, "update")), Sum)
    second = trained(view, "gradient", CLIENTS[1:])
    for member in sides.maskers(view).values():
        member._inputs = replace(member._inputs, gave=(-1, b"", False))  # in a new process' memory there is nothing
    forget(view)
    assert isinstance(summed(view, second), BelowFloor)
    assert any("sum of other work" in fault.reason for fault in view.record.faults)


def test_a_gate_keeps_kinds_of_the_same_clients_apart() -> None:
    gate, row = Gate(Rules(3), one_kind=True), dict.fromkeys(range(4), 1.0)
    gate.begin("a@0/update")
    gate.begin("a@0/gradient")
    gate.begin("b@0/gradient")
    assert gate.admit("a@0/update", {"m": row}) == ["m"]
    assert gate.admit("b@0/gradient", {"m": dict.fromkeys(range(4, 8), 1.0)}) == ["m"]  # others'
    with pytest.raises(Refused, match="one kind of a round's work"):
        gate.admit("a@0/gradient", {"m": row})
    free = Gate(Rules(3), told={"a": gate.told["a@0/update"], "b": type(gate.told["a@0/update"])()})
    assert free.admit("b", {"m": row}) == ["m"]  # where single updates are seen, nothing is kept apart
