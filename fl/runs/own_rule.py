"""Algorithms and adversaries with code of a user's own: each of many runs in a process has them as they were given."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

from ..own_code import has_own
from .scenario import Scenario


def as_given(scenario: Scenario) -> Scenario:
    """The same with copies of an algorithm and an adversary that have code of one's own: what the object of a rule or
    an attack keeps from round to round is not carried from cell to cell of a grid. What cannot be copied stays, as functions do.
    """
    found: dict[str, Any] = {name: part for name in ("algorithm", "adversary") if has_own(part := getattr(scenario, name))}
    copies = {name: _copied(part) for name, part in found.items()}
    return replace(scenario, **copies) if copies else scenario


def _copied(part: Any) -> Any:
    try:
        return deepcopy(part)
    except Exception:  # whatever code of the user's own raises
        return part
