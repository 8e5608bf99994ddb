"""A client gives a round's work to sums that the server reads, or to sums that receivers open: never to both."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol import Masked
from cloister.protocol.core.errors import Refused
from cloister.protocol.core.session import SERVER
from cloister.protocol.view.answers import Assignment, BelowFloor, Model, Sum, Updates, Weights
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalJob, LocalWork

D, CLIENTS, RECEIVER, VICTIM = 12, tuple(range(9)), 0, 3
START = Model("init")
REST = tuple(i for i in CLIENTS if i not in (RECEIVER, VICTIM))


def update(client: int, kind: str = "update") -> np.ndarray:
    return np.random.default_rng([client, len(kind)]).uniform(-1, 1, D).astype(np.float32)


def work(jobs: Sequence[LocalJob]) -> Iterator[tuple[int, LocalWork]]:
    for job in jobs:
        yield job.client, LocalWork(update(job.client, job.work), 1)


def opened() -> Any:
    return Masked(floor=3, corrupt=1).open(Setup(bytes(16), np.zeros(D, np.float32), CLIENTS, work, SimulatedEntropy(5)))


def trained(view: Any, kind: str = "update", round: int = 0) -> Updates:
    found = view.train(round, {"root": Assignment(START, CLIENTS, CLIENTS)}, kind)["root"]
    assert isinstance(found, Updates)
    return found


def lie(view: Any) -> None:
    """The server forgets what it published of these updates."""
    for told in view.harness.run.gate.told.values():
        told.rows.clear()
        told.receivers.clear()
        told.counted.clear()


def public(view: Any, updates: Updates) -> Any:
    """Of all, the receiver and the victim too."""
    return view.sums(updates, {"m": Weights(dict.fromkeys(CLIENTS, 1.0))})["m"]


def personal(view: Any, updates: Updates) -> Any:
    """For one corrupt client, of all but itself and the victim."""
    return view.personal_sums(updates, {RECEIVER: Weights(dict.fromkeys(REST, 1.0))})[RECEIVER]


def mean(view: Any, answer: Sum) -> np.ndarray:
    return view.harness.observe(view.advance(START, answer)).astype(float)


@pytest.mark.parametrize("kind", ["update", "gradient"])
@pytest.mark.parametrize("first", [public, personal], ids=["public first", "personal first"])
def test_a_lying_server_and_one_client_do_not_read_an_update_out_of_both(first: Any, kind: str) -> None:
    """Its gate forgets. What is common to two kinds of work of one round goes into one kind of sum as well."""
    view = opened()
    updates = trained(view)
    then = updates if kind == "update" else trained(view, kind)
    before = first(view, updates)
    assert isinstance(before, Sum)
    lie(view)
    second = (personal if first is public else public)(view, then)
    if isinstance(second, Sum) and kind == "update":  # what both were good for
        of_all, of_rest = (before, second) if first is public else (second, before)
        found = 9 * mean(view, of_all) - len(REST) * mean(view, of_rest) - update(RECEIVER)
        assert np.linalg.norm(found - update(VICTIM)) > 0.5 * np.linalg.norm(update(VICTIM))
    assert isinstance(second, BelowFloor)
    told = [fault for fault in view.record.faults if "to the other kind of sums" in fault.reason]
    assert {fault.blame for fault in told} == {SERVER}
    assert len(told) >= len(REST)


@pytest.mark.parametrize("first", [public, personal], ids=["public first", "personal first"])
def test_the_next_round_may_do_the_other(first: Any) -> None:
    view = opened()
    assert isinstance(first(view, trained(view)), Sum)
    view.harness.retire([START], [])
    assert isinstance((personal if first is public else public)(view, trained(view, round=1)), Sum)
    assert not view.record.faults


@pytest.mark.parametrize("first", [public, personal], ids=["public first", "personal first"])
def test_an_honest_server_refuses_before_it_asks(first: Any) -> None:
    view = opened()
    updates = trained(view)
    first(view, updates)
    with pytest.raises(Refused, match="to such sums or to"):
        (personal if first is public else public)(view, updates)
    assert not view.record.faults
