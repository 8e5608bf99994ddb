"""Who is better, said only where seeds can tell: paired intervals that hold for all pairs of a table at once.

For each pair of methods the differences of their mean accuracies, seed by seed, have Student's t interval; each at level
1 - 0.05 / pairs (Bonferroni), so that with 95 % confidence all of them hold, whichever pair is looked at, also that with the best
one. A win is an interval on one side of 0. A tie is one that holds 0 and lies within the margin. All else is undecided, with the
number of seeds at which, were mean and deviation of the differences to stay what they are, it would be a win or a tie.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from math import comb, inf, isfinite, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from ..reporting.headings import Said
from .data import Found, Spot

LEVEL = 0.05
ONE_SEED = "One seed tells nothing of chance, so no method is called better."
MOST = 1000
"""Seeds beyond which nobody is told a number."""

Outcome = Literal["win", "loss", "tie", "undecided"]


@dataclass(frozen=True, slots=True)
class Paired:
    """One method against another. gap: mean difference, in accuracy; NaN without a common seed. low, high: of the interval,
    infinite without one. seeds: how many both have. needed: about how many would decide, None where it is decided or nobody
    can say.
    """

    outcome: Outcome
    gap: float
    low: float
    high: float
    seeds: int
    needed: int | None = None

    @property
    def mirrored(self) -> "Paired":
        """The other against the one."""
        swapped: dict[Outcome, Outcome] = {"win": "loss", "loss": "win"}
        outcome = swapped.get(self.outcome, self.outcome)
        return Paired(outcome, -self.gap, -self.high, -self.low, self.seeds, self.needed)


def paired(one: Mapping[int, float], other: Mapping[int, float], pairs: int, margin: float) -> Paired:
    """One method's accuracies by seed against another's. pairs: how many intervals are to hold together."""
    gaps = [v - other[seed] for seed, v in one.items() if seed in other and isfinite(v) and isfinite(other[seed])]
    n = len(gaps)
    mean = sum(gaps) / n if n else float("nan")
    if n < 2:
        return Paired("undecided", mean, -inf, inf, n)
    deviation = max(sqrt(sum((g - mean) ** 2 for g in gaps) / (n - 1)), margin / 10)  # equal gaps of few seeds are chance, too
    half = _half(deviation, n, pairs)
    low, high = mean - half, mean + half
    if low > 0 or high < 0:
        return Paired("win" if low > 0 else "loss", mean, low, high, n)
    if -margin <= low and high <= margin:
        return Paired("tie", mean, low, high, n)
    reach = max(abs(mean), margin - abs(mean))
    return Paired("undecided", mean, low, high, n, _needed(deviation, reach, n, pairs))


def _half(deviation: float, n: int, pairs: int) -> float:
    return float(_halves(deviation, np.array([n]), pairs)[0])


def _halves(deviation: float, n: NDArray[np.int64], pairs: int) -> NDArray[np.float64]:
    """Half an interval's length at each number of seeds."""
    found: NDArray[np.float64] = student.ppf(1 - LEVEL / pairs / 2, n - 1) * deviation / np.sqrt(n)
    return found


def _needed(deviation: float, reach: float, n: int, pairs: int) -> int | None:
    """The least number of seeds whose interval is shorter than `reach` on each side; None where that is beyond `MOST`."""
    counts = np.arange(n + 1, MOST + 1)
    enough = counts[_halves(deviation, counts, pairs) < reach]
    return int(enough[0]) if len(enough) else None


@dataclass(frozen=True, slots=True)
class Standing:
    """How a method stands in its block. best: whether no mean is higher, of one or several. against: the first of the best, by
    its seeds; None for that one. wins, losses, ties, undecided: against all others with a result.
    """

    best: bool
    against: Paired | None
    wins: int
    losses: int
    ties: int
    undecided: int

    @property
    def words(self) -> str:
        """What the table says."""
        if self.best or self.against is None:
            return "highest mean"
        match self.against.outcome:
            case "loss":
                return "behind"
            case "undecided":
                return undecided_words(self.against)
            case outcome:
                return outcome


def undecided_words(pair: Paired) -> str:
    """What is said of a pair that seeds do not part."""
    if pair.seeds < 2:
        return "undecided, one seed" if pair.seeds else "undecided, no common seed"
    return f"undecided, about {pair.needed} seeds needed" if pair.needed else f"undecided, over {MOST} seeds needed"


def standings(found: Found, data: str, protection: str) -> dict[str, Standing]:
    """Of every method of a block that has a result with every seed and of every client; nothing of the others, who would be
    paired with too few, or with means over other clients.

    Nothing at all before every run without attack of the block has a line: who is missing may be the best.
    """
    if any(len(found.cells.get(Spot(data, m, protection), ())) < len(found.seeds) for m in found.methods):
        return {}
    known = {m: found.by_seed(Spot(data, m, protection), "accuracy", "mean") for m in found.methods}
    whole = {m: of for m, of in known.items() if not found.without(Spot(data, m, protection)) and all(map(isfinite, of.values()))}
    means = {m: sum(of.values()) / len(of) for m, of in whole.items()}
    pairs, margin = max(1, comb(len(whole), 2)), float(found.about["margin"])
    duels: dict[tuple[str, str], Paired] = {}
    for one, other in combinations(whole, 2):
        duels[one, other] = paired(whole[one], whole[other], pairs, margin)
        duels[other, one] = duels[one, other].mirrored
    best = max(means, key=lambda m: means[m], default="")
    counts = {m: [d.outcome for (one, _), d in duels.items() if one == m] for m in whole}
    return {
        m: Standing(
            means[m] >= means[best],
            None if m == best else duels[m, best],
            *(counts[m].count(outcome) for outcome in ("win", "loss", "tie", "undecided")),
        )
        for m in whole
    }


def headline(found: Found) -> str:
    """The comparison in a few sentences; no verdict before every cell is there."""
    if not found.complete:
        return "No verdict: not every cell is played yet."
    if len(found.seeds) == 1:
        said = [_highest(found, *block) for block in found.blocks]
        return f"{ONE_SEED} Highest mean accuracy {'; '.join(said)}.{''.join(_apart(found, *block) for block in found.blocks)}"
    return " ".join(f"Highest mean accuracy {_said(found, *block)}" for block in found.blocks)


def _under(found: Found, data: str, protection: str) -> str:
    """Who is the best and who the worst under each attack; empty where none was played."""
    said = []
    for attack in found.attacks if protection in found.attacked else ():
        spots = {m: Spot(data, m, protection, attack) for m in found.methods}
        whole = {m: found.over_seeds(spot, "accuracy", "mean") for m, spot in spots.items() if not found.without(spot)}
        means = {m: of.mean for m, of in whole.items() if of is not None}
        words = "nobody is compared"
        if len(means) > 1:
            best, worst = max(means, key=lambda m: means[m]), min(means, key=lambda m: means[m])
            words = f"loyal clients have from {best}, {100 * means[best]:.1f} %, to {worst}, {100 * means[worst]:.1f} %"
        apart = ", ".join(_some(found, spot) for m, spot in spots.items() if m not in means)
        if len(means) > 1 or apart:
            said.append(f" Under {attack} {words}{f'; not compared: {apart}' if apart else ''}.")
    return "".join(said)


def _some(found: Found, spot: Spot) -> str:
    """A method that has no result on some seed, or of some client, with what there is of it."""
    of = found.over_seeds(spot, "accuracy", "mean")
    there = f"{100 * of.mean:.1f} % on {of.count} of {len(found.seeds)} seeds" if of else "no result"
    partly = of is not None and of.count == len(found.seeds)
    return f"{spot.method} ({'not of every client' if partly else there})"


def sentences(found: Found) -> Said:
    """The same as a page has it: where there are several blocks, a line for each."""
    if not found.complete or len(found.blocks) == 1:
        return Said(((headline(found), ()),))
    one = len(found.seeds) == 1
    lines = tuple(f"{_highest(found, *block)}.{_apart(found, *block)}" if one else _said(found, *block) for block in found.blocks)
    return Said(((f"{ONE_SEED} Highest mean accuracy:" if one else "Highest mean accuracy:", lines),))


def _place(found: Found, data: str, protection: str) -> str:
    where = f"on {data} under {protection}" if len(found.protections) > 1 else f"on {data}"
    return f"{where} without attack" if found.attacks else where


def _highest(found: Found, data: str, protection: str) -> str:
    """Who has the highest mean of a block."""
    best = [m for m, s in standings(found, data, protection).items() if s.best]
    spot = found.over_seeds(Spot(data, best[0], protection), "accuracy", "mean") if best else None
    who = " and ".join(filter(None, (", ".join(best[:-1]), *best[-1:])))
    return f"{_place(found, data, protection)}: {f'{who}, {100 * spot.mean:.1f} %' if spot else 'nobody has a result'}"


def _apart(found: Found, data: str, protection: str) -> str:
    """Who has no result on some seed, or of some client, and so is compared with nobody, with what there is of it."""
    judged, said = standings(found, data, protection), []
    for method in found.methods if judged else ():
        if method not in judged:
            said.append(_some(found, Spot(data, method, protection)))
    return f" Not compared, as not every seed and client has a result: {', '.join(said)}." if said else ""


def _said(found: Found, data: str, protection: str) -> str:
    """Whom the best of a block leaves behind, with whom it ties, and whom seeds do not tell from it."""
    of = {m: s.against.outcome for m, s in standings(found, data, protection).items() if s.against and not s.best}
    others = {outcome: [m for m, o in of.items() if o == outcome] for outcome in ("loss", "tie", "undecided")}
    words = [f"behind it: {', '.join(others['loss'])}"] if others["loss"] else []
    words += [f"tied with it: {', '.join(others['tie'])}"] if others["tie"] else []
    told = f"{len(found.seeds)} seeds cannot tell it from: "
    words += [told + ", ".join(others["undecided"])] if others["undecided"] else []
    highest, apart = _highest(found, data, protection), _apart(found, data, protection)
    under = _under(found, data, protection)
    return f"{highest}; {'; '.join(words) or ('no other is compared' if apart else 'there is no other')}.{apart}{under}"
