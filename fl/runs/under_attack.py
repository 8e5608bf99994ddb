"""What is said of a run with an adversary: how many clients are corrupt, what they do, and what is left to the loyal ones."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import numpy as np

from ..functions import brief, name_of
from .metrics import late_count

DEEDS = {
    "data": "data by {}",
    "local": "training by {}",
    "upload": "uploads by {}",
    "shown": "sketches by {}",
    "choice": "choices by {}",
}
"""What members do, by the field of an adversary that says it."""


def under_attack(
    adversary: Any, members: Collection[int], clients: Collection[int], lines: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The entry of a run's summary. lines: of every round, in order.

    corrupt, of: how many of how many clients. by: what they do, in words. accuracy_loyal: mean over the others of their accuracy
    late in the run, 0 for whom no model serves; None where all are corrupt, or nothing was evaluated. evaluations: how many of
    the last it is taken over.
    """
    loyal = sorted(set(clients) - set(members))
    evaluated = [line["accuracy"] for line in lines if line.get("accuracy")]
    late = evaluated[-late_count(len(evaluated)) :]
    known = [[of.get(str(i)) or 0.0 for i in loyal] for of in late] if loyal else []
    mean = float(np.mean(known)) if known else None
    said = {"corrupt": len(members), "of": len(clients), "by": deeds(adversary)}
    return said | {"accuracy_loyal": mean, "evaluations": len(known)}


def deeds(adversary: Any) -> list[str]:
    """What members do, each in a few words: "uploads by IPM(eps=1.0)"; last in which rounds, if not in all."""
    parts = ((words, getattr(adversary, name, None)) for name, words in DEEDS.items())
    found = [words.format(_called(part)) for words, part in parts if part is not None]
    factor = getattr(adversary, "samples", 1.0)
    found += [f"numbers of examples times {factor:g}"] if factor != 1 else []
    when = getattr(getattr(adversary, "when", None), "in_words", "")
    return [*found, when] if found and when else found


def _called(part: Any) -> str:
    """An attack with what is not as usual, those inside it likewise; a function by its name."""
    function = getattr(part, "function", None)
    if callable(function):
        return name_of(function)
    if not is_dataclass(part) or isinstance(part, type):
        return name_of(part)
    told = ((f, getattr(part, f.name)) for f in fields(part) if f.init)
    said = [f"{f.name}={_valued(value)}" for f, value in told if f.default is MISSING or not _same(f.default, value)]
    return f"{name_of(part)}({', '.join(said)})"


def _valued(value: Any) -> str:
    return _called(value) if is_dataclass(value) or callable(value) else brief(value)


def _same(usual: Any, value: Any) -> bool:
    try:
        return bool(usual == value)
    except (ValueError, RuntimeError):  # of arrays, whose numbers are compared one by one
        return False
