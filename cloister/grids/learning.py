"""Whether a run's training diverged or came to nothing, by its line in a grid, and what may help each."""

from ..fl.runs.results_folder import Row
from .spread import metric

GROWN = 2
"""A loss at the end so many times that of guessing is said to have diverged; one that is less, to have come to nothing."""
SMALLER = "A smaller training.lr, or inputs of one scale, may help"
LONGER = "More rounds, or another training.lr, may help"


def guesses(row: Row) -> bool:
    """Whether after some rounds neither loss nor accuracy was better than that of a guess (`fl.runs.diverged`)."""
    return metric(row, "diverged", "last") < GROWN * metric(row, "diverged", "guess")


def diverged(row: Row) -> bool:
    """Whether some loss is not finite at the end, or far above that of guessing."""
    return bool(row.get("not_finite")) or (bool(row.get("diverged")) and not guesses(row))
