"""Clusters whose training stands still, as no sum of theirs was opened: their clients are gone, or too few are there."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...protocol.core.errors import FEW_KEYS
from ...protocol.view.account import Asked
from ...protocol.view.answers import BelowFloor

NO_SUM = "what came of {answered} of the {asked} clients that were asked was not enough for a sum to be asked for"


@dataclass(frozen=True, slots=True)
class Standstill:
    """Of one cluster. since: the first round, counted from 0, in which it learned nothing, as in every one after it.

    clients: who had its model before the round, which is as it was. words: why, of the last round. gone: that these clients are
    in other clusters after the round, and it is no more.
    """

    cluster: str
    since: int
    clients: tuple[int, ...]
    words: str
    gone: bool = False


def standing_still(
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    since: Mapping[str, int],
    round: int,
    *,
    refused: Iterable[BelowFloor] = (),
    opened: Iterable[str] = (),
    asked: Iterable[Asked] = (),
    measured: Iterable[str] = (),
    silent: str = "",
    ended: str = "",
    why: Callable[[BelowFloor], str] = lambda of: of.words,
) -> tuple[Standstill, ...]:
    """Clusters whose model is one of before the round, and whose clients were to train it. Not of sums into slots.

    A cluster that was dealt anew, under another name, is known by its model, and so is one that was forked: a sum was refused of
    one that had it, or its clients were asked to train and no sum was asked for. It stands still since that one did. One whose
    sum was refused, and whose clients then went to others, learned nothing in this round either; who is left to train by
    itself has done so.

    before, now: clusters of the algorithm's state, by name. since: of those that stood still before the round, by name. round:
    that is over, counted from 0. refused: sums of it. opened: clusters of those that were published. asked: whom. measured:
    clusters whose updates were compared; where no sum was refused besides, none was due. silent: that the second server did not
    answer in it, if it did not: a sum that has clients enough, or none, is for want of it then. ended: by what the round ended
    before a sum was asked for, if it did. why: of any other sum.
    """
    last = {_of(sum_.name.partition("@")[0], before): sum_ for sum_ in refused}  # named by cluster and round
    due = {one.cluster: one for one in asked if one.kind == "update" and one.clients and one.cluster not in measured}
    summed = {_of(name, before) for name in opened}
    had = {i: cluster.model for cluster in before.values() for i in cluster.members}

    def reason(names: Iterable[str]) -> str:
        names = [*names]
        if sum_ := next((last[name] for name in names if name in last), None):
            for_want = not sum_.clients or len(sum_.clients) >= sum_.floor or silent.endswith(FEW_KEYS)
            return silent if silent and for_want else why(sum_)
        one = next((due[name] for name in names if name in due), None)
        return "" if one is None else silent or ended or _not_asked(one)

    found = []
    for name, cluster in sorted(now.items()):
        names = [name, *(other for other in sorted(before) if other != name and before[other].model == cluster.model)]
        if any(other.model == cluster.model for other in before.values()) and (words := reason(names)):
            clients = tuple(i for i in cluster.members if had.get(i, cluster.model) == cluster.model)
            found.append(Standstill(name, min((since[o] for o in names if o in since), default=round), clients, words))
    by_itself = {i for of in now.values() if of.alone for i in of.members}
    told = by_itself.union(*(of.clients for of in found))
    for name, cluster in sorted(before.items()):
        left = tuple(i for i in cluster.members if i not in told)
        if left and name in last and name not in summed and all(cluster.model != other.model for other in now.values()):
            found.append(Standstill(name, since.get(name, round), left, reason([name]), gone=True))
    return tuple(found)


def _of(name: str, before: Mapping[str, Any]) -> str:
    """The cluster that a sum of this name is of, which may be one of several ways of it that were parted in the round."""
    whole = name
    while whole not in before and "." in whole:
        whole = whole.rpartition(".")[0]
    return whole if whole in before else name


def _not_asked(one: Asked) -> str:
    """Why there was no sum to refuse."""
    asked = len(one.clients)
    if not one.answered:
        return f"none of the {asked} clients that were asked to train answered"
    return NO_SUM.format(answered=len(one.answered), asked=asked)
