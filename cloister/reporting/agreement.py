"""How well clusters agree with planted groups, or what they are worth where nobody planted any; each measure by its name."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from .run_data import number

Summary = Mapping[str, Any]


def agreement_in_words(summary: Summary) -> list[str]:
    """Of a run with planted groups: ARI, purity by both of its definitions, groups isolated, and over how many clients where some
    are in no cluster; nothing that is not known.

    A run of attackers has groups that they are in, of which none of this is said; nor is it of one group alone, which any single
    cluster agrees with.
    """
    planted = len(set((summary.get("groups") or {}).values()))
    if summary.get("corrupt") or planted < 2:
        return []
    known = {name: number(summary.get(name)) for name in ("ari", "purity", "purity_majority", "groups_isolated")}
    words = [f"ARI {known['ari']:.2f}"] if math.isfinite(known["ari"]) else []
    if math.isfinite(known["purity_majority"]):
        words.append(f"purity {known['purity_majority']:.2f} (as FLIC defines it {known['purity']:.2f})")
    elif math.isfinite(known["purity"]):
        words.append(f"purity as FLIC defines it {known['purity']:.2f}")
    if math.isfinite(known["groups_isolated"]):
        words.append(f"{known['groups_isolated']:.0f} of {planted} groups isolated")
    return [*words, of_some] if words and (of_some := over_some(summary)) else words


def over_some(summary: Summary) -> str:
    """Over how many clients such measures are, where others are in no cluster, or in none that is known; else empty."""
    planted = {str(i) for i in summary.get("groups") or ()}
    placed = planted & {str(i) for members in summary.get("clusters") or () for i in members}
    if not placed or placed == planted:
        return ""
    others = "are in no cluster" if summary.get("apart") else "may be in any"
    return f"over {len(placed)} of {len(planted)} clients: the others {others}"


def worth_in_words(summary: Summary) -> Iterator[tuple[str, str]]:
    """Of clusters by themselves: silhouette, stability over seeds, gain over one model and over LOCAL, as far as known."""
    clear: Mapping[str, Any] = summary.get("silhouette") or {}
    if math.isfinite(value := number(clear.get("value"))):
        words = f"{value:.2f}, by the similarities of {clear.get('clients')} clients that the server saw in round"
        yield "silhouette", f"{words} {number(clear.get('round')):.0f}; 1: clusters far apart, 0: not told apart"
    of: Mapping[str, Any] = summary.get("yardsticks") or {}
    if math.isfinite(mean := number(of.get("stability"))):
        seeds = ", ".join(map(str, of.get("seeds") or ()))
        least = number(of.get("least_stability"))
        yield "stability over seeds", f"ARI {mean:.2f} between the clusters of two seeds (least {least:.2f}; also seeds {seeds})"
    sides = {"over one model": of.get("one_model"), "over LOCAL": of.get("alone")}
    for name, gain in (of.get("gains") or {}).items():
        metric = str(of.get("metric"))
        words = f"{number(gain):+.3f} of {metric}, {number(of.get('own')):.3f} against {number(sides.get(name)):.3f}"
        words += " (less is better; the gain counts how much less)" if of.get("less_is_better") else ""
        yield f"gain {name}", f"{words}; {LOYAL if summary.get('corrupt') else ''}of one seed, which tells nothing of chance"


def worth_at_first(summary: Summary) -> Iterator[str]:
    """The same of one model and of LOCAL in a sentence: accuracy alone does not tell whether the clusters brought it."""
    of: Mapping[str, Any] = summary.get("yardsticks") or {}
    own, one, alone = (number(of.get(key)) for key in ("own", "one_model", "alone"))
    if math.isfinite(own) and math.isfinite(one) and math.isfinite(alone):
        first = f"Mean {of.get('metric')} by clusters is {own:.3f}"
        first += " of the loyal clients" if summary.get("corrupt") else ""
        without = "without attack, " if summary.get("corrupt") else ""
        yield f"{first}; one model for all has {one:.3f}, every client alone {alone:.3f} ({without}one seed each)."


LOYAL = "of the loyal clients, and the other without attack; "
