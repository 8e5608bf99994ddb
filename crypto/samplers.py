"""Integer noise for differential privacy from a key: discrete Gaussian (Canonne, Kamath and Steinke 2020) and Skellam.

A sample is the inverse of a cumulative table at a uniform 256-bit number. Both are integers and are compared as such, most
significant word first: no floating point decides anything, and nothing is rejected. A sample is within `DISTANCE` of the exact
distribution in statistical distance, and a vector of m samples within m times that.

| distribution | standard deviation | how |
| --- | --- | --- |
| discrete Gaussian | up to 2^11 | one table, one inversion a sample |
| discrete Gaussian | up to 2^20 | fine + step * coarse, two inversions a sample (`_split`) |
| Skellam | up to 2^12 | one table, one inversion a sample |

Time and memory access depend on the samples: this hides nothing from somebody who shares the machine.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from .prg import derive_key, keystream, random_uint64

Integers = NDArray[np.int64]

DISTANCE = 2.0**-190
"""Tails are cut where they weigh under 2^-200; at most 2^18 entries of a table are rounded down by under 2^-256 each, from
weights known to more digits than that; and the sum of two samples adds a relative error under 2^-195 to each probability."""
GAUSSIAN_TABLE_DEVIATION = 2**11
GAUSSIAN_LARGEST_DEVIATION = 2**20
SKELLAM_LARGEST_DEVIATION = 2**12
_TABLE_BITS = 256
_WORD_BITS = 64
_DIGITS = 110  # decimal digits of a weight: 2^-256 is 1e-77, and 2^18 additions and products lose at most 12
_FINE = 7  # fine variance per step^2: 2 exp(-2 pi^2 * 6.99) < 2^-195


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A distribution on first, first + 1, ...: P[X < first + i + 1] = cumulative[i] / 2^256, the last one being 1.

    leading: uint64, shape (len(cumulative),): the top word of each entry, and 2^64 - 1 for the last one.
    """

    first: int
    cumulative: tuple[int, ...] = field(repr=False)
    leading: NDArray[np.uint64] = field(repr=False)

    def invert(self, words: NDArray[np.uint64], key: bytes, /) -> Integers:
        """The samples at uniform numbers whose top words are given; their other 192 bits come from the key.

        The top word decides, unless it equals the top word of an entry (under 2^-45 a sample): then all 256 bits are compared.
        """
        index = np.searchsorted(self.leading, words, side="left")
        undecided = np.flatnonzero(self.leading[index] == words)
        rest_bytes = (_TABLE_BITS - _WORD_BITS) // 8
        rest = keystream(key, rest_bytes * len(undecided))
        for position, at in enumerate(undecided.tolist()):
            low = int.from_bytes(rest[position * rest_bytes : (position + 1) * rest_bytes], "little")
            index[at] = bisect_right(self.cumulative, (int(words[at]) << (_TABLE_BITS - _WORD_BITS)) | low)
        return index.astype(np.int64) + self.first


def _table(weights: list[Decimal], first: int) -> Table:
    """The table of probabilities proportional to `weights` on first, first + 1, ..."""
    with localcontext(prec=_DIGITS):
        sums = list(accumulate(weights))
        scale = Decimal(2**_TABLE_BITS) / sums[-1]
        cumulative = [int(part * scale) for part in sums[:-1]] + [2**_TABLE_BITS]
    leading = np.array([min(entry >> (_TABLE_BITS - _WORD_BITS), 2**_WORD_BITS - 1) for entry in cumulative], dtype=np.uint64)
    return Table(first, tuple(cumulative), leading)


def _symmetric(half: list[Decimal]) -> Table:
    """The table of P[X = x] proportional to half[|x|]."""
    return _table(half[:0:-1] + half, 1 - len(half))


def _tail(variance: Fraction) -> int:
    """An m with P[|X| > m] < 2^-200 for a discrete Gaussian, at most 2 exp(-m^2 / 2 variance) (Canonne et al. 2020)."""
    return math.isqrt(int(2 * variance * 140)) + 2


@lru_cache(maxsize=8)
def gaussian_table(variance: Fraction) -> Table:
    """P[X = x] proportional to exp(-x^2 / 2 variance) on the integers."""
    with localcontext(prec=_DIGITS):
        ratio = (-Decimal(variance.denominator) / Decimal(variance.numerator)).exp()  # exp(-1 / variance)
        weight, step, half = Decimal(1), ratio.sqrt(), []
        for _ in range(_tail(variance) + 1):
            half.append(weight)
            weight, step = weight * step, step * ratio  # x^2 grows by 2x + 1
    return _symmetric(half)


@lru_cache(maxsize=8)
def skellam_table(variance: Fraction) -> Table:
    """P[X = x] = exp(-variance) I_|x|(variance): the difference of two Poisson variables of mean variance / 2 each.

    The Bessel values come from their recurrence I_{x-1} = I_{x+1} + (2x / variance) I_x, downwards from far outside of the
    tail (Miller's algorithm: every term is positive, so no digits are lost).
    """
    tail = _skellam_tail(variance)
    with localcontext(prec=_DIGITS):
        twice = 2 * Decimal(variance.denominator) / Decimal(variance.numerator)
        above, here, half = Decimal(0), Decimal(1), []
        for x in range(2 * tail + 60, 0, -1):
            above, here = here, above + twice * x * here
            if x - 1 <= tail:
                half.append(here)
    return _symmetric(half[::-1])


def _skellam_tail(variance: Fraction) -> int:
    """An m with P[|X| > m] < 2^-200, by Bernstein: 2 exp(-m^2 / (2 variance + 2m/3)) for jumps of size 1."""
    bound = 140.0
    return int(bound / 3 + math.sqrt(bound * bound / 9 + 2 * bound * float(variance))) + 2


def _check(variance: Fraction, largest: int, hint: str) -> None:
    if not 0 < variance <= largest**2:
        raise ValueError(f"the variance must be above 0 and at most {largest}^2, not {float(variance):.3g}; {hint}")


def _invert(table: Table, key: bytes, count: int) -> Integers:
    return table.invert(random_uint64(derive_key(key, "noise words", b""), count), derive_key(key, "noise rest", b""))


def _split(variance: Fraction) -> tuple[Fraction, int, Fraction]:
    """(fine, step, coarse), exact, with fine + step^2 * coarse = variance and the last two tables small.

    With discrete Gaussians F and C of these variances, P[F + step * C = x] is exp(-x^2 / 2 variance) times the sum over
    integers j of exp(-(step * j - y)^2 / 2v), where 1/v = 1/fine + 1/(step^2 coarse) and y depends on x. That sum is constant
    in y up to the relative error 2 exp(-2 pi^2 v / step^2) (Poisson summation; compare Peikert 2010), and
    v / step^2 = 7 (1 - 7 step^2 / variance) > 6.99 here.
    """
    step = math.isqrt(int(variance / GAUSSIAN_TABLE_DEVIATION**2)) + 1
    fine = Fraction(_FINE * step**2)
    return fine, step, (variance - fine) / step**2


def discrete_gaussian(key: bytes, count: int, variance: Fraction | int) -> Integers:
    """int64, shape (count,): independent discrete Gaussians, P[x] proportional to exp(-x^2 / 2 variance).

    `variance` is the parameter sigma^2 of Canonne, Kamath and Steinke 2020, an exact rational; the true variance is never
    above it, and equal but for 1e-6 from sigma = 1 on. The key is used for these samples alone.
    Raises ValueError for a standard deviation above 2^20.
    """
    variance = Fraction(variance)
    _check(variance, GAUSSIAN_LARGEST_DEVIATION, "scale the values down")
    if variance <= GAUSSIAN_TABLE_DEVIATION**2:
        return _invert(gaussian_table(variance), derive_key(key, "discrete gaussian", b"one"), count)
    fine, step, coarse = _split(variance)
    low = _invert(gaussian_table(fine), derive_key(key, "discrete gaussian", b"fine"), count)
    high = _invert(gaussian_table(coarse), derive_key(key, "discrete gaussian", b"coarse"), count)
    return low + step * high


def discrete_gaussian_reach(variance: Fraction | int) -> int:
    """A bound on |x| for every x that `discrete_gaussian` returns for this variance: its tables are cut (see DISTANCE)."""
    variance = Fraction(variance)
    _check(variance, GAUSSIAN_LARGEST_DEVIATION, "scale the values down")
    if variance <= GAUSSIAN_TABLE_DEVIATION**2:
        return _tail(variance)
    fine, step, coarse = _split(variance)
    return _tail(fine) + step * _tail(coarse)


def skellam(key: bytes, count: int, variance: Fraction | int) -> Integers:
    """int64, shape (count,): independent Skellam variables of mean 0: a Poisson minus a Poisson of mean variance / 2 each.

    Sums of Skellam variables are Skellam, with the variances added (Agarwal, Kairouz and Liu 2021). The key is used for
    these samples alone. Raises ValueError for a standard deviation above 2^12.
    """
    variance = Fraction(variance)
    _check(variance, SKELLAM_LARGEST_DEVIATION, "scale the values down, or use the discrete Gaussian")
    return _invert(skellam_table(variance), derive_key(key, "skellam", b""), count)
