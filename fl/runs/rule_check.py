"""Whether a robust rule can give anything of as many updates as a round has, tried on made-up ones before anything is played."""

from contextlib import suppress
from typing import Any

import numpy as np

from ..own_code import has_own
from ..robust.aggregate import aggregate
from ..robust.rule import TooFew
from .feasibility import sizes_of_sums
from .scenario import Scenario

NUMBERS = 8
"""Of every made-up update."""


def rule_doubts(scenario: Scenario, clients: int) -> list[str]:
    """A sentence where the rule of a scenario's algorithm needs more updates than its largest round of so many clients has.

    A rule of one's own is not called here. What else a rule raises is said where it is played.
    """
    rule: Any = getattr(scenario.algorithm, "rule", None)
    if rule is None or has_own(rule):
        return []
    n = max(sizes_of_sums(scenario, clients))
    rng = np.random.default_rng(0)
    updates = rng.standard_normal((n, NUMBERS), dtype=np.float32)
    for extra in (None, np.ones(NUMBERS, np.float32)):  # as some take one more, and others refuse it
        with suppress(ValueError), np.errstate(all="ignore"):
            try:
                aggregate(rule, updates, rng, extra=extra)
            except TooFew as error:
                return [f"no round moves a model, as {n} updates are all that one has: {error}"]
    return []
