"""Clients told apart by who took part in which published sum (gradient disaggregation, Lam et al. 2021).

The adversary sees published means of updates with the weights that each client has in them, over rounds and clusters: the server
under secure aggregation, or any client that gets the models. It assumes that a client deviates from the others alike in every
round. A floor on every single sum does not see it, as what tells clients apart is that sums are of different clients.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

Rows = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """One published mean. weights: by client, above 0 and of any scale: the mean is sum_i w_i x_i / sum_i w_i. mean: float32
    (d,).

    cluster: whose; sums of different clusters are of updates to different models.
    """

    round: int
    weights: Mapping[int, float]
    mean: NDArray[np.float32] = field(repr=False)
    cluster: str = ""


def disaggregated(published: Sequence[Published], ridge: float = 0.1, window: int = 5) -> dict[int, NDArray[np.float64]]:
    """How each client deviates from the others, float64 (d,) by client: the ridge estimate (W^T W + ridge I)^-1 W^T Y.

    Row t of W are the weights of sum t, which add up to 1; of Y the mean. What all clients of a cluster have in common moves
    from round to round, and drops out: of Y's rows goes the mean over the cluster's sums of up to `window` rounds before and
    after, of W's rows the same. Rows are scaled by the length of the means around them, so that late rounds, whose updates are
    short, count too. ridge: of the mean square of W's entries times the number of sums, which is what noise of one size from
    round to round asks for. As a client keeps its column in all clusters, moves between clusters tell it apart as absences do. A
    client that was in all the same sums as another has the same estimate; one that never changed nothing has 0.
    """
    clients = sorted({i for one in published for i in one.weights})
    w, y = design(published, clients), np.stack([one.mean.astype(np.float64) for one in published])
    centred_w, centred_y = np.empty_like(w), np.empty_like(y)
    for at, one in enumerate(published):
        near = [k for k, other in enumerate(published) if other.cluster == one.cluster and abs(other.round - one.round) <= window]
        length = float(np.sqrt(np.square(y[near]).sum(axis=1).mean())) or 1.0
        centred_w[at], centred_y[at] = w[at] - w[near].mean(axis=0), (y[at] - y[near].mean(axis=0)) / length
    strength = ridge * max(float(np.square(centred_w).mean()) * len(w), 1e-12)
    solved = np.linalg.solve(centred_w.T @ centred_w + strength * np.eye(len(clients)), centred_w.T @ centred_y)
    return dict(zip(clients, solved, strict=True))


def design(published: Sequence[Published], clients: Sequence[int]) -> Rows:
    """The participation matrix, float64 (sums, clients), rows that add up to 1. Raises ValueError for a sum of nobody."""
    rows = np.array([[one.weights.get(i, 0.0) for i in clients] for one in published], np.float64)
    totals = rows.sum(axis=1, keepdims=True)
    if not len(rows) or not (totals > 0).all():
        raise ValueError("every published sum has clients with weights above 0")
    return np.asarray(rows / totals)


def matched(estimates: Mapping[int, Rows], truth: Mapping[int, Rows], together: bool = False) -> float:
    """Share of clients whose estimate is closest, by cosine, to their own truth, less the mean of all, among everybody's.

    truth: float (d,) by client, such as the mean of its updates over the rounds, which the adversary does not see.
    together: match all at once, no truth twice. Chance is 1 / clients.
    """
    clients = sorted(estimates)
    ours = np.stack([estimates[i] for i in clients])
    theirs = np.stack([np.asarray(truth[i], np.float64) for i in clients])
    theirs = theirs - theirs.mean(axis=0)
    lengths = np.linalg.norm(ours, axis=1)[:, None] * np.linalg.norm(theirs, axis=1)[None, :]
    cosines = (ours @ theirs.T) / np.where(lengths > 0, lengths, 1.0)
    chosen = linear_sum_assignment(-cosines)[1] if together else cosines.argmax(axis=1)
    return float((chosen == np.arange(len(clients))).mean())
