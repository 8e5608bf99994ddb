"""A point that a search found, as the scenario that it is: for attacks of the user's own, which no file but theirs can write."""

from collections.abc import Mapping
from typing import Any

from ..fl.runs.scenario import Scenario
from ..threat_models.knowledge import Level
from ..threat_models.search.play import Try, scenario_of
from .workers import Origin


def replayed(
    where: tuple[str, str | None, tuple[str, ...], str | None],
    *,
    only: tuple[str, ...],
    knows: str,
    fixed: tuple[tuple[str, str], ...],
    numbers: Mapping[str, Any],
    attackers: int,
    seed: int,
) -> Scenario:
    """The scenario of a point. where: file, defence, settings and partition. Raises ValueError of one line."""
    file, against, settings, partition = where
    origin = Origin(file, against, settings, None, Level[knows], only, fixed, partition)
    return scenario_of(origin.space(), Try(numbers, attackers, seed), None)
