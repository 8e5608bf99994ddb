"""Robust rules of a user's own: they are not called before a run, and each run has one as it was given."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

from ..own_code import is_own
from .scenario import Scenario

FIELDS = ("rule", "inner")
"""Of algorithms, that hold a rule."""


def has_own(rule: Any) -> bool:
    """Whether a rule, or a step of it, or the function that it is made of, is not ours."""
    parts = [rule, *getattr(rule, "steps", ()), getattr(rule, "rule", None)]
    return any(part is not None and (is_own(part) or hasattr(part, "function")) for part in parts)


def as_given(scenario: Scenario) -> Scenario:
    """The same with copies of rules of one's own: what one keeps from round to round is not carried into another run of this
    process. What cannot be copied stays.
    """
    algorithm: Any = scenario.algorithm
    held = {name: rule for name in FIELDS if (rule := getattr(algorithm, name, None)) is not None and has_own(rule)}
    if not held:
        return scenario
    try:
        return replace(scenario, algorithm=replace(algorithm, **deepcopy(held)))
    except Exception:  # whatever code of the user's own raises
        return scenario
