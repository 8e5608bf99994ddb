"""What an account holds: the sums of each round, the updates that are watched, and what was sketched under which key."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...protocol.view.account import Opened, Sketched
from ...protocol.view.answers import Work
from .algebra import EXACT, Matrix, unit_rows

Made = tuple[int, Work]
"""Round and kind of work in which updates were made."""
Instance = tuple[int, Work, int]
"""One update: round, kind of work and client."""


@dataclass(frozen=True, eq=False)
class Block:
    """The sums that the server opened of updates that were made together, and the updates of the watched clients.

    clients: whose updates are summed, ascending. rows: float64 (sums, clients), weights, each row of unit norm. sums: float64
    (sums, width), rows @ updates. updates: float32 (width,) by client; the truth, which only the harness has.
    """

    clients: tuple[int, ...]
    rows: Matrix
    sums: Matrix = field(repr=False)
    updates: Mapping[int, NDArray[np.float32]] = field(repr=False)

    @cached_property
    def basis(self) -> tuple[Matrix, Matrix]:
        """Orthonormal combinations of the rows, (rank, clients), and the same of the sums, (rank, width)."""
        if not self.rows.size:
            return np.zeros((0, len(self.clients))), np.zeros((0, self.sums.shape[1]))
        left, values, basis = np.linalg.svd(self.rows, full_matrices=False)
        kept = values > EXACT * values[0]
        return basis[kept], (left[:, kept] / values[kept]).T @ self.sums

    def smallest(self, client: int) -> int | None:
        """The position of the sum over the fewest clients that this client is in."""
        if client not in self.clients:
            return None
        at = self.clients.index(client)
        inside = [(int((row != 0).sum()), k) for k, row in enumerate(self.rows) if row[at] != 0 and abs(row.sum()) > EXACT]
        return min(inside)[1] if inside else None

    def deviation(self, client: int) -> Matrix | None:
        """The client's update from the mean of the smallest sum that it is in (from 0 if in none): float64 (width,)."""
        if client not in self.updates:
            return None
        own, k = self.updates[client].astype(np.float64), self.smallest(client)
        return own if k is None else own - self.sums[k] / self.rows[k].sum()


@dataclass(frozen=True, eq=False)
class Account:
    """One run as the meters see it.

    width: numbers that stand for an update; d, or the length of a public sketch of it. watched: clients whose updates are there;
    others: whether there are clients that are not watched. opened: every sum, with its true weights, to whomever.
    """

    d: int
    width: int
    watched: tuple[int, ...]
    others: bool
    blocks: Mapping[Made, Block]
    sketched: Sequence[Sketched]
    opened: Sequence[Opened]

    def deviation(self, instance: Instance) -> Matrix | None:
        block = self.blocks.get(instance[:2])
        return None if block is None else block.deviation(instance[2])


def block_of(rows: Iterable[Mapping[int, float]], updates: Mapping[int, NDArray[Any]], width: int) -> Block:
    """The block of these sums. rows: weights by client, all of whom are in `updates`. Keeps all updates."""
    rows = [row for row in rows if any(row.values())]
    clients = tuple(sorted({i for row in rows for i in row}))
    weights = unit_rows(np.array([[row.get(i, 0.0) for i in clients] for row in rows]).reshape(len(rows), len(clients)))
    vectors = np.array([updates[i] for i in clients], np.float64).reshape(len(clients), width)
    return Block(clients, weights, weights @ vectors, dict(updates))
