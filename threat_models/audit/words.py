"""Words that should be uniform and used once, and bounds on how they may do otherwise.

Each test has a bound on the chance that uniform, independent words do as ill, which holds for any number of words:

- of n bits, c ones: 2 exp(-n KL(c/n || 1/2)), by Chernoff on either side;
- of words that come, one after the other, each with a chance of at most p_j of being like an earlier one, c that are:
  exp(-m + c - c ln(c/m)) for c > m, m = sum p_j, by Chernoff for chances that are bounded given what was before. Among n words of
  R bits m = n^2 / 2^(R+1), and twice that where w and -w count as alike;
- of lowest bits of m uploads at n coordinates, a sum of some that is even at all of them: 2^(m - n).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.unsignedinteger[Any]]
Logs = NDArray[np.float64]
WINDOW = 64
"""Coordinates side by side that are tested together."""


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """What was added in some uploads at the same coordinates. table: (uploads, coordinates), of `bits` bits each. at: int64,
    ascending, those coordinates. names: of uploads, in words. clients: who made them. zeros: int64 (uploads,), how many words of
    each are 0 among all `length` coordinates, where the table has some of them alone.
    """

    table: Table = field(repr=False)
    bits: int
    at: NDArray[np.int64] = field(repr=False)
    names: tuple[str, ...]
    clients: tuple[int, ...]
    zeros: NDArray[np.int64] | None = field(default=None, repr=False)
    length: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """Tests of one kind. logs: of each, any shape. said: what the one at an index found."""

    logs: Logs
    said: Callable[[tuple[int, ...]], str]


def uneven(ones: NDArray[np.integer], of: NDArray[np.integer] | int) -> Logs:
    """Log of the bound on so many ones among so many bits, or as far from half."""
    n = np.asarray(of, np.float64)
    share = np.asarray(ones, np.float64) / n
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = np.nan_to_num(share * np.log(share)) + np.nan_to_num((1 - share) * np.log1p(-share))
    found: Logs = np.minimum(np.log(2) - n * (np.log(2) + entropy), 0.0)
    return found


def repeated(count: NDArray[np.integer], expected: float | Logs) -> Logs:
    """Log of the bound on so many words like an earlier one, where so many are expected at most."""
    c, m = np.broadcast_arrays(np.asarray(count, np.float64), np.asarray(expected, np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(c > m, -m + c - c * np.log(c / m), 0.0)
    return np.nan_to_num(found)
