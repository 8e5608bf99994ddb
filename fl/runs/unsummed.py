"""Whether a run is over in which no update was ever summed: its clients have what they learned alone, whatever the method."""

from collections.abc import Mapping, Sequence
from typing import Any

SUMS = ("sums", "personal sums", "coordinates", "fusion")
"""What answers with updates of several clients are called; those of slots are told apart by their words."""
OF_COUNTS = "how many clients chose each"
"""The beginning of what is told of slots before any is summed."""


def nothing_summed(
    lines: Sequence[Mapping[str, Any]], answers: Sequence[Mapping[str, Any]], faults: Sequence[Mapping[str, Any]]
) -> str:
    """Why, of the last round in which it is known; empty where there was a sum, or one was withheld in some rounds alone.

    lines: of all rounds. answers, faults: as the folder has them.
    """
    if not lines or not all(line["below_floor"] for line in lines) or any(map(is_sum, answers)):
        return ""
    if silent := lines[-1].get("unanswered"):
        return str(silent)
    shut = [fault["reason"] for fault in faults if "stay shut" in fault["reason"]]
    few = [row for row in lines[-1]["below_floor"] if row["members"] or row.get("hidden")]
    if shut:
        return str(shut[-1])
    return few[-1].get("why", "too few clients were in a sum") if few else "sums were below the floor"


def is_sum(answer: Mapping[str, Any]) -> bool:
    """Whether an answer tells updates of several clients together."""
    of_slots = answer.get("what") == "slots" and not str(answer.get("words")).startswith(OF_COUNTS)
    return bool(answer.get("scalars")) and (answer.get("what") in SUMS or of_slots)
