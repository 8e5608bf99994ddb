"""How well clusters that were found agree with the groups that were planted.

Only evaluations call this: no algorithm may see the planted groups. Without any, `silhouette` says how clear clusters are.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

from ..clustering.profiles import silhouette_of


def membership(clusters: Sequence[Sequence[int]]) -> dict[int, int]:
    """The position of its cluster for every client id. Raises ValueError if a client is in two clusters.

    >>> membership([(3, 5), (4,)])
    {3: 0, 5: 0, 4: 1}
    """
    found = {client: number for number, cluster in enumerate(clusters) for client in cluster}
    if len(found) != sum(len(cluster) for cluster in clusters):
        raise ValueError("a client is listed twice; clusters must be disjoint")
    return found


def adjusted_rand_index(found: Mapping[int, int] | Sequence[Sequence[int]], planted: Mapping[int, int]) -> float:
    """Agreement of two partitions corrected for chance (Hubert and Arabie 1985): 1 if equal, about 0 if unrelated.

    found: the cluster of every client id, or the clusters as sequences of ids. planted: the true group of every client id.
    Names of clusters do not matter. Raises ValueError unless both speak of the same clients.
    """
    clusters = dict(found) if isinstance(found, Mapping) else membership(found)
    _same_clients(clusters, planted)
    every = math.comb(len(planted), 2)
    ours, theirs, both = _pairs(clusters.values()), _pairs(planted.values()), _pairs((clusters[i], planted[i]) for i in planted)
    if ours == theirs == both:  # equal, also where all clients are alone, or in one
        return 1.0
    return 2 * (both * every - ours * theirs) / ((ours + theirs) * every - 2 * ours * theirs)


def _pairs(labels: Iterable[Hashable]) -> int:
    """How many pairs have the same label."""
    return sum(math.comb(count, 2) for count in Counter(labels).values())


def purity(clusters: Sequence[Sequence[int]], planted: Mapping[int, int]) -> float:
    """Fraction of clients that share their cluster only with clients of their own planted group (Espinoza Castellon et al. 2022).

    A client alone counts as pure, so m singletons score 1: never read purity without the number of clusters or the
    adjusted Rand index. Not the purity of the clustering literature, where the majority of a mixed cluster counts.
    """
    _same_clients(membership(clusters), planted)
    if not planted:
        raise ValueError("purity needs at least one client")
    pure = sum(len(cluster) for cluster in clusters if len({planted[i] for i in cluster}) == 1)
    return pure / len(planted)


def majority_purity(clusters: Sequence[Sequence[int]], planted: Mapping[int, int]) -> float:
    """The purity of the clustering literature: the share of clients that are of the group most frequent in their cluster."""
    _same_clients(membership(clusters), planted)
    if not planted:
        raise ValueError("purity needs at least one client")
    return sum(max(Counter(planted[i] for i in cluster).values()) for cluster in clusters if cluster) / len(planted)


def isolated(clusters: Sequence[Sequence[int]], planted: Mapping[int, int]) -> int:
    """How many planted groups share no cluster with another group, in however many clusters they are."""
    _same_clients(membership(clusters), planted)
    mixed = {planted[i] for cluster in clusters if len({planted[i] for i in cluster}) > 1 for i in cluster}
    return len(set(planted.values()) - mixed)


def silhouette(
    clusters: Sequence[Sequence[int]], clients: Sequence[int], similarity: Sequence[Sequence[float | None]]
) -> float | None:
    """The mean silhouette (Rousseeuw 1987) of these clusters by the distances 1 - similarity: 1 where clusters are far apart and
    tight, 0 where they are not told apart, below 0 where clients are nearer to another cluster.

    clients: of the matrix, in its order. None where fewer than two clusters are among them, or all are alone, or a similarity is
    not known.
    """
    found = membership(clusters)
    kept = [k for k, client in enumerate(clients) if client in found]
    labels = [found[clients[k]] for k in kept]
    if not 2 <= len(set(labels)) < len(labels):
        return None
    rows = np.array([[similarity[a][b] for b in kept] for a in kept], np.float64)
    if not np.isfinite(rows).all():
        return None
    apart = np.clip(1 - (rows + rows.T) / 2, 0, None)
    np.fill_diagonal(apart, 0)
    return silhouette_of(apart, np.array(labels))


def _same_clients(found: Mapping[int, int], planted: Mapping[int, int]) -> None:
    if found.keys() != planted.keys():
        odd = sorted(found.keys() ^ planted.keys())
        raise ValueError(f"found and planted must name the same clients; {len(odd)} are in one only, the first is {odd[0]}")


def late_count(evaluations: int) -> int:
    """How many of a run's evaluations, the last ones, it is judged by: a quarter, rounded up, and ten at most.

    Papers take the last ten of some hundred rounds. In a run of ten rounds these are all, those before anything was learned
    included.
    """
    return min(10, -(-evaluations // 4))
