"""Attacks A8 and A9: which coordinates belong together, from relations that every update obeys, with no side information at all.

Cross entropy after a softmax has gradients that add up to 0 over the outputs: sum_k dW[k, j] = 0 for every input j of the last
layer, and sum_k db[k] = 0. Observed often enough under one key, the only directions in which no update ever moves are these sums,
and the projection on them is 1 / K within each group of K coordinates. With two outputs the second mirrors the first.
A rotation leaves the subspace and tells no coordinate; keys of a session leave too few observations.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Values = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Coordinates of uploads that add up to 0. members: int64 (groups, K). signs: float64 (groups, K), 1 or -1, what each counts
    as in its sum, up to all of a group negated: other than 1 only where clients flip signs. tried: coordinates looked at."""

    members: Places = field(repr=False)
    signs: Values = field(repr=False)
    tried: int


def zero_sums(uploads: Vectors, outputs: int, most: int = 1000, still: float = 1e-5) -> Groups:
    """Attack A8. Adversary: the server alone, which knows the number K of outputs.

    uploads: float32 (n, d), of any clients and rounds under one key. most: how many coordinates, those of largest norm, are
    looked at; with fewer observations than that nothing is found. still: below what share of the largest singular value uploads
    do not move in a direction.
    """
    norms = np.linalg.norm(uploads.astype(np.float64), axis=0)
    chosen = np.sort(np.argsort(-norms, kind="stable")[: min(most, int((norms > 0).sum()))])
    none = Groups(np.zeros((0, outputs), np.int64), np.zeros((0, outputs)), len(chosen))
    if len(uploads) < len(chosen):
        return none
    values, vectors = np.linalg.svd(uploads[:, chosen].astype(np.float64), full_matrices=False)[1:]
    null = vectors[values < still * values[0]]
    projector = null.T @ null
    near = np.abs(np.abs(projector) * outputs - 1) < 0.2
    found: dict[tuple[int, ...], Values] = {}
    for i in np.flatnonzero(near.sum(axis=1) == outputs):
        group = np.flatnonzero(near[i])
        if near[i, i] and near[np.ix_(group, group)].all():
            found[tuple(chosen[group].tolist())] = np.sign(projector[i, group] * projector[i, group[0]])
    if not found:
        return none
    return Groups(np.array(list(found)), np.stack(list(found.values())), len(chosen))


def largest_group(uploads: Vectors, groups: Groups) -> int:
    """Which group is the output layer's bias: the one that moves most. Adversary: as for `zero_sums`.

    uploads: float32 (n, d), of the first round or rounds. A rule of thumb, for initial models whose last layer's inputs are
    mostly below 1; they grow as it learns.
    """
    return int(np.abs(uploads[:, groups.members]).sum(axis=(0, 2)).argmax())


def label_similarity(uploads: Vectors, members: Places) -> Values:
    """How alike clients' labels are: cosines of what their biases do beside the mean client's.

    Adversary: as for `zero_sums`. uploads: float32 (clients, d), of each client one upload, or the mean of several of the first
    rounds. members: int64 (K,), the group of the bias. Returns float64 (clients, clients). Which coordinate is which label is not
    told.
    """
    values = uploads[:, members].astype(np.float64)
    values = values - values.mean(axis=0)
    values /= np.linalg.norm(values, axis=1, keepdims=True) + 1e-300
    found: Values = values @ values.T
    return found


def mirrored(uploads: Vectors, signed: bool = False, near: float = 1e-3) -> Places:
    """Attack A9: the pairs of coordinates of a model with two outputs that mirror each other. Adversary: the server alone.

    uploads: float32 (n, d), under one key. near: how far a mirror image may be off, as a share of its norm. signed: clients flip
    signs, so that an image may as well be equal. Returns int64 (pairs, 2), the lower first.
    """
    from scipy.spatial import KDTree

    lit = np.flatnonzero((uploads != 0).any(axis=0))
    columns = uploads[:, lit].T.astype(np.float64)
    if signed:
        largest = columns[np.arange(len(lit)), np.abs(columns).argmax(axis=1)]
        columns = np.where(largest[:, None] < 0, -columns, columns)
        distance, nearest = KDTree(columns).query(columns, k=2)
        own = nearest[:, 0] == np.arange(len(lit))  # a column is no image of itself
        nearest, distance = (np.where(own, v[:, 1], v[:, 0]) for v in (nearest, distance))
    else:
        distance, nearest = KDTree(columns).query(-columns)
    mutual = (nearest[nearest] == np.arange(len(lit))) & (nearest > np.arange(len(lit)))
    close = distance < near * np.linalg.norm(columns, axis=1)
    pairs = [sorted((lit[i], lit[nearest[i]])) for i in np.flatnonzero(mutual & close)]
    return np.array(pairs, np.int64).reshape(-1, 2)
