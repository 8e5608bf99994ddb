"""What the hardened FLIC has seen of its clients: running averages of the cosines of every session.

They are plain numbers. Updates of different sessions are never compared, so no key and no update outlives its session.

- **About zero**: the cosine of two updates, which says whether two clients work with or against each other. The mean over all
  sessions, weighted by how large cosines were: late in training they are small and mostly noise, and count for little.
- **About zero, lately**: the same with what was seen before fading fast. Held against the mean over all sessions it says who has
  turned: data make every pair alike in a way of its own, and that way stays.
- **Apart**: how often, of late, two were parted by a session itself. Who was stays apart for some rounds, however it behaves, and
  for more every further time.
- **About the mean**: the cosine of what two updates differ by from the session's mean direction, which says whether two clients
  share what others lack: copies, a backdoor, a planted group. A session counts by the square of the share of all clients that
  its community has, and what was seen before fades by as much: among themselves those of one kind have nothing in common.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]
FEWEST = 4
"""Clients of a session in which a cosine about the mean says anything."""
KEPT = 0.9
"""What is left of a cosine about the mean when a session of everybody has been seen after it."""
FADED = 0.3
"""What is left of what was seen lately of two when they have met once more."""
FORGIVEN = 0.93
"""What is left, of how often two were parted, after any community's session. They are together again, where they are looked at
before anything is summed, after five of them, or after ten if they had not met before: having been together counts for them.
With k communities a round has k sessions."""

LONGER, REMEMBERED = 2.0, 0.9
"""Fading is so many times slower for every time that two were parted before (10, 15, 25, 40 sessions of two that meet in none
between), which is remembered less with every session that both are in: who comes back to do the same again stays away longer."""


@dataclass(frozen=True, slots=True, eq=False)
class Average:
    """Weighted means, entry by entry. total, weight: float64 (m, m), symmetric, diagonal 0."""

    total: Matrix = field(default_factory=lambda: np.zeros((0, 0)), repr=False)
    weight: Matrix = field(default_factory=lambda: np.zeros((0, 0)), repr=False)

    def enlarged(self, places: Sequence[int], size: int) -> "Average":
        """The same averages at these places among `size` rows."""
        total, weight = np.zeros((size, size)), np.zeros((size, size))
        total[np.ix_(places, places)], weight[np.ix_(places, places)] = self.total, self.weight
        return Average(total, weight)

    def counting(self, rows: Sequence[int], values: Matrix, weight: float, kept: float = 1.0) -> "Average":
        """With these rows' values counted `weight` times, and `kept` of what they had before. The diagonal stays 0."""
        block, apart = np.ix_(rows, rows), ~np.eye(len(rows), dtype=np.bool_)
        total, weights = self.total.copy(), self.weight.copy()
        total[block] = kept * total[block] + weight * np.where(apart, values, 0.0)
        weights[block] = kept * weights[block] + weight * apart
        return Average(total, weights)


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """clients: of whom anything was seen, ascending; the averages' rows are theirs. times: how often two were parted."""

    clients: tuple[int, ...] = ()
    about_zero: Average = field(default_factory=Average)
    lately: Average = field(default_factory=Average)
    apart: Average = field(default_factory=Average)
    about_mean: Average = field(default_factory=Average)
    times: Average = field(default_factory=Average)

    def cosines(self, clients: Sequence[int]) -> tuple[Matrix, Mask]:
        """Mean cosines of these clients, (n, n), 0 on the diagonal and where nothing is known; and where something is."""
        return _mean(self.about_zero, self.clients, clients)

    def recent(self, clients: Sequence[int]) -> tuple[Matrix, Mask]:
        """The same of the last sessions, each of which counts more than twice as much as all before it."""
        return _mean(self.lately, self.clients, clients)

    def together(self, clients: Sequence[int]) -> tuple[Matrix, Mask]:
        """1 for two that were never parted when they met, -1 for two that always were, the last time counting most; (n, n)."""
        apart, known = _mean(self.apart, self.clients, clients)
        return np.where(known, 1 - 2 * apart, 0.0), known

    def centred(self, clients: Sequence[int]) -> tuple[Matrix, Mask]:
        """The same of cosines about the mean, less what all these clients share on average beyond n unrelated ones' -1 / (n - 1).

        What loyal clients shared in sessions with attackers is that they are none, and parts none of them from the others.
        """
        average, known = _mean(self.about_mean, self.clients, clients)
        if not known.any():
            return average, known
        return np.where(known, average - average[known].mean() - 1 / (len(clients) - 1), 0.0), known


def _mean(average: Average, known: Sequence[int], clients: Sequence[int]) -> tuple[Matrix, Mask]:
    at = {client: k for k, client in enumerate(known)}
    place = [k for k, client in enumerate(clients) if client in at]
    rows = [at[clients[k]] for k in place]
    weight, total = np.zeros((len(clients), len(clients))), np.zeros((len(clients), len(clients)))
    weight[np.ix_(place, place)] = average.weight[np.ix_(rows, rows)]
    total[np.ix_(place, place)] = average.total[np.ix_(rows, rows)]
    return np.divide(total, weight, out=np.zeros_like(total), where=weight > 0), weight > 0


def about_their_mean(cosines: Matrix) -> Matrix:
    """Cosines of unit vectors about their mean, (n, n) from (n, n) with diagonal 1: symmetric, diagonal 0.

    Lengths do not count, so that a single long update does not become the mean. Equal vectors have none: 0.
    """
    n = len(cosines)
    centring = np.eye(n) - 1 / n
    product = centring @ cosines @ centring
    square = np.maximum(np.diagonal(product), 0.0)
    scale = np.sqrt(np.outer(square, square))
    found: Matrix = np.clip(np.divide(product, scale, out=np.zeros_like(product), where=scale > 1e-9), -1.0, 1.0)
    found = (found + found.T) / 2
    np.fill_diagonal(found, 0.0)
    return found


def seen(evidence: Evidence, clients: Sequence[int], cosines: Matrix) -> Evidence:
    """The evidence with one session's cosines about zero, (n, n) in the order of `clients`."""
    if len(clients) < 2:
        return evidence
    ids = tuple(sorted({*evidence.clients, *clients}))
    old, rows = _rows(ids, evidence.clients), _rows(ids, clients)
    averages = (evidence.about_zero, evidence.lately, evidence.apart, evidence.about_mean, evidence.times)
    zero, lately, apart, mean, times = (average.enlarged(old, len(ids)) for average in averages)
    size = float(np.abs(cosines[~np.eye(len(rows), dtype=np.bool_)]).mean())
    return Evidence(
        ids, zero.counting(rows, cosines, max(size, 1e-6)), lately.counting(rows, cosines, 1.0, FADED), apart, mean, times
    )


def forgiven(evidence: Evidence) -> Evidence:
    """The evidence after a session, with a little less of who was parted before it."""
    kept = FORGIVEN ** (LONGER ** -np.maximum(evidence.times.total - 1, 0.0))
    return replace(evidence, apart=replace(evidence.apart, total=kept * evidence.apart.total))


def parted_in(evidence: Evidence, parts: Sequence[Sequence[int]]) -> Evidence:
    """The evidence with what a session parted of those who were together until then: ids, all seen before."""
    clients = [i for part in parts for i in part]
    if len(clients) < 2:
        return evidence
    of = np.array([k for k, part in enumerate(parts) for _ in part])
    values = (of[:, None] != of[None, :]).astype(np.float64)
    rows = _rows(evidence.clients, clients)
    apart, times = evidence.apart.counting(rows, values, 1.0, FADED), evidence.times.counting(rows, values, 1.0, REMEMBERED)
    return replace(evidence, apart=apart, times=times)


def likened(evidence: Evidence, clients: Sequence[int], cosines: Matrix, share: float) -> Evidence:
    """The evidence with the cosines about their mean of clients that were seen, (n, n). share: that they are of all clients."""
    if len(clients) < FEWEST:
        return evidence
    rows, counts = _rows(evidence.clients, clients), share**2
    mean = evidence.about_mean.counting(rows, about_their_mean(cosines), counts, KEPT**counts)
    return replace(evidence, about_mean=mean)


def _rows(ids: Sequence[int], clients: Sequence[int]) -> list[int]:
    at = {client: k for k, client in enumerate(ids)}
    return [at[i] for i in clients]
