"""A coordinator's waits before a round that would be in vain, as fewer clients are there than a sum needs: others may be back.

Rounds without sums take no time: without these waits all that are left would be over in seconds, before anybody can be back.
"""

import logging
from collections.abc import Collection

from ...protocol.core.session import DEALER, SECOND_SERVER
from ...protocol.links.listener import Listener
from ...protocol.links.pauses import LONGEST_PAUSE
from ...protocol.parts.record import Record
from ...protocol.pki.names import name_of
from .attempts import LONGEST_PAUSE as LONGEST_REST
from .attempts import SECOND_PAUSE
from .spoilt_sum import spoilt_by

HELPERS = (SECOND_SERVER, DEALER)
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
    """After rounds in a row in which sums were asked for and none was opened: the next one waits, longer each time.

    While clients are away, as those that are there may be as many as a sum needs, and not those of one cluster or cohort; while a
    second server or a dealer is at fault; and where a client's input spoilt what was to be summed, of a run that had sums before.
    """

    def __init__(self) -> None:
        self._known: tuple[int, int, int] | None = None
        self._in_vain = 0
        self._helpers: frozenset[int] = frozenset()
        self._spoilt = False

    def before(self, record: Record, missed: Collection[int], learned: bool) -> None:
        """Of another round: what became of the last one. record: of the view. missed: servers that did not answer in it.

        learned: whether the run, in whatever life of its coordinator, has a model that is not an initial one.
        """
        known, self._known = self._known, (len(record.below_floor), len(record.opened), len(record.faults))
        below, faults = (record.below_floor[known[0] :], record.faults[known[2] :]) if known else ([], [])
        nothing = known is not None and self._known[1] <= known[1]
        at_fault = {f.blame for f in faults if f.by is None or f.by < 0} & {*HELPERS} if nothing else set[int]()
        self._helpers = frozenset(missed) | at_fault
        self._spoilt = nothing and learned and any(spoilt_by(sum_, faults) for sum_ in below)
        self._in_vain = self._in_vain + 1 if self._helpers or (nothing and below) else 0

    def rest(self, listener: Listener, clients: Collection[int]) -> None:
        """Until another client is there, or it is enough. Raises Halted."""
        away = away_of(listener, clients)
        if not self._in_vain:
            return
        seconds = min(SECOND_PAUSE * 2 ** (self._in_vain - 1), LONGEST_REST)
        if self._helpers:
            about = {"parties": [name_of(party) for party in sorted(self._helpers)], "seconds": seconds}
            log.warning("no answer in the last round, or none of use: the next one waits", extra=about)
            listener.pause(seconds)
        elif away:
            about = {"waits_for": [name_of(i) for i in away], "waits_seconds": seconds}
            log.warning("no sum in the last round: the next one waits", extra=about)
            listener.wait_for(len(ready_of(listener)) + 1, seconds)
        elif self._spoilt:
            log.warning("the last round was spoilt by an input: the next one waits", extra={"seconds": seconds})
            listener.pause(seconds)
