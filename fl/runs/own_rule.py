"""Algorithms with code of a user's own: each of many runs in a process has one as it was given."""

from copy import deepcopy
from dataclasses import replace

from ..own_code import has_own
from .scenario import Scenario


def as_given(scenario: Scenario) -> Scenario:
    """The same with a copy of an algorithm that has code of one's own: what a rule keeps from round to round is not carried from
    cell to cell of a grid. What cannot be copied stays.
    """
    if not has_own(scenario.algorithm):
        return scenario
    try:
        return replace(scenario, algorithm=deepcopy(scenario.algorithm))
    except Exception:  # whatever code of the user's own raises
        return scenario
