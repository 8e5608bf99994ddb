"""Whether an accuracy is better than that of a guess: of a defence that is at chance without attack, no attack says anything."""

NOTHING = "learned nothing without attack"
"""What is found of a defence at chance, which nothing can cost more."""
ONE_LABEL = "always saying the most frequent label"
"""What is as accurate as some that learned nothing, where labels are not alike often."""
NEAR = 0.05
"""Of the way from chance to 1, below which an accuracy is no better than chance."""


def no_better(accuracy: float, chance: float | None) -> bool:
    """Whether it is hardly above that of a guess among the labels; False where their number is not known."""
    return chance is not None and accuracy <= chance + NEAR * (1 - chance)


def of_classes(classes: int) -> float | None:
    """Accuracy of a guess among so many labels; None where that is not known."""
    return 1 / classes if classes > 1 else None


def nothing_words(accuracy: float, chance: float, of: str = "chance") -> str:
    """What is found of it, "learned nothing without attack (8.1 %, as chance is 10.0 %)". of: what is as accurate."""
    return f"{NOTHING} ({100 * accuracy:.1f} %, as {of} is {100 * chance:.1f} %)"
