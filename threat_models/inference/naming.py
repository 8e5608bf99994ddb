"""Names for things of which only distances are known: the order that makes them most like distances of things with names."""

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Order = NDArray[np.int64]

STARTS = 60


def distances_of(rows: Matrix) -> Matrix:
    """Euclidean distances between rows: float64 (n, n)."""
    squares = np.sum(rows**2, axis=1)
    return np.asarray(np.sqrt(np.maximum(squares[:, None] + squares - 2 * rows @ rows.T, 0)))


def namings(seen: Matrix, named: Matrix, rng: np.random.Generator, fixed: int = 0, starts: int = STARTS) -> list[Order]:
    """Local optima of sum_ij (seen_ij - named_o(i)o(j))^2 over orders o, best first, each int64 (n,): thing i has name o(i).

    By exchanging two, from random starts. seen, named: float64 (n, n), not necessarily symmetric. fixed: how many of the last
    keep their own name.
    """
    n, found = len(seen), dict[tuple[int, ...], float]()

    def cost(order: Order) -> float:
        return float(np.sum((seen - named[np.ix_(order, order)]) ** 2))

    for _ in range(starts):
        order = np.concatenate([rng.permutation(n - fixed), np.arange(n - fixed, n)])
        least, better = cost(order), True
        while better:
            better = False
            for i in range(n - fixed):
                for j in range(i):
                    other = order.copy()
                    other[[i, j]] = other[[j, i]]
                    if (now := cost(other)) < least - 1e-12:
                        order, least, better = other, now, True
        found[tuple(order.tolist())] = least
    return [np.array(order) for order in sorted(found, key=lambda order: found[order])]


def alike(seen: Matrix, named: Matrix, rng: np.random.Generator, fixed: int = 0, starts: int = STARTS) -> Order:
    """The best naming where several things may have one name: int64 (n,). seen: float64 (n, n); named: float64 (m, m).

    By changing one name at a time, or exchanging two names of all things, from random starts. The diagonal of `named` is the
    distance of two things of one name; that of `seen` is not looked at. fixed: how many of the last things have the last names,
    which no other thing has.
    """
    n, m = len(seen) - fixed, len(named) - fixed
    apart = ~np.eye(len(seen), dtype=bool)
    own = np.arange(m, m + fixed)

    def cost(order: Order) -> float:
        return float(np.sum((seen - named[np.ix_(order, order)])[apart] ** 2))

    found = []
    for _ in range(starts):
        order = np.concatenate([rng.integers(m, size=n), own])
        least, better = np.inf, True
        while better:
            for i in rng.permutation(n):
                rest = apart[i]
                forth = np.sum((seen[i, rest] - named[:m][:, order[rest]]) ** 2, axis=1)
                back = np.sum((seen[rest, i][:, None] - named[order[rest]][:, :m]) ** 2, axis=0)
                order[i] = int(np.argmin(forth + back))
            exchanged = [_exchanged(order, a, b) for a in range(m) for b in range(a)]
            order = min([order, *exchanged], key=cost)
            better = cost(order) < least - 1e-12
            least = cost(order)
        found.append((least, order))
    return min(found, key=lambda one: one[0])[1]


def _exchanged(order: Order, a: int, b: int) -> Order:
    return np.where(order == a, b, np.where(order == b, a, order))
