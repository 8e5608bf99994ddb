"""Whether training came to nothing though all numbers stayed finite: by the loss on held-out data, over the evaluated rounds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, log, sqrt
from typing import Any

import numpy as np

from ..clients.losses import CROSS_ENTROPY
from ..data.population import Population

GROWN = 5.0
"""A mean loss so many times what guessing costs, or, where that is not known, what it was after the first evaluated round, is of
a run that diverged."""
ERRORS = 2.0
"""Accuracy above that of a guess by up to so many standard errors, of as many records as were tested, is that of guessing."""
SLIGHT = 0.03
"""A loss below that of guessing by up to this part of it is about the same."""
ROUNDS = 5
"""Of fewer rounds a run need not be better than guessing: it is short."""


@dataclass(frozen=True, slots=True)
class Guess:
    """How often who knows how frequent labels are and nothing else is right, and how many test records that is of; 0 where nobody
    knows. loss: its cross entropy, that of the labels; 0 where nobody knows.
    """

    share: float
    records: int
    loss: float = 0.0

    @property
    def most(self) -> float:
        """The largest accuracy that is no better beyond chance."""
        return self.share + ERRORS * sqrt(self.share * (1 - self.share) / max(1, self.records))


def guess_of(population: Population) -> Guess:
    """Of the test records of all clients; those that several share count once. Of targets that are numbers nothing is known."""
    tests = {(of.test.y.data_ptr(), len(of.test)): of.test.y for of in population.clients.values()}
    found = np.concatenate([y.numpy().ravel() for y in tests.values() if not y.is_floating_point()] or [np.zeros(0, np.int64)])
    known = found[found >= 0]
    shares = np.bincount(known) / max(1, len(known))
    entropy = float(-(shares[shares > 0] * np.log(shares[shares > 0])).sum())
    return Guess(max(float(shares.max(initial=0.0)), 1 / max(1, population.classes)), len(known), entropy)


def one_label(population: Population) -> float:
    """Accuracy of whoever says one label always, that by which it is largest, in the mean over clients. Nobody knows: 0."""
    tests = [of.test.y.flatten() for of in population.clients.values()]
    if any(y.is_floating_point() for y in tests):
        return 0.0
    known = [y[y >= 0].numpy() for y in tests]
    classes = max((1 + int(y.max()) for y in known if len(y)), default=0)
    shares = [np.bincount(y, minlength=classes) / max(1, len(y)) for y in known]
    return float(np.mean(shares, axis=0).max(initial=0.0)) if shares else 0.0


def diverged(lines: Sequence[Mapping[str, Any]], loss: object, classes: int, guessed: Guess) -> dict[str, float]:
    """The mean losses of the first and of the last evaluation and that of guessing, where the last is far too large, or where
    after some rounds neither it nor accuracy is better than guessing; else nothing. clients, of: where it is so large by less
    than half of the clients, how many these are, and of how many; each says its own loss, which need not be so.

    lines: of a run's rounds, each with clients' losses where it was evaluated. loss: what clients train by; of cross entropy a
    guess costs ln(classes), or as much as the labels' own entropy, of any other loss nothing is known of one. guessed: how often
    a guess is right, and what it costs.
    """
    evaluated = [line for line in lines if line.get("loss")]
    means = [_mean(line["loss"]) for line in evaluated]
    if not means or not isfinite(means[0]) or not isfinite(means[-1]):
        return {}
    first, last, accuracy = means[0], means[-1], evaluated[-1].get("accuracy_mean")
    guess = log(classes) if loss == CROSS_ENTROPY and classes > 1 else 0.0
    found = {"first": first, "last": last, **({"guess": guess} if guess else {})}
    if last > GROWN * (guess or first) > 0:
        losses = [value or 0.0 for value in evaluated[-1]["loss"].values()]
        far = sum(loss > GROWN * (guess or first) for loss in losses)
        return found | ({"clients": far, "of": len(losses)} if far < len(losses) / 2 else {})
    most = replace(guessed, records=max(guessed.records, len(evaluated[-1]["loss"]))).most  # of each client one at least
    at_chance = guess > 0 and accuracy is not None and accuracy <= most
    best = min(guess, guessed.loss or guess)
    return found | {"guess": best} if at_chance and last >= (1 - SLIGHT) * best and len(lines) >= ROUNDS else {}


def _mean(losses: Mapping[str, float | None]) -> float:
    """NaN where one is not finite: that is said by itself."""
    return float(np.mean([np.nan if value is None else value for value in losses.values()]))
