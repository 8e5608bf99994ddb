"""Labels from what a server sees over a whole run: a regression that is learned on a run of the attacker's own.

The attacker is the server alone. It plays a run of the same kind on data whose labels it knows (the shadow), computes the same
features of every client there, and learns label histograms from them by ridge regression. Features are made of the view alone:
the published means, and every Gram matrix that the view answered, with who is in it. Where inner products are about the origin
they give each update's product with its round's mean, and so, over the rounds, an estimate of what the client sends; of
differences they give lengths and similarities, which no rotation of the data changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Features = NDArray[np.float64]
RIDGE = (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3)
"""Strengths of regularisation, of which leave-one-out on the shadow chooses; features are of variance 1."""
WINDOWS = 4
"""A feature that every round has is averaged over as many parts of the run."""


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """One Gram matrix that the server has: float64 (n, n), rows in the order of `clients`. mean: of these updates, if published.

    origin: whether it is about the origin.
    """

    round: int
    clients: tuple[int, ...]
    matrix: NDArray[np.float64] = field(repr=False)
    origin: bool
    mean: NDArray[np.float32] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """A whole run from the server's side. means: by round and client, the mean of its cluster. updates: each client's, by round,
    where the server sees them. rounds: how many there were."""

    rounds: int
    means: Mapping[tuple[int, int], NDArray[np.float32]] = field(repr=False)
    compared: Sequence[Compared] = field(default=(), repr=False)
    updates: Mapping[tuple[int, int], NDArray[np.float32]] = field(default_factory=dict, repr=False)


def features(seen: Seen, clients: Sequence[int], read: slice) -> Features:
    """float64 (clients, features). read: the coordinates of a vector that tell labels, as the output layer's bias."""
    return np.stack([np.concatenate(_of_client(seen, i, read)) for i in clients])


def _of_client(seen: Seen, client: int, read: slice) -> list[Features]:
    width = read.stop - read.start
    parts = [_windows(seen.rounds, {t: v[read] for (t, i), v in seen.means.items() if i == client}, width)]
    parts.append(_windows(seen.rounds, {t: v[read] for (t, i), v in seen.updates.items() if i == client}, width))
    parts.append(found[read] if len(found := _estimate(seen, client)) else np.zeros(width))
    shapes = [_shape(c, c.clients.index(client)) for c in seen.compared if client in c.clients]
    parts.append(np.mean(shapes, axis=0) if shapes else np.zeros(_SHAPE))
    return parts


def _windows(rounds: int, values: Mapping[int, NDArray[np.float32]], width: int) -> Features:
    found = np.zeros((WINDOWS, width))
    for k in range(WINDOWS):
        inside = [v for t, v in values.items() if t * WINDOWS // rounds == k]
        if inside:
            found[k] = np.mean(inside, axis=0, dtype=np.float64)
    return found.ravel()


def _estimate(seen: Seen, client: int) -> Features:
    """What the client sends, from the products of its updates with published means: B^T (B B^T + lambda I)^-1 c. Or empty."""
    rows, products = [], []
    for c in seen.compared:
        if not c.origin or client not in c.clients or c.mean is None:
            continue
        norm = float(np.linalg.norm(c.mean))
        if norm > 0:
            rows.append(c.mean.astype(np.float64) / norm)
            products.append(float(c.matrix[c.clients.index(client)].mean()) / norm)
    if not rows:
        return np.zeros(0)
    b = np.stack(rows)
    found: Features = b.T @ np.linalg.solve(b @ b.T + 0.1 * np.eye(len(b)), np.array(products))
    return found


_SHAPE = 8


def _shape(compared: Compared, at: int) -> Features:
    """Of one client in a Gram matrix: its length beside the others', and the ends and the spread of its cosines."""
    lengths = np.sqrt(np.maximum(np.diagonal(compared.matrix), 1e-300))
    cosines = np.delete(compared.matrix[at] / (lengths[at] * lengths), at)
    if not len(cosines):
        return np.zeros(_SHAPE)
    low, high = np.sort(cosines)[:2], np.sort(cosines)[-2:]
    ends = [low[0], low[-1], high[0], high[-1]]
    return np.array([lengths[at] / lengths.mean(), (lengths < lengths[at]).mean(), cosines.mean(), cosines.std(), *ends])


@dataclass(frozen=True, slots=True, eq=False)
class LabelRegression:
    """A ridge regression from features to label histograms."""

    centre: Features
    scale: Features
    weights: NDArray[np.float64] = field(repr=False)
    prior: Features

    @classmethod
    def learned(cls, features: Features, histograms: Features) -> "LabelRegression":
        """features: (n, f); histograms: (n, classes), rows that add up to 1. Its strength is chosen by leave-one-out."""
        centre, scale = features.mean(axis=0), features.std(axis=0)
        scale = np.where(scale > 1e-12, scale, np.inf)
        x, prior = (features - centre) / scale, histograms.mean(axis=0)
        y = histograms - prior
        left, singular, right = np.linalg.svd(x, full_matrices=False)

        def left_out(strength: float) -> float:
            shrunk = singular**2 / (singular**2 + strength * len(x))
            residual = y - left @ (shrunk[:, None] * (left.T @ y))
            lever = ((left * left) * shrunk).sum(axis=1)
            return float(np.square(residual / np.maximum(1 - lever, 1e-6)[:, None]).sum())

        strength = min(RIDGE, key=left_out)
        weights = right.T @ ((singular / (singular**2 + strength * len(x)))[:, None] * (left.T @ y))
        return cls(centre, scale, weights, prior)

    def histograms(self, features: Features) -> Features:
        """The clients' label histograms as they are estimated: (n, classes), not negative, rows that add up to 1."""
        found = np.maximum(self.prior + (features - self.centre) / self.scale @ self.weights, 0.0)
        total = found.sum(axis=1, keepdims=True)
        whole: Features = np.where(total > 0, found / np.where(total > 0, total, 1.0), self.prior)
        return whole


def total_variation(estimated: Features, true: Features) -> Features:
    """Of each client's histogram, half of the sum of absolute differences: (n,), in [0, 1]."""
    found: Features = np.abs(estimated - true).sum(axis=1) / 2
    return found


def top_label(estimated: Features, true: Features) -> NDArray[np.bool_]:
    """Whether the most frequent label of each client is found: (n,). Of equal ones any counts."""
    found: NDArray[np.bool_] = true[np.arange(len(true)), estimated.argmax(axis=1)] == true.max(axis=1)
    return found
