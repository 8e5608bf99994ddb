"""Leverage: how much of one client's update weighted sums of the same updates can show.

Whoever sees the sums W x of updates x can form any combination c^T W x. The largest share of one client in any of them, squared
and over the squares of all, is its leverage: entry i of the diagonal of W^T (W W^T)^+ W. A combination that rests on s clients
forces a leverage of at least 1/s, and weights (1, eps, ..., eps), which rest on all and show one, have a leverage of almost 1.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import lcm
from typing import Self

import numpy as np
from numpy.typing import NDArray

Row = Mapping[int, float]
"""The weights of one sum, finite, by client; integers of any size are taken as they are."""

MOST_ROWS = 8
"""Of sums with common clients; of more every leverage counts as 1. Leverages add up to the rank, so eight independent rows that
hold a floor of three need 24 clients; a check stays within milliseconds, and its rounding within ERROR, whoever asks."""
DOUBT = 1e-5
"""Rows of norm 1 whose least singular value is below this cannot be told from dependent ones by float64."""
ERROR = 1e-8
"""Bound on the error of a leverage: rounding of rows, 2^-52 an entry, and of the decomposition, over DOUBT."""
_SIMPLE = 2**16
"""Largest denominator of the factors with which a row may be an exact combination of others."""


def leverages(rows: Sequence[Row]) -> dict[int, float]:
    """The leverage of each client that has a weight other than 0 in some row, within ERROR; 1 where it cannot be told.

    Each row is scaled to norm 1 first, so no scale hides anything. A row that is exactly a combination of others adds nothing;
    one that might be, within rounding, leaves every leverage of its clients in doubt: 1. Raises ValueError for weights that are
    not finite.
    """
    found: dict[int, float] = {}
    for block in _overlapping(rows):
        clients = sorted({i for row in block for i, a in row.items() if a != 0})
        found |= zip(clients, _of_block([[row.get(i, 0) for i in clients] for row in block]).tolist(), strict=True)
    return found


def largest(rows: Sequence[Row]) -> float:
    """The largest leverage, 0 if no row has a weight."""
    return max(leverages(rows).values(), default=0.0)


def span(rows: Sequence[Row]) -> int:
    """How many of the rows are independent of those before them; one that may be, within rounding, counts."""
    clients = sorted({i for row in rows for i, a in row.items() if a != 0})
    distinct = dict.fromkeys(tuple(row.get(i, 0) for i in clients) for row in rows)
    if len(distinct) > MOST_ROWS:
        return len(distinct)
    kept: list[_Scaled] = []
    for row in map(_Scaled.of, (row for row in distinct if any(row))):
        if _adds(row, kept) is not False:
            kept.append(row)
    return len(kept)


def without(leverage: float, clients: int) -> float:
    """The most that a leverage can become once the columns of so many clients, of this leverage at most, are taken away."""
    return leverage / (1 - clients * leverage) if clients * leverage < 1 else 1.0


def with_losses(rows: Sequence[Row], lost: int) -> float:
    """The largest leverage that there can be once up to `lost` weights are 0, in rows that need not be the same for a client.

    Rows less these columns keep (1 - lost h) of W W^T, where h is the largest leverage. Against that each client is held, with
    every part of its column, which it adds itself. Rows that depend on each other may not do so any more: 1.
    """
    h = largest(rows)
    if lost == 0 or h == 0 or len(rows) == 1 or lost * h >= 1:
        return without(h, lost)
    clients = sorted({i for row in rows for i, a in row.items() if a != 0})
    if len(rows) > MOST_ROWS or not all(any(row.values()) for row in rows):
        return 1.0
    units = np.stack([_Scaled.of([row.get(i, 0) for i in clients]).unit for row in rows])
    left, singular, _ = np.linalg.svd(units, full_matrices=False)
    if len(singular) < len(rows) or singular[-1] < DOUBT:
        return 1.0
    parts = np.array(list(product((0.0, 1.0), repeat=len(rows))))
    solved = np.einsum("kr,pr,rn->pkn", (left / singular).T, parts, units)
    largest_part = float((solved * solved).sum(axis=1).max()) / (1 - lost * h)
    return max(without(h, lost), largest_part / (1 + largest_part))


def _overlapping(rows: Sequence[Row]) -> Iterable[list[Row]]:
    """Groups of rows that are connected by common clients: others say nothing about each other."""
    blocks: list[tuple[set[int], list[Row]]] = []
    for row in rows:
        clients, members = {i for i, a in row.items() if a != 0}, [row]
        if not clients:
            continue
        apart = []
        for others, theirs in blocks:
            if others.isdisjoint(clients):
                apart.append((others, theirs))
            else:
                clients, members = clients | others, [*theirs, *members]
        blocks = [*apart, (clients, members)]
    return (members for _, members in blocks)


def _of_block(rows: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """float64, (clients,). rows: as many weights each, not all 0."""
    doubt = np.ones(len(rows[0]))
    if len(rows) > MOST_ROWS:
        return doubt
    kept: list[_Scaled] = []
    for row in map(_Scaled.of, dict.fromkeys(map(tuple, rows))):
        if (adds := _adds(row, kept)) is None:
            return doubt
        if adds:
            kept.append(row)
    if len(kept) == 1:
        return np.square(kept[0].unit)
    _, singular, basis = np.linalg.svd(np.stack([row.unit for row in kept]), full_matrices=False)
    if singular[-1] < DOUBT:
        return doubt
    found: NDArray[np.float64] = np.minimum((basis * basis).sum(axis=0), 1.0)
    return found


@dataclass(frozen=True)
class _Scaled:
    """A row whose largest weight is from 2^(top - 1) to 2^top. unit: of norm 1, below 1e-308 is 0. norm: over 2^top."""

    row: Sequence[float]
    top: int
    norm: float
    unit: NDArray[np.float64]

    @classmethod
    def of(cls, row: Sequence[float]) -> Self:
        values = np.array([float(a) for a in row])
        if not np.isfinite(values).all():
            raise ValueError("the weights of a sum are finite")
        mantissas, exponents = np.frexp(values)
        top = int(exponents[values != 0].max())
        scaled = np.ldexp(mantissas, exponents - top)
        norm = float(np.linalg.norm(scaled))
        return cls(row, top, norm, scaled / norm)

    @cached_property
    def whole(self) -> tuple[list[int], int]:
        """Whole numbers, and the power of two that, times them, is the row over 2^top."""
        ratios = [a.as_integer_ratio() for a in self.row]
        finest = max(under.bit_length() for _, under in ratios)
        return [over << finest - under.bit_length() for over, under in ratios], 1 - finest - self.top


def _adds(row: _Scaled, kept: Sequence[_Scaled]) -> bool | None:
    """Whether the row is independent of the others: False if it is exactly a combination of them, None if that is in doubt."""
    if not kept:
        return True
    units = np.stack([other.unit for other in kept])
    factors = np.linalg.lstsq(units.T, row.unit, rcond=None)[0]
    if np.linalg.norm(row.unit - factors @ units) >= DOUBT:
        return True
    return False if _combines(row, kept, factors.tolist()) else None


def _combines(row: _Scaled, others: Sequence[_Scaled], factors: Sequence[float]) -> bool:
    """Whether the row is, exactly, the others times the simplest fractions that are close to these factors."""
    near = [Fraction(f * row.norm / other.norm).limit_denominator(_SIMPLE) for f, other in zip(factors, others, strict=True)]
    unit = lcm(*(q.denominator for q in near))
    parts = [(int(q * unit), *other.whole) for q, other in zip(near, others, strict=True) if q] + [(-unit, *row.whole)]
    finest = min(exponent for _, _, exponent in parts)
    shifted = [(q << exponent - finest, numbers) for q, numbers, exponent in parts]
    return not any(sum(q * numbers[at] for q, numbers in shifted) for at in range(len(row.row)))
