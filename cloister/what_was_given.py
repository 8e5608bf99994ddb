"""What a function of Cloister's was called with, where that is not what it takes: errors that say what to give."""

from pathlib import Path
from typing import Any

from .fl.functions import brief
from .fl.runs.comparison import Comparison
from .fl.runs.scenario import Scenario
from .threat_models.evaluation import Evaluation

COMMANDS: tuple[tuple[type[Any], str], ...] = ((Scenario, "run"), (Evaluation, "evaluate"), (Comparison, "compare"))
"""What plays each of them, by its name in Python and as a command."""


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
