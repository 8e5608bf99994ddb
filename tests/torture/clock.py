"""Simulated time: what is to happen, in order of its time and, at one time, in the order in which it was planned."""

import heapq
from collections.abc import Callable


class Hang(Exception):
    """Somebody waits for what will never be, or waits too long."""


class Clock:
    """now: seconds since the beginning. Raises Hang after `most_steps` events or `most_seconds`."""

    def __init__(self, most_steps: int = 50_000, most_seconds: float = 100_000.0) -> None:
        self.now = 0.0
        self.steps = 0
        self._planned: list[tuple[float, int, Callable[[], object]]] = []
        self._count = 0
        self._most = most_steps, most_seconds

    def after(self, seconds: float, what: Callable[[], object]) -> None:
        """Plan it."""
        self._count += 1
        heapq.heappush(self._planned, (self.now + seconds, self._count, what))

    def step(self) -> bool:
        """Let the next event happen; False if there is none."""
        if not self._planned:
            return False
        self.now, _, what = heapq.heappop(self._planned)
        self.steps += 1
        if self.steps > self._most[0] or self.now > self._most[1]:
            raise Hang(f"{self.steps} events and {self.now:.0f} seconds, and no end")
        what()
        return True

    def until(self, time: float) -> None:
        """Let everything happen up to this time."""
        while self._planned and self._planned[0][0] <= time:
            self.step()
        self.now = max(self.now, time)
