"""Findings of which 0 is what a guess finds in the mean: who finds less by what it has is no worse off than who has nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .experiment import Values


@dataclass(frozen=True, slots=True, eq=False)
class Ways:
    """Of each victim, (n,): what is found by the view and without it, to be compared in the mean; and what is known without it,
    to be held against the view's. moved: what is resampled in the place of values: by the view, without it, in clear. lift: by
    how much the first are above what was found; known has it, too.
    """

    here: Values
    alone: Values
    known: Values
    moved: Sequence[Values] | None
    lift: float = 0.0


def from_chance(here: Values, alone: Values, moved: Sequence[Values] | None) -> Ways:
    """Where less than nothing is found without the view, in the mean, it is 0: whoever does worse by sums guesses instead. Where
    the view finds less than nothing too, both are lifted by as much, and keep their spread: the same guess on both sides is no
    difference. Of each victim the better of sums and of guessing counts: what is by chance is by both.
    """
    if alone.mean() >= 0:
        return Ways(here, alone, alone, moved)
    better = here.mean() > alone.mean()
    lift = max(0.0, -float(here.mean() if better else alone.mean()))

    def lifted(of: Values) -> Values:
        return np.zeros_like(of) if better else of + lift

    if moved is not None:
        moved = [moved[0] + lift, lifted(moved[1]), moved[2]]
    return Ways(here + lift, lifted(alone), np.maximum(alone, 0.0) + lift, moved, lift)
