"""Whether what stands in fields of parts, or in a call, is of the types that are written there, in a user's words."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from inspect import isroutine
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np
from torch import nn
from typing_extensions import get_protocol_members, is_protocol

from .functions import brief, name_of
from .other_names import EXAMPLES
from .own import OURS, is_part_of_ours

TYPES: dict[Any, tuple[Any, str]] = {
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    str: (str, "a text"),
    bool: ((int, np.bool_), "True or False"),
    Path: (os.PathLike, "a path"),
    NoneType: (NoneType, ""),
}
"""What fits a field of each, and what that is called."""


def wrong_types(part: object, path: str) -> Iterator[str]:
    """A line for each field of a dataclass of ours, and of those in its fields, that holds what its type cannot be."""
    if not is_part_of_ours(part):
        return
    for field in fields(part):
        value, where = getattr(part, field.name, None), f"{path}.{field.name}"
        yield from _wrong(field.type, value, where, _example(field))
        yield from wrong_types(value, where)


def _wrong(kind: Any, value: object, where: str, example: str = "") -> Iterator[str]:
    """A line for a value that does not fit a type, or for each of several that do not."""
    inside = get_args(kind)
    if fits(kind, value):
        return
    if get_origin(kind) is tuple and inside[1:] == (...,) and isinstance(value, tuple | list):
        for k, one in enumerate(value):
            yield from _wrong(inside[0], one, f"{where}[{k}]")
    else:
        yield f"{where} is {instead(kind, value, example)}"


def fits(kind: Any, value: object) -> bool:
    """Whether a value is of a type. Of types that are not known here, everything is."""
    if kind in TYPES:
        return isinstance(value, TYPES[kind][0])
    origin, inside = get_origin(kind) or kind, get_args(kind)
    if origin in (UnionType, Union):
        return any(fits(one, value) for one in inside)
    if origin is Literal:
        return value in inside
    if origin is tuple and inside[1:] == (...,):
        return isinstance(value, tuple | list) and all(fits(inside[0], one) for one in value)
    if origin is tuple:
        return isinstance(value, tuple | list) and len(value) == len(inside) and all(map(fits, inside, value))
    if origin in (Sequence, Iterable):  # a text is a sequence of texts
        return isinstance(value, Iterable) and all(fits(inside[0], one) for one in (value if isinstance(value, Sequence) else ()))
    if origin is Mapping:
        return isinstance(value, Mapping)
    if origin is Callable:
        return callable(value)
    if not isinstance(origin, type) or origin.__module__.partition(".")[0] != OURS:
        return True
    if not is_protocol(origin):
        return isinstance(value, origin)
    if isinstance(value, type) and (is_dataclass(value) or not _is_call(origin)):
        return False  # it has the methods, and is none of those that are made of it
    return callable(value) if _is_call(origin) else _has_all(type(value), origin) or _has_all(value, origin)


def instead(kind: Any, value: object, example: str = "") -> str:
    """A value that does not fit a type, and what to give: "'a'; give a number"."""
    inside = get_args(kind)
    if isinstance(value, type) and any(
        _has_all(value, one) if is_protocol(one) else one in value.__mro__ for one in (kind, *inside)
    ):
        return f"{brief(value)}; make one of it: {made(value)}"
    several = get_origin(kind) is tuple and inside[1:] == (...,) and fits(inside[0], value)
    said = name_of(value) if isroutine(value) else brief(value)
    return f"{said}; give {f'one or several, in brackets: ({said},)' if several else example or _words(kind)}"


def made(part: type) -> str:
    """How one is made: with what it has to be told. A module by a function: one made in the file has other weights each time."""
    if issubclass(part, nn.Module):
        return f"lambda shape, classes: {part.__name__}(...)"
    if not is_dataclass(part):
        return f"{part.__name__}(...)"
    told = [f.name for f in fields(part) if f.default is f.default_factory]  # both are MISSING
    return f"{part.__name__}({', '.join(f'{name}=...' for name in told)})"


def _is_call(protocol: Any) -> bool:
    return get_protocol_members(protocol) == {"__call__"}


def _has_all(value: object, protocol: Any) -> bool:
    return all(hasattr(value, name) for name in get_protocol_members(protocol))


def _words(kind: Any) -> str:
    """What a type takes."""
    if kind in TYPES:
        return TYPES[kind][1]
    origin, inside = get_origin(kind) or kind, get_args(kind)
    if origin in (UnionType, Union):
        return " or ".join(filter(None, map(_words, inside)))
    if origin is Literal:
        return " or ".join(map(repr, inside))
    if origin is tuple and inside[1:] != (...,):
        return f"({', '.join(map(_words, inside))})"
    if origin is tuple or origin in (Sequence, Iterable):
        each = "" if inside[0] is Any else f", each {_words(inside[0])}"
        return f"a {'tuple' if origin is tuple else 'list'}{each}"
    if origin is Mapping:
        return "a dict"
    if origin is Callable:
        return "a function"
    if issubclass(origin, Enum):
        return " or ".join(f"{origin.__name__}.{one.name}" for one in origin)
    if not is_protocol(origin):
        return made(origin)
    beside = [one for one in vars(sys.modules[origin.__module__]).values() if isinstance(one, type) and is_dataclass(one)]
    like = [] if _is_call(origin) else [made(one) for one in beside if _has_all(one, origin)]
    return " or ".join(like[:3]) or f"what has {', '.join(sorted(get_protocol_members(origin)))}"


def _example(field: Field[Any]) -> str:
    """What a field of a protocol of ours may hold: what it holds by default, where that is short; of a function, too."""
    if field.name in EXAMPLES:
        return EXAMPLES[field.name]
    usual = field.default if field.default_factory is MISSING else field.default_factory()
    kind: Any = get_origin(field.type) or field.type
    if isroutine(usual):
        return f"a function, by default {usual.__module__}.{usual.__qualname__}"
    return repr(usual) if is_protocol(kind) and is_part_of_ours(usual) else ""
