"""Of a second server or dealer that gave no answer, whether it was there is said where it is known."""

from types import SimpleNamespace
from typing import cast

import pytest

from cloister.fl.algorithms.algorithm import Cluster, State
from cloister.fl.runs.linked_hosts import NOT_IN_TIME, NOT_THERE, LinkedHosts
from cloister.fl.runs.lost_round import Lost, unanswered, why_lost
from cloister.protocol.core.errors import Fault
from cloister.protocol.core.session import DEALER, SECOND_SERVER, SERVER
from cloister.protocol.view.answers import Model

from .served import SMALL

SECOND, DEALT = Fault(SECOND_SERVER, "it did not say whose keys it holds"), Fault(DEALER, "it was not answered")


@pytest.mark.parametrize(
    ("faults", "missed", "words"),
    [
        ([SECOND, SECOND], {}, "the second server did not answer as it should"),
        ([SECOND], {SECOND_SERVER: NOT_THERE}, "the second server was not there"),
        ([SECOND], {SECOND_SERVER: NOT_IN_TIME, 4: NOT_THERE}, "the second server did not answer in time"),
        ([SECOND, DEALT], {}, "the second server and the dealer did not answer as they should"),
        ([SECOND, DEALT], dict.fromkeys((SECOND_SERVER, DEALER), NOT_THERE), "the second server and the dealer were not there"),
        ([SECOND, DEALT], {DEALER: NOT_THERE}, "the second server did not answer as it should and the dealer was not there"),
        ([Fault(4, "x")], {4: NOT_THERE}, ""),
    ],
)
def test_in_words(faults: list[Fault], missed: dict[int, str], words: str) -> None:
    assert unanswered(faults, missed=missed) == words


def test_a_coordinator_knows_who_gave_no_answer_in_this_round_and_is_not_there() -> None:
    linked = SimpleNamespace(absent={SECOND_SERVER: 4, DEALER: 1, 3: 9})
    hosts = SimpleNamespace(linked=linked, _absent={DEALER: 1, 3: 8}, listener=SimpleNamespace(present=lambda: (3, DEALER)))
    assert LinkedHosts.missed(cast("LinkedHosts", hosts)) == {SECOND_SERVER: NOT_THERE, 3: NOT_IN_TIME}
    hosts.listener = None
    assert LinkedHosts.missed(cast("LinkedHosts", hosts)) == {SECOND_SERVER: NOT_THERE, 3: NOT_THERE}


def test_a_clients_word_of_another_names_nobody_and_still_tells_that_a_round_came_to_nothing() -> None:
    """Clients that refuse what the server sent say so themselves, and a run in which they all do is not in order."""
    said = Fault(SERVER, "another floor than was agreed", by=0), Fault(1, "a share that was not dealt", by=0)
    state = cast(State, SimpleNamespace(clusters={"0": Cluster((0, 1, 2), Model("init"))}, measured={}, round=3))

    def lost(*faults: Fault) -> Lost:
        return why_lost(SMALL, 2, state, {Model("init")}, True, faults, [], (0, 1, 2), ())

    assert lost() == Lost()
    assert "another floor than was agreed" in lost(said[0]).words
    assert "a share that was not dealt" in lost(said[1]).words
    liar = Fault(SECOND_SERVER, "it did not answer", by=0), *(Fault(i, "silent", by=0) for i in (1, 2)), Fault(0, "silent")
    found = lost(*liar)
    assert (found.hopeless, "second server" in found.words) == (False, False)
    assert unanswered([Fault(SECOND_SERVER, "x", by=DEALER)]) != ""  # the other server's word stands


@pytest.mark.parametrize("reason", ["the model 0@2 is not held here", "it lacks the seed of the run"])
def test_where_clients_lack_what_others_hold_no_other_training_is_advised(reason: str) -> None:
    """Before: "inputs of one scale or a smaller training.lr may help"."""
    state = cast(State, SimpleNamespace(clusters={"0": Cluster((0, 1, 2), Model("0@2"))}, measured={}, round=3))

    def words(why: str) -> str:
        faults = [Fault(i, why) for i in (0, 1)]
        return why_lost(SMALL, 2, state, {Model("0@2")}, False, faults, [], (0, 1, 2), ()).words

    assert words(reason).endswith(f"({reason}); see that clients that hold it run and are reached: these hand it to the others")
    assert words("not finite").endswith("inputs of one scale or a smaller training.lr may help")
