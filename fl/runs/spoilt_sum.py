"""A sum that a client spoilt by an input that is no update: what happened, and whose it is, as far as it can be told."""

from collections.abc import Iterable

from ...protocol.core.errors import OF_NO_UPDATE, UNREADABLE, Fault
from ...protocol.view.answers import BelowFloor
from .scenario import Scenario


def spoilt_by(sum_: BelowFloor, faults: Iterable[Fault]) -> str:
    """What the server found in a sum that it opened, and that is none of updates; empty where it did not."""
    seen = (f.reason for f in faults if f.by is None or f.by < 0)  # and not the word of a client, which may be false
    why = (reason for reason in seen if UNREADABLE in reason or OF_NO_UPDATE in reason)
    of = next((reason for reason in why if f" {sum_.name} " in reason), "")
    few = len(sum_.clients)
    return f"a sum over {few} client{'s' * (few != 1)} was spoilt by an input that is no update ({of})" if of else ""


def whose_it_is(scenario: Scenario) -> str:
    """As far as it can be told under this protection, and what helps."""
    out = "in a new run, leave clients out in turn until its sums can be read, and look at what the one left out runs"
    how = type(scenario.protection).__name__
    named = " unless the method compares updates" if hasattr(scenario.protection, "max_norm") else ""
    return (
        f"whose it is cannot be told under {how}{named}: see that all run the same release and the agreed scenario; else, {out}"
    )
