"""Whether an accuracy is better than that of a guess: of a defence that is at chance without attack, no attack says anything."""

from collections.abc import Iterable, Mapping
from typing import Any

NOTHING = "learned nothing without attack"
"""What is found of a defence at chance, which nothing can cost more."""
ONE_LABEL = "always saying the most frequent label"
"""What is as accurate as some that learned nothing, where labels are not alike often."""
NEAR = 0.05
"""Of the way from chance to 1, below which an accuracy is no better than chance."""


def no_better(accuracy: float, chance: float | None) -> bool:
    """Whether it is hardly above that of a guess among the labels; False where their number is not known."""
    return chance is not None and accuracy <= chance + NEAR * (1 - chance)


def gave_up(without: float, clean: float, chance: float | None) -> bool:
    """Whether a defence is no better than a guess once the attackers' data are missing, though it is without attack, as one that
    moves nothing then: that is no measure of what the data are worth.
    """
    return no_better(without, chance) and not no_better(clean, chance)


def of_rows(rows: Iterable[Mapping[str, Any]]) -> float | None:
    """Accuracy of the best guess without a look, by lines of runs: one of so many labels, or always the one that is most
    frequent; None where neither is known.
    """
    return max(_guesses(rows).values(), default=None)


def nothing_words(accuracy: float, rows: Iterable[Mapping[str, Any]]) -> str:
    """What is found of an accuracy without attack that is no better, "learned nothing without attack (8.1 %, as chance is 10.0
    %)"; empty of one that is. rows: of runs.
    """
    guesses = _guesses(rows)
    of = max(guesses, key=lambda name: guesses[name], default="")
    if not of or not no_better(accuracy, guesses[of]):
        return ""
    return f"{NOTHING} ({100 * accuracy:.1f} %, as {of} is {100 * guesses[of]:.1f} %)"


def guess_of(rows: Iterable[Mapping[str, Any]]) -> str:
    """Which of these is the best: "chance" or `ONE_LABEL`; "chance", too, where neither is known."""
    guesses = _guesses(rows)
    return max(guesses, key=lambda name: guesses[name], default="chance")


def _guesses(rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    known = [(row.get("classes") or 0, row.get("one_label") or 0.0) for row in rows]
    classes, one = max((k for k, _ in known), default=0), max((share for _, share in known), default=0.0)
    return ({"chance": 1 / classes} if classes > 1 else {}) | ({ONE_LABEL: one} if one else {})
