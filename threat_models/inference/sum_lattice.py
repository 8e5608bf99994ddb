"""Which combinations of published sums rest on few clients: the audit of the lattice that published rows of weights span.

Words about updates that are the same in all rows (sums of one work session, or of a client that sends the same each round); for
updates that change from round to round see `disaggregation` and the participation meter. The leverage of few rows is the gate's
own, `protocol.parts.leverage`; of more rows than the gate would ever open it is the participation meter's.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ...fl.meters.algebra import unit_rows
from ...fl.meters.participation import leverages as of_many
from ...protocol.parts.leverage import MOST_ROWS, Row, leverages, span

ZERO = 1e-8
DENOMINATOR = 10_000
"""Largest denominator of the factors with which a combination is tried in exact numbers."""


@dataclass(frozen=True, slots=True)
class Isolated:
    """A combination of rows that rests on few clients: sum_t factors[t] * row t is `weights` on these clients and 0 on all
    others.

    exact: whether that was reckoned in exact numbers; else it holds within rounding of floats.
    """

    clients: tuple[int, ...]
    factors: tuple[Fraction, ...] = field(repr=False)
    weights: Mapping[int, Fraction] = field(repr=False)
    exact: bool


def leverage_of(rows: Sequence[Row]) -> dict[int, float]:
    """The leverage of each client, 1/s or more where some combination rests on s clients with it: float by client, 0 to 1."""
    clients = sorted({i for row in rows for i, a in row.items() if a != 0})
    if len(rows) <= MOST_ROWS:
        return leverages(rows)
    matrix = unit_rows(np.array([[float(row.get(i, 0)) for i in clients] for row in rows]))
    return dict(zip(clients, np.minimum(of_many(matrix), 1.0).tolist(), strict=True))


def most_exposed(rows: Sequence[Row]) -> float:
    """The largest leverage; 1 / it is the fewest clients that a combination can rest on."""
    return max(leverage_of(rows).values(), default=0.0)


def isolating(rows: Sequence[Row], fewer_than: int) -> list[Isolated]:
    """Every least set of fewer than so many clients that some combination of the rows rests on, with the combination.

    rows: weights by client. Sets that contain a found one are left out. All sets are tried in which some client's leverage is
    large enough, so that the result is complete, within rounding: binomial(clients, fewer_than - 1) small decompositions at
    most, and none where no leverage reaches 1 / (fewer_than - 1).
    """
    exposed = leverage_of(rows)
    clients = sorted(exposed)
    if not clients or fewer_than < 2:
        return []
    matrix = np.array([[float(row.get(i, 0)) for i in clients] for row in rows])
    scaled = matrix / np.maximum(np.abs(matrix).max(axis=1, keepdims=True), 1e-300)
    found: list[Isolated] = []
    for some in sets_of(exposed, fewer_than):
        if any(set(one.clients) <= set(some) for one in found):
            continue
        inside = [clients.index(i) for i in some]
        factors = combination(scaled, inside)
        if factors is not None:
            found.append(in_exact_numbers(rows, some, factors / np.maximum(np.abs(matrix).max(axis=1), 1e-300)))
    return found


def sets_of(exposed: Mapping[int, float], fewer_than: int) -> Iterator[tuple[int, ...]]:
    """Sets of clients that a combination may rest on, smaller ones first: some leverage in them is at least 1 over their
    number.
    """
    for size in range(1, fewer_than):
        yield from (some for some in combinations(sorted(exposed), size) if max(exposed[i] for i in some) >= 1 / size - 1e-6)


def combination(rows: NDArray[np.float64], inside: Sequence[int]) -> NDArray[np.float64] | None:
    """Factors of the rows, float64 (sums,), that leave nothing outside these columns and something in each, or None."""
    outside = np.delete(rows, list(inside), axis=1)
    if not outside.shape[1]:
        outside = np.zeros((len(rows), 1))
    left, values, _ = np.linalg.svd(outside, full_matrices=True)
    rank = int((values > ZERO * max(float(np.abs(rows).max()), 1.0)).sum())
    free = left[:, rank:]  # all combinations that are 0 outside
    if not free.shape[1]:
        return None
    shown, sizes, _ = np.linalg.svd(free.T @ rows[:, list(inside)])
    if sizes[0] <= ZERO:
        return None
    factors = free @ shown[:, 0]
    touched = factors @ rows[:, list(inside)]
    if np.abs(touched).min() <= ZERO:
        return None  # rests on fewer, which are tried as a set of their own
    return np.asarray(factors / touched[0])


def in_exact_numbers(rows: Sequence[Row], clients: tuple[int, ...], factors: NDArray[np.float64]) -> Isolated:
    """The combination with the simplest fractions near its factors, if these do the same exactly; else with the floats' own."""
    everyone = sorted({i for row in rows for i in row})
    simple = [Fraction(float(f)).limit_denominator(DENOMINATOR) for f in factors]
    weights = {i: sum((f * Fraction(row.get(i, 0)) for f, row in zip(simple, rows, strict=True)), Fraction(0)) for i in everyone}
    if all((weights[i] != 0) == (i in clients) for i in everyone):
        return Isolated(clients, tuple(simple), {i: weights[i] for i in clients}, True)
    rough = [Fraction(float(f)) for f in factors]
    inside = {i: sum((f * Fraction(row.get(i, 0)) for f, row in zip(rough, rows, strict=True)), Fraction(0)) for i in clients}
    return Isolated(clients, tuple(rough), inside, False)


def exposed_at(rows: Sequence[Row], clients: int) -> int | None:
    """After how many of the rows, in order, at least so many clients can be isolated alone: a number from 1; None if never."""
    for count in range(1, len(rows) + 1):
        if sum(h > 1 - 1e-9 for h in leverage_of(rows[:count]).values()) >= clients:
            return count
    return None


def independent(rows: Sequence[Row]) -> int:
    """How many of the rows say something of their own; of more than the gate's number it is a numerical rank."""
    if len(rows) <= MOST_ROWS:
        return span(rows)
    clients = sorted({i for row in rows for i in row})
    return int(np.linalg.matrix_rank(unit_rows(np.array([[float(row.get(i, 0)) for i in clients] for row in rows]))))
