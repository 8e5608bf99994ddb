"""What a fusion penalty keeps of each pair of clients: one vector and one scalar (FPFC: Yu, Liu, Sun, Wang, AAAI 2023, line 5).

Line 5 makes of delta_ij = w_i - w_j + v_ij / rho first theta_ij = c_ij delta_ij, by a prox that scales it, and then
v_ij = rho (delta_ij - theta_ij) = rho (1 - c_ij) delta_ij. So delta_ij and c_ij say it all: v_ij / rho is (1 - c_ij) delta_ij,
and theta_ij - v_ij / rho, which zeta_i is made of, (2 c_ij - 1) delta_ij; rho is in the prox alone.

Everything here is a linear combination of models, or a norm: of models under one orthonormal transform it is the same,
transformed. To write zeta_i as a combination of models takes those of all rounds: c is near 0 inside a group, so delta_ij
forgets nothing for hundreds of rounds. m (m - 1) / 2 vectors are bounded, and fewer.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..parts.leverage import Row
from ..view.answers import Vector
from ..view.fusion import Shrink, Values

ARRAYS = ("models", "samples", "moved", "vectors", "scales", "norms", "touched", "carried", "parts")


class PairState:
    """The state of m clients, all w_i equal and all theta_ij = v_ij = 0 to begin with. Pair i < j holds delta_ij = -delta_ji.

    clients: ascending. models: float32 (m, length), each client's last, less what all began with. samples: int64 (m,). moved: the
    round of its last model, int64 (m,), -1 for none. Of the pairs (0, 1), (0, 2), ... (m - 2, m - 1), n in all: vectors, delta:
    float32 (n, length); scales, c: float64 (n,); norms, D: float64 (n,); touched: the last round of both, int64 (n,); carried:
    whether delta then had something of earlier models in it, bool (n,); parts: how often it then had the last models of the lower
    and of the higher client in it, v_ij included, float64 (n, 2).
    """

    def __init__(self, clients: Iterable[int], length: int) -> None:
        self.clients = tuple(sorted(clients))
        self._place = {i: k for k, i in enumerate(self.clients)}
        m = len(self.clients)
        n = m * (m - 1) // 2
        self.models = np.zeros((m, length), np.float32)
        self.samples, self.moved = np.zeros(m, np.int64), np.full(m, -1, np.int64)
        self.vectors = np.zeros((n, length), np.float32)
        self.scales, self.norms = np.ones(n), np.zeros(n)
        self.touched, self.carried = np.full(n, -1, np.int64), np.zeros(n, np.bool_)
        self.parts = np.zeros((n, 2))

    def update(self, round: int, rows: Mapping[int, tuple[Vector, int]], shrink: Shrink, both: bool) -> int:
        """Take these clients' models (and samples) in, and do line 5 once for each pair with one of them in it, or two (both).

        Returns how many pairs were touched; of the others nothing changes. Raises ValueError for factors that are none.
        """
        active = sorted(self._place[i] for i in rows)
        for i, (vector, samples) in rows.items():
            k = self._place[i]
            self.models[k], self.samples[k], self.moved[k] = vector, samples, round
        there, count = np.zeros(len(self.clients), np.bool_), 0
        there[active] = True
        for k in active:
            others, pairs, signs = self._pairs(k)
            once = ~there[others] | (others > k)  # a pair of two active clients is the earlier one's
            chosen = once & there[others] if both else once
            self._touch(round, k, others[chosen], pairs[chosen], signs[chosen], shrink)
            count += int(chosen.sum())
        return count

    def pull(self, client: int) -> Values:
        """zeta_i = 1/m sum_j (w_j + theta_ij - v_ij / rho), less what all began with: float64 (length,). Line 5, last."""
        _, pairs, signs = self._pairs(self._place[client])
        weights = (signs * (2 * self.scales[pairs] - 1)).astype(np.float32)
        found: Values = (self.models.sum(0, dtype=np.float64) + weights @ self.vectors[pairs]) / len(self.clients)
        return found

    def row(self, client: int) -> Row:
        """The weight of each other client's last model in `pull`; 0 of whom earlier models alone are in it. Others are left out.

        2 (1 - c) / m where the pair met it once, so that a client that the penalty has parted from this one is not in it.
        """
        k = self._place[client]
        others, pairs, _ = self._pairs(k)
        fresh, parts = self.touched[pairs] >= self.moved[others], self.parts[pairs, (others > k).astype(np.int64)]
        weights = (1 - np.where(fresh, (2 * self.scales[pairs] - 1) * parts, 0.0)) / len(self.clients)
        counts = (self.moved[others] >= 0) & ((weights != 0) | self.carried[pairs])
        return {self.clients[j]: float(a) for j, a in zip(others[counts], weights[counts], strict=True)}

    def alone(self, client: int) -> bool:
        """Whether `pull` is this client's last model and nothing else: all its pairs were parted after that, and kept nothing."""
        k = self._place[client]
        others, pairs, _ = self._pairs(k)
        fresh = self.touched[pairs] >= np.maximum(self.moved[k], self.moved[others])
        return bool((fresh & (self.scales[pairs] == 1) & ~self.carried[pairs]).all())

    @property
    def met(self) -> tuple[int, ...]:
        """The clients that have had a model."""
        return tuple(i for i, round in zip(self.clients, self.moved.tolist(), strict=True) if round >= 0)

    @property
    def counts(self) -> dict[int, int]:
        """The samples of each of them, as it said last."""
        return {i: int(self.samples[self._place[i]]) for i in self.met}

    def total(self, row: Row) -> Values:
        """The weighted sum of last models, less what all began with times the weights: float64 (length,)."""
        found = np.zeros(self.models.shape[1])
        for i, a in row.items():
            found += a * self.models[self._place[i]].astype(np.float64)
        return found

    def distances(self) -> Values:
        """|theta_ij|: float64 (m, m); infinite for a client that has had no model yet, and another."""
        m = len(self.clients)
        found = np.zeros((m, m))
        found[np.triu_indices(m, 1)] = np.where(self.touched >= 0, self.scales * self.norms, np.inf)
        found += found.T
        found[self.moved < 0, :] = found[:, self.moved < 0] = np.inf
        np.fill_diagonal(found, 0.0)
        return found

    def save(self) -> dict[str, NDArray[Any]]:
        """All that it holds, by name."""
        return {"clients": np.array(self.clients, np.int64), **{name: getattr(self, name) for name in ARRAYS}}

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]]) -> "PairState":
        """The inverse of `save`."""
        found = cls(arrays["clients"].tolist(), 0)
        for name in ARRAYS:
            setattr(found, name, np.array(arrays[name]))
        return found

    def _pairs(self, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Values]:
        """The positions of all other clients, of their pairs with this one, and the sign of delta there as it sees it."""
        m = len(self.clients)
        others = np.delete(np.arange(m), k)
        low, high = np.minimum(others, k), np.maximum(others, k)
        return others, low * (2 * m - low - 1) // 2 + high - low - 1, np.where(others > k, 1.0, -1.0)

    def _touch(
        self, round: int, k: int, others: NDArray[np.int64], pairs: NDArray[np.int64], signs: Values, shrink: Shrink
    ) -> None:
        kept = (1 - self.scales[pairs]).astype(np.float32)
        self.carried[pairs] = kept * self.norms[pairs] != 0
        before, side = self.touched[pairs] >= self.moved[others], (others > k).astype(np.int64)
        self.parts[pairs, side] = 1 + np.where(before & (self.moved[others] < round), kept * self.parts[pairs, side], 0.0)
        self.parts[pairs, 1 - side] = 1.0  # this client's model is new
        delta = self.vectors[pairs]
        delta *= kept[:, None]  # v_ij / rho
        delta += signs.astype(np.float32)[:, None] * (self.models[k] - self.models[others])
        norms = np.sqrt(np.einsum("nd,nd->n", delta, delta, dtype=np.float64))
        scales = np.asarray(shrink(norms), np.float64)
        if scales.shape != norms.shape or not ((scales >= 0) & (scales <= 1)).all():
            raise ValueError("a penalty scales every difference by a factor from 0 to 1")
        self.vectors[pairs], self.norms[pairs], self.scales[pairs], self.touched[pairs] = delta, norms, scales, round
