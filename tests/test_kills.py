"""A client's process is killed at one message of every kind that goes from or to it, under every protection, and started again.

Which kinds there are is seen in a run without kills, so that a new one is in the sweep by itself. Wherever it is killed, answers
are right of those whom they name, it says nothing more in that round, and in the next it takes part as if nothing had been.
"""

import numpy as np
import pytest

from cloister.crypto.orthonormal import HadamardRotation
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.view.answers import Assignment, Model, Sum, Weights
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.work.away import Processes

from .test_away import ANSWERS, MEMBERS, Killer, back, mine_lasting, opened, update_of

VICTIM = 3
SEEDING = {"Advertise", "Roster", "SealedSeed", "SeedQuorum", "SeedTag"}
PROTECTIONS = [
    Plain(),
    Permuted(floor=2),
    Permuted(keys="session", floor=2),
    Permuted(HadamardRotation, floor=2),
    TwoServer(),
    Masked(floor=2),
    Masked(floor=2, keys="run"),
    Encrypted(floor=2),
    Encrypted(floor=2, keys="run"),
]


def check_a_round(view, protection, round, model, between):
    """Ask everything simple; every answer is right of those whom it names. between: called after each ask."""
    updates = view.train(round, {"root": Assignment(model, MEMBERS, MEMBERS)})["root"]
    between()
    named = [updates.clients]
    if Functionality.GRAM in protection.gives:
        gram = view.gram(updates)
        between()
        exact = np.stack([update_of(i, round) for i in gram.clients]).astype(float)
        exact -= exact.mean(0)
        norm = np.sqrt(max(np.diag(exact @ exact.T)))
        assert np.abs(gram.matrix - exact @ exact.T).max() <= 6 * gram.tolerance * norm**2 + 1e-4
        named.append(gram.clients)
    after = model
    if not (isinstance(protection, Masked) and protection.keys == "run"):
        mean = view.sums(updates, {"m": Weights(dict.fromkeys(updates.clients, 1.0))})["m"]
        between()
        assert isinstance(mean, Sum), view.record.faults
        after = view.advance(model, mean)
        moved = view.harness.observe(after) - view.harness.observe(model)
        assert np.allclose(moved, np.mean([update_of(i, round) for i in mean.clients], axis=0), atol=1e-3)
        named.append(mean.clients)
    chosen = view.choose(round, {"old": model, "new": after}, MEMBERS)
    between()
    assert all(chosen[i] == ("old", "new")[i % 2] for i in chosen)
    view.harness.retire([Model("init"), after], [])
    between()
    return after, [*named, tuple(sorted(chosen))]


def kinds_of(protection):
    """(kind, whether the victim sends it) of all messages after the exchange of the seed, in a round without kills."""
    seen, processes = {}, Processes(mine_lasting, MEMBERS)

    def tap(frame):
        if VICTIM in (frame.sender, frame.receiver) and frame.kind not in SEEDING:
            seen[frame.kind, frame.sender == VICTIM] = None
        return [frame]

    try:
        view = opened(protection, processes, tap)
        _, named = check_a_round(view, protection, 0, Model("init"), lambda: None)
        assert set(named) == {MEMBERS}
    finally:
        processes.stop()
    return list(seen)


class KillerAt(Killer):
    """As `Killer`, of one direction. sends: whether the victim sends the frame."""

    def __init__(self, processes, kind, sends):
        super().__init__(processes, VICTIM, kind)
        self.sends = sends

    def __call__(self, frame):
        if not self.killed and (frame.sender == VICTIM) != self.sends:
            return [frame]
        return super().__call__(frame)


def check_a_kill(protection, kind, sends, folder):
    processes = Processes(mine_lasting, MEMBERS, folder)
    killer = KillerAt(processes, kind, sends)
    try:
        view = opened(protection, processes, killer)
        model, _ = check_a_round(view, protection, 0, Model("init"), lambda: back(killer))
        assert killer.killed
        assert not any(frame.kind in ANSWERS for frame in killer.after)
        _, named = check_a_round(view, protection, 1, model, lambda: None)
        assert set(named) == {MEMBERS}, view.record.faults
    finally:
        processes.stop()


@pytest.mark.slow
@pytest.mark.parametrize("protection", PROTECTIONS, ids=repr)
def test_a_client_killed_at_any_message_is_back_in_the_next_round(protection, tmp_path):
    kinds = kinds_of(protection)
    assert ("Task", False) in kinds
    for k, (kind, sends) in enumerate(kinds):
        try:
            check_a_kill(protection, kind, sends, tmp_path / str(k))
        except Exception as error:
            raise AssertionError(f"killed at {kind}, {'sent' if sends else 'received'}") from error
