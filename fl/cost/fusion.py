"""A round of fusion, as it is measured: every client is told its pull, works, and its pairs are updated."""

from collections.abc import Mapping, MutableMapping

import numpy as np
from numpy.typing import NDArray

from ...protocol.view.answers import Assignment, Remembered, Sum
from ...protocol.view.asks import ServerView
from ..algorithms.algorithm import Cluster


def fusion_round(
    view: ServerView, t: int, clusters: Mapping[str, Cluster], remembered: MutableMapping[str, Remembered]
) -> tuple[int, int]:
    """One round; fills `remembered`. Every client begins at the public model, as its own, and makes its own of what it did.

    Returns how many updates were fused, and how many clients were told nothing because it would rest on too few.
    """
    work, unsummed = {}, 0
    for name, c in clusters.items():
        pulls = view.pulls(t, remembered[name], c.members) if name in remembered else {}
        zeta = {i: view.advance(c.model, pull) for i, pull in pulls.items() if isinstance(pull, Sum)}
        unsummed += len(pulls) - len(zeta)
        work[name] = Assignment(c.model, c.members, c.members, own=dict.fromkeys(c.members, c.model), toward=zeta)
    updates = view.train(t, work)
    for name, handle in updates.items():
        view.own_models(handle)
        remembered[name] = view.fuse(handle, clusters[name].members, half, remembered.get(name))
    view.harness.retire([c.model for c in clusters.values()], remembered.values())
    return sum(len(handle.clients) for handle in updates.values()), unsummed


def half(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """What a penalty leaves of differences: half of each."""
    return np.full_like(distances, 0.5)
