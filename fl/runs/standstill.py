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
    """Clusters whose model is one of before the round, and of which a sum was refused in it. Not of sums into slots.

    A cluster that was dealt anew, under another name, is known by its model: a sum was refused of one that had it, and it stands
    still since that one did.

    before, now: clusters of the algorithm's state, by name. refused: in this round. since: of those that stood still before it,
    by name. round: that is over, counted from 0. silent: that the second server did not answer in it, if it did not: a sum
    that has clients enough, or none, is for want of it then. why: of any other sum.
    """
    last = {of.name.partition("@")[0]: of for of in refused}  # sums are named by their cluster and round
    found = []
    for name, cluster in sorted(now.items()):
        had = [name, *(other for other in sorted(before) if other != name and before[other].model == cluster.model)]
        of = next((last[other] for other in had if other in last), None)
        if of is None or all(other.model != cluster.model for other in before.values()):
            continue
        words = silent if silent and (not of.clients or len(of.clients) >= of.floor) else why(of)
        found.append(Standstill(name, min((since[o] for o in had if o in since), default=round), tuple(cluster.members), words))
    return tuple(found)
