"""Who takes part in a round where not all do: one of fixed cohorts, in turn, or a new random sample.

Sums over fixed cohorts tell no client from its cohort, however many rounds there are. Where a cluster is parted, its cohorts are
parted with it: a sum over a cohort of before is then one of sums over its parts, and tells nothing beside them. Cohorts drawn
anew would cut across the old ones, and the sums of both together single clients out.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from .algorithm import Cluster

Sampling = Literal["cohorts", "random"]
"""Who takes part where not all do: one of fixed cohorts, in turn, or a new uniform sample in every round.

Sums over random samples tell, round by round, what each client does: so cohorts are the default.
"""


def invited(
    cluster: Cluster, round: int, participation: float, sampling: Sampling, rng: np.random.Generator, least: int = 1
) -> tuple[int, ...]:
    """Who of a cluster takes part in this round, ascending: ceil(participation * members), at least `least`, or a few more."""
    if sampling == "random":
        return sample(cluster.members, participation, rng, least)
    parts = cohorts(cluster, participation, least)
    return parts[(round - cluster.born) % len(parts)]


def cohorts(cluster: Cluster, participation: float, least: int = 1) -> tuple[tuple[int, ...], ...]:
    """The members in cohorts that always take part together, drawn anew for other members alone: each ascending.

    As many as can have ceil(participation * members) members each, at least `least`; who is left over joins one of them. Of a
    cluster that was parted from others those that it was left in (`divided`), while its members are the same.
    """
    members = sorted(cluster.members)
    left = sorted(i for part in cluster.within for i in part)
    if left == members and min(map(len, cluster.within), default=0) >= min(least, len(members)):
        return cluster.within
    order = np.random.default_rng([cluster.seed, cluster.born, *members]).permutation(np.array(members, np.int64))
    parts = np.array_split(order, max(1, len(members) // max(1, _count(members, participation, least))))
    return tuple(tuple(sorted(part.tolist())) for part in parts)


def divided(
    parts: Sequence[Sequence[int]], sides: Sequence[Sequence[int]], least: int = 1
) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Of every side of a cluster that is parted its cohorts, which are those of before as far as they are its members.

    Cohorts are joined, the one with the fewest first, until each has at least `least` clients of every side of which it does not
    have all or none. Empty for all sides where that leaves a single one: then cohorts are drawn anew, and tell more.
    """
    joined, held = [set(part) for part in parts], [set(side) for side in sides]

    def fewest(part: set[int]) -> tuple[int, int]:
        return min((len(part & side) for side in held if part & side and not side <= part), default=least), min(part)

    while len(joined) > 1 and fewest(small := min(joined, key=fewest))[0] < least:
        joined.remove(small)
        min(joined, key=lambda part: (len(part), min(part))).update(small)
    if len(joined) < 2:
        return tuple(() for _ in sides)
    return tuple(tuple(tuple(sorted(part & side)) for part in joined if part & side) for side in held)


def cohort_sizes(clients: int, participation: float, sampling: Sampling, least: int = 1) -> tuple[int, ...]:
    """How many of so many members take part in a round, at least and at most."""
    count = _count(range(clients), participation, least)
    if sampling == "random":
        return (count,)
    parts = max(1, clients // max(1, count))
    return tuple(sorted({clients // parts, -(-clients // parts)}))


def _count(members: Sequence[int], participation: float, least: int) -> int:
    return min(len(members), max(least, int(np.ceil(participation * len(members) - 1e-9))))


def sample(members: Sequence[int], participation: float, rng: np.random.Generator, least: int = 1) -> tuple[int, ...]:
    """A uniform sample of ceil(participation * members), at least `least` of them, ascending."""
    count = _count(members, participation, least)
    if count == len(members):
        return tuple(sorted(members))
    return tuple(sorted(int(i) for i in rng.choice(np.array(sorted(members)), size=count, replace=False)))


def check_participation(participation: float) -> None:
    """Raise ValueError unless 0 < participation <= 1."""
    if not 0 < participation <= 1:
        raise ValueError(f"participation is a share above 0 and at most 1, not {participation}")


def check_sampling(sampling: str) -> None:
    """Raise ValueError for a kind of sampling that there is not."""
    if sampling not in get_args(Sampling):
        raise ValueError(f"sampling is {' or '.join(map(repr, get_args(Sampling)))}, not {sampling!r}")
