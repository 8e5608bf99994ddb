"""Sums that a protection did not open, so that what was in them moved no model."""

from collections.abc import Iterable
from dataclasses import dataclass

from ..fl.runs.lost_round import into_slots, what_may_help, why_withheld
from ..fl.runs.scenario import Scenario
from ..protocol.core.errors import Fault
from ..protocol.parts.slot_words import NOBODY
from ..protocol.view.answers import BelowFloor


@dataclass(frozen=True, slots=True)
class Withheld:
    """One of a round. reason: why. may_help: what may have such a sum opened. slot: whether it is a slot's."""

    round: int
    reason: str
    may_help: str
    slot: bool


def withheld(round: int, refused: Iterable[BelowFloor], faults: Iterable[Fault], scenario: Scenario) -> Withheld | None:
    """The first of a round; None where there is none. A slot that nobody chose has nothing that could be withheld.

    refused, faults: of the round.
    """
    faults = [*faults]
    for sum_ in refused:
        if not sum_.shut.startswith(NOBODY):
            return Withheld(round, why_withheld(sum_, faults), what_may_help(sum_, scenario, faults), into_slots(scenario))
    return None
