"""Clients that collude with the server and are told personal sums: as many as `corrupt` says put them together in vain."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol import Masked
from cloister.protocol.core.session import SERVER
from cloister.protocol.masked.receiver_opened import terms
from cloister.protocol.masked.receiver_opened.opening import ReceiverOpened
from cloister.protocol.parts.leverage import largest
from cloister.protocol.view.answers import Assignment, BelowFloor, Model, Sum, Weights
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalJob, LocalWork

from . import sides

D, CLIENTS, VICTIM = 12, tuple(range(9)), 3
START = Model("init")


def update(client: int) -> np.ndarray:
    return np.random.default_rng(client).uniform(-1, 1, D).astype(np.float32)


def work(jobs: Sequence[LocalJob]) -> Iterator[tuple[int, LocalWork]]:
    for job in jobs:
        yield job.client, LocalWork(update(job.client), 1)


def opened(clients: tuple[int, ...] = CLIENTS, **fields: Any) -> Any:
    setup = Setup(bytes(16), np.zeros(D, np.float32), clients, work, SimulatedEntropy(5))
    return Masked(floor=3, dropped=0.0, **fields).open(setup)


def asked(view: Any, rows: dict[int, dict[int, float]]) -> Any:
    clients = tuple(sorted(sides.clients(view).parties))
    updates = view.train(0, {"root": Assignment(START, clients, clients)})["root"]
    return view.personal_sums(updates, {r: Weights(row) for r, row in rows.items()})


def isolating(one: int, other: int) -> dict[int, dict[int, float]]:
    """Rows of two receivers that differ by the victim."""
    rest = [i for i in CLIENTS if i not in (one, other)]
    return {one: dict.fromkeys(rest, 1.0), other: {i: 1.0 for i in rest if i != VICTIM}}


def test_two_corrupt_receivers_do_not_read_an_update_out_of_their_sums() -> None:
    view = opened(corrupt=2)
    answers = asked(view, isolating(0, 1))
    if all(isinstance(answer, Sum) for answer in answers.values()):
        all_, rest = (view.harness.observe(view.advance(START, answers[r])).astype(float) for r in (0, 1))
        assert np.linalg.norm(7 * all_ - 6 * rest - update(VICTIM)) > 0.5
    assert isinstance(answers[0], Sum)
    assert isinstance(answers[1], BelowFloor)
    assert ["could show 2 corrupt receivers" in fault.reason for fault in view.record.faults] == [True]


def test_clients_refuse_what_a_lying_server_offers_two_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    view = opened(corrupt=2)
    monkeypatch.setattr(ReceiverOpened, "_apart", lambda self, openings: openings)
    answers = asked(view, isolating(0, 1))
    assert isinstance(answers[1], BelowFloor)
    told = [fault for fault in view.record.faults if "client 1 and other corrupt ones what fewer than 3" in fault.reason]
    assert {fault.blame for fault in told} == {SERVER}
    assert len(told) == 6  # who is a sender of both


def test_one_corrupt_client_has_one_sum_and_others_are_told_theirs() -> None:
    view = opened(corrupt=1)
    assert all(isinstance(answer, Sum) for answer in asked(view, isolating(0, 1)).values())
    assert not view.record.faults


@pytest.mark.long
def test_equal_rows_tell_nobody_more() -> None:
    view = opened(corrupt=2)
    rows = {r: dict.fromkeys(CLIENTS, 1.0) for r in CLIENTS}
    answers = asked(view, rows)
    assert all(isinstance(answer, Sum) for answer in answers.values())


@pytest.mark.long
@pytest.mark.parametrize("corrupt", [2, 3])
def test_whatever_rows_are_asked_for_no_corrupt_receivers_are_shown_too_much(corrupt: int) -> None:
    clients = tuple(range(16))
    view = opened(clients, corrupt=corrupt)
    rng = np.random.default_rng(corrupt)
    rows = {r: {i: float(w) for i, w in enumerate(rng.choice([0.0, 1.0, 1.0, 1.5], 16)) if w} for r in clients}
    answers = asked(view, rows)
    told = {r: row for r, row in rows.items() if isinstance(answers[r], Sum)}
    assert 2 <= len(told) < 16
    for size in range(1, corrupt + 1):
        for coalition in combinations(told, size):
            kept = [{i: w for i, w in told[r].items() if i not in coalition} for r in coalition]
            assert largest(kept) <= 1 / (3 + corrupt - size) + 1e-6


def test_more_coalitions_than_can_be_looked_at_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms, "MOST_COALITIONS", 3)
    view = opened(corrupt=2)
    answers = asked(view, {r: dict.fromkeys(CLIENTS, 1.0) for r in CLIENTS})
    assert [isinstance(answer, Sum) for answer in answers.values()] == [True] * 4 + [False] * 5
