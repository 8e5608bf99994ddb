"""Whether the parts of a scenario are what they have to be, said in a user's words."""

from collections.abc import Callable, Mapping
from inspect import isroutine
from math import inf
from numbers import Real
from typing import Any

from torch import nn

from ..clients.training import Training
from ..field_types import made, wrong_types
from ..fields_at_fault import about
from ..functions import brief, misfit, name_of

PARTS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "data": (callable, "data.Digits()"),
    "partition": (callable, "partitions.Iid(clients=20), or leave it out if the data have their clients already"),
    "model": (lambda part: callable(part) or isinstance(part, nn.Module), "models.Mlp(hidden=(64,)), or a module of torch"),
    "training": (lambda part: isinstance(part, Training), "Training(epochs=1, batch=10, lr=0.1)"),
    "algorithm": (lambda part: hasattr(part, "needs") and hasattr(part, "round"), "algorithms.FedAvg()"),
    "protection": (lambda part: hasattr(part, "gives") and hasattr(part, "open"), "protections.Masked()"),
}
"""What each has to be, and an example."""
MORE: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "execution": (callable, "Fast(), or leave it out"),
    "faults": (lambda part: part is None or callable(part), "None"),
    "arrivals": (lambda part: isinstance(part, Mapping), "{3: 10} for client 3 from round 10 on"),
    "adversary": (
        lambda part: part is None or hasattr(part, "corrupt"),
        "attacks.Adversary(members=attacks.Pool(2), upload=attacks.MinusGradient())",
    ),
}
"""The same of those that have a default."""
WHOLE = {"rounds": 1, "seed": -inf, "evaluate_every": 1}
"""Whole numbers, and the least that each may be."""


def check_parts(scenario: Any) -> None:
    """Raises ValueError of one line for a class in the place of a value, a text, another kind of number, no such part, or a part
    with a field of another type."""
    for name in PARTS:
        with about(name):
            check_part(name, getattr(scenario, name), name)
    for name, (fits, example) in MORE.items():
        with about(name):
            _check(name, getattr(scenario, name), name, fits, example)
            for words in wrong_types(getattr(scenario, name), name):
                raise ValueError(words)
    for name, least in WHOLE.items():
        with about(name):
            if type(value := getattr(scenario, name)) is not int:
                raise ValueError(f"{name} is {value!r}; give a whole number, for example {name}=10")
            if value < least:
                raise ValueError(f"{name} is {least} or more, not {value}")
    with about("validation"):
        if not isinstance(scenario.validation, Real) or not 0 <= float(scenario.validation) < 1:
            raise ValueError(f"validation is a share from 0 to below 1, not {scenario.validation!r}")
    with about("name"):
        if not isinstance(scenario.name, str) or not scenario.name:
            raise ValueError(f"name is {scenario.name!r}; give a text, for example name='mine'")


def check_part(kind: str, part: Any, name: str) -> None:
    """The same of one part. kind: of `PARTS`. name: what errors call it."""
    fits, example = PARTS[kind]
    _check(kind, part, name, fits, example)
    for words in wrong_types(part, name):
        raise ValueError(words)


def _check(kind: str, part: Any, name: str, fits: Callable[[Any], bool], example: str) -> None:
    if isinstance(part, type):
        raise ValueError(f"{name} is the class {part.__name__} itself; make one of it: {made(part)}")
    if isinstance(part, str):
        raise ValueError(f"{name} is the text {part!r}; give an object, for example {kind}={example}")
    if not fits(part):
        if kind == "algorithm" and hasattr(part, "weights"):
            example = f"algorithms.RobustFedAvg(rule={brief(part)}): a robust rule stands in an algorithm"
        elif kind == "algorithm" and callable(part) and not misfit(part, ["updates"]):
            rule = name_of(part) + ("" if isroutine(part) else "(...)")
            example = f"algorithms.RobustFedAvg(rule={rule}) of an aggregator of updates, ByzFL's or your own"
        raise ValueError(f"{name} is {brief(part)}, which is none; give one, for example {kind}={example}")


def check_names(field: str, given: Mapping[Any, Any]) -> None:
    """Raises ValueError of one line for a name that is no text: what is written down by it would not be found again."""
    for name in given:
        if not isinstance(name, str):
            raise ValueError(f"{field} are named by texts, and {name!r} is none: write {str(name)!r}")
        if not name.strip():
            raise ValueError(f"{field} are named by texts, and {name!r} is empty: give it a name")


def check_named(kind: str, given: Any) -> None:
    """The same of several by name, in the field of an evaluation or a comparison that has the plural's name."""
    if not isinstance(given, Mapping):
        raise ValueError(f"{kind}s are a dict by name, not {brief(given)}; for example {kind}s={{'a': {PARTS[kind][1]}}}")
    check_names(f"{kind}s", given)
    for name, part in given.items():
        check_part(kind, part, f"{kind}s[{name!r}]")
