"""What a function of Cloister's was called with, where that is not what it takes: errors that say what to give."""

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, get_type_hints

from .fl.field_types import fits, instead
from .fl.functions import brief
from .fl.near_names import near
from .fl.runs.comparison import Comparison
from .fl.runs.scenario import Scenario
from .threat_models.evaluation import Evaluation

COMMANDS: tuple[tuple[type[Any], str], ...] = ((Scenario, "run"), (Evaluation, "evaluate"), (Comparison, "compare"))
"""What plays each of them, by its name in Python and as a command."""
P = ParamSpec("P")
T = TypeVar("T")


def said(**examples: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A function that says what it takes where it is called with something else. examples: what arguments may be.

    The first argument it looks at by itself (`check_given`).
    """

    def decorated(function: Callable[P, T]) -> Callable[P, T]:
        what = f"cloister.{function.__name__}"
        takes = signature(function)

        @wraps(function)
        def called(*args: P.args, **named: P.kwargs) -> T:
            if wrong := next((name for name in named if name not in takes.parameters), ""):
                raise TypeError(f"{what} takes no {wrong!r}{_belongs(wrong, named[wrong], [*takes.parameters])}")
            kinds = get_type_hints(function)
            for name, value in [*takes.bind_partial(*args, **named).arguments.items()]:
                if name != next(iter(takes.parameters)) and not fits(kinds[name], value):
                    raise TypeError(f"{what}: {name} is {instead(kinds[name], value, examples.get(name, ''))}")
            return function(*args, **named)

        return called

    return decorated


def _belongs(name: str, value: object, takes: list[str]) -> str:
    """Where an argument belongs that a function does not take, as the end of a sentence."""
    like = near(name, takes)
    if not like and name in {field.name for field in fields(Scenario)}:
        return f": it is the scenario's; give dataclasses.replace(scenario, {name}={brief(value)})"
    return f"{like}; it takes {', '.join(takes)}"


def check_given(given: object, name: str, *kinds: type[Any], files: bool = False) -> None:
    """Raises TypeError that says what to give where it is of none of these kinds. name: of the function. files: whether it takes
    "FILE.py:NAME" too, as text.
    """
    if isinstance(given, kinds) or (files and isinstance(given, str)):
        return
    what = " or ".join(f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}" for kind in kinds)
    kind = kinds[0].__name__
    plays = next((command for of, command in COMMANDS if isinstance(given, of)), "")
    if plays:
        its = type(given).__name__
        hint = f"{'an' if its[0] in 'AEIOU' else 'a'} {its} is played by cloister.{plays}"
    elif isinstance(given, str | Path):
        file = f"{given}:NAME" if Path(given).suffix == ".py" else "FILE.py:NAME"
        hint = f'give "{file}" as text' if files else "import the scenario from that file, or play it with `cloister run`"
    else:
        hint = f"make one with {kind}(...)"
    raise TypeError(f"cloister.{name} takes {what}{', or the name of a file' * files}, not {brief(given)}: {hint}")
