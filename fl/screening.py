"""What a hardened FLIC judges by: who is left out of a sum, what cosines say over time, which communities are one."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Cosines = NDArray[np.float64]
Community = tuple[int, ...]
ENOUGH = 4
"""Clients of which the cosines among them have a deviation worth the name."""
SURE = 3.0
"""Standard errors of a mean cosine, beyond which it is not taken for noise."""
FADED = 0.1
"""What is left of the evidence between a client that has turned and those that it turned against."""


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


def faded(evidence: Evidence, turned: Mapping[int, Sequence[int]]) -> Evidence:
    """The evidence with that between a client that has turned and those that it turned against at `FADED` of its weight.

    turned: whom, by client. What the client was to everybody else still counts.
    """
    factor = np.ones_like(evidence.weight)
    for client, others in turned.items():
        pairs = np.isin(evidence.clients, others)
        for k in np.flatnonzero(np.isin(evidence.clients, client)):
            factor[k, pairs] = factor[pairs, k] = FADED
    return Evidence(evidence.clients, evidence.total * factor, evidence.weight * factor)


def far_above(norms: Mapping[int, float], references: Sequence[float], factor: float) -> tuple[int, ...]:
    """The clients whose norm is above `factor` times the median of these norms and the references, ascending.

    Zeros count for nothing in the median: silent clients must not make the others look large.
    """
    known = [norm for norm in (*norms.values(), *references) if norm > 0]
    if not known:
        return ()
    limit = factor * float(np.median(known))
    return tuple(sorted(client for client, norm in norms.items() if norm > limit))


def against(cosines: Cosines, of: Sequence[int], to: Sequence[int], sure: float = 0.0) -> tuple[int, ...]:
    """The positions in `of` whose mean cosine to the positions in `to`, itself excepted, is below 0.

    By `sure` of its standard errors, where there are `ENOUGH` others: updates that are noise to each other are against each
    other half of the time, but seldom clearly.
    """
    found = []
    for k in of:
        others = cosines[k, [j for j in to if j != k]]
        error = float(others.std(ddof=1)) / np.sqrt(len(others)) if len(others) >= ENOUGH else 0.0
        if len(others) and float(others.mean()) < -sure * error:
            found.append(k)
    return tuple(found)


def clearly_against(cosines: Cosines, of: Sequence[int], to: Sequence[int]) -> tuple[int, ...]:
    """Those that are `against` by `SURE` standard errors, of at least `ENOUGH` others."""
    return against(cosines, [k for k in of if sum(j != k for j in to) >= ENOUGH], to, SURE)


def plurality(votes: Mapping[int, str], community: Sequence[int], order: Sequence[str]) -> str | None:
    """What most of the community's clients chose, the first in `order` of equals; None if nobody chose."""
    counts = Counter(votes[i] for i in community if i in votes)
    return max(order, key=lambda name: counts[name]) if counts else None


def merged(communities: Sequence[Community], cosines: Cosines, clients: Sequence[int], apart: float) -> tuple[Community, ...]:
    """The communities with those joined that noise alone has parted, in the order of their lowest ids.

    Two are joined, the nearest first, unless the mean cosine between them is not above 0, or is at least `apart` standard
    deviations below the mean of the cosines inside any of the communities that they are made of: what is loose itself does not
    belong to everything. Fewer than `ENOUGH` clients have too few cosines to tell; where there is nothing but such, those of all
    clients count. cosines: (m, m) in the order of `clients`.
    """
    row = {client: k for k, client in enumerate(clients)}
    of = [[row[i] for i in community] for community in communities]
    inside = [[_inside(cosines, rows)] if len(rows) >= ENOUGH else [] for rows in of]
    everybody = [_inside(cosines, list(range(len(cosines))))]

    def gap(a: int, b: int) -> float:
        across = float(cosines[np.ix_(of[a], of[b])].mean())
        return max(_below(across, c) for c in inside[a] + inside[b] or everybody) if across > 0 else np.inf

    while len(of) > 1:
        gaps = {(a, b): gap(a, b) for b in range(len(of)) for a in range(b)}
        a, b = min(gaps, key=lambda pair: gaps[pair])
        if gaps[a, b] >= apart:
            break
        of[a] += of.pop(b)
        inside[a] += inside.pop(b)
    return tuple(sorted(tuple(sorted(clients[k] for k in rows)) for rows in of))


def _below(across: float, inside: Cosines) -> float:
    """How far a mean is below that of these cosines, in their deviations."""
    below, deviation = float(inside.mean()) - across, float(inside.std())
    if deviation > 0:
        return below / deviation
    return np.inf if below > 0 else -np.inf


def _inside(cosines: Cosines, rows: list[int]) -> Cosines:
    """The cosines among these rows, without their own."""
    block: Cosines = cosines[np.ix_(rows, rows)][~np.eye(len(rows), dtype=np.bool_)]
    return block
