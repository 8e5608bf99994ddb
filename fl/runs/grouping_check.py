"""Whether a scenario has rounds enough for its algorithm to put clients into groups: one that never does is as good as a mean."""

from ..algorithms.cfl_gp import CFLGP
from ..algorithms.flic import FLIC
from ..algorithms.hardened_flic import HardenedFLIC
from ..algorithms.usual import SHARES
from .scenario import Scenario


def late_grouping(scenario: Scenario) -> str:
    """That no client is ever grouped, or no group trained, and why; empty where there is time for both. Who looks for communities
    for the record alone (`FLIC.trace`) wants no more.
    """
    algorithm, rounds = scenario.algorithm, scenario.rounds
    if isinstance(algorithm, CFLGP) and algorithm.models is None and algorithm.warm_up > rounds:
        return _never(algorithm, rounds, "warm_up", algorithm.warm_up)
    if not isinstance(algorithm, FLIC | HardenedFLIC) or algorithm.rounds_before < rounds or getattr(algorithm, "trace", False):
        return ""
    if isinstance(algorithm, FLIC) and algorithm.rounds_before > rounds:
        return _never(algorithm, rounds, "rounds_before", algorithm.rounds_before)
    set_to = f"(rounds_before={algorithm.rounds_before})"
    if isinstance(algorithm, FLIC):
        return (
            f"FLIC begins to group in the last of {_several(rounds)} {set_to}, so that no group trains a model of its own;"
            f" {_earlier('rounds_before', rounds)}"
        )
    return (
        f"in {_several(rounds)} clients of HardenedFLIC never begin to choose among models but after a fork {set_to}: where none"
        f" is made all share one model to the end; {_earlier('rounds_before', rounds)}"
    )


def _never(algorithm: object, rounds: int, field: str, value: int) -> str:
    return (
        f"{type(algorithm).__name__} never begins to group in {_several(rounds)} ({field}={value}): all clients share one model"
        f" to the end; {_earlier(field, rounds)}"
    )


def _earlier(field: str, rounds: int) -> str:
    usual = max(1, rounds // SHARES["rounds_before"][0])
    return (
        f"take algorithm.{field}={usual}, {SHARES['rounds_before'][1]} of them, or more rounds"
        if usual < rounds
        else "take more rounds"
    )


def _several(rounds: int) -> str:
    return f"{rounds} round{'s' * (rounds != 1)}"
