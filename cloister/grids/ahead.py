"""What a command says of a grid before it is played, and after its first cells: how much there is, where results go, how long."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ..fl.engines.cores import cores
from ..reporting.run_data import time_words

FIRST = 4
"""Cells after which a time is estimated for the first time; then whenever twice as many are over."""
SHORT = 30.0
"""Seconds to go, below which nothing is said of them."""


def begun(what: str, folder: Path, known: int = 0, by: str = "", aside: int = 0) -> None:
    """A line on stderr. what: how much there is to play, in words; known: how much of it is in the folder; by: whom. aside: how
    much else is in the folder.
    """
    there = [f"{known} known already"] if known else []
    there += [f"{aside} in the folder are of other settings or cells, and are left aside"] if aside else []
    parts = [what, *there, *([f"played by {by}"] if by else [])]
    noted(f"{', '.join(parts)}; results go to {folder}")


def noted(words: str) -> None:
    """A line on stderr that is no complaint, which begins with the command's name."""
    sys.stderr.write(f"{words}\n")


def hands_words(workers: int | None, engine: str) -> str:
    """Who plays: "2 processes"; empty of a cluster, which says so itself."""
    count = workers or cores()
    return "" if engine == "ray" else f"{count} process{'es' * (count != 1)}"


@dataclass(slots=True)
class Pace:
    """How long the rest of something may take, by how long what is over took. what: its parts, as "cells"; left: how many there
    are to play. most: whether it may end before. Parts that nobody played, as what is refused at once, do not count.
    """

    what: str
    left: int
    most: bool = False
    clock: Callable[[], float] = time.monotonic
    played: int = 0
    due: int = FIRST
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.clock()

    def over(self, played: bool = True) -> str:
        """One more is over: a sentence on those that are left where one is due; else empty."""
        self.left -= 1
        self.played += played
        if not played or self.played < self.due or self.left < 1:
            return ""
        self.due = 2 * self.played
        seconds = (self.clock() - self.started) / self.played * self.left
        if seconds < SHORT:
            return ""
        about = f"{'at most ' if self.most else ''}about {time_words(seconds)}"
        done = f"the first {self.played} took {time_words(self.clock() - self.started)}"
        return f"{done}; at their pace the other {self.left} {self.what} take {about}, though they need not be alike"
