"""How long a party waits before it connects again: longer each time, also where connections are there for a moment only.

An end that takes a party and drops it in turn would have it connect, and write both down, five times a second.
"""

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
"""Seconds between attempts to connect, which double."""
STANDS = 10.0
"""Seconds after which a connection was no moment's; so many make up for a moment before, too."""
BRIEF = 5
"""Moments that cost no longer pause: of a network that comes back, or an end that is started again."""


class Pauses:
    """Of one party's link."""

    def __init__(self) -> None:
        self._next = FIRST_PAUSE
        self._brief = 0.0

    def connected(self, seconds: float) -> None:
        """There was a connection, so long."""
        self._brief = max(self._brief + 1.0 - seconds / STANDS, 0.0)
        self._next = min(FIRST_PAUSE * 2 ** min(max(int(self._brief) - BRIEF, 0), 16), LONGEST_PAUSE)

    def next(self) -> float:
        """Seconds, half of which are waited at least."""
        found, self._next = self._next, min(2 * self._next, LONGEST_PAUSE)
        return found
