"""From edges to clusters (EMD-CFL, algorithm 1, lines 15 to 20).

A matrix of edges is int8 (clients, clients), symmetric, clients in the order that was given: `JOINED`, `REFUSED`, or
`UNDECIDED` where a pair was not asked, or has not answered yet. Everybody is joined with himself.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Edges = NDArray[np.int8]
JOINED, UNDECIDED, REFUSED = 1, 0, -1


def adjacency(accepts: Mapping[tuple[int, int], bool], clients: Sequence[int]) -> Edges:
    """Who is joined with whom: both sides must want it, and one that does not is enough to refuse.

    accepts: whether the first client accepts the second. An answer about a client and himself is not looked at, since a client
    that lost its own edge would be torn from its cluster. Raises ValueError for an id that is listed twice, or an edge of a
    client that is not listed.
    """
    places = {client: place for place, client in enumerate(clients)}
    if len(places) != len(clients):
        raise ValueError("a client is listed twice; give every id once")
    wants = np.full((len(clients), len(clients)), UNDECIDED, dtype=np.int8)
    for (client, other), edge in accepts.items():
        if client not in places or other not in places:
            raise ValueError(f"an edge joins clients {client} and {other}, but not both are listed")
        wants[places[client], places[other]] = JOINED if edge else REFUSED
    both = np.minimum(wants, wants.T)  # REFUSED below UNDECIDED below JOINED
    np.fill_diagonal(both, JOINED)
    return both


def neighbourhoods(edges: Edges, clients: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Clients with identical neighbourhoods share a cluster, as the paper prints it; in the order of first appearance.

    An undecided pair counts as refused, and a clique that lost one edge falls apart: of 0-1, 0-2 and no 1-2 come three clusters.
    """
    _check(edges, clients)
    found: dict[bytes, list[int]] = {}
    for client, row in zip(clients, edges == JOINED, strict=True):
        found.setdefault(row.tobytes(), []).append(client)
    return tuple(tuple(cluster) for cluster in found.values())


def components(edges: Edges, clients: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Clients that a path of edges joins share a cluster; in the order of first appearance.

    It forgives missing edges, refused ones too, and one wrong edge merges two clusters.
    """
    _check(edges, clients)
    joined, left = edges == JOINED, np.ones(len(clients), dtype=np.bool_)
    found = []
    for start in range(len(clients)):
        if not left[start]:
            continue
        reached = np.arange(len(clients)) == start
        while (wider := joined[reached].any(axis=0)).sum() > reached.sum():
            reached = wider
        left &= ~reached
        found.append(_named(reached, clients))
    return tuple(found)


def majorities(edges: Edges, clients: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Clusters that most decided pairs agree with: inside they are joined, across they refuse; in the order of first appearance.

    Undecided pairs have no say. Where no decided pair is wrong, these are the `components`. A wrong edge, or a client that is
    joined with two groups, is outvoted by the pairs around it. Correlation clustering (Bansal, Blum, Chawla 2004) by greedy
    contraction (Keuper et al. 2015, algorithm 1): the two clusters with the most joined less refused pairs between them become
    one, while there are joined ones and no fewer than refused ones; then single clients move where more want them, until none
    would. A heuristic: the best partition is NP-hard to find. Ties go to the client that is listed first.
    """
    _check(edges, clients)
    label = _contracted(edges)
    votes = edges.astype(np.int64) - np.eye(len(clients), dtype=np.int64)
    moved = True
    while moved:  # each move adds agreeing pairs, so this ends
        moved = False
        for place in range(len(clients)):
            wanted = np.bincount(label, votes[place], minlength=len(clients))
            best = int(np.argmax(wanted))
            if wanted[best] > wanted[label[place]]:  # an empty cluster wants with 0
                label[place], moved = best, True
    return tuple(_named(label == name, clients) for name in dict.fromkeys(label.tolist()))


def _contracted(edges: Edges) -> NDArray[np.int64]:
    """A label for every client, the place of one of its cluster."""
    label = np.arange(len(edges))
    upper = np.triu(np.ones(edges.shape, dtype=np.bool_), 1)
    joined, sums = ((edges == JOINED) & ~np.eye(len(edges), dtype=np.bool_)).astype(np.int64), edges.astype(np.int64)
    while len(edges) > 1:
        gains = np.where(upper & (joined > 0), sums, -1)
        first, second = divmod(int(np.argmax(gains)), len(edges))
        if gains[first, second] < 0:
            break
        label[label == second] = first
        for votes in (joined, sums):
            votes[first] += votes[second]
            votes[:, first] += votes[:, second]
            votes[second] = votes[:, second] = 0
        joined[first, first] = 0
    return label


def _named(inside: NDArray[np.bool_], clients: Sequence[int]) -> tuple[int, ...]:
    return tuple(client for client, there in zip(clients, inside, strict=True) if there)


def _check(edges: Edges, clients: Sequence[int]) -> None:
    if edges.shape != (len(clients), len(clients)) or edges.dtype != np.int8:
        raise ValueError(f"{len(clients)} clients need an int8 matrix of that many rows and columns, not {edges.shape}")
    if (edges.diagonal() != JOINED).any() or (edges != edges.T).any():
        raise ValueError("edges must be symmetric with a diagonal that is joined; make them with `adjacency`")
