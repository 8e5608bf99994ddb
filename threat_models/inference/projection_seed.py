"""The projection itself, where the secret that it is drawn from can be guessed.

Adversary: the server alone. Side information: how a projection is drawn from a secret, which is public, and that embeddings are
behind a ReLU, hence not negative. A wrong projection explains the cloud by embeddings with many negative coordinates.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np

from .projection_known import Matrix, Rows

Secret = TypeVar("Secret")
ROWS = 64
"""Rows of the cloud that a guess is tried on."""


def negative_share(released: Rows, projection: Matrix) -> float:
    """Of the shortest embeddings that give this cloud under this projection, the share of their squares that is negative."""
    square = projection.T @ projection
    shortest = np.linalg.solve(square + 1e-12 * np.trace(square) * np.eye(len(square)), projection.T)
    found = released[:ROWS].astype(np.float64) @ shortest
    return float(np.sum(np.minimum(found, 0) ** 2) / np.sum(found**2))


def searched(released: Rows, secrets: Iterable[Secret], drawn: Callable[[Secret], Matrix]) -> tuple[Secret, float, float]:
    """The secret whose projection leaves the least that is negative; that share, and the least of all other secrets.

    drawn: a secret to its projection, float64 (d, p). Found it is where the first share is far below the second: the attack
    knows by itself. Raises ValueError for fewer than two secrets.
    """
    shares = [(negative_share(released, drawn(secret)), k, secret) for k, secret in enumerate(secrets)]
    if len(shares) < 2:
        raise ValueError("with one secret there is nothing to tell apart")
    best, second = sorted(shares, key=lambda one: one[:2])[:2]
    return best[2], best[0], second[0]
