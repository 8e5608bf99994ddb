"""Breaks that may be chance: of many attacks and seeds some run may lose more than the bound with no attack to thank for it."""

from collections.abc import Mapping, Sequence

from .data import Grid, at
from .judging import Finding, Harm, State, harm_of
from .losses import lost_by_seed


def by_chance(grid: Grid, found: Mapping[str, Sequence[Finding]]) -> list[str]:
    """Whom attacks break on some seeds by accuracy, while what each of these costs in the mean may be nothing, and nothing else
    breaks it.
    """
    said, attacks = [], set[str]()
    for place, several in found.items():
        under = f" under {place}" if len(found) > 1 else ""
        for one in several:
            broke = _breaking(grid, one)
            if one.word != "breaks" or one.ended is not None or not all(map(_may_be_chance, broke)):
                continue
            ways = [
                f"by {of.attack} on {of.broke} of {of.lost.count} seeds ({100 * of.lost.mean:.1f} points in the mean)"
                for of in broke
            ]
            said.append(f"{one.defence}{under} with {at(grid, one.strength)} {', '.join(ways)}")
            attacks |= {of.attack for of in broke}
    first = "Where the mean may be none a break may be chance, the more so the more attacks and seeds are played"
    alone = "that attack" if len(attacks) == 1 else "these attacks"
    return [f"{first}: {'; '.join(said)}. More seeds of {alone} alone tell."] if said else []


def _breaking(grid: Grid, one: Finding) -> list[Harm]:
    """What each attack costs that breaks the defence by accuracy, late in the run."""
    absent = grid.absent(one.defence, one.strength, one.protection)
    harms = [harm_of(attack, lost_by_seed(rows, absent).values(), grid.bounds.loss) for attack, rows in one.rows.items()]
    return [harm for harm in harms if harm is not None and harm.state == State.BREAKS]


def _may_be_chance(harm: Harm) -> bool:
    """Whether the interval of the mean goes down to nothing, and some seed does not break."""
    return harm.lost.tells and harm.lost.mean <= harm.lost.half and harm.broke < harm.lost.count
