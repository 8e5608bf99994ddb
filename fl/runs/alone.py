"""Clients that train by themselves, as their cluster was too small for a sum: what is written of a round without one."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from ..algorithms.algorithm import Cluster, Few


def on_their_own(clusters: Mapping[str, Cluster]) -> tuple[int, ...]:
    """Who trains alone, ascending."""
    return tuple(sorted(i for cluster in clusters.values() if cluster.alone for i in cluster.members))


def without_any_sum(before: Mapping[str, Cluster], now: Mapping[str, Cluster], round: int) -> list[dict[str, Any]]:
    """Rows like those of sums that were refused, one for each cluster that was too small, of a round in which none was asked for.

    before, now: the clusters of the round's beginning and end. In the round in which clients are left alone their sum is refused.
    """
    found: dict[Few, list[int]] = defaultdict(list)
    for cluster in before.values():
        if cluster.alone:
            found[cluster.alone] += {*cluster.members} & {*on_their_own(now)}
    return [
        {"round": round, "cluster": _name(sorted(of)), "members": sorted(of), "why": _why(few), "alone": True}
        for few, of in sorted(found.items(), key=lambda one: one[0].members)
        if of
    ]


def _name(clients: list[int]) -> str:
    return f"client {clients[0]}" + (f" and {len(clients) - 1} more" if len(clients) > 1 else "")


def _why(few: Few) -> str:
    return f"a cluster of {len(few.members)} is below the floor of {few.floor}, so that each trains alone"
