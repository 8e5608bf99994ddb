"""Why the first rounds of a run come to nothing, in words that say what would help."""

from collections.abc import Iterable, Mapping

from ...protocol.core.errors import OF_CLIP, Fault
from ...protocol.view.answers import BelowFloor
from .scenario import Scenario


def too_few(sum_: BelowFloor, enough: bool) -> str:
    """Of a sum that is below the floor though its clients had something to sum. enough: whether they are as many as the floor."""
    weighs = ", algorithm.by_samples=False, protection.max_samples near what the largest client has" if enough else ""
    return f"{sum_.words}, and there is no other: more clients{weighs} or a lower protection.floor are needed"


def unused_of(faults: Iterable[Fault]) -> dict[int, str]:
    """Clients whose updates were there and could not be used, with the reason of each."""
    return {fault.blame: fault.reason for fault in faults if fault.rejected or fault.reason.endswith(OF_CLIP)}


def unusable(unused: Mapping[int, str], floor: int, scenario: Scenario) -> str:
    """Of a sum that is, because updates could not be used. unused: by client, why."""
    clip = ", or a larger protection.clip" if hasattr(scenario.protection, "clip") else ""
    who = f"the update{'s' * (len(unused) > 1)} of {len(unused)} client{'s' * (len(unused) > 1)}"
    return (
        f"{who} could not be used ({next(iter(unused.values()))}), and a sum of the others is below the floor of {floor};"
        f" inputs of one scale, a smaller training.lr{clip} may help"
    )
