"""CFL's parameter tree: a node per cluster, the stationary model and the pre-split updates cached (section V-C, Fig. 4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...protocol.view.answers import Model, Remembered

ROOT = "0"


@dataclass(frozen=True, slots=True)
class Node:
    """An inner node: a cluster that was split, and the model theta* at which its members' updates were compared.

    members: those of the cluster when it was split. round: of the split. children: names of the two parts; a child is
    another node or a current cluster. sides: per child, the members that were parted. edge: the handle on their pre-split
    updates (Eq. 47), if cached.
    """

    members: tuple[int, ...]
    model: Model
    born: int
    round: int
    children: tuple[str, str]
    sides: tuple[tuple[int, ...], tuple[int, ...]]
    edge: Remembered | None = None


Tree = Mapping[str, Node]


def names_of_children(name: str) -> tuple[str, str]:
    """A cluster's name is its path: the root is "0", and each split appends "0" or "1"."""
    return name + "0", name + "1"


def path_to(name: str) -> list[str]:
    """The names from the root to `name`, both included."""
    return [name[:k] for k in range(len(ROOT), len(name) + 1)]


def closer_child(node: Node, clients: Sequence[int], cosines: NDArray[np.float64]) -> str:
    """Algorithm 4, lines 6-12: the child whose cached updates contain the most similar one; the second on a tie. A side of which
    none is cached is behind the other.

    cosines: the newcomer's similarity to each cached update, float64 (m,), in the order of the m clients.
    """
    first, second = (float(cosines[np.isin(clients, side)].max(initial=-np.inf)) for side in node.sides)
    return node.children[0] if first > second else node.children[1]


def generalities(tree: Tree, clusters: Mapping[str, Model], name: str) -> list[Model]:
    """The models on a client's path from the most general (the FL solution) to its own cluster's (section V-C)."""
    return [tree[n].model for n in path_to(name)[:-1] if n in tree] + [clusters[name]]
