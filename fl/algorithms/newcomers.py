"""Algorithm 4 of CFL: clients that come after a split, or were silent in it, walk down the tree one level a round."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ...protocol.view.answers import Assignment, Updates
from ...protocol.view.asks import Recalls
from .algorithm import Cluster
from .parameter_tree import Tree, closer_child

Waiting = Mapping[int, str]
"""Clients to be placed, with the node they stand at."""


def placements(tree: Tree, waiting: Waiting) -> dict[str, Assignment]:
    """Sessions in which waiting clients train from the node that they stand at (line 5)."""
    standing: dict[str, list[int]] = {}
    for client, node in sorted(waiting.items()):
        standing.setdefault(node, []).append(client)
    return {f"{node}?": Assignment(tree[node].model, tuple(c), tuple(c)) for node, c in standing.items()}


def descended(
    tree: Tree, clusters: Mapping[str, Cluster], waiting: Waiting, view: Recalls, updates: Mapping[str, Updates]
) -> tuple[dict[str, Cluster], dict[int, str]]:
    """Lines 6-12 for every waiting client that answered: one level down, into a cluster if it is a leaf."""
    clusters, waiting = dict(clusters), dict(waiting)
    for name, node in tree.items():
        answered = updates.get(f"{name}?")
        if answered is None or node.edge is None or not node.edge.clients:
            continue
        cosines = view.cosines(answered, node.edge)
        for row, client in enumerate(answered.clients):
            if np.isnan(cosines[row]).any():
                continue  # it trained, but did not answer what it was compared by; it waits where it stands
            child = closer_child(node, node.edge.clients, cosines[row])
            if child in clusters:
                del waiting[client]
                clusters[child] = replace(clusters[child], members=tuple(sorted({*clusters[child].members, client})))
            else:
                waiting[client] = child
    return clusters, waiting
