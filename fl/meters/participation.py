"""The participation meter: how far sums of different clients in different rounds tell one client from the others.

It never touches an update. The rows of W are the weights of all sums that one observer opened, over all rounds and clusters, each
of norm 1. Leverage, the diagonal of W^+ W, is the part of a client that some combination of the sums isolates if clients did the
same in every round: 1 for a client that can be isolated, 1/m for each of a cohort of m that always answers together. The
information meter takes off what all in a cluster have in common and counts that clients change from round to round; what another
cluster's sums add to it is not counted, as its clients train another model.

Sums into slots count with the clients' true shares, of which most observers know only the sum: what it says of them is what they
would know if they also knew who chose what.

Of sums that one client opens for itself its own part is taken off, as it knows that.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ...protocol.view.account import Opened
from ...protocol.view.answers import Owner, Work
from .algebra import EXACT, Matrix, unit_rows

Rows = list[Mapping[int, float]]
_CHUNK = 256


@dataclass(frozen=True)
class Participation:
    """Of every client the largest over all who opened sums, and of information over all clusters: both from 0 to 1. sums: that
    were opened."""

    leverage: Mapping[int, float]
    information: Mapping[int, float]
    sums: int


def participation(opened: Iterable[Opened], rho: float) -> Participation:
    """The meter over the whole run. rho: correlation of a client's deviations between rounds, above 0 and at most 1."""
    together: dict[tuple[Owner | int, Work], Rows] = defaultdict(list)
    of_cluster: dict[tuple[Owner | int, Work, str], Rows] = defaultdict(list)
    for entry in opened:
        row = {i: a for i, a in entry.row.items() if i != entry.to}
        if any(row.values()):
            together[entry.to, entry.kind].append(row)
            of_cluster[entry.to, entry.kind, entry.cluster].append(row)
    leverage = _largest(together.values(), leverages)
    information = _largest(of_cluster.values(), lambda weights: informations(weights, rho))
    return Participation(leverage, information, sum(map(len, together.values())))


def _largest(epochs: Iterable[Rows], meter: Callable[[Matrix], Matrix]) -> dict[int, float]:
    found: dict[int, float] = {}
    for rows in epochs:
        clients = sorted({i for row in rows for i in row})
        told = meter(unit_rows(np.array([[row.get(i, 0.0) for i in clients] for row in rows])))
        for client, value in zip(clients, told, strict=True):
            found[client] = max(found.get(client, 0.0), float(value))
    return found


def leverages(weights: Matrix) -> Matrix:
    """diag(W^+ W): float64 (clients,). weights: float64 (sums, clients), rows of norm 1."""
    square = np.zeros((0, weights.shape[1]))
    for start in range(0, len(weights), _CHUNK):  # the same span in at most as many rows as there are clients
        square = np.asarray(np.linalg.qr(np.concatenate([square, weights[start : start + _CHUNK]]), mode="r"))
    if not square.size:
        return np.zeros(weights.shape[1])
    _, values, basis = np.linalg.svd(square, full_matrices=False)
    return np.asarray(np.square(basis[values > EXACT * values[0]]).sum(axis=0))


def informations(weights: Matrix, rho: float) -> Matrix:
    """diag(W~^T (W~ W~^T + N)^-1 W~), W~ = W (I - 11^T / n), N = (1 - rho) / rho I as rows have norm 1: float64 (clients,)."""
    if not 0 < rho <= 1:
        raise ValueError(f"the correlation between rounds is above 0 and at most 1, not {rho}")
    centred = weights - weights.mean(axis=1, keepdims=True)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    values = np.maximum(values, 0.0)
    gained = values / (values + max((1 - rho) / rho, EXACT))
    return np.asarray(np.square(vectors) @ gained)
