"""How long a coordinator goes on to have its clients agree on the run's secret seed, before the first round."""

import logging

from ...protocol.links.listener import Listener

MOST = 12
"""Attempts in one life of the coordinator. The same command makes as many again."""
SECOND_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before the third attempt, which double; before the second there is none."""
log = logging.getLogger("cloister.serving")


class Attempts:
    """Of one life. An attempt that came to nothing is nobody's loss: clients are bound by what they signed, and it goes on."""

    def __init__(self, most: int = MOST) -> None:
        self._most, self._made = most, 0

    def failed(self, why: str) -> None:
        """Raises ConnectionError where it was the last one: clients wait."""
        self._made += 1
        if self._made >= self._most:
            again = "those that are there wait; see that they answer, and give the same command again"
            raise ConnectionError(f"{self._made} attempts came to nothing, of which the last: {why}; {again}")
        log.warning("the run's secret seed is agreed on again", extra={"attempts": self._made, "of": self._most})

    def pause(self, listener: Listener) -> None:
        """Before the next one. Raises Halted."""
        if self._made > 1:
            listener.pause(min(SECOND_PAUSE * 2 ** (self._made - 2), LONGEST_PAUSE))
