"""Pieces of work sent to workers elsewhere, of which any may die: what is sent when, and in which order the answers are given.

Nothing here knows what a worker is; a test can be one.
"""

from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TypeVar

W = TypeVar("W")
R = TypeVar("R")

IN_FLIGHT = 2
"""Pieces at a worker at a time: one that it computes, and one that waits for it."""
AHEAD = 4
"""Pieces a worker that are sent before the answer to an earlier one is given, at most."""
DEATHS = 3
"""With so many workers dead a piece is given up."""


class WorkerDied(Exception):
    """A worker ended, or its machine, before it answered."""


def answers(
    count: int,
    workers: list[W],
    ask: "Callable[[W, int], Future[R]]",
    anew: Callable[[W], W],
    words: Callable[[int], str],
) -> Iterator[R]:
    """The answers to pieces 0 to count - 1, in that order, each as soon as it is there.

    ask: of a worker and a piece; the future raises `WorkerDied` where there will be no answer. That worker is then replaced in
    `workers` by what `anew` makes in its place, and its pieces are asked for again: an answer depends on its piece alone. What
    else a future raises is raised; other pieces at work run to their end unheard.
    words: what a piece is called in the ValueError that is raised where workers keep dying with it.
    """
    waiting, deaths, found = list(range(count)), Counter[int](), dict[int, R]()
    running: dict[Future[R], tuple[int, int, W]] = {}
    given = 0
    while given < count:
        loads = Counter(place for _, place, _ in running.values())
        while waiting and waiting[0] < given + AHEAD * len(workers):
            place = min(range(len(workers)), key=lambda k: loads[k])
            if loads[place] == IN_FLIGHT:
                break
            loads[place] += 1
            piece = waiting.pop(0)
            running[ask(workers[place], piece)] = piece, place, workers[place]
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            piece, place, worker = running.pop(future)
            try:
                found[piece] = future.result()
            except WorkerDied as error:
                deaths[piece] += 1
                if deaths[piece] == DEATHS:
                    raise ValueError(
                        f"{DEATHS} workers died that had to train {words(piece)}, perhaps for lack of memory ({error});"
                        " take fewer --workers, or the local engine"
                    ) from None
                if workers[place] is worker:
                    workers[place] = anew(worker)
                insort(waiting, piece)
        while given in found:
            yield found.pop(given)
            given += 1
