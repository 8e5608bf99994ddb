"""Numbers over seeds: means with their intervals, and numbers inside the lines of a grid."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from math import inf, isfinite, nan, sqrt
from typing import Any

from scipy.stats import t as student

from ..fl.runs.results_folder import Row
from ..reporting.run_data import DASH, number

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Spread:
    """A number over seeds. half: of Student's t interval of the mean at 95 %, deviation: standard; NaN for one seed alone."""

    mean: float
    half: float
    least: float
    most: float
    count: int
    deviation: float

    @property
    def tells(self) -> bool:
        """Whether the interval is worth the name: two seeds have one, which is wider than what it is about."""
        return self.count > 2

    def ends(self, least: float = 0.0) -> tuple[float, float]:
        """The interval, cut to what can be: from `least` to 1."""
        return max(least, self.low), min(1.0, self.high)

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half


def spread(values: Iterable[float], level: float = LEVEL) -> Spread | None:
    """Mean, t interval and range of what is finite; None of nothing."""
    seen = [v for v in values if isfinite(v)]
    if not seen:
        return None
    n, mean = len(seen), min(max(sum(seen) / len(seen), min(seen)), max(seen))  # rounded, it may lie beside values all alike
    if n == 1:
        return Spread(mean, nan, mean, mean, 1, nan)
    deviation = sqrt(sum((v - mean) ** 2 for v in seen) / (n - 1))
    return Spread(mean, quantile(n, level) * deviation / sqrt(n), min(seen), max(seen), n, deviation)


@cache
def quantile(count: int, level: float = LEVEL) -> float:
    """Of Student's t, of a mean of so many values: by which their standard error is multiplied for half of the interval."""
    return float(student.ppf((1 + level) / 2, count - 1))


def metric(row: Row, *path: str) -> float:
    """A number inside a line, NaN where there is none; infinities stay."""
    value: Any = row
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return {"inf": inf, "-inf": -inf}.get(value, nan) if isinstance(value, str) else number(value)


def percent(spot: Spread | None, least: float = 0.0) -> str:
    """The mean and the half width of its interval, "93.1 ±0.4"; of two seeds, which have no interval worth the name, both: "93.1
    (92.0 and 94.2)"; where the interval passes what can be, from `least` to 1, what is left of it: "97.1 (91.3 to 100.0)".
    """
    if spot is None:
        return DASH
    mean = f"{100 * spot.mean:.1f}"
    if spot.count == 2:
        return f"{mean} ({100 * spot.least:.1f} and {100 * spot.most:.1f})"
    if not spot.tells:
        return mean
    low, high = spot.ends(least)
    if (low, high) == (spot.low, spot.high):
        return f"{mean} ±{100 * spot.half:.1f}"
    return f"{mean} ({100 * low:.1f} to {100 * high:.1f})"


def in_points(share: float | None) -> str:
    """A share in points of 100, as "12.0"; a dash for none."""
    words = DASH if share is None else f"{100 * share:.1f}"
    return "0.0" if words == "-0.0" else words


def interval_words(seeds: int) -> str:
    """What stands behind a mean, as `percent` says it; empty for one seed."""
    words = "± half of Student's t interval of the mean at 95 %, cut to what can be"
    return words if seeds > 2 else "both seeds in brackets" if seeds == 2 else ""
