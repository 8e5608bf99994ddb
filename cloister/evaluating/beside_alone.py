"""Whether a defence that holds leaves loyal clients more than each would have by training alone, where a grid has such."""

from collections.abc import Mapping, Sequence
from math import isfinite

from ..grids.spread import metric, spread
from .data import Grid, at
from .judging import Finding

ALONE = "Local"
"""The algorithm by which every client trains by itself."""


def no_better_than_alone(grid: Grid, found: Mapping[str, Sequence[Finding]]) -> list[str]:
    """Who holds, and under its worst attack is not told from clients that train alone, paired by seed: there a defence is worth
    nothing, whatever it holds.
    """
    alone = [name for name, of in grid.about["defences"].items() if isinstance(of, Mapping) and of.get("type") == ALONE]
    said = []
    for place, several in found.items():
        under = f" under {place}" if len(found) > 1 else ""
        for one in several:
            if one.holds and one.harm and one.defence not in alone:
                said += [f"{one.defence}{under} {words}" for name in alone if (words := _beside(grid, place, one, name))][:1]
    words = "A defence is worth what it is better by than training alone; under its worst attack seeds do not tell from that"
    return [f"{words}: {'; '.join(said)}."] if said else []


def _beside(grid: Grid, place: str, one: Finding, alone: str) -> str:
    """What both have, where the one is not better by the whole interval; empty where it is, or nobody can say."""
    attack = one.harm.attack if one.harm else ""
    rows = grid.rows(attack, alone, one.strength, place)
    mine = {row["seed"]: metric(row, "accuracy", "late") for row in one.rows.get(attack, ())}
    theirs = {row["seed"]: metric(row, "accuracy", "late") for row in rows if row["status"] == "done"}
    both = sorted(seed for seed in mine.keys() & theirs.keys() if isfinite(mine[seed]) and isfinite(theirs[seed]))
    gap, own, other = spread(mine[s] - theirs[s] for s in both), spread(mine[s] for s in both), spread(theirs[s] for s in both)
    if gap is None or own is None or other is None or (gap.count > 1 and gap.low > 0):
        return ""
    return f"with {at(grid, one.strength)} ({100 * own.mean:.1f} %, {alone} {100 * other.mean:.1f} %)"
