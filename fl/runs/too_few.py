"""A coordinator's waits before a round that would be in vain, as fewer clients are there than a sum needs: others may be back.

Rounds without sums take no time: without these waits all that are left would be over in seconds, before anybody can be back.
"""

import logging
from collections.abc import Collection

from ...protocol.links.listener import Listener
from ...protocol.links.pauses import LONGEST_PAUSE
from ...protocol.parts.record import Record
from ...protocol.pki.names import name_of
from .attempts import LONGEST_PAUSE as LONGEST_REST
from .attempts import SECOND_PAUSE

log = logging.getLogger("cloister.serving")


def ready_of(listener: Listener) -> list[int]:
    """Of a run's clients, who are there and are not behind with their answers."""
    return [party for party in listener.ready() if party >= 0]


def away_of(listener: Listener, clients: Collection[int]) -> list[int]:
    """Who of these clients is not, and may be back: those that were revoked may not."""
    return sorted({*clients} - {*ready_of(listener)} - {*listener.barred()})


def wait_for_enough(listener: Listener, clients: Collection[int], fewest: int, seconds: float) -> None:
    """Where fewer than so many of these clients are there, but not none, until they are or that long: then the round is played
    with those that there are. Not where those that are left and not revoked are fewer in any case.

    When they are enough, the others have as long as their ends pause at most.
    """
    there, away = ready_of(listener), away_of(listener, clients)
    if not 0 < len(there) < fewest <= len(there) + len(away):
        return
    about = {"there": [name_of(i) for i in there], "need": fewest, "waits_for": [name_of(i) for i in away]}
    log.warning("too few are there for a sum", extra=about | {"waits_seconds": seconds})
    listener.wait_for(fewest, seconds)
    if len(there := ready_of(listener)) >= fewest:
        listener.wait_for(len(there) + len(away_of(listener, clients)), min(seconds, LONGEST_PAUSE + 5.0))
    elif there:
        why = f"after {seconds:g} s {len(there)} clients are there, and a sum needs {fewest}: the round is played without one"
        instead = "bring the others back, or revoke who is gone for good, for whom no round waits then"
        log.warning("too few came", extra={"why": why, "instead": instead})


class Rests:
    """After rounds in a row in which sums were asked for and none was opened: the next one waits, longer each time, while clients
    are away. Those that are there may be as many as a sum needs, and not those of one cluster or cohort. record: of the view.
    """

    def __init__(self) -> None:
        self._known: tuple[int, int] | None = None
        self._in_vain = 0

    def before(self, record: Record) -> None:
        """Of another round: what became of the last one."""
        known, self._known = self._known, (len(record.below_floor), len(record.opened))
        lost = known is not None and self._known[0] > known[0] and self._known[1] <= known[1]
        self._in_vain = self._in_vain + 1 if lost else 0

    def rest(self, listener: Listener, clients: Collection[int]) -> None:
        """Until another client is there, or it is enough. Raises Halted."""
        away = away_of(listener, clients)
        if not self._in_vain or not away:
            return
        seconds = min(SECOND_PAUSE * 2 ** (self._in_vain - 1), LONGEST_REST)
        about = {"waits_for": [name_of(i) for i in away], "waits_seconds": seconds}
        log.warning("no sum in the last round: the next one waits", extra=about)
        listener.wait_for(len(ready_of(listener)) + 1, seconds)
