"""How likely it is to rank members of something above others as well by guessing: exact for few, and of runs together."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, rankdata

Values = NDArray[np.float64]
EXACT = 400
"""Pairs of a member and another up to which chances are counted, and not taken from a normal distribution."""


def by_chance(runs: Sequence[tuple[Values, Values]], same: bool = False) -> float:
    """The chance that a guess ranks at least as many pairs right, over all runs together (Mann and Whitney 1947): of 0 to 1.

    runs: members and others of each. same: whether runs are of the same members and others, and so not independent: then they
    count as if all went right or wrong together.
    """
    both = [(members, others) for members, others in runs if len(members) and len(others)]
    if not both:
        return 1.0
    won, sizes = [pairs_won(*one) for one in both], [(len(members), len(others)) for members, others in both]
    if same and len(both) > 1:
        return max(float(np.median([_of_all([w], [size]) for w, size in zip(won, sizes, strict=True)])), _of_all_same(won, sizes))
    return _of_all(won, sizes)


def pairs_won(members: Values, others: Values) -> float:
    """Pairs of a member and another of which the member scores higher, ties half."""
    m = len(members)
    ranks = rankdata(np.concatenate([members, others]))
    return float(ranks[:m].sum() - m * (m + 1) / 2)


def _of_all(won: Sequence[float], sizes: Sequence[tuple[int, int]]) -> float:
    if all(m * n <= EXACT for m, n in sizes):
        together = np.ones(1)
        for m, n in sizes:
            together = np.convolve(together, shares_of_pairs(m, n))
        return float(min(1.0, together[max(0, int(np.floor(sum(won)))) :].sum()))
    beyond = sum(won) - sum(m * n for m, n in sizes) / 2
    return float(norm.sf(beyond, scale=np.sqrt(sum(map(_variance, sizes)))))


def _of_all_same(won: Sequence[float], sizes: Sequence[tuple[int, int]]) -> float:
    """As if every run were the same throw."""
    beyond = sum(won) - sum(m * n for m, n in sizes) / 2
    return float(norm.sf(beyond, scale=sum(np.sqrt(_variance(size)) for size in sizes)))


def _variance(size: tuple[int, int]) -> float:
    """Of the number of pairs that a guess ranks right."""
    m, n = size
    return m * n * (m + n + 1) / 12


@lru_cache(maxsize=256)
def shares_of_pairs(m: int, n: int) -> Values:
    """How likely a guess ranks 0, 1, ... m n pairs of m members and n others right: float64 (m n + 1,)."""
    if not m or not n:
        return np.ones(1)
    found = np.zeros(m * n + 1)
    first, second = shares_of_pairs(m - 1, n), shares_of_pairs(m, n - 1)
    found[n : n + len(first)] += m / (m + n) * first  # whoever is last of all is a member, and above all others
    found[: len(second)] += n / (m + n) * second
    return found
