"""What is so in a folder of a comparison, reckoned anew from its lines alone: nothing of `cloister.comparing` is asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import comb, inf, isfinite, sqrt
from statistics import fmean, stdev

from scipy.stats import t as student

from .compared_tables import CLIENTS, Compare
from .verdict_tables import Row
from .verdict_truth import known, number

Block = tuple[str, str]


@cache
def _quantiles(level: float) -> list[float]:
    """Of Student's t, by the number of seeds: of 2 up to 1000."""
    found: list[float] = student.ppf(level, [*range(1, 1000)]).tolist()
    return found


def troubled(row: Row, name: str) -> bool:
    """Whether a run diverged, came to "nothing" by a loss that never fell, or has something else of this name."""
    grown = row.get("diverged") or {}
    guesses = "guess" in grown and grown["last"] < 2 * grown["guess"]
    return {"diverged": bool(row.get("not_finite") or (grown and not guesses)), "nothing": guesses}.get(name, bool(row.get(name)))


@dataclass(frozen=True)
class Duel:
    """One method against another, where each has all seeds. needed: seeds that would decide, inf beyond 1000."""

    outcome: str
    gap: float
    needed: float = inf


def duel(one: Sequence[float], other: Sequence[float], pairs: int, margin: float) -> Duel:
    gaps = [a - b for a, b in zip(one, other, strict=True)]
    n, mean = len(gaps), fmean(gaps)
    if n < 2:
        return Duel("undecided", mean)
    deviation, level = max(stdev(gaps), margin / 10), 1 - 0.05 / pairs / 2

    def half(count: int) -> float:
        return _quantiles(level)[count - 2] * deviation / sqrt(count)

    if abs(mean) > half(n):
        return Duel("win" if mean > 0 else "loss", mean)
    if abs(mean) + half(n) <= margin:
        return Duel("tie", mean)
    reach = max(abs(mean), margin - abs(mean))
    return Duel("undecided", mean, next((k for k in range(n + 1, 1001) if half(k) < reach), inf))


class Lines:
    """A folder's lines, and what follows from them."""

    def __init__(self, table: Compare) -> None:
        self.about = table.about
        self.seeds: list[int] = self.about["seeds"]
        self.methods, self.attacks = [*self.about["methods"]], [*self.about["attacks"]]
        self.blocks: list[Block] = [*product(self.about["data"], self.about["protections"])]
        self.yardstick: str = self.about["yardstick"]
        self.of: dict[tuple[Block, str, str | None], dict[int, Row]] = {}
        for row in (row for row in table.rows if row["protection"] is not None):  # else of a search
            self.of.setdefault(((row["data"], row["protection"]), row["method"], row["attack"]), {})[row["seed"]] = row
        played = [(b, m, a) for b, m in product(self.blocks, self.methods)
                  for a in (None, *(self.attacks if b[1] in self.about["attacked"] else ()))]  # fmt: skip
        self.complete = all(len(self.of.get(spot, ())) == len(self.seeds) for spot in played)

    def done(self, block: Block, method: str, attack: str | None = None) -> list[Row]:
        rows = self.of.get((block, method, attack), {})
        return [rows[s] for s in self.seeds if s in rows and rows[s]["status"] == "done"]

    def accuracies(self, block: Block, method: str, attack: str | None = None) -> list[float]:
        """Of the seeds that have one."""
        return known(number(row, "accuracy", "mean") for row in self.done(block, method, attack))

    def some(self, block: Block, method: str, attack: str | None = None) -> bool:
        """Whether some mean is not of every client."""
        rows = [row for row in self.done(block, method, attack) if row["accuracy"]["of"]]
        return any(len(row["accuracy"]["of"]) < CLIENTS - len(row.get("members") or ()) for row in rows)

    def whole(self, block: Block, method: str, attack: str | None = None) -> bool:
        """Whether every seed has a result, of every client."""
        return len(self.accuracies(block, method, attack)) == len(self.seeds) and not self.some(block, method, attack)

    def spots(self, name: str) -> list[tuple[Block, str]]:
        """Where some run without attack is troubled by this."""
        return [(b, m) for b in self.blocks for m in self.methods if any(troubled(row, name) for row in self.done(b, m))]

    def at_chance(self) -> dict[tuple[Block, str], float]:
        """Mean accuracy without attack of those that are no better than always saying the most frequent label, by as much as a
        twentieth of what is above it; but for those whose training or sums are said to have come to nothing.
        """
        told = {spot for name in ("diverged", "nothing", "nothing_summed") for spot in self.spots(name)}
        means = {
            (b, m): fmean(of) for b in self.blocks for m in self.methods
            if (b, m) not in told and (of := self.accuracies(b, m)) and any("one_label" in row for row in self.done(b, m))
        }  # fmt: skip
        return {spot: mean for spot, mean in means.items() if mean <= 0.12 + 0.05 * 0.88}

    def one_label(self, block: Block) -> float:
        """What always saying the most frequent label has there; 0 where no line says."""
        return max((row.get("one_label", 0.0) for m in self.methods for row in self.done(block, m)), default=0.0)

    def learned(self, block: Block) -> bool:
        """Whether some method is better than that, with no seed on which it came to nothing."""
        bad = {spot for name in ("diverged", "nothing", "nothing_summed") for spot in self.spots(name)} | {*self.at_chance()}
        return any(self.accuracies(block, m) and (block, m) not in bad for m in self.methods)

    def compared(self, block: Block, attack: str | None = None) -> dict[str, list[float]]:
        return {m: self.accuracies(block, m, attack) for m in self.methods if self.whole(block, m, attack)}

    def judged(self, block: Block) -> dict[str, list[float]]:
        """The same of a block of which nothing is missing; else nothing."""
        there = all(len(self.of.get((block, m, None), ())) == len(self.seeds) for m in self.methods)
        return self.compared(block) if there else {}

    def best(self, block: Block) -> list[str]:
        means = {m: fmean(of) for m, of in self.judged(block).items()}
        return [m for m in means if means[m] >= max(means.values()) - 1e-12]

    def duel(self, block: Block, one: str, other: str, attack: str | None = None) -> Duel:
        of = self.compared(block, attack)
        return duel(of[one], of[other], max(1, comb(len(of), 2)), self.about["margin"])

    def over(self, block: Block, method: str) -> tuple[float, bool]:
        """By how much it is above the yardstick on the seeds that both have; and whether that is of all seeds and clients."""
        of = [self.of.get((block, m, None), {}) for m in (method, self.yardstick)]
        gaps = known(
            number(of[0][s], "accuracy", "mean") - number(of[1][s], "accuracy", "mean")
            for s in self.seeds
            if all(s in rows and rows[s]["status"] == "done" for rows in of)
        )
        return (fmean(gaps) if gaps else inf), self.whole(block, method) and self.whole(block, self.yardstick)

    def lost(self, block: Block, method: str, attack: str) -> list[float]:
        """What loyal clients have less than the same without attack, by seed that has both."""
        gaps = list[float]()
        for row in self.done(block, method, attack):
            clean = self.of.get((block, method, None), {}).get(row["seed"]) or {}
            before = (clean.get("accuracy") or {}).get("of") or {}
            common = [before[i] - v for i, v in row["accuracy"]["of"].items() if i in before]
            gaps += [fmean(common)] if common else []
        return gaps

    def needs(self, block: Block, one: str, other: str) -> str:
        """What is said of a pair that seeds do not part."""
        if len(self.seeds) < 2:
            return "undecided, one seed"
        needed = self.duel(block, one, other).needed
        return f"undecided, about {needed:g} seeds needed" if isfinite(needed) else "undecided, over 1000 seeds needed"
