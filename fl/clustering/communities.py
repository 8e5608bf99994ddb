"""Communities in a graph of similarities: what FLIC finds its clusters with. A detector plugs in as a callable of this shape."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]
Similarity = Callable[[Matrix], Matrix]
"""Similarities from cosines, entry by entry: not negative, 0 for the least alike."""


class Detector(Protocol):
    """Finds communities among m nodes."""

    def __call__(self, similarity: Matrix, known: Mask, rng: np.random.Generator, /) -> Sequence[Sequence[int]]:
        """A partition of the positions 0 .. m-1.

        similarity: float64 (m, m), symmetric, not negative, 0 on the diagonal and where it is not known. known: bool (m, m); a
        similarity of 0 that is known is one, and no gap.
        """
        ...


def one_plus_cosine(cosines: Matrix) -> Matrix:
    """s = 1 + cos, in [0, 2] (Espinoza Castellon et al. 2022, Eq. 7)."""
    similarity: Matrix = np.clip(1 + cosines, 0.0, 2.0)
    return similarity


def one_plus_cosine_squared(cosines: Matrix) -> Matrix:
    """s = (1 + cos)^2, in [0, 4]: for cosines about the mean, which lie around 0 and not around 1 among clients of one kind."""
    return one_plus_cosine(cosines) ** 2


def check_callables(**callables: object) -> None:
    """Raise ValueError unless these can be called, as a similarity and a detector are."""
    for name, value in callables.items():
        if not callable(value):
            raise ValueError(f"{name} is a callable, such as one of fl.communities, not {value!r}")


@dataclass(frozen=True, slots=True)
class Louvain:
    """Greedy modularity (Blondel et al. 2008). Larger resolutions give more and smaller communities; 1 is the original.

    Neither a similarity of 0 nor a missing one is an edge, since modularity does not tell them apart; a node without edges is a
    community of its own. One that is hardly like any other, and like none of its kind, joins the others all the same: all its
    edges, however light, lead there. So a single attacker is not parted from the rest. 1,000 nodes that are all joined take some
    seconds.

    self_loop: weight of an edge from every node to itself, which holds it back from joining others: 0 is FLIC as printed, 2 what
    its authors' code does by filling gaps. Then ten clients that have been seen once are ten communities.
    """

    resolution: float = 1.0
    self_loop: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.resolution < inf:
            raise ValueError(f"resolution is finite and above 0, not {self.resolution}")
        if not 0 <= self.self_loop < inf:
            raise ValueError(f"self_loop is a finite weight of 0 or more, not {self.self_loop}")

    def __call__(self, similarity: Matrix, known: Mask, rng: np.random.Generator, /) -> list[list[int]]:
        import networkx as nx

        graph = nx.Graph()
        graph.add_nodes_from(range(len(similarity)))
        first, second = np.nonzero(np.triu(known & (similarity > 0), 1))
        weights = similarity[first, second]
        graph.add_weighted_edges_from(zip(first.tolist(), second.tolist(), weights.tolist(), strict=True))
        if self.self_loop:
            graph.add_weighted_edges_from((node, node, self.self_loop) for node in range(len(similarity)))
        found = nx.community.louvain_communities(graph, resolution=self.resolution, seed=int(rng.integers(2**31)))
        return [sorted(community) for community in found]


@dataclass(frozen=True, slots=True)
class Components:
    """Nodes that are joined by a chain of known similarities above the threshold."""

    threshold: float

    def __call__(self, similarity: Matrix, known: Mask, rng: np.random.Generator, /) -> list[list[int]]:
        import networkx as nx

        graph = nx.from_numpy_array(known & (similarity > self.threshold))
        return [sorted(component) for component in nx.connected_components(graph)]


def detect(
    detector: Detector, similarity: Similarity, cosines: Matrix, known: Mask, clients: Sequence[int], rng: np.random.Generator
) -> tuple[tuple[int, ...], ...]:
    """The communities of these clients, each ascending, in the order of their lowest ids. cosines, known: (m, m).

    The diagonal is taken out, and what is not known stays out. Raises ValueError for similarities below 0, or if the detector
    does not return a partition.
    """
    joined = known & ~np.eye(len(clients), dtype=np.bool_)
    weights = np.where(joined, similarity(cosines), 0.0)
    if not (weights >= 0).all():
        raise ValueError("similarities are 0 or more; a detector finds no communities among others")
    found = detector(weights, joined, rng)
    if sorted(position for community in found for position in community) != list(range(len(clients))):
        raise ValueError(f"{detector!r} did not put every client into one community")
    return tuple(sorted(tuple(sorted(clients[k] for k in community)) for community in found if len(community)))
