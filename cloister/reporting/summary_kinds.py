"""Whether a run's summary has what it is read for: numbers, lists and objects where these are to be, as far as they are there."""

from collections.abc import Mapping
from typing import Any

LISTS = ("clusters", "rejected", "below_floor", "turned_down", "corrupt", "not_finite", "apart", "unplaced", "doubts")
OBJECTS = ("groups", "disclosed", "names", "account", "privacy", "metrics", "diverged", "unmoved", "stopped", "yardsticks")
NUMBERS = ("rounds", "seed", "accuracy_mean", "accuracy_worst", "accuracy_before_clustering", "loss_mean", "ari", "purity")
WRITTEN = ("nan", "inf", "-inf")
"""Numbers that are words in JSON."""


def wrong_kind(summary: Mapping[str, Any]) -> str:
    """What of a summary is of another kind than every run writes it, in words; empty where all is. None stands for nothing known.

    Names of later versions are passed over.
    """
    for name, value in summary.items():
        if value is None:
            continue
        if name in LISTS and not isinstance(value, list):
            return f"{name} is {value!r}, where a list is to be"
        if name in OBJECTS and not isinstance(value, dict):
            return f"{name} is {value!r}, where an object is to be"
        if name in NUMBERS and value not in WRITTEN and (not isinstance(value, int | float) or isinstance(value, bool)):
            return f"{name} is {value!r}, where a number is to be"
        if name == "disclosed" and not all(isinstance(rows, list) for rows in value.values()):
            return "disclosed has for some party no list"
        if name == "clusters" and not all(isinstance(members, list) for members in value):
            return "clusters has one that is no list of clients"
    return ""
