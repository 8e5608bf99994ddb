"""What a notebook is told of a name that a module has not, and of a field that a part has not: what was perhaps meant.

Commands say it in one line (`user_errors.py`). Here it stands in the error itself, or in a note below it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")


def told(module: Mapping[str, Any]) -> Callable[[str], Any]:
    """A module's `__getattr__`, of its globals; the parts that it offers tell of their fields from then on."""
    offered: Sequence[str] = module["__all__"]
    for name in offered:
        telling(module[name])

    def absent(name: str) -> Any:
        words = f"module {module['__name__']!r} has no attribute {name!r}"
        if not name.startswith("_"):  # whatever else is asked for is asked for by a program
            from .fl.near_names import near

            meant = near(name, offered)
            said = meant.startswith(":")  # of what is called otherwise, or is not here, more than a name
            words += (meant if said else _elsewhere(name) or meant) or f"; it has {', '.join(offered)}"
        raise AttributeError(words, name=None, obj=None)  # Python would add another guess of its own

    return absent


PARTS = ("algorithms", "attacks", "callbacks", "data", "models", "partitions", "protections", "rules", "threats")
"""The modules of `cloister` that hold names to write scenarios with."""


def _elsewhere(name: str) -> str:
    """Which module of ours has it; empty where none has."""
    found = [part for part in PARTS if name in import_module(f"{__package__}.{part}").__all__]
    return f"; it is {__package__}.{found[0]}.{name}" if found else ""


_telling: set[type] = set()


def telling(part: T) -> T:
    """The same; a dataclass that is made with fields that it has not, or without those that it needs, says which it takes,
    and one with a value of another kind, which.
    """
    if not isinstance(part, type) or not is_dataclass(part) or part in _telling:
        return part
    made: Any = part.__init__

    @wraps(made)
    def telling_init(self: object, *args: Any, **named: Any) -> None:
        try:
            made(self, *args, **named)
        except (TypeError, AttributeError) as error:
            from .fl.field_types import wrong_types
            from .user_errors import meant_of

            words = meant_of(part, str(error))
            if not words and all(hasattr(self, field.name) for field in fields(part)):  # they were taken, and failed later
                words = next(wrong_types(self, part.__name__), "")
            if words:
                error.add_note(words.removeprefix(": ").removeprefix("; "))
            raise

    _telling.add(part)
    setattr(part, "__init__", telling_init)  # noqa: B010 - mypy takes no method for another
    return part
