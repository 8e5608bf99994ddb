"""From edges to clusters (EMD-CFL, algorithm 1, lines 15 to 20).

An adjacency is a bool matrix (clients, clients), symmetric, with a true diagonal: clients in the order that was given.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Adjacency = NDArray[np.bool_]


def adjacency(edges: Mapping[tuple[int, int], bool], clients: Sequence[int]) -> Adjacency:
    """Who is joined with whom: both sides must want it, and everybody is joined with himself.

    edges: whether the first client accepts the second. Pairs that were not asked count as no; an answer about a client and
    himself is not looked at, since a client that lost its own edge would be torn from its cluster. Raises ValueError for an
    id that is listed twice, or an edge of a client that is not listed.
    """
    places = {client: place for place, client in enumerate(clients)}
    if len(places) != len(clients):
        raise ValueError("a client is listed twice; give every id once")
    wants = np.zeros((len(clients), len(clients)), dtype=np.bool_)
    for (client, other), edge in edges.items():
        if client not in places or other not in places:
            raise ValueError(f"an edge joins clients {client} and {other}, but not both are listed")
        wants[places[client], places[other]] = edge
    both = wants & wants.T
    np.fill_diagonal(both, True)
    return both


def neighbourhoods(joined: Adjacency, clients: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Clients with identical neighbourhoods share a cluster, as the paper prints it; in the order of first appearance.

    A clique that lost one edge falls apart: of 0-1, 0-2 and no 1-2 come three clusters.
    """
    _check(joined, clients)
    found: dict[bytes, list[int]] = {}
    for client, row in zip(clients, joined, strict=True):
        found.setdefault(row.tobytes(), []).append(client)
    return tuple(tuple(cluster) for cluster in found.values())


def components(joined: Adjacency, clients: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Clients that a path of edges joins share a cluster; in the order of first appearance.

    Not the paper's rule: it forgives missing edges, and one wrong edge merges two clusters.
    """
    _check(joined, clients)
    left = np.ones(len(clients), dtype=np.bool_)
    found = []
    for start in range(len(clients)):
        if not left[start]:
            continue
        reached = np.arange(len(clients)) == start
        while (wider := joined[reached].any(axis=0)).sum() > reached.sum():
            reached = wider
        left &= ~reached
        found.append(tuple(client for client, inside in zip(clients, reached, strict=True) if inside))
    return tuple(found)


def _check(joined: Adjacency, clients: Sequence[int]) -> None:
    if joined.shape != (len(clients), len(clients)) or joined.dtype != np.bool_:
        raise ValueError(f"{len(clients)} clients need a bool matrix of that many rows and columns, not {joined.shape}")
    if not joined.diagonal().all() or (joined != joined.T).any():
        raise ValueError("an adjacency must be symmetric with a true diagonal; make it with `adjacency`")
