"""Whether an accuracy is better than that of a guess: of a defence that is at chance without attack, no attack says anything."""

from collections.abc import Iterable, Mapping
from typing import Any

NOTHING = "learned nothing without attack"
"""What is found of a defence at chance, which nothing can cost more."""
NEAR = 0.05
"""Of the way from chance to 1, below which an accuracy is no better than chance."""


def no_better(accuracy: float, chance: float | None) -> bool:
    """Whether it is hardly above that of a guess among the labels; False where their number is not known."""
    return chance is not None and accuracy <= chance + NEAR * (1 - chance)


def of_rows(rows: Iterable[Mapping[str, Any]]) -> float | None:
    """Accuracy of the best guess without a look, by lines of runs: always the label that most test records have, or one of so
    many labels; None where neither is known.
    """
    known = [(row.get("guess") or 0.0, row.get("classes") or 0) for row in rows]
    found = max((max(guess, 1 / classes) if classes > 1 else guess for guess, classes in known), default=0.0)
    return found or None


def nothing_words(accuracy: float, chance: float) -> str:
    """What is found of it, "learned nothing without attack (8.1 %, as chance is 10.0 %)"."""
    return f"{NOTHING} ({100 * accuracy:.1f} %, as chance is {100 * chance:.1f} %)"
