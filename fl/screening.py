"""What a hardened FLIC judges by: who is left out of a sum, what cosines say over time, which communities are one."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Cosines = NDArray[np.float64]
Community = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Cosines of pairs of clients over several groupings. clients: ascending. total, weight: float64 (m, m)."""

    clients: tuple[int, ...] = ()
    total: Cosines = field(default_factory=lambda: np.zeros((0, 0)), repr=False)
    weight: Cosines = field(default_factory=lambda: np.zeros((0, 0)), repr=False)

    @property
    def known(self) -> NDArray[np.bool_]:
        return self.weight > 0

    @property
    def mean(self) -> Cosines:
        """The weighted mean cosine of every pair, 0 where nothing is known, 1 on the diagonal."""
        mean = np.divide(self.total, self.weight, out=np.zeros_like(self.total), where=self.known)
        np.fill_diagonal(mean, 1.0)
        return mean


def gathered(
    evidence: Evidence, clients: Sequence[int], cosines: Cosines, known: NDArray[np.bool_], fresh: Sequence[int]
) -> Evidence:
    """The evidence with the cosines of all pairs in which one of the `fresh` clients is, weighted by their mean size.

    Late in training cosines are small and mostly noise, and count for little; where an attack bites they are large again.
    cosines, known: (m, m) in the order of `clients`.
    """
    ids = tuple(sorted({*evidence.clients, *clients}))
    at = {client: k for k, client in enumerate(ids)}
    total, weight = np.zeros((len(ids), len(ids))), np.zeros((len(ids), len(ids)))
    old = [at[i] for i in evidence.clients]
    total[np.ix_(old, old)], weight[np.ix_(old, old)] = evidence.total, evidence.weight
    one_fresh = np.isin(clients, fresh)
    counted = known & (one_fresh[:, None] | one_fresh[None, :]) & ~np.eye(len(clients), dtype=np.bool_)
    if counted.any():
        size = max(float(np.abs(cosines[counted]).mean()), 1e-6)
        rows = [at[i] for i in clients]
        total[np.ix_(rows, rows)] += np.where(counted, size * cosines, 0.0)
        weight[np.ix_(rows, rows)] += np.where(counted, size, 0.0)
    return Evidence(ids, total, weight)


def forgotten(evidence: Evidence, turned: Sequence[int]) -> Evidence:
    """The evidence without that of pairs in which one of these clients is."""
    kept = ~np.isin(evidence.clients, turned)
    both = kept[:, None] & kept[None, :]
    return Evidence(evidence.clients, np.where(both, evidence.total, 0.0), np.where(both, evidence.weight, 0.0))


def far_above(norms: Mapping[int, float], references: Sequence[float], factor: float) -> tuple[int, ...]:
    """The clients whose norm is above `factor` times the median of these norms and the references, ascending.

    Zeros count for nothing in the median: silent clients must not make the others look large.
    """
    known = [norm for norm in (*norms.values(), *references) if norm > 0]
    if not known:
        return ()
    limit = factor * float(np.median(known))
    return tuple(sorted(client for client, norm in norms.items() if norm > limit))


def against(cosines: Cosines, of: Sequence[int], to: Sequence[int]) -> tuple[int, ...]:
    """The positions in `of` whose mean cosine to the positions in `to`, itself excepted, is below 0."""
    found = []
    for k in of:
        others = [j for j in to if j != k]
        if others and float(cosines[k, others].mean()) < 0:
            found.append(k)
    return tuple(found)


def plurality(votes: Mapping[int, str], community: Sequence[int], order: Sequence[str]) -> str | None:
    """What most of the community's clients chose, the first in `order` of equals; None if nobody chose."""
    counts = Counter(votes[i] for i in community if i in votes)
    return max(order, key=lambda name: counts[name]) if counts else None


def merged(communities: Sequence[Community], cosines: Cosines, clients: Sequence[int], apart: float) -> tuple[Community, ...]:
    """The communities with those joined that noise alone has parted, in the order of their lowest ids.

    Two are joined, the nearest first, unless the mean cosine between them is not above 0, or is at least `apart` standard
    deviations below the mean of the cosines inside the looser of them. A client alone has no inside: the other's counts, and for
    two alone that of all clients. cosines: (m, m) in the order of `clients`.
    """
    row = {client: k for k, client in enumerate(clients)}
    of = [[row[i] for i in community] for community in communities]
    while len(of) > 1:
        gaps = {(a, b): _gap(cosines, of[a], of[b]) for b in range(len(of)) for a in range(b)}
        a, b = min(gaps, key=lambda pair: gaps[pair])
        if gaps[a, b] >= apart:
            break
        of[a] += of.pop(b)
    return tuple(sorted(tuple(sorted(clients[k] for k in rows)) for rows in of))


def settled(communities: Sequence[Community], cosines: Cosines, clients: Sequence[int]) -> tuple[Community, ...]:
    """The communities with every client in the one to whose others its mean cosine is highest, in the order of lowest ids.

    Modularity subtracts what degrees alone would give (Newman 2006), and so may part a client from those that it is most like,
    where the others are less like everybody. A client alone stays, so does who has nowhere better; all move at once, and once.
    """
    row = {client: k for k, client in enumerate(clients)}
    of = [[row[i] for i in community] for community in communities]
    if len(of) < 2:
        return tuple(communities)
    home = np.empty(len(clients), dtype=np.int64)
    for number, rows in enumerate(of):
        home[rows] = number
    sums = np.stack([cosines[:, rows].sum(axis=1) for rows in of], axis=1)
    places = np.arange(len(clients))
    sums[places, home] -= cosines[places, places]
    counts = np.array([len(rows) for rows in of], np.float64) - (home[:, None] == np.arange(len(of)))
    means = np.divide(sums, counts, out=np.full_like(sums, np.inf), where=counts > 0)  # who is alone is at home
    better = means.max(axis=1) > means[places, home]
    home = np.where(better, means.argmax(axis=1), home)
    kept = [tuple(sorted(clients[k] for k in np.flatnonzero(home == number))) for number in range(len(of))]
    return tuple(sorted(community for community in kept if community))


def _gap(cosines: Cosines, one: list[int], other: list[int]) -> float:
    """How far the mean cosine between two groups is below that inside the looser one, in its deviations; infinite below 0."""
    across = float(cosines[np.ix_(one, other)].mean())
    if across <= 0:
        return np.inf
    inside = [c for c in (_inside(cosines, one), _inside(cosines, other)) if len(c)]
    looser = min(inside or [_inside(cosines, list(range(len(cosines))))], key=lambda c: float(c.mean()))
    below, deviation = float(looser.mean()) - across, float(looser.std())
    if deviation > 0:
        return below / deviation
    return np.inf if below > 0 else -np.inf


def _inside(cosines: Cosines, rows: list[int]) -> Cosines:
    """The cosines among these rows, without their own."""
    block: Cosines = cosines[np.ix_(rows, rows)][~np.eye(len(rows), dtype=np.bool_)]
    return block
