"""Whether numbers, texts and tuples in the parts of a scenario are of their fields' types, in a user's words."""

from collections.abc import Iterator
from dataclasses import fields
from numbers import Integral, Real
from types import UnionType
from typing import Any, get_args, get_origin

import numpy as np

from .own_code import is_part_of_ours

TYPES: dict[Any, tuple[Any, str]] = {
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    str: (str, "a text"),
    bool: ((int, np.bool_), "True or False"),
}
"""What fits a field of each, and what that is called. Fields of other types are not looked at."""


def wrong_types(part: object, path: str) -> Iterator[str]:
    """A line for each field of a dataclass of ours, and of those in its fields, that holds what its type cannot be."""
    if not is_part_of_ours(part):
        return
    for field in fields(part):
        value, where = getattr(part, field.name, None), f"{path}.{field.name}"
        if wanted := _wanted(field.type, value):
            yield f"{where} is {value!r}; give {wanted}"
        yield from wrong_types(value, where)


def _wanted(kind: Any, value: Any) -> str:
    """What a field of this type takes, where the value is nothing of the kind; empty where it fits, or the type is another."""
    if isinstance(kind, UnionType):
        known = [one for one in get_args(kind) if one is not type(None)]
        return _wanted(known[0], value) if len(known) == 1 and value is not None else ""
    if kind in TYPES:
        fits, words = TYPES[kind]
        return "" if isinstance(value, fits) else words
    if get_origin(kind) is tuple and (inside := get_args(kind))[1:] == (...,) and inside[0] in TYPES:
        fits, words = TYPES[inside[0]]
        if isinstance(value, tuple | list) and all(isinstance(one, fits) for one in value):
            return ""
        return f"one or several, in brackets: ({value!r},)" if isinstance(value, fits) else f"a tuple, each {words}"
    return ""
