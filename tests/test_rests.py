"""A coordinator rests before a round that follows one in which a second server or dealer did not answer."""

from types import SimpleNamespace
from typing import Any

from cloister.fl.runs.attempts import LONGEST_PAUSE
from cloister.fl.runs.linked_hosts import HELPERS, LinkedHosts


def test_rests_double_while_a_server_stands_still_and_end_when_it_answers() -> None:
    """Ten rounds were lost within four seconds, and with them the run, where a second server stood still for twelve."""
    rests: list[float] = []
    of_clients = SimpleNamespace(rest=lambda listener, clients: None)  # test_too_few.py
    hosts: Any = SimpleNamespace(_in_vain=0, listener=SimpleNamespace(pause=rests.append), _rests=of_clients, _clients=())
    for missed in ([HELPERS[0]] * 8, [], [HELPERS[1]]):
        for party in missed:
            LinkedHosts._rest(hosts, {party})
        if not missed:
            LinkedHosts._rest(hosts, set())
    assert rests == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, LONGEST_PAUSE, LONGEST_PAUSE, 1.0]
