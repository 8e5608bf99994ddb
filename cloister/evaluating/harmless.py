"""Where the attacks of a grid leave the mean as good as it was: what holds against such attacks has shown little."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..grids.words import names_words
from .best import strengths_without_result
from .data import Grid
from .judging import SPENT, Finding
from .loss_words import lost_in_the_mean, verb_of

UNDEFENDED = frozenset({"FedAvg", "FedProx"})
"""Algorithms that take the mean of all updates."""


def harm_nobody(grid: Grid, found: Mapping[str, Sequence[Finding]]) -> list[str]:
    """That no attack takes more than the bound from a mean, which defends nothing, where others are said to hold; of a mean with
    a result at every strength, as what lacks may have broken it.
    """
    said: dict[str, str] = {}
    for place, several in found.items():
        undefended = [one for one in several if one.attackers and _undefended(grid.about["defences"].get(one.defence))]
        plain = [one for one in undefended if not strengths_without_result(grid, several, one.defence, place)]
        others = [one for one in several if one not in undefended]
        whole = all(one.holds or one.word in SPENT for one in undefended)
        if not (plain and whole and any(one.holds for one in others)):
            continue
        names = list(dict.fromkeys(one.defence for one in plain))
        worst = max(plain, key=lost_in_the_mean)
        lost = max(0.0, 100 * lost_in_the_mean(worst))
        most = f"{lost:.1f} points in the mean at most" + (f", to {worst.harm.attack}" if lost and worst.harm else "")
        under = f" under {place}" if len(found) > 1 else ""
        said[place] = f"{names_words(names)}{under}, which {verb_of(names, 'defend')} nothing ({most})"
    if not said:
        return []
    return [
        f"No attack of this grid takes more than the bound from {'; '.join(said.values())}: that others hold against these tells"
        " little of them. Take more attackers, other or stronger attacks, or what `cloister attack` finds."
    ]


def _undefended(described: Any) -> bool:
    """Whether a defence, as a folder describes it, is the mean of all updates."""
    if not isinstance(described, Mapping):
        return False
    rule = described.get("rule")
    return described.get("type") in UNDEFENDED or (
        isinstance(rule, Mapping) and rule.get("type") == "Mean" and "its code" not in rule
    )
