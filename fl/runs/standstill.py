"""Clusters whose training stands still, as no sum of theirs can be opened: their clients are gone, or too few are there."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...protocol.view.answers import BelowFloor


@dataclass(frozen=True, slots=True)
class Standstill:
    """Of one cluster. since: the first round, counted from 0, in which it learned nothing, as in every one after it.

    clients: its members. words: why, of the last round.
    """

    cluster: str
    since: int
    clients: tuple[int, ...]
    words: str


def standing_still(
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    refused: Iterable[BelowFloor],
    since: Mapping[str, int],
    round: int,
    silent: str = "",
    why: Callable[[BelowFloor], str] = lambda of: of.words,
) -> tuple[Standstill, ...]:
    """Clusters whose model is that of before the round, and of which a sum was refused in it. Not of sums into slots.

    before, now: clusters of the algorithm's state, by name. refused: in this round. since: of those that stood still before it,
    by name. round: that is over, counted from 0. silent: that the second server did not answer in it, if it did not: a sum
    that has clients enough, or none, is for want of it then. why: of any other sum.
    """
    last = {of.name.partition("@")[0]: of for of in refused}  # sums are named by their cluster and round
    same = (name for name in sorted(now.keys() & before.keys()) if before[name].model == now[name].model)
    wanting = {name: silent and (not of.clients or len(of.clients) >= of.floor) for name, of in last.items()}
    words = {name: silent if wanting[name] else why(of) for name, of in last.items()}
    return tuple(Standstill(name, since.get(name, round), tuple(now[name].members), words[name]) for name in same if name in last)
