"""Whether training came to nothing though all numbers stayed finite: by the loss on held-out data, over the evaluated rounds."""

from collections.abc import Mapping, Sequence
from math import isfinite, log
from typing import Any

import numpy as np

from ..clients.losses import CROSS_ENTROPY

GROWN = 5.0
"""A mean loss so many times what guessing costs, or, where that is not known, what it was after the first evaluated round, is of
a run that diverged."""
TIMES = 1.5
"""Accuracy up to so many times a guess's is about that of guessing."""
ROUNDS = 5
"""Of fewer rounds a run need not be better than guessing: it is short."""


def diverged(lines: Sequence[Mapping[str, Any]], loss: object, classes: int) -> dict[str, float]:
    """The mean losses of the first and of the last evaluation and that of guessing, where the last is far too large, or where
    neither it nor accuracy is better than guessing after some rounds; else nothing.

    lines: of a run's rounds, each with clients' losses where it was evaluated. loss: what clients train by; of cross entropy a
    guess costs ln(classes), of any other loss nothing is known of one.
    """
    evaluated = [line for line in lines if line.get("loss")]
    means = [_mean(line["loss"]) for line in evaluated]
    if not means or not isfinite(means[0]) or not isfinite(means[-1]):
        return {}
    first, last, accuracy = means[0], means[-1], evaluated[-1].get("accuracy_mean")
    guess = log(classes) if loss == CROSS_ENTROPY and classes > 1 else 0.0
    found = {"first": first, "last": last, **({"guess": guess} if guess else {})}
    if last > GROWN * (guess or first) > 0:
        return found
    at_chance = guess > 0 and accuracy is not None and accuracy <= TIMES / classes
    return found if at_chance and last >= guess and len(lines) >= ROUNDS else {}


def _mean(losses: Mapping[str, float | None]) -> float:
    """NaN where one is not finite: that is said by itself."""
    return float(np.mean([np.nan if value is None else value for value in losses.values()]))
