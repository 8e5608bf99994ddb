"""What a comparison was built of, where that is not what it takes: errors that name the field and say what to give."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..functions import brief
from .parts_check import check_named, check_names, check_part
from .scenario import Scenario


def check_parts(built: Any, method: type[Any], search: type[Any]) -> None:
    """Raises ValueError for a comparison whose parts, or the names that it gives to some of them, are of another kind."""
    if not isinstance(built.name, str) or not built.name.strip():
        raise ValueError(f'name is a text, for example name="digits", not {brief(built.name)}')
    _check_named("data", built.data, '{"digits": scenario}')
    _check_named("methods", built.methods, '{"FedAvg": Method(algorithm=FedAvg())}')
    _check_named("protections", built.protections, '{"Masked": Masked()}')
    for name, scenario in built.data.items():
        if not isinstance(scenario, Scenario):
            raise ValueError(f"data[{name!r}] is a Scenario, not {brief(scenario)}: it says which data, model and training")
    for name, given in built.methods.items():
        if not isinstance(given, method):
            raise ValueError(f"methods[{name!r}] is a Method, not {brief(given)}: give {_method(given, method)}")
        if not (hasattr(given.algorithm, "needs") or callable(given.algorithm)):
            raise ValueError(f"methods[{name!r}].algorithm is an algorithm, for example FedAvg(), not {brief(given.algorithm)}")
        _check_list(f"methods[{name!r}].fits", given.fits, "names of data")
        _check_grid(name, given.grid)
    check_named("protection", built.protections)
    _check_named("attacks", built.attacks, '{"minus": Adversary(...)}')
    _check_named("measures", built.measures, '{"heading": function}')
    for name, attack in built.attacks.items():
        if not hasattr(attack, "corrupt") or isinstance(attack, type):
            raise ValueError(f"attacks[{name!r}] is an Adversary(members=..., upload=...), not {brief(attack)}")
    for name, measure in built.measures.items():
        if not callable(measure):
            raise ValueError(f"measures[{name!r}] is a function of a simulation, not {brief(measure)}")
    _check_list("attacked", built.attacked, "names of protections")
    if isinstance(built.margin, bool) or not isinstance(built.margin, int | float):
        raise ValueError(f"margin is a number between 0 and 1, not {brief(built.margin)}")
    _check_list("seeds", built.seeds, "whole numbers")
    if wrong := [seed for seed in built.seeds if type(seed) is not int]:
        raise ValueError(f"seeds are whole numbers, and {brief(wrong[0])} is none")
    if built.search is not None and not isinstance(built.search, search):
        raise ValueError(f"search is a Search(seeds=..., configurations=...) or None, not {brief(built.search)}")
    if built.search is not None:
        check_part("protection", built.search.protection, "search.protection")


def _check_named(field: str, given: object, example: str) -> None:
    if not isinstance(given, Mapping):
        raise ValueError(f"a comparison's {field} go by name, {field}={example}, and not {brief(given)}")
    check_names(field, given)


def _check_list(field: str, given: object, what: str) -> None:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ValueError(f"{field} are {what}, with a comma even after one alone: ({given!r},), not {given!r}")


def _check_grid(name: str, grid: Mapping[str, Any]) -> None:
    for path, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise ValueError(f"the grid of {name} has values to try for {path}: ({values!r},), not {values!r}")


def _method(given: object, method: type[Any]) -> str:
    """A method as it would be written, in few words."""
    return "Method(algorithm=...)" if given is method else f"Method(algorithm={_made(given)})"


def _made(given: object) -> str:
    """An algorithm as it would be written, in few words."""
    if isinstance(given, type):
        return f"{given.__name__}()"
    return f"{type(given).__name__}(...)" if hasattr(given, "needs") else "FedAvg()"
