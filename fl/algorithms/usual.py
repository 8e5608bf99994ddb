"""What algorithms must be told of a run's rounds, and what is usual of it."""

from dataclasses import MISSING, fields, is_dataclass
from typing import Any

SHARES = {"rounds_before": (4, "a quarter"), "every": (8, "an eighth")}
"""Of the run's rounds, by field: one of how many, and that in words."""
EXAMPLE = 40


def usual_fields(kind: Any, rounds: int) -> dict[str, int]:
    """Of a class of algorithms, the fields without a default that have a usual value, for a run of so many rounds."""
    if not is_dataclass(kind):
        return {}
    required = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
    return {name: max(1, rounds // SHARES[name][0]) for name in required if name in SHARES}


def usual_words(kind: Any) -> str:
    """The same in words, as the end of an error for what was not given; empty where nothing is usual."""
    found = usual_fields(kind, EXAMPLE)
    if not found:
        return ""
    shares = " and ".join(f"{SHARES[name][1]} for {name}" for name in found)
    example = ", ".join(f"{name}={value}" for name, value in found.items())
    return f"; usual is, of the run's rounds, {shares}: of {EXAMPLE} rounds, {kind.__name__}({example})"
