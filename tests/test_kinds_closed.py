"""Of one round's work one kind is summed, whatever is forgotten, lost or put into slots in the middle of the round."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol import Encrypted, Masked, TwoServer
from cloister.protocol.core.errors import Refused
from cloister.protocol.core.session import SECOND_SERVER
from cloister.protocol.drivers.roles import Party
from cloister.protocol.masked.client_inputs import OTHER_KIND
from cloister.protocol.parts.held import HeldUpdates
from cloister.protocol.two_servers.second_state import Second, closing, restored
from cloister.protocol.two_servers.sharing import HeldShares
from cloister.protocol.view.answers import Assignment, BelowFloor, Sum, Updates, Weights
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalJob, LocalWork

from . import sides
from .test_one_kind_summed import CLIENTS, PROTECTIONS, START, D, summed, trained
from .test_one_kind_summed import work as one_step


def working(jobs: Sequence[LocalJob]) -> Iterator[tuple[int, LocalWork]]:
    """One local step; into slots the update, all in the first."""
    for client, made in one_step(jobs):
        (job,) = (job for job in jobs if job.client == client)
        rows = np.stack([made.vector, np.zeros(D, np.float32)])
        yield client, LocalWork(rows, 1, (1, 0)) if job.work == "slots" else made


def opened(protection: Any) -> Any:
    return protection.open(Setup(bytes(16), np.zeros(D, np.float32), CLIENTS, working, SimulatedEntropy(5)))


def forget(view: Any) -> None:
    """The server that lies."""
    for told in view.harness.run.gate.told.values():
        told.rows.clear()
        told.counted.clear()
        told.receivers.clear()


def into_slots(view: Any, clients: tuple[int, ...] = CLIENTS) -> Sequence[Sum | BelowFloor]:
    found: Sequence[Sum | BelowFloor] = view.slots(0, "root", Assignment(START, clients, clients, (START,)), 1)
    return found


def second_of(view: Any) -> Party:
    party = sides.part(view, HeldShares)._helpers.everybody[SECOND_SERVER]
    assert isinstance(party, Party)
    return party


def other_kind(view: Any) -> None:
    """Nobody has a sum of the gradients of all but one."""
    found = view.train(0, {"root": Assignment(START, CLIENTS[1:], CLIENTS[1:])}, "gradient")
    forget(view)
    if "root" in found:
        assert isinstance(summed(view, found["root"]), BelowFloor)
    assert view.record.faults


# --- the second server ------------------------------------------------------------------------------------------------


def test_a_keep_in_the_middle_of_a_round_closes_it_for_every_kind() -> None:
    view = opened(TwoServer(floor=3))
    assert isinstance(summed(view, trained(view, "update")), Sum)
    view.harness.retire([START], [])
    other_kind(view)
    assert isinstance(summed(view, trained(view, "gradient", round=1)), Sum)


def test_a_second_server_that_crashed_closes_the_round_for_every_kind() -> None:
    view = opened(TwoServer(floor=3))
    assert isinstance(summed(view, trained(view, "update")), Sum)
    party = second_of(view)
    state: Second = party.state
    journal = {f"next round {kind}": after.to_bytes(4, "big") for kind, after in state.opened.items()}
    party.restart(restored(Second(state.run, state.terms, state.policy, state.entropy), journal))
    other_kind(view)


def test_a_snapshot_of_a_round_that_is_not_over_closes_it_for_every_kind() -> None:
    view = opened(TwoServer(floor=3))
    assert isinstance(summed(view, trained(view, "update")), Sum)
    snapshot = view.harness.save()
    view.harness.restore(snapshot, [])
    state: Second = second_of(view).state
    assert state.next_round == closing([1])
    assert {"update", "gradient", "head", "slots"} == set(state.next_round)


def test_nothing_is_closed_where_nothing_was_opened() -> None:
    assert closing([]) == {}


@pytest.mark.parametrize("first", ["slots", "gradient"])
def test_a_second_server_holds_slots_and_sums_against_each_other(first: str) -> None:
    view = opened(TwoServer(floor=3))
    if first == "slots":
        assert isinstance(into_slots(view)[0], Sum)
        other_kind(view)
        return
    assert isinstance(summed(view, trained(view, "gradient", CLIENTS[1:])), Sum)
    forget(view)
    assert all(isinstance(found, BelowFloor) for found in into_slots(view))
    assert any("sum of other work" in fault.reason for fault in view.record.faults)


def test_slots_of_other_clients_are_opened_beside_a_sum() -> None:
    view = opened(TwoServer(floor=3))
    assert isinstance(summed(view, trained(view, "gradient", CLIENTS[:4])), Sum)
    assert isinstance(into_slots(view, CLIENTS[4:])[0], Sum)
    assert not view.record.faults


# --- an honest server -------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("first", ["slots", "gradient"])
@pytest.mark.parametrize("protection", PROTECTIONS, ids=lambda p: type(p).__name__)
def test_a_gate_counts_sums_into_slots(protection: Any, first: str) -> None:
    view = opened(protection)
    if first == "slots":
        assert isinstance(into_slots(view)[0], Sum)
        with pytest.raises(Refused, match="one kind of a round's work"):
            summed(view, trained(view, "gradient", CLIENTS[1:]))
    else:
        assert isinstance(summed(view, trained(view, "gradient", CLIENTS[1:])), Sum)
        with pytest.raises(Refused, match="one kind of a round's work"):
            into_slots(view)
    assert not view.record.faults
    assert isinstance(summed(view, trained(view, "gradient", round=1)), Sum)  # of another round


# --- clients ----------------------------------------------------------------------------------------------------------


def test_a_client_encrypts_work_of_the_round_of_the_sum_alone() -> None:
    view = opened(Encrypted(floor=3))
    assert isinstance(summed(view, trained(view, "update")), Sum)
    second: Updates = trained(view, "gradient", CLIENTS[1:])
    forget(view)
    assert isinstance(summed(view, replace(second, round=1)), BelowFloor)
    assert any("another round" in fault.reason for fault in view.record.faults)


@pytest.mark.long
@pytest.mark.parametrize("later", [False, True], ids=["held", "promised"])
@pytest.mark.parametrize("ask", ["sum", "sketch"])
def test_work_for_slots_is_encrypted_as_nothing_else(ask: str, later: bool) -> None:
    view = opened(Encrypted(floor=3))
    work = {"root": Assignment(START, CLIENTS, CLIENTS, (START,))}
    updates = sides.part(view, HeldUpdates).hear(0, work, "slots", later=later, most=1)["root"]
    if ask == "sum":
        assert isinstance(summed(view, updates), BelowFloor)
    else:
        assert view.gram(updates, origin=True).clients == ()
    assert any("another kind of work" in fault.reason for fault in view.record.faults)


@pytest.mark.parametrize("first", ["receiver", "server"])
def test_what_a_client_joined_outlives_its_process(first: str) -> None:
    """After a sum that a receiver opened it gives nothing to one that the server reads, nor the other way about."""
    view = opened(Masked(floor=3, corrupt=1))
    updates = trained(view, "update")
    row = dict.fromkeys((i for i in CLIENTS if i not in (0, 3)), 1.0)
    if first == "receiver":
        assert isinstance(view.personal_sums(updates, {0: Weights(row)})[0], Sum)
    else:
        assert isinstance(summed(view, updates), Sum)
    for member in sides.maskers(view).values():
        member._inputs = replace(member._inputs, gave=(-1, b"", False))  # in a new process' memory there is nothing
    forget(view)
    if first == "receiver":
        assert isinstance(summed(view, trained(view, "gradient")), BelowFloor)
    else:
        assert isinstance(view.personal_sums(updates, {0: Weights(row)})[0], BelowFloor)
    assert any(OTHER_KIND in fault.reason for fault in view.record.faults)
