"""Where the clients of one model go different ways: the hardened FLIC's forks, by one round and by all that were seen."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from .cuts import A_CROWD, FEW, KIND, SEVERAL, STILL_BY_NOW, TIGHT_BY_NOW, Sides, lengths, opposed, tight, turned
from .evidence import Evidence, Matrix, about_their_mean, likened, seen


def parted(clients: Sequence[int], cut: Callable[[Sequence[int]], Sides | None]) -> list[tuple[int, ...]]:
    """The clients cut in two, and the parts again, until nothing is to be cut. A cut is of positions in what it is given."""
    sides = cut(clients)
    if sides is None:
        return [tuple(clients)]
    return [part for side in sides for part in parted([clients[k] for k in side], cut)]


def with_session(before: Evidence, clients: Sequence[int], cosines: Matrix, share: float) -> Evidence:
    """The evidence with a session, cosines (n, n) in the order of `clients`, ascending; share: of all clients, in its community.

    About the mean are compared those who do not work against each other: what others have in common is that they do.
    """
    evidence = found = seen(before, clients, cosines)
    for way in parted(clients, lambda some: opposed(*evidence.cosines(some))):
        rows = [k for k, i in enumerate(clients) if i in {*way}]
        found = likened(found, way, cosines[np.ix_(rows, rows)], share * len(way) / len(clients))
    return found


def by_evidence(evidence: Evidence, clients: Sequence[int], makers: Sequence[int] = ()) -> list[tuple[int, ...]]:
    """Who goes which way by what was seen in all rounds.

    Clients that never met, nor met any that did, may go one way or not: of every circle the part with most makers goes with those
    of the others, or else the largest part, and so does of whom nothing was seen.
    """

    def cut(some: Sequence[int]) -> Sides | None:
        if found := opposed(*evidence.together(some)) or opposed(*evidence.cosines(some)):
            return found
        centred = evidence.centred(some)
        return tight(*centred, FEW) or tight(*centred, A_CROWD, TIGHT_BY_NOW, STILL_BY_NOW)

    together, apart = {*clients} - {*evidence.clients}, []
    for circle in circles(evidence, [i for i in clients if i in set(evidence.clients)]):
        *others, first = sorted(parted(circle, cut), key=lambda part: (len({*part} & {*makers}), len(part)))
        together |= {*first}
        apart += others
    return [tuple(sorted(together)), *apart]


def circles(evidence: Evidence, clients: Sequence[int]) -> list[tuple[int, ...]]:
    """The clients by who has met whom, or somebody who has met them: of those in two circles nothing is known."""
    _, known = evidence.cosines(clients)
    left, found = set(range(len(clients))), []
    while left:
        circle = {min(left)}
        while len(grown := circle | {int(k) for k in np.flatnonzero(known[sorted(circle)].any(axis=0))}) > len(circle):
            circle = grown
        found.append(tuple(clients[k] for k in sorted(circle)))
        left -= circle
    return found


def by_round(
    clients: Sequence[int], cosines: Matrix, norms: NDArray[np.float64], before: Evidence, after: Evidence, least: int
) -> list[tuple[int, ...]]:
    """Who goes which way by one round's updates. before, after: what was seen without and with it. least: as in `lengths`.

    cosines: (n, n), diagonal 1; norms: (n,); both in the order of `clients`, ascending. A pair that never met is taken to be as
    others are.
    """
    at = {client: k for k, client in enumerate(clients)}
    usual, met = before.cosines(clients)
    filled = np.where(met, usual, float(usual[met].mean()) if met.any() else 1.0)
    recent, _ = after.recent(clients)

    def cut(some: Sequence[int]) -> Sides | None:
        rows = [at[i] for i in some]
        block = np.ix_(rows, rows)
        others = ~np.eye(len(rows), dtype=np.bool_)
        return (
            opposed(np.where(others, cosines[block] * filled[block], 0.0), others)
            or turned(cosines[block], usual[block], met[block])
            or turned(recent[block], usual[block], met[block])
            or tight(about_their_mean(cosines[block]), others, SEVERAL)
            or lengths(norms[rows], max(least, KIND))
        )

    return parted(clients, cut)
