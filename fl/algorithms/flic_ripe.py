"""Whether FLIC's communities can be decided yet: not by the few clients that happen to be there."""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import TypeVar

from .algorithm import Measured

SHARE = 0.5
"""Of the clients that were asked for an update to compare, how many have to be compared before communities are decided."""

Name = TypeVar("Name")


def fewest(members: int, asked: int, least: int) -> int:
    """Fewest clients that communities are decided by: a share of those that were asked, two, and as many as a sum needs.

    members: of the cluster that is parted; where there are fewer, all of them do.
    """
    return min(members, max(2, least, ceil(SHARE * asked)))


def too_few(known: int, members: int, asked: int, least: int) -> str:
    """In words, that similarities are known of too few clients; empty where they are of enough."""
    need = fewest(members, asked, least)
    return f"similarities are known of {known} of {members} clients, and communities need {need}" if known < need else ""


def without_a_sum(communities: Sequence[Sequence[int]], missing: int, least: int) -> str:
    """In words, that no community could have a sum, while clients are missing that might make one larger; or empty.

    Whoever comes back would have no model to choose, as clients that train alone lend theirs to nobody. Where nobody is missing
    there is nothing to wait for.
    """
    most = max(map(len, communities), default=0)
    if not missing or most >= least:
        return ""
    return f"the largest community has {most} clients, where sums need {least}, and {missing} were not compared"


def put_off(measured: dict[Name, Measured], name: Name, words: str) -> dict[Name, Measured]:
    """What was measured, with why this cluster is not parted yet."""
    return {**measured, name: replace(measured.get(name, Measured(None, None, ())), turned_down=f"not yet, as {words}")}
