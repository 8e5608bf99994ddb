"""What algorithms must be told of a run's rounds, and what is usual of it."""

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import Any, TypeVar

SHARES = {"rounds_before": (4, "a quarter"), "every": (8, "an eighth")}
"""Of the run's rounds, by field: one of how many, and that in words."""
EXAMPLE = 40


Kind = TypeVar("Kind", bound=type)


def says_what_is_usual(kind: Kind) -> Kind:
    """A class of algorithms, made without a field that has a usual value, ends in a TypeError with `usual_words`."""
    make: Callable[..., None] = vars(kind)["__init__"]

    @wraps(make)
    def init(self: object, *args: Any, **kwargs: Any) -> None:
        try:
            make(self, *args, **kwargs)
        except TypeError as error:
            if "missing" not in str(error):
                raise
            raise TypeError(f"{error}{usual_words(kind)}") from None

    type.__setattr__(kind, "__init__", init)
    return kind


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
