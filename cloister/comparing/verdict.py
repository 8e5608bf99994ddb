"""Who is better, said only where seeds can tell: paired intervals that hold for all pairs of a block at once.

For each pair of methods the differences of their mean accuracies, seed by seed, have Student's t interval; each at level
1 - 0.05 / pairs (Bonferroni), so that with 95 % confidence all of them hold, whichever pair is looked at, also that with the best
one. A block is one data set under one protection; of several together nothing is claimed. A win is an interval on one side of 0.
A tie is one that holds 0 and lies within the margin. All else is undecided, with the number of seeds at which, were mean and
deviation of the differences to stay what they are, it would be a win or a tie.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import comb, inf, isfinite, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from ..grids.words import names_words
from ..reporting.headings import Said
from ..threat_models.chance import ONE_LABEL, guess_of, of_rows
from .data import Found, Spot

LEVEL = 0.05
ONE_SEED = "One seed tells nothing of chance, so no method is called better."
MOST = 1000
"""Seeds beyond which nobody is told a number."""

MUCH = 0.5
"""Of the best accuracy, from which on that of a guess stands beside it."""

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
    """Half an interval's length."""
    return _quantile(n, pairs) * deviation / sqrt(n)


@cache
def _quantile(n: int, pairs: int) -> float:
    return float(student.ppf(1 - LEVEL / pairs / 2, n - 1))


@cache
def _halves(pairs: int) -> NDArray[np.float64]:
    """The same at a deviation of 1, of 2 seeds up to `MOST`."""
    counts = np.arange(2, MOST + 1)
    found: NDArray[np.float64] = student.ppf(1 - LEVEL / pairs / 2, counts - 1) / np.sqrt(counts)
    return found


def _needed(deviation: float, reach: float, n: int, pairs: int) -> int | None:
    """The least number of seeds whose interval is shorter than `reach` on each side; None where that is beyond `MOST`."""
    enough = np.flatnonzero(_halves(pairs)[n - 1 :] * deviation < reach)
    return n + 1 + int(enough[0]) if len(enough) else None


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


def whole_of(found: Found, data: str, protection: str) -> dict[str, dict[int, float]]:
    """Accuracies by seed of every method of a block that has a result with every seed and of every client."""
    spots = {m: Spot(data, m, protection) for m in found.methods}
    known = {m: found.by_seed(spot, "accuracy", "mean") for m, spot in spots.items() if not found.without(spot)}
    return {m: of for m, of in known.items() if all(map(isfinite, of.values()))}


def pairs_of(methods: Sequence[str]) -> int:
    """How many intervals are to hold together where these are compared."""
    return max(1, comb(len(methods), 2))


def standings(found: Found, data: str, protection: str) -> dict[str, Standing]:
    """Of every method of a block that has a result with every seed and of every client; nothing of the others, who would be
    paired with too few, or with means over other clients.

    Nothing at all before every run without attack of the block has a line: who is missing may be the best.
    """
    if any(len(found.cells.get(Spot(data, m, protection), ())) < len(found.seeds) for m in found.methods):
        return {}
    whole = whole_of(found, data, protection)
    means = {m: sum(of.values()) / len(of) for m, of in whole.items()}
    pairs, margin = pairs_of([*whole]), float(found.about["margin"])
    duels: dict[tuple[str, str], Paired] = {}
    for one, other in combinations(whole, 2):
        duels[one, other] = paired(whole[one], whole[other], pairs, margin)
        duels[other, one] = duels[one, other].mirrored
    best = max(means, key=lambda m: means[m], default="")
    counts = {m: [d.outcome for (one, _), d in duels.items() if one == m] for m in whole}
    return {
        m: Standing(
            means[m] >= means[best] - 1e-12,  # equal but for how they are added up
            None if m == best else duels[m, best],
            *(counts[m].count(outcome) for outcome in ("win", "loss", "tie", "undecided")),
        )
        for m in whole
    }


def headline(found: Found) -> str:
    """The comparison in a few sentences; no verdict before every cell is there."""
    if not found.complete:
        return "No verdict: not every cell is played yet."
    said = " ".join(f"Highest mean accuracy {_said(found, *block)}" for block in found.blocks)
    said = " ".join(filter(None, (said, unlike_words(found))))
    return f"{ONE_SEED} {said}" if len(found.seeds) == 1 else said


def unlike_words(found: Found) -> str:
    """Over how many configurations each method was searched, where that is not the same for all: a sentence, or empty."""
    of: dict[int, list[str]] = {}
    for method in found.methods if found.about["search"] is not None else ():
        of.setdefault(len(found.method(method)["configurations"]), []).append(method)
    if len(of) < 2:
        return ""
    (most, first), *others = sorted(of.items(), reverse=True)
    said = [f"{names_words(first)} over {most} configurations"]
    said += [f"{names_words(names)} {f'over {count}' if count > 1 else 'not at all'}" for count, names in others]
    return f"Not searched alike: {'; '.join(said)}."


def _under(found: Found, data: str, protection: str) -> str:
    """Who has most and who least under each attack, and whom seeds do not tell from the first; empty where none was played."""
    said = []
    for attack in found.attacks if protection in found.attacked else ():
        spots = {m: Spot(data, m, protection, attack) for m in found.methods}
        whole = {m: found.over_seeds(spot, "accuracy", "mean") for m, spot in spots.items() if not found.without(spot)}
        means = {m: of.mean for m, of in whole.items() if of is not None}
        words = "nobody is compared"
        if len(means) > 1:
            best, worst = max(means, key=lambda m: means[m]), min(means, key=lambda m: means[m])
            words = f"loyal clients have from {best}, {100 * means[best]:.1f} %, to {worst}, {100 * means[worst]:.1f} %"
            if means[best] == means[worst]:
                words = f"loyal clients have {100 * means[best]:.1f} % by {names_words([*means])}"
            elif alike := _not_told_from(found, best, [spots[m] for m in means]):
                words += f"; {len(found.seeds)} seeds cannot tell {best} from {', '.join(alike)}"
        apart = ", ".join(_some(found, spot) for m, spot in spots.items() if m not in means)
        if len(means) > 1 or apart:
            said.append(f" Under {attack} {words}{f'; not compared: {apart}' if apart else ''}.")
    return "".join(said)


def _not_told_from(found: Found, best: str, spots: Sequence[Spot]) -> list[str]:
    """Methods of one attack whose paired interval with the best holds 0, all pairs together; none by one seed, which says so."""
    of = {spot.method: found.by_seed(spot, "accuracy", "mean") for spot in spots}
    pairs, margin = pairs_of([*of]), float(found.about["margin"])
    others = [m for m in of if m != best and len(found.seeds) > 1]
    return [m for m in others if paired(of[best], of[m], pairs, margin).outcome in ("undecided", "tie")]


def _some(found: Found, spot: Spot) -> str:
    """A method that has no result on some seed, or of some client, with what there is of it."""
    of = found.over_seeds(spot, "accuracy", "mean")
    partly = "not of every client" if found.partly_served(spot) else ""
    if of is None:
        return f"{spot.method} (no result)"
    there = f"{100 * of.mean:.1f} % on {of.count} of {len(found.seeds)} seeds" if of.count < len(found.seeds) else ""
    return f"{spot.method} ({', '.join(filter(None, (there, partly)))})"


def sentences(found: Found) -> Said:
    """The same as a page has it: where there are several blocks, a line for each, and who was not searched alike below."""
    if not found.complete or len(found.blocks) == 1:
        return Said(((headline(found), ()),))
    first = f"{ONE_SEED} Highest mean accuracy:" if len(found.seeds) == 1 else "Highest mean accuracy:"
    return Said(
        ((first, tuple(_said(found, *block) for block in found.blocks)),), (unlike,) if (unlike := unlike_words(found)) else ()
    )


def _place(found: Found, data: str, protection: str) -> str:
    where = f"on {data} under {protection}" if len(found.protections) > 1 else f"on {data}"
    return f"{where} without attack" if found.attacks else where


def _highest(found: Found, data: str, protection: str, judged: Mapping[str, Standing]) -> str:
    """Who has the highest mean of a block."""
    best = [m for m, s in judged.items() if s.best]
    spot = found.over_seeds(Spot(data, best[0], protection), "accuracy", "mean") if best else None
    nobody = "nobody has a result on every seed and of every client"
    has = f"{names_words(best)}, {100 * spot.mean:.1f} %{_beside_guess(found, data, protection, spot.mean)}" if spot else nobody
    return f"{_place(found, data, protection)}: {has}"


def _beside_guess(found: Found, data: str, protection: str, best: float) -> str:
    """What always saying the most frequent label has, where that is much of the best accuracy."""
    lines = [row for method in found.methods for row in found.lines(Spot(data, method, protection))]
    guess = of_rows(lines) or 0.0
    return f" ({ONE_LABEL} has {100 * guess:.1f} %)" if guess_of(lines) == ONE_LABEL and guess >= MUCH * best else ""


def _apart(found: Found, data: str, protection: str, judged: Mapping[str, Standing]) -> str:
    """Who has no result on some seed, or of some client, and so is compared with nobody, with what there is of it."""
    said = [_some(found, Spot(data, method, protection)) for method in found.methods if method not in judged]
    return f" Not compared, as not every seed and client has a result: {', '.join(said)}." if said else ""


def _said(found: Found, data: str, protection: str) -> str:
    """Whom the best of a block leaves behind, with whom it ties, and whom seeds do not tell from it, which one seed says of
    nobody; and what is said under attack.
    """
    judged = standings(found, data, protection)
    of = {m: s.against.outcome for m, s in judged.items() if s.against and not s.best}
    others = {outcome: [m for m, o in of.items() if o == outcome] for outcome in ("loss", "tie", "undecided")}
    words = [f"behind it: {', '.join(others['loss'])}"] if others["loss"] else []
    words += [f"tied with it: {', '.join(others['tie'])}"] if others["tie"] else []
    told = f"{len(found.seeds)} seeds cannot tell it from: "
    words += [told + ", ".join(others["undecided"])] if others["undecided"] else []
    highest, apart = _highest(found, data, protection, judged), _apart(found, data, protection, judged)
    under = _under(found, data, protection)
    if len(found.seeds) == 1 or not judged:
        return f"{highest}.{apart}{under}"
    return f"{highest}; {'; '.join(words) or ('no other is compared' if apart else 'there is no other')}.{apart}{under}"
