"""Recursive bipartition of clients by noisy vectors, for as long as noise alone does not explain what they differ by.

As in CFL (Sattler et al. 2020, Algorithm 1 and 5) clusters are cut in two by cosine similarities about their mean, and each part
again. Two things differ, as every vector has noise of a known deviation that is longer than what it is about:

- Whether to cut. The largest eigenvalue of the Gram matrix about the mean is held against the `edge`, which it stays below with a
  chance of 1 - error where all clients have one distribution. The edge is a quantile of drawn matrices: the noise's deviation and
  bounds of the sampling error go into it, and no data.
- Where to cut. Cosines are of the vectors in the directions whose eigenvalue is above the edge; all others are noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .bipartition import Bipartition, optimal_bipartition
from .separation import cosine_similarity

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class NullSpread:
    """What vectors of clients of one distribution differ by, all in the vectors' units.

    deviation: of the noise on every coordinate. spread: bound of the expected squared distance of a vector, without its noise,
    from its expectation. widest: bound of its variance in any one direction, at most `spread`. error: of one test. draws: of the
    edge.
    """

    deviation: float
    spread: float = 0.0
    widest: float = 0.0
    error: float = 0.01
    draws: int = 400

    def __post_init__(self) -> None:
        if not self.deviation > 0 or not 0 <= self.widest <= self.spread or (self.widest == 0) != (self.spread == 0):
            raise ValueError("deviation is above 0, and widest above 0 and at most spread, or both are 0")
        if not 0 < self.error < 1 or self.draws * self.error < 1:
            raise ValueError(f"{self.draws} draws tell nothing of an error of {self.error}; take 1 / error or more")

    def edge(self, count: int, coordinates: int, rng: np.random.Generator) -> float:
        """The 1 - error quantile of the largest eigenvalue, of `count` clients with vectors of so many coordinates.

        Rows are Gaussian, with the sampling variance in as few directions as `widest` allows, where it makes the most of it.
        About their mean, `count` rows are as count - 1 rows about 0.
        """
        deviations = np.full(coordinates, self.deviation)
        if self.spread > 0:
            directions = min(coordinates, int(np.ceil(self.spread / self.widest)))
            deviations[:directions] = np.sqrt(self.deviation**2 + self.widest)
        found = []
        for _ in range(self.draws):
            rows = deviations * rng.standard_normal((count - 1, coordinates))
            found.append(float(np.linalg.eigvalsh(rows @ rows.T)[-1]))
        return float(np.quantile(found, 1 - self.error))


@dataclass(frozen=True, slots=True, eq=False)
class EdgeTest:
    """One test of a cluster. eigenvalues: descending. edge: what the first one had to exceed. cosines: in the directions above
    the edge, in the order of `clients`, None where there is none. cut: None where the cluster stays whole.
    """

    clients: tuple[int, ...]
    eigenvalues: Values
    edge: float
    cosines: Values | None
    cut: Bipartition | None


def look(vectors: Values, clients: Sequence[int], null: NullSpread, rng: np.random.Generator) -> EdgeTest:
    """Whether and where a cluster of two clients or more is cut. vectors: float64 (m, p), rows in the order of `clients`.

    Raises ValueError for fewer than two clients, and for vectors that are not finite.
    """
    if len(clients) < 2 or vectors.shape[0] != len(clients) or not np.isfinite(vectors).all():
        raise ValueError("a cut needs the finite vectors of at least two clients")
    apart = vectors - vectors.mean(axis=0)
    values, axes = np.linalg.eigh(apart @ apart.T)
    edge = null.edge(len(clients), vectors.shape[1], rng)
    above = values > edge
    if not above.any():
        return EdgeTest(tuple(clients), values[::-1], edge, None, None)
    seen = axes[:, above] * np.sqrt(values[above])
    cosines = cosine_similarity(seen @ seen.T)
    return EdgeTest(tuple(clients), values[::-1], edge, cosines, optimal_bipartition(cosines, clients))


def bipartitions(vectors: Values, clients: Sequence[int], null: NullSpread, rng: np.random.Generator) -> tuple[EdgeTest, ...]:
    """All looks, from that at everybody downwards, left side first; no cluster of one is looked at. Arguments as in `look`."""
    row = {client: at for at, client in enumerate(clients)}
    waiting, found = [tuple(sorted(clients))], list[EdgeTest]()
    while waiting:
        members = waiting.pop()
        if len(members) < 2:
            continue
        found.append(seen := look(vectors[[row[i] for i in members]], members, null, rng))
        if seen.cut is not None:
            waiting += [seen.cut.right, seen.cut.left]
    return tuple(found)


def leaves(looks: Sequence[EdgeTest], clients: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The clusters that are left, by their least member."""
    whole = [found.clients for found in looks if found.cut is None]
    grouped = {i for members in whole for i in members}
    return tuple(sorted([*whole, *((i,) for i in clients if i not in grouped)]))
