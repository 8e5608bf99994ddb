"""A sum that a client spoilt by an input that is no update: what happened, and whose it is, as far as it can be told."""

from collections.abc import Iterable

from ...protocol.core.errors import NOT_OF_INPUTS, OF_NO_INPUT, Fault
from ...protocol.core.session import SERVER
from ...protocol.view.answers import BelowFloor
from .scenario import Scenario

SPOILT = "was spoilt by an input that is no update"
TOO_FEW_OPENED = "failed at stage open", "failed at stage count", "were not opened"
"""In the server's own word of a sum that fewer opened than it takes."""


def spoilt_by(sum_: BelowFloor, faults: Iterable[Fault]) -> str:
    """What the server found in a sum that it opened, or members say of one that too few opened: that it is none of updates.

    Empty where nobody found that.
    """
    if sum_.shut:
        of = sum_.shut if _of_no_input(sum_.shut) else found_by_members(faults, sum_.shut)
        return f"what clients put into slots {SPOILT} ({of})" if of else ""
    faults = [*faults]
    seen = (f.reason for f in faults if f.by is None or f.by < 0)  # and not the word of a client, which may be false
    of = next((reason for reason in seen if _of_no_input(reason) and f" {sum_.name} " in reason), "")
    of = of or found_by_members(faults, f" {sum_.name} ")
    few = len(sum_.clients)
    return f"a sum over {few} client{'s' * (few != 1)} {SPOILT} ({of})" if of else ""


def _of_no_input(reason: str) -> bool:
    return any(words in reason for words in OF_NO_INPUT)


def found_by_members(faults: Iterable[Fault], name: str = "") -> str:
    """What clients say that were to open a sum, where too few did, as the server saw itself; empty where they say nothing.

    Which of a round's sums they mean they do not say. name: in the server's word of the one that came to nothing.
    """
    faults = [*faults]
    ended = (f.reason for f in faults if (f.by is None or f.by < 0) and f.blame == SERVER)
    said = [f for f in faults if f.blame == SERVER and f.reason.startswith(NOT_OF_INPUTS)]
    if not said or not any(name in reason and any(words in reason for words in TOO_FEW_OPENED) for reason in ended):
        return ""
    who = len({f.by for f in said if f.by is not None}) + sum(f.by is None for f in said)
    return f"{who} client{'s' * (who != 1)} that {'were' if who != 1 else 'was'} to open it found {said[0].reason}"


def whose_it_is(scenario: Scenario) -> str:
    """As far as it can be told under this protection, and what helps."""
    out = "in a new run, leave clients out in turn until its sums can be read, and look at what the one left out runs"
    how = type(scenario.protection).__name__
    named = " unless the method compares updates" if hasattr(scenario.protection, "max_norm") else ""
    return (
        f"whose it is cannot be told under {how}{named}: see that all run the same release and the agreed scenario; else, {out}"
    )
