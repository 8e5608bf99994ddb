"""Every silence pattern of a masked sum of four clients, each with every crash: 7^4 x 60 schedules.

A client falls silent with one of its six messages of the sum, or not at all; and one client is killed at one of its words, before
it takes it or when all that follows is stored and its answer has not left, or before it hears that the round is over; it is back
at once. No client helps the server: with four clients the masking graph's solver allows none.
"""

from collections.abc import Iterator
from itertools import product

from .play import Verdict, play
from .schedule import KINDS, Crash, Schedule, Silent

CLIENTS = 4
SUM = 7
"""Words of a sum to a client: its task, the proposal, keys, shares, whom to mask with, survivors, signatures."""
OVER = 8
"""The word behind them, and behind that the sum's time is up, that the round is over."""
POINTS = tuple(
    Crash(client, word, when, 0.01)
    for client in range(CLIENTS)
    for word, when in (*product(range(SUM), ("before", "after")), (OVER, "before"))
)
PATTERNS = tuple(product((*KINDS, None), repeat=CLIENTS))


def schedules(pattern: tuple[str | None, ...]) -> Iterator[Schedule]:
    """With this pattern: without a crash, then with each."""
    silent = tuple(Silent(client, kind) for client, kind in enumerate(pattern) if kind is not None)
    for crash in ((), *((point,) for point in POINTS)):
        yield Schedule("masked", (*silent, *crash), calm=False, again=False)


def played(pattern: tuple[str | None, ...]) -> Iterator[tuple[Schedule, Verdict, bool]]:
    """Each crash with this pattern, and whether it was played: a word that the client does not come to without the crash, it does
    not come to with it, and the schedule is the one without.
    """
    first, *others = schedules(pattern)
    without = play(first)
    yield first, without, True
    for schedule in others:
        crash = schedule.events[-1]
        assert isinstance(crash, Crash)
        reached = crash.word < without.words[crash.client]
        yield schedule, play(schedule) if reached else without, reached


assert (len(PATTERNS), len(POINTS)) == (7**4, 60)
