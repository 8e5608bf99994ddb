"""What zeros and dead weights tell under a shared permutation: how many features clients have, and which of them the same.

A weight whose input never lights up has gradient 0. Permuted or not, signs flipped or not, a zero stays a zero; a rotation has
none. With weight decay such a weight moves all the same, by a factor that the server knows, and by that betrays its place.
"""

import numpy as np
from numpy.typing import NDArray

from .permutation_known import UNKNOWN, Placed

Vectors = NDArray[np.float32]
Values = NDArray[np.float64]
Counts = NDArray[np.int64]


def lit_features(uploads: Vectors, outputs: int) -> Counts:
    """Attack A4. Adversary: the server alone, which knows that the model is one linear layer with a bias.

    uploads: float32 (n, d), d = outputs * features + outputs. Returns int64 (n,): how many features, of all that a model has, are
    not 0 in some example of each client.
    """
    features = uploads.shape[1] // outputs - 1
    found: Counts = features - (uploads == 0).sum(axis=1) // outputs
    return found


def support_similarity(uploads: Vectors, outputs: int) -> Values:
    """Attack A4 between clients. Adversary: as for `lit_features`; uploads under one key.

    Returns float64 (n, n): of each two clients, the Jaccard similarity of the sets of features that they have.
    """
    lit = (uploads != 0).astype(np.float64)
    both = (lit @ lit.T - outputs) / outputs  # without the biases, which all clients move
    alone = np.diagonal(both)
    found: Values = both / np.maximum(alone[:, None] + alone[None, :] - both, 1)
    return found


def shared_zeros(first: Vectors, second: Vectors) -> float:
    """Whether two rounds are under one key. Adversary: the server alone. first, second: float32 (n, d), uploads of two rounds.

    How often a coordinate is 0 in all uploads of both, divided by what chance gives: about 1 under keys of a session, and about 1
    over the share of zeros under one of the run. 1 where nothing is 0.
    """
    a, b = (first == 0).all(axis=0), (second == 0).all(axis=0)
    expected = a.mean() * b.mean()
    return float((a & b).mean() / expected) if expected > 0 else 1.0


def shrink_of(lr: float, weight_decay: float, steps: int) -> float:
    """By what share a weight without gradients changes in so many steps of SGD: (1 - lr * weight_decay)^steps - 1."""
    return float((1 - lr * weight_decay) ** steps - 1)


def by_weight_decay(start: Vectors, uploads: Vectors, shrink: float, dead: NDArray[np.bool_], signed: bool = False) -> Placed:
    """Attack A3: dead weights change by shrink * theta_0, so what changed says which one it was.

    Adversary: the server, which knows theta_0, the training's learning rate and decay, and from public data which features no
    client has. start: float32 (d,), theta_0. uploads: float64 or float32 (n, d), of each client the sum of its uploads of all
    rounds so far under one key. shrink: as in `shrink_of`, over all steps. dead: bool (d,), weights of features that no client
    has. Candidates are coordinates that changed alike for all clients; each dead weight takes the nearest of them, and of those
    that take the same the nearest keeps it.
    """
    spread = uploads.max(axis=0) - uploads.min(axis=0)
    alike = np.flatnonzero(spread <= 1e-3 * np.abs(uploads).max(axis=0) + 1e-12)
    order = np.full(uploads.shape[1], UNKNOWN)
    signs = np.ones(uploads.shape[1], np.float32)
    asked = np.flatnonzero(dead)
    if len(alike) < 2 or not len(asked):
        return Placed(order, signs)
    expected, moved = shrink * start[asked].astype(np.float64), uploads[:, alike].mean(axis=0, dtype=np.float64)
    nearest, distance = _nearest(np.abs(moved), np.abs(expected)) if signed else _nearest(moved, expected)
    for k in np.argsort(-distance, kind="stable"):  # the nearest comes last and keeps the place
        order[alike[nearest[k]]] = asked[k]
    if signed:
        expects = np.where(order[alike] == UNKNOWN, 0.0, shrink * start[order[alike]])
        signs[alike] = np.where(expects * moved < 0, -1, 1)
    return Placed(order, signs)


def _nearest(values: Values, wanted: Values) -> tuple[Counts, Values]:
    """For each wanted one the position of the nearest of two values or more, and how far it is."""
    by_size = np.argsort(values, kind="stable")
    ordered = values[by_size]
    above = np.clip(np.searchsorted(ordered, wanted), 1, len(ordered) - 1)
    place = np.where(wanted - ordered[above - 1] <= ordered[above] - wanted, above - 1, above)
    return by_size[place], np.abs(ordered[place] - wanted)
