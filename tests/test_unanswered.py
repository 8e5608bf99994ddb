"""Of a second server or dealer that gave no answer, whether it was there is said where it is known."""

from types import SimpleNamespace
from typing import cast

import pytest

from cloister.fl.runs.linked_hosts import NOT_IN_TIME, NOT_THERE, LinkedHosts
from cloister.fl.runs.lost_round import unanswered
from cloister.protocol.core.errors import Fault
from cloister.protocol.core.session import DEALER, SECOND_SERVER

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
