"""The breakdown point of a defence: the smallest strength of an attack that breaks it, searched by bisection.

Bisection finds a crossing: a strength that breaks the defence next to one that does not. It is the breakdown point only if harm
grows with strength, and nothing promises that: an attack may be noticed when it is strong, and one seed is noise. So the search
looks at the neighbours of the crossing, at a few strengths between where the strongest does not break, goes on below whatever
breaks, and reports every strength that it tried and whether all of them fit a single crossing.

What breaks a defence is defined in `broken`; of what, is the driver's: for `cloister breakdown` one attack at this strength; for
`cloister attack` (`search.plan`) any of all attacks that it tries, by so many attackers, and then how weak the cheapest may be.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from math import comb, floor, inf, isfinite


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The strengths least, least + step, ... up to most. When one of them has broken a defence, `broken.Bounds` say.

    neighbours: strengths looked at on either side of a crossing. probes: strengths between, where the strongest does not break.
    """

    most: float
    least: float = 1.0
    step: float = 1.0
    neighbours: int = 2
    probes: int = 3

    def __post_init__(self) -> None:
        if not (0 < self.step < inf and isfinite(self.least) and isfinite(self.most) and self.least <= self.most):
            raise ValueError(
                f"a search goes from least up to most in steps above 0, not from least={self.least:g} to most={self.most:g} in"
                f" steps of step={self.step:g}"
            )
        if self.neighbours < 0 or self.probes < 0:
            raise ValueError(f"neighbours and probes of a search are 0 or more, not {self}")
        if len(self) > 100_000:
            raise ValueError(f"{len(self)} strengths are more than a search takes; choose a larger step")

    def __len__(self) -> int:
        return floor((self.most - self.least) / self.step + 1e-9) + 1

    def at(self, k: int) -> float:
        """The k-th strength, from 0, rounded to nine digits so that 0.1 + 0.2 is 0.3."""
        return float(f"{self.least + k * self.step:.9g}")


@dataclass(frozen=True, slots=True)
class Found:
    """breaks: the smallest strength tried that breaks, None if none did. holds: the strength a step below it, if there is one,
    which does not; without `breaks` the largest that was tried. single: whether the strengths tried fit one crossing.
    tried: every strength in ascending order, and whether it broke.
    """

    breaks: float | None
    holds: float | None
    single: bool
    tried: tuple[tuple[float, bool], ...]


Search = Generator[float, bool, Found]
"""Yields a strength, is sent whether it breaks the defence, and returns what was found."""


def search(steps: Steps) -> Search:
    """The search, with whoever drives it to try strengths. No strength is tried twice."""
    known: dict[int, bool] = {}
    top = len(steps) - 1

    def broken(k: int) -> Generator[float, bool, bool]:
        if k not in known:
            known[k] = yield steps.at(k)
        return known[k]

    high: int | None = top if (yield from broken(top)) else None
    if high is None:
        for k in sorted({round(top * p / (steps.probes + 1)) for p in range(1, steps.probes + 1)}):
            if (yield from broken(k)):
                high = k
                break
    elif top:
        yield from broken(0)
    while high is not None:
        high = min(k for k, breaks in known.items() if breaks)
        low = max((k for k, breaks in known.items() if not breaks and k < high), default=-1)
        while high - low > 1:
            middle = (low + high) // 2
            if (yield from broken(middle)):
                high = middle
            else:
                low = middle
        for k in range(max(0, high - 1 - steps.neighbours), min(top, high + steps.neighbours) + 1):
            yield from broken(k)
        if min(k for k, breaks in known.items() if breaks) == high:
            break
    tried = tuple((steps.at(k), known[k]) for k in sorted(known))
    if high is None:
        return Found(None, steps.at(max(known)), True, tried)
    single = all(known[k] == (k >= high) for k in known)
    return Found(steps.at(high), steps.at(high - 1) if high else None, single, tried)


def searched(steps: Steps, breaks: Callable[[float], bool]) -> Found:
    """The search driven by a function of the strength."""
    driven = search(steps)
    try:
        strength = next(driven)
        while True:
            strength = driven.send(breaks(strength))
    except StopIteration as end:
        found: Found = end.value
        return found


@dataclass(frozen=True, slots=True)
class MedianInterval:
    """The median of thresholds and an interval that covers the true one with probability `coverage`. inf: above the strongest.

    median, upper: the two values in the middle, which differ only of an even number of them. Half of the values or more are at
    most `median`, and both are values that were given: no strength stands there that was never tried.
    """

    median: float
    upper: float
    low: float
    high: float
    coverage: float


def median_interval(values: Sequence[float], level: float = 0.95) -> MedianInterval:
    """The distribution-free interval of order statistics (David and Nagaraja 2003, section 7.1).

    The narrowest x_(r) .. x_(n + 1 - r) whose coverage, 1 - 2 P(Bin(n, 1/2) < r), reaches the level; the whole range with the
    coverage it has where none does (93.75 % at n = 5). Infinite values, of searches in which nothing broke, are only ranked.
    """
    if not values:
        raise ValueError("an interval needs at least one value")
    ordered = sorted(values)
    n = len(ordered)
    covered = [1 - 2 * sum(comb(n, k) for k in range(r)) / 2**n for r in range(1, n // 2 + 1)] or [0.0]
    r = max((r for r, share in enumerate(covered, 1) if share >= level), default=1)
    coverage = max(0.0, covered[r - 1])
    return MedianInterval(ordered[(n - 1) // 2], ordered[n // 2], ordered[r - 1], ordered[n - r], coverage)
