"""A client in a process of its own does not go back behind its own journal, whatever whoever plays the run has kept of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloister.protocol import Encrypted, Masked, TwoServer
from cloister.protocol.view.answers import Assignment, Model, Sum, Weights
from cloister.protocol.work.away import Processes

from .test_away import INITIAL, MEMBERS, mine, mine_lasting, opened, update_of

START, VICTIM = Model("init"), 3
REST = tuple(i for i in MEMBERS if i != VICTIM)


def mean(view: Any, round: int, clients: tuple[int, ...]) -> np.ndarray:
    updates = view.train(round, {"root": Assignment(START, clients, clients)})["root"]
    answer = view.sums(updates, {"m": Weights(dict.fromkeys(clients, 1.0))})["m"]
    assert isinstance(answer, Sum)
    found: np.ndarray = view.harness.observe(view.advance(START, answer)).astype(float) - INITIAL
    view.harness.retire([START], [])
    return found


def taken_back(view: Any, snapshot: Any, of_all: np.ndarray) -> None:
    """The round once more, without one client, and what it sent out of the difference."""
    view.harness.restore(snapshot, [])
    found = len(MEMBERS) * of_all - len(REST) * mean(view, 1, REST)
    assert np.abs(found - update_of(VICTIM, 1)).max() > 0.1


@pytest.mark.long
@pytest.mark.parametrize(
    ("protection", "lasting"),
    [(Masked(floor=2), True), (TwoServer(floor=2), True), (Encrypted(floor=2), True), (TwoServer(floor=2), False)],
    ids=["Masked", "TwoServer", "Encrypted", "journals in memory"],
)
def test_an_older_snapshot_is_refused_in_words(protection: Any, lasting: bool, tmp_path: Path) -> None:
    """Else two sums of one round, of all and of all but one, tell what that one sent."""
    processes = Processes(mine_lasting, MEMBERS, tmp_path) if lasting else Processes(mine, MEMBERS)
    try:
        view = opened(protection, processes)
        mean(view, 0, MEMBERS)
        snapshot = view.harness.save()
        view.harness.restore(snapshot, [])  # as it is: nothing was since
        of_all = mean(view, 1, MEMBERS)
        with pytest.raises(ValueError, match="asked to go back to where round 1 begins, and its own journal says that it took"):
            taken_back(view, snapshot, of_all)
        mean(view, 2, MEMBERS)
    finally:
        processes.stop()


def test_a_new_process_without_a_journal_takes_what_was_kept(tmp_path: Path) -> None:
    first, second = Processes(mine_lasting, MEMBERS, tmp_path / "first"), Processes(mine_lasting, MEMBERS, tmp_path / "second")
    try:
        view = opened(TwoServer(floor=2), first)
        mean(view, 0, MEMBERS)
        snapshot = view.harness.save()
        again = opened(TwoServer(floor=2), second)
        again.harness.restore(snapshot, [])
        second.started[VICTIM].kill()
        second.started[VICTIM].start()  # from its own journal, which has what it was brought to
        with pytest.raises(ValueError, match="that it took part up to round 0"):
            second.started[VICTIM].restore(type(snapshot.clients[VICTIM])())
        mean(again, 1, MEMBERS)
    finally:
        first.stop()
        second.stop()
