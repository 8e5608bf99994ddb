"""The span check: may these weighted sums of the same updates be published, given those published before?

Whoever sees sums W x of the updates x can form any combination c^T W x. If some combination leaves a non-zero weight on
fewer than `floor` clients, the sums together reveal what fewer than `floor` clients sent. The check is exact: weights are
taken as the rational numbers that their floats are, so nothing hides in rounding.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from math import comb, lcm
from operator import mul

Row = Mapping[int, float]
MAX_HYPERPLANES = 20_000
"""Sums whose check would need more than this many cases are treated as unsafe."""


def fewest_clients(rows: Sequence[Row]) -> int | None:
    """The fewest clients that some non-zero combination of the weight rows depends on.

    rows: one mapping client -> weight per sum. None if no row has a non-zero weight; 0 if it would take more than
    MAX_HYPERPLANES cases to find out. Disjoint sums cost nothing; overlapping ones are decided block by block.
    """
    supports = [frozenset(i for i, a in row.items() if a != 0) for row in rows]
    if not any(supports):
        return None
    return min(_fewest_in_block([rows[k] for k in block]) for block in _overlapping(supports))


def reveals_fewer_than(floor: int, rows: Sequence[Row]) -> bool:
    """Whether the sums together reveal a combination of fewer than `floor` clients' updates (or cannot be shown not to)."""
    fewest = fewest_clients(rows)
    return fewest is not None and fewest < floor


def independent(rows: Sequence[Row]) -> bool:
    """Whether every combination of the rows that vanishes is all zeros."""
    if len(rows) == 1:
        return any(rows[0].values())
    clients = sorted({i for row in rows for i in row})
    return len(_echelon([[Fraction(row.get(i, 0)) for i in clients] for row in rows])) == len(rows)


def _overlapping(supports: Sequence[frozenset[int]]) -> Iterable[list[int]]:
    """Groups of rows connected by common clients."""
    blocks: list[tuple[set[int], list[int]]] = []
    for k, support in enumerate(supports):
        if not support:
            continue
        merged: tuple[set[int], list[int]] = (set(support), [k])
        rest = []
        for clients, members in blocks:
            if clients.isdisjoint(support):
                rest.append((clients, members))
            else:
                merged[0].update(clients)
                merged[1].extend(members)
        blocks = [*rest, merged]
    return (members for _, members in blocks)


def _fewest_in_block(rows: Sequence[Row]) -> int:
    if len(rows) == 1:
        return sum(a != 0 for a in rows[0].values())
    clients = sorted({i for row in rows for i in row})
    basis = _echelon([[Fraction(row.get(i, 0)) for i in clients] for row in rows])
    columns = _directions(basis)
    rank = len(basis)
    total = sum(columns.values())
    if rank == 2:  # a hyperplane is one direction
        return total - max(columns.values())
    if comb(len(columns), rank - 1) > MAX_HYPERPLANES:
        return 0
    most = 0  # the most clients whose weights a non-zero combination can cancel: those on one hyperplane
    for chosen in combinations(columns, rank - 1):
        normal = _normal(chosen)
        if normal is not None:
            most = max(most, sum(n for direction, n in columns.items() if not sum(map(mul, normal, direction))))
    return total - most


def _echelon(rows: list[list[Fraction]]) -> list[list[Fraction]]:
    """The non-zero rows of the reduced echelon form."""
    done: list[list[Fraction]] = []
    rows = [row[:] for row in rows]
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((row for row in rows if row[column] != 0), None)
        if pivot is None:
            continue
        rows.remove(pivot)
        scale = pivot[column]
        pivot = [a / scale for a in pivot]
        for others in (done, rows):
            for k, row in enumerate(others):
                if row[column] != 0:
                    factor = row[column]
                    others[k] = [a - factor * b for a, b in zip(row, pivot, strict=True)]
        done.append(pivot)
    return done


def _directions(basis: Sequence[Sequence[Fraction]]) -> dict[tuple[int, ...], int]:
    """How many clients share each direction of column, columns taken up to scale."""
    count: dict[tuple[int, ...], int] = {}
    for column in zip(*basis, strict=True):
        lead = next((a for a in column if a != 0), None)
        if lead is not None:
            direction = _whole([a / lead for a in column])
            count[direction] = count.get(direction, 0) + 1
    return count


def _normal(chosen: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The normal of the hyperplane through these directions, None if they do not span one."""
    plane = _echelon([[Fraction(a) for a in direction] for direction in chosen])
    if len(plane) < len(chosen):
        return None
    pivots = [next(k for k, a in enumerate(row) if a != 0) for row in plane]
    free = next(k for k in range(len(chosen) + 1) if k not in pivots)
    normal = [Fraction(0)] * (len(chosen) + 1)
    normal[free] = Fraction(1)
    for pivot, row in zip(pivots, plane, strict=True):
        normal[pivot] = -row[free]
    return _whole(normal)


def _whole(vector: Sequence[Fraction]) -> tuple[int, ...]:
    """The vector times the least common denominator of its entries."""
    scale = lcm(*(a.denominator for a in vector))
    return tuple(int(a * scale) for a in vector)
